"""Each method computes its equations: outputs and gradients against NumPy."""

import keras_hub
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tf_transfer.models import keras_private
from tf_transfer.models.blocks import bert
from tf_transfer.models.methods import added as added_lib, base_method
from tf_transfer.models.methods.lora import LoRA

HIDDEN, INNER, HEADS = 16, 24, 4
WIDTHS = dict.fromkeys(base_method.DENSE, (HIDDEN, HIDDEN)) | {
    "inner": (HIDDEN, INNER),
    "outer": (INNER, HIDDEN),
}
METHODS = (
    LoRA(rank=3, alpha=5.0),
    LoRA(rank=2, alpha=4.0, targets="all"),
)
IDS = ("lora", "lora_all")


each_method = pytest.mark.parametrize("method", METHODS, ids=IDS)


def built(precision="float64"):
    """A block whose every weight differs from its usual start."""
    block = keras_hub.layers.TransformerEncoder(
        intermediate_dim=INNER,
        num_heads=HEADS,
        dropout=0.0,
        activation="gelu",
        layer_norm_epsilon=1e-12,
        dtype=precision,
    )
    block.build((None, None, HIDDEN))
    randomise(block.weights, 3)
    return block


def randomise(weights, seed):
    rng = np.random.default_rng(seed)
    for weight in weights:
        usual = float(weight.name.endswith("gamma"))
        weight.assign(usual + rng.normal(scale=0.3, size=weight.shape))


def added_to(method):
    """What a method adds, away from where it starts."""
    one = added_lib.AddedWeights(method, WIDTHS, 1, 0)
    randomise(one.weights, 7)
    return one


def inputs(dtype="float64"):
    x = np.random.default_rng(4).normal(size=(3, 7, HIDDEN))
    mask = np.arange(7)[None] < np.array([[7], [3], [1]])
    return tf.constant(x, dtype), tf.constant(mask)


# === The same in NumPy ===


def gelu(x):
    return x * scipy.special.ndtr(x)


def normalise(layer, x):
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    x = (x - mean) / np.sqrt(variance + layer.epsilon)
    return x * np.asarray(layer.gamma) + np.asarray(layer.beta)


def reference(block, method, w, x, mask):
    """The block's output; `w` are the added weights by name."""
    layers = keras_private.block_layers(block)

    def dense(name, x):
        kernel, bias = getattr(layers, name).get_weights()
        y = x @ kernel.reshape(WIDTHS[name]) + bias.reshape(-1)
        if f"{name}_a" in w:
            scale = method.alpha / method.rank
            y += scale * x @ w[f"{name}_a"] @ w[f"{name}_b"]
        return y

    def split(y):
        return y.reshape(*y.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

    query, key, value = (split(dense(n, x)) for n in ("query", "key", "value"))
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(HIDDEN // HEADS)
    scores = np.where(mask[:, None, None], scores, -1e30)
    mixed = scipy.special.softmax(scores, axis=-1) @ value
    mixed = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
    y = dense("attention_output", mixed)
    y = normalise(layers.attention_norm, x + y)
    z = dense("outer", gelu(dense("inner", y)))
    return normalise(layers.feedforward_norm, y + z)


def values(one):
    return {n: w.numpy().astype(np.float64) for n, w in one.by_name.items()}


# === Tests ===


@each_method
def test_a_block_puts_out_what_the_equations_say(method):
    block, one = built(), added_to(method)
    x, mask = inputs()
    ours = bert.run(block, x, mask, False, added=one)
    theirs = reference(block, method, values(one), x.numpy(), mask.numpy())
    real = mask.numpy()
    # Keras' gelu has the root of two in float32.
    np.testing.assert_allclose(ours.numpy()[real], theirs[real], atol=1e-6)
    plain = bert.run(block, x, mask, False)
    assert np.abs(ours - plain).max() > 0.01  # the method did something


@each_method
def test_gradients_are_the_slopes_of_the_equations(method):
    block, one = built(), added_to(method)
    x, mask = inputs()
    rng = np.random.default_rng(5)
    wanted = rng.normal(size=x.shape) * mask.numpy()[:, :, None]
    weights = [weight.value for weight in one.weights]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        y = bert.run(block, x, mask, False, added=one)
        loss = tf.reduce_sum(y * wanted)
    gradients = tape.gradient(loss, weights)
    start = values(one)

    def loss_of(w):
        y = reference(block, method, w, x.numpy(), mask.numpy())
        return (y * wanted)[mask.numpy()].sum()

    for name, gradient in zip(one.by_name, gradients, strict=True):
        towards = rng.normal(size=gradient.shape)
        slope = sum(
            sign * loss_of({**start, name: start[name] + sign * 1e-6 * towards})
            for sign in (1, -1)
        )
        ours = float((gradient.numpy() * towards).sum())
        assert ours == pytest.approx(slope / 2e-6, rel=1e-4, abs=1e-4), name


@each_method
def test_cls_alone_is_that_of_the_whole_block(method):
    block, one = built(), added_to(method)
    x, mask = inputs()
    whole = bert.run(block, x, mask, False, added=one)[:, :1]
    alone = bert.run(block, x, mask, False, cls_only=True, added=one)
    np.testing.assert_allclose(alone, whole, rtol=1e-12)


@pytest.mark.parametrize("cls_only", [False, True])
@each_method
def test_half_precision_is_near_and_its_gradients_are_float32(method, cls_only):
    precision, tolerance = "mixed_bfloat16", 0.15
    one = added_to(method)
    x, mask = inputs("float32")
    exact = bert.run(built("float32"), x, mask, False, cls_only, one)
    weights = [weight.value for weight in one.weights]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        x = tf.cast(x, "bfloat16")
        half = bert.run(built(precision), x, mask, False, cls_only, one)
        loss = tf.reduce_sum(tf.cast(half, tf.float32) ** 2)
    assert half.dtype.size == 2
    real = mask.numpy()[:, : half.shape[1]]
    error = np.abs(tf.cast(half, tf.float32).numpy() - exact.numpy())[real]
    assert error.max() < tolerance
    for gradient in tape.gradient(loss, weights):
        assert gradient.dtype == tf.float32
        assert np.isfinite(gradient.numpy()).all()


@each_method
def test_nothing_changes_before_the_first_step(method):
    block = built()
    x, mask = inputs()
    one = added_lib.AddedWeights(method, WIDTHS, 1, 0)
    plain = bert.run(block, x, mask, False).numpy()
    new = bert.run(block, x, mask, False, added=one).numpy()
    assert np.abs(new - plain).max() < 1e-12


def test_initial_weights_follow_from_seed_and_block():
    def drawn(number, seed):
        one = added_lib.AddedWeights(METHODS[0], WIDTHS, number, seed)
        return one.by_name["query_a"].numpy()

    np.testing.assert_array_equal(drawn(1, 0), drawn(1, 0))
    assert np.abs(drawn(1, 0) - drawn(2, 0)).max() > 0.01
    assert np.abs(drawn(1, 0) - drawn(1, 1)).max() > 0.01
    assert np.abs(drawn(1, 0)).max() <= HIDDEN**-0.5
