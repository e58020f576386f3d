"""BERT's Adam against its equations, written out in NumPy."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import encoders
from tests.training.adam import (
    adam_in_numpy,
    apply,
    build,
    draw,
    PEAK,
    SHAPES,
    update_once,
    values,
)
from tf_transfer.models import freezing, network as network_lib
from tf_transfer.models.heads import pooled
from tf_transfer.training import optimizer

# === The update ===


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"bias_correction": True},
        {"weight_decay": 0.0},
        {"weight_decay": 0.5, "bias_correction": True},
        {"clip_norm": 0.0},
        {"clip_norm": 0.01, "adam_epsilon": 1e-2},
        {"adam_epsilon": 0.1, "clip_norm": 0.0},
        {"adam_beta1": 0.5, "adam_beta2": 0.6, "bias_correction": True},
    ],
    ids=str,
)
def test_the_update_follows_the_equations(changes):
    gradients = [draw(seed, 10.0 ** (seed - 3)) for seed in (1, 2, 3, 4)]
    adam = build(**changes)
    for step in gradients:
        apply(adam, step)
    expected = adam_in_numpy(gradients, adam.options)
    for found, wanted in zip(values(adam.weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("corrects", [False, True])
def test_every_weight_may_have_a_rate_of_its_own(corrects):
    """Its moments are Adam's own: a scaled gradient would change nothing."""
    gradients = [draw(seed) for seed in (1, 2, 3)]
    scales = [0.95**3, 1.0, 0.5, 0.0]
    changes = {"bias_correction": corrects, "clip_norm": 0.0}
    adam = build(scales=scales, **changes)
    for step in gradients:
        apply(adam, step)
    expected = adam_in_numpy(gradients, adam.options, scales)
    for found, wanted in zip(values(adam.weights), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    plain = build(**changes)
    for step in gradients:
        apply(plain, step)
    for mine, theirs in zip(adam.means, plain.means):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(adam.weights[3], draw(0)[3])


def test_a_traced_update_is_the_eager_one():
    eager, traced = build(clip_norm=0.5), build(clip_norm=0.5)
    update = tf.function(functools.partial(update_once, traced))
    for step in (draw(1), draw(2)):
        apply(eager, step)
        tf.distribute.get_strategy().run(
            update, args=([tf.constant(g) for g in step],)
        )
    for one, other in zip(
        values(eager.state().values()), traced.state().values()
    ):
        np.testing.assert_allclose(one, np.array(other), rtol=1e-6)


def test_a_weight_that_is_scaled_keeps_its_place_among_groups():
    """Each weight has its own scale, group and moments."""
    gradients = draw(1)
    options = {"clip_norm": 0.0, "weight_decay": 0.0}
    weights = [
        keras.Variable(value, name=name) for name, value in zip(SHAPES, draw(0))
    ]
    adam = optimizer.BertAdam(
        weights,
        lambda step: PEAK,
        optimizer.AdamOptions(**options),
        [1.0, 0.5, 1.0, 1.0],
        ["a", "b", "b", "c"],
    )
    apply(adam, gradients, ("b", "unknown"))
    expected = adam_in_numpy([gradients], adam.options, [1, 0.5, 1, 1])
    found = values(adam.weights)
    for index in (1, 2):
        np.testing.assert_allclose(found[index], expected[index], rtol=2e-5)
    for index in (0, 3):
        np.testing.assert_array_equal(found[index], draw(0)[index])
    counts = {group: int(n) for group, n in adam.updates.items()}
    assert counts == {"": 0, "a": 0, "b": 1, "c": 0}


def test_the_defaults_are_those_of_bert():
    options = optimizer.AdamOptions()
    assert dataclasses.astuple(options) == (
        *(0.9, 0.999, 1e-6, 0.01),
        *(False, 1.0, "still"),
    )


def test_a_reset_optimizer_is_a_new_one():
    adam, new = build(weight_decay=0.5), build(weight_decay=0.25)
    apply(adam, draw(1))
    for weight, value in zip(adam.weights, draw(0)):
        weight.assign(value)
    adam.reset(0.25)
    assert all(not np.any(value) for value in values(adam.state().values()))
    for step in (draw(2), draw(3)):
        apply(adam, step)
        apply(new, step)
    for one, other in zip(values(adam.weights), values(new.weights)):
        np.testing.assert_array_equal(one, other)


def test_every_weight_needs_a_gradient():
    with pytest.raises(ValueError, match="shorter"):
        apply(build(), draw(1)[:-1])


def test_the_state_has_every_variable_by_its_name():
    weights = [
        keras.Variable(value, name=name) for name, value in zip(SHAPES, draw(0))
    ]
    adam = optimizer.BertAdam(
        weights,
        lambda step: PEAK,
        optimizer.AdamOptions(),
        groups=["", "head", "head", ""],
    )
    apply(adam, draw(1))
    state = adam.state()
    assert {*state} == {
        "optimizer/step",
        "optimizer/updates",
        "optimizer/updates/head",
        *(f"{slot}/{weight.path}" for slot in "mv" for weight in weights),
    }
    assert state["optimizer/step"].dtype == tf.int64
    for index, weight in enumerate(weights):
        np.testing.assert_array_equal(
            state[f"m/{weight.path}"], adam.means[index]
        )
        np.testing.assert_array_equal(
            state[f"v/{weight.path}"], adam.squares[index]
        )


def test_nothing_of_the_optimizer_is_trained():
    adam = build()
    rate = optimizer.LearningRate("constant", False)
    for variable in (*adam.state().values(), adam.decay, rate.numbers):
        assert not variable.trainable
    # On the host, where the step reads them.
    for variable in (adam.step, adam.decay, rate.numbers):
        assert "CPU:0" in variable.device
        assert variable.aggregation == tf.VariableAggregation.ONLY_FIRST_REPLICA


@pytest.mark.parametrize(
    "path, expected",
    [
        ("transformer_layer_0/query/kernel", True),
        ("token_embedding/embeddings", True),
        ("position_embedding/position_embeddings", True),
        ("transformer_layer_0/query/bias", False),
        ("embeddings_layer_norm/gamma", False),
        ("embeddings_layer_norm/beta", False),
        ("beta_model/kernel", True),
    ],
)
def test_weights_are_known_by_the_last_part_of_their_path(path, expected):
    class Weight:
        pass

    weight = Weight()
    weight.path = path
    assert optimizer.decays(weight) == expected


def test_all_of_bert_but_norms_and_biases_decays():
    backbone = encoders.bert().backbone
    spared = [w for w in backbone.weights if not optimizer.decays(w)]
    assert all(len(w.shape) == 1 or "bias" in w.path for w in spared)
    # a block: 6 dense biases, 2 norms; embeddings: 1 norm; pooler: 1 bias
    assert len(spared) == 3 * (6 + 2 * 2) + 2 + 1


def test_the_gradient_is_clipped_by_its_norm_over_all_weights():
    large = draw(1, 50.0)
    norm = np.sqrt(sum(np.sum(g**2) for g in large))
    clipped, same = build(clip_norm=1.0), build(clip_norm=0.0)
    assert apply(clipped, large) == pytest.approx(norm, rel=1e-5)
    apply(same, [g / norm for g in large])
    for one, other in zip(
        values(clipped.squares), values(same.squares), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_the_rate_is_that_of_the_step_counted_from_0():
    seen = []
    adam = build(rate=lambda step: seen.append(int(step)) or PEAK)
    for _ in range(3):
        update_once(adam, [tf.constant(g) for g in draw(1)])
    assert seen == [0, 1, 2]
    assert (int(adam.step), int(adam.updates[""])) == (3, 3)


# === The learning rate ===


@pytest.mark.parametrize(
    "schedule, warmup, expected",
    [
        ("constant", 0.0, {0: 1, 50: 1, 99: 1, 100: 1}),
        ("constant", 0.1, {0: 0, 5: 0.5, 9: 0.9, 10: 1, 99: 1}),
        ("linear", 0.0, {0: 1, 25: 0.75, 99: 0.01, 100: 0, 150: 0}),
        ("linear", 0.1, {0: 0, 5: 0.5, 10: 0.9, 50: 0.5, 100: 0}),
    ],
)
def test_the_learning_rate_follows_its_schedule(schedule, warmup, expected):
    rate = optimizer.LearningRate(schedule, warmup > 0)
    rate.numbers.assign([2e-5, 100, int(100 * warmup)])
    for step, part in expected.items():
        assert float(rate(tf.constant(step, tf.int64))) == pytest.approx(
            2e-5 * part, rel=1e-5, abs=1e-12
        )


# === What is frozen is not in here ===


@pytest.mark.parametrize("layers", ["0", "1", "all"])
def test_a_frozen_weight_has_no_slot(layers):
    encoder = encoders.bert()
    head = pooled.PooledHead(1, encoder.hidden, "cls", 0.1, 0, "float32")
    network = network_lib.Network(encoder, {"rte": head})
    trainable = freezing.parse(layers, "", len(encoder.blocks))
    weights = freezing.freeze(network, trainable)
    adam = optimizer.BertAdam(weights, None, optimizer.AdamOptions())
    slots = {name for name in adam.state() if name[:2] in ("m/", "v/")}
    assert slots == {f"{s}/{weight.path}" for s in "mv" for weight in weights}
    # step and updates
    assert len(adam.state()) == 2 + 2 * len(weights)
    assert len(adam.means) == len(adam.squares) == len(weights)
    for weight in network.weights:
        assert weight.trainable == (f"m/{weight.path}" in slots)


def test_the_numbers_of_an_update_are_those_of_the_step():
    adam = build(rate=lambda step: 0.5 * (1 + tf.cast(step, tf.float32)))
    for step in range(3):
        numbers = adam.read_numbers()
        assert int(numbers["step"]) == step
        assert float(numbers["rate"]) == 0.5 * (1 + step)
        apply(adam, draw(1))
