"""Groups of weights that an update leaves out: they stand still, or drift."""

import keras
import numpy as np

from tests.training.adam import (
    adam_in_numpy,
    apply,
    draw,
    PEAK,
    SHAPES,
    values,
)
from tf_transfer.training import optimizer


def test_a_group_that_is_left_out_stands_still_and_counts_for_itself():
    """Three updates, of which the bias and gamma see the first and third."""
    gradients = [draw(seed) for seed in (1, 2, 3)]
    options = {"bias_correction": True, "clip_norm": 0.0}
    weights = [
        keras.Variable(value, name=name) for name, value in zip(SHAPES, draw(0))
    ]
    adam = optimizer.BertAdam(
        weights,
        lambda step: PEAK,
        optimizer.AdamOptions(**options),
        groups=["", "head", "head", ""],
    )
    for step, groups in zip(gradients, (("", "head"), ("",), ("", "head"))):
        apply(adam, step, groups)
    always = adam_in_numpy(gradients, adam.options)
    sometimes = adam_in_numpy([gradients[0], gradients[2]], adam.options)
    expected = [always[0], sometimes[1], sometimes[2], always[3]]
    for found, wanted in zip(values(adam.weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    counts = {group: int(n) for group, n in adam.updates.items()}
    assert counts == {"": 3, "head": 2}


def test_a_group_that_drifts_continues_from_its_first_update():
    """As if its gradient were 0, and not before it had one."""
    gradients = [draw(seed) for seed in (1, 2, 3)]
    options = {"bias_correction": True, "clip_norm": 0.0}
    weights = [
        keras.Variable(value, name=name) for name, value in zip(SHAPES, draw(0))
    ]
    adam = optimizer.BertAdam(
        weights,
        lambda step: PEAK,
        optimizer.AdamOptions(**options, idle_heads="drift"),
        groups=["", "head", "head", ""],
    )
    zeros = [np.zeros_like(g) for g in gradients[0]]
    for step, groups in (
        (zeros, ("",)),
        (gradients[0], ("", "head")),
        (zeros, ("",)),
        (gradients[2], ("", "head")),
    ):
        apply(adam, step, groups)
    expected = adam_in_numpy([gradients[0], zeros, gradients[2]], adam.options)
    for index in (1, 2):
        found = np.array(adam.weights[index])
        np.testing.assert_allclose(found, expected[index], rtol=2e-5, atol=2e-6)
    counts = {group: int(n) for group, n in adam.updates.items()}
    assert counts == {"": 4, "head": 3}


def test_a_group_that_drifts_does_not_decay_before_its_first_update():
    weights = [
        keras.Variable(value, name=name) for name, value in zip(SHAPES, draw(0))
    ]
    options = {"weight_decay": 0.5, "clip_norm": 0.0, "idle_heads": "drift"}
    adam = optimizer.BertAdam(
        weights,
        lambda step: PEAK,
        optimizer.AdamOptions(**options),
        groups=["head", "", "", ""],
    )
    still = [np.zeros_like(g) for g in draw(1)]
    apply(adam, still, ("",))
    np.testing.assert_array_equal(weights[0], draw(0)[0])
    apply(adam, still, ("", "head"))
    apply(adam, still, ("",))  # it decays now
    np.testing.assert_allclose(weights[0], 0.95**2 * draw(0)[0], rtol=1e-6)
