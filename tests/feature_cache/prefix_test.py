"""A prefix is the lower part of the encoder, in inference mode, rounded."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import encoders
from tests.models.encoders import batch_of
from tf_transfer.feature_cache.prefix import (
    FrozenPrefix,
    hash_prefixes,
    mean_pool,
)
from tf_transfer.models import freezing, network as network_lib
from tf_transfer.models.heads import pooled


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


def rounded(encoder, batch, cut):
    """The same, rounded below every block."""
    x = encoder.embed(batch["ids"], batch["segments"], training=False)
    for number in range(1, cut + 1):
        x = tf.cast(tf.cast(x, tf.float16), tf.float32)
        x = encoder.run_blocks(x, batch["mask"], number, number, False)
    return tf.cast(x, tf.float16)


def without(batch, *names):
    return {name: batch[name] for name in batch if name not in names}


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_it_is_the_lower_blocks_rounded(encoder, batch, cut):
    found = FrozenPrefix(cut, "tokens", "float16").run(encoder, batch)
    assert found.dtype == tf.float16
    np.testing.assert_array_equal(found, rounded(encoder, batch, cut))


def test_one_vector_a_text_where_no_block_trains(encoder, batch):
    top = len(encoder.blocks)
    whole = below(encoder, batch, top)
    cls = FrozenPrefix(top, "cls", "float32").run(encoder, batch)
    np.testing.assert_allclose(cls, whole[:, 0], atol=1e-6)
    mean = FrozenPrefix(top, "mean", "float32").run(encoder, batch)
    np.testing.assert_allclose(mean, mean_pool(whole, batch["mask"]), atol=1e-6)


def test_a_deeper_cut_goes_on_from_the_rounded_states_of_a_shallower(
    encoder, batch
):
    deep = FrozenPrefix(2, "tokens", "float16")
    source = deep.shallower(1)
    shallow = source.run(encoder, batch)
    found = deep.run(
        encoder,
        {**without(batch, "ids", "segments"), "states": shallow},
        source,
    )
    x = tf.cast(shallow, tf.float32)
    expected = encoder.run_blocks(x, batch["mask"], 2, 2, training=False)
    np.testing.assert_array_equal(found, tf.cast(expected, tf.float16))
    # From the text it takes the same steps: the numbers are the same.
    np.testing.assert_array_equal(found, deep.run(encoder, batch))


@pytest.mark.parametrize("output", ["tokens", "mean"])
def test_gaps_are_filled_with_what_would_have_been_stored(
    encoder, batch, output
):
    prefix = FrozenPrefix(len(encoder.blocks), output, "float16")
    whole = prefix.run(encoder, batch)
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
            states = prefix.run(encoder, batch)
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
