"""What the blocks of several families share, and what each must have.

A method of training (`methods`) may add a product of thin matrices to each
dense layer: x W + b + scale x A B.
"""

from collections.abc import Callable
from typing import Protocol

import keras
import tensorflow as tf

from tf_transfer.models.activations import Activation, DIFFERENTIABLE
from tf_transfer.models.keras_private import BlockLayers
from tf_transfer.models.methods.base_method import LowRank

Shared = tuple[tf.Tensor, ...]  # what `Positions.share` returned
Differentiate = Callable[[tf.Tensor], tuple[tf.Tensor, ...]]


class Added(Protocol):
    """What a block asks of what was added; see `methods.added`."""

    def low_rank(self, name: str, dtype: tf.DType) -> LowRank | None:
        """The product that is added to a dense layer, or None."""


class Run(Protocol):
    """The function `run` of a family."""

    def __call__(
        self,
        block: keras.layers.Layer,
        x: tf.Tensor,
        mask: tf.Tensor,
        training: bool,
        cls_only: bool = False,
        added: Added | None = None,
        shared: Shared = (),
    ) -> tf.Tensor:
        """Computes a block's output.

        Args:
            block: One of the family's layers, built.
            x: float [batch, length, hidden]. Its dtype is that of the
                arithmetic.
            mask: bool [batch, length]. False on padding.
            training: Whether dropout is active.
            cls_only: Whether to compute the output of [CLS], the first token,
                alone.
            added: What a method adds to the block, or None.
            shared: What the blocks share; see `Positions.share`.

        Returns:
            float [batch, length, hidden]; [batch, 1, hidden] with `cls_only`.
        """
        ...


class Positions(keras.layers.Layer):
    """What all blocks of an encoder share: what they know of positions.

    Its weights train with the embeddings.
    """

    @property
    def tables(self) -> dict[str, keras.Variable]:
        """The tables, by their names in transformers."""
        return {}

    @property
    def norms(self) -> dict[str, keras.layers.Layer]:
        """The layer normalisations, by their names there."""
        return {}

    def share(self, x: tf.Tensor, training: bool) -> Shared:
        """Computes it, once for all blocks.

        Args:
            x: float [batch, length, hidden], below the lowest of them. Its
                dtype is that of the arithmetic.
            training: Whether a gradient may be asked for.

        Returns:
            Tensors that the `run` of the family takes.
        """
        raise NotImplementedError


def weigh(
    layers: BlockLayers, scores: tf.Tensor, mask: tf.Tensor, training: bool
) -> tf.Tensor:
    """Softmax of the scores of real tokens, with dropout.

    Args:
        layers: Has the dropout.
        scores: float [..., length].
        mask: bool, broadcast to `scores`. False where no weight may be.
        training: Whether dropout is active.
    """
    # Far below any score, yet finite in half precision too.
    far = tf.cast(-1e9 if scores.dtype.size > 2 else -3e4, scores.dtype)
    weights = tf.nn.softmax(scores + tf.where(mask, tf.zeros_like(far), far))
    if training and layers.weights_dropout is not None:
        weights = layers.weights_dropout(weights, training=True)
    return weights


def finish(
    layers: BlockLayers,
    x: tf.Tensor,
    y: tf.Tensor,
    training: bool,
    added: Added | None,
) -> tf.Tensor:
    """What BERT's block does behind the attention.

    Args:
        layers: Of the block.
        x: float [batch, length, hidden], the block's input.
        y: Of that shape, the attention's output.
        training: Whether dropout is active.
        added: What a method adds to the block, or None.

    Returns:
        float [batch, length, hidden].
    """
    if training:
        y = layers.attention_dropout(y, training=True)
    y = normalise(layers.attention_norm, x + y, training)
    z = dense(layers, "inner", y, added)
    z = activate(layers.inner.activation, z, training)
    z = dense(layers, "outer", z, added)
    if training:
        z = layers.feedforward_dropout(z, training=True)
    return normalise(layers.feedforward_norm, y + z, training)


def mix_at_cls(
    layers: BlockLayers,
    weights: tf.Tensor,
    x: tf.Tensor,
    added: Added | None,
) -> tf.Tensor:
    """The mixture of values at [CLS], from the states: a (x W_v + b_v).

    Args:
        layers: Of the block.
        weights: float [batch, heads, length], the attention of [CLS].
        x: float [batch, length, hidden], what values are made of.
        added: What a method adds to the block, or None.

    Returns:
        float [batch, 1, heads * size].
    """
    total = tf.transpose(tf.reduce_sum(weights, -1, keepdims=True), [1, 0, 2])
    mixed = tf.transpose(tf.matmul(weights, x), [1, 0, 2])
    mixed = _mix_values(layers, mixed, total, added)
    heads, _, size = mixed.shape
    mixed = tf.transpose(mixed, [1, 0, 2])
    return tf.reshape(mixed, [-1, 1, heads * size])


def _mix_values(
    layers: BlockLayers,
    mixed: tf.Tensor,
    total: tf.Tensor,
    added: Added | None,
) -> tf.Tensor:
    """The mixture of values from the mixture of states.

    Args:
        layers: Of the block.
        mixed: float [heads, texts, hidden]. Sums of states by their weights.
        total: float [heads, texts, 1]. Sums of the weights.
        added: What a method adds to the block, or None.

    Returns:
        float [heads, texts, size].
    """
    heads = mixed.shape[0]
    kernel = by_head(layers.value.kernel.value, heads, mixed.dtype)
    values = tf.matmul(mixed, kernel)
    if layers.value.bias is not None:
        bias = tf.cast(layers.value.bias.value, mixed.dtype)
        values += total * bias[:, None, :]
    low_rank = find_low_rank(added, "value", mixed.dtype)
    if low_rank is not None:
        thin = low_rank.scale * tf.matmul(mixed, low_rank.a)
        values += tf.matmul(thin, by_head(low_rank.b, heads, mixed.dtype))
    return values


def split_heads(layers: BlockLayers, x: tf.Tensor) -> tf.Tensor:
    """From [batch, length, heads * size] to [batch, heads, length, size]."""
    shape = tf.shape(x)
    heads, size = layers.query.kernel.shape[1:]
    x = tf.reshape(x, [shape[0], shape[1], heads, size])
    return tf.transpose(x, [0, 2, 1, 3])


def join_heads(x: tf.Tensor) -> tf.Tensor:
    """From [batch, heads, length, size] to [batch, length, heads * size]."""
    _, heads, _, size = x.shape
    x = tf.transpose(x, [0, 2, 1, 3])
    shape = tf.shape(x)
    return tf.reshape(x, [shape[0], shape[1], heads * size])


def by_head(kernel: tf.Tensor, heads: int, dtype: tf.DType) -> tf.Tensor:
    """A kernel [inputs, ...] of all heads as [heads, inputs, size]."""
    kernel = tf.reshape(tf.cast(kernel, dtype), [kernel.shape[0], heads, -1])
    return tf.transpose(kernel, [1, 0, 2])


def dense(
    layers: BlockLayers, name: str, x: tf.Tensor, added: Added | None
) -> tf.Tensor:
    """Computes x W + b, with W seen as a matrix; [batch, length, units].

    Some families have no b.
    """
    layer = getattr(layers, name)
    width = x.shape[-1]
    kernel = tf.cast(layer.kernel.value, x.dtype)
    kernel = tf.reshape(kernel, [width, -1])
    shape = tf.shape(x)
    x = tf.reshape(x, [shape[0] * shape[1], width])
    y = tf.matmul(x, kernel)
    if layer.bias is not None:
        bias = tf.reshape(tf.cast(layer.bias.value, x.dtype), [-1])
        y = tf.nn.bias_add(y, bias)
    low_rank = find_low_rank(added, name, x.dtype)
    if low_rank is not None:
        y += low_rank.scale * (x @ low_rank.a) @ low_rank.b
    return tf.reshape(y, [shape[0], shape[1], kernel.shape[1]])


def find_low_rank(
    added: Added | None, name: str, dtype: tf.DType
) -> LowRank | None:
    """What a method adds to a dense layer, if there is one and it does."""
    return None if added is None else added.low_rank(name, dtype)


def activate(activation: Activation, x: tf.Tensor, training: bool) -> tf.Tensor:
    """The activation; half precision computes it in float32.

    TensorFlow has no vectorised erfc in bfloat16: it takes five times as long.
    """
    if training:
        activation = DIFFERENTIABLE.get(activation, activation)
    return tf.cast(activation(widen(x)), x.dtype)


def normalise(
    layer: keras.layers.Layer, x: tf.Tensor, training: bool
) -> tf.Tensor:
    """LayerNorm; half precision computes it in float32.

    Args:
        layer: Has the weights and epsilon.
        x: float [..., hidden].
        training: Whether a gradient may be asked for. OpenVINO fuses the
            operations only without one of our own.
    """
    wide = widen(x)
    gamma = tf.cast(layer.gamma.value, wide.dtype)
    if layer.beta is None:
        beta = tf.zeros_like(gamma)
    else:
        beta = tf.cast(layer.beta.value, wide.dtype)

    compute = _differentiable if training else _normalise_only
    return tf.cast(compute(wide, gamma, beta, layer.epsilon), x.dtype)


def _normalise_only(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    return _normalise(x, gamma, beta, epsilon)[0]


def _with_gradient(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    def compute(
        x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
    ) -> tuple[tf.Tensor, Differentiate]:
        return _normalise(x, gamma, beta, epsilon)

    return tf.custom_gradient(compute)(x, gamma, beta)


# AutoGraph would lose the gradient.
_differentiable = tf.autograph.experimental.do_not_convert(_with_gradient)


def _normalise(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, Differentiate]:
    """Computes gamma n + beta and its gradient.

    Here n = (x - mean) / deviation. With d = gamma dy, the gradient for n:

        dx = (d - mean(d) - n mean(d n)) / deviation

    TensorFlow would differentiate each operation: half as long again.
    """
    # A list: OpenVINO reads no number here.
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    inverse = tf.math.rsqrt(variance + epsilon)
    scale = inverse * gamma
    y = x * scale + (beta - mean * scale)

    def differentiate(dy: tf.Tensor) -> tuple[tf.Tensor, ...]:
        width = x.shape[-1]
        dy = tf.reshape(dy, [-1, width])
        n = tf.reshape((x - mean) * inverse, [-1, width])
        products = dy * n
        share = tf.reshape(gamma / width, [width, 1])
        dx = dy * gamma - tf.matmul(dy, share) - n * tf.matmul(products, share)
        dx *= tf.reshape(inverse, [-1, 1])
        return (
            tf.reshape(dx, tf.shape(x)),
            tf.reduce_sum(products, 0),
            tf.reduce_sum(dy, 0),
        )

    return y, differentiate


def widen(x: tf.Tensor) -> tf.Tensor:
    """Half precision as float32, and all else as it is."""
    return tf.cast(x, tf.float32) if x.dtype.size == 2 else x
