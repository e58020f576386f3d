"""Two dense layers, against NumPy."""

import numpy as np
import pytest

from tests.stacking.heads import reference


def two_dense(head, x):
    w1, b1, w2, b2 = reference.arrays(head)
    return reference.relu(x @ w1 + b1) @ w2 + b2


def test_every_token_passes_two_dense_layers():
    head = reference.build_head("ner", "dense", units=5)
    states, mask = reference.inputs()
    logits = head(states, mask).numpy()
    for row, text in enumerate(reference.texts()):
        np.testing.assert_allclose(
            logits[row, : len(text)], two_dense(head, text), atol=1e-5
        )


@pytest.mark.parametrize("task", ["text", "pairs"])
def test_a_pooled_vector_passes_two_dense_layers(task):
    head = reference.build_head(task, "dense", units=3)
    pooled = reference.inputs()[0][:, 0]
    assert (head.pooling, head.texts_per_example) == ("cls", 1)
    np.testing.assert_allclose(head(pooled), two_dense(head, pooled), atol=1e-5)


def test_two_texts_by_themselves_are_read_with_their_difference():
    head = reference.build_head("pairs", "dense", units=3, texts_per_example=2)
    u, v = np.split(reference.inputs()[0][:, 0], 2)
    x = np.concatenate([u, v, np.abs(u - v)], axis=1)
    logits = head(np.concatenate([u, v]))
    np.testing.assert_allclose(logits, two_dense(head, x), atol=1e-5)


def test_the_inner_layer_is_as_wide_as_the_states_unless_told():
    assert reference.build_head("text", "dense").inner.units == reference.HIDDEN
    assert reference.build_head("text", "dense", inner_units=5).inner.units == 5
