"""The files of a model folder: where its weights are, and what Git LFS lacks.

Nothing here imports TensorFlow.
"""

import os
from typing import TypedDict

from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SAFETENSORS = {WEIGHTS, INDEX}  # one of them is in a folder of transformers
KERAS_WEIGHTS = "model.weights.h5"
KERAS_FILES = {"config.json", KERAS_WEIGHTS, "tokenizer.json"}
# Files of transformers' weights that only other libraries read.
OTHER_WEIGHTS = {
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
    *("tf_model.h5", "flax_model.msgpack"),
}
# Files that are read, apart from config.json and weights.
OTHER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", INDEX),
    *("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model"),
    "assets/tokenizer/vocabulary.txt",  # these are of a Keras preset
    "assets/tokenizer/vocabulary.json",
    "assets/tokenizer/merges.txt",
)
POINTER = b"version https://git-lfs.github.com/spec/"  # how one begins

WeightsIndex = TypedDict("WeightsIndex", {"weight_map": dict[str, str]})


def find_weights(folder: str) -> tuple[list[str], dict[str, str]]:
    """The safetensors files with the weights of a folder of transformers.

    They are `model.safetensors`, or without it those that
    `model.safetensors.index.json` names, as transformers reads them.

    Returns:
        The names of the files, and the file of each weight of the index.

    Raises:
        UserError: The index names a file that the folder does not have.
    """
    if os.path.lexists(os.path.join(folder, WEIGHTS)):  # or a broken link
        return [WEIGHTS], {}
    index = json_files.read(os.path.join(folder, INDEX), WeightsIndex)
    file_of = index["weight_map"]
    names = sorted({*file_of.values()})
    for name in names:
        is_here = os.path.basename(name) == name
        if not (is_here and os.path.exists(os.path.join(folder, name))):
            raise UserError(
                f"--model={folder}: has no {name[:100]}, which {INDEX} names. "
                "Is the folder complete?"
            )
    return names, file_of


def list_unread_weights(folder: str) -> list[str]:
    """The names of safetensors files that `find_weights` leaves out."""
    weights, _ = find_weights(folder)
    return sorted(
        name
        for name in os.listdir(folder)
        if name.endswith(".safetensors") and name not in weights
    )


def refuse_pointer(folder: str, name: str) -> None:
    """Raises `UserError` for a file whose content Git LFS has not fetched."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return
    with files.open_regular(path) as file:
        if file.read(len(POINTER)) != POINTER:
            return
    raise UserError(
        f"--model={folder}: {name} is a Git LFS pointer, not the file itself. "
        "Run `git lfs pull` in this folder."
    )
