"""A damaged file of GLUE is named with line and column."""

import shutil

import pytest

from tests.support.refusals import make_refused
from tf_transfer.data import glue as glue_data


@pytest.fixture
def refused(tmp_path, capfd):
    """Runs a command that must fail; returns what it says."""
    return make_refused(tmp_path, capfd)


def without_line_2(text):
    return text.splitlines(keepends=True)[0]


def in_line_3(change):
    def edit(text):
        lines = text.split("\n")
        lines[2] = change(lines[2])
        return "\n".join(lines)

    return edit


def with_label(word):
    return in_line_3(lambda line: line.rsplit("\t", 1)[0] + "\t" + word)


BAD_FILES = (
    ("rte", "RTE/train.tsv", None, ["no such file"]),
    ("rte", "RTE/dev.tsv", None, ["no such file"]),
    ("mnli", "MNLI/dev_mismatched.tsv", None, ["no such file"]),
    ("rte", "RTE/train.tsv", lambda text: "", ["is empty"]),
    ("rte", "RTE/train.tsv", without_line_2, ["holds no examples"]),
    ("cola", "CoLA/train.tsv", lambda text: "", ["holds no examples"]),
    (
        "rte",
        "RTE/train.tsv",
        lambda text: text.replace("sentence2", "b", 1),
        ["line 1", "no column 'sentence2'", "'b'"],
    ),
    (
        "rte",
        "RTE/dev.tsv",
        lambda text: text.replace("label", "answer", 1),
        ["line 1", "no column 'label'", "'answer'"],
    ),
    (
        "rte",
        "RTE/train.tsv",
        in_line_3(lambda line: "one\ttwo"),
        ["line 3", "has 2 cells, needs 4"],
    ),
    (
        "cola",
        "CoLA/train.tsv",
        in_line_3(lambda line: "one\t1"),
        ["line 3", "has 2 cells, needs 4"],
    ),
    (
        "rte",
        "RTE/train.tsv",
        with_label("maybe"),
        ["line 3", "column 'label'", "'maybe'", "not_entailment"],
    ),
    (
        "rte",
        "RTE/dev.tsv",
        with_label("2"),
        ["line 3", "column 'label'", "'2'"],
    ),
    (
        "stsb",
        "STS-B/train.tsv",
        with_label("high"),
        ["line 3", "column 'score'", "'high'", "from 0 to 5"],
    ),
    (
        "stsb",
        "STS-B/train.tsv",
        with_label("nan"),
        ["line 3", "column 'score'", "'nan'"],
    ),
    (
        "stsb",
        "STS-B/dev.tsv",
        with_label("5.5"),
        ["line 3", "column 'score'", "'5.5'"],
    ),
    (
        "rte",
        "RTE/train.tsv",
        in_line_3(lambda line: "\udce9" + line),
        ["line 3", "is not UTF-8", "0xe9"],
    ),
)


@pytest.mark.usefixtures("one_block")
@pytest.mark.parametrize(
    "task, name, edit, words",
    BAD_FILES,
    ids=[f"{name}: {' '.join(words)}" for _, name, _, words in BAD_FILES],
)
def test_a_bad_file_is_named_with_line_and_column(
    task, name, edit, words, refused, tmp_path
):
    shutil.copytree(glue_data.SAMPLE, tmp_path / "data")
    path = tmp_path / "data" / name
    if edit is None:
        path.unlink()
    else:
        text = edit(path.read_text(encoding="utf-8"))
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    message = refused(f"--task={task}", f"--data={tmp_path}/data")
    assert message.startswith(f"error: {path}")
    for word in words:
        assert word in message
