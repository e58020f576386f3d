"""The languages that an encoder reads, by its name or its vocabulary.

Nothing is loaded or fetched, and nothing here needs TensorFlow.
"""

import contextlib
import functools
import os
from collections.abc import Iterable

from tf_transfer.data import languages
from tf_transfer.utils import files, json_files
from tf_transfer.utils.json_files import Damaged

# Files of a folder that may hold its tokens; the last two are keras-hub's.
TEXT_FILES = ("vocab.txt", "assets/tokenizer/vocabulary.txt")
JSON_FILES = ("vocab.json", "assets/tokenizer/vocabulary.json")
TOKENIZER = "tokenizer.json"
ENGLISH = frozenset({"English"})


@functools.cache  # a process may have many runs of one encoder
def find_languages(model: str) -> frozenset[str] | None:
    """The languages of an encoder; None if they are not known.

    Args:
        model: `--model`.
    """
    if model in ("minilm", "mpnet"):
        return ENGLISH
    if not os.path.isdir(model):  # a preset, or `tiny`, whose words are letters
        return ENGLISH if "en" in model.split("_") else None
    with contextlib.suppress(OSError, Damaged, ValueError):  # loading reports
        return languages.list_read(_list_tokens(model)) or None
    return None


def _list_tokens(folder: str) -> Iterable[str]:
    """The tokens of a folder's vocabulary; none if it has other files."""
    for name in TEXT_FILES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return files.read_bytes(path).decode().splitlines()
    for name in JSON_FILES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return [*json_files.read(path, dict[str, int])]
    path = os.path.join(folder, TOKENIZER)
    if not os.path.exists(path):
        return []
    tokens = json_files.read(path, dict)["model"].get("vocab", ())
    if isinstance(tokens, dict):
        return [*tokens]
    return [token for token, _ in tokens]  # SentencePiece's, with scores
