"""Sim-Transformer, against NumPy."""

import numpy as np
import pytest

from tests.stacking.heads import bimpm_test, reference
from tf_transfer.models import keras_private
from tf_transfer.stacking import heads
from tf_transfer.stacking.heads import sim_transformer

WIDTH = 16


def normalise(x, gamma, beta):
    centred = x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return gamma * centred / spread + beta


def block(x, *weights):
    """One transformer block with four heads, normalised after each sum."""
    wq, bq, wk, bk, wv, bv, wo, bo, *rest = weights
    gamma1, beta1, gamma2, beta2, w1, b1, w2, b2 = rest
    q, k, v = (
        np.einsum("td,dhs->hts", x, w) + b[:, None]
        for w, b in [(wq, bq), (wk, bk), (wv, bv)]
    )
    weights = reference.softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]))
    mixed = np.einsum("hts,hsd,hdo->to", weights, v, wo) + bo
    y = normalise(x + mixed, gamma1, beta1)
    z = reference.relu(y @ w1 + b1) @ w2 + b2
    return normalise(y + z, gamma2, beta2)


def positions(length, width):
    waves = np.zeros([length, width])
    for place in range(length):
        for i in range(0, width, 2):
            angle = place / 10000 ** (i / width)
            waves[place, i : i + 2] = np.sin(angle), np.cos(angle)
    return waves


def expected(head, p, q):
    kernel, bias = reference.arrays(head.projection)
    vectors = []
    for x in bimpm_test.matching_vectors(head, p, q):
        x = x @ kernel + bias + positions(len(x), WIDTH)
        for layer in head.blocks:
            x = block(x, *reference.arrays(layer))
        vectors.append(x.mean(axis=0))
    return bimpm_test.predict(head, vectors)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_transformer_reads_the_matching_vectors(layers):
    head = reference.build_head(
        "pairs",
        "sim_transformer",
        context_units=5,
        perspectives=3,
        transformer_units=WIDTH,
        transformer_layers=layers,
    )
    logits = head(*reference.inputs(padding=2)).numpy()
    for row, (p, q) in enumerate(reference.pairs()):
        np.testing.assert_allclose(logits[row], expected(head, p, q), atol=1e-4)


def test_positions_are_those_of_vaswani():
    np.testing.assert_allclose(
        sim_transformer.encode_positions(50, 8), positions(50, 8), atol=1e-5
    )


def test_the_blocks_kernels_are_kaiming_and_none_is_another():
    head = heads.load("pairs", "sim_transformer")(1, 8, 0.1, 0, "float32")
    [only] = head.blocks
    layers = keras_private.block_layers(only)
    equal = [layers.query, layers.key, layers.value, layers.attention_output]
    kernels = [layer.kernel.numpy().ravel() for layer in equal]
    for kernel in kernels:
        assert abs(kernel.std() / np.sqrt(2 / 256) - 1) < 0.02
    assert abs(np.triu(np.corrcoef(kernels), 1)).max() < 0.02


def test_the_first_bilstm_may_be_left_out():
    """Then there is one matching, as in BiMPM without it."""
    head = reference.build_head("pairs", "sim_transformer", context_units=0)
    assert head.context is None and len(head.matchings) == 1
    assert head(*reference.inputs(padding=2)).shape == (2, 2)
