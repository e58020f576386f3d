"""What every head of the registry does, whichever it is."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.stacking.heads import reference
from tf_transfer.models import keras_private
from tf_transfer.models.dropout import DropoutSeeds
from tf_transfer.stacking import heads

HIDDEN = reference.HIDDEN
ALL = [(task, name) for task, row in heads.HEADS.items() for name in row]
TOKENS = [(t, name) for t, name in ALL if t == "ner" or name != "dense"]
REPRESENTATIVE = ("ner", "bilstm")  # of all of them, where all are slow
SMALL = {
    "bilstm": {"lstm_units": 4},
    "densenet": {"growth": 4},
    "highway": {"lstm_units": 4},
    "bimpm": {"context_units": 5, "aggregation_units": 16},
    "bimpm_without_context": {"aggregation_units": 16},
    "sim_transformer": {"context_units": 5, "transformer_units": 16},
}
every_head = pytest.mark.parametrize("task, name", ALL)
every_token_head = pytest.mark.parametrize("task, name", TOKENS)


def in_precisions(cases, *quick, slow=()):
    """Parametrises by task, name and policy of a head.

    Args:
        cases: pairs of task and name.
        *quick: policies in which every head is quick.
        slow: policies in which all but the representative head are slow.
    """
    return pytest.mark.parametrize(
        "task, name, dtype",
        [
            pytest.param(
                *case,
                dtype,
                marks=()
                if dtype in quick or case == REPRESENTATIVE
                else pytest.mark.slow,
            )
            for case, dtype in itertools.product(cases, (*quick, *slow))
        ],
    )


def build(task, name, **kwargs):
    return reference.build_head(task, name, **SMALL.get(name, {}), **kwargs)


def inputs_of(head, padding=0, fill=100.0):
    """What the head is called with."""
    states, mask = reference.inputs(padding, fill=fill)
    arrays = (states[:, 0],) if head.pooling == "cls" else (states, mask)
    return [tf.constant(array) for array in arrays]


def real(head, logits, padding=0):
    """The logits that count: those of texts, pairs, or tokens of texts."""
    logits = np.asarray(logits)
    return logits[reference.inputs(padding)[1]] if logits.ndim == 3 else logits


def loss_and_gradients(head, states, mask=None):
    """Of a loss on what counts, as the training loop asks for them."""
    values = [weight.value for weight in head.weights]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([states, *values])
        logits = head(*[a for a in (states, mask) if a is not None])
        losses = tf.square(logits - 1.0)
        if logits.shape.rank == 3:
            losses *= tf.cast(mask, tf.float32)[:, :, None]
        loss = tf.reduce_sum(losses)
    return [loss, *tape.gradient(loss, [states, *values])]


def relative_difference(array, expected):
    """Norm of the difference, relative to the norm of `expected`."""
    array, expected = (np.asarray(a, np.float64) for a in (array, expected))
    return np.linalg.norm(array - expected) / max(np.linalg.norm(expected), 0.1)


# === Outputs ===


@every_head
def test_logits_are_float32_and_one_row_an_example(task, name):
    head = build(task, name, units=3)
    logits = head(*inputs_of(head))
    assert logits.dtype == tf.float32
    tokens = [max(reference.LENGTHS)] if task == "ner" else []
    examples = len(reference.LENGTHS) // head.texts_per_example
    assert logits.shape == [examples, *tokens, 3]


@in_precisions(TOKENS, "float32", slow=["mixed_bfloat16"])
def test_padding_never_changes_the_logits(task, name, dtype):
    head = build(task, name, dtype=dtype)
    expected = real(head, head(*inputs_of(head)))
    logits = real(head, head(*inputs_of(head, 9, -3.0)), 9)
    if dtype == "float32":
        np.testing.assert_allclose(logits, expected, atol=1e-5)
    # A product of another length may sum in another order, which bfloat16's 8
    # bits show. Padding that is seen changes the logits by more than half.
    assert relative_difference(logits, expected) < 0.05


@every_token_head
def test_other_examples_never_change_the_logits(task, name):
    head = build(task, name)
    states, mask = inputs_of(head)
    together = head(states, mask).numpy()
    row = 2 % len(together)  # a text of one token, or a pair with one
    rows = slice(row, None, len(together))
    alone = head(states[rows], mask[rows])
    np.testing.assert_allclose(alone[0], together[row], atol=1e-5)


@in_precisions(ALL, slow=["mixed_bfloat16"])
def test_half_precision_gives_float32_logits_that_come_close(task, name, dtype):
    precise, coarse = (build(task, name, dtype=d) for d in ("float32", dtype))
    expected = real(precise, precise(*inputs_of(precise)))
    logits = coarse(*inputs_of(coarse))
    assert logits.dtype == tf.float32
    assert 0 < relative_difference(real(coarse, logits), expected) < 0.1
    assert {weight.dtype for weight in coarse.weights} == {"float32"}


# === Gradients ===


@in_precisions(ALL, "float32", slow=["mixed_bfloat16"])
def test_all_but_padding_has_a_finite_gradient(task, name, dtype):
    head = build(task, name, dtype=dtype)
    inputs = inputs_of(head, padding=2)
    loss, states, *gradients = loss_and_gradients(head, *inputs)
    assert np.isfinite(loss)
    for weight, gradient in zip(head.weights, gradients, strict=True):
        assert np.isfinite(gradient).all(), weight.path
        if not weight.path.endswith("key/bias"):  # a softmax cancels it
            assert np.abs(gradient).max() > 0, weight.path
    assert np.isfinite(states).all()
    if head.pooling == "tokens":
        mask = inputs[1].numpy()
        largest = np.abs(states).max(axis=2)
        assert not largest[~mask].any()
        assert (largest[mask] > 0).all() or name == "densenet"


@pytest.mark.slow
@every_head
def test_xla_compiles_it_with_open_lengths(task, name):
    check_xla(task, name, "float32")


@pytest.mark.slow
@pytest.mark.parametrize(
    "task, name", [("ner", "bilstm"), ("pairs", "bimpm_without_context")]
)
def test_xla_compiles_half_precision(task, name):
    """It rounds elsewhere, and may see other maxima."""
    check_xla(task, name, "mixed_bfloat16")


def check_xla(task, name, dtype):
    head = build(task, name, dtype=dtype, jit_compile=True)
    specs = [tf.TensorSpec([None, HIDDEN])]
    if head.pooling == "tokens":
        specs = [
            tf.TensorSpec([None, None, HIDDEN]),
            tf.TensorSpec([None, None], tf.bool),
        ]
    compiled = tf.function(
        lambda *arguments: loss_and_gradients(head, *arguments),
        input_signature=specs,
        jit_compile=True,
    )
    arguments = inputs_of(head, padding=2)
    plain = loss_and_gradients(head, *arguments)
    differences = [
        relative_difference(array, expected)
        for array, expected in zip(compiled(*arguments), plain, strict=True)
    ]
    assert differences[0] < 0.05 and np.median(differences) < 0.3
    assert dtype != "float32" or np.max(differences) < 1e-3


# === Dropout ===

# The states and the layers that dropout follows: of a transformer block, its
# attention weights and both its sums.
DROPOUTS = {
    "dense": 2,
    "bilstm": 2,
    "densenet": 17,
    "highway": 2,
    "bimpm": 5,
    "bimpm_without_context": 4,
    "sim_transformer": 9,
}


@every_head
def test_dropout_masks_follow_from_the_seed_of_the_step(task, name):
    head = build(task, name, dropout=0.5)
    seeds = DropoutSeeds([head])

    def logits(step):
        with seeds.at(tf.identity(seeds.seed), tf.constant(step, tf.int64), 0):
            return real(head, head(*inputs_of(head), training=True))

    inference = real(head, head(*inputs_of(head)))  # no mask: no error
    first, again, other = logits(1), logits(1), logits(2)
    np.testing.assert_array_equal(first, again)
    for different in (inference, other):
        assert np.abs(first - different).max() > 1e-3
    assert seeds._count == DROPOUTS.get(name, seeds._count)


def test_no_two_phases_or_objectives_share_a_mask():
    """Keras takes both words of a seed modulo 2^31 - 2."""
    seeds = DropoutSeeds([])
    drawn = []
    for phase, objective in itertools.product(range(3), range(3)):
        seeds.phase = phase
        for step in (0, 1, 1024, 65536):
            step = tf.constant(step, tf.int64)
            with seeds.at(tf.identity(seeds.seed), step, 0, objective):
                words = (seeds._next(), seeds._next())
            assert {word.dtype for word in words} == {tf.int32}
            drawn += [tuple(word.numpy()) for word in words]
    assert len(set(drawn)) == len(drawn) == 3 * 3 * 4 * 2


def test_seeds_are_computed_on_the_host():
    """Where TensorFlow's dropout reads them, on a GPU, too."""
    seeds = DropoutSeeds([])

    @tf.function
    def draw(seed, step):
        with seeds.at(seed, step, tf.constant(0)):
            return seeds._next()

    scalar = tf.TensorSpec([], tf.int64)
    graph = draw.get_concrete_function(scalar, scalar).graph
    computed = [
        operation
        for operation in graph.get_operations()
        if operation.type in ("Mul", "AddV2", "Pack", "FloorMod", "Cast")
    ]
    assert len(computed) > 5
    assert all("CPU:0" in operation.device for operation in computed)


@every_head
def test_every_dropout_layer_has_the_rate(task, name):
    layers = [
        layer
        for layer in keras_private.flatten(build(task, name, dropout=0.25))
        if isinstance(layer, keras.layers.Dropout)
    ]
    assert layers and {layer.rate for layer in layers} == {0.25}


# === Initial weights ===


def build_untouched(task, name, hidden, seed, **sizes):
    return heads.load(task, name)(
        3, hidden, 0.1, seed, "float32", name="head", **sizes
    )


def kernels(head):
    return [w for w in head.weights if w.path.endswith("kernel")]


@every_head
def test_weights_depend_on_the_seed_alone(task, name):
    one, same, other = (
        build_untouched(task, name, 8, seed, **SMALL.get(name, {}))
        for seed in (5, 5, 6)
    )
    for a, b, c in zip(one.weights, same.weights, other.weights, strict=True):
        assert a.path == b.path == c.path
        np.testing.assert_array_equal(a, b)
    for a, c in zip(kernels(one), kernels(other), strict=True):
        assert np.abs(a.numpy() - c.numpy()).max() > 0.01


@every_head
def test_kernels_have_the_variance_of_kaiming_and_differ(task, name):
    head = build_untouched(task, name, 64, 0)
    starts = set()
    for weight in kernels(head):
        inputs = np.prod(weight.shape[:-1])
        if weight.shape[1:] == (4, 64):  # query, key and value, by heads
            inputs = weight.shape[0]
        array = weight.numpy()
        error = array.std() / np.sqrt(2 / inputs) - 1
        assert abs(error) < 4 / np.sqrt(array.size), weight.path
        starts.add(array.ravel()[:8].tobytes())
    assert len(starts) == len(kernels(head))


@every_head
def test_every_weight_has_a_path_of_its_own_below_the_heads_name(task, name):
    paths = [weight.path for weight in build(task, name).weights]
    assert len(set(paths)) == len(paths)
    assert all(path.startswith("head/") for path in paths)
