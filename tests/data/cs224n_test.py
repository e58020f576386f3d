"""The CS224N project's files: what is read, and what is refused."""

import os

import pytest

from tf_transfer.data import cs224n
from tf_transfer.utils.errors import UserError

SENTIMENT, PARAPHRASE, SIMILARITY = cs224n.TASKS.values()
PAIRS = "\tid\tsentence1\tsentence2\tis_duplicate\n"


def write(folder, task, content, split="train"):
    (folder / f"{task.folder}-{split}.csv").write_text(content)
    return str(folder)


def read(folder, task, split):
    path = os.path.join(folder, cs224n.file_name(task, split))
    return cs224n.read_examples(path, task)


def test_labels_and_texts(tmp_path):
    folder = write(
        tmp_path,
        SENTIMENT,
        MOODS + "7\tab1\t It 's good . \t4\n9\tcd2\tBad\t0\n",
    )
    examples = read(folder, SENTIMENT, "train")
    assert examples.texts == [["It 's good .", "Bad"]]
    assert examples.labels.tolist() == [4, 0]
    assert SENTIMENT.units == 5


def test_classes_may_stand_there_as_floats_and_cells_in_quotes(tmp_path):
    folder = write(
        tmp_path,
        PARAPHRASE,
        PAIRS + '1\ta\t"He said ""no"""\tWhy?\t1.0\n2\tb\tx\ty\t0.0\n',
    )
    examples = read(folder, PARAPHRASE, "train")
    assert examples.texts[0][0] == 'He said "no"'
    assert examples.labels.tolist() == [1, 0]


def test_rows_without_a_label_are_left_out_and_counted(tmp_path, caplog):
    folder = write(
        tmp_path,
        PARAPHRASE,
        PAIRS + "1\ta\tx\ty\t1.0\n2\tb\tx\ty\t\n3\tc\tx\ty\t0.0\n",
    )
    examples = read(folder, PARAPHRASE, "train")
    assert len(examples) == 2
    assert "left out 1 rows without a label, the first in line 3" in caplog.text


SCORES = "\tid\tsentence1\tsentence2\tsimilarity\n"
MOODS = "\tid\tsentence\tsentiment\n"


@pytest.mark.parametrize(
    "task, content, said",
    [
        (
            SENTIMENT,
            MOODS + "1\ta\tx\t5\n",
            "line 2.*'5' is not one of.*'0', '1'",
        ),
        (SENTIMENT, MOODS + "1\ta\tx\t1.5\n", "line 2.*'1.5' is not one of"),
        (SENTIMENT, MOODS + "1\ta\tx\t\n", "line 2, column 'sentiment'"),
        (
            SIMILARITY,
            SCORES + "1\ta\tx\ty\t5.1\n",
            "'5.1' is not a score from 0",
        ),
        (
            SIMILARITY,
            SCORES + "1\ta\tx\t \t5\n",
            "column 'sentence2': is empty",
        ),
        (SIMILARITY, SCORES + "1\ta\tx\n", "line 2: has 3 cells, needs 5"),
        (SIMILARITY, "id,sentence1\n", "no column 'id'.*separated by tabs"),
        (PARAPHRASE, PAIRS, "holds no examples"),
        (PARAPHRASE, "", "is empty"),
    ],
)
def test_what_cannot_be_is_named(tmp_path, task, content, said):
    folder = write(tmp_path, task, content)
    with pytest.raises(UserError, match=f"{task.folder}-train.csv.*{said}"):
        read(folder, task, "train")


def test_a_missing_file_is_named_with_all_that_are_needed(tmp_path):
    with pytest.raises(
        UserError, match="ids-sst-train.csv: no such.*--data.*sts-train.csv"
    ):
        cs224n.open_all(str(tmp_path), "")


def test_the_identity_is_the_files_content(tmp_path):
    for task in cs224n.TASKS.values():
        for split in ("train", "dev"):
            write(tmp_path, task, f"{task.name} {split}", split)
    _, before = cs224n.open_all(str(tmp_path), "")
    assert cs224n.open_all(str(tmp_path), "")[1] == before
    write(tmp_path, SIMILARITY, "other", "dev")
    assert cs224n.open_all(str(tmp_path), "")[1] != before


@pytest.mark.shared
def test_the_real_files_have_as_many_rows_as_they_should(shared_data):
    folder = os.path.join(shared_data, "cs224n")
    counts = {
        (task.name, split): len(read(folder, task, split))
        for task in cs224n.TASKS.values()
        for split in ("train", "dev")
    }
    assert counts["sentiment", "train"] == 8544
    assert counts["sentiment", "dev"] == 1101
    assert counts["similarity", "train"] == 6040
    assert counts["similarity", "dev"] == 863
