"""One transformer block of keras-nlp, computed from its weights.

    y = LayerNorm(x + attention(x))        LayerNorm(y + feedforward(y))

keras-nlp's own layers hold the weights, the dropout and the activation; what
is ours is the arithmetic. It spends fewer operations, which at batch size 1 is
most of the time, and it can stop short: where the head reads [CLS] alone, the
last block needs keys and values of every token, but its query, its
feed-forward and its output at [CLS] only. What a method of training adds to a
block (`methods`) is asked at every dense layer and sublayer.
"""

import functools
import math
from collections.abc import Callable
from typing import Protocol

import keras
import tensorflow as tf

from tf_transfer.models import keras_private
from tf_transfer.models.keras_private import BlockLayers


class Added(Protocol):
    """What a block asks of what was added; see `methods.added`."""

    def dense(self, name: str, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor: ...

    def hidden(self, x: tf.Tensor) -> tf.Tensor: ...

    def sublayer(
        self,
        name: str,
        x: tf.Tensor,
        normalise: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor: ...


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
        block: `keras_nlp.layers.TransformerEncoder`, built, that normalises
            after each sum, as BERT and RoBERTa do.
        x: float [batch, length, hidden].
        mask: bool [batch, length]. False on padding.
        training: whether dropout is active.
        cls_only: whether to compute the output of [CLS], the first token,
            alone.
        added: what a method adds to the block, or None.

    Returns:
        float [batch, length, hidden]; [batch, 1, hidden] with `cls_only`.
    """
    layers = keras_private.block_layers(block)
    x = tf.cast(x, block.compute_dtype)
    queries = x[:, :1] if cls_only else x
    y = _attention(layers, queries, x, mask, training, added)
    y = layers.attention_dropout(y, training=training)
    normalise = functools.partial(
        _normalise_sum, layers.attention_norm, queries
    )
    if added is not None:
        y = added.sublayer("attention", y, normalise)
    y = normalise(y)
    z = layers.inner.activation(_dense(layers, "inner", y, added))
    if added is not None:
        z = added.hidden(z)
    z = _dense(layers, "outer", z, added)
    z = layers.feedforward_dropout(z, training=training)
    normalise = functools.partial(_normalise_sum, layers.feedforward_norm, y)
    if added is not None:
        z = added.sublayer("feedforward", z, normalise)
    return normalise(z)


def _attention(
    layers: BlockLayers,
    queries: tf.Tensor,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    added: Added | None,
) -> tf.Tensor:
    """softmax(Q K' / sqrt(d)) V of every head, through the output layer."""
    query = _project(layers, "query", queries, added)
    key = _project(layers, "key", x, added)
    value = _project(layers, "value", x, added)
    size = query.shape[-1]
    query *= tf.cast(1 / math.sqrt(size), query.dtype)
    scores = tf.matmul(query, key, transpose_b=True)
    # Far below any score, yet finite in half precision too.
    far = tf.cast(-1e9 if scores.dtype.size > 2 else -3e4, scores.dtype)
    penalty = tf.where(mask, tf.zeros_like(far), far)
    weights = tf.nn.softmax(scores + penalty[:, None, None, :])
    if layers.weights_dropout is not None:
        weights = layers.weights_dropout(weights, training=training)
    mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
    shape = tf.shape(queries)
    mixed = tf.reshape(mixed, [shape[0], shape[1], mixed.shape[2] * size])
    return _dense(layers, "attention_output", mixed, added)


def _project(
    layers: BlockLayers, name: str, x: tf.Tensor, added: Added | None
) -> tf.Tensor:
    """The queries, keys or values, float [batch, heads, length, size]."""
    heads, size = getattr(layers, name).kernel.shape[1:]
    shape = tf.shape(x)
    y = _dense(layers, name, x, added)
    y = tf.reshape(y, [shape[0], shape[1], heads, size])
    return tf.transpose(y, [0, 2, 1, 3])


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
    y = tf.matmul(x, kernel)
    y = tf.nn.bias_add(y, bias)
    if added is not None:
        y = added.dense(name, x, y)
    return tf.reshape(y, [shape[0], shape[1], bias.shape[0]])


def _normalise_sum(
    layer: keras.layers.Layer, x: tf.Tensor, y: tf.Tensor
) -> tf.Tensor:
    """LayerNorm of x + y; half precision computes it in float32."""
    x = x + y
    dtype = x.dtype
    x = tf.cast(x, tf.float32) if dtype.size == 2 else x
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    scale = tf.math.rsqrt(variance + layer.epsilon)
    scale *= tf.cast(layer.gamma.value, x.dtype)
    shift = tf.cast(layer.beta.value, x.dtype) - mean * scale
    return tf.cast(x * scale + shift, dtype)
