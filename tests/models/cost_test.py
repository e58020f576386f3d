"""Operations are counted from shapes, product by product."""

import dataclasses

import numpy as np
import pytest

from tests.models import encoders
from tf_transfer.data import batches
from tf_transfer.models import cost, freezing

SHAPE = cost.Shape(blocks=3, hidden=8, heads=2, inner=32)


def by_hand(texts, length):
    """Forward operations of one whole block, product by product."""
    tokens = texts * length
    products = [(tokens, 8, 8)] * 4 + [(tokens, 8, 32), (tokens, 32, 8)]
    scores = 2 * texts * 2 * (length * 4 * length) * 2
    return sum(2 * a * b * c for a, b, c in products) + scores


def test_the_operations_of_a_block_are_those_of_its_products():
    assert sum(cost.count_block_operations(SHAPE, 5, 7)) == by_hand(5, 7)


def test_a_block_at_cls_alone_has_products_of_one_query_a_text():
    # q W_k' and (a x) W_v of two heads with four units each.
    products = [(5, 8, 8)] * 2 + [(5, 4, 8)] * 4 + [(5, 8, 32), (5, 32, 8)]
    scores = 2 * 2 * 5 * 7 * 8 * 2  # q W_k' x' and a x of two heads
    expected = sum(2 * a * b * c for a, b, c in products) + scores
    assert sum(cost.count_block_operations(SHAPE, 5, 7, True)) == expected


@pytest.mark.parametrize(
    "trainable, forwards, least",
    [
        (freezing.Trainable(1, 3, embeddings=True), 9, 0),
        (freezing.Trainable(1, 3), 9, 1),
        (freezing.Trainable(3, 3), 5, 1),
        (freezing.Trainable(2, 2), 1 + 3 + 2, 1),
        (freezing.Trainable(4, 3), 3, 0),
    ],
    ids=str,
)
def test_a_trained_block_counts_three_times_and_the_lowest_a_little_less(
    trainable, forwards, least
):
    plan = batches.BatchPlan(
        np.zeros((2, 4), int), np.array([4, 3]), np.array([16, 32])
    )
    operations = cost.count_epoch_operations(
        SHAPE, plan, trainable, False, False
    )
    whole = by_hand(4, 16) + by_hand(4, 32)
    spared = 3 * 2 * 8 * 8 * 4 * (16 + 32) * least
    assert operations == forwards * whole - spared
    frozen = trainable.cut * whole
    cached = cost.count_epoch_operations(SHAPE, plan, trainable, False, True)
    assert cached == operations - frozen


def test_a_measured_encoder_has_its_own_shape():
    encoder = encoders.shared("bert")
    shape = cost.Shape.from_encoder(encoder)
    assert dataclasses.astuple(shape) == (3, 32, 2, 64)
