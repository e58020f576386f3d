"""Other readings of Li's words and of the starter code."""

import numpy as np
import pytest

from tests.support import cs224n_runs
from tests.support.cs224n_runs import lines_of, run_folder, settings_of
from tf_transfer.data import metrics
from tf_transfer.multitask import experiment as multitask


@pytest.fixture
def folder(tmp_path):
    cs224n_runs.write_all(tmp_path)
    return tmp_path


def objective_of(folder, task, **changes):
    """The objective of a task, and its training labels."""
    experiment = multitask.Multitask(settings_of(folder, **changes))
    network = experiment.build_network(experiment.set_up_devices())
    data = experiment.data
    encoded = data.encode_splits(data.tasks[task], network.encoder)
    return experiment.make_objective(data.tasks[task], encoded)


def test_truncated_scores_train_and_are_correlated_as_in_the_starter(folder):
    exact, truncated = (
        objective_of(folder, "similarity", targets=targets)
        for targets in ("exact", "truncated")
    )
    labels, logits = np.float32([3.8, 4.0]), np.float32([[3.0], [4.5]])
    np.testing.assert_allclose(exact.loss(labels, logits), [0.64, 0.25], 1e-5)
    np.testing.assert_allclose(truncated.loss(labels, logits), [0, 0.25])
    split = truncated.evaluation["validation"][""]
    split.targets[:] = np.linspace(0, 4.9, len(split.targets))
    drawn = np.random.default_rng(0).normal(size=(len(split.targets), 1))
    expected = metrics.pearson(np.floor(split.targets), metrics.sigmoid(drawn))
    assert truncated.measure(split, drawn)["pearson"] == expected
    assert exact.measure(split, drawn)["pearson"] != expected


@pytest.mark.parametrize("task", ["sentiment", "paraphrase"])
def test_only_scores_are_truncated(folder, task):
    exact, truncated = (
        objective_of(folder, task, targets=targets)
        for targets in ("exact", "truncated")
    )
    assert truncated.loss is exact.loss


def test_cls_without_the_pooler_may_be_for_sentiment_alone(folder):
    experiment = multitask.Multitask(
        settings_of(folder, pooling="cls_state_for_sentiment")
    )
    network = experiment.build_network(experiment.set_up_devices())
    assert {n: head.pooling for n, head in network.heads.items()} == {
        "sentiment": "cls_state",
        "paraphrase": "mean",
        "similarity": "mean",
    }
    assert not network.uses_pooler


# === A short last batch: 10, 24 and 12 examples in batches of 8 ===


@pytest.mark.slow
def test_a_short_batch_may_count_less_or_not_at_all(folder, eager):
    """Paraphrase comes first, in full batches: nothing differs there."""
    losses = []
    for short in ("mean", "scaled", "dropped"):
        settings = settings_of(
            folder, train="head", max_epochs=1, short_batches=short
        )
        multitask.run(settings)
        losses.append([line["train_loss"] for line in lines_of(settings)])
    (first, *mean), (also, *scaled), (third, *dropped) = losses
    assert first == also == third
    assert all(a != b for a, b in zip(mean, scaled, strict=True))
    assert all(a != b for a, b in zip(mean, dropped, strict=True))


def test_the_usual_readings_are_in_no_name(folder):
    usual = settings_of(folder)
    assert {"targets", "short_batches"}.isdisjoint(usual.hashed())
    folders = {
        run_folder(settings_of(folder, **changes))
        for changes in (
            {},
            {"targets": "truncated"},
            {"short_batches": "scaled"},
            {"short_batches": "dropped"},
        )
    }
    assert len(folders) == 4
