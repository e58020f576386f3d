"""The four matchings, against NumPy from the equations of 1702.03814."""

import numpy as np
import tensorflow as tf

from tests.stacking.heads import reference
from tf_transfer.stacking.heads import matching

PERSPECTIVES = 3
SEEDS = range(4)


def perspectives(v, u, kernel):
    """f(v, u; W): a cosine for each perspective, equations 3 and 4."""
    return [reference.cosine(w * v, w * u) for w in kernel.T]


def match(text, other, last, full, pooling, attentive, strongest):
    """Matching vectors of a text's states against the other text."""
    rows = []
    for h in text:
        a = np.array([reference.cosine(h, g) for g in other])
        mean = a @ other / a.sum()
        rows.append(
            perspectives(h, last, full)
            + np.max([perspectives(h, g, pooling) for g in other], 0).tolist()
            + perspectives(h, mean, attentive)
            + perspectives(h, other[a.argmax()], strongest)
        )
    return np.array(rows)


def layer(dtype="float32", width=reference.HIDDEN):
    built = matching.Matching(
        width, PERSPECTIVES, ["he_normal"] * 4, dtype, name="matching"
    )
    for seed, kernel in zip(SEEDS, built.kernels, strict=True):
        rng = np.random.default_rng(seed)
        kernel.assign(rng.normal(size=kernel.shape))
    return built


def matched(built, padding=0, fill=100.0):
    states, mask = reference.inputs(padding, fill=fill)
    return built(states, states[:, 0], mask).numpy()


def test_both_texts_are_matched_against_each_other():
    built = layer()
    kernels = reference.arrays(built)
    rows = matched(built, padding=2)
    half = len(reference.LENGTHS) // 2
    for row, (p, q) in enumerate(reference.pairs()):
        for place, text, other in [(row, p, q), (row + half, q, p)]:
            np.testing.assert_allclose(
                rows[place, : len(text)],
                match(text, other, other[0], *kernels),
                atol=1e-5,
            )


def test_a_negative_sum_of_cosines_turns_the_attentive_vector():
    built = layer()
    rng = np.random.default_rng(2)
    g = rng.normal(size=reference.HIDDEN)
    p, q = np.stack([-g, g]), np.stack([g, 2 * g + 0.1])
    states = np.stack([p, q]).astype(np.float32)
    rows = built(states, states[:, 0], np.ones([2, 2], bool)).numpy()
    expected = match(p, q, q[0], *reference.arrays(built))
    attentive = slice(2 * PERSPECTIVES, 3 * PERSPECTIVES)
    # The first state is opposite to all of q: minus its own cosines.
    assert (expected[0, attentive] > -1).all()
    np.testing.assert_allclose(rows[0], expected, atol=1e-5)


def test_half_precision_comes_close():
    precise, coarse = (
        matched(layer(dtype)) for dtype in ("float32", "mixed_bfloat16")
    )
    _, mask = reference.inputs()
    away = np.abs(precise - coarse.astype(np.float32))[mask]
    # Another state may be the largest by a hair: so not each value.
    assert np.quantile(away, 0.9) < 0.02


def test_states_that_are_zero_have_finite_gradients():
    built = layer()
    states = tf.zeros([4, 5, reference.HIDDEN])
    mask = tf.sequence_mask([5, 2, 1, 3], 5)
    values = [kernel.value for kernel in built.kernels]
    with tf.GradientTape() as tape:
        tape.watch([states, *values])
        y = tf.reduce_sum(built(states, states[:, 0], mask))
    for gradient in tape.gradient(y, [states, *values]):
        assert np.isfinite(gradient).all()
