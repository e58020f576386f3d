"""The seconds of a run add up, wherever its first steps and its cache fall."""

import numpy as np
import pytest

from tf_transfer.feature_cache.feature_cache import BuildCost
from tf_transfer.training.progress import Chunk, Progress


def chunk(losses, counts, seconds, is_first=False, trace_seconds=0.0):
    return Chunk(
        np.array(losses, np.float32),
        np.array(counts, np.int32),
        seconds,
        is_first,
        trace_seconds,
    )


def run_epoch(progress, losses, seconds, eval_seconds=0.5, score=0.0):
    """An epoch of batches of two; its line is the last of `epochs`."""
    progress.start_pass(0)
    progress.add(chunk(losses, [2] * len(losses), seconds))
    progress.end_pass()
    scores = {"validation": {"accuracy": score}, "test": {"accuracy": score}}
    line = progress.describe_pass("rte", scores, eval_seconds)
    progress.epochs.append(line)
    return line


def test_the_loss_of_a_pass_is_a_mean_over_its_examples():
    progress = Progress()
    progress.add(chunk([4.0, 1.0], [8, 2], 3.0))
    progress.add(chunk([2.0], [2], 1.0))
    progress.end_pass()
    line = progress.describe_pass("rte", {"validation": {}}, 0.25)
    assert line == {
        "epoch": 1,
        "phase": 1,
        "phase_epoch": 1,
        "task": "rte",
        "train_loss": pytest.approx((8 * 4 + 2 * 1 + 2 * 2) / 12),
        "validation": {},
        "train_seconds": 4.0,
        "eval_seconds": 0.25,
        "trace_seconds": 0.0,
        "elapsed_seconds": 4.0,
        "examples_per_second": 3.0,
    }
    assert (progress.step, progress.total_steps) == (3, 3)


def test_a_first_step_counts_as_the_mean_of_the_others():
    progress = Progress()
    progress.add(chunk([1.0], [2], 9.0, is_first=True, trace_seconds=5.0))
    progress.add(chunk([1.0] * 4, [2] * 4, 2.0))
    progress.add(chunk([1.0], [2], 7.0, is_first=True))
    assert progress.train_seconds == progress.elapsed == 2.0
    progress.end_pass()
    assert progress.train_seconds == progress.elapsed == 3.0
    assert progress.trace_seconds == 5.0 + 16.0 - 1.0
    progress.end_pass()  # of which nothing is left
    assert progress.train_seconds == progress.elapsed == 3.0


def test_a_quick_first_step_is_no_compiling():
    progress = Progress()
    progress.add(chunk([1.0], [2], 0.25, is_first=True))
    progress.add(chunk([1.0] * 2, [2] * 2, 2.0))
    progress.end_pass()
    assert progress.train_seconds == 2.25
    assert progress.trace_seconds == 0.0


def test_without_other_steps_a_first_step_is_training():
    progress = Progress()
    progress.add(chunk([1.0], [2], 9.0, is_first=True))
    progress.end_pass()
    assert progress.train_seconds == progress.elapsed == 9.0
    assert progress.trace_seconds == 0.0


def test_a_pass_begins_with_nothing_but_the_seconds_of_the_run():
    progress = Progress()
    progress.add(chunk([1.0] * 3, [2] * 3, 6.0, trace_seconds=1.0))
    progress.end_pass()
    progress.start_pass(1)
    assert (progress.task, progress.step, progress.total_steps) == (1, 0, 3)
    assert progress.train_seconds == progress.trace_seconds == 0.0
    assert progress.elapsed == 6.0
    progress.add(chunk([5.0], [2], 2.0))
    line = progress.describe_pass(None, {}, 0.0)
    assert line["train_loss"] == 5.0 and line["train_seconds"] == 2.0
    assert line["elapsed_seconds"] == 8.0


def test_a_prefix_costs_what_this_run_paid_and_once_what_it_took():
    progress = Progress()
    cost = BuildCost(paid=3.0, original=10.0, traced=0.5)
    progress.add_prefix("rte", ("openvino", "float32"), cost)
    # The run was interrupted, and reads what it stored.
    again = BuildCost(paid=1.0, original=10.0, traced=0.25)
    progress.add_prefix("rte", ("openvino", "float32"), again)
    assert progress.prefix_seconds == progress.elapsed == 4.0
    assert sum(progress.prefixes.values()) == 10.0
    assert progress.trace_seconds == 0.75
    assert progress.prefix_engine == "openvino float32"
    progress.phase = 1  # has a prefix of its own
    progress.add_prefix("rte", ("openvino", "float32"), cost)
    progress.add_prefix("mrpc", ("openvino", "float32"), cost)
    assert sum(progress.prefixes.values()) == 30.0
    assert progress.elapsed == 10.0
    # The test is scored later: its texts are stored, too.
    more = BuildCost(paid=2.0, original=12.0, traced=0.0)
    progress.add_prefix("mrpc", ("openvino", "float32"), more)
    assert sum(progress.prefixes.values()) == 32.0


@pytest.fixture
def finished():
    """Three epochs, of which the first is the best."""
    progress = Progress()
    best = run_epoch(progress, [2.0, 1.0], 4.0, score=0.75)
    progress.total_epochs = 2
    run_epoch(progress, [1.0, 1.0], 2.0, score=0.25)
    progress.total_epochs = 3
    run_epoch(progress, [1.0, 1.0], 3.0, score=0.5)
    progress.best = {"line": best}
    progress.phase_records = [{"stop_reason": "patience"}]
    return progress


def test_a_result_is_that_of_the_best_epoch(finished):
    assert finished.make_outcome(False, 2, 3) == {
        "validation": {"accuracy": 0.75},
        "test": {"accuracy": 0.75},
        "test_last": {"accuracy": 0.5},
        "best_epoch": 1,
        "epochs_run": 3,
        "stop_reason": "patience",
        "phases": [{"stop_reason": "patience"}],
        "train_seconds": 9.0,
        "seconds_per_epoch": 3.0,
        "trace_seconds": 0.0,
        "prefix_seconds": None,
        "prefix_build_seconds": None,
        "prefix_engine": None,
        "trainable_parameters": 2,
        "total_parameters": 3,
    }


def test_a_result_has_the_seconds_of_its_prefix(finished):
    cost = BuildCost(paid=2.0, original=5.0, traced=0.0)
    finished.add_prefix("rte", ("tensorflow", "float32"), cost)
    result = finished.make_outcome(True, 2, 3)
    assert (result["prefix_seconds"], result["prefix_build_seconds"]) == (2, 5)
    assert result["prefix_engine"] == "tensorflow float32"
    assert result["train_seconds"] == 11.0
    assert result["seconds_per_epoch"] == 3.0  # the build is of no epoch


def test_the_passes_of_several_tasks_are_one_epoch():
    progress = Progress()
    for seconds in (4.0, 2.0):
        line = run_epoch(progress, [1.0], seconds)
    progress.best = {"line": line}
    progress.phase_records = [{"stop_reason": "max_epochs"}]
    assert progress.make_outcome(False, 2, 3)["seconds_per_epoch"] == 6.0


def test_a_pass_that_took_no_time_has_a_speed():
    progress = Progress()
    progress.add(chunk([1.0], [2], 0.0))
    line = progress.describe_pass("rte", {}, 0.0)
    assert line["examples_per_second"] == pytest.approx(2e9)
