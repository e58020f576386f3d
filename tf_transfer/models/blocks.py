"""One transformer block of keras-nlp, computed from its weights.

    y = LayerNorm(x + attention(x))        LayerNorm(y + feedforward(y))

keras-nlp's own layers hold the weights, the dropout and the activation; what
is ours is the arithmetic. It spends fewer operations, which at batch size 1 is
most of the time, and it can stop short: where the head reads [CLS] alone, the
last block needs keys and values of every token, but its query, its
feed-forward and its output at [CLS] only.
"""

import math

import keras
import tensorflow as tf

from tf_transfer.models import keras_private
from tf_transfer.models.keras_private import BlockLayers


def run(
    block: keras.layers.Layer,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    cls_only: bool = False,
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

    Returns:
        float [batch, length, hidden]; [batch, 1, hidden] with `cls_only`.
    """
    layers = keras_private.block_layers(block)
    x = tf.cast(x, block.compute_dtype)
    queries = x[:, :1] if cls_only else x
    y = _attention(layers, queries, x, mask, training)
    y = layers.attention_dropout(y, training=training)
    y = _normalise(layers.attention_norm, queries + y)
    z = layers.inner.activation(_dense(layers.inner, y))
    z = _dense(layers.outer, z)
    z = layers.feedforward_dropout(z, training=training)
    return _normalise(layers.feedforward_norm, y + z)


def _attention(
    layers: BlockLayers,
    queries: tf.Tensor,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
) -> tf.Tensor:
    """softmax(Q K' / sqrt(d)) V of every head, through the output layer."""
    query = _project(layers.query, queries)
    key = _project(layers.key, x)
    value = _project(layers.value, x)
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
    return _dense(layers.attention_output, mixed)


def _project(layer: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
    """The queries, keys or values, float [batch, heads, length, size]."""
    heads, size = layer.kernel.shape[1:]
    shape = tf.shape(x)
    y = tf.reshape(_dense(layer, x), [shape[0], shape[1], heads, size])
    return tf.transpose(y, [0, 2, 1, 3])


def _dense(layer: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
    """x W + b, with W seen as a matrix; [batch, length, units]."""
    width = x.shape[-1]
    kernel = tf.cast(layer.kernel.value, x.dtype)
    kernel = tf.reshape(kernel, [width, -1])
    bias = tf.reshape(tf.cast(layer.bias.value, x.dtype), [-1])
    shape = tf.shape(x)
    y = tf.matmul(tf.reshape(x, [shape[0] * shape[1], width]), kernel)
    y = tf.nn.bias_add(y, bias)
    return tf.reshape(y, [shape[0], shape[1], bias.shape[0]])


def _normalise(layer: keras.layers.Layer, x: tf.Tensor) -> tf.Tensor:
    """LayerNorm over the last axis; half precision computes it in float32."""
    dtype = x.dtype
    x = tf.cast(x, tf.float32) if dtype.size == 2 else x
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    scale = tf.math.rsqrt(variance + layer.epsilon)
    scale *= tf.cast(layer.gamma.value, x.dtype)
    shift = tf.cast(layer.beta.value, x.dtype) - mean * scale
    return tf.cast(x * scale + shift, dtype)
