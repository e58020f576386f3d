"""The network: an encoder with heads on it."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_transfer.models import freezing, prefix as prefix_lib
from tf_transfer.models.cost import CLS_ONLY
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.heads.pooled import LAST, take_block_means
from tf_transfer.models.prefix import FrozenPrefix

# What a head reads of a text, and which output of a prefix of all blocks is
# enough for it.
PREFIX_OUTPUTS = {
    "cls": "cls",
    "cls_state": "cls",
    "mean": "mean",
    "last4": "cls_blocks",
    "tokens": "tokens",
}


class Network:
    """An encoder with named heads. One batch in, the logits of one head out.

    Args:
        encoder: what the heads read.
        heads: dict from name to head; see `heads.base_head.Head`.
        scales: mean and standard deviation of the scores that a head predicts,
            by its name; the logits of other heads are not scaled.

    Attributes:
        uses_pooler: whether any head reads the pooler. One that no head reads
            is no component of the network: it could not be trained.
        seeds: of its dropout, once it trains: `training.dropout.DropoutSeeds`.
        hashes: of weights that no run has moved, by which; kept by
            `training.trainer`, since they take as long as a small run.
        programs: what was traced over it, by what shapes that; see
            `training.programs`.
    """

    def __init__(
        self,
        encoder: Encoder,
        heads: dict[str, keras.layers.Layer],
        scales: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.seeds: Any = None
        self.hashes: dict[Any, Any] = {}
        self.programs: dict[Any, Any] = {}
        self.encoder = encoder
        self.heads: dict[str, Any] = dict(heads)
        self.scales = dict(scales or {})
        self.uses_pooler = any(
            head.pooling == "cls" for head in self.heads.values()
        )

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """Every layer with weights or dropout, bottom first."""
        return [
            layer
            for component in freezing.components(self)
            for layer in (*component.layers, *component.added)
        ]

    @property
    def weights(self) -> list[Any]:
        """Every weight, bottom first."""
        return [weight for layer in self.layers for weight in layer.weights]

    def prefix(self, name: str, trainable: Any, dtype: str) -> FrozenPrefix:
        """What is frozen below all that trains, as the head `name` needs it.

        Args:
            name: of the head.
            trainable: `freezing.Trainable`.
            dtype: to which the output of the prefix is rounded.
        """
        pooling = self.heads[name].pooling
        is_all = trainable.cut == len(self.encoder.blocks)
        output = PREFIX_OUTPUTS[pooling] if is_all else "tokens"
        return FrozenPrefix(
            trainable.cut, output, dtype, self._cls_from(pooling)
        )

    def _cls_from(self, pooling: str) -> int:
        """The first block whose [CLS] is read besides the top one's, or 0."""
        if pooling != "last4":
            return 0
        return len(self.encoder.blocks) - LAST + 1

    def logits(
        self,
        name: str,
        batch: dict[str, tf.Tensor],
        training: bool,
        prefix: FrozenPrefix | None = None,
    ) -> tf.Tensor:
        """Logits of the head `name`.

        Args:
            name, batch, training, prefix: see `read`.

        Returns:
            float32 [batch, units], or [batch, length, units] of a head that
            labels tokens; float64 of a scaled head.
        """
        inputs, further = self.read(name, batch, training, prefix)
        logits = self.heads[name](*inputs, training=training, **further)
        if name in self.scales:
            mean, deviation = self.scales[name]
            # float32 rounds 1.7e9 (a date) to multiples of 128.
            logits = mean + deviation * tf.cast(logits, tf.float64)
        return logits

    def read(
        self,
        name: str,
        batch: dict[str, tf.Tensor],
        training: bool,
        prefix: FrozenPrefix | None = None,
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """What the head `name` reads.

        Args:
            name: of the head.
            batch: dict of `ids`, `segments`, `mask`, each [texts, length];
                with `prefix`, of `mask` and `states`, its whole output.
            training: whether dropout is active, in every block that is run,
                frozen ones too, as in the code that the papers used.
            prefix: what has been run already, or None to run everything.

        Returns:
            The head's inputs, and those of `further_inputs` by name.
        """
        head, encoder = self.heads[name], self.encoder
        source = prefix or FrozenPrefix(
            0, "tokens", encoder.compute_dtype, self._cls_from(head.pooling)
        )
        if head.pooling == "block_means":  # of a probe
            source = FrozenPrefix(
                len(encoder.blocks), "pooled_blocks", encoder.compute_dtype
            )
            [vectors] = prefix_lib.run(encoder, batch, [source])
            x = take_block_means(vectors, encoder.hidden)
        elif prefix is None:
            x = encoder.embed(batch["ids"], batch["segments"], training)
        else:
            # A mean stays as precise as when it is computed here.
            is_mean = prefix.output == "mean"
            x = tf.cast(
                batch["states"],
                tf.float32 if is_mean else encoder.compute_dtype,
            )
        embedded = x
        if source.output == "tokens":
            x, cls_states = source.unpack(x)
            x, cls_states = prefix_lib.run_blocks(
                encoder,
                x,
                batch["mask"],
                source.cut + 1,
                len(encoder.blocks),
                training,
                head.pooling in CLS_ONLY,
                source.cls_from,
                cls_states,
            )
            if head.pooling == "mean":
                x = prefix_lib.mean_pool(x, batch["mask"])
            elif head.pooling == "last4":
                x = tf.concat(cls_states, axis=1)
            elif head.pooling in ("cls", "cls_state"):
                x = x[:, 0]
        inputs = [x]
        if head.pooling == "tokens":
            inputs.append(batch["mask"])
        elif head.pooling == "cls":
            dropout = getattr(head, "pooler_dropout", None)
            if dropout is not None:
                x = dropout(x, training=training)
            inputs = [encoder.pooler(x)]
        further = {
            name: embedded if name == "embedded" else batch[name]
            for name in getattr(head, "further_inputs", ())
        }
        return inputs, further
