"""Rows of one author: in one split and fold, in whatever files they are."""

import json

import numpy as np
import pytest

from tests.support import own_data
from tf_transfer.data import groups as groups_lib
from tf_transfer.own import held_out, table_source, task_file
from tf_transfer.own.task_file import SplitOrigin
from tf_transfer.utils.errors import UserError


def authored(count=60, authors=12):
    """Columns of texts, each with an author."""
    columns = own_data.news(count)
    names = [f"author {number % authors}" for number in range(count)]
    return {**columns, "author": names}


def open_task(folder, name="mine", **keys):
    keys = {"columns": authored(), "group": "author", **keys}
    path = own_data.write_task(folder, name, **keys)
    return table_source.TableSource(task_file.read_task_file(path))


def authors_of(source, split):
    return {*np.array(authored()["author"])[source.read(split).ids]}


@pytest.mark.parametrize("ending", own_data.FORMATS)
def test_rows_of_a_group_are_in_one_split(ending, tmp_path):
    source = open_task(tmp_path, ending=ending, test=0.2, validation=0.2)
    parts = [authors_of(source, split) for split in task_file.SPLITS]
    assert [*map(len, parts)] == [7, 2, 3]
    assert len(set.union(*parts)) == 12
    train = source.read("train")
    assert len(np.unique(train.groups)) == 7
    assert len(np.unique(source.group(train.ids))) == 7


def test_equal_texts_join_the_groups_that_have_them(tmp_path):
    columns = authored()
    columns["body"][1] = columns["body"][0]  # of author 0 and of author 1
    source = open_task(
        tmp_path, columns=columns, duplicates="group", texts="body"
    )
    assert source.groups[0] == source.groups[1] == source.groups[12]
    assert len(np.unique(source.groups)) == 11
    assert len(np.unique(source.read_all("train").groups)) == 12


@pytest.mark.parametrize("words", ["words", "title"])
def test_sentences_have_groups_too(words, tmp_path):
    source = open_task(
        tmp_path,
        ending="jsonl",
        kind="entities",
        texts=words,
        label="marks",
        test=0.2,
    )
    assert not authors_of(source, "train") & authors_of(source, "test")
    train = source.read("train")
    assert len(train.groups) == len(train)


def test_a_file_of_words_has_no_groups(tmp_path):
    (tmp_path / "words.conll").write_text("moon B-PLACE\n\nbank O\n")
    (tmp_path / "ner.toml").write_text(
        'kind = "entities"\ntrain = "words.conll"\ngroup = "document"\n'
    )
    source = table_source.TableSource(
        task_file.read_task_file(str(tmp_path / "ner.toml"))
    )
    with pytest.raises(UserError, match="no column 'document'.*`group` out"):
        source.read("train")


def test_a_task_without_groups_keeps_its_identity(tmp_path):
    task = open_task(tmp_path, "plain").task_file
    values = dict(task.__dict__)
    assert values.pop("group") == "author"
    without, grouped = (
        table_source.TableSource(task_file.TaskFile(**values, **more))
        for more in ({}, {"group": "author"})
    )
    assert without.identity == (
        "own sha256:"
        "58216ecdec7b4cddf23de157c4de3f968cb3d33209afc7d088737ad4bf3f7c58"
    )
    assert grouped.identity != without.identity
    assert without.read("train").groups is None


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"group": "writer"},
            "no column 'writer'.*Give one of them as `group`",
        ),
        (
            {"group": "team"},
            "'team': has too few groups.*another `group`, or none",
        ),
        ({"columns": authored(authors=1)}, "'author': has too few groups"),
    ],
)
def test_a_column_that_cannot_group_is_named(change, message, tmp_path):
    with pytest.raises(UserError, match=message):
        open_task(tmp_path, **change).read("train")


def test_a_row_without_a_group_is_named_or_skipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for the file of what is left out
    columns = authored()
    columns["author"][4] = " "
    with pytest.raises(UserError, match="line 6, column 'author': is empty"):
        open_task(tmp_path, columns=columns).read("train")
    source = open_task(tmp_path, columns=columns, skip_bad_rows=True)
    assert len(source.read_all("train")) == 59


def test_a_group_in_files_of_two_splits_is_named(tmp_path):
    columns = authored()
    held = {name: cells[5:6] for name, cells in columns.items()}
    own_data.write(tmp_path / "held.csv", held)
    with pytest.raises(UserError, match="held.csv, line 2.*'author 5' is also"):
        open_task(tmp_path, test="held.csv").read("train")
    held["author"] = ["author 99"]
    own_data.write(tmp_path / "held.csv", held)
    source = open_task(tmp_path, test="held.csv")
    assert len(source.read("train")) == 60
    trained_on = source.read("train").groups
    assert not np.isin(source.read("test").groups, trained_on).any()


def test_ids_of_a_part_of_a_group_are_refused(tmp_path):
    ids = [f"n{number}" for number in range(0, 60, 12)]
    (tmp_path / "ids.txt").write_text("\n".join(ids))
    source = open_task(tmp_path, test={"ids": "ids.txt"})
    assert len(source.read("test")) == 5
    (tmp_path / "ids.txt").write_text("\n".join(ids[1:]))
    with pytest.raises(
        UserError, match="line 14.*'author 0' is also in .*as are those of 4 of"
    ):
        open_task(tmp_path, test={"ids": "ids.txt"}).read("train")


def test_folds_of_a_table_are_of_whole_groups(tmp_path):
    columns = authored()
    columns["team"] = [["space", "money"][n // 12 % 2] for n in range(60)]
    table = held_out.HeldOutTable(
        own_data.write(tmp_path / "table.csv", columns),
        "table",
        ("title",),
        ("team",),
        SplitOrigin((str(tmp_path / "table.csv"),)),
        test=SplitOrigin(fraction=0.2),
        group="author",
        folds=4,
    )
    authors = np.array(columns["author"])
    folds = held_out.HeldOutSource(table).folds()
    for train, tested in folds:
        assert not {*authors[train]} & {*authors[tested]}
    assert sum(len(tested) for _, tested in folds) == 60


# === Folds ===


def test_folds_of_groups_are_whole_and_have_classes_in_proportion():
    groups = np.arange(200) % 20
    labels = np.where(groups < 10, 0, 1)
    folds = groups_lib.make_folds(labels, groups, 5, 0, repeats=2)
    assert len(folds) == 10
    for train, held in folds:
        assert not {*groups[train]} & {*groups[held]}
        assert sorted([*train, *held]) == [*range(200)]
        assert np.bincount(labels[held]).tolist() == [20, 20]
    assert folds[0][1].tolist() != folds[5][1].tolist()
    again = groups_lib.make_folds(labels, groups, 5, 0, repeats=2)
    assert again[7][1].tolist() == folds[7][1].tolist()


def test_more_folds_than_groups_are_refused():
    with pytest.raises(UserError, match="--group_column .*has 4 groups in 8 "):
        groups_lib.make_folds(np.arange(8) % 2, np.arange(8) % 4, 5, 0)


@pytest.mark.parametrize(
    "groups, fraction, fold, can",
    [(2, 0.1, 0, True), (2, 0.1, 2, False), (1, 0.1, 0, False)],
)
def test_a_fraction_needs_a_group_that_trains(groups, fraction, fold, can):
    numbers = np.arange(12) % groups
    assert groups_lib.can_hold_out(numbers, fraction, fold) is can


# === A column that may be one ===


def with_column(values, labels=("space", "money")):
    news = own_data.news(240)
    columns = {n: news[n] for n in ("id", "title", "body")}
    columns["author"] = values
    columns["team"] = [labels[number % 2] for number in range(240)]
    return columns


def find_problems(folder, columns, **changes):
    task = open_task(folder, columns=columns, group=None, **changes)
    return task.find_problems()


def test_a_column_with_as_few_values_as_groups_is_named(tmp_path):
    columns = with_column([f"p{number % 20}" for number in range(240)])
    [problem] = find_problems(tmp_path, columns)
    assert "'author'" in problem and 'group = "author"' in problem
    assert open_task(tmp_path, columns=columns).find_problems() == []
    source = open_task(tmp_path, columns=columns, group=None)
    path = tmp_path / "mine.csv"
    path.write_text("Our messages,,\n" + path.read_text())  # a title
    assert source.find_problems() == [problem]
    columns["month"] = [f"m{number % 12}" for number in range(240)]
    assert find_problems(tmp_path, columns) == []  # which of the two?


def test_a_column_that_splits_do_not_share_is_not_named(tmp_path):
    columns = with_column([f"p{number % 20}" for number in range(240)])
    own_data.write(tmp_path / "held.csv", columns)
    own_data.write(tmp_path / "other.csv", columns)
    apart = {"test": "held.csv", "validation": "other.csv"}
    assert find_problems(tmp_path, columns, **apart) == []


@pytest.mark.parametrize(
    "values",
    [
        [f"p{number // 2}" for number in range(240)],  # few rows each
        [f"p{number % 2}" for number in range(240)],  # few values
        [""] * 240,
    ],
)
def test_other_columns_are_not(values, tmp_path):
    assert find_problems(tmp_path, with_column(values)) == []


def test_a_table_that_cannot_be_read_completely_has_no_such_column(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("text,label,more,more\n" + "a,x,1,1\nb,y,1,1\n" * 2)
    (tmp_path / "mine.toml").write_text(
        'texts = "text"\nlabel = "label"\ntrain = "twice.csv"\n'
    )
    source = table_source.TableSource(
        task_file.read_task_file(str(tmp_path / "mine.toml"))
    )
    assert source.find_problems() == [] and len(source.read("train")) == 4


def test_the_flag_is_offered_where_there_is_no_task_file(tmp_path):
    columns = with_column([f"p{number % 20}" for number in range(240)])
    path = tmp_path / "table.jsonl"
    path.write_text(
        "".join(
            json.dumps(dict(zip(columns, row))) + "\n"
            for row in zip(*columns.values())
        )
    )
    task = task_file.from_flags(str(path), "", "title", "team")
    [problem] = table_source.TableSource(task).find_problems()
    assert "--group_column=author keeps" in problem
