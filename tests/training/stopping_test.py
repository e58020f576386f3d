"""Wang's rule: stop when validation has not risen for two epochs."""

import pytest

from tf_transfer.training.progress import EarlyStopping


def stops_after(scores, patience=2, min_delta=0.01):
    """The epoch after which training stops (None: it never does)."""
    stopper = EarlyStopping(patience, min_delta)
    for epoch, score in enumerate(scores, 1):
        stopper.update(score)
        if stopper.should_stop:
            return epoch
    return None


def best_of(scores, **options):
    stopper = EarlyStopping(
        patience=2, min_delta=options.get("min_delta", 0.01)
    )
    are_best = [stopper.update(score) for score in scores]
    return stopper.best, are_best


@pytest.mark.parametrize(
    "scores, epoch",
    [
        ([0.5, 0.6, 0.7, 0.8], None),
        ([0.5, 0.6, 0.6, 0.6], 4),
        ([0.5, 0.4, 0.3], 3),
        ([0.5, 0.4, 0.6, 0.5, 0.4], 5),  # a rise starts the count anew
        ([0.5, 0.4, 0.45, 0.9], 3),  # a rise over the last is not over the best
        ([-0.9, -0.5, -0.6, -0.7], 4),  # correlations may be negative
        ([0.0, 0.0, 0.0], 3),
    ],
)
def test_training_stops_two_epochs_after_the_last_rise(scores, epoch):
    assert stops_after(scores) == epoch


def test_a_slow_creep_does_not_count_however_far_it_gets():
    assert stops_after([0.5, 0.508, 0.512, 0.52]) == 3
    assert stops_after([0.5, 0.508, 0.509, 0.51], min_delta=0.0) is None


def test_a_rise_is_more_than_the_threshold():
    assert stops_after([0.0, 0.25, 0.5], patience=1, min_delta=0.25) == 2
    assert stops_after([0.0, 0.26, 0.52], patience=1, min_delta=0.25) is None


@pytest.mark.parametrize("patience, epoch", [(1, 2), (2, 3), (3, 4)])
def test_patience_counts_the_epochs_without_a_rise(patience, epoch):
    assert stops_after([0.5] * 9, patience=patience) == epoch


def test_patience_0_never_stops():
    assert not EarlyStopping(wait=9).should_stop
    assert stops_after([0.5] * 50, patience=0) is None


def test_the_best_epoch_is_the_first_of_equals():
    assert best_of([0.5, 0.7, 0.7, 0.6, 0.7]) == (
        0.7,
        [True, True, False, False, False],
    )


def test_the_best_epoch_need_not_be_a_rise():
    assert best_of([0.5, 0.505, 0.502]) == (0.505, [True, True, False])


def test_nothing_is_best_before_an_epoch_is_seen():
    stopper = EarlyStopping(patience=2, min_delta=0.0)
    assert stopper.best is None
    assert not stopper.should_stop
