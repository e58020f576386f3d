"""A trained classifier in other libraries' formats.

`hugging_face` writes a folder that transformers loads as a model for sequence
classification: it has the same encoder, pooler and dense layer on [CLS]. An
encoder with segments is a BERT there, one without a RoBERTa, with the tokenizer
that it has: so a DistilBERT has its pooler, which its own classifier has not.
transformers has no classifier on means of tokens: for a head that reads these,
the folder has the encoder, and the dense layer in `head.safetensors`.
`keras_preset` writes keras-hub's text classifier. Two classes with one unit z
become two units (0, z), whose softmax is that unit's sigmoid.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
import safetensors.numpy

from tf_transfer.models import transformers_weights
from tf_transfer.models.backbone import Backbone
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.heads.pooled import PooledHead
from tf_transfer.models.methods import added
from tf_transfer.models.network import Network
from tf_transfer.models.tokenizer import BytePairs, Tokenizer, WordPieces
from tf_transfer.models.transformers_types import ModelType, TYPES
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

Arrays = dict[str, np.ndarray]
# What keras-hub's blocks have. Its GELU of BERT is the approximation by tanh,
# which gives states that differ by some thousandths.
KERAS_ACTIVATIONS = {"bert": ("gelu", "gelu_new"), "roberta": ("gelu",)}
KERAS_EPSILON = {"bert": 1e-12, "roberta": 1e-5}
KERAS_TOKENIZERS: dict[str, type[Tokenizer]] = {
    "bert": WordPieces,
    "roberta": BytePairs,
}
MEANS = ("mean", "block_means")  # of tokens; see `PooledHead`
MODEL = ("ForSequenceClassification", "Model")  # a class without its head
HEAD_FILE = "head.safetensors"
# Keys that say how the weights were stored, or what an older head was.
OF_THE_FILE = ("dtype", "num_labels", "_num_labels", "finetuning_task")
PROBLEMS = {
    "classes": "single_label_classification",
    "labels": "multi_label_classification",
    "score": "regression",
}


def hugging_face(
    network: Network,
    head: str,
    folder: str,
    kind: str,
    labels: Sequence[str],
    max_length: int,
) -> None:
    """Writes a folder that transformers loads, and its tokenizer.

    Args:
        network: The trained network.
        head: The name of the head.
        folder: The folder to write; made if there is none.
        kind: The task's kind.
        labels: Names of the labels; empty for a score.
        max_length: Longest text in tokens.

    Raises:
        UserError: Transformers has no such head or embeddings.
    """
    reads_means = network.heads[head].pooling in MEANS
    kernel, bias = _output_layer(
        network, head, kind, labels, MEANS if reads_means else ("cls",)
    )
    encoder, path = network.encoder, pathlib.Path(folder)
    if encoder.projection is not None:
        raise UserError(
            "--format=hugging_face: transformers has no classifier with "
            "embeddings of another width than the blocks and this pooler. "
            "Give --format=saved_model."
        )
    _write_config(encoder, path, kind, labels, max_length, reads_means)
    arrays = _encoder_arrays(encoder)
    if reads_means:
        head_arrays = {"weight": kernel.T, "bias": bias}
        _write_arrays(path / HEAD_FILE, head_arrays)
    else:
        arrays |= _classifier_arrays(encoder, kernel, bias)
    _write_arrays(path / "model.safetensors", arrays)


def _write_arrays(path: pathlib.Path, arrays: Arrays) -> None:
    """Writes arrays as float32; everybody may read the file."""
    exact = {
        name: np.ascontiguousarray(array, np.float32)
        for name, array in arrays.items()
    }
    # `save_file` makes a file that only its owner can read.
    path.write_bytes(safetensors.numpy.save(exact, {"format": "pt"}))


def keras_preset(
    network: Network,
    head: str,
    folder: str,
    kind: str,
    labels: Sequence[str],
    max_length: int,
) -> None:
    """Writes keras-hub's text classifier; see `hugging_face`."""
    kernel, bias = _output_layer(network, head, kind, labels)
    encoder = network.encoder
    activation, family = encoder.activation, encoder.family
    epsilon = encoder.backbone.embeddings_layer_norm.epsilon
    if (
        isinstance(encoder.backbone, Backbone)
        or activation not in KERAS_ACTIVATIONS[family]
        or epsilon != KERAS_EPSILON[family]
        or not isinstance(encoder.tokenizer, KERAS_TOKENIZERS[family])
        or encoder.projection is not None
    ):
        raise UserError(
            f"--format=keras_preset: keras-hub has no blocks with {activation} "
            f"and epsilon {epsilon:g}, or none of {family} with these "
            "embeddings and this tokenizer. Give --format=hugging_face or "
            "saved_model."
        )
    models = keras_hub.models
    classifier_class = models.BertTextClassifier
    if encoder.family == "roberta":
        classifier_class = models.RobertaTextClassifier
    preprocessor = classifier_class.preprocessor_cls(
        keras_tokenizer(encoder.tokenizer), sequence_length=max_length
    )
    classifier = classifier_class(
        _add_segment(encoder.family, encoder.backbone),
        num_classes=len(bias),
        preprocessor=preprocessor,
        dropout=0.0,
    )
    classifier.output_dense.set_weights([kernel, bias])
    if encoder.family == "roberta":
        classifier.pooled_dense.set_weights(encoder.pooler.get_weights())
    classifier.save_to_preset(folder)


def _add_segment(
    family: str, backbone: keras_hub.models.Backbone
) -> keras_hub.models.Backbone:
    """The backbone; if it has one segment, with two that are equal.

    keras-hub gives the second text of a pair segment 1.
    """
    if family == "roberta" or backbone.num_segments > 1:
        return backbone
    config = {**backbone.get_config(), "num_segments": 2}
    wider = type(backbone).from_config(config)
    for layer in wider.layers:
        weights = backbone.get_layer(layer.name).get_weights()
        if layer.name == backbone.segment_embedding.name:
            weights = [np.repeat(weights[0], 2, axis=0)]
        layer.set_weights(weights)
    return wider


def _output_layer(
    network: Network,
    name: str,
    kind: str,
    labels: Sequence[str],
    poolings: Sequence[str] = ("cls",),
) -> Sequence[np.ndarray]:
    """Kernel [width, labels] and bias [labels] of the output layer.

    Raises:
        UserError: The head is not one dense layer on one of `poolings`.
    """
    head = network.heads[name]
    if (
        type(head) is not PooledHead
        or head.pooling not in poolings
        or head.texts_per_example != 1
        or head.inner is not None
    ):
        raise UserError(
            "--format: other libraries have no such head; they have one dense "
            "layer on [CLS] through the pooler, or --format=hugging_face on "
            "means of single texts. Give --format=saved_model."
        )
    kernel, bias = head.dense.get_weights()
    if name in network.scales:
        mean, deviation = network.scales[name]
        kernel = deviation * kernel
        bias = deviation * bias + mean
    if kind == "classes" and len(labels) == 2 and len(bias) == 1:
        kernel = np.concatenate([np.zeros_like(kernel), kernel], axis=1)
        bias = np.concatenate([np.zeros_like(bias), bias])
    return kernel, bias


# === transformers' names ===


def _dense(prefix: str, layer: keras.layers.Layer) -> Arrays:
    """A dense layer; transformers' kernels are [outputs, inputs]."""
    kernel, bias = added.matrix(layer)
    arrays = {f"{prefix}.weight": kernel.T}
    return arrays if bias is None else {**arrays, f"{prefix}.bias": bias}


def _norm(prefix: str, layer: keras.layers.Layer) -> Arrays:
    """A layer normalisation."""
    arrays = {f"{prefix}.weight": np.asarray(layer.gamma)}
    if layer.beta is not None:
        arrays[f"{prefix}.bias"] = np.asarray(layer.beta)
    return arrays


def _encoder_arrays(encoder: Encoder) -> Arrays:
    """The weights of embeddings and blocks, and of a pooler that is theirs."""
    names = transformers_weights
    arrays = {}
    for name, table in names.tables(encoder).items():
        arrays[name] = np.asarray(table)
    model_type = TYPES[encoder.family]
    if model_type.begins_behind_pad:
        # transformers numbers positions from the one behind the padding's.
        first = encoder.special.pad + 1
        if isinstance(encoder.backbone, Backbone):
            first = model_type.first_position(encoder.backbone.config)
        empty = np.zeros((first, encoder.hidden), np.float32)
        positions = [empty, arrays[names.POSITIONS]]
        arrays[names.POSITIONS] = np.concatenate(positions)
        if encoder.family == "roberta":
            arrays[names.SEGMENTS] = empty[:1]
    for name, layer in names.name_layers(encoder):
        if isinstance(layer, keras.layers.LayerNormalization):
            arrays |= _norm(name, layer)
        else:
            arrays |= _dense(name, layer)
    classifier = model_type.classifier
    assert classifier is not None
    arrays = _rename(arrays, model_type, classifier.prefix)
    if classifier.pooler.startswith(f"{classifier.prefix}."):
        arrays |= _pooler_arrays(encoder, classifier.pooler)
    return arrays


def _pooler_arrays(encoder: Encoder, prefix: str) -> Arrays:
    """The weights of the pooler: a dense layer, and a norm if it has one."""
    names, arrays = transformers_weights, Arrays()
    for name, layer in names.name_pooler(encoder).items():
        if name == names.POOLER_NORM:
            arrays |= _norm(prefix.replace("dense", "norm"), layer)
        else:
            arrays |= _dense(prefix, layer)
    return arrays


def _classifier_arrays(
    encoder: Encoder, kernel: np.ndarray, bias: np.ndarray
) -> Arrays:
    """The weights of the pooler and the output layer."""
    classifier = TYPES[encoder.family].classifier
    assert classifier is not None
    return {
        **_pooler_arrays(encoder, classifier.pooler),
        f"{classifier.output}.weight": kernel.T,
        f"{classifier.output}.bias": bias,
    }


def _rename(arrays: Arrays, model_type: ModelType, prefix: str) -> Arrays:
    """The arrays by the names of a type; thirds of one are joined."""
    renamed: Arrays = {}
    for name, array in arrays.items():
        own, third = model_type.rename(name)
        own = f"{prefix}.{own}"
        if third:
            array = np.concatenate([renamed[own], array])
        renamed[own] = array
    return renamed


def _write_config(
    encoder: Encoder,
    path: pathlib.Path,
    kind: str,
    labels: Sequence[str],
    max_length: int,
    reads_means: bool,
) -> None:
    """Writes `config.json` and the tokenizer's files; see `hugging_face`."""
    path.mkdir(parents=True, exist_ok=True)
    names = list(labels) or ["score"]
    classifier = TYPES[encoder.family].classifier
    assert classifier is not None
    if isinstance(encoder.backbone, Backbone):
        sizes = {**encoder.backbone.config, **classifier.config}
        for key in OF_THE_FILE:
            sizes.pop(key, None)
    else:
        sizes = _describe(encoder, encoder.backbone)
    architecture = classifier.architecture
    if reads_means:
        architecture = architecture.replace(*MODEL)
    config = {
        **sizes,
        "architectures": [architecture],
        "torch_dtype": "float32",
        "id2label": dict(enumerate(names)),
        "label2id": {name: n for n, name in enumerate(names)},
        "problem_type": PROBLEMS[kind],
    }
    _write_json(path / "config.json", config)
    _write_tokenizer(encoder, path, max_length)


def _describe(encoder: Encoder, backbone: keras_hub.models.Backbone) -> Record:
    """The keys of `config.json` of an encoder with keras-hub's layers."""
    special = encoder.special
    positions = encoder.max_positions
    if encoder.family == "bert":
        segments = backbone.num_segments
    else:
        segments = 1
        positions += special.pad + 1
    return {
        "model_type": encoder.family,
        "vocab_size": backbone.vocabulary_size,
        "hidden_size": encoder.hidden,
        "num_hidden_layers": len(encoder.blocks),
        "num_attention_heads": backbone.num_heads,
        "intermediate_size": backbone.intermediate_dim,
        "hidden_act": encoder.activation,
        "hidden_dropout_prob": backbone.dropout,
        "attention_probs_dropout_prob": backbone.dropout,
        "layer_norm_eps": backbone.embeddings_layer_norm.epsilon,
        "max_position_embeddings": positions,
        "type_vocab_size": segments,
        "pad_token_id": special.pad,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
    }


def keras_tokenizer(
    tokenizer: Tokenizer,
) -> keras_hub.models.BertTokenizer | keras_hub.models.RobertaTokenizer:
    """keras-hub's tokenizer of this vocabulary; some of its ids differ."""
    if isinstance(tokenizer, BytePairs):
        ids = {token: n for n, token in enumerate(tokenizer.vocabulary)}
        return keras_hub.models.RobertaTokenizer(ids, tokenizer.merges)
    assert isinstance(tokenizer, WordPieces)
    return keras_hub.models.BertTokenizer(
        tokenizer.vocabulary,
        lowercase=tokenizer.lowercase,
        strip_accents=tokenizer.strips_accents,
        split_on_cjk=tokenizer.splits_chinese,
    )


def _write_tokenizer(
    encoder: Encoder, path: pathlib.Path, max_length: int
) -> None:
    tokenizer = encoder.tokenizer
    words, special = tokenizer.vocabulary, tokenizer.special
    added = {}
    for token in tokenizer.added:
        added[words.index(token.content)] = {
            "content": token.content,
            "single_word": False,
            "lstrip": token.takes_left,
            "rstrip": token.takes_right,
            "normalized": token.is_normalized,
            "special": not token.is_normalized,
        }
    config: Record = {
        "model_max_length": max_length,
        "cls_token": words[special.start],
        "sep_token": words[special.end],
        "pad_token": words[special.pad],
        "unk_token": words[tokenizer.unknown],
        "added_tokens_decoder": added,
    }
    if encoder.segment_table is None or special.has_one_segment:
        config["model_input_names"] = ["input_ids", "attention_mask"]
    if tokenizer.source is not None:
        config["tokenizer_class"], name, content = tokenizer.source
        (path / name).write_bytes(content)
    elif isinstance(tokenizer, BytePairs):
        ids = {token: number for number, token in enumerate(words)}
        _write_json(path / "vocab.json", ids)
        _write_lines(path / "merges.txt", ["#version: 0.2", *tokenizer.merges])
        config |= {
            "tokenizer_class": "RobertaTokenizer",
            "add_prefix_space": tokenizer.adds_space,
        }
    elif isinstance(tokenizer, WordPieces):
        _write_lines(path / "vocab.txt", words)
        is_mpnet = len(special.between) == 2
        config |= {
            "tokenizer_class": "MPNetTokenizer"
            if is_mpnet
            else "BertTokenizer",
            "do_lower_case": tokenizer.lowercase,
            "strip_accents": tokenizer.strips_accents,
            "tokenize_chinese_chars": tokenizer.splits_chinese,
        }
    _write_json(path / "tokenizer_config.json", config)


def _write_json(path: pathlib.Path, value: Any) -> None:
    _write_lines(path, [json.dumps(value, indent=2, ensure_ascii=False)])


def _write_lines(path: pathlib.Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
