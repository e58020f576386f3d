"""Delimited text: separators, encodings, and lines above the header."""

import csv

import pytest

from tf_transfer.data import delimited, tables
from tf_transfer.utils.errors import UserError

ROWS = [("text", "label"), ("café, good", "a"), ('two\n"lines" 🙂', "b")]
TEXT = "text,label\ngood film,a\nbad film,b\n"


def write(path, rows=ROWS, delimiter=",", encoding="utf-8"):
    with open(path, "w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return str(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_separator_is_that_of_the_rows(delimiter, name, tmp_path, capsys):
    rows = ROWS if (name, delimiter) != ("a.tsv", "\t") else ROWS[:2]
    path = write(tmp_path / name, rows, delimiter)
    table = tables.read_table(path, {"text": "", "label": ""})
    assert [*zip(*table.columns.values())] == rows[1:]
    printed = capsys.readouterr().err
    usual = "\t" if name == "a.tsv" else ","
    word = f"separated by {delimited.SEPARATORS[delimiter]}; read as utf-8."
    assert (word in printed) == (delimiter != usual)
    tables.read_table(path)
    assert capsys.readouterr().err == ""  # said once


def test_a_bad_row_among_the_first_does_not_hide_the_separator(tmp_path):
    path = write(tmp_path / "a.csv", [*ROWS[:2], ("b",), *ROWS[2:]], ";")
    with pytest.raises(UserError, match="line 3: has 1 cells, needs 2"):
        tables.read_table(path, {"text": ""})


@pytest.mark.parametrize(
    "rows",
    [
        [["text"], ["one; two"], ["three; four"]],
        [["a;b,c"], ["1;2,3"]],
        [["a;b", "c"], ["1;2", "3"], ["4;5", "6"]],
    ],
)
def test_commas_separate_what_they_can_separate(rows, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(map(",".join, rows)))
    names = [*tables.read_table(str(path)).columns]
    assert names == ",".join(rows[0]).split(",")


@pytest.mark.parametrize(
    "encoding, read_as",
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "utf-16"),
        ("cp1252", "cp1252"),
    ],
)
def test_the_encoding_is_that_of_the_bytes(encoding, read_as, tmp_path, capsys):
    text = "“café”"
    rows = [("text", "label"), (text, "a")]
    path = write(tmp_path / "a.csv", rows, encoding=encoding)
    assert tables.read_table(path).columns["text"] == [text]
    printed = capsys.readouterr().err
    assert f"read as {read_as}." in printed if read_as else printed == ""


@pytest.mark.parametrize(
    "text, encoding",
    [
        ("привет, как дела", "cp1251"),
        ("καλημέρα σας", "iso8859-7"),
        ("おはようございます", "shift_jis"),
        ("caf\x81é", "latin-1"),  # \x81 is no character of Windows-1252
    ],
)
def test_another_alphabet_is_not_guessed(text, encoding, tmp_path):
    rows = [("text", "label"), *[(text, "a")] * 20]
    path = write(tmp_path / "a.csv", rows, encoding=encoding)
    with pytest.raises(UserError, match="--encoding"):
        tables.read_table(path)
    table = tables.read_table(path, encoding=encoding)
    assert table.columns["text"] == [text] * 20


def test_a_given_encoding_wins(tmp_path, capsys):
    path = write(tmp_path / "a.csv", ROWS[:2], encoding="utf-8")
    table = tables.read_table(path, encoding="latin-1")
    assert table.columns["text"] == ["cafÃ©, good"]
    assert capsys.readouterr().err == ""


def test_a_corpus_of_its_own_dialect_stays_utf_8(tmp_path):
    path = write(tmp_path / "a.csv", ROWS[:2], ";", "cp1252")
    with pytest.raises(UserError, match="line 2: is not UTF-8"):
        tables.read_table(path, dialect=delimited.Dialect(";"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("title", ["sep={}\n", "Survey 2024\n", "A{0}\n\nB\n"])
def test_lines_above_the_header_are_left_out(
    title, delimiter, tmp_path, capsys
):
    content = title.format(delimiter) + TEXT.replace(",", delimiter)
    path = str(tmp_path / "a.csv")
    with open(path, "w", newline="") as file:
        file.write(content)
    table = tables.read_table(path, {"text": "", "label": ""})
    assert table.columns["text"] == ["good film", "bad film"]
    line = content[: content.index("text")].count("\n") + 1
    assert table.locate(0) == f"{path}, line {line + 1}"
    assert f"{path}, line {line}: is the header." in capsys.readouterr().err
