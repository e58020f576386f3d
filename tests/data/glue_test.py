"""GLUE's tasks, from the sample and from the official files."""

import os
import shutil

import numpy as np
import pytest

from tests.data import glue_files
from tests.data.glue_files import (
    COMPLETE,
    open_source,
    QQP_WITH_BROKEN_ROWS,
    SHAPES,
    splits,
    write,
)
from tf_transfer.data import glue
from tf_transfer.experiment import load
from tf_transfer.utils.errors import UserError

KNOWN = [
    # CoLA has no header: its first line is an example.
    (
        "cola",
        "train",
        0,
        0,
        ["The twins seems that have forgotten their keys."],
    ),
    (
        "cola",
        "train",
        2,
        1,
        ["What surprised the twins most was how quiet the city seemed."],
    ),
    (
        "sst2",
        "dev",
        0,
        1,
        ["a witty, well-made thriller that keeps you guessing"],
    ),
    # MRPC begins with a byte-order mark.
    (
        "mrpc",
        "train",
        6,
        1,
        [
            '"We are delighted with the result," the school\'s head '
            "teacher said.",
            'The head teacher of the school said they were "delighted with the '
            'result".',
        ],
    ),
    (
        "stsb",
        "train",
        8,
        4.75,
        [
            "The shop opens at nine o'clock on Sundays.",
            "On Sundays, the shop opens at 9.",
        ],
    ),
    (
        "qqp",
        "train",
        5,
        1,
        [
            'What does the phrase "to hit the hay" mean?',
            'What is the meaning of "to hit the hay"?',
        ],
    ),
    (
        "mnli",
        "train",
        1,
        0,
        [
            '"I never said that I was afraid," whispered Jonas, and his knees '
            "shook.",
            "Jonas spoke in a low voice.",
        ],
    ),
    (
        "mnli",
        "dev_matched",
        0,
        1,
        [
            "we bought the car in spring and it's been fine so far",
            "The speaker's car is blue.",
        ],
    ),
    (
        "mnli",
        "dev_mismatched",
        0,
        1,
        [
            "Many sailors' knots have more than one name.",
            "Most of the names of knots come from fishermen.",
        ],
    ),
    (
        "qnli",
        "train",
        0,
        1,
        [
            "How deep do the turtles dive for food?",
            "Turtles return to the beach on which they were born.",
        ],
    ),
    (
        "rte",
        "dev",
        0,
        0,
        [
            "Thieves stole a bronze statue of a goose from the park in the "
            "night to Thursday.",
            "A statue was stolen.",
        ],
    ),
    (
        "wnli",
        "dev",
        0,
        1,
        [
            "My fiancé phoned the plumber, and he promised to come by at 8.",
            "The plumber promised to come.",
        ],
    ),
]


# === The sample ===


def test_all_nine_tasks_are_known():
    assert glue.TASKS.keys() == SHAPES.keys()


@pytest.mark.parametrize("task", SHAPES)
def test_the_sample_holds_every_task(task):
    columns, labels = SHAPES[task]
    source = open_source(task, "sample")
    for split in splits(task):
        examples = source.read(split)
        size = {"train": 36, "dev": 16}[split.split("_")[0]]
        assert len(examples) == size
        assert [len(column) for column in examples.texts] == [size] * columns
        assert all(map(str.strip, sum(examples.texts, [])))
        np.testing.assert_array_equal(examples.ids, np.arange(size))
        if labels:
            assert examples.labels.dtype == np.int64
            assert set(examples.labels) == labels
        else:
            assert examples.labels.dtype == np.float32
            assert 0 <= examples.labels.min() < examples.labels.max() <= 5


@pytest.mark.parametrize("task, split, row, label, texts", KNOWN)
def test_a_known_row_of_the_sample_is_read(task, split, row, label, texts):
    examples = open_source(task, "sample").read(split)
    assert [column[row] for column in examples.texts] == texts
    assert label == examples.labels[row]


def test_the_mrpc_sample_begins_with_a_byte_order_mark():
    with open(os.path.join(glue.SAMPLE, "MRPC", "dev.tsv"), "rb") as file:
        assert file.read(3) == b"\xef\xbb\xbf"


def test_take_gives_the_rows_with_their_ids():
    examples = open_source("rte", "sample").read("dev")
    taken = examples.take(np.array([3, 1]))
    assert list(taken.ids) == [3, 1]
    assert taken.texts[1] == [examples.texts[1][3], examples.texts[1][1]]
    assert list(taken.labels) == [examples.labels[3], examples.labels[1]]


# === Identity ===


@pytest.fixture
def folder(tmp_path):
    """A folder of official files of our own."""
    return glue_files.copy_sample(tmp_path)


@pytest.mark.parametrize("split", ["train", "dev_matched", "dev_mismatched"])
def test_identity_changes_with_a_single_byte(folder, split):
    before = open_source("mnli", folder).identity
    assert before == open_source("mnli", "sample").identity
    path = folder / "MNLI" / f"{split}.tsv"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    assert open_source("mnli", folder).identity != before


def test_identity_does_not_depend_on_other_tasks(folder):
    before = open_source("rte", folder).identity
    (folder / "WNLI" / "train.tsv").unlink()
    assert open_source("rte", folder).identity == before


# === What is wrong with a file is said ===

SCORES = "sentence1\tsentence2\tscore\na\tb\t2.5\na\tb\t{}\n"

BROKEN = {
    "an empty file": ("sst2", "", ["is empty"]),
    "nothing but a byte-order mark": ("sst2", "\ufeff", ["is empty"]),
    "nothing but a header": ("sst2", "sentence\tlabel\n", ["no examples"]),
    "a missing text column": (
        "sst2",
        "text\tlabel\ngood\t1\n",
        ["line 1", "'sentence'", "'text'"],
    ),
    "a missing label column": (
        "mrpc",
        "Quality?\t#1 String\t#2 String\n1\ta\tb\n",
        ["line 1", "'Quality'"],
    ),
    "too few columns": (
        "rte",
        "sentence1\tsentence2\tlabel\na\tb\tentailment\na\tb\n",
        ["line 3", "2 cells", "needs 3"],
    ),
    "too few columns without a header": (
        "cola",
        "x\t1\t\tFine.\nx\t1\tshort\n",
        ["line 2", "3 cells"],
    ),
    "an unknown label": (
        "rte",
        "sentence1\tsentence2\tlabel\na\tb\tmaybe\n",
        ["line 2", "column 'label'", "'maybe'", "entailment"],
    ),
    "a score that is no number": (
        "stsb",
        SCORES.format("high"),
        ["line 3", "column 'score'", "'high'"],
    ),
    "a score above the range": (
        "stsb",
        SCORES.format("5.1"),
        ["line 3", "column 'score'", "'5.1'"],
    ),
    "a score below the range": (
        "stsb",
        SCORES.format("-0.1"),
        ["line 3", "column 'score'", "'-0.1'"],
    ),
    "a score that is nan": (
        "stsb",
        SCORES.format("nan"),
        ["line 3", "column 'score'", "'nan'"],
    ),
    "bytes that are not UTF-8": (
        "sst2",
        b"sentence\tlabel\ngood\t1\ncaf\xe9\t0\n",
        ["line 3", "0xe9"],
    ),
}


@pytest.mark.parametrize(
    "task, content, expected", BROKEN.values(), ids=BROKEN.keys()
)
def test_a_broken_file_is_named_with_its_line(folder, task, content, expected):
    path = write(folder, task, content)
    with pytest.raises(UserError) as error:
        open_source(task, folder).read("train")
    for words in [path, *expected]:
        assert words in str(error.value)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="--data=.*nowhere: no such folder"):
        open_source("rte", tmp_path / "nowhere")


def test_a_missing_task_folder_is_named(folder):
    shutil.rmtree(folder / "RTE")
    with pytest.raises(UserError, match="--data=.*no folder RTE"):
        open_source("rte", folder)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_missing_file_is_named(folder, split):
    (folder / "RTE" / f"{split}.tsv").unlink()
    with pytest.raises(UserError, match=rf"RTE/{split}\.tsv: no such file"):
        open_source("rte", folder)


# === What is unusual, but right ===


def test_quotes_are_ordinary_characters(folder):
    texts = ['"an open quote', 'a "quoted" word', '""', "'"]
    rows = "".join(f"{text}\t1\n" for text in texts)
    write(folder, "sst2", "sentence\tlabel\n" + rows)
    assert open_source("sst2", folder).read("train").texts == [texts]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n\n"])
def test_line_ends_are_no_part_of_the_examples(folder, end, last):
    content = "sentence\tlabel\ngood\t1\nbad\t0" + last
    write(folder, "sst2", content.replace("\n", end))
    examples = open_source("sst2", folder).read("train")
    assert examples.texts == [["good", "bad"]]
    assert list(examples.labels) == [1, 0]


def test_broken_rows_of_qqp_are_left_out_and_counted(folder, caplog):
    path = write(folder, "qqp", QQP_WITH_BROKEN_ROWS)
    examples = open_source("qqp", folder).read("train")
    assert examples.texts == [["first?", "third?"], ["second?", "fourth?"]]
    assert list(examples.labels) == [1, 0]
    assert f"{path}: left out 2 broken rows" in caplog.text


# === The real files ===


@pytest.mark.shared
@pytest.mark.parametrize("task, sizes", COMPLETE.items())
def test_the_real_files_are_read_whole(shared_data, task, sizes):
    source = open_source(task, os.path.join(shared_data, "glue"))
    assert (len(source.read("train")), len(source.read("dev"))) == sizes


@pytest.mark.parametrize("metric", ["matthews", "accuracy"])
def test_a_finished_run_s_task_has_all_its_metrics(metric):
    task = glue.TASKS["cola"].scored_by(metric)
    assert task.metric == metric
    assert set(task.metrics) == {"matthews", "accuracy"}
    assert glue.make_recorded_task("cola", task.record) == task


@pytest.mark.parametrize("command", ["glue", "train", "methods", "freezing"])
def test_cola_is_scored_by_matthews_but_where_wang_is_run_again(command):
    experiment = load(command)
    settings = experiment.Settings(
        task="cola", data="sample", model="tiny", lr=1e-3
    )
    metric = "accuracy" if command == "glue" else "matthews"
    assert experiment(settings).metric == metric
