"""The frozen prefix as a function of its own: run once, in inference mode.

    embeddings -> blocks 1 to cut -> rounding to the cache's dtype

What it puts out never changes while it is frozen, so it may be stored. Dropout
is off in it, unlike in a prefix that is run live at every step.

A cut may be reached from the stored states of a shallower one. Those were
rounded when they were stored, so a prefix is named by every stop at which its
states are rounded: `stops=(10, 11)` is not quite `stops=(11,)`.
"""

import dataclasses
import hashlib
import json

import tensorflow as tf

# Of a backbone's config, what says nothing of the states below a cut.
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
class Prefix:
    """A frozen prefix, and what is kept of its output.

    Attributes:
        stops: blocks at whose end the states are rounded, rising; the last
            is the cut.
        keeps: `tokens`, the states of every token; `first`, those of [CLS];
            `mean`, the mean of all tokens' states; or `firsts`, those of
            [CLS] above each block from `collects` on, side by side. The last
            three only where no block trains: then the head reads nothing else.
        dtype: to which the states are rounded: `float16`, `bfloat16` or
            `float32`.
        collects: the first block above which the head reads [CLS], beside
            the top one; 0 for none. With `tokens`, a text's states of [CLS]
            above the blocks from there to below the cut stand before those
            of its tokens.
    """

    stops: tuple
    keeps: str
    dtype: str
    collects: int = 0

    @property
    def cut(self):
        """Blocks in the prefix."""
        return self.stops[-1]

    @property
    def source(self):
        """The shallower prefix from whose output this one goes on, or None."""
        if len(self.stops) == 1:
            return None
        return Prefix(self.stops[:-1], "tokens", self.dtype, self.collects)

    @property
    def before(self):
        """Vectors of [CLS] that stand before a text's tokens."""
        if self.keeps != "tokens" or not self.collects:
            return 0
        return max(0, self.cut - self.collects)

    def width(self, hidden):
        """Of a vector, where states are `hidden` wide."""
        if self.keeps == "firsts":
            return hidden * (self.cut - self.collects + 1)
        return hidden

    def unpack(self, states):
        """What `run` put out: the states, and [CLS] above collected blocks.

        Args:
            states: [batch, before + length, hidden].

        Returns:
            [batch, length, hidden] and a list of [batch, hidden].
        """
        before = self.before
        x = states[:, before:] if before else states
        firsts = [states[:, place] for place in range(before)]
        if self.collects and self.cut >= self.collects:
            firsts.append(x[:, 0])
        return x, firsts

    def run(self, encoder, batch):
        """What the prefix puts out.

        Args:
            encoder: `Encoder`.
            batch: dict of `ids`, `segments` and `mask`, each [batch, length];
                or of `mask` and the `states` of `source`.

        Returns:
            `dtype` [batch, before + length, hidden]; [batch, width] where only
            one vector a text is kept.
        """
        mask, firsts = batch["mask"], []
        if self.source is None:
            at = 0
            x = encoder.embed(batch["ids"], batch["segments"], training=False)
        else:
            at = self.source.cut
            x, firsts = self.source.unpack(
                tf.cast(
                    self.source.complete(encoder, batch), encoder.compute_dtype
                )
            )
        x, firsts = run_collecting(
            encoder,
            x,
            mask,
            at + 1,
            self.cut,
            False,
            self.keeps in ("first", "firsts"),
            self.collects,
            firsts,
        )
        if self.keeps == "firsts":
            x = tf.concat(firsts, axis=1)
        elif self.keeps == "first":
            x = x[:, 0]
        elif self.keeps == "mean":
            x = mean_pool(x, mask)
        elif self.before:
            x = tf.concat([tf.stack(firsts[: self.before], axis=1), x], axis=1)
        return tf.cast(x, self.dtype)

    def complete(self, encoder, batch, same_shape=False):
        """The prefix's output: from `states` where they are there.

        Args:
            batch: of `states`, the output of this prefix, where all of it is
                stored; with `have`, bool [batch], `ids` and `segments` too
                where only some is; without `states` where none is.
            same_shape: whether to run the prefix on the whole batch to fill
                gaps, not only on the rows that miss: for XLA.
        """
        if "states" not in batch:
            return self.run(encoder, batch)
        if "have" not in batch:
            return batch["states"]
        texts = {name: batch[name] for name in ("ids", "segments", "mask")}
        states, have = batch["states"], batch["have"]
        if same_shape:
            have = tf.reshape(have, [-1] + [1] * (states.shape.rank - 1))
            return tf.where(have, states, self.run(encoder, texts))
        missing = tf.where(~have)
        rows = {n: tf.gather_nd(v, missing) for n, v in texts.items()}
        return tf.tensor_scatter_nd_update(
            states, missing, self.run(encoder, rows)
        )


def run_collecting(
    encoder, x, mask, first, last, training, first_only, collects, firsts
):
    """Runs blocks, and keeps [CLS] above those from `collects` on.

    Args:
        first, last, first_only: see `Encoder.run_blocks`.
        collects: 0 for none.
        firsts: list of [batch, hidden], of blocks that were run before.

    Returns:
        The states above block `last`, and the longer list.
    """
    if not collects:
        x = encoder.run_blocks(x, mask, first, last, training, first_only)
        return x, firsts
    firsts = list(firsts)
    for number in range(first, last + 1):
        x = encoder.run_blocks(x, mask, number, number, training, first_only)
        if number >= collects:
            firsts.append(x[:, 0])
    return x, firsts


def mean_pool(x, mask):
    """Mean over the tokens that are not padding, in float32.

    Args:
        x: float [batch, length, hidden].
        mask: bool [batch, length].

    Returns:
        float32 [batch, hidden].
    """
    weight = tf.cast(mask, tf.float32)[:, :, None]
    total = tf.reduce_sum(tf.cast(x, tf.float32) * weight, axis=1)
    return total / tf.maximum(tf.reduce_sum(weight, axis=1), 1.0)


def digests(encoder):
    """A hash of everything that shapes the states, for each cut.

    Returns:
        List of str: at place `cut`, the hash of the embeddings, of blocks 1
        to `cut`, and of how they are put together.
    """
    config = encoder.backbone.get_config()
    shape = {n: str(v) for n, v in config.items() if n not in _NOT_CONTENT}
    digest = hashlib.sha256(
        json.dumps([encoder.family, shape], sort_keys=True).encode()
    )
    found = []
    for layers in [encoder.embedding_layers, *([b] for b in encoder.blocks)]:
        for layer in layers:
            for weight in layer.weights:
                digest.update(f"{weight.shape}".encode())
                digest.update(weight.value.numpy().tobytes())
        found.append(digest.hexdigest())
    return found
