"""The frozen blocks run once; training reads their stored output.

That is `--frozen_prefix=cached`. The prefix runs over every text of a phase in
inference mode, and its output is stored (`store`), a row per text. Only missing
rows are built, so another seed, rate, head, batch size or subset starts at
once. One pass stores every cut, which is a number of frozen blocks, that is
asked for.

If a text is not stored, TensorFlow runs its prefix at every step, in the same
mode and rounding.
"""

import contextlib
import dataclasses
import hashlib
import inspect
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tf_transfer.data.encoded_split import EncodedSplit, StoredStates
from tf_transfer.feature_cache import (
    engines,
    rows as rows_lib,
    store as store_lib,
    vectors as vectors_lib,
)
from tf_transfer.models import prefix as prefix_lib
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.utils import formatting, machine, screen
from tf_transfer.utils.errors import Interrupted, RunError
from tf_transfer.utils.json_files import Record

SEGMENT_BYTES = 2**28  # stored at a time: a kill loses at most one segment
SEGMENT_SECONDS = 60
ANNOUNCED_BYTES = 10**8  # a pass that writes more says so before it begins


@dataclasses.dataclass(frozen=True)
class CacheOptions:
    """Where states are stored, and how they are computed.

    Attributes:
        folder: The cache folder that all runs share.
        model: `--model`, for people who list the cache.
        precision: The arithmetic of the encoder: `float32`, `tf32` or
            `bfloat16`. TensorFlow takes it in place of an unusable OpenVINO.
        engine: `tensorflow` or `openvino`.
        engine_precision: The arithmetic of `engine`.
        dtype: Dtype to which states are rounded: `float16`, `bfloat16` or
            `float32`.
        limit_gb: Maximum size of all entries in GB; None for half of the free
            disk, 50 GB at most.
        also: Lower cuts that are stored in the same pass, for other runs.
    """

    folder: str
    model: str
    precision: str = "float32"
    engine: str = "tensorflow"
    engine_precision: str = "float32"
    dtype: str = "float16"
    limit_gb: float | None = None
    also: tuple[int, ...] = ()


@dataclasses.dataclass
class BuildCost:
    """Seconds that the stored states cost.

    Attributes:
        paid: By this process, building and waiting for a build.
        original: Time of the passes that built the rows in use, whichever
            process did it.
        traced: By this process, tracing, converting and compiling. The others
            leave it out.
    """

    paid: float
    original: float
    traced: float


@dataclasses.dataclass
class _Target:
    """A prefix, and the entry that stores its output.

    Attributes:
        entry: The entry.
        prefix: The prefix.
        rows: The texts that the pass has to store.
        pending: Hash and vectors of the rows that are not stored yet.
    """

    entry: store_lib.Entry
    prefix: FrozenPrefix
    rows: set[int] = dataclasses.field(default_factory=set)
    pending: dict[bytes, np.ndarray] = dataclasses.field(default_factory=dict)

    def find_missing(self, texts: rows_lib.Texts) -> tuple[np.ndarray, str]:
        """The distinct rows that are missing, and a clause on what is damaged.

        Damaged rows are missing from now on.
        """
        vectors, damage = self.entry.vectors, ""
        indices, num_damaged = vectors.find_intact(texts.hashes)
        if self.entry.was_replaced:
            damage = "entry.json is damaged or another entry's"
        elif num_damaged or vectors.unreadable:
            lists = len(vectors.unreadable)
            damage = (
                f"{num_damaged:,} rows and {lists} lists of rows are damaged"
            )
        return texts.distinct(np.flatnonzero(indices < 0)), damage

    def row_bytes(self, texts: rows_lib.Texts, rows: np.ndarray) -> np.ndarray:
        """int64 [rows]. Size of rows of `texts` in the files of the entry."""
        num_vectors = np.ones(len(rows), np.int64)
        if self.prefix.output == "tokens":
            lengths = texts.split.tokens.lengths[rows].astype(np.int64)
            num_vectors = lengths + self.prefix.num_cls
        return (
            num_vectors * self.entry.vectors.vector_bytes
            + vectors_lib.ROW_BYTES
        )

    def append_pending(self, seconds: float) -> None:
        """Stores what is pending as a segment.

        Args:
            seconds: Of the pass since the last call. Every entry records all
                of them, as if it had been the only one.
        """
        if self.pending:
            vectors = [*self.pending.values()]
            self.entry.vectors.append(
                [*self.pending], [*map(len, vectors)], vectors, seconds
            )
            self.pending = {}

    def map_states(self, indices: np.ndarray) -> StoredStates:
        """The stored output of some texts; nothing is read yet.

        Args:
            indices: int64 [texts]. See `VectorFile.find`.
        """
        stored, hidden = self.entry.vectors, self.entry.hidden
        dtype = tf.as_dtype(self.prefix.dtype).as_numpy_dtype
        vectors = np.zeros([1, hidden], dtype)
        # A truncated file holds the vectors of intact rows all the same.
        count = min(stored.num_vectors, stored.num_readable)
        if count:
            vectors = np.memmap(stored.path, dtype, "r", shape=(count, hidden))
        return StoredStates(
            vectors,
            np.append(stored.table["start"], 0)[indices],
            indices >= 0,
            is_pooled=self.prefix.output != "tokens",
            num_cls=self.prefix.num_cls,
        )


class FeatureCache:
    """Stores and reads the output of one encoder's frozen prefixes.

    Args:
        encoder: `models.encoder.Encoder`.
        devices: `training.strategy.Devices`.
        options: Where and how.
        is_stopped: Whether to leave a build; called after every text.
        weights: `prefix.hash_prefixes` of the encoder, if known.

    Attributes:
        options, weights: As given.
        engine: `engine` and `engine_precision` of the options, or TensorFlow's
            if OpenVINO turned out to be unusable.
        store: `store.Store` of the folder.
    """

    def __init__(
        self,
        encoder: Encoder,
        devices: engines.Devices,
        options: CacheOptions,
        is_stopped: Callable[[], bool] = lambda: False,
        weights: Sequence[str] | None = None,
    ) -> None:
        self.options = options
        self.engine = options.engine, options.engine_precision
        self.store = store_lib.Store(options.folder)
        self._encoder = encoder
        self._devices = devices
        self._is_stopped = is_stopped
        self._code = code_version(encoder)
        self.weights = weights or prefix_lib.hash_prefixes(encoder)
        self._opened = contextlib.ExitStack()
        self._disk_full: vectors_lib.DiskFull | None = None
        self._trace_seconds = 0.0  # of the latest `attach`
        self._has_grown = False

    def attach(
        self,
        prefix: FrozenPrefix,
        splits: dict[str, EncodedSplit],
        needs_all: bool = False,
        also: Sequence[int] = (),
    ) -> tuple[dict[str, EncodedSplit], BuildCost]:
        """Adds the stored output of a prefix to splits; builds what is missing.

        Args:
            prefix: The prefix of one cut.
            splits: Splits by the names for messages, training texts first.
            needs_all: Whether a text that is not stored is an error.
            also: Further cuts to store, besides those of the options.

        Returns:
            The splits with stored states, and what these cost.

        Raises:
            RunError: A state does not fit the dtype; with `needs_all`, a
                text is not stored.
            Interrupted: `is_stopped` returned True; built rows are stored.
        """
        started = time.perf_counter()
        texts = rows_lib.Texts(splits)
        self._disk_full, self._trace_seconds = None, 0.0
        further = sorted({*self.options.also, *also})
        prefixes = [prefix] + [
            prefix.at(cut) for cut in further if cut < prefix.cut
        ]
        try:
            target, was_built = self._fill(prefixes, texts)
        except engines.Unusable as error:
            screen.say(f"{error} TensorFlow runs the frozen blocks.")
            self.engine = "tensorflow", self.options.precision
            target, was_built = self._fill(prefixes, texts)
        entry = target.entry
        indices = entry.vectors.find(texts.hashes)
        missing = np.flatnonzero(indices < 0)
        built = f", built now by {' in '.join(self.engine)}"
        screen.say(
            f"Feature cache: {len(indices) - len(missing):,} of "
            f"{len(indices):,} "
            f"texts in {formatting.size(entry.num_bytes)}"
            f"{built if was_built else ''}: {entry.folder}"
        )
        if len(missing):
            sizes = target.row_bytes(texts, texts.distinct(missing))
            self._report_missing(len(missing), sizes.sum(), needs_all)
        used = np.unique(indices[indices >= 0])
        cost = BuildCost(
            paid=0.0,
            original=float(entry.vectors.table["seconds"][used].sum()),
            traced=self._trace_seconds,
        )
        if was_built:
            cost.paid = time.perf_counter() - started - cost.traced
        with_states = {
            name: dataclasses.replace(
                split,
                states=target.map_states(indices[texts.slices[name]]),
            )
            for name, split in splits.items()
        }
        return with_states, cost

    def close(self) -> None:
        """Marks all entries unused: they may be removed to make room.

        If this cache has stored something, it shows the size of the folder.
        """
        self._opened.close()
        if self._has_grown:
            screen.say(
                f"Feature cache: {formatting.size(self.store.num_bytes)} of "
                f"all runs in {self.store.folder}. python -m tf_transfer.cache "
                "lists it, and with --clear deletes it."
            )

    def _open(self, prefix: FrozenPrefix) -> store_lib.Entry:
        """The entry of everything that shapes the prefix's output for a row."""
        engine, precision = self.engine
        key: Record = {
            "code": self._code,
            "weights": self.weights[prefix.cut],
            "cut": prefix.cut,
            "output": prefix.output,
            "dtype": prefix.dtype,
            "engine": f"{engine} {machine.versions()[engine]}",
            "precision": precision,
            "hidden": prefix.width(self._encoder.hidden),
        }
        if prefix.num_cls or prefix.output == "cls_blocks":
            key["cls_from"] = prefix.cls_from
        entry = self.store.open(key, self.options.model)
        return self._opened.enter_context(contextlib.closing(entry))

    # === Building ===

    def _fill(
        self, prefixes: Sequence[FrozenPrefix], texts: rows_lib.Texts
    ) -> tuple[_Target, bool]:
        """Builds what the entries of prefixes lack.

        Returns:
            The first prefix with its entry, and whether anything was missing
            that could be built.
        """
        targets = [_Target(self._open(one), one) for one in prefixes]
        was_built = False
        for target in targets:
            missing, damage = target.find_missing(texts)
            if damage:
                screen.say(
                    f"{target.entry.folder}: {damage}. Missing texts are "
                    "computed again."
                )
            was_built = was_built or bool(damage) or len(missing) > 0
        if not was_built:
            return targets[0], False
        try:
            with contextlib.ExitStack() as locks:
                # In one order: two processes may want the same locks.
                for target in sorted(targets, key=lambda one: one.entry.name):
                    locks.enter_context(target.entry.build_lock())
                self._plan_rows(targets, texts)
                self._build([one for one in targets if one.rows], texts)
        except vectors_lib.DiskFull as error:
            self._disk_full = error
            was_built = not isinstance(error, vectors_lib.ReadOnly)
        return targets[0], was_built

    def _plan_rows(
        self, targets: Sequence[_Target], texts: rows_lib.Texts
    ) -> None:
        """Gives each target the rows that it lacks, as far as there is room."""
        missing = [target.find_missing(texts)[0] for target in targets]
        sizes = [
            target.row_bytes(texts, rows)
            for target, rows in zip(targets, missing)
        ]
        room = self.store.make_room(
            sum(int(size.sum()) for size in sizes),
            self.options.limit_gb,
            {target.entry.folder for target in targets},
        )
        written = 0
        for target, rows, size in zip(targets, missing, sizes):
            fits = np.cumsum(size) <= room - written
            target.rows = set(rows[fits].tolist())
            written += int(size[fits].sum())
        self._has_grown |= written > 0
        if written > ANNOUNCED_BYTES:
            screen.say(
                f"Feature cache: this pass writes {formatting.size(written)} "
                f"to {self.store.folder}. --cache_dir moves the cache, and "
                "--cache_limit_gb limits it."
            )

    def _build(self, targets: Sequence[_Target], texts: rows_lib.Texts) -> None:
        """Runs one pass, and stores in each target the rows that it lacks."""
        if not targets:
            return
        rows = np.array(sorted(set().union(*(one.rows for one in targets))))
        began = time.perf_counter()
        try:
            states = engines.run(
                self.engine,
                self._encoder,
                [target.prefix for target in targets],
                texts.split.take(rows),
                self._devices,
            )
        finally:  # a compilation that fails takes seconds too
            self._trace_seconds += time.perf_counter() - began
        size, started = 0, time.perf_counter()
        for index, outputs in states:
            row = int(rows[index])
            for target, vectors in zip(targets, outputs):
                if row in target.rows:
                    self._check(vectors, texts, row)
                    target.pending[texts.hashes[row]] = vectors
                    size += vectors.nbytes
            age = time.perf_counter() - started
            is_stopped = self._is_stopped()
            if is_stopped or size >= SEGMENT_BYTES or age > SEGMENT_SECONDS:
                for target in targets:
                    target.append_pending(age)
                size, started = 0, time.perf_counter()
            if is_stopped:
                raise Interrupted(
                    "Stopped. The output of the frozen blocks so far is "
                    "stored; the same command continues there."
                )
        age = time.perf_counter() - started
        for target in targets:
            target.append_pending(age)

    def _check(
        self, vectors: np.ndarray, texts: rows_lib.Texts, row: int
    ) -> None:
        """Raises `RunError` if a text's output does not fit the dtype."""
        if np.isfinite(vectors.astype(np.float32)).all():
            return
        name, example = texts.locate(row)
        dtype = self.options.dtype
        advice = "The encoder's weights may be damaged."
        if dtype == "float16":
            advice = (
                "Give --cache_dtype=bfloat16 or float32, or "
                "--frozen_prefix=live."
            )
        raise RunError(
            "--cache_dtype: the output of the frozen blocks for "
            f"{name} example {example} is not finite or too large for "
            f"{dtype} (bfloat16 and float32 hold larger numbers). {advice}"
        )

    # === Messages ===

    def _report_missing(self, count: int, size: float, needs_all: bool) -> None:
        """Reports texts that are not stored, as an error if all are needed."""
        if needs_all:
            raise RunError(
                f"--cache_limit_gb: the states of {count:,} texts "
                f"({formatting.size(size)}) find no room in "
                f"{self.store.folder}. Give a larger limit, or a cache folder "
                "on a larger disk."
            ) from self._disk_full
        limit = formatting.size(self.store.limit(self.options.limit_gb))
        reason = f"do not fit --cache_limit_gb ({limit})"
        if self._disk_full:
            reason = f"are not stored ({self._disk_full})"
        screen.say(
            f"{count:,} texts {reason}: their frozen blocks run at every step."
        )


def code_version(encoder: Encoder) -> str:
    """A hash of the code that computes a prefix, and of its libraries."""
    devices = [
        tf.config.experimental.get_device_details(device).get("device_name")
        for device in tf.config.list_physical_devices("GPU")
    ]
    parts = (
        encoder.hash_code(),
        inspect.getsource(prefix_lib),
        engines.choose_batch_texts(),
        tf.__version__,
        devices[:1],
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
