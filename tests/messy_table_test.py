"""A table with every defect that people's tables have, trained at once."""

import csv
import random

import pytest

from tests.support import commands
from tf_transfer import predict, train
from tf_transfer.config import command_line
from tf_transfer.data import table_files

WORDS = {
    "bug": "crash error broken fails wrong",
    "idea": "wish nice feature add maybe",
    "praise": "great love thanks good best",
}


def write(path):
    """Semicolons, a BOM, and the defects that the test names."""
    draw = random.Random(0)
    labels = [*["bug"] * 8, "idea", "praise"] * 12
    rows = [
        [f"{' '.join(draw.choices(WORDS[label].split(), k=4))} {n}", label, "-"]
        for n, label in enumerate(labels)
    ]
    for row, text in (
        (0, 'quoted\n"lines" 🙂\n'),
        (2, "word " * 5000),
        (3, "long " * 5000),
        (25, "  "),
    ):
        rows[row][0] = text
    for row, label in (
        (7, ""),
        (10, "NA"),
        (11, "null"),
        (13, "bugg"),
        (14, "bugg"),
        (15, "Bug "),
        (16, "Bug "),
        (20, "lonely"),
    ):
        rows[row][1] = label
    rows += [rows[30][:] for _ in range(10)]
    for row in (31, 41, 51):
        rows[row] = [rows[30][0], "idea", "-"]
    rows += [["too", "few"], ["one", "too", "many", "cells"]]
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["text", "label", "Label"])
        writer.writerows(rows)
    return path


def call(*words):
    return commands.call(
        lambda: commands.execute(train.Train),
        lambda: command_line.define_flags(train.Settings, "train"),
        *words,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("eager", "one_block")
def test_a_messy_table_trains_with_one_flag_and_every_defect_is_named(
    tmp_path, capsys, monkeypatch
):
    path = write(tmp_path / "tickets.csv")
    words = [f"--data={path}", "--text_column=text", "--label_column=label"]
    words += ["--model=tiny", f"--out={tmp_path / 'runs'}"]
    words += ["--trainable_layers=1"]
    assert call(*words) == 2
    refused = capsys.readouterr().err
    assert f"{path}: 4 rows cannot be used. --skip_bad_rows leaves" in refused
    assert call(*words, "--skip_bad_rows", "--max_epochs=1") == 0
    out, err = capsys.readouterr()
    skipped = tmp_path / "runs" / "tickets-train-skipped.csv"
    for line in (
        f"{path}: cells are separated by semicolons; read as utf-8.",
        f"{path}: skipped 6 rows, written to {skipped}.",
    ):
        assert line in refused + err  # each once in a process
    assert table_files.read_table(str(skipped)).columns["problem"] == [
        "is empty",
        "'NA' stands for no label",
        "'null' stands for no label",
        "is empty",
        "has 2 cells, needs 3: 'text', 'label', 'Label'",
        "has 4 cells, needs 3: 'text', 'label', 'Label'",
    ]
    for line in (
        "may be one label",
        "'bugg'",
        "'Bug'",
        "fewer than 5 training texts",
        "'lonely'",
        "training texts are 'bug'. Prefer the metric f1_macro; --class_weights",
        "training texts that repeat another: ",
        "texts with several labels: 1",
        "are also in the training set",
        "of the training texts have more than --max_length",
        "The majority baseline",
        "TF-IDF of ",
        "the probe",
        "bug ",
    ):
        assert line in out, line
    [run] = (tmp_path / "runs" / "train" / "tickets").glob("last_*/*")
    answers_read_the_same(run, tmp_path, capsys, monkeypatch)


def answers_read_the_same(run, folder, capsys, monkeypatch):
    """`predict` finds separators and encodings too, and errors at once."""
    path, output = folder / "in.csv", folder / "out.csv"
    path.write_text("text;more\ncafé;1\n", encoding="cp1252")
    words = [f"--run={run}", f"--input={path}", f"--output={output}"]
    assert commands.call(predict.main, predict.Settings, *words) == 0
    assert table_files.read_table(str(output)).columns["text"] == ["café"]
    assert f"{path}: cells are separated by semicolons; read as cp1252." in (
        capsys.readouterr().err
    )

    def load():
        raise AssertionError("TensorFlow is loaded")

    monkeypatch.setattr(command_line, "import_tensorflow", load)
    path.write_text("texts;more\nbad;1\n")
    assert commands.call(predict.main, predict.Settings, *words) == 2
    assert "no column 'text'" in capsys.readouterr().err
    path.write_text("text;more\nbad;1\n")
    words.append("--label_column=labels")
    assert commands.call(predict.main, predict.Settings, *words) == 2
    assert "no column 'labels'" in capsys.readouterr().err
