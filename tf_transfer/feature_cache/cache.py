"""`--frozen_prefix=cached`: the frozen blocks run once, training reads.

The prefix runs over every text of a phase in inference mode, and its output is
stored (`store`). Only rows that are not there yet are built, so another seed,
rate, head, batch size or subset starts at once. A deeper cut continues from a
shallower one on disk.

What is stored for a text is the same to the last bit whatever was stored
before: states are rounded below every block (`prefix`), and a batch has the
shape that the text's own length gives it, whatever its other texts.

Rows that find no room run the prefix at every step instead, in the same mode
and rounding, but in the batches of training: a last bit may differ.
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

BATCH_ROWS = 16  # of a batch that the prefix is run on, for each replica


class Devices(Protocol):
    """What the cache asks of devices; see `training.strategy.Devices`."""

    local_replicas: int

    @property
    def is_chief(self) -> bool: ...

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
        also: lower cuts that are stored on the way to a cut, for other runs.
    """

    folder: str
    model: str
    precision: str
    max_length: int
    dtype: str = "float16"
    limit_gb: float | None = None
    also: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class MappedStates:
    """Stored output for the texts of a split; nothing is read yet.

    Attributes:
        vectors: [vectors, width], mapped from the entry's file.
        starts: int64 [texts]. Each text's first vector.
        lengths: int64 [texts]. Vectors of each.
    """

    vectors: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


Source = tuple[FrozenPrefix, store_lib.Entry]


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
        weights: what `prefix.hash_prefixes` returns for the encoder, where that
            is known.

    Attributes:
        options, weights: as given.
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
        weights: Sequence[str] | None = None,
    ) -> None:
        self.options = options
        self.store = store_lib.Store(options.folder)
        self._encoder = encoder
        self._devices = devices
        self._is_stopped = is_stopped
        self._code = code_version(encoder)
        self.weights = weights or prefix_lib.hash_prefixes(encoder)
        self._opened: list[store_lib.Entry] = []

    def attach(
        self,
        prefix: FrozenPrefix,
        splits: dict[str, batches.EncodedSplit],
    ) -> tuple[dict[str, batches.EncodedSplit], BuildCost]:
        """Adds the stored output of a prefix to splits, building what misses.

        Args:
            prefix: of one cut.
            splits: by the names that messages give them, training texts first.

        Returns:
            The splits with stored states, and what these cost.

        Raises:
            UserError: a state does not fit the dtype.
            Interrupted: `is_stopped` said so; what was built is kept.
        """
        texts = rows_lib.Texts(splits)
        entry, indices, cost = self._find(prefix, texts)
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
        return with_states, cost

    def map_states(
        self,
        prefix: FrozenPrefix,
        splits: dict[str, batches.EncodedSplit],
    ) -> tuple[dict[str, MappedStates], BuildCost]:
        """The stored output of a prefix as arrays, building what misses.

        Args:
            prefix, splits: see `attach`.

        Returns:
            The states by split, and what these cost.

        Raises:
            UserError: not all texts find room; or see `attach`.
            Interrupted: see `attach`.
        """
        texts = rows_lib.Texts(splits)
        entry, indices, cost = self._find(prefix, texts)
        if (indices < 0).any():
            raise UserError(
                f"--cache_limit_gb: the pooled states of {len(indices):,} "
                f"texts find no room in {self.store.folder}. Give a larger "
                "limit, or a --cache_dir on a larger disk."
            )
        shape = entry.num_vectors, entry.hidden
        vectors = np.memmap(
            entry.vectors_file,
            tf.as_dtype(entry.key["dtype"]).as_numpy_dtype,
            "r",
            shape=shape,
        )
        mapped = {
            name: MappedStates(
                vectors,
                entry.starts[indices[texts.rows_of(name)]],
                entry.lengths[indices[texts.rows_of(name)]],
            )
            for name in splits
        }
        return mapped, cost

    def _find(
        self, prefix: FrozenPrefix, texts: rows_lib.Texts
    ) -> tuple[store_lib.Entry, np.ndarray, BuildCost]:
        """The entry of a prefix, where it has each text, and what that cost.

        Rows that miss are built; -1 stands for those that found no room.
        """
        started = time.perf_counter()
        were_built = [
            self._build_missing(self._open(lower), lower, texts)
            for lower in map(prefix.shallower, sorted(self.options.also))
            if lower.cut < prefix.cut
        ]
        entry = self._open(prefix)
        was_built = self._build_missing(entry, prefix, texts)
        indices = entry.find(texts.hashes)
        self._report(entry, indices, was_built)
        used = np.unique(indices[indices >= 0])
        cost = BuildCost(
            paid=time.perf_counter() - started
            if any((was_built, *were_built))
            else 0.0,
            original=float(entry.seconds[used].sum()),
        )
        return entry, indices, cost

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
            "weights": self.weights[prefix.cut],
            "cut": prefix.cut,
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

    def _open_sources(self, prefix: FrozenPrefix) -> list[Source]:
        """What is stored of shallower prefixes, the deepest first."""
        if prefix.output == "pooled_blocks":  # reads what lies below, too
            return []
        names = {entry.name for entry in self.store.entries()}
        sources = [
            prefix.shallower(cut) for cut in range(prefix.cut - 1, -1, -1)
        ]
        return [
            (source, self._open(source))
            for source in sources
            if store_lib.name_of(self._key(source)) in names
        ]

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
        try:
            with entry.build_lock(self._print):
                entry.load()  # another process may have built them meanwhile
                missing, damage = _find_missing(entry, texts)
                if damage:
                    self._print(f"{entry.folder}: {damage} Built again.")
                    entry.remove_unreadable()
                if len(missing):
                    self._build_what_fits(entry, prefix, texts, missing)
        except store_lib.DiskFull:
            self._print(
                f"{entry.folder}: is read-only: the frozen blocks run at every "
                f"step for {len(missing):,} texts that it does not have. "
                f"{damage}".rstrip()
            )
            return False
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
        sources = self._open_sources(prefix)
        kept = {entry.folder, *(source.folder for _, source in sources)}
        room = self.store.make_room(
            int(sizes.sum()), self.options.limit_gb, kept
        )
        fits = np.cumsum(sizes) <= room
        if fits.any():
            try:
                self._build(entry, prefix, sources, texts, missing[fits])
            except store_lib.DiskFull:
                self._print(f"{entry.folder}: the disk is full.")

    def _build(
        self,
        entry: store_lib.Entry,
        prefix: FrozenPrefix,
        sources: Sequence[Source],
        texts: rows_lib.Texts,
        rows: np.ndarray,
    ) -> None:
        """Stores the output of the prefix for rows of `texts`.

        It continues from the deepest source that has a row, or from the text.
        """
        for source, stored in sources:
            indices, _ = stored.find_intact([texts.hashes[row] for row in rows])
            here = indices >= 0
            if here.any():
                split = texts.split.take(rows[here])
                split.states = batches.StoredStates(
                    _map_vectors(stored),
                    stored.starts[indices[here]],
                    np.ones(len(split), bool),
                    is_pooled=False,
                    num_cls=source.num_cls,
                )
                self._store(
                    entry,
                    prefix,
                    source,
                    texts,
                    rows[here],
                    split,
                    stored.seconds[indices[here]],
                )
                rows = rows[~here]
        if len(rows):
            self._store(
                entry,
                prefix,
                None,
                texts,
                rows,
                texts.split.take(rows),
                np.zeros(len(rows)),
            )

    def _store(
        self,
        entry: store_lib.Entry,
        prefix: FrozenPrefix,
        source: FrozenPrefix | None,
        texts: rows_lib.Texts,
        rows: np.ndarray,
        split: batches.EncodedSplit,
        source_seconds: np.ndarray,
    ) -> None:
        """Runs the prefix over a split, of `rows`, and stores its output."""
        segment = rows_lib.Segment(entry)
        for index, vectors in self._run(prefix, source, split):
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
        self,
        prefix: FrozenPrefix,
        source: FrozenPrefix | None,
        split: batches.EncodedSplit,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Runs the prefix over a split, the longest texts first.

        Yields:
            The index of a text in the split, and its output
            [vectors, hidden].
        """
        replicas = self._devices.local_replicas
        # Not up to --max_length: runs of other lengths share the rows.
        plan = batches.plan_by_bucket(
            split.lengths,
            BATCH_ROWS * replicas,
            batches.buckets_up_to(self._encoder.max_positions),
        )
        dataset = batches.pipeline(
            split, plan, self._encoder.special.pad, local_replicas=replicas
        )
        program = tf.function(
            functools.partial(prefix.run, self._encoder, source=source),
            reduce_retracing=True,
            autograph=False,
        )
        # One trace for all lengths, in place of two.
        if replicas == 1 and not tf.config.functions_run_eagerly():
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
    devices = [
        tf.config.experimental.get_device_details(device).get("device_name")
        for device in tf.config.list_physical_devices("GPU")
    ]
    parts = (
        encoder.hash_code(),
        inspect.getsource(prefix_lib),
        inspect.getsource(batches.plan_by_bucket),
        batches.BUCKETS,
        BATCH_ROWS,
        tf.__version__,
        devices[:1],
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
