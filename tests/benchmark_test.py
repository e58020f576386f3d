"""The measurement compares like with like, and says what it found."""

import dataclasses
import json

import numpy as np
import pytest

from tests import commands
from tf_transfer import benchmark
from tf_transfer.data import batches
from tf_transfer.data.tokens import Tokens
from tf_transfer.peers import peaks
from tf_transfer.utils.errors import UserError

KERAS = ["keras-nlp fit, padded to longest", "keras-nlp fit, padded to 16"]


def settings(**changes):
    return benchmark.BenchmarkSettings(
        **{
            "task": "rte",
            "data": "sample",
            "model": "tiny",
            "max_length": 16,
            "batch_size": 4,
            "examples": 8,
            "rounds": 1,
            "trainable_layers": "1",
            **changes,
        }
    )


def others():
    return KERAS + [benchmark.HUGGING_FACE] * peaks.has_torch()


def test_the_command_measures_all_contestants_and_writes(tmp_path, capsys):
    code = commands.call(
        benchmark.main,
        lambda: benchmark.command_line.define_flags(
            benchmark.BenchmarkSettings, "benchmark"
        ),
        "--task=rte",
        "--data=sample",
        "--model=tiny",
        "--max_length=16",
        "--batch_size=4",
        "--examples=8",
        "--rounds=2",
        "--lr=1e-3",
        "--trainable_layers=1",
        f"--out={tmp_path}",
        "--profile",
    )
    assert code == 0
    said = capsys.readouterr().out
    for name in (benchmark.LIVE, benchmark.CACHED):
        assert f"{name}: operations take" in said
    assert "MatMul" in said and "ResourceApplyAdam" in said
    name = "rte-tiny-last_1-batch=4-float32"
    result = json.loads((tmp_path / "benchmark" / f"{name}.json").read_text())
    picture = (tmp_path / "benchmark" / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000
    assert list(result["seconds"]) == [
        benchmark.LIVE,
        benchmark.CACHED,
        *others(),
    ]
    for times in result["seconds"].values():
        assert len(times) == 2 and min(times) > 0
    assert result["examples"] == 8
    assert result["cache"]["bytes"] > 0 < result["cache"]["build_seconds"]
    for name, share in result["share_of_peak"].items():
        operations = result["operations"][name]
        speed = operations / result["median_seconds"][name]
        peak = result["matmul_peak"]["TensorFlow"]
        assert share == pytest.approx(speed / peak)
    assert all(name in said for name in result["seconds"])
    assert ("pip install '.[peers]'" in said) != peaks.has_torch()


def test_fine_tuning_has_no_cache_to_measure():
    result = benchmark.run(settings(trainable_layers="all"))
    assert list(result["seconds"]) == [benchmark.LIVE, *others()]
    assert result["cache"] is None
    assert "cached" not in benchmark.table(result)


def test_a_shape_stands_in_for_the_model():
    bench = benchmark.Bench(settings(shape="2x64").resolve())
    assert dataclasses.astuple(bench.shape) == (2, 64, 1, 256)


def test_the_table_shows_ratios_to_live_and_cached():
    result = {
        "seconds": {
            benchmark.LIVE: [4.0],
            benchmark.CACHED: [1.0],
            "other": [6.0],
        },
        "median_seconds": {
            benchmark.LIVE: 4.0,
            benchmark.CACHED: 1.0,
            "other": 6.0,
        },
        "examples": 12,
        "matmul_peak": {"TensorFlow": 4e11},
        "operations": {benchmark.LIVE: 8e11},
        "share_of_peak": {benchmark.LIVE: 0.5},
        "cache": {
            "build_seconds": 5.0,
            "bytes": 2e6,
            "pays_after_epochs": 5 / 3,
        },
    }
    _, live, cached, other, *_ = benchmark.table(result).splitlines()
    assert live.split()[-3:] == ["1.00x", "4.00x", "2.67x"]
    assert cached.split()[-1] == "0.25x"
    assert other.split()[-4:] == ["2.0", "1.50x", "6.00x", "4.00x"]
    assert "800.0 GFLOP an epoch, 50% of" in benchmark.table(result)
    assert "paid for after 1.7 epochs" in benchmark.table(result)


def test_the_examples_are_of_all_lengths_in_proportion():
    lengths = np.arange(100, 0, -1)
    part = batches.Split(
        Tokens(np.zeros(5050), np.cumsum(lengths) - lengths, lengths, lengths),
        np.zeros(100),
        np.arange(100),
    )
    few = benchmark._of_all_lengths(part, 11)
    assert sorted(few.tokens.lengths.tolist()) == pytest.approx(
        np.linspace(1, 100, 11), abs=1
    )
    assert few.ids.tolist() == (100 - few.tokens.lengths).tolist()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"examples": 2}, "--examples"),
        ({"rounds": 0}, "--rounds"),
        ({"shape": "12"}, "--shape=12"),
        ({"shape": "12x100"}, "--shape=12x100"),
        ({"shape": "0x64"}, "--shape=0x64"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        benchmark.run(settings(**changes))
