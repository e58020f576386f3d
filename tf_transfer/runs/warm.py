"""State that a process keeps from one run to the next: `WarmState`.

A run in a process of its own spends most of its time on work that it shares
with the last run: loading weights, tokenising, tracing. `WarmState` keeps the
encoder, the network with its traced programs, and the ids of texts. Before a
run uses them, they are as they would be in a new process. So a run's numbers do
not depend on the runs before it. Needs no TensorFlow by itself.
"""

import gc
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TYPE_CHECKING

import numpy as np

from tf_transfer.data import tokens
from tf_transfer.models import loading
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.methods.added import AddedWeights
    from tf_transfer.models.methods.base_method import Method
    from tf_transfer.models.network import Network

    # Model, dropout, precision, kept blocks, strategy, seed of a new pooler.
    EncoderKey = tuple[
        str, float, str, int | None, tf.distribute.Strategy, int | None
    ]

OURS = "tf_transfer."  # modules whose only randomness is initial weights
MOST_SPLITS = 32  # whose ids are kept


class HeadKind(NamedTuple):
    """What distinguishes a head, apart from the values of its weights.

    Attributes:
        cls: Its class.
        config: What it was made with.
        weights: Path, shape and type of each weight.
    """

    cls: type
    config: Record
    weights: list[tuple[str, tuple[int, ...], str]]


class Signature(NamedTuple):
    """What distinguishes a network, apart from the values of its weights.

    Attributes:
        heads: By name; a head that cannot be described, itself.
        scales: See `Network`.
        methods: What is added to blocks, by their numbers.
    """

    heads: "Mapping[str, HeadKind | keras.layers.Layer]"
    scales: Mapping[str, tuple[float, float]]
    methods: "Mapping[int, Method]"


class WarmState:
    """State that the runs of a process share: one encoder and one network.

    Attributes:
        runs: The number of runs that began in this process so far.
    """

    runs: ClassVar[int] = 0

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._encoder: Encoder | None = None
        self._encoder_key: EncoderKey | None = None
        self._initial: dict[int, tuple[keras.Variable, np.ndarray]] = {}
        self._network: Network | None = None
        self._added: dict[int, AddedWeights] = {}  # of the network
        self._signature: Signature | None = None
        # By encoder, longest text, what is kept of a long one, and content.
        self._tokens: dict[tuple[int, int, str, bytes], tokens.Tokens] = {}

    # === The encoder ===

    def load(
        self,
        model: str,
        cache_folder: str,
        dropout: float,
        precision: str,
        seed: int,
        keep_blocks: int | None = None,
    ) -> "Encoder":
        """An encoder with its pretrained weights; under the strategy's scope.

        Args:
            model: See `loading.load`.
            cache_folder: See `loading.load`.
            dropout: See `loading.load`.
            precision: See `loading.load`.
            seed: See `loading.load`.
            keep_blocks: See `loading.load`.
        """
        import tensorflow as tf

        key = (
            loading.identify(model, cache_folder),
            dropout,
            precision,
            keep_blocks,
            tf.distribute.get_strategy(),
            # Only where the pooler is new does it draw from the seed.
            seed if loading.has_new_pooler(model) else None,
        )
        if self._encoder is None or self._encoder_key != key:
            self._clear()
            gc.collect()  # two large encoders may be too many
            self._encoder = loading.load(
                model, cache_folder, dropout, precision, seed, keep_blocks
            )
            self._encoder_key = key
        for weight, value in self._initial.values():
            weight.assign(value)
        self._encoder.added = {}  # a probe has no network that adds its own
        return self._encoder

    def remember(self, weights: "Iterable[keras.Variable]") -> None:
        """Keeps the values of weights that are about to train.

        Args:
            weights: As they were loaded; those of heads are left out.
        """
        if self._encoder is None:
            return
        loaded = {
            id(w) for layer in self._encoder.layers for w in layer.weights
        }
        for weight in weights:
            if id(weight) in loaded and id(weight) not in self._initial:
                value = np.array(weight.value.numpy())
                self._initial[id(weight)] = weight, value

    # === The network ===

    def network(
        self,
        encoder: "Encoder",
        heads: dict[str, "keras.layers.Layer"],
        scales: Mapping[str, tuple[float, float]],
        added: "dict[int, AddedWeights]",
    ) -> "Network":
        """A network of these heads; under the strategy's scope.

        It is the network of the last run, with its programs, if that run had
        the same encoder, and heads and added weights that differ only in their
        values.

        Args:
            encoder: Its.
            heads: New ones, as they were drawn.
            scales: See `Network`.
            added: What a method adds to blocks, as it was drawn.
        """
        from tf_transfer.models.network import Network

        signature = Signature(
            {name: _describe(head) for name, head in heads.items()},
            scales,
            {number: weights.method for number, weights in added.items()},
        )
        if (
            self._network is None
            or self._network.encoder is not encoder
            or self._signature != signature
        ):
            encoder.added = self._added = dict(added)
            self._network = Network(encoder, heads, scales)
            self._signature = signature
            return self._network
        encoder.added = self._added
        pairs = [(self._network.heads[n], head) for n, head in heads.items()]
        pairs += [(self._added[n], new) for n, new in added.items()]
        for layer, new in pairs:
            by_path = {w.path: w for w in layer.weights}
            for weight in new.weights:
                by_path[weight.path].assign(weight.value)
        return self._network

    # === Texts ===

    def encode(
        self,
        encoder: "Encoder",
        texts: Sequence[list[str]],
        max_length: int,
        name: str,
        long_texts: str = "head",
    ) -> tokens.Tokens:
        """Tokenises texts, or finds them tokenised; see `tokens.encode`."""
        digest = hashlib.blake2b()
        for column in texts:
            for text in column:
                digest.update(json.dumps(text).encode())
            digest.update(b"\n")
        key = id(encoder), max_length, long_texts, digest.digest()
        ids = self._tokens.pop(key, None)
        if ids is None or encoder is not self._encoder:
            ids = tokens.encode(
                encoder.tokenizer.encode,
                encoder.special,
                texts,
                max_length,
                name,
                long_texts,
            )
        self._tokens[key] = ids  # the last one used is the last
        if len(self._tokens) > MOST_SPLITS:
            del self._tokens[next(iter(self._tokens))]
        return ids


def _describe(
    head: "keras.layers.Layer",
) -> "HeadKind | keras.layers.Layer":
    """What distinguishes a head; one without `get_config`, only itself."""
    try:
        config = head.get_config()
    except NotImplementedError:
        return head
    if type(head).__module__.startswith(OURS):
        config.pop("seed", None)
    weights = [(w.path, tuple(w.shape), w.dtype) for w in head.weights]
    return HeadKind(type(head), config, weights)
