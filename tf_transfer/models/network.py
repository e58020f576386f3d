"""The network: an encoder with heads on it."""

import functools
import hashlib
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.models import freezing, prefix as prefix_lib
from tf_transfer.models.dropout import DropoutSeeds
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.freezing import Trainable
from tf_transfer.models.heads import CLS_ONLY
from tf_transfer.models.heads.pooled import LAST
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
        encoder: What the heads read.
        heads: Dict from name to head; see `heads.base_head.Head`.
        scales: Mean and standard deviation of the scores that a head predicts,
            by its name; the logits of other heads are not scaled.

    Attributes:
        uses_pooler: Whether any head reads the pooler. One that no head reads
            is no component of the network: it could not be trained.
        frozen_hashes: Of all weights that no run has moved, by the paths of
            those that trained. The trainer keeps them: to hash takes as long
            as a small run.
        prefix_hashes: `prefix.hash_prefixes`, by the cut of the run.
        programs: What was traced over it, by what shapes that; see
            `training.programs`.
    """

    def __init__(
        self,
        encoder: Encoder,
        heads: dict[str, keras.layers.Layer],
        scales: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.frozen_hashes: dict[frozenset[str], str] = {}
        self.prefix_hashes: dict[int, Sequence[str]] = {}
        # Of `training.programs.PhasePrograms`, which are above this room.
        self.programs: dict[Hashable, Any] = {}
        self.encoder = encoder
        self.heads = dict(heads)
        self.scales = dict(scales or {})
        self.uses_pooler = any(
            head.pooling == "cls" for head in self.heads.values()
        )

    @functools.cached_property
    def seeds(self) -> DropoutSeeds:
        """Those of its dropout; ask for them first in the strategy's scope."""
        return DropoutSeeds(self.layers)

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """Every layer with weights or dropout, bottom first."""
        return [
            layer
            for component in freezing.components(self)
            for layer in (*component.layers, *component.added)
        ]

    @property
    def weights(self) -> list[keras.Variable]:
        """Every weight, bottom first."""
        return [weight for layer in self.layers for weight in layer.weights]

    def prefix(
        self, name: str, trainable: Trainable, dtype: str
    ) -> FrozenPrefix:
        """The frozen blocks below all trained ones, for the head `name`.

        Args:
            name: Of the head.
            trainable: What trains.
            dtype: To which the output of the prefix is rounded.
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
            name: See `read`.
            batch: See `read`.
            training: See `read`.
            prefix: See `read`.

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
        """The input of the head `name`.

        Args:
            name: Of the head.
            batch: Dict of `ids`, `segments`, `mask`, each [texts, length];
                with `prefix`, of `mask` and `states`, its whole output.
            training: Whether dropout is active, in every block that is run,
                frozen ones too, as in the code that the papers used.
            prefix: What has been run already, or None to run everything.

        Returns:
            The head's inputs, and those of `further_inputs` by name.
        """
        head, encoder = self.heads[name], self.encoder
        if prefix is None:
            x = encoder.embed(batch["ids"], batch["segments"], training)
        else:
            # A mean stays as precise as when it is computed here.
            is_mean = prefix.output == "mean"
            dtype = tf.float32 if is_mean else encoder.compute_dtype
            x = tf.cast(batch["states"], dtype)
        further = {}
        for further_name in getattr(head, "further_inputs", ()):
            is_embedded = further_name == "embedded"
            further[further_name] = x if is_embedded else batch[further_name]
        if prefix is None or prefix.output == "tokens":
            x = self._run_and_pool(
                head.pooling, x, batch["mask"], training, prefix
            )
        if head.pooling == "tokens":
            return [x, batch["mask"]], further
        if head.pooling == "cls":
            dropout = getattr(head, "pooler_dropout", None)
            if dropout is not None:
                x = dropout(x, training=training)
            x = encoder.pooler(x)
        return [x], further

    def _run_and_pool(
        self,
        pooling: str,
        x: tf.Tensor,
        mask: tf.Tensor,
        training: bool,
        prefix: FrozenPrefix | None,
    ) -> tf.Tensor:
        """Runs the blocks that a prefix has not run, and pools their states.

        Args:
            pooling: See `heads.pooled.PooledHead`; or `tokens`.
            x: The output of `prefix`, or the states below block 1.
            mask: bool [texts, length]. False on padding.
            training: Whether dropout is active.
            prefix: What has been run already, or None.

        Returns:
            float [texts, length, hidden] for `tokens`, else [texts, width].
        """
        encoder = self.encoder
        cut = 0
        collected: list[tf.Tensor] = []
        if prefix is not None:
            cut = prefix.cut
            x, collected = prefix.unpack(x)

        def collect(states: tf.Tensor) -> None:
            if pooling == "last4":
                collected.append(states[:, 0])
            elif pooling == "block_means":
                collected.append(prefix_lib.mean_pool(states, mask))

        collect(x)
        x = encoder.run_blocks(
            x,
            mask,
            cut + 1,
            len(encoder.blocks),
            training,
            pooling in CLS_ONLY,
            collect,
        )
        if pooling == "tokens":
            return x
        if pooling == "mean":
            return prefix_lib.mean_pool(x, mask)
        if pooling == "last4":
            return tf.concat(collected[-LAST:], axis=1)
        if pooling == "block_means":
            means = tf.concat(collected, axis=1)
            return tf.cast(means, encoder.compute_dtype)
        return x[:, 0]

    def hash_frozen(self, moving: Collection[str]) -> str:
        """A hash of every weight that no run may move.

        Args:
            moving: Paths of the others.
        """
        digest = hashlib.sha256()
        for weight in self.weights:
            if weight.path not in moving:
                digest.update(weight.path.encode())
                digest.update(np.asarray(tf.convert_to_tensor(weight)).data)
        return digest.hexdigest()
