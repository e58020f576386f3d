"""The tables of benchmarks are right."""

import json

import numpy as np
import pytest

from benchmarks import (
    CACHED,
    documents,
    elsa_study,
    faithfulness,
    frameworks,
    frozen_pass,
    HUGGING_FACE,
    LIVE,
    speed,
    warm_workers,
    whole_runs,
    worker_memory,
)
from tests.reports import synthetic
from tests.support import commands
from tf_transfer.utils.errors import UserError

SCORES = {
    ("live", "float32"): (0.80, 0.82, 0.84),
    ("cached", "float32"): (0.79, 0.83, 0.84),
    ("cached", "mixed_bfloat16"): (0.81, 0.83, 0.88),
}


def test_the_table_has_means_deviations_and_a_paired_interval(tmp_path):
    labels = np.array([0, 0, 0, 1])
    for (prefix, precision), scores in SCORES.items():
        for seed, score in enumerate(scores):
            synthetic.write(
                tmp_path,
                [score],
                task="sst2",
                trainable_layers="2",
                max_train_examples=5000,
                frozen_prefix=prefix,
                precision=precision,
                seed=seed,
                prefix=(0.0, 1.0) if prefix == "cached" else None,
                predictions=(labels, np.ones((4, 1))),
            )
    synthetic.write(tmp_path, [0.1], task="sst2", trainable_layers="1")
    synthetic.write(tmp_path, [0.1], task="sst2", model="mpnet")
    tables = faithfulness.make_tables(str(tmp_path))
    assert sorted(tables) == ["mpnet", "tiny"]
    assert len(tables["mpnet"].splitlines()) == 2
    _, _, *lines = tables["tiny"].splitlines()
    float32, bfloat16 = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines
    )
    assert float32[:3] == ["SST-2, 5,000 examples, accuracy", "75.0", "last 2"]
    assert float32[3:5] == ["82.00 ± 2.00", "82.00 ± 2.65"]
    # Differences -1, +1, 0: mean 0, deviation 1; t(0.975, 2) = 4.303.
    assert float32[5:] == ["+0.00 (-2.48 to +2.48)", "3"]
    assert bfloat16[2:4] == ["last 2, mixed_bfloat16", "82.00 ± 2.00"]
    # Differences +1, +1, +4: mean 2, deviation 3 ** 0.5.
    assert bfloat16[5:] == ["+2.00 (-2.30 to +6.30)", "3"]


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
            "jit_compile": "auto",
        },
        "median_seconds": seconds,
        "examples": 256,
        "texts": 512,
        "matmul_peak": {"TensorFlow": 4e11, "PyTorch": 2e11},
        "share_of_peak": {"ours, live": 0.5},
        "cache": cache,
    }


def write_epochs(out):
    """Measurements of the last two blocks, and of all."""
    folder = out / frameworks.FOLDER
    folder.mkdir()
    seconds = {LIVE: 4.0, CACHED: 1.0, HUGGING_FACE: 8.0}
    cache = {
        "build_seconds": 20.0,
        "compile_seconds": 3.0,
        "engine": "openvino bfloat16",
    }
    rows = [measured("2", seconds, cache)]
    rows.append(measured("all", {LIVE: 4.0, HUGGING_FACE: 8.0}, None))
    for number, row in enumerate(rows):
        (folder / f"{number}.json").write_text(json.dumps(row))


def test_ten_epochs_of_all_texts_count_with_the_build(tmp_path):
    write_epochs(tmp_path)
    results = speed.read(str(tmp_path / frameworks.FOLDER))
    last, fine_tuning = map(frameworks.describe, results)
    assert last == {
        "encoder": "minilm",
        "trains": "last 2",
        "batch": "16",
        "precision": "float32",
        "XLA": "no",
        "examples": "256",
        "ours live, s": "4.00",
        "ours cached, s": "1.00",
        "Hugging Face, s": "8.00",
        "a step, ms, live / cached": "250.0 / 62.5",
        "share of peak, live / cached": "50%",
        "engine": "openvino bfloat16",
        "all texts": "512",
        "build, s": "20.0",
        "of it compiling, s": "3.0",
        # 20 s, and an epoch of all texts saves 2 * (4 - 1) s.
        "pays after, epochs": "3.3",
        # 20 s and 10 * 2 * 1 s, against 10 * 2 * 8 s.
        "10 epochs and build, s": "40",
        "Hugging Face, 10 epochs": "160 s, 4.00 x",
    }
    assert fine_tuning["ours cached, s"] == fine_tuning["build, s"] == "-"
    assert fine_tuning["10 epochs and build, s"] == "80"
    assert fine_tuning["Hugging Face, 10 epochs"] == "160 s, 2.00 x"


def test_the_speed_of_a_pass_is_compared_with_its_limit(tmp_path):
    """100 texts of 1e9 operations: 400 a second at 4e11."""
    small = f"{frozen_pass.SMALL}, float32"
    (tmp_path / frozen_pass.FOLDER).mkdir()
    (tmp_path / frozen_pass.FOLDER / "minilm.json").write_text(
        json.dumps(
            {
                **measured("all", {}, None),
                "texts": 100,
                "operations": 1e11,
                "matmul_peak": {
                    "float32": {"TensorFlow": 3e11, "PyTorch": 4e11},
                    "bfloat16": {"TensorFlow": 8e11},
                },
                "seconds": {
                    small: [2.0, 1.0, 4.0],
                    "OpenVINO, bfloat16": [0.5, 0.5, 1.0],
                },
            }
        )
    )
    title, table = speed.tabulate_passes(str(tmp_path)).split("\n\n")
    assert "bfloat16 reach TensorFlow 800 GFLOP/s." in title
    first, second = table.splitlines()[2:]
    assert "| float32 | 50.0 | 25.0 to 100.0 | 400.0 | 12% | 1.00 |" in first
    assert "| OpenVINO | bfloat16 | 200.0 | 100.0 to 200.0 |" in second
    assert second.endswith("| 800.0 | 25% | 4.00 |")


def test_one_command_fills_the_marks_that_a_document_has(tmp_path):
    write_epochs(tmp_path)
    case = {"texts": 1000, "prefix_seconds": 5.0, "trace_seconds": 2.0}
    case |= {"metric": "accuracy", "test": {"accuracy": 0.9}}
    cases = [
        {**case, "seconds": 40.0, "prefix_engine": "tensorflow float32"},
        {**case, "seconds": 10.0, "prefix_engine": "openvino bfloat16"},
    ]
    (tmp_path / speed.PROBE_FILE).write_text(
        json.dumps({**measured("0", {}, None), "cases": cases})
    )
    document = tmp_path / "page.md"
    document.write_text(
        "A <!-- begin: speed_short --> <!-- end: speed_short -->"
        "B <!-- begin: probe_seconds --> <!-- end: probe_seconds -->"
    )
    code = commands.call(
        lambda: speed.main([]),
        speed.define_flags,
        f"--out={tmp_path}",
        f"--document={document}",
    )
    text = document.read_text()
    assert code == 0 and text.count("| minilm |") == 2
    assert "tensorflow 2.21.0, torch 2.13.0" in text
    assert "TensorFlow 400 GFLOP/s, PyTorch 200" in text
    assert (
        "| 1,000 | openvino bfloat16 | 10.0 | 5.0 | 2.0 | 25% | 90.0 |" in text
    )


@pytest.mark.slow
def test_rows_are_measured_in_processes_of_their_own(tmp_path):
    row = (
        *("--model=tiny", "--max_length=16", "--batch_size=4"),
        *("--examples=8", "--rounds=1"),
    )
    out = str(tmp_path)
    speed.measure("benchmarks.frozen_pass", [row], "sample", out)
    assert "| tiny | TensorFlow | float32 |" in speed.tabulate_passes(out)
    with pytest.raises(UserError, match="--rounds=0"):
        speed.measure(
            "benchmarks.frameworks", [(*row, "--rounds=0")], "sample", out
        )


@pytest.mark.slow
def test_the_probe_is_measured_by_each_engine(tmp_path):
    speed.measure_probe("sample", str(tmp_path), ["20"], "tiny")
    rows = speed.tabulate_probes(str(tmp_path)).splitlines()[-3:]
    assert rows[0].startswith("| 20 | tensorflow float32 |")
    assert all(row.startswith("| 20 | ") for row in rows)


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


def test_whole_runs_have_the_median_of_the_ratios_and_where_seconds_went():
    parts = {"training": 5.0, "evaluation": 1.0, "tracing": 2.0, "other": 2.0}
    ours = [{"seconds": s, **parts} for s in (10.0, 10.0, 20.0)]
    theirs = [{"seconds": s} for s in (50.0, 60.0, 50.0)]
    case = {"trains": "last 1", "precision": "float32"}
    measured = {
        "cases": [{**case, "ours": ours, "theirs": theirs}],
        "examples": 1000,
        "epochs": 3,
        "dev": 277,
        "processor": "a processor",
        "threads": 2,
        "versions": {"tensorflow": "2", "torch": "3", "transformers": "5"},
    }
    caption, table = whole_runs.make_table(measured).split("\n\n")
    assert "Medians of 3 processes in turn" in caption
    assert table.splitlines()[-1] == (
        "| last 1 | float32 | 50.0 (50.0 to 60.0) | 10.0 (10.0 to 20.0) "
        "| 5.00 (2.50 to 6.00) | 5.0 | 1.0 | 2.0 | 2.0 |"
    )
