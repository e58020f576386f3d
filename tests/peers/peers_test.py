"""The others train what ours trains."""

import dataclasses

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tf_transfer import text_task
from tf_transfer.data import sources
from tf_transfer.data import tasks
from tf_transfer.models import cost
from tf_transfer.models import freezing
from tf_transfer.models import loading
from tf_transfer.training import strategy


def prepared(layers):
    """Settings, our network, its phase, and an encoder for the other."""
    settings = tiny_settings(
        "runs", trainable_layers=layers, max_train_examples=16
    )
    task = tasks.GLUE["rte"]
    network, [phase], _ = text_task.prepare(
        settings,
        task,
        sources.Source(task, "sample", ""),
        strategy.Devices(strategy.tf.distribute.get_strategy()),
    )
    return settings, network, phase, loading.load("tiny", "", 0.1)


@pytest.mark.parametrize("layers", ["0", "2", "all"])
def test_keras_nlp_s_classifier_trains_what_ours_does(layers):
    from tf_transfer.peers import keras_fit

    settings, network, phase, encoder = prepared(layers)
    classifier = keras_fit.build(encoder, phase.trainable, 2, settings)
    head = {id(w) for w in classifier.get_layer("logits").weights}
    theirs = {
        weight.path
        for weight in classifier.trainable_weights
        if id(weight) not in head
    }
    ours = freezing.freeze(network, phase.trainable)
    head = {weight.path for weight in network.heads["rte"].weights}
    assert theirs == {weight.path for weight in ours} - head


def plan_of(part, size=4):
    from tf_transfer.data import batches

    return batches.plan_epoch(
        part.tokens.lengths, size, "grouped", 0, 1, 1, (16, 32)
    )


def test_keras_nlp_s_epoch_moves_what_trains():
    from tf_transfer.peers import keras_fit

    settings, _, phase, encoder = prepared("1")
    part = phase.objectives[0].train
    classifier = keras_fit.build(encoder, phase.trainable, 2, settings)
    before = [np.array(w) for w in encoder.backbone.weights]
    keras_fit.epoch_of(classifier, encoder, part, plan_of(part), 32)()
    moved = [
        (np.array(w) != b).any()
        for w, b in zip(encoder.backbone.weights, before)
    ]
    assert any(moved) and not all(moved)


@pytest.mark.parametrize("layers", ["0", "2", "all"])
def test_hugging_face_trains_as_many_parameters_as_ours(layers):
    pytest.importorskip("torch")
    from tf_transfer.peers import hugging_face

    settings, network, phase, encoder = prepared(layers)
    model, _ = hugging_face.build(encoder, phase.trainable, 2, settings)
    theirs = sum(p.numel() for p in model.parameters() if p.requires_grad)
    ours = sum(
        part.parameters
        for part in freezing.parts(network)
        if phase.trainable.includes(part.name)
    )
    # Ours has one output for a yes or no, theirs two.
    assert theirs == ours + network.encoder.hidden + 1


def test_hugging_face_s_epoch_moves_what_trains():
    torch = pytest.importorskip("torch")
    from tf_transfer.peers import hugging_face

    settings, _, phase, encoder = prepared("1")
    part = phase.objectives[0].train
    model, optimizer = hugging_face.build(encoder, phase.trainable, 2, settings)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    hugging_face.epoch_of(
        model, optimizer, encoder, part, plan_of(part), settings
    )()
    for name, parameter in model.named_parameters():
        moved = not torch.equal(parameter.detach(), before[name])
        assert moved == parameter.requires_grad, name


# === Operations ===

SHAPE = cost.Shape(blocks=3, hidden=8, heads=2, inner=32)


def by_hand(texts, length):
    """Forward operations of one whole block, product by product."""
    tokens = texts * length
    products = [(tokens, 8, 8)] * 4 + [(tokens, 8, 32), (tokens, 32, 8)]
    scores = 2 * texts * 2 * (length * 4 * length) * 2
    return sum(2 * a * b * c for a, b, c in products) + scores


def test_a_block_s_operations_are_those_of_its_products():
    assert sum(cost.block_operations(SHAPE, 5, 7)) == by_hand(5, 7)
    # One text of one token is all [CLS].
    assert cost.block_operations(SHAPE, 5, 1, True) == cost.block_operations(
        SHAPE, 5, 1
    )


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
def test_what_trains_counts_three_times_and_the_lowest_a_little_less(
    trainable, forwards, least
):
    from tf_transfer.data.batches import Plan

    plan = Plan(np.zeros((2, 4), int), np.array([4, 3]), np.array([16, 32]))
    found = cost.epoch_operations(SHAPE, plan, trainable, False, False)
    whole = by_hand(4, 16) + by_hand(4, 32)
    spared = 3 * 2 * 8 * 8 * 4 * (16 + 32) * least
    assert found == forwards * whole - spared
    frozen = trainable.cut * whole
    cached = cost.epoch_operations(SHAPE, plan, trainable, False, True)
    assert cached == found - frozen


def test_a_measured_encoder_has_its_own_shape():
    encoder = loading.random_like(loading.load("tiny", "", 0.1), 4, 128, 0.1)
    assert dataclasses.astuple(cost.Shape.of(encoder)) == (4, 128, 2, 512)
    assert encoder.tokenize(["the dog"])[0].size
