"""The tables of benchmarks are right."""

import json

import numpy as np
import pytest

from benchmarks import (
    documents,
    elsa_study,
    faithfulness,
    speed,
    warm_workers,
    worker_memory,
)
from tests.reports import synthetic
from tf_transfer.utils.errors import UserError

SCORES = {"live": (0.80, 0.82, 0.84), "cached": (0.79, 0.83, 0.84)}


def test_the_table_has_means_deviations_and_a_paired_interval(tmp_path):
    labels = np.array([0, 0, 0, 1])
    for prefix, scores in SCORES.items():
        for seed, score in enumerate(scores):
            synthetic.write(
                tmp_path,
                [score],
                task="sst2",
                trainable_layers="2",
                max_train_examples=5000,
                frozen_prefix=prefix,
                seed=seed,
                prefix=(0.0, 1.0) if prefix == "cached" else None,
                predictions=(labels, np.ones((4, 1))),
            )
    synthetic.write(tmp_path, [0.1], task="sst2", trainable_layers="1")
    _, _, row = faithfulness.table(str(tmp_path)).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["SST-2, 5,000 examples, accuracy", "75.0", "last 2"]
    assert cells[3:5] == ["82.00 ± 2.00", "82.00 ± 2.65"]
    # Differences -1, +1, 0: mean 0, deviation 1; t(0.975, 2) = 4.303.
    assert cells[5:] == ["+0.00 (-2.48 to +2.48)", "3"]


def measured(layers, seconds, cache):
    return {
        "device": "a processor",
        "uses_xla": False,
        "steps": 16,
        "threads": 2,
        "versions": {"tensorflow": "2.21.0", "torch": "2.13.0"},
        "settings": {
            "shape": "",
            "model": "minilm",
            "trainable_layers": layers,
            "batch_size": 16,
            "precision": "float32",
            "max_length": 128,
        },
        "median_seconds": seconds,
        "examples": 256,
        "matmul_peak": {"TensorFlow": 4e11, "PyTorch": 2e11},
        "share_of_peak": {"ours, live": 0.5},
        "cache": cache,
    }


def test_the_table_of_measurements_has_ratios_to_the_best_of_ours(tmp_path):
    seconds = {
        "ours, live": 4.0,
        "ours, cached": 2.0,
        "Hugging Face, grouped, longest": 8.0,
        "keras-nlp fit, padded to 128": 12.0,
    }
    cache = {"build_seconds": 20.0, "pays_after_epochs": 10.0}
    (tmp_path / "last.json").write_text(
        json.dumps(measured("2", seconds, cache))
    )
    del seconds["ours, cached"]
    (tmp_path / "all.json").write_text(
        json.dumps(measured("all", seconds, None))
    )
    results = speed.read(str(tmp_path))
    last, fine_tuning = map(speed.describe, results)
    assert last == {
        "encoder": "minilm",
        "trains": "last 2",
        "batch": "16",
        "precision": "float32",
        "XLA": "no",
        "examples": "256",
        "ours live, s": "4.00",
        "ours cached, s": "2.00",
        "a step, ms, live / cached": "250.0 / 125.0",
        "keras-nlp, longest": "-",
        "keras-nlp, 128": "6.00 x",
        "Hugging Face": "4.00 x",
        "Hugging Face, 10 epochs with the build": "2.00 x",
        "Hugging Face at equal products": "2.00 x",
        "build, s": "20.0",
        "pays after, epochs": "10.0",
        "share of peak, live / cached": "50%",
    }
    assert fine_tuning["ours cached, s"] == fine_tuning["build, s"] == "-"
    assert fine_tuning["keras-nlp, 128"] == "3.00 x"
    assert fine_tuning["Hugging Face at equal products"] == "1.00 x"
    document = tmp_path / "page.md"
    document.write_text(
        "A <!-- begin: speed_short --> <!-- end: speed_short -->"
    )
    documents.fill(
        str(document), "speed_short", speed.table(results, "speed_short")
    )
    assert document.read_text().count("| minilm |") == 2
    assert "tensorflow 2.21.0, torch 2.13.0" in document.read_text()
    assert "TensorFlow 400 GFLOP/s, PyTorch 200" in document.read_text()


@pytest.mark.slow
def test_one_command_measures_its_rows(tmp_path):
    row = (
        *("--model=tiny", "--max_length=16", "--batch_size=4"),
        *("--examples=8", "--rounds=1", "--trainable_layers=1"),
    )
    speed.measure([row], "sample", str(tmp_path))
    [result] = speed.read(str(tmp_path / "benchmark"))
    assert result["settings"]["model"] == "tiny" and result["steps"] == 2
    with pytest.raises(UserError, match="--rounds=0"):
        speed.measure([(*row, "--rounds=0")], "sample", str(tmp_path))


# === Sweeps ===


def test_trials_that_were_not_done_count_like_the_last():
    spent = {
        "1": [np.array([20.0, 30.0]), np.array([12.0, 18.0])],
        "0": [np.array([9.0, 11.0])],
    }
    assert elsa_study.count_all(spent, 5).tolist() == [
        20 + 4 * 12 + 5 * 9,
        30 + 4 * 18 + 5 * 11,
    ]


def test_a_study_is_compared_with_what_was_measured():
    case = {"task": "rte", "model": "minilm", "runs": 20, "load": 1}
    case |= {"warm": [50.0, 80.0], "own": [400.0, 480.0]}
    table = elsa_study.make_table(
        [
            {**case, "share": 1.0, "transformers": None},
            {**case, "share": 0.065, "transformers": [300, 560]},
        ]
    )
    _, _, without, with_theirs = table.splitlines()
    assert without == (
        "| minilm, rte | 20 | 50 (80) | 400 (480) | 8.0 (6.0) | - | - | 1.0 |"
    )
    assert with_theirs.startswith("| minilm, rte, 6.5% of its texts | 20 |")
    assert "| 300 (560) | 6.0 (7.0) |" in with_theirs


def test_a_share_of_a_task_has_the_first_lines_of_each_file(tmp_path):
    folder = tmp_path / "glue" / "RTE"
    folder.mkdir(parents=True)
    for name, number in (("train", 40), ("dev", 11)):
        lines = ["header", *(f'row\t"{row}' for row in range(number))]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    cut = elsa_study.cut(str(tmp_path / "glue"), 0.1, str(tmp_path / "few"))
    train = (tmp_path / "few" / "RTE" / "train.tsv").read_text()
    assert train == 'header\nrow\t"0\nrow\t"1\nrow\t"2\nrow\t"3\n'
    dev = (tmp_path / "few" / "RTE" / "dev.tsv").read_text()
    assert cut == str(tmp_path / "few") and dev.count("\n") == 1 + 2
    with pytest.raises(UserError, match="--share=0.1: --data=sample has no"):
        elsa_study.cut("sample", 0.1, str(tmp_path / "none"))


def test_tables_of_workers_go_between_the_marks_of_a_document(tmp_path):
    path = tmp_path / "page.md"
    mark = warm_workers.MARK
    path.write_text(f"A\n<!-- begin: {mark} -->\nold\n<!-- end: {mark} -->\nB")
    case = {"task": "rte", "approach": "last 0", "own": 12.0, "first": 9.0}
    case |= {"next": 0.5, "evaluation": 0.2, "runs": 20, "wall": 30}
    case |= {"training": 12, "load": 1}
    table = warm_workers.make_table([case])
    documents.fill(str(path), mark, table)
    assert "| last 0, rte | 12.0 | 9.0 | 0.50 | 0.20 | 24 |" in table
    text = path.read_text()
    assert table in text and "old" not in text
    assert text[:2] == "A\n" and text[-2:] == "\nB"
    with pytest.raises(UserError, match="begin: other"):
        documents.fill(str(path), "other", table)
    assert path.read_text() == text


def test_the_memory_of_some_runs_is_told():
    sizes = [number * 10**6 for number in range(1, 56)]
    table = worker_memory.make_table(sizes, sizes[::-1])
    assert table.splitlines()[2:] == [
        "| 1 | 1 | 55 |",
        "| 10 | 10 | 46 |",
        "| 50 | 50 | 6 |",
    ]
