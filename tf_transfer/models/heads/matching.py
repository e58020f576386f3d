"""The four matchings of BiMPM (arXiv 1702.03814, section 3.2).

Each state h_i of a text is compared with the states g_j of the other text, by
a cosine from l perspectives:

    m = f(v, u; W)    m_k = cosine(W_k * v, W_k * u)    k = 1 ... l   (3, 4)

    full           f(h_i, g_last; W1)                                     (5)
    max-pooling    max over j of f(h_i, g_j; W2)                          (6)
    attentive      f(h_i, sum_j a_ij g_j / sum_j a_ij; W3)             (8, 9)
                   with a_ij = cosine(h_i, g_j)                           (7)
    max-attentive  f(h_i, g_j; W4) at the j of the largest a_ij

A layer holds the four of one direction. BiMPM has one for the forward states,
whose last state is that of the last token, and one for the backward states,
whose last state is that of the first token. Both texts of a pair are matched
with each other by the same weights.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

MATCHINGS = ("full", "max_pooling", "attentive", "max_attentive")
TINY = 1e-12  # below any squared norm but 0
BELOW = -2.0  # below any cosine


class Matching(keras.layers.Layer):
    """Matches both texts of every pair with each other.

    Args:
        width: of a state.
        perspectives: l.
        initializers: of the weights of each of the `MATCHINGS`.
        dtype: policy. Products of all states of a text with all of the other
            are computed in it; norms and cosines are float32.
        **kwargs: of `keras.layers.Layer`, such as `name`.

    Attributes:
        size: width of the matching vector of a token, 4 * l.
    """

    def __init__(
        self,
        width: int,
        perspectives: int,
        initializers: Sequence[keras.initializers.Initializer | str],
        dtype: str | keras.DTypePolicy,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, autocast=False, **kwargs)
        self.size = len(MATCHINGS) * perspectives

        # === Weights ===
        self.kernels = [
            self.add_weight(
                (width, perspectives), initializer, name=f"{matching}_kernel"
            )
            for matching, initializer in zip(
                MATCHINGS, initializers, strict=True
            )
        ]
        self.built = True

    def call(
        self, states: tf.Tensor, last: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Matching vectors, float [2 * batch, length, 4 * l].

        Args:
            states: float [2 * batch, length, width]. The first texts of all
                pairs, followed by the second ones.
            last: float [2 * batch, width]. Each text's last state.
            mask: bool [2 * batch, length]. False on padding.
        """
        full, max_pooling, attentive, max_attentive = (
            tf.square(tf.cast(kernel.value, tf.float32))
            for kernel in self.kernels
        )
        states = tf.cast(states, self.compute_dtype)
        x, last = (tf.cast(y, tf.float32) for y in (states, last))
        mean, best = _attend(states, mask)
        matched = [
            _cosine(x, _swap_texts(last)[:, None], full),
            _max_pool(_cosine_matrix(states, max_pooling), mask),
            _cosine(x, mean, attentive),
            _cosine(x, best, max_attentive),
        ]
        return tf.cast(tf.concat(matched, axis=2), self.compute_dtype)


def _swap_texts(texts: tf.Tensor) -> tf.Tensor:
    """The other text of each text's pair; [2 * batch, ...] as `texts`."""
    return tf.roll(texts, tf.shape(texts)[0] // 2, axis=0)


def _attend(states: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """What each state attends to in the other text.

    Returns:
        The attentive vectors of equation 8, up to their norm, which a cosine
        does not depend on: not divided by the sum of the cosines, but by its
        sign. And, of each state, the state with the largest cosine. Both are
        float32 [2 * batch, length, width].
    """
    width = states.shape[-1]
    cosines = _cosine_matrix(states, tf.ones([width, 1]))[:, 0]
    cosines = tf.concat([cosines, tf.transpose(cosines, [0, 2, 1])], axis=0)
    real = _swap_texts(mask)[:, None]
    others = _swap_texts(states)
    weights = tf.where(real, cosines, 0.0)
    mean = tf.matmul(tf.cast(weights, states.dtype), others)
    total = tf.reduce_sum(weights, axis=2, keepdims=True)
    mean = tf.cast(mean, tf.float32) * tf.where(total < 0, -1.0, 1.0)
    index = tf.argmax(tf.where(real, cosines, BELOW), axis=2)
    best = tf.gather(others, index, batch_dims=1)
    return mean, tf.cast(best, tf.float32)


def _cosine(v: tf.Tensor, u: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    """f(v, u; W), equations 3 and 4.

    Args:
        v: float32 [2 * batch, length, width].
        u: float32 [2 * batch, length or 1, width].
        squares: float32 [width, l]. W squared.

    Returns:
        float32 [2 * batch, length, l].
    """
    product = tf.einsum("bid,dk->bik", v * u, squares)
    return product * _inverse_norm(v, squares) * _inverse_norm(u, squares)


def _inverse_norm(v: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    """1 / |W_k * v|, float32 [texts, length, l]; finite where v is 0."""
    squared = tf.einsum("bid,dk->bik", tf.square(v), squares)
    return tf.math.rsqrt(tf.maximum(squared, TINY))


def _cosine_matrix(states: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    """f of every state of the first with every state of the second text.

    Args:
        states: float [2 * batch, length, width].
        squares: float32 [width, l]. W squared.

    Returns:
        float32 [batch, l, length, length].
    """
    p, q = tf.split(states, 2)
    scale = tf.cast(tf.transpose(squares), states.dtype)
    scaled = p[:, None] * scale[:, None]  # [batch, l, length, width]
    shape = tf.shape(scaled)
    count, length, width = scaled.shape[1], shape[2], scaled.shape[3]
    rows = tf.reshape(scaled, [shape[0], count * length, width])
    product = tf.matmul(rows, q, transpose_b=True)
    product = tf.reshape(product, [shape[0], count, length, length])
    inverse = _inverse_norm(tf.cast(states, tf.float32), squares)
    v, u = tf.split(tf.transpose(inverse, [0, 2, 1]), 2)
    return tf.cast(product, tf.float32) * v[:, :, :, None] * u[:, :, None]


def _max_pool(cosines: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The largest cosine of each state with any state of the other text.

    Args:
        cosines: float32 [batch, l, length, length], of `_cosine_matrix`.
        mask: bool [2 * batch, length]. False on padding.

    Returns:
        float32 [2 * batch, length, l].
    """
    p, q = tf.split(mask[:, None], 2)
    first = tf.reduce_max(tf.where(q[:, :, None], cosines, BELOW), axis=3)
    second = tf.reduce_max(tf.where(p[:, :, :, None], cosines, BELOW), axis=2)
    return tf.transpose(tf.concat([first, second], axis=0), [0, 2, 1])
