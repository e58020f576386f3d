"""The four matchings of BiMPM (arXiv 1702.03814, section 3.2).

Each state h_i of a text is set against the states g_j of the other text, by a
cosine that looks from l perspectives:

    m = f(v, u; W)    m_k = cosine(W_k * v, W_k * u)    k = 1 ... l   (3, 4)

    full           f(h_i, g_last; W1)                                     (5)
    max-pooling    max over j of f(h_i, g_j; W2)                          (6)
    attentive      f(h_i, sum_j a_ij g_j / sum_j a_ij; W3)             (8, 9)
                   with a_ij = cosine(h_i, g_j)                           (7)
    max-attentive  f(h_i, g_j; W4) at the j of the largest a_ij

Here are those of one direction: BiMPM has such a layer for the forward states,
whose last one is that of the last token, and another for the backward states,
whose last one is that of the first. Both texts of a pair are matched against
each other by the same weights.
"""

import keras
import tensorflow as tf

MATCHINGS = ("full", "max_pooling", "attentive", "max_attentive")
TINY = 1e-12  # below any squared length but 0
BELOW = -2.0  # below any cosine


class Matching(keras.layers.Layer):
    """Matches both texts of every pair against each other.

    Args:
        width: of a state.
        perspectives: l.
        initializers: of the weights of each matching.
        dtype: policy. What takes all states of a text with all of the other
            is multiplied in it; lengths and cosines are float32.

    Attributes:
        size: of the matching vector of a token.
    """

    def __init__(self, width, perspectives, initializers, dtype, **kwargs):
        super().__init__(dtype=dtype, autocast=False, **kwargs)
        self.size = len(MATCHINGS) * perspectives
        self.kernels = [
            self.add_weight(
                (width, perspectives), initializer, name=f"{matching}_kernel"
            )
            for matching, initializer in zip(
                MATCHINGS, initializers, strict=True
            )
        ]
        self.built = True

    def call(self, states, last, mask):
        """Matching vectors, float [2 * batch, length, 4 * l].

        Args:
            states: float [2 * batch, length, width]. The first texts of all
                pairs before the second ones.
            last: float [2 * batch, width]. Each text's last state.
            mask: bool [2 * batch, length]. False on padding.
        """
        full, pooling, attentive, strongest = (
            tf.square(tf.cast(kernel.value, tf.float32))
            for kernel in self.kernels
        )
        states = tf.cast(states, self.compute_dtype)
        x, last = (tf.cast(y, tf.float32) for y in (states, last))
        mean, best = _attend(states, mask)
        matched = [
            _cosine(x, _swap(last)[:, None], full),
            _pool(_all_cosines(states, pooling), mask),
            _cosine(x, mean, attentive),
            _cosine(x, best, strongest),
        ]
        return tf.cast(tf.concat(matched, axis=2), self.compute_dtype)


def _swap(texts):
    """Each text's partner, in place of the text."""
    return tf.roll(texts, tf.shape(texts)[0] // 2, axis=0)


def _attend(states, mask):
    """The vectors of the other text that each state asks for.

    Returns:
        The attentive vectors, but for their length, which a cosine does not
        see: the sum of the cosines is left out, its sign is not. And the
        state of the largest cosine. Each float32 [2 * batch, length, width].
    """
    width = states.shape[-1]
    cosines = _all_cosines(states, tf.ones([width, 1]))[:, 0]
    cosines = tf.concat([cosines, tf.transpose(cosines, [0, 2, 1])], axis=0)
    real = _swap(mask)[:, None]
    others = _swap(states)
    weights = tf.where(real, cosines, 0.0)
    mean = tf.matmul(tf.cast(weights, states.dtype), others)
    total = tf.reduce_sum(weights, axis=2, keepdims=True)
    mean = tf.cast(mean, tf.float32) * tf.where(total < 0, -1.0, 1.0)
    place = tf.argmax(tf.where(real, cosines, BELOW), axis=2)
    best = tf.gather(others, place, batch_dims=1)
    return mean, tf.cast(best, tf.float32)


def _cosine(v, u, squares):
    """f(v, u; W), equations 3 and 4.

    Args:
        v, u: float32 [2 * batch, length, width]; the length of u may be 1.
        squares: float32 [width, l]. W squared.

    Returns:
        float32 [2 * batch, length, l].
    """
    product = tf.einsum("bid,dk->bik", v * u, squares)
    return product * _inverse_length(v, squares) * _inverse_length(u, squares)


def _inverse_length(v, squares):
    """1 / |W_k * v|, float32 [texts, length, l]; finite where v is 0."""
    squared = tf.einsum("bid,dk->bik", tf.square(v), squares)
    return tf.math.rsqrt(tf.maximum(squared, TINY))


def _all_cosines(states, squares):
    """f of every state of the first with every state of the second text.

    Args:
        states: float [2 * batch, length, width].
        squares: float32 [width, l].

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
    inverse = _inverse_length(tf.cast(states, tf.float32), squares)
    v, u = tf.split(tf.transpose(inverse, [0, 2, 1]), 2)
    return tf.cast(product, tf.float32) * v[:, :, :, None] * u[:, :, None]


def _pool(cosines, mask):
    """The largest cosine of each state with any of the other text.

    Args:
        cosines: float32 [batch, l, length, length], see `_all_cosines`.
        mask: bool [2 * batch, length].

    Returns:
        float32 [2 * batch, length, l].
    """
    p, q = tf.split(mask[:, None], 2)
    first = tf.reduce_max(tf.where(q[:, :, None], cosines, BELOW), axis=3)
    second = tf.reduce_max(tf.where(p[:, :, :, None], cosines, BELOW), axis=2)
    return tf.transpose(tf.concat([first, second], axis=0), [0, 2, 1])
