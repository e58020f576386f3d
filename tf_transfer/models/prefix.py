"""The frozen prefix as a function of its own: run once, in inference mode.

    embeddings -> block 1 -> ... -> block cut -> rounding

Its output never changes while it is frozen, so it may be stored. Dropout is
off in it, unlike in a prefix that is run live at every step. One pass computes
the output of several prefixes.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transfer.models.encoder import Encoder

# What `pooled_blocks` has of the states above each block.
POOLINGS = ("cls_state", "mean")

# Entries of a backbone's config that do not shape the states below a cut.
_NOT_CONTENT = (
    "name",
    "trainable",
    "dtype",
    "dropout",
    "num_layers",
    "vocabulary_size",
    "max_sequence_length",
)


@dataclasses.dataclass(frozen=True)
class FrozenPrefix:
    """A frozen prefix, and which of its states are its output.

    Attributes:
        cut: Blocks in it.
        output: `tokens`, the states of every token; `cls`, those of [CLS];
            `mean`, the mean of all tokens' states; `cls_blocks`, those of
            [CLS] above each block from `cls_from` on, concatenated; or
            `pooled_blocks`, [CLS] and the mean below block 1 and above every
            block, side by side, which `pooled_columns` finds again. All but
            the first only where no block trains: then the head reads nothing
            else.
        dtype: To which the output is rounded: `float16`, `bfloat16` or
            `float32`.
        cls_from: The first block above which the head reads [CLS] too, beside
            the top one; 0 for none. With `tokens`, a text's states of [CLS]
            above the blocks from there to below the cut precede those of its
            tokens.
    """

    cut: int
    output: str
    dtype: str
    cls_from: int = 0

    def at(self, cut: int) -> "FrozenPrefix":
        """The prefix of another cut, for the suffix of the same head."""
        return FrozenPrefix(cut, "tokens", self.dtype, self.cls_from)

    @property
    def num_cls(self) -> int:
        """Vectors of [CLS] that precede those of a text's tokens."""
        if self.output != "tokens" or not self.cls_from:
            return 0
        return max(0, self.cut - self.cls_from)

    def width(self, hidden: int) -> int:
        """Width of an output vector, where states are `hidden` wide."""
        if self.output == "cls_blocks":
            return hidden * (self.cut - self.cls_from + 1)
        if self.output == "pooled_blocks":
            return hidden * len(POOLINGS) * (self.cut + 1)
        return hidden

    def unpack(self, states: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Splits the output into states of tokens and of [CLS].

        Args:
            states: [batch, num_cls + length, hidden], the output `tokens`.

        Returns:
            The states [batch, length, hidden] above the cut, and a list of
            the states of [CLS], each [batch, hidden], above the blocks from
            `cls_from` to below the cut.
        """
        num_cls = self.num_cls
        x = states[:, num_cls:] if num_cls else states
        return x, [states[:, index] for index in range(num_cls)]

    def select(self, states: Sequence[tf.Tensor], mask: tf.Tensor) -> tf.Tensor:
        """The output.

        Args:
            states: [batch, length, hidden] below block 1, and above every block
                up to the cut at least.
            mask: bool [batch, length]. False on padding.

        Returns:
            `dtype` [batch, num_cls + length, hidden] where the output is
            `tokens`, else [batch, width].
        """
        x = states[self.cut]
        if self.output == "cls":
            x = x[:, 0]
        elif self.output == "mean":
            x = mean_pool(x, mask)
        elif self.output == "cls_blocks":
            above = states[self.cls_from : self.cut + 1]
            x = tf.concat([one[:, 0] for one in above], axis=1)
        elif self.output == "pooled_blocks":
            vectors = []
            for one in states[: self.cut + 1]:
                vectors += [
                    tf.cast(one[:, 0], tf.float32),
                    mean_pool(one, mask),
                ]
            x = tf.concat(vectors, axis=1)
        elif self.num_cls:
            below = states[self.cls_from : self.cut]
            cls_states = tf.stack([one[:, 0] for one in below], axis=1)
            x = tf.concat([cls_states, x], axis=1)
        return tf.cast(x, self.dtype)

    def complete(
        self,
        encoder: Encoder,
        batch: dict[str, tf.Tensor],
    ) -> tf.Tensor:
        """The output: read from `states` as far as it is stored there.

        Args:
            encoder: `Encoder`.
            batch: Of `states`, the output of this prefix, where all of it is
                stored; with `is_stored`, bool [batch], `ids` and `segments` too
                where only some is; without `states` where none is.

        Returns:
            As `select`.
        """
        if "states" not in batch:
            return run(encoder, batch, [self])[0]
        if "is_stored" not in batch:
            return batch["states"]
        texts = {name: batch[name] for name in ("ids", "segments", "mask")}
        states, is_stored = batch["states"], batch["is_stored"]
        missing = tf.where(~is_stored)
        rows = {n: tf.gather_nd(v, missing) for n, v in texts.items()}
        return tf.tensor_scatter_nd_update(
            states, missing, run(encoder, rows, [self])[0]
        )


def run(
    encoder: Encoder,
    batch: dict[str, tf.Tensor],
    prefixes: Sequence[FrozenPrefix],
    dtype: str = "",
) -> list[tf.Tensor]:
    """Computes the output of several prefixes in one pass.

    Args:
        encoder: The encoder that they belong to.
        batch: Dict of `ids`, `segments` and `mask`, each [batch, length].
        prefixes: In any order.
        dtype: Of the arithmetic; "" for the encoder's own.

    Returns:
        The output of each; see `FrozenPrefix.select`.
    """
    mask = batch["mask"]
    x = encoder.embed(batch["ids"], batch["segments"], False, dtype)
    states = [x]
    top = max(prefix.cut for prefix in prefixes)
    cls_only = all(
        prefix.output in ("cls", "cls_blocks")
        for prefix in prefixes
        if prefix.cut == top
    )
    encoder.run_blocks(x, mask, 1, top, False, cls_only, states.append)
    return [prefix.select(states, mask) for prefix in prefixes]


def mean_pool(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Mean over the tokens that are not padding, in float32.

    Args:
        x: float [batch, length, hidden].
        mask: bool [batch, length]. False on padding.

    Returns:
        float32 [batch, hidden].
    """
    weight = tf.cast(mask, tf.float32)[:, :, None]
    total = tf.reduce_sum(tf.cast(x, tf.float32) * weight, axis=1)
    return total / tf.maximum(tf.reduce_sum(weight, axis=1), 1.0)


def pooled_columns(block: int, pooling: str, hidden: int) -> slice:
    """Where the output `pooled_blocks` has a vector.

    Args:
        block: Above which; 0 for the embeddings.
        pooling: One of `POOLINGS`.
        hidden: Width of the states.
    """
    number = block * len(POOLINGS) + POOLINGS.index(pooling)
    return slice(number * hidden, (number + 1) * hidden)


def hash_prefixes(encoder: Encoder) -> list[str]:
    """Hashes everything that shapes the states, for each cut.

    Returns:
        At index `cut`, the hash of the embeddings, of blocks 1 to `cut`, and
        of how they are put together.
    """
    config = encoder.backbone.get_config()
    shape = {n: str(v) for n, v in config.items() if n not in _NOT_CONTENT}
    digest = hashlib.sha256(
        json.dumps(
            [
                encoder.family,
                encoder.activation,
                encoder.backbone.embeddings_layer_norm.epsilon,
                shape,
            ],
            sort_keys=True,
        ).encode()
    )
    hashes = []
    table = [encoder.embedding_layers]
    for number, block in enumerate(encoder.blocks, 1):
        table.append([block])
        if number in encoder.added:
            table[-1].append(encoder.added[number])
    for layers in table:
        for layer in layers:
            digest.update(getattr(layer, "identity", "").encode())
            for weight in layer.weights:
                digest.update(f"{weight.shape}".encode())
                digest.update(np.asarray(tf.convert_to_tensor(weight)).data)
        hashes.append(digest.hexdigest())
    return hashes
