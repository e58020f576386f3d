"""The format of a table's file: extension, packing, first bytes, encoding.

The extension names the format; `.gz`, `.bz2`, `.xz`, `.zst` or `.lz4` behind it
is unpacked. A file of another format is known by its first bytes. Text is
UTF-8, or what its bytes or `--encoding` say.
"""

import bz2
import codecs
import contextlib
import functools
import gzip
import io
import json
import lzma
import os
import re
import shlex
import zlib
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

TABS = (".tsv", ".tab")
JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
ARROW = (".feather", ".arrow", ".ipc")
EXCEL = (".xlsx", ".xlsm")
EXTENSIONS = (".csv", *TABS, *JSON_LINES, *PARQUET, *ARROW, *EXCEL)

ByteFile = IO[bytes] | gzip.GzipFile  # open, for reading


def _open_arrow(file: IO[bytes], codec: str) -> IO[bytes]:
    import pyarrow

    stream: IO[bytes] = pyarrow.CompressedInputStream(file, codec)
    return stream


# Functions that unpack an open file, by the file extension.
UNPACK: dict[str, Callable[[IO[bytes]], ByteFile]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": functools.partial(_open_arrow, codec="zstd"),
    ".lz4": functools.partial(_open_arrow, codec="lz4"),
}


class Signature(NamedTuple):
    """How files of a format begin.

    Attributes:
        start: A regular expression of their first bytes.
        name: What such a file is.
        extensions: Those of files that are read.
        pandas: The function of pandas that reads such a file.
        advice: What to do instead.
    """

    start: bytes
    name: str
    extensions: tuple[str, ...] = ()
    pandas: str = ""
    advice: str = ""


SIGNATURES = (
    Signature(rb"PAR1", "Parquet", PARQUET),
    Signature(rb"ARROW1|FEA1", "Feather (Arrow)", ARROW),
    Signature(rb"\x1f\x8b", "packed by gzip", (".gz",)),
    Signature(rb"BZh[1-9]1AY&SY", "packed by bzip2", (".bz2",)),
    Signature(rb"\xfd7zXZ", "packed by xz", (".xz",)),
    Signature(rb"\x28\xb5\x2f\xfd", "packed by zstd", (".zst",)),
    Signature(rb"\x04\x22\x4d\x18", "packed by lz4", (".lz4",)),
    Signature(
        rb"\xd0\xcf\x11\xe0",
        "an Excel file of before 2007 (.xls), or has a password",
        advice="Save it as .xlsx without a password, or as CSV.",
    ),
    Signature(
        rb"PK\x03\x04.{26}mimetypeapplication/vnd.oasis",
        "an OpenDocument file",
        advice="Save it as .xlsx or as CSV.",
    ),
    Signature(rb"PK\x03\x04.{26}mimetypeapplication", "no table"),
    Signature(rb"PK\x03\x04", "an Excel file or a ZIP archive", EXCEL),
    Signature(
        rb"7z\xbc\xaf|Rar!\x1a|.{257}ustar", "an archive", advice="Unpack it."
    ),
    Signature(
        rb"SQLite format 3\x00",
        "an SQLite database",
        advice="To make a CSV of a table: sqlite3 -header -csv {path} "
        "'SELECT * FROM name' > table.csv",
    ),
    Signature(
        rb"<stata_dta>|[\x69-\x73][\x01\x02]\x01\x00",
        "Stata",
        pandas="read_stata",
    ),
    Signature(rb"\x80[\x02-\x05]", "a pickle", pandas="read_pickle"),
    Signature(rb"\$FL[23]@", "SPSS", pandas="read_spss"),
    Signature(rb"\x00{12}\xc2\xea\x81\x60", "SAS", pandas="read_sas"),
    Signature(rb"\x89HDF", "HDF5", pandas="read_hdf"),
    Signature(rb"\x93NUMPY", "an array of NumPy", advice="Write it as CSV."),
    Signature(rb"%PDF-|\{\\rtf", "a document", advice="Write it as CSV."),
    Signature(
        rb"(?i)\s*<(!doctype )?html",
        "a web page, perhaps in place of a download",
        advice="Download the file again.",
    ),
    Signature(
        rb"version https://git-lfs",
        "a pointer of Git LFS in place of the file",
        advice="Fetch the file: git lfs pull",
    ),
)


def extension_of(path: str) -> str:
    """The extension that names a file's format, in small letters."""
    stem, extension = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if extension in UNPACK else extension


def is_plain(path: str) -> bool:
    """Whether a file is delimited text, by its extension."""
    others = (*JSON_LINES, *PARQUET, *ARROW, *EXCEL)
    return extension_of(path) not in others


def is_json_document(path: str) -> bool:
    """Whether a JSON file is one array or object that holds all rows.

    Such an object has objects inside, or an array of objects or arrays.
    """
    lines = filter(str.strip, decode_lines(path, "", newline="\n"))
    start = next(lines, "")
    second = next(lines, "")
    if re.match(r"\s*\[\s*[\[{]", start + second):
        return True
    try:
        document = json.loads(start)
        if second:  # each line is a row
            return False
    except (ValueError, RecursionError):
        try:
            document = json.loads(start + second + "".join(lines))
        except (ValueError, RecursionError):
            return False
    values = document.values() if isinstance(document, dict) else []
    inside = [v[0] if v and isinstance(v, list) else v for v in values]
    return any(isinstance(v, dict | list) and v for v in inside)


def name_row(path: str, number: int) -> str:
    """A row of a file for messages: its line; in Parquet and Excel its number.

    An item of a JSON array has a number, too.
    """
    extension = extension_of(path)
    has_lines = extension not in (*PARQUET, *ARROW, *EXCEL)
    if extension in JSON_LINES:
        has_lines = not is_json_document(path)
    return f"{path}, {'line' if has_lines else 'row'} {number}"


def check_signature(path: str) -> None:
    """Raises `UserError` for a file of another format than its extension's."""
    with files.open_regular(path) as file:
        start = file.read(512)
    for signature in SIGNATURES:
        if not re.match(signature.start, start, re.DOTALL):
            continue
        if signature.extensions and path.lower().endswith(signature.extensions):
            return
        advice = signature.advice.format(path=shlex.quote(path))
        if signature.extensions:
            advice = f"Give it the extension {signature.extensions[0]}."
        if signature.pandas:
            advice = (
                "To make a CSV of it, in Python: import pandas; "
                f"pandas.{signature.pandas}({path!r})"
                '.to_csv("table.csv", index=False)'
            )
        raise UserError(f"{path}: is {signature.name}. {advice}".rstrip())


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[ByteFile]:
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
