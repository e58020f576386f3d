"""The benchmark measures the same task in every library, and reports it."""

import json

import numpy as np
import pytest

from benchmarks import (
    CACHED,
    contestants,
    frameworks,
    HUGGING_FACE,
    hugging_face,
    LIVE,
    measuring,
    peak,
)
from tests.support import commands
from tf_transfer.config import command_line
from tf_transfer.data import batches
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.data.tokens import Tokens
from tf_transfer.models import cost
from tf_transfer.utils.errors import UserError


def settings(**changes):
    return frameworks.FrameworkSettings(
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
    return [HUGGING_FACE] * hugging_face.is_installed()


def call(tmp_path, *arguments):
    """Runs the command; returns what it wrote."""
    code = commands.call(
        frameworks.main,
        lambda: command_line.define_flags(
            frameworks.FrameworkSettings, "benchmark"
        ),
        "--task=rte",
        "--data=sample",
        "--model=tiny",
        "--max_length=16",
        "--batch_size=4",
        "--examples=8",
        "--lr=1e-3",
        "--trainable_layers=1",
        f"--out={tmp_path}",
        *arguments,
    )
    assert code == 0
    path = tmp_path / "benchmark" / "rte-tiny-last_1-batch=4-float32"
    return json.loads(path.with_suffix(".json").read_text())


@pytest.mark.slow
def test_the_command_measures_all_contestants(tmp_path, capsys):
    result = call(tmp_path, "--rounds=1", "--profile")
    output = capsys.readouterr().out
    for name in (LIVE, CACHED):
        assert f"{name}: operations take" in output
    assert "MatMul" in output and "ResourceApplyAdam" in output
    assert list(result["seconds"]) == [LIVE, CACHED, *others()]
    assert result["examples"] == 8
    assert result["texts"] == 32 and result["cache"]["bytes"] > 32 * 16 * 32
    cache = result["cache"]
    assert 0 < cache["compile_seconds"] < cache["build_seconds"]
    assert cache["engine"] == "tensorflow float32"
    assert result["operations"][CACHED] < result["operations"][LIVE]


def test_the_command_writes_times_and_shares_of_the_peak(
    tmp_path, capsys, monkeypatch
):
    """Contestants take no time here: what is tested is the record."""

    class FakeContestants:
        plan = batches.BatchPlan(
            np.zeros([2, 4], int), np.array([4, 3]), np.array([16, 16])
        )

        texts = range(70)

        def __init__(self, settings):
            self.cache_build = {
                "build_seconds": 5.0,
                "compile_seconds": 2.0,
                "engine": "openvino float32",
            }

        def epochs(self):
            return {name: lambda: None for name in (LIVE, CACHED, "other")}

        def operations(self, cached):
            return 10.0 if cached else 40.0

    monkeypatch.setattr(contestants, "Contestants", FakeContestants)
    monkeypatch.setattr(peak, "measure_peak", lambda *arguments: 1e3)
    result = call(tmp_path, "--rounds=2")
    for times in result["seconds"].values():
        assert len(times) == 2 and min(times) > 0  # the warm-up is left out
    assert (result["examples"], result["padded_tokens"]) == (7, 2 * 4 * 16)
    for name, operations in ((LIVE, 40), (CACHED, 10)):
        speed = operations / result["median_seconds"][name]
        assert result["share_of_peak"][name] == pytest.approx(speed / 1e3)
    output = capsys.readouterr().out
    assert output.count("warm-up: ") == 3 and output.count("round 2: ") == 3
    assert "all texts: 70\nbuild, s: 5.0\n" in output


def test_products_reach_some_speed():
    assert peak.measure_peak("float32", repetitions=1) > 0


@pytest.mark.slow
def test_fine_tuning_of_a_given_shape_has_no_cache_to_measure(capsys):
    measured = contestants.Contestants(
        settings(trainable_layers="all", shape="2x64").resolve()
    )
    assert measured.shape == cost.Shape(2, 64, 1, 256)
    assert list(measured.epochs()) == [LIVE, *others()]
    output = capsys.readouterr().out
    assert ("is left out" in output) != hugging_face.is_installed()
    assert measured.cache_build is None


def test_the_examples_are_of_all_lengths_in_proportion():
    lengths = np.arange(100, 0, -1)
    starts, lost = np.cumsum(lengths) - lengths, np.zeros(100)
    split = EncodedSplit(
        Tokens(np.zeros(5050), starts, lengths, lengths, lost),
        np.zeros(100),
        np.arange(100),
    )
    few = contestants.sample_all_lengths(split, 11)
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
        ({"shape": "2x0"}, "--shape=2x0"),
        ({"task": "stsb"}, "--task=stsb"),
        ({"method": "lora"}, "--method=lora"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        frameworks.run(settings(**changes))


def test_a_shape_may_have_ten_blocks():
    assert measuring.parse_shape("10x64") == (10, 64)
