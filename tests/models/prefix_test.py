"""A prefix is the lower part of the encoder, in inference mode, rounded."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import encoders
from tests.models.encoders import batch_of
from tf_transfer.models import (
    freezing,
    network as network_lib,
    prefix as prefix_lib,
)
from tf_transfer.models.heads import pooled
from tf_transfer.models.prefix import (
    FrozenPrefix,
    hash_prefixes,
    mean_pool,
)


@pytest.fixture(scope="module", params=encoders.FAMILIES)
def encoder(request):
    return encoders.shared(request.param)


@pytest.fixture(scope="module")
def batch(encoder):
    return batch_of(encoder, encoders.PAIRS)


def below(encoder, batch, cut):
    """What the encoder has above block `cut`, in inference mode."""
    x = encoder.embed(batch["ids"], batch["segments"], training=False)
    return encoder.run_blocks(x, batch["mask"], 1, cut, training=False)


def run(prefix, encoder, batch, dtype=""):
    """The output of one prefix."""
    [output] = prefix_lib.run(encoder, batch, [prefix], dtype)
    return output


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_it_is_the_lower_blocks_rounded_once(encoder, batch, cut):
    found = run(FrozenPrefix(cut, "tokens", "float16"), encoder, batch)
    expected = tf.cast(below(encoder, batch, cut), tf.float16)
    np.testing.assert_array_equal(found, expected)


def test_one_vector_a_text_where_no_block_trains(encoder, batch):
    top = len(encoder.blocks)
    whole = below(encoder, batch, top)
    cls = run(FrozenPrefix(top, "cls", "float32"), encoder, batch)
    np.testing.assert_allclose(cls, whole[:, 0], atol=1e-6)
    mean = run(FrozenPrefix(top, "mean", "float32"), encoder, batch)
    np.testing.assert_allclose(mean, mean_pool(whole, batch["mask"]), atol=1e-6)


def test_one_pass_gives_what_a_pass_of_each_gives(encoder, batch):
    top = len(encoder.blocks)
    prefixes = [
        FrozenPrefix(top, "cls", "float32"),
        FrozenPrefix(0, "tokens", "float16"),
        FrozenPrefix(top, "pooled_blocks", "float32"),
        FrozenPrefix(1, "tokens", "float32"),
    ]
    together = prefix_lib.run(encoder, batch, prefixes)
    for prefix, found in zip(prefixes, together, strict=True):
        expected = run(prefix, encoder, batch)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert found.dtype == prefix.dtype


def test_it_runs_in_another_precision(encoder, batch):
    prefix = FrozenPrefix(2, "tokens", "float32")
    half = run(prefix, encoder, batch, "bfloat16")
    whole = run(prefix, encoder, batch)
    error = np.linalg.norm(half - whole) / np.linalg.norm(whole)
    assert 1e-4 < error < 2e-2


@pytest.mark.parametrize("output", ["tokens", "mean"])
def test_gaps_are_filled_with_what_would_have_been_stored(
    encoder, batch, output
):
    prefix = FrozenPrefix(len(encoder.blocks), output, "float16")
    whole = run(prefix, encoder, batch)
    is_stored = np.arange(len(whole)) % 2 == 0
    spoilt = tf.where(
        is_stored.reshape([-1] + [1] * (whole.shape.rank - 1)), whole, 7
    )
    found = prefix.complete(
        encoder,
        {**batch, "states": spoilt, "is_stored": tf.constant(is_stored)},
    )
    np.testing.assert_array_equal(found[is_stored], whole[is_stored])
    np.testing.assert_allclose(found, whole, atol=2e-3)


def test_the_logits_above_a_float32_prefix_are_those_of_a_live_run(
    encoder, batch
):
    for pooling in ("cls", "mean"):
        head = pooled.PooledHead(
            2, encoder.hidden, pooling, 0.0, 0, "float32", name="head"
        )
        network = network_lib.Network(encoder, {"head": head})
        live = network.logits("head", batch, training=False)
        for last in range(len(encoder.blocks) + 1):
            trainable = freezing.parse(str(last), "", len(encoder.blocks))
            prefix = network.prefix("head", trainable, "float32")
            assert prefix.cut == len(encoder.blocks) - last
            states = run(prefix, encoder, batch)
            assert states.shape.rank == (3 if last else 2)
            above = network.logits(
                "head",
                {"mask": batch["mask"], "states": states},
                training=False,
                prefix=prefix,
            )
            np.testing.assert_allclose(above, live, atol=1e-5)


def test_a_hash_covers_what_is_below_its_cut_and_no_more():
    encoder = encoders.bert()
    before = hash_prefixes(encoder)
    assert len(set(before)) == len(encoder.blocks) + 1
    assert hash_prefixes(encoders.bert()) == before
    weight = encoder.blocks[1].weights[0]
    weight.assign(weight + 1e-3)
    after = hash_prefixes(encoder)
    changed = [one != other for one, other in zip(before, after)]
    assert changed == [False, False] + [True] * (len(encoder.blocks) - 1)


def test_a_hash_covers_the_arithmetic_of_a_block():
    encoder = encoders.bert()
    hashes = {tuple(hash_prefixes(encoder))}
    for activation, epsilon in (("relu", 1e-12), ("relu", 1e-5)):
        encoder.set_arithmetic(activation, epsilon)
        hashes.add(tuple(hash_prefixes(encoder)))
    assert len(hashes) == 3
