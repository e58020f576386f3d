"""Heads that read every token, on an encoder: live and above a prefix."""

import numpy as np
import pytest

from tests.models import encoders
from tests.models.stacks.heads_test import ALL
from tests.models.stacks.heads_test import SMALL
from tf_transfer.models import freezing
from tf_transfer.models import heads
from tf_transfer.models import network as network_lib


@pytest.fixture(scope="module")
def encoder():
    return encoders.bert()


def network_of(encoder, task, name):
    head = heads.build(
        task,
        name,
        2,
        encoder.hidden,
        0.1,
        0,
        "float32",
        name="head_x",
        **SMALL.get(name, {}),
    )
    return network_lib.Network(encoder, {"x": head})


def batch_of(encoder, network):
    """Four texts: of two pairs, the second ones stand last; or packed."""
    texts = encoders.PAIRS
    if network.heads["x"].sides == 2:
        texts = [texts[0][:2] + texts[1][:2]]
    return encoders.batch_of(encoder, texts)


@pytest.mark.parametrize("task, name", ALL)
def test_a_head_reads_what_the_encoder_puts_out(encoder, task, name):
    network = network_of(encoder, task, name)
    batch, head = batch_of(encoder, network), network.heads["x"]
    states = encoder(
        batch["ids"], batch["segments"], batch["mask"], training=False
    )
    if head.pooling == "tokens":
        expected = head(states, batch["mask"])
    else:
        expected = head(encoder.pooler(states[:, 0]))
    assert len(expected) == 4 // head.sides
    assert network.uses_pooler == (head.pooling == "cls")
    found = network.logits("x", batch, training=False)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("task, name", ALL)
@pytest.mark.parametrize("last", ["0", "1"])
def test_a_prefix_keeps_all_that_the_head_reads(encoder, task, name, last):
    network = network_of(encoder, task, name)
    batch = batch_of(encoder, network)
    trainable = freezing.parse(last, "", len(encoder.blocks))
    prefix = network.prefix("x", trainable, "float32")
    states = prefix.run(encoder, batch)
    reads_tokens = network.heads["x"].pooling == "tokens" or last == "1"
    assert states.shape.rank == (3 if reads_tokens else 2)
    above = network.logits(
        "x",
        {"mask": batch["mask"], "states": states},
        training=False,
        prefix=prefix,
    )
    live = network.logits("x", batch, training=False)
    np.testing.assert_allclose(above, live, atol=1e-5)


@pytest.mark.parametrize("task, name", ALL)
def test_every_weight_of_a_head_belongs_to_it(encoder, task, name):
    network = network_of(encoder, task, name)
    head = freezing.parts(network)[-1]
    assert head.name == "head x"
    trainable = freezing.parse("0", "", len(encoder.blocks))
    moving = freezing.freeze(network, trainable)
    own = {id(weight) for weight in network.heads["x"].weights}
    assert {id(weight) for weight in head.weights} == own
    assert own <= {id(weight) for weight in moving}
