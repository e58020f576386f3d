"""A user's table: what is read, and what is refused with its line."""

import numpy as np
import pytest

from tf_transfer.data import tables
from tf_transfer.utils.errors import UserError

COLUMNS = tables.Columns("text", "target", None)
ROWS = "id,keyword,text,target\n7,,One two,1\n9,fire%20truck,Two,0\n"
MORE = "10,,Three,1\n11,,Four,0\n"


def write(path, content, name="tweets.csv"):
    (path / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    return str(path / name)


def read(path, content, columns=COLUMNS, name="tweets.csv", **options):
    return tables.read(write(path, content, name), columns, **options)


def test_texts_labels_and_ids(tmp_path):
    found = read(tmp_path, ROWS + MORE)
    assert found.ids == ["7", "9", "10", "11"]
    assert found.texts == ["One two", "Two", "Three", "Four"]
    assert found.labels.tolist() == [1, 0, 1, 0]
    assert found.label_names == ("0", "1")
    assert len(found) == 4


def test_cells_may_hold_commas_quotes_and_lines(tmp_path):
    found = read(
        tmp_path,
        'text,target\n"a, ""b""\nc",x\nd,x\ne,y\nf,y\n',
        tables.Columns("text", "target", None),
    )
    assert found.texts[0] == 'a, "b"\nc'
    assert found.ids == ["3", "4", "5", "6"]  # the line where a row ends


def test_in_a_tsv_quotes_are_ordinary_characters(tmp_path):
    found = read(
        tmp_path,
        'text\ttarget\n"Well" he said\t1\n"\t0\na\t1\nb\t0\n',
        name="tweets.tsv",
    )
    assert found.texts[:2] == ['"Well" he said', '"']


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    assert len(read(tmp_path, b"\xef\xbb\xbf" + (ROWS + MORE).encode())) == 4


def test_labels_are_sorted_as_numbers_where_they_are_numbers(tmp_path):
    rows = "".join(f"a,{n}\nb,{n}\n" for n in (10, 9, 2))
    found = read(tmp_path, "text,target\n" + rows)
    assert found.label_names == ("2", "9", "10")
    words = "".join(f"a,{n}\nb,{n}\n" for n in ("sad", "glad", "mad"))
    assert read(tmp_path, "text,target\n" + words).label_names == (
        "glad",
        "mad",
        "sad",
    )


def test_another_id_column_or_none(tmp_path):
    columns = tables.Columns("text", "target", "text")
    assert read(tmp_path, ROWS + MORE, columns).ids[0] == "One two"
    columns = tables.Columns("text", "target", "")
    assert read(tmp_path, ROWS + MORE, columns).ids == ["2", "3", "4", "5"]


def test_the_keyword_stands_before_the_text(tmp_path):
    columns = tables.Columns("text", "target", None, "keyword")
    found = read(tmp_path, ROWS + MORE, columns)
    assert found.texts[:2] == ["One two", "fire truck: Two"]


def test_other_encodings(tmp_path):
    rows = "text,target\nCafé,1\nb,1\nc,0\nd,0\n"
    found = read(tmp_path, rows.encode("latin-1"), encoding="latin-1")
    assert found.texts[0] == "Café"
    found = read(tmp_path, rows.encode("utf-16"), encoding="utf-16")
    assert found.texts[0] == "Café"


def test_the_identity_is_the_content_s(tmp_path):
    one = read(tmp_path, ROWS + MORE, name="one.csv")
    same = read(tmp_path, ROWS + MORE, name="other.csv")
    other = read(tmp_path, ROWS + MORE.replace("F", "f"))
    assert one.identity == same.identity != other.identity


MINIMAL = "text,target\na,1\nb,1\nc,0\nd,0\n"


@pytest.mark.parametrize(
    "content, said",
    [
        ("", "is empty"),
        ("text,target\n", "holds no examples"),
        (
            "tweet,target\na,1\n",
            "line 1: has no column 'text'.*'tweet'.*--text",
        ),
        ("text,label\na,1\n", "line 1: has no column 'target'.*--label_column"),
        (MINIMAL + ",1\n", "line 6, column 'text': is empty"),
        (MINIMAL + "e, \n", "line 6, column 'target': is empty"),
        (MINIMAL + "e\n", "line 6: has 1 cells, the header 2"),
        (MINIMAL + "e,0\nf,2\n", "one example only has label '2'"),
        ("text,target\na,1\nb,1\n", "has one label only, '1'"),
        (
            "text,target\n" + "".join(f"t,{n % 6}\n" for n in range(11)),
            "6 different labels in 11 rows",
        ),
        ("id,text,target\n1,a,1\n1,b,0\n", "has '1' 2 times.*--id_column"),
        ('text,target\n"a,1\nb,0\n', "line 2: is not CSV"),
        (
            MINIMAL.encode() + "Café,1\n".encode("latin-1"),
            r"line 6: is not utf-8 \(byte 0xe9\).*--encoding, such as latin-1",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, content, said):
    with pytest.raises(UserError, match=f"tweets.csv.*{said}"):
        read(tmp_path, content)


def test_no_file_no_encoding(tmp_path):
    with pytest.raises(UserError, match="--data=nowhere.csv: no such file"):
        tables.read("nowhere.csv", COLUMNS)
    with pytest.raises(UserError, match="--encoding=utf-9: no such"):
        read(tmp_path, MINIMAL, encoding="utf-9")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("see https://t.co/Ab1 now", "see http now"),
        ("@Anna_1: &lt;3 &amp; you", "@user: <3 & you"),
        ("me@home.org stays", "me@home.org stays"),
    ],
)
def test_cleaning(tmp_path, text, expected):
    assert tables.clean_text(text) == expected
    found = read(
        tmp_path, f"text,target\n{text},1\nb,1\nc,0\nd,0\n", clean=True
    )
    assert found.texts[0] == expected


def test_duplicates_differ_in_case_and_space_alone():
    texts = ["A b", "c", " a  B ", "C", "d", "c"]
    groups = tables.group_texts(texts)
    assert groups.tolist() == [0, 1, 0, 1, 2, 1]
    labels = np.array([1, 0, 1, 1, 0, 0])
    found = tables.count_duplicates(groups, labels)
    assert (found.rows, found.conflicting) == (3, 1)
