"""Which rows are tested: nothing on both sides, whatever is asked for."""

import numpy as np
import pytest
import sklearn.model_selection

from tests.support import own_data
from tf_transfer.data import file_formats
from tf_transfer.own import held_out
from tf_transfer.own.task_file import SplitOrigin
from tf_transfer.utils.errors import UserError

ALONE = np.arange(100)
LABELS = np.array([0, 0, 0, 1] * 25)


def test_a_drawn_set_is_stratified_and_the_seed_s():
    tested = held_out.draw_test_rows(LABELS, ALONE, 0.2, 0)
    assert len(tested) == 20 and LABELS[tested].sum() == 5
    assert (
        tested.tolist()
        == held_out.draw_test_rows(LABELS, ALONE, 0.2, 0).tolist()
    )
    assert (
        tested.tolist()
        != held_out.draw_test_rows(LABELS, ALONE, 0.2, 1).tolist()
    )


def test_groups_stay_in_one_split():
    groups = ALONE // 4
    tested = held_out.draw_test_rows(LABELS, groups, 0.2, 0)
    assert not set(groups[tested]) & set(np.delete(groups, tested))


def test_folds_are_scikit_learn_s_on_the_order_that_is_given():
    order = np.random.default_rng(0).permutation(100)
    found = held_out.make_folds(ALONE, 10, 57, order)
    expected = sklearn.model_selection.KFold(
        10, shuffle=True, random_state=57
    ).split(order)
    for (train, tested), (theirs, tests) in zip(found, expected, strict=True):
        assert train.tolist() == order[theirs].tolist()
        assert tested.tolist() == order[tests].tolist()


def test_groups_stay_in_one_fold():
    groups = ALONE // 3
    found = held_out.make_folds(groups, 5, 0, ALONE)
    assert sorted(np.concatenate([t for _, t in found])) == ALONE.tolist()
    for train, tested in found:
        assert not set(groups[train]) & set(groups[tested])


@pytest.mark.parametrize("count", [1, 0, 101])
def test_a_number_of_folds_that_cannot_be_is_named(count):
    with pytest.raises(UserError, match=f"--folds={count}: give 2 to 100"):
        held_out.make_folds(ALONE, count, 0, ALONE)


def test_a_label_without_examples_is_named():
    words = ("calm", "disaster")
    held_out.check_labels(np.array([0, 1]), words, "--folds=2:", "Fewer.")
    with pytest.raises(UserError, match="--folds=2: no .*'disaster'. Fewer."):
        held_out.check_labels(np.array([0]), words, "--folds=2:", "Fewer.")


def test_too_few_to_draw_from_is_named():
    message = "a.csv: cannot test 0.01 of its 100.*--test_fraction"
    with pytest.raises(UserError, match=message):
        held_out.draw_test_rows(LABELS, ALONE, 0.01, 0, "a.csv")


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "holds no ids"),
        (b"a\na\n", "has an id twice"),
        (b"\xe9\n", "line 1: is not UTF-8"),
    ],
)
def test_a_file_of_ids_that_cannot_be_is_named(tmp_path, content, words):
    path = str(tmp_path / "ids.txt")
    with pytest.raises(UserError, match="--row_order=f: no such file"):
        file_formats.read_ids(path, "--row_order=f")
    (tmp_path / "ids.txt").write_bytes(content)
    with pytest.raises(UserError, match=f"(=f|ids.txt).*{words}"):
        file_formats.read_ids(path, "--row_order=f")


# === A table ===

ROWS = "id,keyword,text,target\n7,,One two,1\n9,fire%20truck,Two,0\n"
MORE = "10,,Three,1\n11,,Four,0\n"


def write(path, content, name="tweets.csv"):
    (path / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    return str(path / name)


def open_table(path, content, name="tweets.csv", **options):
    return open_path(write(path, content, name), **{"id": None, **options})


def open_path(path, test_ids="", **options):
    return held_out.HeldOutSource(
        held_out.HeldOutTable(
            path,
            "tweets",
            ("text",),
            ("target",),
            SplitOrigin((path,)),
            test=SplitOrigin((), 0.1, test_ids),
            **options,
        )
    )


def read(path, content, **options):
    """The texts of a table, and the names of their labels."""
    source = open_table(path, content, **options)
    examples = source.read_all("train")
    names = [source.task.labels[label] for label in examples.labels]
    return examples.texts[0], names


def test_texts_and_labels(tmp_path):
    texts, labels = read(tmp_path, ROWS + MORE)
    assert texts == ["One two", "Two", "Three", "Four"]
    assert labels == ["1", "0", "1", "0"]
    assert open_table(tmp_path, ROWS + MORE).task.labels == ("0", "1")


def ids_of(tmp_path, content, ids, **options):
    """The test rows that some ids choose."""
    (tmp_path / "ids.txt").write_text("".join(f"{word}\n" for word in ids))
    source = open_table(
        tmp_path, content, test_ids=str(tmp_path / "ids.txt"), **options
    )
    return source.drawn["test"].tolist()


def test_cells_may_hold_commas_quotes_and_lines(tmp_path):
    content = 'text,target\n"a, ""b""\nc",x\nd,x\ne,y\nf,y\n'
    texts, _ = read(tmp_path, content)
    assert texts[0] == 'a, "b"\nc'
    # The id is the line where a row ends.
    assert ids_of(tmp_path, content, ["3", "6"]) == [0, 3]


def test_in_a_tsv_quotes_are_ordinary_characters(tmp_path):
    texts, _ = read(
        tmp_path,
        'text\ttarget\n"Well" he said\t1\n"\t0\na\t1\nb\t0\n',
        name="tweets.tsv",
    )
    assert texts[:2] == ['"Well" he said', '"']


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    content = b"\xef\xbb\xbf" + (ROWS + MORE).encode()
    assert ids_of(tmp_path, content, ["7"]) == [0]


def test_labels_are_sorted_as_numbers_where_they_are_numbers(tmp_path):
    rows = "".join(f"a,{n}\nb,{n}\n" for n in (10, 9, 2))
    assert open_table(tmp_path, "text,target\n" + rows).task.labels == (
        "2",
        "9",
        "10",
    )
    words = "".join(f"a,{n}\nb,{n}\n" for n in ("sad", "glad", "mad"))
    assert open_table(tmp_path, "text,target\n" + words).task.labels == (
        "glad",
        "mad",
        "sad",
    )


def test_another_id_column_or_none(tmp_path):
    content = ROWS + MORE
    assert ids_of(tmp_path, content, ["9"]) == [1]
    assert ids_of(tmp_path, content, ["Two"], id="text") == [1]
    assert ids_of(tmp_path, content, ["3"], id="") == [1]


def test_the_keyword_stands_before_the_text(tmp_path):
    texts, _ = read(tmp_path, ROWS + MORE, keyword="keyword")
    assert texts[:2] == ["One two", "fire truck: Two"]


def test_other_encodings(tmp_path):
    rows = "text,target\nCafé,1\nb,1\nc,0\nd,0\n"
    for encoding in ("latin-1", "utf-16"):
        texts, _ = read(tmp_path, rows.encode(encoding), encoding=encoding)
        assert texts[0] == "Café"


def test_the_identity_is_the_content_s(tmp_path):
    one = open_table(tmp_path, ROWS + MORE, name="one.csv")
    same = open_table(tmp_path, ROWS + MORE, name="other.csv")
    other = open_table(tmp_path, ROWS + MORE.replace("F", "f"))
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
        (
            MINIMAL + "\u200b\u00a0,1\n",
            "line 6, column 'text': has only invisi",
        ),
        (MINIMAL + "e, \n", "line 6, column 'target': is empty"),
        (MINIMAL + "e\n", "line 6: has 1 cells, needs 2"),
        (MINIMAL + "e,0\nf,2\n", "column 'target': has label '2' in one row"),
        (
            "text,target\na,1\nb,1\n",
            "has only the label '1',.*--label_column",
        ),
        (
            "text,target\n" + "".join(f"t,{n % 6}\n" for n in range(11)),
            "6 different labels in 11 rows",
        ),
        ('text,target\n"a,1\nb,0\n', "line 2: is not CSV"),
        (
            MINIMAL.encode() + "é,0\n".encode() + b"Caf\xe9,1\n",
            r"line 7: is not utf-8 \(byte 0xe9\).*--encoding, such as latin-1",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, content, said):
    with pytest.raises(UserError, match=f"tweets.csv.*{said}"):
        read(tmp_path, content)


def test_no_file_no_encoding(tmp_path):
    with pytest.raises(UserError, match="--data=nowhere.csv: no such file"):
        open_path("nowhere.csv")
    with pytest.raises(UserError, match="--encoding=utf-9: no such"):
        read(tmp_path, MINIMAL, encoding="utf-9")
    with pytest.raises(UserError, match="line 1: is not undefined"):
        read(tmp_path, MINIMAL, encoding="undefined")


@pytest.mark.parametrize(
    "ids, words",
    [
        (["7", "77"], "1 of its 2 ids are not in .*tweets.csv.*'77'.*--id_col"),
        (["7", "10"], "leaves no example of label '1'"),
        (["8"], "1 of its 1 ids stand for several rows of .*tweets.csv.*'8'"),
    ],
)
def test_ids_that_cannot_be_tested_are_named(tmp_path, ids, words):
    content = ROWS + MORE + "8,,Five,0\n8,,Six,1\n"
    if words.startswith("leaves"):
        content = ROWS + MORE
    with pytest.raises(UserError, match=f"--test_ids.*{words}"):
        ids_of(tmp_path, content, ids)


def test_json_lines_are_read_as_a_csv_is(tmp_path):
    columns = {"id": [1, 2, 3, 4], "text": list("abcd"), "target": [0, 1] * 2}
    path = own_data.write(tmp_path / "a.jsonl", columns)
    source = open_path(path, id=None)
    assert source.read_all("train").texts == [list("abcd")]
    assert source.task.labels == ("0", "1")


def test_the_column_of_the_ids_may_be_the_keyword_too(tmp_path):
    texts, _ = read(tmp_path, ROWS + MORE, keyword="id")
    assert texts[0] == "7: One two"
    with pytest.raises(UserError, match="no column 'id'.*--keyword_column"):
        read(tmp_path, MINIMAL, keyword="id")
