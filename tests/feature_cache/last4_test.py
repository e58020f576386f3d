"""A head on [CLS] above the last four blocks, live and from the cache."""

import numpy as np
import pytest

from tests.feature_cache import small
from tests.feature_cache.small import attach
from tf_transfer.models import freezing
from tf_transfer.models.heads import pooled
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("eager")
BLOCKS = 5  # so that a cut may lie among the last four


@pytest.fixture(scope="module")
def network():
    return small.network(small.encoder(BLOCKS), "last4")


def prefix_of(network, layers):
    trainable = freezing.parse(layers, "", BLOCKS)
    return trainable, network.prefix("head", trainable, "float32")


@pytest.mark.slow  # trains whole runs
def test_stored_states_give_what_a_live_prefix_gives(network, tmp_path):
    """Cuts below, among and above the four blocks."""
    for layers in "310":
        trainable, prefix = prefix_of(network, layers)
        split = small.split("train")
        live = small.train(network, trainable, split, examples=8)
        cached = attach(
            tmp_path, prefix, {"train": split}, encoder_used=network.encoder
        )
        assert cached.builds == [small.TRAIN]
        losses, logits = small.train(
            network,
            trainable,
            cached.splits["train"],
            cached.prefix,
            examples=8,
        )
        np.testing.assert_allclose(losses, live[0], rtol=2e-4)
        np.testing.assert_allclose(logits, live[1], atol=2e-4)


def test_without_room_the_prefix_runs_to_the_same(network, tmp_path, capsys):
    for layers in "10":
        _, prefix = prefix_of(network, layers)
        split = small.split("train")
        cached = attach(
            tmp_path,
            prefix,
            {"train": split},
            encoder_used=network.encoder,
            limit_gb=0.0,
        )
        assert "texts do not fit --cache_limit_gb" in capsys.readouterr().out
        np.testing.assert_allclose(
            small.evaluate(network, cached.splits["train"], cached.prefix),
            small.evaluate(network, split),
            atol=2e-4,
        )


def test_the_head_reads_the_top_four_blocks(network):
    """Four times the width; its logits follow [CLS] above each of them."""
    head = network.heads["head"]
    width = small.tiny.HIDDEN
    assert head.dense.kernel.shape == (4 * width, 1)
    split = small.split("test")
    plan = small.batches.plan_evaluation(split.lengths, len(split))
    [batch] = small.batches.pipeline(split, plan, 0)
    encoder, mask = network.encoder, batch["mask"]
    x = encoder.embed(batch["ids"], batch["segments"], training=False)
    above = []
    for number in range(1, BLOCKS + 1):
        x = encoder.run_blocks(x, mask, number, number, training=False)
        above.append(x[:, 0])
    expected = head(np.concatenate(above[1:], axis=1))
    np.testing.assert_allclose(
        small.logits_of(network, batch), expected, atol=1e-5
    )


def test_an_encoder_of_three_blocks_is_refused():
    with pytest.raises(UserError, match="--pooling=last4.*3 blocks"):
        pooled.pooled_width("last4", small.encoder(3))
