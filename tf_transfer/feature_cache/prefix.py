"""The frozen prefix as a function of its own: run once, in inference mode.

    embeddings -> rounding -> block 1 -> rounding ... block cut -> rounding

Its output never changes while it is frozen, so it may be stored. Dropout is
off in it, unlike in a prefix that is run live at every step.

The states are rounded to the cache's dtype below every block, not above the cut
alone. So a prefix that continues from the stored states of a shallower one puts
out what it would from the text, bit for bit.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

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


class Encoder(Protocol):
    """What this package asks of an encoder; see `models.encoder.Encoder`."""

    family: str
    backbone: Any
    embedding_layers: list[Any]
    blocks: list[Any]
    added: dict[int, Any]
    hidden: int
    max_positions: int
    special: Any

    @property
    def compute_dtype(self) -> str: ...

    def embed(
        self, ids: tf.Tensor, segments: tf.Tensor, training: bool
    ) -> tf.Tensor: ...

    def run_blocks(
        self,
        x: tf.Tensor,
        mask: tf.Tensor,
        first: int,
        last: int,
        training: bool,
        cls_only: bool = False,
    ) -> tf.Tensor: ...

    def hash_code(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class FrozenPrefix:
    """A frozen prefix, and which of its states are its output.

    Attributes:
        cut: blocks in it.
        output: `tokens`, the states of every token; `cls`, those of [CLS];
            `mean`, the mean of all tokens' states; `cls_blocks`, those of
            [CLS] above each block from `cls_from` on, concatenated; or
            `pooled_blocks`, [CLS] and the mean below block 1 and above every
            block, side by side, which `pooled_columns` finds again. All but
            the first only where no block trains: then the head reads nothing
            else.
        dtype: to which the states are rounded: `float16`, `bfloat16` or
            `float32`.
        cls_from: the first block above which the head reads [CLS] too, beside
            the top one; 0 for none. With `tokens`, a text's states of [CLS]
            above the blocks from there to below the cut precede those of its
            tokens.
    """

    cut: int
    output: str
    dtype: str
    cls_from: int = 0

    def shallower(self, cut: int) -> "FrozenPrefix":
        """The prefix of a lower cut whose output this one may continue."""
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
        """Splits the output of `run` into states of tokens and of [CLS].

        Args:
            states: [batch, num_cls + length, hidden].

        Returns:
            The states [batch, length, hidden], and a list of the states of
            [CLS], each [batch, hidden], above the blocks from `cls_from` to
            the cut.
        """
        num_cls = self.num_cls
        x = states[:, num_cls:] if num_cls else states
        cls_states = [states[:, index] for index in range(num_cls)]
        if self.cls_from and self.cut >= self.cls_from:
            cls_states.append(x[:, 0])
        return x, cls_states

    def run(
        self,
        encoder: Encoder,
        batch: dict[str, tf.Tensor],
        source: "FrozenPrefix | None" = None,
    ) -> tf.Tensor:
        """Computes the output.

        Args:
            encoder: `Encoder`.
            batch: dict of `ids`, `segments` and `mask`, each [batch, length];
                or of `mask` and the `states` of `source`.
            source: a `shallower` prefix to continue from, or None.

        Returns:
            `dtype` [batch, num_cls + length, hidden] where the output is
            `tokens`, else [batch, width].
        """
        mask = batch["mask"]
        cls_states: list[tf.Tensor] = []
        pools = self.output == "pooled_blocks"
        pooled: list[tf.Tensor] = []
        if source is None:
            cut = 0
            x = encoder.embed(batch["ids"], batch["segments"], training=False)
        else:
            cut = source.cut
            x, cls_states = source.unpack(batch["states"])
        pooled += pool(x, mask) if pools else []
        for number in range(cut + 1, self.cut + 1):
            x, cls_states = run_blocks(
                encoder,
                tf.cast(tf.cast(x, self.dtype), encoder.compute_dtype),
                mask,
                number,
                number,
                False,
                self.output in ("cls", "cls_blocks"),
                self.cls_from,
                cls_states,
            )
            pooled += pool(x, mask) if pools else []
        cls_states = [tf.cast(state, self.dtype) for state in cls_states]
        if self.output == "cls_blocks":
            x = tf.concat(cls_states, axis=1)
        elif pools:
            x = tf.concat(pooled, axis=1)
        elif self.output == "cls":
            x = x[:, 0]
        elif self.output == "mean":
            x = mean_pool(x, mask)
        elif self.num_cls:
            below = tf.stack(cls_states[: self.num_cls], axis=1)
            x = tf.concat([below, tf.cast(x, self.dtype)], axis=1)
        return tf.cast(x, self.dtype)

    def complete(
        self,
        encoder: Encoder,
        batch: dict[str, tf.Tensor],
    ) -> tf.Tensor:
        """The output: read from `states` as far as it is stored there.

        Args:
            encoder: `Encoder`.
            batch: of `states`, the output of this prefix, where all of it is
                stored; with `is_stored`, bool [batch], `ids` and `segments` too
                where only some is; without `states` where none is.

        Returns:
            As `run`.
        """
        if "states" not in batch:
            return self.run(encoder, batch)
        if "is_stored" not in batch:
            return batch["states"]
        texts = {name: batch[name] for name in ("ids", "segments", "mask")}
        states, is_stored = batch["states"], batch["is_stored"]
        missing = tf.where(~is_stored)
        rows = {n: tf.gather_nd(v, missing) for n, v in texts.items()}
        return tf.tensor_scatter_nd_update(
            states, missing, self.run(encoder, rows)
        )


def run_blocks(
    encoder: Encoder,
    x: tf.Tensor,
    mask: tf.Tensor,
    first: int,
    last: int,
    training: bool,
    cls_only: bool,
    cls_from: int,
    cls_states: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs blocks, and collects [CLS] above those from `cls_from` on.

    Args:
        encoder, x, mask, first, last, training, cls_only: see
            `Encoder.run_blocks`.
        cls_from: number of a block, or 0 to collect none.
        cls_states: states of [CLS], [batch, hidden] each, above blocks that
            were run before.

    Returns:
        The states above block `last`, and `cls_states` with those collected
        here behind them.
    """
    cls_states = list(cls_states)
    if not cls_from:
        x = encoder.run_blocks(x, mask, first, last, training, cls_only)
        return x, cls_states
    for number in range(first, last + 1):
        x = encoder.run_blocks(x, mask, number, number, training, cls_only)
        if number >= cls_from:
            cls_states.append(x[:, 0])
    return x, cls_states


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


def pool(x: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
    """[CLS] and the mean of all tokens, as in `POOLINGS`.

    Args:
        x, mask: see `mean_pool`.

    Returns:
        Two float32 tensors [batch, hidden].
    """
    return [tf.cast(x[:, 0], tf.float32), mean_pool(x, mask)]


def pooled_columns(block: int, pooling: str, hidden: int) -> slice:
    """Where the output `pooled_blocks` has a vector.

    Args:
        block: above which; 0 for the embeddings.
        pooling: one of `POOLINGS`.
        hidden: width of the states.
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
        json.dumps([encoder.family, shape], sort_keys=True).encode()
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
                digest.update(weight.value.numpy().tobytes())
        hashes.append(digest.hexdigest())
    return hashes
