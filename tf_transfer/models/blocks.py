"""One transformer block of keras-nlp, computed from its weights.

    y = LayerNorm(x + attention(x))        LayerNorm(y + feedforward(y))

keras-nlp's own layers hold the weights, the dropout and the activation; what
is ours is the arithmetic. It spends fewer operations, which at batch size 1 is
most of the time, and it can stop short: where the head reads [CLS] alone, the
last block needs keys and values of every token, but its query, its
feed-forward and its output at [CLS] only.
"""

import math

import tensorflow as tf


def run(block, x, mask, training, first_only=False):
    """What the block puts out.

    Args:
        block: `keras_nlp.layers.TransformerEncoder`, built, that normalises
            after each sum, as BERT and RoBERTa do.
        x: float [batch, length, hidden].
        mask: bool [batch, length]. False on padding.
        training: whether dropout is active.
        first_only: whether only the first token's output is wanted.

    Returns:
        float [batch, length, hidden], or [batch, 1, hidden] of the first
        token.
    """
    x = tf.cast(x, block.compute_dtype)
    queries = x[:, :1] if first_only else x
    y = _attention(block._self_attention_layer, queries, x, mask, training)
    y = block._self_attention_dropout(y, training=training)
    y = _normalise(block._self_attention_layer_norm, queries + y)
    inner = block._feedforward_intermediate_dense
    z = inner.activation(_dense(inner, y))
    z = _dense(block._feedforward_output_dense, z)
    z = block._feedforward_dropout(z, training=training)
    return _normalise(block._feedforward_layer_norm, y + z)


def _attention(layer, queries, x, mask, training):
    """softmax(Q K' / sqrt(d)) V of every head, through the output layer."""
    query = _heads(layer._query_dense, queries)
    key = _heads(layer._key_dense, x)
    value = _heads(layer._value_dense, x)
    size = query.shape[-1]
    query *= tf.cast(1 / math.sqrt(size), query.dtype)
    scores = tf.matmul(query, key, transpose_b=True)
    # Far below any score, yet finite in half precision too.
    far = tf.cast(-1e9 if scores.dtype.size > 2 else -3e4, scores.dtype)
    away = tf.where(mask, tf.zeros_like(far), far)
    weights = tf.nn.softmax(scores + away[:, None, None, :])
    if layer._dropout > 0:
        weights = layer._dropout_layer(weights, training=training)
    mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
    shape = tf.shape(queries)
    mixed = tf.reshape(mixed, [shape[0], shape[1], mixed.shape[2] * size])
    return _dense(layer._output_dense, mixed)


def _heads(layer, x):
    """A projection, float [batch, heads, length, size]."""
    heads, size = layer.kernel.shape[1:]
    shape = tf.shape(x)
    y = tf.reshape(_dense(layer, x), [shape[0], shape[1], heads, size])
    return tf.transpose(y, [0, 2, 1, 3])


def _dense(layer, x):
    """x W + b, with W seen as a matrix; [batch, length, units]."""
    width = x.shape[-1]
    kernel = tf.cast(layer.kernel.value, x.dtype)
    kernel = tf.reshape(kernel, [width, -1])
    bias = tf.reshape(tf.cast(layer.bias.value, x.dtype), [-1])
    shape = tf.shape(x)
    y = tf.matmul(tf.reshape(x, [shape[0] * shape[1], width]), kernel)
    y = tf.nn.bias_add(y, bias)
    return tf.reshape(y, [shape[0], shape[1], bias.shape[0]])


def _normalise(layer, x):
    """LayerNorm over the last axis; half precision computes it in float32."""
    dtype = x.dtype
    x = tf.cast(x, tf.float32) if dtype.size == 2 else x
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    scale = tf.math.rsqrt(variance + layer.epsilon)
    scale *= tf.cast(layer.gamma.value, x.dtype)
    shift = tf.cast(layer.beta.value, x.dtype) - mean * scale
    return tf.cast(x * scale + shift, dtype)
