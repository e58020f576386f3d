"""What a run will need: from finished runs, or from its operations."""

import datetime
import os

import pytest

from tests.support import cs224n_runs, run_files, tweets_table
from tests.sweeps.fakes import finish
from tf_transfer.models import cost, tiny
from tf_transfer.searches import costs as costs_lib, plan as plan_lib
from tf_transfer.sweeps import estimate, grid as grid_lib
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import files, machine

# Operations per second of products on GPUs, in float32 and in half precision.
GPU_PEAK, HALF_PEAK = 1e13, 2e14


@pytest.fixture
def estimator():
    """On a CPU of a thousand operations per second."""
    return estimate.Estimator(lambda precision: 1e3, estimate.CPU)


@pytest.fixture(autouse=True)
def compiles(monkeypatch):
    """A GPU is there, so XLA compiles; estimates for a CPU leave it out."""
    monkeypatch.setattr(machine, "has_gpu", lambda: True)


@pytest.fixture
def bert_base(monkeypatch):
    """Operations and launches are those of BERT-base, the weights are not."""
    monkeypatch.setattr(tiny, "BLOCKS", 12)
    shape = cost.Shape(12, 768, 12, 3072)
    monkeypatch.setattr(cost.Shape, "from_encoder", lambda encoder: shape)


def plan_runs(tmp_path, experiment, axis, values, **flags):
    """Dict from a value of the axis to its run."""
    grid = {"experiment": experiment, "flags": flags, "axes": {axis: values}}
    runs = grid_lib.expand(
        "grid.json", grid, str(tmp_path / "runs"), str(tmp_path / "cache")
    )
    return {run.axes[axis]: run for run in runs}


def plan_rte(tmp_path, layers, **flags):
    """Dict from trained layers to a run on 32 pairs, from the feature cache."""
    flags = {"frozen_prefix": "cached", "max_epochs": 1, **flags}
    flags |= {"task": "rte", "data": "sample", "model": "tiny"}
    return plan_runs(tmp_path, "glue", "trainable_layers", layers, **flags)


def finish_after(run, seconds):
    """A finished run that took this long from its only start."""
    finish(run)
    directory = run.directory
    starts = [{"started": "2026-01-01T00:00:00+0000"}]
    files.write_json(
        directory.file("config.json"), {**directory.config(), "starts": starts}
    )
    directory.write_result(run_files.finished())
    began = datetime.datetime.fromisoformat(starts[0]["started"]).timestamp()
    result = directory.file("result.json")
    os.utime(result, (began + seconds, began + seconds))


def estimate_on_gpu(run, peak=GPU_PEAK):
    """The estimate of a run on a GPU of this peak speed."""
    estimator = estimate.Estimator(lambda precision: peak, estimate.GPU)
    return estimator.estimate(run)


def train_seconds(run, peak):
    """Seconds on a GPU, in addition to the overhead of the run."""
    return estimate_on_gpu(run, peak).seconds - estimate.RUN_SECONDS


def test_fewer_trained_blocks_take_less_time(tmp_path, estimator):
    runs = plan_rte(tmp_path, ["all", 2, 0], max_epochs=30)
    needs = {name: estimator.estimate(run) for name, run in runs.items()}
    assert needs["0"].seconds < needs["2"].seconds / 2
    assert needs["2"].seconds < needs["all"].seconds
    assert not needs["all"].builds
    # Of every token, or of [CLS] alone where no block trains.
    [tokens] = needs["2"].builds.values()
    [cls] = needs["0"].builds.values()
    assert cls.bytes < tokens.bytes / 5
    assert 0 < tokens.seconds < cls.seconds  # by the blocks that are run


def test_each_phase_counts_and_the_first_is_cached(tmp_path, estimator):
    cs224n_runs.write_all(tmp_path)
    runs = plan_runs(
        tmp_path,
        "multitask",
        "train",
        ["head", "all", "head_then_all"],
        data=str(tmp_path),
        model="tiny",
        frozen_prefix="cached",
        max_epochs=3,
    )
    needs = {name: estimator.estimate(run) for name, run in runs.items()}
    start = estimate.RUN_SECONDS
    seconds = {name: needs[name].seconds - start for name in needs}
    assert seconds["head_then_all"] == pytest.approx(
        seconds["head"] + seconds["all"]
    )
    assert needs["head"].seconds < needs["all"].seconds / 3
    assert not needs["all"].builds
    both = needs["head_then_all"].builds
    assert both == needs["head"].builds and len(both) == 3
    updates = needs["head"].updates
    assert updates % 3 == 0 and needs["all"].updates == updates > 0
    assert needs["head_then_all"].updates == 2 * updates
    # Of the mean of each text's tokens in float16: 10 sentences, 24 and 12
    # pairs to train on, and as many to evaluate on.
    hidden = 32
    assert (
        sum(build.bytes for build in both.values())
        == 2 * (10 + 48 + 24) * hidden * 2
    )


def test_a_run_is_prepared_with_settings_that_it_allows(tmp_path, estimator):
    """No block trains, nor the pooler: what trains everything refuses that."""
    runs = plan_runs(
        tmp_path,
        "tweets",
        "trainable_layers",
        [0],
        data=tweets_table.write(tmp_path),
        id_column="number",
        model="tiny",
    )
    needs = estimator.estimate(runs["0"])
    assert needs.seconds > estimate.RUN_SECONDS and not needs.builds


def test_seconds_on_a_cpu_are_overhead_and_operations(tmp_path, estimator):
    """Batches and operations as counted before devices were told apart."""
    counted = {  # cached: of three epochs
        ("16", "all"): (12, 5162336256),
        ("16", "2"): (12, 2526216192),
        ("1", "2"): (102, 2291798016),
        ("1", "0"): (102, 0),
    }
    for (batch_size, layers), (batches, operations) in counted.items():
        [run] = plan_rte(
            tmp_path, [layers], batch_size=batch_size, max_epochs=3
        ).values()
        share = 0.4 if batch_size == "16" else 0.12
        needs = estimator.estimate(run)
        assert needs.seconds == 1 + 0.002 * batches + operations / (1e3 * share)
        assert needs.compile_seconds == 0


def test_the_costs_are_those_of_a_gpu_if_there_is_one(monkeypatch):
    for has_gpu, expected in ((False, estimate.CPU), (True, estimate.GPU)):
        monkeypatch.setattr(machine, "has_gpu", lambda has=has_gpu: has)
        assert estimate.Estimator().device == expected


def test_batches_of_one_text_wait_for_launches_on_a_gpu(tmp_path, bert_base):
    """So a faster GPU takes as long, if texts are short."""
    flags = {"batch_size": 1, "max_length": 32}
    runs = plan_rte(tmp_path, ["all", 6, 1], **flags)
    times = {
        peak: {name: train_seconds(run, peak) for name, run in runs.items()}
        for peak in (HALF_PEAK, 2 * HALF_PEAK)
    }
    slower, faster = times.values()
    assert slower == faster
    assert faster["1"] < faster["6"] / 2 < faster["all"] / 2
    live = plan_rte(tmp_path, [6], frozen_prefix="live", **flags)
    assert faster["6"] < train_seconds(live["6"], HALF_PEAK) < faster["all"]


def test_a_step_on_a_gpu_takes_tens_of_milliseconds_at_most(
    tmp_path, bert_base
):
    [run] = plan_rte(tmp_path, ["all"], batch_size=1).values()
    for peak in (GPU_PEAK, HALF_PEAK):
        needs = estimate_on_gpu(run, peak)
        step = (needs.seconds - estimate.RUN_SECONDS) / needs.updates
        assert 12 * estimate.GPU.block_seconds < step < 0.1


def test_large_batches_on_a_gpu_take_as_long_as_their_products(
    tmp_path, bert_base
):
    [run] = plan_rte(tmp_path, ["all"], batch_size=16).values()
    slower, faster = (train_seconds(run, n * GPU_PEAK) for n in (1, 2))
    assert faster == pytest.approx(slower / 2, rel=0.05)
    # Two steps of 16 texts, each of 16 to 128 tokens; attention is the rest.
    training = slower - estimate_on_gpu(run).predict_seconds
    products = 6 * 12 * 12 * 768**2 * 32 * 128
    bound = products / (GPU_PEAK * estimate.GPU.share_of_peak)
    assert bound / 8 < training < 1.1 * bound


def test_a_step_is_compiled_for_each_length_on_a_gpu(tmp_path):
    runs = plan_rte(tmp_path, ["all", 1], batch_size=1)
    short = plan_rte(tmp_path, ["all"], batch_size=1, max_length=16)
    needs = {name: estimate_on_gpu(run) for name, run in runs.items()}
    [shortest] = map(estimate_on_gpu, short.values())
    step = 4 * 3 * estimate.GPU.compile_seconds  # of three blocks
    assert shortest.compile_seconds == step
    assert needs["all"].compile_seconds in [n * step for n in range(1, 6)]
    long = plan_rte(tmp_path, ["all"], batch_size=1, max_length=64)
    [longer] = map(estimate_on_gpu, long.values())
    assert needs["all"].compile_seconds >= longer.compile_seconds
    assert 0 < needs["1"].compile_seconds < needs["all"].compile_seconds


def test_without_xla_nothing_is_compiled_and_launches_take_longer(tmp_path):
    seconds = {}
    for compiles in ("true", "false"):
        [run] = plan_rte(
            tmp_path, ["all"], batch_size=1, jit_compile=compiles
        ).values()
        needs = estimate_on_gpu(run)
        assert (needs.compile_seconds > 0) == (compiles == "true")
        seconds[compiles] = train_seconds(run, HALF_PEAK)
    assert seconds["false"] > 2 * seconds["true"]


def test_a_search_counts_compilation_in_the_first_run(tmp_path):
    [run] = plan_rte(tmp_path, ["all"], batch_size=1).values()
    needs = estimate_on_gpu(run)
    costs = costs_lib.Costs({"fine_tuning": plan_lib.prior_of(needs)})
    first = costs.overhead_seconds("fine_tuning")
    assert first == costs_lib.FIRST_RUN_SECONDS + needs.compile_seconds
    costs.tell("fine_tuning", [1.0])
    assert costs.overhead_seconds("fine_tuning") == costs_lib.RUN_SECONDS


def test_a_run_takes_as_long_as_the_finished_runs_most_similar_to_it(tmp_path):
    axes = {"task": ["rte", "sst2"], "trainable_layers": ["all", 1]}
    runs = grid_lib.expand(
        "grid.json",
        {
            "experiment": "glue",
            "flags": {"model": "tiny", "data": "sample"},
            "axes": {**axes, "seed": [0, 1]},
        },
        str(tmp_path),
    )
    run_states = RunStates(str(tmp_path), runs)
    assert estimate.predict_durations(run_states, runs) == [None] * 8
    known = {("rte", "all", "0"): 100.0, ("rte", "1", "0"): 40.0}
    for run in runs:
        seconds = known.get(tuple(run.axes.values()))
        if seconds:
            finish_after(run, seconds)
    predicted = {
        tuple(run.axes.values()): seconds
        for run, seconds in zip(
            runs, estimate.predict_durations(run_states, runs), strict=True
        )
    }
    assert predicted["rte", "all", "1"] == 100.0
    assert predicted["rte", "1", "1"] == 40.0
    assert predicted["sst2", "1", "0"] == 40.0  # of its approach, if not task


def test_a_run_of_another_approach_is_no_measure(tmp_path):
    runs = plan_runs(
        tmp_path,
        "glue",
        "trainable_layers",
        ["all", 1, 0],
        model="tiny",
        data="sample",
    )
    run_states = RunStates(str(tmp_path), list(runs.values()))
    finish_after(runs["0"], 60.0)
    assert run_states.seconds(runs["0"]) == 60.0
    others = [runs["1"], runs["all"]]
    assert estimate.predict_durations(run_states, others) == [None, None]
