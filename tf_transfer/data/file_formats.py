"""The format of a table's file: extension, packing, first bytes, encoding.

The extension names the format; `.gz`, `.bz2` or `.xz` behind it is unpacked.
Text is UTF-8, or what its bytes or `--encoding` say.
"""

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, IO

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

TABS = (".tsv", ".tab")
JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
EXTENSIONS = (".csv", *TABS, *JSON_LINES, *PARQUET, *EXCEL)
# Functions that unpack an open file, by the file extension.
UNPACK: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
# First bytes of a file, extensions that fit them, and the problem of others.
SIGNATURES: tuple[tuple[bytes, tuple[str, ...], str], ...] = (
    (
        b"\xd0\xcf\x11\xe0",
        (),
        "is an Excel file of before 2007 (.xls), or has a password. Save it as "
        ".xlsx without a password, or as CSV.",
    ),
    (
        b"PK\3\4",
        EXCEL,
        "is an Excel file or a ZIP archive. Give it the extension .xlsx, or "
        "unpack it.",
    ),
    (b"PAR1", PARQUET, "is Parquet. Give it the extension .parquet."),
    (b"\x1f\x8b", (".gz",), "is packed by gzip. Give it the extension .gz."),
)


def extension_of(path: str) -> str:
    """The extension that names a file's format, in small letters."""
    stem, extension = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if extension in UNPACK else extension


def is_plain(path: str) -> bool:
    """Whether a file is delimited text, by its extension."""
    return extension_of(path) not in (*JSON_LINES, *PARQUET, *EXCEL)


def is_json_array(path: str) -> bool:
    """Whether a JSON file is one array of objects."""
    with open_unpacked(path) as file:
        return bool(re.match(rb"(\xef\xbb\xbf)?\s*\[\s*\{", file.read(20)))


def name_row(path: str, number: int) -> str:
    """A row of a file for messages: its line; in Parquet and Excel its number.

    An item of a JSON array has a number, too.
    """
    extension = extension_of(path)
    has_lines = extension not in (*PARQUET, *EXCEL)
    if extension in JSON_LINES:
        has_lines = not is_json_array(path)
    return f"{path}, {'line' if has_lines else 'row'} {number}"


def check_signature(path: str) -> None:
    """Raises `UserError` for a file of another format than its extension's."""
    with files.open_regular(path) as file:
        start = file.read(4)
    for signature, extensions, problem in SIGNATURES:
        is_other = not path.lower().endswith(extensions)
        if is_other and start.startswith(signature):
            raise UserError(f"{path}: {problem}")


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[IO[bytes]]:
    """Opens a file, and unpacks it if its extension says that it is packed."""
    extension = os.path.splitext(path.lower())[1]
    with files.open_regular(path) as file:
        if extension not in UNPACK:
            yield file
            return
        try:
            with UNPACK[extension](file) as content:
                yield content
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise damaged_error(path, f"a {extension} file", error) from None


def damaged_error(path: str, name: str, error: Exception) -> UserError:
    """The error for a file that a library cannot read as `name`."""
    reason = cut(str(error).split("\n")[0].split(". ")[0])
    return UserError(
        f"{path}: is not {name}, or damaged ({type(error).__name__}: {reason})."
    )


# === Text ===


def find_encoding(path: str) -> str:
    """The encoding of a text; UTF-8 if none fits.

    A text of another encoding has hardly a valid character of UTF-8. Where
    there are more of them, a few bytes are damaged, which is an error.
    """
    with open_unpacked(path) as file:
        content = file.read()
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    if not wrong:
        return "utf-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    valid = len(re.findall("[^\0-\x7f\ufffd]", text))
    if b"\0" in content or valid >= wrong:
        return "utf-8"
    text = content.decode("cp1252", "replace")
    foreign = len(re.findall("[^\0-\x7f]", text))
    # Other alphabets have hardly a letter of ASCII.
    is_western = 2 * foreign < len(re.findall("[A-Za-z]", text))
    return "cp1252" if is_western and "\ufffd" not in text else "utf-8"


def read_lines(path: str, encoding: str = "") -> Iterator[str]:
    """Yields the lines of a text file, except empty ones at its end.

    Args:
        path: The file.
        encoding: Its encoding; empty for UTF-8.

    Raises:
        UserError: The file has another encoding; with the line.
    """
    empty = 0
    for line in decode_lines(path, encoding, newline="\n"):
        line = line.removesuffix("\n").removesuffix("\r")
        if line:
            yield from [*[""] * empty, line]
        empty = 0 if line else empty + 1


def codec_of(encoding: str) -> str:
    """Python's name of an encoding; UTF-8 may have a byte-order mark."""
    is_utf8 = encoding.lower().replace("_", "-") in ("", "utf-8", "utf8")
    return "utf-8-sig" if is_utf8 else encoding


def decode_lines(path: str, encoding: str, newline: str) -> Iterator[str]:
    """Yields the lines of a text file; for `newline` see `open`.

    Raises:
        UserError: The file has another encoding; with the line.
    """
    try:
        codec = codec_of(encoding)
        with (
            open_unpacked(path) as content,
            io.TextIOWrapper(content, codec, newline=newline) as file,
        ):
            yield from file
    except LookupError:
        raise UserError(
            f"--encoding={encoding}: no such encoding. Give utf-8, latin-1, "
            "cp1252, ..."
        ) from None
    except UnicodeError:  # also for UTF-16 without a byte-order mark
        raise _encoding_error(path, encoding) from None


def _encoding_error(path: str, encoding: str) -> UserError:
    """The error that names the first byte of another encoding."""
    with open_unpacked(path) as file:
        content = file.read()
    start = 0
    try:
        content.decode(codec_of(encoding))
    except UnicodeError as error:
        start = getattr(error, "start", 0)
    line = content.count(b"\n", 0, start) + 1
    advice = (
        "Give the file's own --encoding, such as latin-1 or cp1252."
        if encoding
        else "Convert the file to UTF-8."
    )
    return UserError(
        f"{path}, line {line}: is not {encoding or 'UTF-8'} (byte "
        f"0x{content[start]:02x}). {advice}"
    )


def read_ids(path: str, name: str) -> list[str]:
    """Reads the ids of a file, one per line.

    Args:
        path: The file.
        name: The name of the file in messages, such as `--test_ids=ids.txt`.

    Raises:
        UserError: There is no such file, or it has no ids, or one twice.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"{name}: no such file. Give a file with one id per line."
        )
    ids = [*filter(None, map(str.strip, read_lines(path)))]
    if not ids:
        raise UserError(f"{name}: holds no ids.")
    if len(set(ids)) < len(ids):
        raise UserError(f"{name}: has an id twice.")
    return ids
