"""`--frozen_prefix=cached`: the frozen blocks run once, training reads.

The prefix runs over every text of a phase in inference mode, and its output is
stored (`store`). Only missing rows are built, so another seed, rate, head,
batch size or subset starts at once. A deeper cut continues from a shallower
one on disk.

The stored output of a text is the same to the last bit whatever was stored
before: states are rounded below every block (`prefix`), and a batch has the
shape that the text's own length gives it, whatever its other texts.

For texts that are not stored the prefix runs at every step, in the same mode
and rounding. It runs in the batches of training, so a last bit may differ.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
import tqdm

from tf_transfer.data import batches
from tf_transfer.feature_cache import (
    prefix as prefix_lib,
    rows as rows_lib,
    store as store_lib,
)
from tf_transfer.feature_cache.prefix import Encoder, FrozenPrefix
from tf_transfer.utils import formatting, tracing
from tf_transfer.utils.errors import Interrupted, UserError

SEGMENT_BYTES = 2**28  # stored at a time: a kill loses at most one segment
SEGMENT_SECONDS = 60


class Devices(Protocol):
    """What the cache asks of devices; see `training.strategy.Devices`."""

    replicas: int

    def run(
        self, program: Callable[..., tf.Tensor], dataset: tf.data.Dataset
    ) -> Iterator[np.ndarray]: ...


@dataclasses.dataclass(frozen=True)
class CacheOptions:
    """Where states are stored, and how they are computed.

    Attributes:
        folder: the cache folder that all runs share.
        model: `--model`, for people who list the cache.
        precision: the value of `--precision`.
        dtype: dtype to which states are rounded: `float16`, `bfloat16` or
            `float32`.
        limit_gb: maximum size of all entries in GB; None for half of the free
            disk, 50 GB at most.
        also: lower cuts that are stored on the way to a cut, for other runs.
    """

    folder: str
    model: str
    precision: str
    dtype: str = "float16"
    limit_gb: float | None = None
    also: tuple[int, ...] = ()


@dataclasses.dataclass
class BuildCost:
    """Seconds that the stored states cost.

    Attributes:
        paid: by this process, building and waiting for a build.
        original: time to build the rows in use, whichever process did it.
        traced: by this process, tracing. The others leave it out.
    """

    paid: float
    original: float
    traced: float


class FeatureCache:
    """Stores and reads the output of one encoder's frozen prefixes.

    Args:
        encoder: `models.encoder.Encoder`.
        devices: `training.strategy.Devices`.
        options: where and how.
        is_stopped: whether to leave a build; called after every text.
        weights: `prefix.hash_prefixes` of the encoder, if known.

    Attributes:
        options, weights: as given.
        store: `store.Store` of the folder.
    """

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
        self._opened = contextlib.ExitStack()
        self._disk_full: store_lib.DiskFull | None = None
        self._trace_seconds = 0.0  # of the latest `attach`

    def attach(
        self,
        prefix: FrozenPrefix,
        splits: dict[str, batches.EncodedSplit],
        needs_all: bool = False,
    ) -> tuple[dict[str, batches.EncodedSplit], BuildCost]:
        """Adds the stored output of a prefix to splits; builds what is missing.

        Args:
            prefix: the prefix of one cut.
            splits: splits by the names for messages, training texts first.
            needs_all: whether a text that is not stored is an error.

        Returns:
            The splits with stored states, and what these cost.

        Raises:
            UserError: a state does not fit the dtype; with `needs_all`, a
                text is not stored.
            Interrupted: `is_stopped` returned True; built rows are stored.
        """
        started = time.perf_counter()
        texts = rows_lib.Texts(splits)
        self._disk_full, self._trace_seconds = None, 0.0
        prefixes = [
            prefix.shallower(cut)
            for cut in sorted(self.options.also)
            if cut < prefix.cut
        ]
        prefixes.append(prefix)
        entries = [self._open(one) for one in prefixes]
        were_built = [
            self._build_missing(one, its_prefix, texts)
            for one, its_prefix in zip(entries, prefixes)
        ]
        entry = entries[-1]
        indices = entry.find(texts.hashes)
        missing = np.flatnonzero(indices < 0)
        print(
            f"Feature cache: {len(indices) - len(missing):,} of "
            f"{len(indices):,} "
            f"texts in {formatting.size(entry.num_bytes)}"
            f"{', built now' if were_built[-1] else ''}: {entry.folder}",
            flush=True,
        )
        if len(missing):
            sizes = _row_bytes(entry, prefix, texts, texts.distinct(missing))
            self._report_missing(len(missing), sizes.sum(), needs_all)
        used = np.unique(indices[indices >= 0])
        cost = BuildCost(
            paid=0.0,
            original=float(entry.table["seconds"][used].sum()),
            traced=self._trace_seconds,
        )
        if any(were_built):
            cost.paid = time.perf_counter() - started - cost.traced
        with_states = {
            name: dataclasses.replace(
                split,
                states=_map_states(entry, prefix, indices[texts.slices[name]]),
            )
            for name, split in splits.items()
        }
        return with_states, cost

    def close(self) -> None:
        """Marks all entries unused: they may be removed to make room."""
        self._opened.close()

    # === Which entry ===

    def _key(self, prefix: FrozenPrefix) -> dict[str, Any]:
        """Everything that shapes the output of the prefix for a row."""
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
        return self._opened.enter_context(contextlib.closing(entry))

    def _open_sources(
        self, prefix: FrozenPrefix
    ) -> list[tuple[FrozenPrefix, store_lib.Entry]]:
        """Stored shallower prefixes and their entries, the deepest first."""
        if prefix.output == "pooled_blocks":  # reads every block's states
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
        """Builds the rows that are missing. Returns whether it could."""
        missing, damage = _find_missing(entry, texts)
        if damage:
            print(
                f"{entry.folder}: {damage}. Missing texts are computed again.",
                flush=True,
            )
        elif not len(missing):
            return False
        try:
            with entry.build_lock():
                missing, _ = _find_missing(entry, texts)
                if len(missing):
                    self._build(entry, prefix, texts, missing)
        except store_lib.DiskFull as error:
            self._disk_full = error
            return not isinstance(error, store_lib.ReadOnly)
        return True

    def _build(
        self,
        entry: store_lib.Entry,
        prefix: FrozenPrefix,
        texts: rows_lib.Texts,
        rows: np.ndarray,
    ) -> None:
        """Stores the output of the prefix for as many rows as find room.

        It continues from the deepest source that has a row, or from the text.
        """
        sizes = _row_bytes(entry, prefix, texts, rows)
        sources = self._open_sources(prefix)
        room = self.store.make_room(
            int(sizes.sum()),
            self.options.limit_gb,
            {entry.folder, *(stored.folder for _, stored in sources)},
        )
        rows = rows[np.cumsum(sizes) <= room]
        for source, stored in sources:
            indices, _ = stored.find_intact([texts.hashes[row] for row in rows])
            is_there = indices >= 0
            indices = indices[is_there]
            split = texts.split.take(rows[is_there])
            split.states = _map_states(stored, source, indices)
            seconds = stored.table["seconds"][indices]
            self._store(
                entry, prefix, source, texts, rows[is_there], split, seconds
            )
            rows = rows[~is_there]
        split = texts.split.take(rows)
        self._store(
            entry, prefix, None, texts, rows, split, np.zeros(len(rows))
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
        if not len(split):
            return
        pending: list[tuple[bytes, np.ndarray, float]] = []
        outputs = self._run(prefix, source, split)
        size, started = 0, time.perf_counter()
        for index, vectors in outputs:
            row = rows[index]
            if not np.isfinite(vectors.astype(np.float32)).all():
                name, example = texts.locate(row)
                advice = "The encoder's weights may be damaged."
                if prefix.dtype == "float16":
                    advice = (
                        "Give --cache_dtype=bfloat16 or float32, or "
                        "--frozen_prefix=live."
                    )
                raise UserError(
                    "--cache_dtype: the output of the frozen blocks for "
                    f"{name} example {example} is not finite or too large for "
                    f"{prefix.dtype} (bfloat16 and float32 hold larger "
                    f"numbers). {advice}"
                )
            pending.append((texts.hashes[row], vectors, source_seconds[index]))
            size += vectors.nbytes
            age = time.perf_counter() - started
            is_stopped = self._is_stopped()
            if is_stopped or size >= SEGMENT_BYTES or age > SEGMENT_SECONDS:
                _append(entry, pending, age)
                pending, size, started = [], 0, time.perf_counter()
            if is_stopped:
                raise Interrupted(
                    "Stopped. The output of the frozen blocks so far is "
                    "stored; the same command continues there."
                )
        _append(entry, pending, time.perf_counter() - started)

    def _run(
        self,
        prefix: FrozenPrefix,
        source: FrozenPrefix | None,
        split: batches.EncodedSplit,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Traces the prefix, to run it over a split, the longest texts first.

        Returns:
            The index of each text in the split, and its output
            [vectors, hidden], which are computed when they are asked for.
        """
        replicas = self._devices.replicas
        # Not up to --max_length: runs of other lengths share the rows.
        plan = batches.plan_by_bucket(
            split.lengths,
            choose_batch_rows() * replicas,
            batches.buckets_up_to(self._encoder.max_positions),
        )
        dataset = batches.pipeline(
            split, plan, self._encoder.special.pad, replicas
        )
        program = tf.function(
            functools.partial(prefix.run, self._encoder, source=source),
            reduce_retracing=True,
            autograph=False,
        )
        if replicas == 1:  # one trace for all lengths, in place of two
            self._trace_seconds += tracing.trace(program, dataset.element_spec)
        outputs = self._devices.run(program, dataset)
        return self._iterate(prefix, split, plan, outputs)

    def _iterate(
        self,
        prefix: FrozenPrefix,
        split: batches.EncodedSplit,
        plan: batches.BatchPlan,
        outputs: Iterable[np.ndarray],
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields what `_run` returns, from the outputs of a plan's batches."""
        with tqdm.tqdm(
            total=int(split.tokens.lengths.sum()),
            desc=f"running {prefix.cut} frozen blocks once",
            unit=" tokens",
            unit_scale=True,
            leave=False,
            file=sys.stderr,
            disable=None,
        ) as bar:
            for step, output in enumerate(outputs):
                count = plan.counts[step]
                for index, vectors in zip(plan.rows[step, :count], output):
                    length = int(split.tokens.lengths[index])
                    vectors = np.atleast_2d(vectors)
                    yield int(index), vectors[: prefix.num_cls + length]
                    bar.update(length)

    # === Messages ===

    def _report_missing(self, count: int, size: float, needs_all: bool) -> None:
        """Reports texts that are not stored, as an error if all are needed."""
        if needs_all:
            raise UserError(
                f"--cache_limit_gb: the states of {count:,} texts "
                f"({formatting.size(size)}) find no room in "
                f"{self.store.folder}. Give a larger limit, or a cache folder "
                "on a larger disk."
            ) from self._disk_full
        limit = formatting.size(self.store.limit(self.options.limit_gb))
        reason = f"do not fit --cache_limit_gb ({limit})"
        if self._disk_full:
            reason = f"are not stored ({self._disk_full})"
        print(
            f"{count:,} texts {reason}: their frozen blocks run at every step.",
            flush=True,
        )


def _append(
    entry: store_lib.Entry,
    rows: Sequence[tuple[bytes, np.ndarray, float]],
    seconds: float,
) -> None:
    """Stores rows as a segment; see `Entry.append`.

    Args:
        entry: the entry to extend.
        rows: hash, vectors [vectors, hidden], and the seconds spent on the row
            in the entry that it continues.
        seconds: the seconds spent on all rows now.
    """
    if rows:
        hashes, vectors, earlier = zip(*rows)
        lengths = [*map(len, vectors)]
        entry.append(hashes, lengths, vectors, seconds + sum(earlier))


def _find_missing(
    entry: store_lib.Entry, texts: rows_lib.Texts
) -> tuple[np.ndarray, str]:
    """The distinct rows that are missing, and a clause on what is damaged.

    Damaged rows are missing from now on.
    """
    indices, num_damaged = entry.find_intact(texts.hashes)
    damage = ""
    if entry.was_replaced:
        damage = "entry.json is damaged or another entry's"
    elif num_damaged or entry.unreadable:
        damage = (
            f"{num_damaged:,} rows and {len(entry.unreadable)} lists of rows "
            "are damaged"
        )
    return texts.distinct(np.flatnonzero(indices < 0)), damage


def _row_bytes(
    entry: store_lib.Entry,
    prefix: FrozenPrefix,
    texts: rows_lib.Texts,
    rows: np.ndarray,
) -> np.ndarray:
    """int64 [rows]. Size of rows of `texts` in the files of an entry."""
    lengths = texts.split.tokens.lengths[rows].astype(np.int64)
    is_pooled = prefix.output != "tokens"
    num_vectors = np.where(is_pooled, 1, lengths + prefix.num_cls)
    return num_vectors * entry.vector_bytes + store_lib.ROW_BYTES


def _map_states(
    entry: store_lib.Entry, prefix: FrozenPrefix, indices: np.ndarray
) -> batches.StoredStates:
    """The stored output of some texts; nothing is read yet.

    Args:
        entry: the entry of the prefix.
        prefix: gives the layout of a text's vectors.
        indices: int64 [texts]. See `Entry.find`.
    """
    dtype = tf.as_dtype(entry.key["dtype"]).as_numpy_dtype
    vectors = np.zeros([1, entry.hidden], dtype)
    # A truncated file holds the vectors of intact rows all the same.
    count = min(entry.num_vectors, entry.num_readable)
    if count:
        shape = count, entry.hidden
        vectors = np.memmap(entry.vectors_file, dtype, "r", shape=shape)
    return batches.StoredStates(
        vectors,
        np.append(entry.table["start"], 0)[indices],
        indices >= 0,
        is_pooled=prefix.output != "tokens",
        num_cls=prefix.num_cls,
    )


def choose_batch_rows() -> int:
    """Texts per batch and replica: 128 on a GPU, 16 on a CPU."""
    return 128 if tf.config.list_physical_devices("GPU") else 16


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
        choose_batch_rows(),
        tf.__version__,
        devices[:1],
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
