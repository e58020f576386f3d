"""Blocks of MPNet: BERT's, with a bias on the scores by relative position.

    scores[i, j] = q_i k_j' / sqrt(size) + table[bucket(i - j), head]

One table of 32 buckets serves all blocks. Half of the buckets are for tokens
to the left, half for those to the right: a bucket for each distance below 8,
then wider ones by the logarithm of the distance, up to 128, and one for all
beyond. At [CLS], the bias is the row of the first token: no keys are needed.
"""

import math

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.models import backbone as backbone_lib
from tf_transfer.models.backbone import Backbone
from tf_transfer.models.blocks import bert
from tf_transfer.models.blocks.arithmetic import Positions, Shared
from tf_transfer.models.blocks.layers import Block, BlockShape
from tf_transfer.models.transformers_folder import Config

BUCKETS = 32
FARTHEST = 128  # the distance from which on there is one bucket
TABLE = "encoder.relative_attention_bias.weight"

run = bert.run


class RelativeBias(Positions):
    """The table of biases by relative position.

    Args:
        heads: Attention heads of a block.
        most: Tokens of the longest text.
    """

    def __init__(self, heads: int, most: int) -> None:
        super().__init__(name="relative_bias", dtype="float32")
        self._most = most
        distances = np.arange(1 - most, most)  # from the key to the query
        self._buckets = find_buckets(distances)
        self.table = self.add_weight(
            name="embeddings", shape=(BUCKETS, heads), initializer="zeros"
        )
        self.built = True

    @property
    def tables(self) -> dict[str, keras.Variable]:
        """See `Positions`."""
        return {TABLE: self.table}

    def share(self, x: tf.Tensor, training: bool) -> Shared:
        """The bias, `x.dtype` [heads, length, length]."""
        length = tf.shape(x)[1]
        places = tf.range(length)
        distances = places[:, None] - places[None, :] + self._most - 1
        buckets = tf.gather(self._buckets, distances)
        bias = tf.gather(tf.cast(self.table.value, x.dtype), buckets)
        return (tf.transpose(bias, [2, 0, 1]),)


def find_buckets(distances: np.ndarray) -> np.ndarray:
    """The bucket of each distance of a query from a key, int32.

    Args:
        distances: Position of the query less that of the key.
    """
    half = BUCKETS // 2
    single = half // 2  # buckets of one distance
    far = np.abs(distances)
    # In float32, as in the published code: a rounding decides at bounds.
    logarithm = np.log(np.maximum(far, 1).astype(np.float32) / single)
    scaled = logarithm / np.float32(math.log(FARTHEST / single))
    wide = single + (scaled * (half - single)).astype(np.int32)
    bucket = np.where(far < single, far, np.minimum(wide, half - 1))
    buckets: np.ndarray = bucket + np.where(distances < 0, half, 0)
    return buckets.astype(np.int32)


def build(config: Config, dropout: float, precision: str) -> Backbone:
    """Builds an MPNet; see `backbone.build`."""
    shape = BlockShape(
        hidden=config.sizes["hidden_dim"],
        heads=config.sizes["num_heads"],
        inner=config.sizes["intermediate_dim"],
        activation=config.activation,
        epsilon=config.epsilon,
        dropout=dropout,
    )
    return backbone_lib.build(
        config,
        run,
        shape,
        precision,
        lambda number: Block(shape, f"block_{number}", precision),
        backbone_lib.dense_pooler(shape, precision, keras.activations.tanh),
        RelativeBias(shape.heads, config.sizes["max_sequence_length"]),
        has_position_table=True,
    )
