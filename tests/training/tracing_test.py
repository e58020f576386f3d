"""What tracing and compiling take is timed apart from training."""

import numpy as np
import pytest

from tf_transfer.data import batches
from tf_transfer.training import joint
from tf_transfer.training.progress import Progress


def test_a_first_step_counts_as_training_for_the_mean_of_the_others():
    progress = Progress(
        step=6, train_seconds=4.0, first_seconds=30.0, first_steps=2
    )
    progress.elapsed, progress.trace_seconds = 104.0, 1.0
    progress.end_pass()
    assert progress.train_seconds == pytest.approx(6)
    assert progress.elapsed == pytest.approx(106)
    assert progress.trace_seconds == pytest.approx(29)
    assert (progress.first_seconds, progress.first_steps) == (0, 0)


def test_a_pass_of_first_steps_alone_is_training():
    progress = Progress(step=1, first_seconds=3.0, first_steps=1)
    progress.end_pass()
    assert (progress.train_seconds, progress.trace_seconds) == (3, 0)


def test_the_shape_of_a_step_is_that_of_each_batch_in_it():
    plans = [
        batches.BatchPlan(
            np.zeros([len(lengths), rows], int),
            np.ones(len(lengths), int),
            np.array(lengths),
        )
        for rows, lengths in ((4, [16, 32]), (8, [64, 64, 48]))
    ]
    drawn = joint.JointPlan(plans, np.ones(5), np.array([0, 1, 1, 0, 1]))
    assert drawn.shapes() == [
        (4, 16, 0, 0),
        (0, 0, 8, 64),
        (0, 0, 8, 64),
        (4, 32, 0, 0),
        (0, 0, 8, 48),
    ]
    together = joint.JointPlan(plans[1:], np.ones(3))
    assert together.shapes() == [(8, 64), (8, 64), (8, 48)]
