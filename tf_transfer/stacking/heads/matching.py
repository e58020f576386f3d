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
        width: Of a state.
        perspectives: l.
        initializers: Of the weights of each of the `MATCHINGS`.
        dtype: Policy. Products of all states of a text with all of the other
            are computed in it; norms and cosines are float32.
        **kwargs: Of `keras.layers.Layer`, such as `name`.

    Attributes:
        size: Width of the matching vector of a token, 4 * l.
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
        self.kernels = []
        shape = (width, perspectives)
        for name, initializer in zip(MATCHINGS, initializers, strict=True):
            kernel = self.add_weight(shape, initializer, name=f"{name}_kernel")
            self.kernels.append(kernel)
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
        squares = []
        for kernel in self.kernels:
            squares.append(tf.square(tf.cast(kernel.value, tf.float32)))
        full, max_pooling, attentive, max_attentive = squares
        states = tf.cast(states, self.compute_dtype)
        x = tf.cast(states, tf.float32)
        other_last = _swap_texts(tf.cast(last, tf.float32))[:, None]
        mean, best = _attend(states, mask)
        cosines = _cosine_matrix(states, max_pooling)
        matched = [
            _cosine(x, other_last, full),
            _max_pool(cosines, mask),
            _cosine(x, mean, attentive),
            _cosine(x, best, max_attentive),
        ]
        x = tf.concat(matched, axis=2)
        return tf.cast(x, self.compute_dtype)


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
    ones = tf.ones([states.shape[-1], 1])
    cosines = _cosine_matrix(states, ones)[:, 0]
    transposed = tf.transpose(cosines, [0, 2, 1])
    cosines = tf.concat([cosines, transposed], axis=0)
    real = _swap_texts(mask)[:, None]
    others = _swap_texts(states)
    weights = tf.where(real, cosines, 0.0)
    mean = tf.matmul(tf.cast(weights, states.dtype), others)
    total = tf.reduce_sum(weights, axis=2, keepdims=True)
    sign = tf.where(total < 0, -1.0, 1.0)
    mean = tf.cast(mean, tf.float32) * sign
    cosines = tf.where(real, cosines, BELOW)
    index = tf.argmax(cosines, axis=2)
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
    """Applies f to every pair of a state of the first and one of the second.

    Args:
        states: float [2 * batch, length, width].
        squares: float32 [width, l]. W squared.

    Returns:
        float32 [batch, l, length, length].
    """
    p, q = tf.split(states, 2)
    width, count = squares.shape
    batch, length, _ = tf.unstack(tf.shape(p))
    scale = tf.cast(tf.transpose(squares), states.dtype)
    scaled = p[:, None] * scale[:, None]  # [batch, l, length, width]
    rows = tf.reshape(scaled, [batch, count * length, width])
    product = tf.matmul(rows, q, transpose_b=True)
    product = tf.reshape(product, [batch, count, length, length])
    product = tf.cast(product, tf.float32)
    inverse = _inverse_norm(tf.cast(states, tf.float32), squares)
    inverse = tf.transpose(inverse, [0, 2, 1])
    v, u = tf.split(inverse, 2)
    return product * v[:, :, :, None] * u[:, :, None]


def _max_pool(cosines: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The largest cosine of each state with any state of the other text.

    Args:
        cosines: float32 [batch, l, length, length], of `_cosine_matrix`.
        mask: bool [2 * batch, length]. False on padding.

    Returns:
        float32 [2 * batch, length, l].
    """
    p, q = tf.split(mask[:, None], 2)
    first = tf.where(q[:, :, None], cosines, BELOW)
    first = tf.reduce_max(first, axis=3)
    second = tf.where(p[:, :, :, None], cosines, BELOW)
    second = tf.reduce_max(second, axis=2)
    best = tf.concat([first, second], axis=0)
    return tf.transpose(best, [0, 2, 1])
