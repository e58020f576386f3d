"""Excel files as Excel, LibreOffice, Google and libraries write them."""

import datetime
import re
import zipfile

import pytest

from tf_transfer.data import table_files

openpyxl = pytest.importorskip("openpyxl")

ROWS = [("text", "label")] + [(f"text {n}", n % 3) for n in range(30)]


def write(path, rows=ROWS, **formats):
    """Writes an Excel file; number formats by column letter."""
    book = openpyxl.Workbook()
    sheet = book.active
    for row in rows:
        sheet.append(row)
    for column, pattern in formats.items():
        for cell in sheet[column][1:]:
            cell.number_format = pattern
    book.save(path)
    return str(path)


def change(path, replace):
    """Replaces bytes in every part of an Excel file: `replace(name, part)`."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, replace(name, part))
    return path


@pytest.mark.parametrize("stated", ["A1:B5", "A1:A31", "A1", "B2:B3", ""])
def test_all_rows_are_read_whatever_size_the_file_states(stated, tmp_path):
    def state(name, part):
        size = f'<dimension ref="{stated}"/>' if stated else ""
        return re.sub(rb"<dimension [^>]*/>", size.encode(), part)

    path = change(write(tmp_path / "a.xlsx"), state)
    table = table_files.read_table(path, {"text": "", "label": ""})
    assert len(table) == 30 and table.columns["label"][:4] == [*"0120"]
    assert table.locate(29) == f"{path}, row 31"


def test_numbers_are_read_as_they_are_shown(tmp_path, capsys):
    rows = [("text", "code", "share", "ratio"), ("x", 7, 0.25, 0.5)]
    path = write(tmp_path / "a.xlsx", rows, B="000", C="0%", D="# ?/?")
    columns = table_files.read_table(path).columns
    assert columns == {
        "text": ["x"],
        "code": ["007"],
        "share": ["25%"],
        "ratio": ["0.5"],
    }
    assert "numbers of the format # ?/?, which are" in capsys.readouterr().err


def test_dates_and_truth_values_are_read_as_they_are_shown(tmp_path):
    day = datetime.datetime(2026, 3, 1, 9, 30)
    rows = [("day", "time", "is_new"), (day, day.time(), True)]
    path = write(tmp_path / "a.xlsx", rows, A="d mmm yyyy", B="hh:mm")
    columns = table_files.read_table(path).columns
    assert columns == {
        "day": ["1 Mar 2026"],
        "time": ["09:30"],
        "is_new": ["TRUE"],
    }


def test_strict_open_xml_is_read_like_the_usual_form(tmp_path):
    usual = re.compile(rb"http://schemas.openxmlformats.org/(\w+)/2006/")

    def to_strict(name, part):
        if name.startswith(("docProps", "[Content")):
            return part
        part = part.replace(b"schemas.openxmlformats.org/package", b"#")
        part = usual.sub(rb"http://purl.oclc.org/ooxml/\1/", part)
        return part.replace(b"#", b"schemas.openxmlformats.org/package")

    path = write(tmp_path / "a.xlsx", B="000")
    expected = table_files.read_table(path).columns
    change(path, to_strict)
    with zipfile.ZipFile(path) as archive:
        assert b"purl.oclc.org" in archive.read("xl/workbook.xml")
    assert table_files.read_table(path).columns == expected


def test_the_dates_of_strict_open_xml_are_dates(tmp_path):
    rows = [("day", "text"), (datetime.date(2026, 3, 1), "x")]
    path = write(tmp_path / "a.xlsx", rows, A="yyyy-mm-dd")

    def write_iso(name, part):
        date = rb'<c r="A2" s="\1" t="d"><v>2026-03-01</v></c>'
        return re.sub(rb'<c r="A2" s="(\d)"[^/]*<v>[^<]*</v></c>', date, part)

    change(path, write_iso)
    with zipfile.ZipFile(path) as archive:
        assert b'"d"><v>2026' in archive.read("xl/worksheets/sheet1.xml")
    assert table_files.read_table(path).columns["day"] == ["2026-03-01"]


def test_a_file_without_styles_is_read_without_a_warning(tmp_path, recwarn):
    path = write(tmp_path / "a.xlsx")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    del parts["xl/styles.xml"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(
                name, re.sub(rb"<[^<]*styles.xml[^>]*>", b"", part)
            )
    assert len(table_files.read_table(path)) == 30 and not len(recwarn)


def test_a_zip_that_is_no_workbook_is_named(tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(table_files.UserError, match="is not an Excel file"):
        table_files.read_table(str(path))
