"""One transformer block of keras-nlp, computed from its weights.

    y = LayerNorm(x + attention(x))        LayerNorm(y + feedforward(y))

keras-nlp's own layers hold the weights, the dropout and the activation. The
arithmetic is ours. It spends fewer operations, which take most of the time at
batch size 1, and it can compute [CLS] alone, where the head of the last block
reads nothing else. Then there is one query q a text, and no token needs a key
or a value of its own. For a head with kernels W_k and W_v, states x of the
tokens and attention weights a:

    scores = q (x W_k + b_k)' = (q W_k') x' + q b_k'
    output = a (x W_v + b_v) = (a x) W_v + sum(a) b_v

The softmax cancels q b_k', which is the same for every token: the gradient of
b_k is zero. Dropout leaves weights whose sum is not 1, hence sum(a).

A method of training (`methods`) may add a product of thin matrices to each
dense layer: x W + b + scale x A B.
"""

import math
from collections.abc import Callable
from typing import Protocol

import keras
import tensorflow as tf

from tf_transfer.models import keras_private
from tf_transfer.models.activations import Activation, DIFFERENTIABLE
from tf_transfer.models.keras_private import BlockLayers
from tf_transfer.models.methods.base_method import LowRank

Differentiate = Callable[[tf.Tensor], tuple[tf.Tensor, ...]]


class Added(Protocol):
    """What a block asks of what was added; see `methods.added`."""

    def low_rank(self, name: str, dtype: tf.DType) -> LowRank | None: ...


def run(
    block: keras.layers.Layer,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    cls_only: bool = False,
    added: Added | None = None,
) -> tf.Tensor:
    """Computes a block's output.

    Args:
        block: `keras_hub.layers.TransformerEncoder`, built, that normalises
            after each sum, as BERT and RoBERTa do.
        x: float [batch, length, hidden]. Its dtype is that of the arithmetic.
        mask: bool [batch, length]. False on padding.
        training: whether dropout is active.
        cls_only: whether to compute the output of [CLS], the first token,
            alone.
        added: what a method adds to the block, or None.

    Returns:
        float [batch, length, hidden]; [batch, 1, hidden] with `cls_only`.
    """
    layers = keras_private.block_layers(block)
    queries = x[:, :1] if cls_only else x
    attention = _attention_of_cls if cls_only else _attention
    y = attention(layers, x, mask, training, added)
    if training:
        y = layers.attention_dropout(y, training=True)
    y = normalise(layers.attention_norm, queries + y, training)
    z = _dense(layers, "inner", y, added)
    z = _activate(layers.inner.activation, z, training)
    z = _dense(layers, "outer", z, added)
    if training:
        z = layers.feedforward_dropout(z, training=True)
    return normalise(layers.feedforward_norm, y + z, training)


def _attention(
    layers: BlockLayers,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    added: Added | None,
) -> tf.Tensor:
    """softmax(Q K' / sqrt(d)) V of every head, through the output layer."""
    query, key, value = (
        _split_heads(layers, _dense(layers, name, x, added))
        for name in ("query", "key", "value")
    )
    size = query.shape[-1]
    query *= tf.cast(1 / math.sqrt(size), query.dtype)
    scores = tf.matmul(query, key, transpose_b=True)
    weights = _attention_weights(
        layers, scores, mask[:, None, None, :], training
    )
    mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
    shape = tf.shape(x)
    mixed = tf.reshape(mixed, [shape[0], shape[1], mixed.shape[2] * size])
    return _dense(layers, "attention_output", mixed, added)


def _attention_of_cls(
    layers: BlockLayers,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    added: Added | None,
) -> tf.Tensor:
    """As `_attention`, at [CLS] alone, by the equations at the top."""
    heads, size = layers.query.kernel.shape[1:]
    query = _dense(layers, "query", x[:, :1], added)
    query *= tf.cast(1 / math.sqrt(size), query.dtype)
    # Heads first: each has a product of matrices over all texts.
    query = tf.transpose(tf.reshape(query, [-1, heads, size]), [1, 0, 2])
    query = tf.transpose(_query_states(layers, query, added), [1, 0, 2])
    scores = tf.matmul(query, x, transpose_b=True)
    weights = _attention_weights(layers, scores, mask[:, None, :], training)
    total = tf.transpose(tf.reduce_sum(weights, -1, keepdims=True), [1, 0, 2])
    mixed = tf.transpose(tf.matmul(weights, x), [1, 0, 2])
    mixed = _mixed_values(layers, mixed, total, added)
    mixed = tf.transpose(mixed, [1, 0, 2])
    mixed = tf.reshape(mixed, [-1, 1, heads * size])
    return _dense(layers, "attention_output", mixed, added)


def _query_states(
    layers: BlockLayers, query: tf.Tensor, added: Added | None
) -> tf.Tensor:
    """q W_k': queries that can be compared with states in place of keys.

    Args:
        query: float [heads, texts, size].

    Returns:
        float [heads, texts, hidden].
    """
    heads = query.shape[0]
    kernel = _by_head(layers.key.kernel.value, heads, query.dtype)
    states = tf.matmul(query, kernel, transpose_b=True)
    low_rank = _low_rank(added, "key", query.dtype)
    if low_rank is not None:
        b = _by_head(low_rank.b, heads, query.dtype)
        thin = low_rank.scale * tf.matmul(query, b, transpose_b=True)
        states += tf.matmul(thin, low_rank.a, transpose_b=True)
    return states


def _mixed_values(
    layers: BlockLayers,
    mixed: tf.Tensor,
    total: tf.Tensor,
    added: Added | None,
) -> tf.Tensor:
    """The mixture of values from the mixture of states.

    Args:
        mixed: float [heads, texts, hidden]. Sums of states by their weights.
        total: float [heads, texts, 1]. Sums of the weights.

    Returns:
        float [heads, texts, size].
    """
    heads = mixed.shape[0]
    kernel = _by_head(layers.value.kernel.value, heads, mixed.dtype)
    bias = tf.cast(layers.value.bias.value, mixed.dtype)
    values = tf.matmul(mixed, kernel) + total * bias[:, None, :]
    low_rank = _low_rank(added, "value", mixed.dtype)
    if low_rank is not None:
        thin = low_rank.scale * tf.matmul(mixed, low_rank.a)
        values += tf.matmul(thin, _by_head(low_rank.b, heads, mixed.dtype))
    return values


def _attention_weights(
    layers: BlockLayers, scores: tf.Tensor, mask: tf.Tensor, training: bool
) -> tf.Tensor:
    """Softmax of the scores of real tokens, with dropout.

    Args:
        scores: float [..., length].
        mask: bool, broadcast to `scores`. False on padding.
    """
    # Far below any score, yet finite in half precision too.
    far = tf.cast(-1e9 if scores.dtype.size > 2 else -3e4, scores.dtype)
    weights = tf.nn.softmax(scores + tf.where(mask, tf.zeros_like(far), far))
    if training and layers.weights_dropout is not None:
        weights = layers.weights_dropout(weights, training=True)
    return weights


def _split_heads(layers: BlockLayers, x: tf.Tensor) -> tf.Tensor:
    """From [batch, length, heads * size] to [batch, heads, length, size]."""
    shape = tf.shape(x)
    heads, size = layers.query.kernel.shape[1:]
    x = tf.reshape(x, [shape[0], shape[1], heads, size])
    return tf.transpose(x, [0, 2, 1, 3])


def _by_head(kernel: tf.Tensor, heads: int, dtype: tf.DType) -> tf.Tensor:
    """A kernel [inputs, ...] of all heads as [heads, inputs, size]."""
    kernel = tf.reshape(tf.cast(kernel, dtype), [kernel.shape[0], heads, -1])
    return tf.transpose(kernel, [1, 0, 2])


def _dense(
    layers: BlockLayers, name: str, x: tf.Tensor, added: Added | None
) -> tf.Tensor:
    """x W + b, with W seen as a matrix; [batch, length, units]."""
    layer = getattr(layers, name)
    width = x.shape[-1]
    kernel = tf.cast(layer.kernel.value, x.dtype)
    kernel = tf.reshape(kernel, [width, -1])
    bias = tf.reshape(tf.cast(layer.bias.value, x.dtype), [-1])
    shape = tf.shape(x)
    x = tf.reshape(x, [shape[0] * shape[1], width])
    y = tf.nn.bias_add(tf.matmul(x, kernel), bias)
    low_rank = _low_rank(added, name, x.dtype)
    if low_rank is not None:
        y += low_rank.scale * (x @ low_rank.a) @ low_rank.b
    return tf.reshape(y, [shape[0], shape[1], bias.shape[0]])


def _activate(
    activation: Activation, x: tf.Tensor, training: bool
) -> tf.Tensor:
    """The activation; half precision computes it in float32.

    TensorFlow has no vectorised erfc in bfloat16: it takes five times as long.
    """
    if training:
        activation = DIFFERENTIABLE.get(activation, activation)
    return tf.cast(activation(_widen(x)), x.dtype)


def _low_rank(
    added: Added | None, name: str, dtype: tf.DType
) -> LowRank | None:
    """What a method adds to a dense layer, if there is one and it does."""
    return None if added is None else added.low_rank(name, dtype)


@tf.autograph.experimental.do_not_convert  # it would lose the gradient
def normalise(
    layer: keras.layers.Layer, x: tf.Tensor, training: bool
) -> tf.Tensor:
    """LayerNorm; half precision computes it in float32.

    Args:
        layer: has the weights and epsilon.
        x: float [..., hidden].
        training: whether a gradient may be asked for. OpenVINO fuses the
            operations only without one of our own.
    """
    wide = _widen(x)
    gamma = tf.cast(layer.gamma.value, wide.dtype)
    beta = tf.cast(layer.beta.value, wide.dtype)

    def compute(
        x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, Differentiate]:
        return _normalise(x, gamma, beta, layer.epsilon)

    if training:
        normalised = tf.custom_gradient(compute)(wide, gamma, beta)
    else:
        normalised, _ = compute(wide, gamma, beta)
    return tf.cast(normalised, x.dtype)


def _normalise(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, Differentiate]:
    """gamma n + beta with n = (x - mean) / deviation; and its gradient.

    With d = gamma dy, the gradient for n:

        dx = (d - mean(d) - n mean(d n)) / deviation

    TensorFlow would differentiate each operation: half as long again.
    """
    # A list: OpenVINO reads no number here.
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    inverse = tf.math.rsqrt(variance + epsilon)
    scale = inverse * gamma
    y = x * scale + (beta - mean * scale)

    def differentiate(dy: tf.Tensor) -> tuple[tf.Tensor, ...]:
        width = x.shape[-1]
        dy = tf.reshape(dy, [-1, width])
        n = tf.reshape((x - mean) * inverse, [-1, width])
        products = dy * n
        share = tf.reshape(gamma / width, [width, 1])
        dx = dy * gamma - tf.matmul(dy, share) - n * tf.matmul(products, share)
        dx *= tf.reshape(inverse, [-1, 1])
        return (
            tf.reshape(dx, tf.shape(x)),
            tf.reduce_sum(products, 0),
            tf.reduce_sum(dy, 0),
        )

    return y, differentiate


def _widen(x: tf.Tensor) -> tf.Tensor:
    """Half precision as float32, and all else as it is."""
    return tf.cast(x, tf.float32) if x.dtype.size == 2 else x
