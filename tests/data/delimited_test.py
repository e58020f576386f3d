"""Delimited text: separators, encodings, and lines above the header."""

import csv

import pytest

from tf_transfer.data import delimited, table_files
from tf_transfer.data.columns import BadRows
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
    table = table_files.read_table(path, {"text": "", "label": ""})
    assert [*zip(*table.columns.values())] == rows[1:]
    printed = capsys.readouterr().err
    usual = "\t" if name == "a.tsv" else ","
    word = f"separated by {delimited.SEPARATORS[delimiter]}; read as utf-8."
    assert (word in printed) == (delimiter != usual)
    table_files.read_table(path)
    assert capsys.readouterr().err == ""  # said once


def test_a_bad_row_among_the_first_does_not_hide_the_separator(tmp_path):
    path = write(tmp_path / "a.csv", [*ROWS[:2], ("b",), *ROWS[2:]], ";")
    with pytest.raises(UserError, match="line 3: has 1 cells, needs 2"):
        table_files.read_table(path, {"text": ""})


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
    names = [*table_files.read_table(str(path)).columns]
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
    assert table_files.read_table(path).columns["text"] == [text]
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
        table_files.read_table(path)
    table = table_files.read_table(path, encoding=encoding)
    assert table.columns["text"] == [text] * 20


def test_a_given_encoding_wins(tmp_path, capsys):
    path = write(tmp_path / "a.csv", ROWS[:2], encoding="utf-8")
    table = table_files.read_table(path, encoding="latin-1")
    assert table.columns["text"] == ["cafÃ©, good"]
    assert capsys.readouterr().err == ""


def test_a_corpus_of_its_own_dialect_stays_utf_8(tmp_path):
    path = write(tmp_path / "a.csv", ROWS[:2], ";", "cp1252")
    with pytest.raises(UserError, match="line 2: is not UTF-8"):
        table_files.read_table(path, dialect=delimited.Dialect(";"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("title", ["sep={}\n", "Survey 2024\n", "A{0}\n\nB\n"])
def test_lines_above_the_header_are_left_out(
    title, delimiter, tmp_path, capsys
):
    content = title.format(delimiter) + TEXT.replace(",", delimiter)
    path = str(tmp_path / "a.csv")
    with open(path, "w", newline="") as file:
        file.write(content)
    table = table_files.read_table(path, {"text": "", "label": ""})
    assert table.columns["text"] == ["good film", "bad film"]
    line = content[: content.index("text")].count("\n") + 1
    assert table.locate(0) == f"{path}, line {line + 1}"
    assert f"{path}, line {line}: is the header." in capsys.readouterr().err


def test_nothing_is_above_a_header_in_the_first_line(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text(TEXT + "text,label\n")
    assert len(table_files.read_table(str(path), {"text": ""})) == 3
    assert capsys.readouterr().err == ""


def test_a_header_is_among_the_first_twenty_rows(tmp_path):
    path = tmp_path / "a.csv"
    for titles in (19, 20):
        path.write_text("title\n" * titles + TEXT)
        if titles == 19:
            table = table_files.read_table(str(path), {"text": "", "label": ""})
            assert len(table) == 2
        else:
            with pytest.raises(UserError, match="line 1: has no column 'text'"):
                table_files.read_table(str(path), {"text": "", "label": ""})


@pytest.mark.parametrize("bad, is_read", [(8, True), (10, False)])
def test_most_of_the_first_rows_show_the_separator(bad, is_read, tmp_path):
    """Of twenty rows, the header is one; half of them is not most."""
    path = tmp_path / "a.csv"
    rows = ["text;label"] + ["a;x"] * (19 - bad) + ["b"] * bad
    path.write_text("\n".join(rows))
    columns = {"text": ""}
    if is_read:
        table = table_files.read_table(str(path), columns, bad_rows=[])
        assert table.columns["text"] == ["a"] * (19 - bad)
    else:
        with pytest.raises(UserError, match="no column 'text'"):
            table_files.read_table(str(path), columns)


# === Dialects ===


def read_rows(tmp_path, content, **options):
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    return [*delimited.read_rows(str(path), **options)]


def test_a_file_without_a_header_gets_one(tmp_path):
    dialect = delimited.Dialect(header=("a", "b"))
    assert read_rows(tmp_path, "1,2\n3,4\n", dialect=dialect) == [
        (0, ["a", "b"]),
        (1, ["1", "2"]),
        (2, ["3", "4"]),
    ]
    with pytest.raises(BadRows, match="line 1: has 1 cells, needs 2: 'a', 'b'"):
        read_rows(tmp_path, "1\n", dialect=dialect)


def test_a_row_of_another_width_is_an_error_or_left_out(tmp_path):
    content = "a,b\n1\n2,3\n4,5,6\n"
    with pytest.raises(BadRows, match=r"a.csv, line 2: has 1 cells") as error:
        read_rows(tmp_path, content)
    assert "or its quotes; cells are separated by commas" in str(error.value)
    with pytest.raises(BadRows, match="cells are separated by bars"):
        read_rows(tmp_path, "a|b\n1\n", dialect=delimited.Dialect("|"))
    bad = []
    rows = read_rows(tmp_path, content, bad=bad)
    assert rows == [(1, ["a", "b"]), (3, ["2", "3"])]
    assert [(row.number, row.text) for row in bad] == [(2, "1"), (4, "4,5,6")]


def test_the_cells_of_one_column_may_be_a_secret(tmp_path):
    with pytest.raises(BadRows) as error:
        read_rows(tmp_path, "secret\na,b\n")
    assert "secret" not in str(error.value)


def test_a_ragged_file_has_rows_of_any_width(tmp_path):
    dialect = delimited.Dialect("\t", "none", is_ragged=True)
    assert read_rows(tmp_path, "a\tb\n1\n\n2\t3\t4\n", dialect=dialect) == [
        (1, ["a", "b"]),
        (2, ["1"]),
        (3, [""]),
        (4, ["2", "3", "4"]),
    ]


def test_quotes_are_ordinary_characters_where_there_is_no_quoting(tmp_path):
    content = 'a\tb\n"1\t2"\n\n3\t4\n'
    assert read_rows(tmp_path, content, dialect=delimited.TSV) == [
        (1, ["a", "b"]),
        (2, ['"1', '2"']),
        (4, ["3", "4"]),
    ]
    with pytest.raises(BadRows) as error:
        read_rows(tmp_path, "a\tb\n1\n", dialect=delimited.TSV)
    assert "Fix the line; cells are separated by tabs." in str(error.value)


def test_a_quote_inside_of_a_cell_is_one_in_a_lax_file(tmp_path):
    content = 'a,b\n"x "y" z",1\n"x, y",2\n'
    lax = delimited.Dialect(quoting="lax")
    assert read_rows(tmp_path, content, dialect=lax)[2] == (3, ["x, y", "2"])
    with pytest.raises(BadRows, match="line 2: is not CSV") as error:
        read_rows(tmp_path, content)
    assert "a quote inside a cell is doubled" in str(error.value)


def test_a_row_of_bad_quotes_is_left_out_and_the_header_s_is_an_error(tmp_path):
    bad = []
    content = 'a,b\n"x "y",1\n"p\nq",2\n"x "y",1\n3,4\n'
    rows = read_rows(tmp_path, content, bad=bad)
    assert rows == [(1, ["a", "b"]), (4, ["p\nq", "2"]), (6, ["3", "4"])]
    assert [row.number for row in bad] == [2, 5]
    for content in ('"a "b",c\n1,2\n', 'a,b\n1,2\n"3,4\n5,6\n'):
        with pytest.raises(BadRows, match="is not CSV"):
            read_rows(tmp_path, content, bad=[])


def test_a_cell_may_be_long(tmp_path):
    cell = "x" * 200_000
    assert read_rows(tmp_path, f"a,b\n{cell},1\n")[1] == (2, [cell, "1"])


def test_an_empty_file_has_no_rows(tmp_path):
    assert read_rows(tmp_path, "\n\n") == []
    (tmp_path / "a.csv").write_text("")
    dialect, codec = delimited.sniff(str(tmp_path / "a.csv"), "", frozenset())
    assert (dialect, codec) == (delimited.CSV, "utf-8")
