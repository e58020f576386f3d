"""BiMPM, with and without its first BiLSTM, against NumPy."""

import numpy as np

from tests.stacking.heads import reference
from tests.stacking.heads.matching_test import match

SIZES = {"perspectives": 3, "aggregation_units": 4}


def context(text, weights):
    """States, last state and weights of a text in each direction."""
    forward, backward = reference.bilstm(text, *weights)
    return [(forward, forward[-1]), (backward, backward[0])]


def matching_vectors(head, p, q):
    """Of both texts, [tokens, 2 directions or 1, times 4 l]."""
    if head.context is None:
        sides = [[(p, p[0])], [(q, q[0])]]
    else:
        sides = [context(x, reference.arrays(head.context)) for x in (p, q)]
    kernels = [reference.arrays(layer) for layer in head.matchings]
    return [
        np.concatenate(
            [
                match(states, others, last, *weights)
                for (states, _), (others, last), weights in zip(
                    one, other, kernels, strict=True
                )
            ],
            axis=1,
        )
        for one, other in (sides, sides[::-1])
    ]


def predict(head, vectors):
    """The two dense layers."""
    x = np.concatenate(vectors)
    w1, b1 = reference.arrays(head.inner)
    w2, b2 = reference.arrays(head.output_layer)
    return reference.relu(x @ w1 + b1) @ w2 + b2


def expected(head, p, q):
    vectors = []
    for x in matching_vectors(head, p, q):
        forward, backward = reference.bilstm(
            x, *reference.arrays(head.aggregation)
        )
        vectors += [forward[-1], backward[0]]
    return predict(head, vectors)


def check(head):
    logits = head(*reference.inputs(padding=2)).numpy()
    assert len(logits) == len(reference.pairs())
    for row, (p, q) in enumerate(reference.pairs()):
        np.testing.assert_allclose(logits[row], expected(head, p, q), atol=1e-5)


def test_bimpm_is_that_of_its_equations():
    head = reference.build_head("pairs", "bimpm", context_units=5, **SIZES)
    assert len(head.matchings) == 2
    check(head)


def test_without_its_first_bilstm_it_matches_the_encoders_states():
    head = reference.build_head("pairs", "bimpm_without_context", **SIZES)
    assert len(head.matchings) == 1
    check(head)


def test_one_matching_serves_both_texts_of_a_pair():
    head = reference.build_head("pairs", "bimpm", context_units=5, **SIZES)
    arrays = reference.inputs()
    swapped = [np.roll(array, 2, axis=0) for array in arrays]
    one = head._match(*arrays, training=False)
    other = head._match(*swapped, training=False)
    mask = arrays[1]
    np.testing.assert_allclose(
        one.numpy()[mask], np.roll(other, 2, axis=0)[mask], atol=1e-5
    )
