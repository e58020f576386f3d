"""Blocks of BERT, RoBERTa and those that differ in their embeddings alone.

    y = LayerNorm(x + attention(x))        LayerNorm(y + feedforward(y))
    attention(x) = softmax(Q K' / sqrt(size)) V, through the output layer
    feedforward(y) = activation(y W_1 + b_1) W_2 + b_2

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
"""

import math

import keras
import tensorflow as tf

from tf_transfer.models.blocks.arithmetic import (
    Added,
    by_head,
    dense,
    find_low_rank,
    finish,
    join_heads,
    mix_at_cls,
    Shared,
    split_heads,
    weigh,
)
from tf_transfer.models.blocks.layers import block_layers
from tf_transfer.models.keras_private import BlockLayers


def run(
    block: keras.layers.Layer,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    cls_only: bool = False,
    added: Added | None = None,
    shared: Shared = (),
) -> tf.Tensor:
    """Computes a block's output; see `arithmetic.Run`.

    Args:
        block: Normalises after each sum.
        x: See `arithmetic.Run`.
        mask: See `arithmetic.Run`.
        training: See `arithmetic.Run`.
        cls_only: See `arithmetic.Run`.
        added: See `arithmetic.Run`.
        shared: Nothing, or a bias of the scores [heads, length, length].
    """
    layers = block_layers(block)
    queries = x[:, :1] if cls_only else x
    attention = _attention_of_cls if cls_only else _attention
    y = attention(layers, x, mask, training, added, shared)
    return finish(layers, queries, y, training, added)


def _attention(
    layers: BlockLayers,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    added: Added | None,
    shared: Shared,
) -> tf.Tensor:
    """softmax(Q K' / sqrt(size)) V of every head, through the output layer."""
    query, key, value = (
        split_heads(layers, dense(layers, name, x, added))
        for name in ("query", "key", "value")
    )
    query *= tf.cast(1 / math.sqrt(query.shape[-1]), query.dtype)
    scores = tf.matmul(query, key, transpose_b=True)
    if shared:
        scores += shared[0]
    weights = weigh(layers, scores, mask[:, None, None, :], training)
    mixed = join_heads(tf.matmul(weights, value))
    return dense(layers, "attention_output", mixed, added)


def _attention_of_cls(
    layers: BlockLayers,
    x: tf.Tensor,
    mask: tf.Tensor,
    training: bool,
    added: Added | None,
    shared: Shared,
) -> tf.Tensor:
    """As `_attention`, at [CLS] alone, by the equations at the top."""
    heads, size = layers.query.kernel.shape[1:]
    query = dense(layers, "query", x[:, :1], added)
    query *= tf.cast(1 / math.sqrt(size), query.dtype)
    # Heads first: each has a product of matrices over all texts.
    query = tf.transpose(tf.reshape(query, [-1, heads, size]), [1, 0, 2])
    query = tf.transpose(_query_states(layers, query, added), [1, 0, 2])
    scores = tf.matmul(query, x, transpose_b=True)
    if shared:
        scores += shared[0][:, 0]
    weights = weigh(layers, scores, mask[:, None, :], training)
    mixed = mix_at_cls(layers, weights, x, added)
    return dense(layers, "attention_output", mixed, added)


def _query_states(
    layers: BlockLayers, query: tf.Tensor, added: Added | None
) -> tf.Tensor:
    """Computes q W_k': queries to compare with states in place of keys.

    Args:
        layers: See `run`.
        added: See `run`.
        query: float [heads, texts, size].

    Returns:
        float [heads, texts, hidden].
    """
    heads = query.shape[0]
    kernel = by_head(layers.key.kernel.value, heads, query.dtype)
    states = tf.matmul(query, kernel, transpose_b=True)
    low_rank = find_low_rank(added, "key", query.dtype)
    if low_rank is not None:
        b = by_head(low_rank.b, heads, query.dtype)
        thin = low_rank.scale * tf.matmul(query, b, transpose_b=True)
        states += tf.matmul(thin, low_rank.a, transpose_b=True)
    return states
