"""Reads the JSON files of this package: as declared, or damaged; hashes JSON.

A file's content is declared as a type that `msgspec` understands, most often a
`TypedDict`; an object may have other keys in addition.
"""

import hashlib
import json
import math
from typing import Any, TypeVar

import msgspec

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.files import Json

Record = dict[str, Any]  # a JSON object, such as the content of `result.json`
T = TypeVar("T")


class Damaged(UserError):
    """A file of this package is damaged; the message names file and field."""


def read(path: str, declared: type[T]) -> T:
    """The content of a JSON file, as dicts, lists, texts and numbers.

    Args:
        path: The file.
        declared: What the content has to be.

    Raises:
        Damaged: It is not a file of JSON, or not of this type.
        OSError: It cannot be read.
    """
    return parse(path, _read_bytes(path), declared)


def read_record(path: str, *declared: type) -> Record:
    """The object in a JSON file, of which some keys are declared.

    Args:
        path: The file.
        declared: The types that it has to be; all of them.

    Raises:
        Damaged, OSError: See `read`.
    """
    return _parse_record(path, _read_bytes(path), *declared)


def read_records(path: str, *declared: type) -> list[Record]:
    """The content of a file with one object per line; see `read_record`."""
    return [
        _parse_record(f"{path}, line {number}", line, *declared)
        for number, line in enumerate(_read_bytes(path).splitlines(), 1)
    ]


def _parse_record(where: str, text: bytes, *declared: type) -> Record:
    record = parse(where, text, Record)
    for kind in declared:
        _check(where, record, kind)
    return record


def _read_bytes(path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except files.NotAFile as error:
        raise Damaged(f"{path}: is damaged ({error.strerror}).") from None


def parse(where: str, text: bytes, declared: type[T]) -> T:
    """The value of a JSON text.

    Args:
        where: The file, for messages.
        text: In UTF-8.
        declared: What the value has to be.

    Raises:
        Damaged: It is not JSON, or not of this type.
    """
    try:
        value: T = json.loads(
            text.decode(), parse_float=_finite, parse_constant=_finite
        )
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where}: is damaged ({error}).") from None
    _check(where, value, declared)
    return value


def _check(where: str, value: T, declared: type[T]) -> None:
    """Raises `Damaged` if a value is not of a type."""
    try:
        msgspec.convert(value, declared)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        # The field first, such as `phases[0].lr: Expected ...`.
        problem, _, field = str(error).partition(" - at `$")
        reason = f"{field.strip('.`')}: {problem}" if field else problem
        raise Damaged(f"{where}: is damaged ({reason}).") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # such as NaN and 1e999
        raise ValueError(f"holds {text}")
    return number


def hash_json(value: Json) -> str:
    """The SHA-256 of a value's JSON, whose keys may be in any order."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def is_valid(value: Json, declared: Any) -> bool:
    """Whether a value is of a type, as `msgspec` understands it."""
    try:
        msgspec.convert(value, declared)
    except msgspec.ValidationError:
        return False
    return True
