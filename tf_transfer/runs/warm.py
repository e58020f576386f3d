"""State that a process keeps from one run to the next: `WarmState`.

A run in its own process spends most of its time on work that it shares with
earlier runs: loading weights, tokenising, tracing. `WarmState` keeps the
encoder, the network with its traced programs, and the ids of texts. It keeps
several small encoders, since a search alternates between precisions and numbers
of blocks. Before a run uses this state, it is reset as in a new process. So a
run's numbers do not depend on the runs before it. The module itself needs no
TensorFlow.
"""

import dataclasses
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
MOST_SPLITS = 32  # of an encoder, whose ids are kept
# Parameters of the encoders that are kept while another one is loaded: several
# of `minilm`, none of BERT-base, as two large encoders may be too many.
MOST_PARAMETERS = 100_000_000


class HeadKind(NamedTuple):
    """The properties of a head, apart from the values of its weights.

    Attributes:
        cls: Its class.
        config: Its `get_config`.
        weights: Path, shape and type of each weight.
    """

    cls: type
    config: Record
    weights: list[tuple[str, tuple[int, ...], str]]


class Signature(NamedTuple):
    """The properties of a network, apart from the values of its weights.

    Attributes:
        heads: By name; a head without `get_config` is there itself.
        scales: See `Network`.
        methods: Those added to blocks, by the numbers of the blocks.
    """

    heads: "Mapping[str, HeadKind | keras.layers.Layer]"
    scales: Mapping[str, tuple[float, float]]
    methods: "Mapping[int, Method]"


@dataclasses.dataclass(eq=False)
class WarmEncoder:
    """An encoder, and the state that runs on it share.

    Attributes:
        encoder: The encoder.
        initial: Each of its weights that has trained, with the loaded value.
        network: Of the last run on it.
        added: The weights that a method added to its blocks for it.
        signature: Of that network.
        ids: Of texts, by `max_length`, `long_texts` and a hash of the texts.
    """

    encoder: "Encoder"
    initial: "dict[int, tuple[keras.Variable, np.ndarray]]" = dataclasses.field(
        default_factory=dict
    )
    network: "Network | None" = None
    added: "dict[int, AddedWeights]" = dataclasses.field(default_factory=dict)
    signature: Signature | None = None
    ids: dict[tuple[int, str, bytes], tokens.Tokens] = dataclasses.field(
        default_factory=dict
    )


class WarmState:
    """State that the runs of a process share: encoders with their networks.

    Attributes:
        runs: The number of runs that began in this process so far.
    """

    runs: ClassVar[int] = 0

    def __init__(self) -> None:
        # The least recently used is the first.
        self._encoders: dict[EncoderKey, WarmEncoder] = {}

    def _find(self, encoder: "Encoder") -> WarmEncoder:
        """The state kept with an encoder; empty if it was loaded elsewhere."""
        for state in self._encoders.values():
            if state.encoder is encoder:
                return state
        return WarmEncoder(encoder)

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
        state = self._encoders.pop(key, None)
        if state is None:
            self._make_room()
            state = WarmEncoder(
                loading.load(
                    model, cache_folder, dropout, precision, seed, keep_blocks
                )
            )
        self._encoders[key] = state
        for weight, value in state.initial.values():
            weight.assign(value)
        state.encoder.added = {}  # a probe has no network that adds its own
        return state.encoder

    def _make_room(self) -> None:
        """Drops the least recently used encoders, before one is loaded."""
        while self._count_parameters() > MOST_PARAMETERS:
            del self._encoders[next(iter(self._encoders))]
        gc.collect()  # programs and networks are circles of references

    def _count_parameters(self) -> int:
        """The number of parameters of all encoders."""
        return sum(
            layer.count_params()
            for state in self._encoders.values()
            for layer in state.encoder.layers
        )

    def remember(
        self, encoder: "Encoder", weights: "Iterable[keras.Variable]"
    ) -> None:
        """Keeps the values of weights that are about to train.

        Args:
            encoder: Whose weights they are.
            weights: As they were loaded; those of heads are left out.
        """
        initial = self._find(encoder).initial
        loaded = {id(w) for layer in encoder.layers for w in layer.weights}
        for weight in weights:
            if id(weight) in loaded and id(weight) not in initial:
                value = np.array(weight.value.numpy())
                initial[id(weight)] = weight, value

    # === The network ===

    def network(
        self,
        encoder: "Encoder",
        heads: dict[str, "keras.layers.Layer"],
        scales: Mapping[str, tuple[float, float]],
        added: "dict[int, AddedWeights]",
    ) -> "Network":
        """A network of these heads; under the strategy's scope.

        It is the network of the encoder's last run, with its programs, if that
        run had heads and added weights that differ only in their values.

        Args:
            encoder: Of the network.
            heads: New heads with their initial weights.
            scales: See `Network`.
            added: New weights of a method, by the number of the block.
        """
        from tf_transfer.models.network import Network

        signature = Signature(
            {name: _describe(head) for name, head in heads.items()},
            scales,
            {number: weights.method for number, weights in added.items()},
        )
        state = self._find(encoder)
        if state.network is None or state.signature != signature:
            encoder.added = state.added = dict(added)
            state.network = Network(encoder, heads, scales)
            state.signature = signature
            return state.network
        encoder.added = state.added
        pairs = [(state.network.heads[n], head) for n, head in heads.items()]
        pairs += [(state.added[n], new) for n, new in added.items()]
        for layer, new in pairs:
            by_path = {w.path: w for w in layer.weights}
            for weight in new.weights:
                by_path[weight.path].assign(weight.value)
        return state.network

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
        cache = self._find(encoder).ids
        key = max_length, long_texts, digest.digest()
        ids = cache.pop(key, None)
        if ids is None:
            ids = tokens.encode(
                encoder.tokenizer.encode,
                encoder.special,
                texts,
                max_length,
                name,
                long_texts,
            )
        cache[key] = ids  # the last one used is the last
        if len(cache) > MOST_SPLITS:
            del cache[next(iter(cache))]
        return ids


def _describe(
    head: "keras.layers.Layer",
) -> "HeadKind | keras.layers.Layer":
    """The properties of a head; itself if it has no `get_config`."""
    try:
        config = head.get_config()
    except NotImplementedError:
        return head
    if type(head).__module__.startswith(OURS):
        config.pop("seed", None)
    weights = [(w.path, tuple(w.shape), w.dtype) for w in head.weights]
    return HeadKind(type(head), config, weights)
