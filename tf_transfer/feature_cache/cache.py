"""`--frozen_prefix=cached`: the frozen blocks run once, training reads.

The prefix runs over every text of a phase in inference mode, in large batches
sorted by length, and its output is stored (`store`). Only rows that are not
there yet are built, so another seed, rate, head, batch size or subset starts
at once. A deeper cut continues from a shallower one on disk.

Rows that find no room run the prefix at every step instead, in the same mode
and rounding: numbers do not depend on the disk.
"""

import dataclasses
import functools
import hashlib
import inspect
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import numpy as np
import tensorflow as tf
import tqdm

from tf_transfer.data import batches
from tf_transfer.feature_cache import prefix as prefix_lib
from tf_transfer.feature_cache import rows as rows_lib
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.feature_cache.prefix import Encoder
from tf_transfer.feature_cache.prefix import FrozenPrefix
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError

BATCH_TOKENS = 16384  # of a batch that the prefix is run on, padding included


class Devices(Protocol):
    """What the cache asks of devices; see `training.strategy.Devices`."""

    local_replicas: int

    @property
    def is_chief(self) -> bool: ...

    def agree(self, *values: float) -> np.ndarray: ...

    def run_local(
        self, program: Callable[..., tf.Tensor], dataset: tf.data.Dataset
    ) -> Iterator[np.ndarray]: ...


@dataclasses.dataclass(frozen=True)
class CacheOptions:
    """Where states are stored, and how they are computed.

    Attributes:
        folder: where all runs keep their caches.
        model: what `--model` says, for people who list the cache.
        precision: Keras dtype policy that the encoder computes in.
        max_length: most tokens of a text.
        dtype: to which prefixes round: `float16`, `bfloat16` or `float32`.
        limit_gb: what all entries may take together, in GB; None: half of
            the free disk, 50 GB at most.
    """

    folder: str
    model: str
    precision: str
    max_length: int
    dtype: str = "float16"
    limit_gb: float | None = None


@dataclasses.dataclass
class BuildCost:
    """Seconds that the stored states cost.

    Attributes:
        paid: by this process, building and waiting for a build.
        original: that building the rows took which are used, whoever did it.
    """

    paid: float
    original: float


class FeatureCache:
    """Stores and reads the output of one encoder's frozen prefixes.

    Args:
        encoder: `models.encoder.Encoder`.
        devices: `training.strategy.Devices`.
        options: where and how.
        is_stopped: whether to leave a build; asked after every text.

    Attributes:
        options: as given.
        store: `store.Store` of the folder.
    """

    options: CacheOptions
    store: store_lib.Store

    def __init__(
        self,
        encoder: Encoder,
        devices: Devices,
        options: CacheOptions,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.options = options
        self.store = store_lib.Store(options.folder)
        self._encoder = encoder
        self._devices = devices
        self._is_stopped = is_stopped
        self._code = code_version(encoder)
        self._weights = prefix_lib.hash_prefixes(encoder)
        self._opened: list[store_lib.Entry] = []

    def attach(
        self,
        prefix: FrozenPrefix,
        splits: dict[str, batches.EncodedSplit],
        cuts: Sequence[int] | None = None,
    ) -> tuple[FrozenPrefix, dict[str, batches.EncodedSplit], BuildCost]:
        """Adds the stored output of a prefix to splits, building what misses.

        Args:
            prefix: of one cut.
            splits: by the names that messages give them, training texts first.
            cuts: the cuts that a resumed run began with; None to choose those
                that need the least work, by what is on disk.

        Returns:
            The prefix with the cuts that were taken, the splits with stored
            states, and what these cost.

        Raises:
            UserError: a state does not fit the dtype.
            Interrupted: `is_stopped` said so; what was built is kept.
        """
        texts = rows_lib.Texts(splits)
        cuts = tuple(cuts or self._choose_cuts(prefix, texts))
        prefix = dataclasses.replace(prefix, cuts=cuts)
        started = time.perf_counter()
        entry = self._open(prefix)
        was_built = self._build_missing(entry, prefix, texts)
        indices = entry.find(texts.hashes)
        self._report(entry, indices, was_built)
        vectors = _map_vectors(entry)
        with_states = {}
        for name, split in splits.items():
            rows = indices[texts.rows_of(name)]
            states = batches.StoredStates(
                vectors,
                _starts(entry, rows),
                rows >= 0,
                is_pooled=prefix.output != "tokens",
                num_cls=prefix.num_cls,
            )
            with_states[name] = dataclasses.replace(split, states=states)
        used = np.unique(indices[indices >= 0])
        cost = BuildCost(
            paid=time.perf_counter() - started if was_built else 0.0,
            original=float(entry.seconds[used].sum()),
        )
        return prefix, with_states, cost

    def close(self) -> None:
        """Marks all entries unused: they may be removed to make room."""
        for entry in self._opened:
            entry.close()
        self._opened = []

    # === Which entry ===

    def _key(self, prefix: FrozenPrefix) -> dict[str, Any]:
        """Everything that shapes what the prefix computes for a row."""
        key = {
            "code": self._code,
            "weights": self._weights[prefix.cut],
            "cuts": list(prefix.cuts),
            "output": prefix.output,
            "dtype": prefix.dtype,
            "precision": self.options.precision,
            "hidden": prefix.width(self._encoder.hidden),
        }
        if prefix.num_cls or prefix.output == "cls_blocks":
            key["cls_from"] = prefix.cls_from
        return key

    def _open(self, prefix: FrozenPrefix) -> store_lib.Entry:
        entry = self.store.open(self._key(prefix), self.options.model)
        self._opened.append(entry)
        return entry

    def _choose_cuts(
        self, prefix: FrozenPrefix, texts: rows_lib.Texts
    ) -> tuple[int, ...]:
        """The cuts that need the least work, the same on all workers.

        First an entry that has every row; then going on from the deepest
        shallower one that has; then an entry that has some; then the text.
        """
        complete: list[tuple[int, ...]] = []
        partial: list[tuple[float, tuple[int, ...]]] = []
        sources: list[tuple[int, int, tuple[int, ...]]] = []
        for entry in self.store.entries():
            cuts = tuple(entry.key.get("cuts", ()))
            if not cuts or cuts[-1] > prefix.cut:
                continue
            is_source = cuts[-1] < prefix.cut
            expected = FrozenPrefix(
                cuts,
                "tokens" if is_source else prefix.output,
                prefix.dtype,
                prefix.cls_from,
            )
            if entry.key != self._key(expected):
                continue
            entry.load()
            share = float(np.mean(entry.find(texts.hashes) >= 0))
            if is_source:
                if share == 1:
                    sources.append((-cuts[-1], len(cuts), cuts))
            elif share == 1:
                complete.append(cuts)
            else:
                partial.append((-share, cuts))
        if complete:
            cuts = min(complete, key=lambda cuts: (len(cuts), cuts))
        elif sources:
            cuts = (*min(sources)[2], prefix.cut)
        elif partial and min(partial)[0] < 0:
            cuts = min(partial)[1]
        else:
            cuts = prefix.cuts
        chosen_by_chief = [
            float(cut in cuts and self._devices.is_chief)
            for cut in range(prefix.cut + 1)
        ]
        agreed = self._devices.agree(*chosen_by_chief)
        return tuple(int(cut) for cut in np.flatnonzero(agreed))

    # === Building ===

    def _build_missing(
        self,
        entry: store_lib.Entry,
        prefix: FrozenPrefix,
        texts: rows_lib.Texts,
    ) -> bool:
        """Builds the rows that are missing. Returns whether any were."""
        missing, damage = _find_missing(entry, texts)
        if not len(missing) and not damage:
            return False
        with entry.build_lock(self._print):
            entry.load()  # another process may have built them meanwhile
            missing, damage = _find_missing(entry, texts)
            if damage:
                self._print(f"{entry.folder}: {damage} Built again.")
                entry.remove_unreadable()
            if len(missing):
                self._build_what_fits(entry, prefix, texts, missing)
        return True

    def _build_what_fits(
        self,
        entry: store_lib.Entry,
        prefix: FrozenPrefix,
        texts: rows_lib.Texts,
        missing: np.ndarray,
    ) -> None:
        """Runs the prefix over missing rows, as many as find room."""
        num_vectors = texts.split.tokens.lengths[missing].astype(np.int64)
        num_vectors += prefix.num_cls
        if prefix.output != "tokens":
            num_vectors = np.ones_like(num_vectors)
        sizes = num_vectors * entry.vector_bytes + store_lib.ROW_BYTES
        source = self._open(prefix.source) if prefix.source else None
        kept = {entry.folder, *([source.folder] if source else ())}
        room = self.store.make_room(
            int(sizes.sum()), self.options.limit_gb, kept
        )
        fits = np.cumsum(sizes) <= room
        if fits.any():
            try:
                self._build(entry, prefix, source, texts, missing[fits])
            except store_lib.DiskFull:
                self._print(f"{entry.folder}: the disk is full.")

    def _build(
        self,
        entry: store_lib.Entry,
        prefix: FrozenPrefix,
        source: store_lib.Entry | None,
        texts: rows_lib.Texts,
        rows: np.ndarray,
    ) -> None:
        """Runs the prefix over rows of `texts`, and stores its output."""
        split = texts.split.take(rows)
        source_seconds = np.zeros(len(rows))
        if source is not None:
            indices, _ = source.find_intact([texts.hashes[row] for row in rows])
            is_stored = indices >= 0
            source_seconds[is_stored] = source.seconds[indices[is_stored]]
            if is_stored.any():
                split.states = batches.StoredStates(
                    _map_vectors(source),
                    _starts(source, indices),
                    is_stored,
                    is_pooled=False,
                    num_cls=prefix.source.num_cls if prefix.source else 0,
                )
        segment = rows_lib.Segment(entry)
        for index, vectors in self._run(prefix, split):
            row = rows[index]
            if not np.isfinite(vectors.astype(np.float32)).all():
                raise _does_not_fit(prefix.dtype, *texts.locate(row))
            segment.add(texts.hashes[row], vectors, source_seconds[index])
            if self._is_stopped():
                segment.commit()
                raise Interrupted(
                    "Stopped. The output of the frozen blocks so far is kept, "
                    "and the same command continues there."
                )
        segment.commit()

    def _run(
        self, prefix: FrozenPrefix, split: batches.EncodedSplit
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Runs the prefix over a split, the longest texts first.

        Yields:
            The index of a text in the split, and its output
            [vectors, hidden].
        """
        replicas = self._devices.local_replicas
        max_length = self.options.max_length
        size = max(1, BATCH_TOKENS // max_length)
        size = -(-min(size, len(split)) // replicas) * replicas
        plan = batches.plan_evaluation(
            split.lengths, size, replicas, batches.buckets_up_to(max_length)
        )
        dataset = batches.pipeline(
            split, plan, self._encoder.special.pad, local_replicas=replicas
        )
        program = tf.function(
            functools.partial(prefix.run, self._encoder),
            reduce_retracing=True,
            autograph=False,
        )
        if replicas == 1:  # one trace for all lengths, in place of two
            program.get_concrete_function(dataset.element_spec)
        with tqdm.tqdm(
            total=int(split.tokens.lengths.sum()),
            desc=f"running {prefix.cut} frozen blocks once",
            unit=" tokens",
            unit_scale=True,
            leave=False,
            file=sys.stderr,
            disable=None if self._devices.is_chief else True,
        ) as bar:
            outputs = self._devices.run_local(program, dataset)
            for step, output in enumerate(outputs):
                count = plan.counts[step]
                for index, vectors in zip(plan.rows[step, :count], output):
                    length = int(split.tokens.lengths[index])
                    if vectors.ndim == 2:
                        vectors = vectors[: prefix.num_cls + length]
                    else:
                        vectors = vectors[None]
                    yield int(index), vectors
                    bar.update(length)

    # === Messages ===

    def _print(self, line: str) -> None:
        if self._devices.is_chief:
            print(line, flush=True)

    def _report(
        self, entry: store_lib.Entry, indices: np.ndarray, was_built: bool
    ) -> None:
        missing = int((indices < 0).sum())
        self._print(
            f"Feature cache: {len(indices) - missing:,} of {len(indices):,} "
            f"texts in {formatting.size(entry.num_bytes)}"
            f"{', built now' if was_built else ''}: {entry.folder}"
        )
        if missing:
            limit = self.store.limit(self.options.limit_gb)
            self._print(
                f"{missing:,} texts do not fit --cache_limit_gb "
                f"({formatting.size(limit)}) or the disk: their frozen "
                "blocks run at every step."
            )


def _find_missing(
    entry: store_lib.Entry, texts: rows_lib.Texts
) -> tuple[np.ndarray, str]:
    """Which distinct rows are missing, and a sentence on what is damaged.

    Damaged rows are missing, too, and left out of the entry.
    """
    indices, num_damaged = entry.find_intact(texts.hashes)
    damage = ""
    if entry.was_replaced:
        damage = "entry.json is damaged or another entry's."
        entry.was_replaced = False
    elif num_damaged or entry.unreadable:
        damage = (
            f"{num_damaged:,} rows and {len(entry.unreadable)} lists of rows "
            "are damaged."
        )
    return np.flatnonzero((indices < 0) & texts.is_distinct), damage


def _does_not_fit(dtype: str, name: str, example: int) -> UserError:
    advice = "The encoder's weights may be damaged."
    if dtype == "float16":
        advice = (
            "Give --cache_dtype=bfloat16 or float32, or --frozen_prefix=live."
        )
    return UserError(
        f"--cache_dtype={dtype}: the output of the frozen blocks for {name} "
        f"example {example} is not finite or too large for it. {advice}"
    )


def _map_vectors(entry: store_lib.Entry) -> tf.Tensor:
    """An entry's vectors as a tensor, mapped: nothing is read yet."""
    dtype = tf.as_dtype(entry.key["dtype"])
    with tf.device("CPU:0"):
        if not entry.num_vectors:
            return tf.zeros([1, entry.hidden], dtype)
        return tf.raw_ops.ImmutableConst(
            dtype=dtype,
            shape=[entry.num_vectors, entry.hidden],
            memory_region_name=entry.vectors_file,
        )


def _starts(entry: store_lib.Entry, indices: np.ndarray) -> np.ndarray:
    """First vectors of rows; anything where a row is missing."""
    if not len(entry.starts):
        return np.zeros(len(indices), np.int64)
    return entry.starts[indices]


def code_version(encoder: Encoder) -> str:
    """A hash of the code that computes a prefix, and of its libraries."""
    code = encoder.hash_code() + inspect.getsource(prefix_lib)
    return hashlib.sha256(code.encode()).hexdigest()[:16]
