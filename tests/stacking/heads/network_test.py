"""Heads on an encoder: live and above a prefix."""

import numpy as np
import pytest

from tests.models import encoders
from tests.stacking.heads.heads_test import ALL, SMALL
from tf_transfer.models import (
    freezing,
    network as network_lib,
    prefix as prefix_lib,
)
from tf_transfer.stacking import heads

# One head for each of what a head may read: tokens, [CLS], two texts.
KINDS = [("ner", "dense"), ("text", "dense"), ("pairs", "sim_transformer")]


@pytest.fixture(scope="module")
def encoder():
    return encoders.bert()


def build_network(encoder, task, name):
    head = heads.load(task, name)(
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
    """Four texts: of two pairs, the second ones last; or packed pairs."""
    texts = encoders.PAIRS
    if network.heads["x"].texts_per_example == 2:
        texts = [texts[0][:2] + texts[1][:2]]
    return encoders.batch_of(encoder, texts)


@pytest.mark.slow  # traces and saves a model
@pytest.mark.parametrize("task, name", KINDS)
def test_a_head_reads_the_encoders_output(encoder, task, name):
    network = build_network(encoder, task, name)
    batch, head = batch_of(encoder, network), network.heads["x"]
    states = encoder(
        batch["ids"], batch["segments"], batch["mask"], training=False
    )
    if head.pooling == "tokens":
        expected = head(states, batch["mask"])
    else:
        expected = head(encoder.pooler(states[:, 0]))
    assert len(expected) == 4 // head.texts_per_example
    assert network.uses_pooler == (head.pooling == "cls")
    live = network.logits("x", batch, training=False)
    np.testing.assert_allclose(live, expected, atol=1e-5)

    for last in ("0", "1"):
        trainable = freezing.parse(last, "", len(encoder.blocks))
        prefix = network.prefix("x", trainable, "float32")
        states = prefix_lib.run(encoder, batch, [prefix])[0]
        reads_tokens = head.pooling == "tokens" or last == "1"
        assert states.shape.rank == (3 if reads_tokens else 2)
        above = network.logits(
            "x",
            {"mask": batch["mask"], "states": states},
            training=False,
            prefix=prefix,
        )
        np.testing.assert_allclose(above, live, atol=1e-5)


def test_cls_is_read_with_and_without_the_pooler(encoder):
    head = heads.load("text", "dense")(
        2,
        encoder.hidden,
        0.1,
        0,
        "float32",
        pooling="cls_state",
        name="head_x",
    )
    network = network_lib.Network(encoder, {"x": head})
    assert not network.uses_pooler
    assert encoder.pooler not in network.layers
    batch = batch_of(encoder, network)
    states = encoder(
        batch["ids"], batch["segments"], batch["mask"], training=False
    )
    live = network.logits("x", batch, training=False)
    np.testing.assert_allclose(live, head(states[:, 0]), atol=1e-5)
    whole = freezing.parse("0", "", len(encoder.blocks))
    prefix = network.prefix("x", whole, "float32")
    above = {
        "mask": batch["mask"],
        "states": prefix_lib.run(encoder, batch, [prefix])[0],
    }
    np.testing.assert_allclose(
        network.logits("x", above, training=False, prefix=prefix),
        live,
        atol=1e-5,
    )


@pytest.mark.parametrize("task, name", ALL)
def test_every_weight_of_a_head_belongs_to_it(encoder, task, name):
    network = build_network(encoder, task, name)
    head = freezing.components(network)[-1]
    assert head.name == "head x"
    trainable = freezing.parse("0", "", len(encoder.blocks))
    moving = freezing.freeze(network, trainable)
    weights = {id(weight) for weight in network.heads["x"].weights}
    assert {id(weight) for weight in head.weights} == weights
    assert weights <= {id(weight) for weight in moving}
