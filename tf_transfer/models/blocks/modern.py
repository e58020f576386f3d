"""Blocks of ModernBERT: normalised first, with rotary positions and windows.

    y = x + attention(LayerNorm(x))        y + feedforward(LayerNorm(y))
    scores[i, j] = (R_i q_i) (R_j k_j)' / sqrt(size)
    feedforward(z) = (activation(z A) * (z B)) W

R_i turns the numbers n and n + size / 2 of a vector by the angle
i / base^(2n / size). Blocks are global or local: a local block has another
base, and its tokens see those within half a window on each side. Nothing has a
bias. The first block has no LayerNorm at its attention, since the embeddings
end in one; behind the last block, one normalises the states of the whole
encoder. The embeddings know no positions.

At [CLS] alone, the keys are turned by their positions, so that block computes
them, in contrast to BERT's; it computes no values. In a local block, only the
tokens within half a window count.

Benjamin Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional
Encoder" (arXiv 2412.13663).
"""

import math
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.models import backbone as backbone_lib
from tf_transfer.models.backbone import Backbone
from tf_transfer.models.blocks.arithmetic import (
    activate,
    Added,
    dense,
    join_heads,
    mix_at_cls,
    normalise,
    Positions,
    Shared,
    split_heads,
    weigh,
)
from tf_transfer.models.blocks.layers import Block, BlockShape, PredictionHead
from tf_transfer.models.transformers_folder import Config, find_activation
from tf_transfer.utils.errors import UserError

GLOBAL, LOCAL = "full_attention", "sliding_attention"
KINDS = (GLOBAL, LOCAL)
BASES = {GLOBAL: 160_000.0, LOCAL: 10_000.0}  # by default
OLD_BASES = {GLOBAL: "global_rope_theta", LOCAL: "local_rope_theta"}


class Rotations(Positions):
    """The angles of all positions, and who sees whom; without weights.

    Args:
        size: Of an attention head.
        bases: Of the angles, by the kind of block.
        reach: Most positions between tokens that see each other in a local
            block.
        most: Tokens of the longest text.
    """

    def __init__(
        self, size: int, bases: Sequence[float], reach: int, most: int
    ) -> None:
        super().__init__(name="rotations", dtype="float32")
        self._reach = reach
        self._rotations = [make_rotations(size, base, most) for base in bases]
        self.built = True

    def share(self, x: tf.Tensor, training: bool) -> Shared:
        """Cosines and sines of each kind of block, and the window.

        Returns:
            Two tensors float32 [2, length, size], of `KINDS`; and bool
            [length, length], true where a local block sees.
        """
        length = tf.shape(x)[1]
        places = tf.range(length)
        distances = tf.abs(places[:, None] - places[None, :])
        waves = [tf.constant(one)[:, :length] for one in self._rotations]
        return (*waves, distances <= self._reach)


def make_rotations(size: int, base: float, most: int) -> np.ndarray:
    """Cosines and sines of the angles, float32 [2, most, size]."""
    rates = 1 / base ** (np.arange(0, size, 2, dtype=np.float32) / size)
    angles = np.arange(most, dtype=np.float32)[:, None] * rates
    angles = np.concatenate([angles, angles], axis=1)
    return np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


class ModernBlock(Block):
    """A block that knows its kind.

    Args:
        shape, name, dtype: See `Block`.
        kind: One of `KINDS`.
        reach: See `Rotations`.
        is_first, is_last: Whether it is the lowest or the top one.

    Attributes:
        kind, reach: As given.
    """

    def __init__(
        self,
        shape: BlockShape,
        name: str,
        dtype: str,
        kind: str,
        reach: int,
        is_first: bool,
        is_last: bool,
    ) -> None:
        super().__init__(shape, name, dtype, not is_first, is_last)
        self.kind = kind
        self.reach = reach


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
        block: A `ModernBlock`.
        x: See `arithmetic.Run`.
        mask: See `arithmetic.Run`.
        training: See `arithmetic.Run`.
        cls_only: See `arithmetic.Run`.
        added: See `arithmetic.Run`.
        shared: See `Rotations.share`.
    """
    layers = block.parts
    residual = x[:, :1] if cls_only else x
    if cls_only and block.kind == LOCAL:
        x, mask = x[:, : block.reach + 1], mask[:, : block.reach + 1]
    if layers.attention_norm is not None:
        x = normalise(layers.attention_norm, x, training)
    queries = x[:, :1] if cls_only else x
    waves = shared[KINDS.index(block.kind)]
    query, key = (
        _rotate(split_heads(layers, dense(layers, name, states, added)), waves)
        for name, states in (("query", queries), ("key", x))
    )
    query *= tf.cast(1 / math.sqrt(query.shape[-1]), query.dtype)
    scores = tf.matmul(query, key, transpose_b=True)
    sees = mask[:, None, None, :]
    if block.kind == LOCAL and not cls_only:
        sees = sees & shared[-1]
    weights = weigh(layers, scores, sees, training)
    if cls_only:
        mixed = mix_at_cls(layers, weights[:, :, 0], x, added)
    else:
        value = split_heads(layers, dense(layers, "value", x, added))
        mixed = join_heads(tf.matmul(weights, value))
    y = dense(layers, "attention_output", mixed, added)
    if training:
        y = layers.attention_dropout(y, training=True)
    y = residual + y
    z = normalise(layers.feedforward_norm, y, training)
    z, gate = tf.split(dense(layers, "inner", z, added), 2, axis=-1)
    z = activate(layers.inner.activation, z, training) * gate
    if training:
        z = layers.feedforward_dropout(z, training=True)
    y += dense(layers, "outer", z, added)
    if block.final_norm is not None:
        y = normalise(block.final_norm, y, training)
    return y


def _rotate(x: tf.Tensor, waves: tf.Tensor) -> tf.Tensor:
    """Turns queries or keys by their positions, in float32.

    Args:
        x: float [batch, heads, length, size].
        waves: float32 [2, positions, size].
    """
    wide = tf.cast(x, tf.float32)
    low, high = tf.split(wide, 2, axis=-1)
    cosines, sines = (waves[part, : tf.shape(x)[2]] for part in (0, 1))
    turned = wide * cosines + tf.concat([-high, low], axis=-1) * sines
    return tf.cast(turned, x.dtype)


def build(config: Config, dropout: float, precision: str) -> Backbone:
    """Builds a ModernBERT; see `backbone.build`."""
    content, sizes = config.content, config.sizes
    shape = BlockShape(
        hidden=sizes["hidden_dim"],
        heads=sizes["num_heads"],
        inner=sizes["intermediate_dim"],
        activation=config.activation,
        epsilon=config.epsilon,
        dropout=dropout,
        has_biases=False,
        has_norm_biases=False,
        is_gated=True,
    )
    count = sizes["num_layers"]
    kinds = content.get("layer_types")
    if kinds is None:
        every = content["global_attn_every_n_layers"]
        kinds = [LOCAL if n % every else GLOBAL for n in range(count)]
    if len(kinds) != count or {*kinds} - {*KINDS}:
        raise UserError(
            f"config.json has layer_types={str(kinds)[:60]}: expected {count} "
            f"of {', '.join(KINDS)}."
        )
    if {*(content.get("rope_parameters") or {})} - {*KINDS}:
        raise UserError(
            "config.json has rope_parameters that are not known here: expected "
            f"{' and '.join(KINDS)}."
        )
    bases = [_find_base(content, kind) for kind in KINDS]
    reach = content["local_attention"] // 2
    activation = find_activation(content["classifier_activation"])
    return backbone_lib.build(
        config,
        run,
        shape,
        precision,
        lambda number: ModernBlock(
            shape,
            f"block_{number}",
            precision,
            kinds[number - 1],
            reach,
            number == 1,
            number == count,
        ),
        lambda seed: PredictionHead(shape, activation, precision, seed),
        Rotations(
            shape.hidden // shape.heads,
            bases,
            reach,
            sizes["max_sequence_length"],
        ),
        settings={"kinds": kinds, "bases": bases, "reach": reach},
    )


def _find_base(content: dict[str, object], kind: str) -> float:
    """The base of the angles of a kind of block, in either spelling."""
    parameters = content.get("rope_parameters") or {}
    assert isinstance(parameters, dict)
    own = parameters.get(kind) or {}
    for key, value in own.items():
        usual = {"rope_type": "default", "rope_theta": value}
        if usual.get(key) != value:
            raise UserError(
                f"config.json has rope_parameters with {key}={value!r}, which "
                "is not known here and may change states."
            )
    old = content.get(OLD_BASES[kind], BASES[kind])
    base = own.get("rope_theta", old)
    return float(base)
