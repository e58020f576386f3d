"""Which batch comes when, and what conflicting gradients become."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transfer.config import settings
from tf_transfer.data import batches
from tf_transfer.training import joint, optimizer

SIZES = (7, 20)
BATCH = 4


def passes(epoch=1):
    return [
        functools.partial(
            batches.plan_epoch,
            np.full(size, 5),
            BATCH,
            "random",
            0,
            epoch,
            1,
            batches.BUCKETS,
        )
        for size in SIZES
    ]


def rows_of(part):
    """The examples of each step that count."""
    return [
        rows[:count].tolist() for rows, count in zip(part.rows, part.counts)
    ]


# === Plans ===


def test_each_step_has_a_batch_of_each_until_the_largest_set_is_through():
    plan = joint.Sum().plan(passes(), SIZES, None, 0.0)
    assert len(plan) == 5 and plan.choices is None
    small, large = map(rows_of, plan.plans)
    assert sorted(sum(large, [])) == list(range(20))
    # Two passes of two steps, and a step of a third; each is shuffled anew.
    assert sorted(sum(small[:2], [])) == sorted(sum(small[2:4], []))
    assert small[:2] != small[2:4]
    assert plan.counts.tolist() == [8, 7, 8, 7, 8]


def test_the_rest_of_a_plan_resumes_at_its_step():
    plan = joint.Sum().plan(passes(), SIZES, None, 0.0)
    left = plan.start_at(2)
    for whole, part in zip(plan.plans, left.plans, strict=True):
        assert rows_of(part) == rows_of(whole)[2:]
    assert left.counts.tolist() == plan.counts.tolist()[2:]


def test_the_rest_of_a_drawn_plan_resumes_at_its_step():
    rng = np.random.default_rng(0)
    plan = joint.Sampled(1.0, 1.0).plan(passes(), SIZES, rng, 0.0)
    assert len(plan) == 2 + 5
    left = plan.start_at(3)
    assert left.choices.tolist() == plan.choices.tolist()[3:]
    for index, (whole, part) in enumerate(zip(plan.plans, left.plans)):
        behind = int((plan.choices[:3] == index).sum())
        assert rows_of(part) == rows_of(whole)[behind:]
    assert left.counts.tolist() == plan.counts.tolist()[3:]


@pytest.mark.parametrize("done, share", [(0.0, 0.8), (0.5, 2 / 3), (1.0, 0.5)])
def test_tasks_are_drawn_by_size_to_the_power_of_alpha(done, share):
    """Of 1,000 and 4,000 examples, alpha falling from 1 to 0."""
    sizes = (1000, 4000)
    many = [
        functools.partial(
            batches.plan_epoch,
            np.full(size, 5),
            1,
            "random",
            0,
            1,
            1,
            batches.BUCKETS,
        )
        for size in sizes
    ]
    rng = np.random.default_rng(0)
    plan = joint.Sampled(1.0, 0.0).plan(many, sizes, rng, done)
    assert np.mean(plan.choices) == pytest.approx(share, abs=0.02)
    for index, part in enumerate(plan.plans):
        assert len(part) == np.sum(plan.choices == index)


# === Gradient surgery ===


def test_two_conflicting_gradients_by_hand():
    """g1 = (1, 0), g2 = (-1, 1): g1 . g2 = -1, |g2|^2 = 2.

    g1 loses its part along g2: (1, 0) + 1/2 (-1, 1) = (1/2, 1/2); g2 its part
    along g1: (-1, 1) + (1, 0) = (0, 1). Together (1/2, 3/2) = 2 g1 + 3/2 g2.
    """
    products = tf.constant([[1.0, -1.0], [-1.0, 2.0]])
    shares = joint.project(products, tf.constant([[0, 1], [1, 0]]))
    np.testing.assert_allclose(shares, [2.0, 1.5])


def test_gradients_that_agree_are_left_alone():
    products = tf.constant([[1.0, 0.5], [0.5, 2.0]])
    shares = joint.project(products, tf.constant([[0, 1], [0, 1]]))
    np.testing.assert_allclose(shares, [1.0, 1.0])


def surgery_in_numpy(gradients, order):
    """Algorithm 1 of Yu et al., on the gradients themselves."""
    total = np.zeros_like(gradients[0])
    for one, others in zip(range(len(gradients)), order):
        left = gradients[one].copy()
        for other in others:
            along = left @ gradients[other]
            if other != one and along < 0:
                size = gradients[other] @ gradients[other]
                left -= along / size * gradients[other]
        total += left
    return total


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_three_gradients_meet_is_followed(seed):
    draw = np.random.default_rng(seed)
    gradients = draw.normal(size=(3, 4))
    order = np.stack([draw.permutation(3) for _ in range(3)])
    shares = joint.project(
        tf.constant(gradients @ gradients.T, tf.float32),
        tf.constant(order, tf.int32),
    )
    np.testing.assert_allclose(
        shares.numpy() @ gradients,
        surgery_in_numpy(gradients, order),
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_gradient_of_zero_meets_nobody():
    products = tf.constant([[1.0, 0.0], [0.0, 0.0]])
    shares = joint.project(products, tf.constant([[1, 0], [0, 1]]))
    np.testing.assert_allclose(shares, [1.0, 1.0])


def test_surgery_looks_at_what_is_shared_and_leaves_heads_alone():
    """A head's gradient is large, and is no part of any conflict."""
    weights = [
        keras.Variable(np.zeros(2, np.float32), name=name)
        for name in ("shared", "head_a", "head_b")
    ]
    adam = optimizer.BertAdam(
        weights, lambda step: 0.1, settings.Settings(), groups=["", "a", "b"]
    )
    gradients = [
        [tf.constant(value) for value in one]
        for one in (
            ([1.0, 0.0], [100.0, 100.0], [0.0, 0.0]),
            ([-1.0, 1.0], [0.0, 0.0], [50.0, 50.0]),
        )
    ]
    strategy = tf.distribute.get_strategy()
    shared, one, other = strategy.run(
        tf.function(
            lambda g: joint.PCGrad().merge(g, adam, tf.zeros([2], tf.int64))
        ),
        args=(gradients,),
    )
    np.testing.assert_allclose(shared, [0.5, 1.5])
    np.testing.assert_allclose(one, [100.0, 100.0])
    np.testing.assert_allclose(other, [50.0, 50.0])
