"""Heads, and the network of an encoder with heads on it."""

import keras
import tensorflow as tf

from tf_transfer.feature_cache.prefix import mean_pool
from tf_transfer.feature_cache.prefix import Prefix
from tf_transfer.feature_cache.prefix import run_collecting
from tf_transfer.utils.errors import UserError

LAST = 4  # blocks whose [CLS] stand side by side with `last4`


def width(pooling, encoder):
    """Of what a pooled head reads of a text.

    Raises:
        UserError: the encoder has too few blocks.
    """
    if pooling != "last4":
        return encoder.hidden
    if len(encoder.blocks) < LAST:
        raise UserError(
            f"--pooling=last4: this encoder has {len(encoder.blocks)} blocks, "
            f"fewer than {LAST}. Give --pooling=cls or mean."
        )
    return LAST * encoder.hidden


class PooledHead(keras.layers.Layer):
    """Pooling, dropout, one dense layer: float32 logits [batch, units].

    Args:
        units: output units.
        hidden: width of what it reads of a text; see `width`.
        sides: texts of an example, each run by itself. Of two, u and v, it
            reads (u, v, |u - v|), as Sentence-BERT does.
        pooling: `cls`, [CLS] through the encoder's pooler; `mean`, the mean
            of the hidden states of all tokens that are not padding; or
            `last4`, [CLS] above each of the last four blocks, side by side.
        dropout: rate between pooling and the dense layer.
        seed: of the dense layer's initial weights, drawn from a truncated
            normal of deviation 0.02, as in BERT's own code.
    """

    def __init__(
        self, units, hidden, pooling, dropout, seed, dtype, sides=1, **kwargs
    ):
        super().__init__(dtype=dtype, **kwargs)
        self.pooling = pooling
        self.sides = sides

        # === Layers ===
        self.dropout = keras.layers.Dropout(dropout, dtype=dtype)
        self.dense = keras.layers.Dense(
            units,
            kernel_initializer=keras.initializers.TruncatedNormal(
                stddev=0.02, seed=seed
            ),
            dtype="float32",  # half-precision logits would coarsen the loss
            name=f"{self.name}_logits",
        )
        self.dense.build((None, 3 * hidden if sides == 2 else hidden))
        self.built = True

    def call(self, pooled, training=False):
        """Args: pooled: float [texts, hidden]. Returns logits [batch, units].

        Texts are the examples, or their first sides before the second ones.
        """
        if self.sides == 2:
            u, v = tf.split(pooled, 2)
            pooled = tf.concat([u, v, tf.abs(u - v)], axis=1)
        pooled = self.dropout(pooled, training=training)
        return self.dense(tf.cast(pooled, tf.float32))


class Network:
    """An encoder with named heads. One batch in, the logits of one head out.

    Attributes:
        encoder: `Encoder`.
        heads: dict from name to head.
        uses_pooler: whether any head reads the pooler. One that no head
            reads is no part of the network: it could not be trained.
    """

    def __init__(self, encoder, heads, uses_pooler=None):
        self.encoder = encoder
        self.heads = dict(heads)
        if uses_pooler is None:
            uses_pooler = any(h.pooling == "cls" for h in self.heads.values())
        self.uses_pooler = uses_pooler

    @property
    def layers(self):
        """Every layer with weights or dropout, bottom first."""
        layers = [*self.encoder.embedding_layers, *self.encoder.blocks]
        if self.uses_pooler:
            layers.append(self.encoder.pooler)
        return [*layers, *self.heads.values()]

    @property
    def weights(self):
        """Every weight, bottom first."""
        return [weight for layer in self.layers for weight in layer.weights]

    def prefix(self, name, trainable, dtype):
        """What is frozen below all that trains, as head `name` needs it.

        Args:
            trainable: `split.Trainable`.
            dtype: to which its output is rounded.
        """
        keeps, pooling = "tokens", self.heads[name].pooling
        if trainable.cut == len(self.encoder.blocks):
            keeps = {
                "cls": "first",
                "mean": "mean",
                "last4": "firsts",
                "tokens": "tokens",
            }[pooling]
        return Prefix((trainable.cut,), keeps, dtype, self._collects(pooling))

    def _collects(self, pooling):
        """The first block whose [CLS] is read beside the top one's, or 0."""
        if pooling != "last4":
            return 0
        return len(self.encoder.blocks) - LAST + 1

    def logits(self, name, batch, training, prefix=None):
        """Logits of the head `name`.

        Args:
            batch: dict of `ids`, `segments`, `mask`, each [texts, length];
                with `prefix`, of `mask` and `states`, its whole output.
            training: whether dropout is active, in every block that is run,
                frozen ones too, as in the code that the papers used.
            prefix: `Prefix` that has been run, or None to run everything.

        Returns:
            float32 [batch, units]; [batch, length, units] of a head that
            labels tokens.
        """
        head, encoder = self.heads[name], self.encoder
        cut, firsts = 0, []
        if prefix is None:
            x = encoder.embed(batch["ids"], batch["segments"], training)
        else:
            cut = prefix.cut
            mean = prefix.keeps == "mean"  # stays precise, as when run live
            x = tf.cast(
                batch["states"], tf.float32 if mean else encoder.compute_dtype
            )
        if prefix is None or prefix.keeps == "tokens":
            if prefix is not None:
                x, firsts = prefix.unpack(x)
            x, firsts = run_collecting(
                encoder,
                x,
                batch["mask"],
                cut + 1,
                len(encoder.blocks),
                training,
                head.pooling in ("cls", "last4"),
                self._collects(head.pooling),
                firsts,
            )
            if head.pooling == "mean":
                x = mean_pool(x, batch["mask"])
            elif head.pooling == "last4":
                x = tf.concat(firsts, axis=1)
            elif head.pooling == "cls":
                x = x[:, 0]
        if head.pooling == "tokens":
            return head(x, batch["mask"], training=training)
        if head.pooling == "cls":
            x = encoder.pooler(x)
        return head(x, training=training)
