"""A task of one's own: its file, its rows in every format, what is refused."""

import numpy as np
import pytest

from tests.data import glue_files
from tests.support import own_data
from tf_transfer.data import splits, table_files
from tf_transfer.own import table_source, task_file
from tf_transfer.utils.errors import UserError


def open_task(path, seed=0):
    return table_source.TableSource(task_file.read_task_file(path), seed)


# === Rows ===


@pytest.mark.parametrize("ending", own_data.FORMATS)
@pytest.mark.parametrize(
    "kind, label",
    [("classes", "team"), ("score", "stars"), ("labels", "tags")],
)
def test_every_format_gives_the_same_examples(kind, label, ending, tmp_path):
    source, expected = (
        open_task(
            own_data.write_task(
                tmp_path,
                name,
                ending=end,
                kind=kind,
                label=label,
                texts=["title", "body"],
            )
        )
        for name, end in (("one", ending), ("other", "jsonl"))
    )
    assert source.task.labels == expected.task.labels
    for split in ("train", "test"):
        examples, others = source.read(split), expected.read(split)
        assert examples.texts == others.texts
        np.testing.assert_array_equal(examples.labels, others.labels)
        assert examples.labels.dtype == others.labels.dtype
    assert source.task.kind == kind
    assert len(source.read("train")) == 48 and len(source.read("test")) == 12


def test_the_runs_of_a_process_read_a_table_once_for_its_labels(
    tmp_path, monkeypatch
):
    path, read, reads = str(tmp_path / "a.csv"), table_files.read_table, []

    def counted(*arguments, **options):
        reads.append(arguments[0])
        return read(*arguments, **options)

    def labels_of(first, second):
        rows = [f"a{n},{first}\nb{n},{second}\n" for n in range(9)]
        (tmp_path / "a.csv").write_text("text,label\n" + "".join(rows))
        file = task_file.from_flags(
            path, text_column="text", label_column="label"
        )
        return table_source.TableSource(file).task.labels

    monkeypatch.setattr(table_files, "read_table", counted)
    assert labels_of("x", "y") == ("x", "y")
    assert labels_of("x", "y") == ("x", "y")
    assert reads == [path]
    assert labels_of("x", "z") == ("x", "z")
    assert reads == [path] * 2


def test_columns_of_0_and_1_are_several_labels(tmp_path):
    columns = {
        "body": ["a", "b", "c", "d"],
        "rude": [0, 1, 1, 0],
        "spam": [True, False, True, False],
    }
    path = own_data.write_task(
        tmp_path,
        columns=columns,
        ending="jsonl",
        kind="labels",
        label=["rude", "spam"],
        test=None,
    )
    source = open_task(path)
    assert source.task.labels == ("rude", "spam") and source.task.units == 2
    assert source.task.metric == "f1_micro"
    assert source.read("train").labels.tolist() == [
        [0, 1],
        [1, 0],
        [1, 1],
        [0, 0],
    ]


@pytest.mark.parametrize("task", ["mrpc", "rte", "stsb"])
def test_a_task_of_glue_as_a_task_file_is_that_task(task, tmp_path):
    folder = glue_files.copy_sample(tmp_path)
    official = glue_files.open_source(task, folder)
    row = official.task
    path = own_data.write_toml(
        tmp_path / "own.toml",
        {
            "texts": list(row.texts),
            "label": row.label,
            "kind": row.kind,
            "metric": row.metric,
            "train": f"glue/{row.folder}/train.tsv",
            "test": f"glue/{row.folder}/dev.tsv",
        },
    )
    source = open_task(path)
    assert source.task.labels == row.labels and source.task.units == row.units
    assert source.task.metric == row.metric
    for split, name in (("train", "train"), ("test", "dev")):
        examples, expected = source.read(split), official.read(name)
        assert examples.texts == expected.texts
        labels = examples.labels.astype(expected.labels.dtype)
        np.testing.assert_array_equal(labels, expected.labels)
        np.testing.assert_array_equal(examples.ids, expected.ids)


# === What is held out ===


def test_a_fraction_is_drawn_as_a_run_draws_what_validates(tmp_path):
    path = own_data.write_task(tmp_path, test=None, validation=0.1)
    source = open_task(path, seed=3)
    labels = [list(own_data.WORDS)[n % 3] for n in range(60)]
    numbers = np.unique(labels, return_inverse=True)[1]
    train, held = splits.split_train_validation(numbers, 0.1, 3)
    assert source.read("validation").ids.tolist() == held.tolist()
    assert source.read("train").ids.tolist() == train.tolist()
    assert source.task.validation == "validation"
    assert source.task.development == ()


def test_rows_are_tested_by_their_ids(tmp_path):
    (tmp_path / "ids.txt").write_text("n7\nn3\n")
    path = own_data.write_task(tmp_path, test={"ids": "ids.txt"})
    source = open_task(path)
    assert source.read("test").ids.tolist() == [3, 7]
    assert len(source.read("train")) == 58
    (tmp_path / "ids.txt").write_text("n7\nn99\n")
    with pytest.raises(UserError, match="'n99'"):
        open_task(path).read("test")


def test_an_id_of_several_rows_is_refused(tmp_path):
    columns = own_data.news(20)
    columns["id"][4] = "n7"
    (tmp_path / "ids.txt").write_text("n7\nn3\n")
    path = own_data.write_task(
        tmp_path, columns=columns, test={"ids": "ids.txt"}
    )
    with pytest.raises(UserError, match="test: .*ids.txt: 1 of its 2 ids sta"):
        open_task(path).read("test")


def test_what_validates_by_ids_is_not_tested(tmp_path):
    (tmp_path / "dev.txt").write_text("".join(f"n{n}\n" for n in range(12)))
    validation = {"ids": "dev.txt"}
    path = own_data.write_task(tmp_path, validation=validation, test=0.3)
    source = open_task(path)
    assert source.read("validation").ids.tolist() == [*range(12)]
    assert not {*source.read("test").ids} & {*range(12)}
    (tmp_path / "test.txt").write_text("n30\nn11\n")
    path = own_data.write_task(
        tmp_path, validation=validation, test={"ids": "test.txt"}
    )
    with pytest.raises(UserError, match="validation: .*ids of test rows"):
        open_task(path).read("train")


def test_a_metric_of_two_labels_is_refused_where_there_are_more(tmp_path):
    path = own_data.write_task(tmp_path, metric="recall")
    with pytest.raises(UserError, match="metric: 'recall' needs two labels"):
        open_task(path).read("train")
    columns = own_data.news(20)
    columns["team"] = ["space", "money"] * 10
    path = own_data.write_task(tmp_path, columns=columns, metric="recall")
    assert open_task(path).task.metric == "recall"


def test_equal_texts_stay_in_one_split_if_requested(tmp_path):
    columns = own_data.news(20)
    doubled = {name: cells * 3 for name, cells in columns.items()}
    path = own_data.write_task(
        tmp_path, columns=doubled, duplicates="group", test=0.3, validation=0.2
    )
    source = open_task(path)
    texts = [set(source.read(part).texts[0]) for part in task_file.SPLITS]
    assert not texts[0] & texts[1] and not texts[0] & texts[2]
    assert sum(map(len, texts)) == 20
    assert len(source.read("test")) % 3 == 0


def test_equal_texts_of_files_that_test_do_not_train(tmp_path):
    """Pairs are equal if both texts are, but for case and space."""
    columns = own_data.news(20)
    path = own_data.write_task(
        tmp_path,
        columns=columns,
        texts=["title", "body"],
        duplicates="group",
        test="held.csv",
    )
    spaced = {
        name: [
            f" {cell.upper()} " if name == "title" else cell for cell in some
        ]
        for name, some in ((name, columns[name][:5]) for name in columns)
    }
    own_data.write(tmp_path / "held.csv", spaced)
    source = open_task(path)
    assert len(source.read("test")) == 5
    assert source.read("train").ids.tolist() == list(range(5, 20))


def test_a_fraction_that_validates_takes_whole_groups(tmp_path):
    """And no row is lost: what does not validate trains."""
    columns = {name: cells * 4 for name, cells in own_data.news(20).items()}
    path = own_data.write_task(
        tmp_path, columns=columns, duplicates="group", test=None
    )
    source = open_task(path)
    train = source.read("train")
    rows, held = splits.split_train_validation(
        train.labels, 0.1, 0, source.group(train.ids)
    )
    assert len(held) == 8 and len(rows) + len(held) == 80
    texts = np.array(train.texts[0])
    assert not set(texts[rows]) & set(texts[held])


def test_a_label_with_one_row_trains(tmp_path):
    columns = own_data.news(30)
    columns["team"][4] = "rare"
    for seed in range(20):
        source = open_task(
            own_data.write_task(tmp_path, columns=columns, test=0.5), seed
        )
        rare = source.task.labels.index("rare")
        assert rare in source.read("train").labels


def test_content_decides_who_a_task_is_not_where_it_stands(tmp_path):
    identities = []
    for name, keys in (
        ("a", {}),
        ("b", {}),
        ("c", {"metric": "f1_macro"}),
        ("d", {"columns": own_data.news(59)}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        identities.append(
            open_task(own_data.write_task(folder, "news", **keys)).identity
        )
    assert identities[0] == identities[1]
    assert len(set(identities)) == 3


# === What is refused ===


def edited(tmp_path, ending, edit, **keys):
    """The message on a table of four rows that an edit has broken."""
    columns = {
        "body": ["a", "b", "c", "d"],
        "team": ["x", "y", "x", "y"],
        "stars": ["1", "2", "3", "4"],
    }
    edit(columns)
    path = own_data.write_task(
        tmp_path, columns=columns, ending=ending, test=None, **keys
    )
    with pytest.raises(UserError) as error:
        open_task(path).read("train")
    assert len(str(error.value).splitlines()) <= 2
    return str(error.value)


@pytest.mark.parametrize("ending", own_data.FORMATS)
@pytest.mark.parametrize(
    "column, cell, keys, words",
    [
        ("body", " ", {}, "is empty"),
        ("team", "", {}, "is empty"),
        ("body", " ", {"kind": "score", "label": "stars"}, "is empty"),
        ("stars", "many", {"kind": "score", "label": "stars"}, "'many' is not"),
        (
            "team",
            "z",
            {"labels": ["x", "y"]},
            "'z' is not one of the labels",
        ),
        ("team", "z", {"label": "group"}, "has no column 'group'"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line(
    column, cell, keys, words, ending, tmp_path
):
    def edit(columns):
        columns[column][2] = cell

    message = edited(tmp_path, ending, edit, **keys)
    assert words in message
    assert message.startswith(str(tmp_path / f"news.{ending}"))
    if "no" not in words:
        line = {"jsonl": "line 3", "parquet": "row 3"}.get(ending, "line 4")
        assert line in message and repr(column) in message


def test_a_label_that_only_the_test_has_is_named_with_its_line(tmp_path):
    own_data.write(tmp_path / "test.csv", {"body": ["a"], "team": ["golf"]})
    source = open_task(own_data.write_task(tmp_path, test="test.csv"))
    with pytest.raises(UserError, match="test.csv, line 2.*'golf' is not"):
        source.read("test")


def test_the_test_may_lack_a_label(tmp_path):
    own_data.write(tmp_path / "test.csv", {"body": ["a"], "team": ["space"]})
    source = open_task(own_data.write_task(tmp_path, test="test.csv"))
    assert source.read("test").labels.tolist() == [1]


def test_numbers_as_classes_are_reported_as_scores(tmp_path):
    path = own_data.write_task(tmp_path, label="body", texts="title")
    with pytest.raises(UserError, match="for numbers, .kind = .score"):
        _ = open_task(path).task


# === Flags in place of a task file ===


def test_a_table_and_its_columns_are_a_task(tmp_path):
    path = own_data.write(tmp_path / "news.csv", own_data.news())
    said = task_file.from_flags(
        path, text_column="title,body", label_column="team"
    )
    source = table_source.TableSource(said)
    assert source.task.name == "news" and source.task.texts == ("title", "body")
    assert len(source.read("test")) == 6


@pytest.mark.parametrize(
    "flags, message",
    [
        ({}, "--text_column is missing"),
        ({"text_column": "body"}, "--label_column is missing"),
        ({"text_column": "a,b,c", "label_column": "d"}, "--text_column=a,b,c"),
        (
            {"text_column": "a", "label_column": "b", "metric": "speed"},
            "--metric=speed: 'speed' does not score classes",
        ),
        ({"data": "no.parquet"}, "--data=no.parquet: no such file"),
    ],
)
def test_flags_that_say_no_task_are_named(flags, message, tmp_path):
    path = own_data.write(tmp_path / "news.csv", own_data.news())
    with pytest.raises(UserError, match=message):
        task_file.from_flags(**{"data": path, **flags})


def test_an_id_is_the_row_of_its_file_also_where_others_are_skipped(tmp_path):
    cells = [f"{n} text,{'ab'[n % 2]}" for n in range(40)]
    cells[3] = ",a"  # no text
    cells[7] = "7 text,NA"
    cells[8] = "8 text"
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *cells]))
    path = own_data.write_toml(
        tmp_path / "a.toml",
        {
            "name": "a",
            "texts": "text",
            "label": "label",
            "train": "a.csv",
            "test": 0.2,
            "skip_bad_rows": True,
        },
    )
    source = table_source.TableSource(
        task_file.read_task_file(path), 0, str(tmp_path / "out")
    )
    found = []
    for split in ("train", "test"):
        examples = source.read(split)
        [texts] = examples.texts
        assert [int(text.split()[0]) for text in texts] == examples.ids.tolist()
        assert len(source.group(examples.ids)) == len(texts)
        found += examples.ids.tolist()
    assert sorted(found) == sorted({*range(40)} - {3, 7, 8})
