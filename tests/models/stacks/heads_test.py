"""What every head does, whichever it is."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models.stacks import reference
from tf_transfer.models import heads
from tf_transfer.models.heads import names
from tf_transfer.training.dropout import DropoutSeeds
from tf_transfer.utils.errors import UserError

HIDDEN = reference.HIDDEN
HEADS = names.HEADS
ALL = [(task, name) for task, heads in HEADS.items() for name in heads]
TOKENS = [(t, name) for t, name in ALL if t == "ner" or name != "dense"]
SMALL = {
    "bilstm": {"lstm_units": 4},
    "densenet": {"growth": 4},
    "highway": {"lstm_units": 4},
    "bimpm": {"context_units": 5, "aggregation": 16},
    "bimpm_without_context": {"aggregation": 16},
    "sim_transformer": {"context_units": 5, "aggregation": 16},
}
PRECISIONS = ["float32", "mixed_bfloat16"]
every_head = pytest.mark.parametrize("task, name", ALL)
every_token_head = pytest.mark.parametrize("task, name", TOKENS)


def build(task, name, **kwargs):
    return reference.head(task, name, **SMALL.get(name, {}), **kwargs)


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
        each = tf.square(logits - 1.0)
        if logits.shape.rank == 3:
            each *= tf.cast(mask, tf.float32)[:, :, None]
        loss = tf.reduce_sum(each)
    return [loss, *tape.gradient(loss, [states, *values])]


def away(one, other):
    """How far an array is from another, in lengths of the other."""
    one, other = (np.asarray(array, np.float64) for array in (one, other))
    return np.linalg.norm(one - other) / max(np.linalg.norm(other), 0.1)


# === Outputs ===


@every_head
def test_logits_are_float32_and_one_row_an_example(task, name):
    head = build(task, name, units=3)
    logits = head(*inputs_of(head))
    assert logits.dtype == tf.float32
    tokens = [max(reference.LENGTHS)] if task == "ner" else []
    examples = len(reference.LENGTHS) // head.sides
    assert logits.shape == [examples, *tokens, 3]


@every_token_head
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_padding_never_changes_the_logits(task, name, dtype):
    head = build(task, name, dtype=dtype)
    least = real(head, head(*inputs_of(head)))
    for padding, fill in [(0, -3.0), (9, 100.0)]:
        logits = real(head, head(*inputs_of(head, padding, fill)), padding)
        np.testing.assert_allclose(logits, least, atol=1e-5)


@every_token_head
def test_company_never_changes_the_logits(task, name):
    head = build(task, name)
    states, mask = inputs_of(head)
    together = head(states, mask).numpy()
    for row in range(len(together)):
        rows = slice(row, None, len(together))
        alone = head(states[rows], mask[rows])
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)


@every_head
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_gives_float32_logits_that_come_close(task, name, dtype):
    precise, coarse = (build(task, name, dtype=d) for d in ("float32", dtype))
    expected = real(precise, precise(*inputs_of(precise)))
    logits = coarse(*inputs_of(coarse))
    assert logits.dtype == tf.float32
    assert 0 < away(real(coarse, logits), expected) < 0.1
    assert {weight.dtype for weight in coarse.weights} == {"float32"}


# === Gradients ===


@every_head
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_every_weight_has_a_finite_gradient(task, name, dtype):
    head = build(task, name, dtype=dtype)
    loss, _, *found = loss_and_gradients(head, *inputs_of(head, padding=2))
    assert np.isfinite(loss)
    for weight, gradient in zip(head.weights, found, strict=True):
        assert np.isfinite(gradient).all(), weight.path
        if not weight.path.endswith("key/bias"):  # a softmax does not see it
            assert np.abs(gradient).max() > 0, weight.path


@every_token_head
def test_tokens_have_gradients_and_padding_has_none(task, name):
    head = build(task, name)
    states, mask = inputs_of(head, padding=2)
    found = np.abs(loss_and_gradients(head, states, mask)[1]).max(axis=2)
    assert np.isfinite(found).all()
    assert not found[~mask.numpy()].any()
    assert (found[mask.numpy()] > 0).all() or name == "densenet"


@every_head
@pytest.mark.parametrize(
    "dtype",
    ["float32", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)],
)
def test_xla_compiles_it_with_open_lengths(task, name, dtype):
    """Half precision rounds elsewhere there, and may see other maxima."""
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
    found = [away(*both) for both in zip(compiled(*arguments), plain)]
    assert found[0] < 0.05 and np.median(found) < 0.3
    assert dtype != "float32" or np.max(found) < 1e-3


# === Dropout ===

# Layers behind which dropout stands, and the states: of a transformer block,
# its weights of attention and both its sums.
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
def test_dropout_is_drawn_from_the_steps_seed(task, name):
    head = build(task, name, dropout=0.5)
    seeds = DropoutSeeds([head])

    def logits(seed, step):
        with seeds.at(seed, tf.constant(step, tf.int64), 0):
            return real(head, head(*inputs_of(head), training=True))

    quiet = real(head, head(*inputs_of(head)))  # draws nothing: no error
    once, again = logits(0, 1), logits(0, 1)
    np.testing.assert_array_equal(once, again)
    for other in (quiet, logits(0, 2), logits(1, 1)):
        assert np.abs(once - other).max() > 1e-3
    assert seeds._drawn == DROPOUTS[name]


@every_head
def test_every_dropout_layer_has_the_rate(task, name):
    head = build(task, name, dropout=0.25)
    layers = [
        layer
        for layer in head._flatten_layers()
        if isinstance(layer, keras.layers.Dropout)
    ]
    assert layers and {layer.rate for layer in layers} == {0.25}


# === Initial weights ===


def kernels(head):
    return [w for w in head.weights if w.path.endswith("kernel")]


@every_head
def test_weights_depend_on_the_seed_alone(task, name):
    one, same, other = (
        heads.build(task, name, 3, 8, 0.1, seed, "float32", name="head")
        for seed in (5, 5, 6)
    )
    for a, b, c in zip(one.weights, same.weights, other.weights, strict=True):
        assert a.path == b.path == c.path
        np.testing.assert_array_equal(a, b)
    for a, c in zip(kernels(one), kernels(other), strict=True):
        assert np.abs(a.numpy() - c.numpy()).max() > 0.01


@every_head
def test_kernels_have_the_variance_of_kaiming(task, name):
    head = heads.build(task, name, 3, 64, 0.1, 0, "float32")
    for weight in kernels(head):
        inputs = np.prod(weight.shape[:-1])
        if weight.shape[1:] == (4, 64):  # query, key and value, by heads
            inputs = weight.shape[0]
        error = weight.numpy().std() / np.sqrt(2 / inputs) - 1
        assert abs(error) < 4 / np.sqrt(weight.numpy().size), weight.path


@every_head
def test_no_kernel_is_a_copy_of_another(task, name):
    head = heads.build(task, name, 3, 8, 0.1, 0, "float32")
    firsts = [weight.numpy().ravel()[:8].tobytes() for weight in kernels(head)]
    assert len(set(firsts)) == len(firsts)


@every_head
def test_every_weight_has_a_path_of_its_own_below_the_heads_name(task, name):
    head = build(task, name)
    paths = [weight.path for weight in head.weights]
    assert len(set(paths)) == len(paths)
    assert all(path.startswith("head/") for path in paths)


# === Which head fits which task ===


@every_head
def test_the_table_knows_the_sides_before_anything_is_built(task, name):
    two = task == "pairs" and name != "dense"
    assert heads.LAYERS[name].sides == (2 if two else 1)
    assert build(task, name).sides == heads.LAYERS[name].sides


@pytest.mark.parametrize(
    "task, head, fits",
    [
        ("ner", "bimpm", "--task=pairs"),
        ("text", "bilstm", "--task=ner"),
        ("pairs", "densenet", "--task=text"),
    ],
)
def test_a_head_that_does_not_fit_the_task_is_refused(task, head, fits):
    with pytest.raises(UserError, match=f"--head={head}: fits {fits}") as error:
        heads.build(task, head, 1, 8, 0.1, 0, "float32")
    assert all(name in str(error.value) for name in HEADS[task])


def test_a_head_that_is_none_is_refused():
    with pytest.raises(UserError, match="--head=lstm: is no head.* dense, bil"):
        names.check("ner", "lstm")
