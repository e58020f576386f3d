"""A folder with an encoder: whether it is whole, its type, sizes and hash.

Loads no weights.
"""

import hashlib
import os
from typing import Annotated

import msgspec

from tf_transfer.models import model_files
from tf_transfer.models.transformers_types import rename_keys, TYPES
from tf_transfer.utils import files as files_lib, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

MOST_BLOCKS = 1000
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


def is_transformers(source: str) -> bool:
    """Whether it is a folder that transformers wrote."""
    return os.path.isdir(source) and "model_type" in read_config(source)


def read_type(folder: str) -> str:
    """One of `TYPES` for a folder of transformers; else keras-nlp's class."""
    config = read_config(folder)
    return str(config.get("model_type") or config.get("class_name"))


def check(model: str) -> None:
    """Raises `UserError` for a folder that keras-nlp should not load.

    It would take the memory that `config.json` asks for before it reads the
    weights. So their files must be large enough: a byte per parameter.
    """
    names = set(os.listdir(model))
    is_complete = names >= model_files.KERAS_FILES
    if "config.json" in names and is_transformers(model):
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
    for name in list_weights(model):
        model_files.refuse_pointer(model, name)
    name = read_type(model)
    if name not in (*TYPES, "BertBackbone", "RobertaBackbone"):
        raise UserError(
            f"--model={model}: is of the type {name[:60]}, which is not known "
            f"here. A Hugging Face folder can be of {', '.join(TYPES)}; a "
            "Keras preset is a BERT or RoBERTa."
        )
    sizes = read_sizes(read_config(model))
    for name, other in SIZES:
        if not json_files.is_valid(sizes[name], Size):
            raise UserError(
                f"--model={model}: config.json has no valid {name} or {other}. "
                "Is the folder complete?"
            )
    blocks, hidden, _, inner, words, positions = sizes.values()
    model_type = TYPES.get(read_type(model))
    if model_type is not None and not model_type.has_position_table:
        positions = 0
    parameters = hidden * (words + positions)
    parameters += blocks * hidden * (4 * hidden + 2 * inner)
    size = measure_weights(model)
    if parameters > size or blocks > MOST_BLOCKS:
        raise UserError(
            f"--model={model}: config.json asks for {blocks:,} blocks and "
            f"{parameters:,} parameters, and the weights have {size:,} bytes. "
            "Is the folder complete?"
        )


def list_weights(folder: str) -> list[str]:
    """The names of the files with the weights of a folder."""
    if is_transformers(folder):
        return model_files.find_weights(folder)[0]
    return [model_files.KERAS_WEIGHTS]


def measure_weights(folder: str) -> int:
    """Bytes of the files with the weights of a folder."""
    names = list_weights(folder)
    return sum(os.path.getsize(os.path.join(folder, name)) for name in names)


def read_config(folder: str) -> Record:
    """The fields of `config.json`, with those of a backbone in a preset."""
    model_files.refuse_pointer(folder, "config.json")
    path = os.path.join(folder, "config.json")
    config: Record = json_files.read(path, Record)
    if str(config.get("model_type")) in TYPES:
        return rename_keys(config)
    nested = config.get("config")
    return config | (nested if isinstance(nested, dict) else {})


def read_sizes(config: Record) -> Record:
    """The values of `SIZES`, by the names that transformers has."""
    return {name: config.get(name, config.get(other)) for name, other in SIZES}


def hash_content(folder: str) -> str:
    """A hash of all files that are read, for the key of a run.

    Raises:
        UserError: See `check`.
    """
    check(folder)
    unread: list[str] = []
    if is_transformers(folder):
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
