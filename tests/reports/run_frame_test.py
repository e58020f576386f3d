"""The frame of runs, and measures of them."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tf_transfer.reports import run_frame as runs_lib, run_groups

PAPER = made_up.make_paper({"published": 1.0})


def frame_of(layers, scores, **changes):
    settings = {"trainable_layers": layers}
    records = made_up.make_runs(PAPER, "rte", settings, scores, **changes)
    return runs_lib.runs_frame(records)


@pytest.fixture(scope="module")
def tested():
    return frame_of("all", [80, 82], validation=0.7)


@pytest.fixture(scope="module")
def untested():
    return frame_of("2", [75, 76], test=None)


def test_the_score_of_a_run_is_that_of_its_test_if_it_has_one(tested, untested):
    assert list(tested.score) == list(tested.test) == [80, 82]
    assert list(untested.score) == list(untested.validation) == [75, 76]
    assert untested.test.isna().all()


def test_groups_are_compared_on_the_split_that_both_have(tested, untested):
    def measure(*frames):
        cells = run_groups.measure(("score", "score"), frames)
        return [list(cell.values) for cell in cells]

    assert measure(tested, tested) == [[80, 82], [80, 82]]
    assert measure(tested, untested) == [pytest.approx([70, 70]), [75, 76]]
    assert measure(untested, untested) == [[75, 76], [75, 76]]


def test_of_another_split_than_its_own_a_run_has_the_headline_score(tested):
    def measure(name):
        return runs_lib.measure_all(name, tested, split="validation")

    assert measure("accuracy") == pytest.approx([70, 70])
    assert np.isnan(measure("matthews")).all()


def test_without_seconds_of_its_epochs_a_run_has_no_score_within_a_time():
    [record] = frame_of("all", [80]).record
    epochs = [replace(epoch, seconds=None) for epoch in record.epochs]
    record = replace(record, epochs=epochs)
    assert math.isnan(runs_lib.score_within(record, 1e9))
    assert math.isnan(runs_lib.interpolated_score(record, 1e9))


def make_baseline(task):
    """TF-IDF on a task, whose key has no setting of encoders."""
    record = made_up.make_record(PAPER, task, {}, 0, 70, blocks=0)
    names = ("module", "task", "seed", "data_identity")
    key = {name: record.key[name] for name in names}
    key["features"] = "tfidf"
    return replace(record, path=f"tfidf {task}", approach="tfidf", key=key)


def test_a_baseline_is_in_each_study_with_encoders_on_its_task():
    """On a task without encoders, it is a study of its own."""
    encoders = [
        made_up.make_record(PAPER, "rte", {"batch_size": size}, 0, 80)
        for size in (8, 16)
    ]
    baselines = [make_baseline(task) for task in ("rte", "mrpc")]
    frame = runs_lib.runs_frame([*encoders, *baselines])
    paths = [[*runs.path] for _, runs in runs_lib.studies(frame)]
    assert sorted(paths) == sorted(
        [
            ["tfidf mrpc"],
            *([encoder.path, "tfidf rte"] for encoder in encoders),
        ]
    )


def test_the_probe_is_only_in_studies_of_its_encoder():
    """Else its score would be next to those of another encoder."""

    def make_run(weights, **changes):
        record = made_up.make_record(PAPER, "rte", {}, 0, 80)
        key = {**record.key, "model_identity": weights}
        return replace(record, path=f"blocks of {weights}", key=key, **changes)

    def make_probe(weights):
        names = ("module", "task", "seed", "data_identity")
        record = make_run(weights, blocks=0, approach="probe")
        key = {name: record.key[name] for name in names}
        key |= {"model_identity": weights, "features": "frozen"}
        return replace(record, path=f"probe of {weights}", key=key)

    weights = ["minilm", "mpnet"]
    frame = runs_lib.runs_frame(
        [make(each) for make in (make_run, make_probe) for each in weights]
    )
    paths = [[*runs.path] for _, runs in runs_lib.studies(frame)]
    assert sorted(paths) == [
        [f"blocks of {each}", f"probe of {each}"] for each in weights
    ]
