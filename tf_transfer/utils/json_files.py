"""Reads the JSON files of this package: as declared, or damaged; hashes JSON.

A file's content is declared as a type that `msgspec` understands, most often a
`TypedDict`; an object may have other keys in addition.
"""

import hashlib
import json
import math
from typing import Any

import msgspec

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

Record = dict[str, Any]  # a JSON object, such as the content of `result.json`


class Damaged(UserError):
    """A file of this package is damaged; the message names file and field."""


def read(path: str, *types: Any) -> Any:
    """The content of a JSON file, as dicts, lists, texts and numbers.

    Args:
        path: the file.
        types: what the content has to be; all of them.

    Raises:
        Damaged: it is not a file of JSON, or not of these types.
        OSError: it cannot be read.
    """
    return parse(path, _read_bytes(path), *types)


def read_lines(path: str, *types: Any) -> list[Any]:
    """The content of a file with one JSON value per line; see `read`."""
    return [
        parse(f"{path}, line {number}", line, *types)
        for number, line in enumerate(_read_bytes(path).splitlines(), 1)
    ]


def _read_bytes(path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except files.NotAFile as error:
        raise Damaged(f"{path}: is damaged ({error.strerror}).") from None


def parse(where: str, text: bytes, *types: Any) -> Any:
    """The value of a JSON text.

    Args:
        where: the file, for messages.
        text: in UTF-8.
        types: what the value has to be; all of them.

    Raises:
        Damaged: it is not JSON, or not of these types.
    """
    try:
        value = json.loads(
            text.decode(), parse_float=_finite, parse_constant=_finite
        )
        for declared in types:
            msgspec.convert(value, declared)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        # The field first, such as `phases[0].lr: Expected ...`.
        problem, _, field = str(error).partition(" - at `$")
        reason = f"{field.strip('.`')}: {problem}" if field else problem
        raise Damaged(f"{where}: is damaged ({reason}).") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # such as NaN and 1e999
        raise ValueError(f"holds {text}")
    return number


def hash_json(value: Any) -> str:
    """The SHA-256 of a value's JSON, whose keys may be in any order."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def is_valid(value: Any, declared: Any) -> bool:
    """Whether a value is of a type, as `msgspec` understands it."""
    try:
        msgspec.convert(value, declared)
    except msgspec.ValidationError:
        return False
    return True
