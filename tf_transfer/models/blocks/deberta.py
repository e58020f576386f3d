"""Blocks of DeBERTa-v2 and -v3: BERT's, with disentangled attention.

The scores of a query at i and a key at j also compare contents with the
distance of the two, for which all blocks share a table of states r:

    d = bucket(i - j)
    scores[i, j] = (q_i k_j' + q_i (r_d W_k)' + k_j (r_d W_q)') / sqrt(3 size)

W_q and W_k, with their biases, are the block's own kernels of queries and
keys ("shared keys"). Distances below half of the buckets have a bucket each;
farther ones share buckets by the logarithm of the distance. A LayerNorm
normalises the table. The embeddings know no positions.

At [CLS] alone, the third term needs k_j, so that block computes keys, in
contrast to BERT's; it computes no values.

DeBERTa: Pengcheng He et al., "DeBERTa: Decoding-enhanced BERT with Disentangled
Attention" (arXiv 2006.03654); v3: arXiv 2111.09543.
"""

import math

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.models import backbone as backbone_lib
from tf_transfer.models.activations import ACTIVATIONS
from tf_transfer.models.backbone import Backbone
from tf_transfer.models.blocks import layers as layers_lib
from tf_transfer.models.blocks.arithmetic import (
    Added,
    dense,
    finish,
    join_heads,
    mix_at_cls,
    normalise,
    Positions,
    Shared,
    split_heads,
    weigh,
)
from tf_transfer.models.blocks.layers import Block, block_layers, BlockShape
from tf_transfer.models.keras_private import BlockLayers
from tf_transfer.models.transformers_folder import Config, find_activation
from tf_transfer.utils.errors import UserError

TABLE = "encoder.rel_embeddings.weight"
NORM = "encoder.LayerNorm"
TERMS = 3  # of the scores


class RelativeStates(Positions):
    """The table of states by distance, and its normalisation.

    Args:
        shape: Of a block.
        buckets: Those of one direction; the table has twice as many rows.
        farthest: The distance at which the buckets end.
        most: Tokens of the longest text.
    """

    def __init__(
        self, shape: BlockShape, buckets: int, farthest: int, most: int
    ) -> None:
        super().__init__(name="relative_states", dtype="float32")
        self._most = most
        distances = np.arange(-most, most)  # from the key to the query
        self._rows = find_rows(distances, buckets, farthest)
        self.table = self.add_weight(
            name="embeddings",
            shape=(2 * buckets, shape.hidden),
            initializer="zeros",
        )
        self.norm = layers_lib.build_norm(shape, "norm", "float32")
        self.dropout = keras.layers.Dropout(shape.dropout, name="dropout")
        self.built = True

    @property
    def tables(self) -> dict[str, keras.Variable]:
        """See `Positions`."""
        return {TABLE: self.table}

    @property
    def norms(self) -> dict[str, keras.layers.Layer]:
        """See `Positions`."""
        return {NORM: self.norm}

    def share(self, x: tf.Tensor, training: bool) -> Shared:
        """The states r of each distance.

        Returns:
            `x.dtype` [2 length, hidden], twice: from the distance length - 1
            down to -length, and from 1 - length up to length.
        """
        length = tf.shape(x)[1]
        table = tf.cast(self.table.value, x.dtype)
        table = normalise(self.norm, table, training)
        if training:
            table = tf.cast(self.dropout(table, training=True), x.dtype)
        # All distances from -length to length - 1.
        rows = tf.constant(self._rows)
        rows = rows[self._most - length : self._most + length]
        falling = tf.gather(table, tf.reverse(rows, [0]))
        # The distance `length` occurs in no text: any row will do.
        rising = tf.gather(table, tf.concat([rows[1:], rows[:1]], 0))
        return falling, rising


def find_rows(distances: np.ndarray, buckets: int, farthest: int) -> np.ndarray:
    """The row of the table for each distance of a query from a key, int32.

    Args:
        distances: Position of the query less that of the key.
        buckets: See `RelativeStates`.
        farthest: See `RelativeStates`.
    """
    half = buckets // 2
    far = np.abs(distances)
    # In float32, as in the published code: a rounding decides at bounds.
    wide = np.maximum(far, half).astype(np.float32) / np.float32(half)
    widest = np.log(np.float32((farthest - 1) / half))
    steps = np.ceil(np.log(wide) / widest * np.float32(half - 1))
    bucket = np.where(far <= half, far, steps + half)
    rows = np.sign(distances) * bucket + buckets
    clipped: np.ndarray = np.clip(rows, 0, 2 * buckets - 1)
    return clipped.astype(np.int32)


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
        block: A `layers.Block`.
        x: See `arithmetic.Run`.
        mask: See `arithmetic.Run`.
        training: See `arithmetic.Run`.
        cls_only: See `arithmetic.Run`.
        added: See `arithmetic.Run`.
        shared: See `RelativeStates.share`.
    """
    layers = block_layers(block)
    queries = x[:, :1] if cls_only else x
    scores = _score(layers, x, queries, cls_only, added, shared)
    weights = weigh(layers, scores, mask[:, None, None, :], training)
    if cls_only:
        mixed = mix_at_cls(layers, weights[:, :, 0], x, added)
    else:
        value = split_heads(layers, dense(layers, "value", x, added))
        mixed = join_heads(tf.matmul(weights, value))
    y = dense(layers, "attention_output", mixed, added)
    return finish(layers, queries, y, training, added)


def _score(
    layers: BlockLayers,
    x: tf.Tensor,
    queries: tf.Tensor,
    cls_only: bool,
    added: Added | None,
    shared: Shared,
) -> tf.Tensor:
    """The three terms; float [batch, heads, queries, length]."""

    def project(name: str, states: tf.Tensor) -> tf.Tensor:
        return split_heads(layers, dense(layers, name, states, added))

    query, key = project("query", queries), project("key", x)
    scale = tf.cast(1 / math.sqrt(TERMS * query.shape[-1]), x.dtype)
    query *= scale
    scores = tf.matmul(query, key, transpose_b=True)
    falling, rising = shared
    length = tf.shape(x)[1]
    if cls_only:  # the distances from 0 down to 1 - length
        states = falling[None, length - 1 : 2 * length - 1]
        key_of = project("key", states)
        query_of = project("query", states) * scale
        scores += tf.matmul(query, key_of, transpose_b=True)
        return scores + tf.reduce_sum(key * query_of, -1)[:, :, None]
    key_of = project("key", falling[None])
    scores += _shift(tf.matmul(query, key_of, transpose_b=True))
    query_of = project("query", rising[None]) * scale
    by_key = _shift(tf.matmul(key, query_of, transpose_b=True))
    return scores + tf.transpose(by_key, [0, 1, 3, 2])


def _shift(scores: tf.Tensor) -> tf.Tensor:
    """Moves row i to the left by length - 1 - i.

    Args:
        scores: float [batch, heads, length, 2 length].

    Returns:
        float [batch, heads, length, length]: at [i, j] the score of column
        length - 1 - i + j.
    """
    shape = tf.shape(scores)
    length = shape[2]
    # Row after row, each begins one column earlier than in rows of 2 length.
    flat = tf.reshape(scores, [shape[0], shape[1], 2 * length * length])
    flat = flat[:, :, length - 1 : 2 * length * length - 1]
    rows = tf.reshape(flat, [shape[0], shape[1], length, 2 * length - 1])
    return rows[:, :, :, :length]


def build(config: Config, dropout: float, precision: str) -> Backbone:
    """Builds a DeBERTa; see `backbone.build`."""
    content, sizes = config.content, config.sizes
    shape = BlockShape(
        hidden=sizes["hidden_dim"],
        heads=sizes["num_heads"],
        inner=sizes["intermediate_dim"],
        activation=config.activation,
        epsilon=config.epsilon,
        dropout=dropout,
    )
    most = sizes["max_sequence_length"]
    farthest = content["max_relative_positions"]
    if farthest < 1:
        farthest = most
    buckets = content["position_buckets"]
    pooler = content.get("pooler_hidden_size", shape.hidden)
    if buckets < 1 or pooler != shape.hidden:
        raise UserError(
            f"config.json has position_buckets={buckets} and "
            f"pooler_hidden_size={pooler}: expected buckets, and a pooler of "
            f"the width {shape.hidden}."
        )
    activation = find_activation(content["pooler_hidden_act"])
    return backbone_lib.build(
        config,
        run,
        shape,
        precision,
        lambda number: Block(shape, f"block_{number}", precision),
        backbone_lib.dense_pooler(shape, precision, ACTIVATIONS[activation]),
        RelativeStates(shape, buckets, farthest, most),
        settings={"buckets": buckets, "farthest": farthest},
    )
