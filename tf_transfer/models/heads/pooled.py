"""The head of most experiments: pooling, dropout and one dense layer.

The probe's is one, too: its weights come from a regression.
"""

import math
from typing import Any, TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.models.encoder import Encoder

LAST = 4  # blocks whose [CLS] states `last4` concatenates
# What is read of the vectors u and v of two texts, and how wide that is.
PAIR_FEATURES = {
    "both": 2,  # (u, v)
    "difference": 3,  # (u, v, |u - v|)
    "product": 4,  # (u, v, |u - v|, u * v), of u and v of length 1
    "cosine": 0,  # one number
}


def pooled_width(pooling: str, encoder: "Encoder") -> int:
    """Width of the vector that a `PooledHead` reads of a text.

    Raises:
        UserError: The encoder has too few blocks.
    """
    if pooling == "block_means":
        return (len(encoder.blocks) + 1) * encoder.hidden
    if pooling != "last4":
        return encoder.hidden
    if len(encoder.blocks) < LAST:
        raise UserError(
            f"--pooling=last4: this encoder has {len(encoder.blocks)} blocks, "
            f"fewer than {LAST}. Give --pooling=cls or mean."
        )
    return LAST * encoder.hidden


def pair_width(features: str, hidden: int) -> int:
    """Width of the `PAIR_FEATURES` of two vectors of `hidden` numbers."""
    return PAIR_FEATURES[features] * hidden or 1


def combine(u: tf.Tensor, v: tf.Tensor, features: str) -> tf.Tensor:
    """The `PAIR_FEATURES` of two vectors.

    Args:
        u: float [batch, hidden]. The first texts.
        v: float [batch, hidden]. The second texts.
        features: Which.

    Returns:
        Float [batch, width]; see `pair_width`.
    """
    if features in ("product", "cosine"):
        u = tf.math.l2_normalize(tf.cast(u, tf.float32), axis=1)
        v = tf.math.l2_normalize(tf.cast(v, tf.float32), axis=1)
    if features == "cosine":
        return tf.reduce_sum(u * v, axis=1, keepdims=True)
    vectors = [u, v, tf.abs(u - v), u * v]
    return tf.concat(vectors[: PAIR_FEATURES[features]], axis=1)


def take_block_means(vectors: tf.Tensor, hidden: int) -> tf.Tensor:
    """The means of all tokens, of what a prefix puts out as `pooled_blocks`.

    Args:
        vectors: float [batch, 2 * width]. [CLS] and the mean, by block.
        hidden: Width of each of them.

    Returns:
        Float [batch, width].
    """
    width = vectors.shape[1] // 2
    by_block = tf.reshape(vectors, [-1, width // hidden, 2 * hidden])
    return tf.reshape(by_block[:, :, hidden:], [-1, width])


class PooledHead(keras.layers.Layer):
    """Dropout and one dense layer on a vector of each text: float32 logits.

    Args:
        units: Output units.
        hidden: Width of the vector of a text; see `pooled_width`.
        pooling: Which vector that is: `cls`, [CLS] through the encoder's
            pooler; `cls_state`, [CLS] as the last block leaves it; `mean`, the
            mean of the states of all tokens that are not padding; `last4`,
            [CLS] above each of the last four blocks, concatenated; or, of a
            probe, `block_means`, the means above every block, concatenated.
        dropout: Rate between pooling and the dense layer.
        seed: Of the dense layer's initial weights.
        dtype: Policy of all but the logits.
        texts_per_example: 2 where the encoder runs each text of a pair by
            itself: the head then reads `pair_features` of them.
        pooler_dropout: Rate before the encoder's pooler, which the network
            applies.
        inner_units: Of a dense GELU layer with dropout below that layer; 0
            for none.
        pair_features: See `PAIR_FEATURES`; `difference` is Sentence-BERT's.
        init: Distribution of the dense layer's initial weights.
            `truncated_normal`: the kernel with a standard deviation of 0.02,
            the bias 0, as in BERT's own code. `uniform`: both between
            -1 / sqrt(width of its input) and 1 / sqrt(width), as PyTorch's
            `Linear`.
        **kwargs: Of `keras.layers.Layer`, such as `name`.
    """

    def __init__(
        self,
        units: int,
        hidden: int,
        pooling: str,
        dropout: float,
        seed: int,
        dtype: str,
        texts_per_example: int = 1,
        pooler_dropout: float = 0.0,
        inner_units: int = 0,
        pair_features: str = "difference",
        init: str = "truncated_normal",
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        self.pooling = pooling
        self.texts_per_example = texts_per_example
        self.pair_features = pair_features

        # === Layers ===
        self.dropout = keras.layers.Dropout(dropout, dtype=dtype)
        self.pooler_dropout = (
            keras.layers.Dropout(pooler_dropout, dtype=dtype)
            if pooler_dropout
            else None
        )
        is_pair = texts_per_example == 2
        width = pair_width(pair_features, hidden) if is_pair else hidden
        kernel: keras.Initializer = keras.initializers.TruncatedNormal(
            stddev=0.02, seed=seed
        )
        bias: str | keras.Initializer = "zeros"
        if init == "uniform":
            bound = 1 / math.sqrt(inner_units or width)
            kernel = keras.initializers.RandomUniform(-bound, bound, seed)
            derived = np.random.SeedSequence([seed, 2]).generate_state(1)
            bias = keras.initializers.RandomUniform(
                -bound, bound, int(derived[0])
            )
        self.dense = keras.layers.Dense(
            units,
            kernel_initializer=kernel,
            bias_initializer=bias,
            dtype="float32",  # half-precision logits would coarsen the loss
            name=f"{self.name}_logits",
        )
        self.inner: keras.layers.Dense | None = None
        if inner_units:
            derived = np.random.SeedSequence([seed, 1]).generate_state(1)
            self.inner = keras.layers.Dense(
                inner_units,
                activation="gelu",
                kernel_initializer=keras.initializers.TruncatedNormal(
                    stddev=0.02, seed=int(derived[0])
                ),
                dtype=dtype,
                name=f"{self.name}_inner",
            )
            self.inner.build((None, width))
            width = inner_units
        self.dense.build((None, width))
        self.built = True

    def call(self, pooled: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Logits, float32 [batch, units].

        Args:
            pooled: float [texts_per_example * batch, hidden]. The first texts
                of all examples, followed by the second ones.
            training: Whether dropout is active.
        """
        if self.texts_per_example == 2:
            u, v = tf.split(pooled, 2)
            pooled = combine(u, v, self.pair_features)
        pooled = self.dropout(pooled, training=training)
        if self.inner is not None:
            pooled = self.dropout(self.inner(pooled), training=training)
        return self.dense(tf.cast(pooled, tf.float32))


class UnitMeanHead(PooledHead):
    """A dense layer on the mean of all tokens, brought to length 1.

    Args:
        units: Output units.
        hidden: Width of the mean.
        **kwargs: Of `keras.layers.Layer`, such as `name`.
    """

    def __init__(self, units: int, hidden: int, **kwargs: Any) -> None:
        # No dropout. The seed is of weights that a regression replaces.
        super().__init__(units, hidden, "mean", 0.0, 0, "float32", **kwargs)

    def embed(self, pooled: tf.Tensor) -> tf.Tensor:
        """float32 [texts, hidden], of length 1: what texts are compared by."""
        return tf.math.l2_normalize(pooled, axis=1)

    def call(self, pooled: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Logits, float32 [texts, units]; see `PooledHead`."""
        return super().call(self.embed(pooled), training)
