"""Files by their format: packed ones, other formats, lines of text."""

import bz2
import functools
import gzip
import json
import lzma
import sqlite3

import pandas as pd
import pyarrow
import pytest

from tf_transfer.data import file_formats, table_files, tagged
from tf_transfer.own import task_file
from tf_transfer.utils.errors import UserError

COLUMNS = {"text": "--text_column", "label": "--label_column"}
CSV = b"text,label\ngood film,a\nbad film,b\n"
ROWS = {"text": ["good film", "bad film"], "label": ["a", "b"]}
OBJECTS = [dict(zip(ROWS, row)) for row in zip(*ROWS.values())]
LINES = "".join(f"{json.dumps(row)}\n" for row in OBJECTS).encode()
PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": functools.partial(pyarrow.compress, codec="zstd", asbytes=True),
    "lz4": functools.partial(pyarrow.compress, codec="lz4", asbytes=True),
}


def write(path, content):
    path.write_bytes(content)
    return str(path)


def read(path):
    return table_files.read_table(path, COLUMNS)


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize(
    "name, content",
    [
        ("a.csv", CSV),
        ("a.TSV", CSV.replace(b",", b"\t")),
        ("a.jsonl", LINES),
        ("a.csv", CSV.replace(b",", b";").replace(b"film", b"caf\xe9")),
    ],
)
def test_a_packed_table_is_read(ending, name, content, tmp_path):
    plain = read(write(tmp_path / name, content))
    path = write(tmp_path / f"{name}.{ending}", PACK[ending](content))
    table = read(path)
    assert table.columns == plain.columns and len(table) == 2
    assert table.locate(1).startswith(f"{path}, line ")
    assert task_file.is_table("nowhere.csv.gz")
    task = task_file.from_flags(path, text_column="text", label_column="label")
    assert task.name == "a"


def test_packed_words_with_tags_are_read(tmp_path):
    content = gzip.compress(b"Rome B-PLACE\n\nhere O\n")
    table = tagged.read_table(write(tmp_path / "a.conll.gz", content), "w", "t")
    assert table.columns == {
        "w": [["Rome"], ["here"]],
        "t": [["B-PLACE"], ["O"]],
    }


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: b"no" + c])
def test_a_damaged_packed_table_is_named(damage, ending, tmp_path):
    path = tmp_path / f"a.csv.{ending}"
    write(path, damage(PACK[ending](CSV * 99)))
    with pytest.raises(UserError, match=f"is not a .{ending} file, or damaged"):
        read(str(path))


@pytest.mark.parametrize(
    "name, start, words",
    [
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1", r"\(.xls\), or has a password"),
        (
            "a.xlsx",
            b"\xd0\xcf\x11\xe0\xa1\xb1",
            "Save it as .xlsx without a pa",
        ),
        ("a.csv", b"PK\x03\x04\x14\0", "a ZIP archive. Give it the extension"),
        ("a.csv", b"PAR1\x15\0", "is Parquet. Give it the extension .parquet"),
        (
            "a.csv",
            b"\x1f\x8b\x08\0",
            "packed by gzip. Give it the extension .gz",
        ),
        ("a.csv", b"BZh91AY&SY", "packed by bzip2. Give it the extension .bz2"),
        ("a.csv", b"\xfd7zXZ\0", "packed by xz. Give it the extension .xz"),
        ("a.csv", b"\x28\xb5\x2f\xfd", "packed by zstd. Give .* .zst"),
        ("a.csv", b"\x04\x22\x4d\x18", "packed by lz4. Give .* .lz4"),
        ("a.csv", b"ARROW1\0\0", "is Feather .*Give .* .feather"),
        ("a.csv", b"7z\xbc\xaf", "is an archive. Unpack it"),
        ("a.csv", b"a.txt".ljust(257, b"\0") + b"ustar", "is an archive"),
        ("a.dta", b"\x73\1\1\0", "is Stata. .*pandas.read_stata"),
        ("a.sav", b"$FL2@(#)", "is SPSS. .*pandas.read_spss"),
        ("a.csv", b"%PDF-1.7", "is a document. Write it as CSV"),
        ("a.csv", b"\n<!DOCTYPE html>", "is a web page.*Download"),
        ("a.csv", b"version https://git-lfs.github.com", "git lfs pull"),
        (
            "a.ods",
            b"PK\x03\x04".ljust(30, b"\0")
            + b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
            "is an OpenDocument file. Save it as .xlsx or as CSV",
        ),
    ],
)
def test_a_file_of_another_format_says_what_it_is(name, start, words, tmp_path):
    path = write(tmp_path / name, start + bytes(range(256)))
    with pytest.raises(UserError, match=words):
        read(path)


def write_sqlite(path):
    with sqlite3.connect(path) as base:
        pd.DataFrame(ROWS).to_sql("texts", base, index=False)


@pytest.mark.parametrize(
    "name, save, words",
    [
        ("a.dta", pd.DataFrame.to_stata, "is Stata. .*pandas.read_stata"),
        ("a.pkl", pd.DataFrame.to_pickle, "is a pickle. .*pandas.read_pickle"),
        ("a.csv", pd.DataFrame.to_pickle, "is a pickle. .*pandas.read_pickle"),
        (
            "a.db",
            lambda _, path: write_sqlite(path),
            "SQLite .*sqlite3 -header",
        ),
    ],
)
def test_what_a_library_wrote_says_how_to_make_a_csv(
    name, save, words, tmp_path
):
    path = str(tmp_path / name)
    save(pd.DataFrame(ROWS), path)
    with pytest.raises(UserError, match=words):
        read(path)


@pytest.mark.parametrize("name", ["a.feather", "a.arrow", "a.ipc"])
def test_feather_is_read(name, tmp_path):
    path = str(tmp_path / name)
    pd.DataFrame(ROWS).to_feather(path)
    assert read(path).columns == ROWS
    assert read(path).locate(1) == f"{path}, row 2"
    assert task_file.is_table("nowhere.feather")


def test_a_damaged_feather_file_is_named(tmp_path):
    path = write(tmp_path / "a.feather", b"ARROW1\0\0" + bytes(99))
    with pytest.raises(UserError, match="is not Feather, or damaged"):
        read(path)


def test_a_text_with_the_old_extension_of_excel_is_read(tmp_path):
    content = CSV.replace(b",", b"\t")
    assert read(write(tmp_path / "a.xls", content)).columns == ROWS


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_have_no_ends_and_no_empty_one_is_last(end, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(f"\ufeffa{end}{end}b{end}{end}".encode())
    assert list(file_formats.read_lines(str(path))) == ["a", "", "b"]


@pytest.mark.parametrize(
    "content, line",
    [("a,b\nc,d\n".encode("utf-16")[:-1], 2), (b"a,b\nc,d\n", 1)],
)
def test_a_file_of_no_wide_encoding_is_named(content, line, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(UserError, match=f"a.csv, line {line}: is not utf-16"):
        table_files.read_table(str(tmp_path / "a.csv"), encoding="utf-16")


@pytest.mark.parametrize(
    "path, extension, is_plain",
    [
        ("a.CSV", ".csv", True),
        ("a.b/c", "", True),
        ("a.csv.gz", ".csv", True),
        ("a.gz", "", True),
        ("a.jsonl.bz2", ".jsonl", False),
        ("a.ndjson", ".ndjson", False),
        ("a.json.xz", ".json", False),
        ("a.parquet", ".parquet", False),
        ("a.pq", ".pq", False),
        ("a.xlsx", ".xlsx", False),
        ("a.xlsm", ".xlsm", False),
    ],
)
def test_the_extension_names_the_format(path, extension, is_plain):
    assert file_formats.extension_of(path) == extension
    assert file_formats.is_plain(path) == is_plain


@pytest.mark.parametrize(
    "content, is_document",
    [
        ('[{"a": 1}]', True),
        ("\ufeff [\n {", True),
        ("[[1], [2]]", True),
        ('{"a": [{}], "b": {}}', False),
        ('{"a": [{"b": 1}]}', True),
        ('{\n"a": {"0": 1}}', True),
        ("[]", False),
        ('{"a": [1, 2]}', False),  # a row, such as of words
        ('{"a": {"b": 1}}\n{"a": {"b": 1}}', False),
        ("[1]\n[{", False),
    ],
)
def test_a_document_of_json_is_distinguished_from_lines(
    content, is_document, tmp_path
):
    path = write(tmp_path / "a.json", content.encode())
    assert file_formats.is_json_document(path) == is_document
    kind = "row" if is_document else "line"
    assert file_formats.name_row(path, 3) == f"{path}, {kind} 3"


@pytest.mark.parametrize(
    "content, encoding",
    [
        (b"", "utf-8"),
        ("café".encode(), "utf-8"),
        ("café".encode("cp1252"), "cp1252"),
        ("café".encode("utf-16"), "utf-16"),
        ("x".encode("utf-16-be"), "utf-8"),
        (b"\xfe\xff\0x", "utf-16"),
        (b"caf\xe9\0", "utf-8"),
        ("é".encode() + b" caf\xe9", "utf-8"),  # as many of each
        ("é".encode() + b" une caf\xe9t\xe9ria", "cp1252"),
        (b"ab\xe9", "utf-8"),  # half as many as letters is not fewer
        (b"abc\xe9", "cp1252"),
        (b"AZaz\xe9[`{", "cp1252"),
        (b"caf\x81 abcdefgh", "utf-8"),
    ],
)
def test_the_bytes_of_a_text_show_its_encoding(content, encoding, tmp_path):
    path = write(tmp_path / "a.txt", content)
    assert file_formats.find_encoding(path) == encoding


@pytest.mark.parametrize("name", ["", "utf-8", "UTF_8", "utf8"])
def test_utf_8_may_begin_with_a_mark(name, tmp_path):
    path = write(tmp_path / "a.txt", "\ufeffé".encode())
    assert [*file_formats.read_lines(path, name)] == ["é"]
    assert file_formats.codec_of("latin-1") == "latin-1"


def test_another_encoding_names_line_byte_and_what_to_give(tmp_path):
    path = write(tmp_path / "a.txt", b"\nb\nc\xe9\n")
    for encoding, message in (
        ("", "is not UTF-8 .byte 0xe9.. Convert the file to UTF-8."),
        ("ascii", "is not ascii .byte 0xe9.. Give the file's own --encoding"),
    ):
        with pytest.raises(UserError, match=f"a.txt, line 3: {message}"):
            [*file_formats.read_lines(path, encoding)]
    with pytest.raises(UserError, match="--encoding=x: no such encoding"):
        [*file_formats.read_lines(path, "x")]


def test_empty_lines_at_the_beginning_are_lines(tmp_path):
    path = write(tmp_path / "a.txt", b"\n\na\rb\r\nc")
    assert [*file_formats.read_lines(path)] == ["", "", "a\rb", "c"]


def test_a_reason_is_one_sentence_of_one_line():
    error = file_formats.damaged_error("a", "Parquet", OSError("x y. z\nmore"))
    assert str(error) == "a: is not Parquet, or damaged (OSError: x y)."
