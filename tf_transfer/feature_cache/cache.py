"""`--frozen_prefix=cached`: the frozen blocks run once, training reads.

The prefix runs over every text of a phase in inference mode, in large batches
sorted by length, and what it puts out is stored (`prefix_store`). Only rows
that are not there yet are built, so another seed, rate, head, batch size or
subset starts at once. A deeper cut goes on from a shallower one on disk.

Rows that find no room run the prefix at every step instead, in the same mode
and rounding: numbers do not depend on the disk.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import inspect
import sys
import time

import numpy as np
import tensorflow as tf
import tqdm

from tf_transfer.data import batches
from tf_transfer.feature_cache import prefix as prefix_lib
from tf_transfer.feature_cache import rows
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.models import blocks
from tf_transfer.models import encoder as encoder_lib
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError

BATCH_TOKENS = 16384  # of a batch that the prefix is run on, padding included


@dataclasses.dataclass
class Cost:
    """Seconds that a prefix cost.

    Attributes:
        paid: by this process, building and waiting for a build.
        original: what the rows took that are used, whoever built them.
    """

    paid: float
    original: float


class PrefixCache:
    """Stores and reads the frozen prefixes of one network.

    Args:
        settings: `settings.Settings`.
        devices: `strategy.Devices`.
        network: `heads.Network`.
        is_stopped: function that says whether to leave: asked in a build.
    """

    def __init__(self, settings, devices, network, is_stopped=lambda: False):
        self.settings = settings
        self.devices = devices
        self.encoder = network.encoder
        self.network = network
        self.store = store_lib.Store(settings.cache_folder)
        self.digests = prefix_lib.digests(network.encoder)
        self.is_stopped = is_stopped
        self._opened = []

    def attach(self, objective, trainable, stops=None):
        """An objective whose splits hold the states of its prefix.

        Args:
            objective: `phases.Objective`.
            trainable: `split.Trainable`: what is above the prefix.
            stops: of the `Prefix` that this run began with, or None to
                choose by what is on disk.

        Returns:
            (`Prefix`, `Objective`, `Cost`).

        Raises:
            UserError: a state does not fit the dtype.
        """
        prefix = self.network.prefix(
            objective.name, trainable, self.settings.cache_dtype
        )
        texts = rows.Texts(objective)
        stops = tuple(stops or self._choose(prefix, texts))
        prefix = dataclasses.replace(prefix, stops=stops)
        began = time.perf_counter()
        entry = self._open(prefix)
        has_built = self._fill(entry, prefix, texts)
        found = entry.find(texts.hashes)
        self._tell(entry, found, texts, has_built)
        vectors = self._vectors(entry)

        def with_states(part):
            here = found[texts.rows_of(part)]
            return dataclasses.replace(
                part,
                states=batches.States(
                    vectors,
                    _starts(entry, here),
                    here >= 0,
                    is_pooled=prefix.keeps != "tokens",
                    before=prefix.before,
                ),
            )

        original = float(entry.seconds[np.unique(found[found >= 0])].sum())
        objective = dataclasses.replace(
            objective,
            train=with_states(objective.train),
            evaluation={
                kind: [(name, with_states(part)) for name, part in splits]
                for kind, splits in objective.evaluation.items()
            },
        )
        paid = time.perf_counter() - began if has_built else 0.0
        return prefix, objective, Cost(paid, original)

    # === Which entry ===

    def _key(self, prefix):
        """Everything that shapes what the prefix puts out for a row."""
        key = {
            "code": code_version(),
            "weights": self.digests[prefix.cut],
            "stops": list(prefix.stops),
            "keeps": prefix.keeps,
            "dtype": prefix.dtype,
            "precision": self.settings.precision,
            "hidden": prefix.width(self.encoder.hidden),
        }
        if prefix.before or prefix.keeps == "firsts":
            key["collects"] = prefix.collects
        return key

    def _open(self, prefix):
        entry = self.store.open(self._key(prefix), self.settings.model)
        self._opened.append(entry)
        return entry

    def close(self):
        """Nothing is in use any more: it may be dropped to make room."""
        for entry in self._opened:
            entry.close()
        self._opened = []

    def _choose(self, prefix, texts):
        """The stops that need the least work, the same on all workers.

        First an entry that has every row; then going on from the deepest
        shallower one that has; then an entry that has some; then the text.
        """
        whole, sources, partial = [], [], []
        for entry in self.store.entries():
            stops = tuple(entry.key["stops"])
            is_source = stops[-1] < prefix.cut
            other = prefix_lib.Prefix(
                stops,
                "tokens" if is_source else prefix.keeps,
                prefix.dtype,
                prefix.collects,
            )
            if stops[-1] > prefix.cut or entry.key != self._key(other):
                continue
            entry.load()
            share = np.mean(entry.find(texts.hashes) >= 0)
            if not is_source:
                (whole if share == 1 else partial).append((-share, stops))
            elif share == 1:
                sources.append((-stops[-1], len(stops), stops))
        if whole:
            stops = min((len(stops), stops) for _, stops in whole)[1]
        elif sources:
            stops = (*min(sources)[2], prefix.cut)
        elif partial and min(partial)[0] < 0:
            stops = min(partial)[1]
        else:
            stops = prefix.stops
        mine = [
            float(stop in stops and self.devices.is_chief)
            for stop in range(prefix.cut + 1)
        ]
        agreed = self.devices.agree(*mine)
        return tuple(int(stop) for stop in np.flatnonzero(agreed))

    # === Building ===

    def _fill(self, entry, prefix, texts):
        """Builds the rows that are missing. Returns whether any were."""
        missing, damage = self._lacks(entry, texts)
        if not len(missing) and not damage:
            return False
        with entry.building(self._say):
            entry.load()  # another process may have built them meanwhile
            missing, damage = self._lacks(entry, texts)
            if damage:
                self._say(f"{entry.folder}: {damage} Built again.")
                entry.discard_unreadable()
            if len(missing):
                self._build(entry, prefix, texts, missing)
        return True

    def _lacks(self, entry, texts):
        """Which of the texts' distinct rows are missing, and what is damaged.

        Damaged rows are left out of the entry.
        """
        found, lost = entry.find_sound(texts.hashes)
        damage = ""
        if lost or entry.unreadable:
            damage = (
                f"{lost:,} rows and {len(entry.unreadable)} lists of rows are "
                "damaged."
            )
        return np.flatnonzero((found < 0) & texts.is_distinct), damage

    def _build(self, entry, prefix, texts, missing):
        """Runs the prefix over missing rows, as many as find room."""
        vectors = texts.split.tokens.lengths[missing].astype(np.int64)
        vectors += prefix.before
        if prefix.keeps != "tokens":
            vectors = np.ones_like(vectors)
        sizes = vectors * entry.vector_bytes + store_lib.ROW_BYTES
        source = self._open(prefix.source) if prefix.source else None
        kept = {entry.folder, *([source.folder] if source else ())}
        room = self.store.make_room(
            int(sizes.sum()), self.settings.cache_limit_gb, kept
        )
        fits = np.cumsum(sizes) <= room
        if fits.any():
            try:
                self._run_over(entry, prefix, source, texts, missing[fits])
            except store_lib.DiskFull:
                self._say(f"{entry.folder}: the disk is full.")

    def _run_over(self, entry, prefix, source, texts, rows):
        """Runs the prefix over rows of `texts`, a segment at a time."""
        part = texts.split.take(rows)
        costs = np.zeros(len(rows))  # of what the source took
        if source is not None:
            found, _ = source.find_sound([texts.hashes[row] for row in rows])
            have = found >= 0
            costs[have] = source.seconds[found[have]]
            if have.any():
                part.states = batches.States(
                    self._vectors(source),
                    _starts(source, found),
                    have,
                    False,
                    prefix.source.before,
                )
        segment = rows.Segment(entry)
        for row, values in self._outputs(prefix, part):
            self._check(values, texts, rows[row], prefix)
            segment.add(texts.hashes[rows[row]], values, costs[row])
            if self.is_stopped():
                segment.commit()
                raise Interrupted(
                    "Stopped. What the frozen blocks put out so far is kept, "
                    "and the same command continues there."
                )
        segment.commit()

    def _outputs(self, prefix, part):
        """Yields (row of the part, [vectors, hidden]), the longest first."""
        devices, replicas = self.devices, self.devices.local_replicas
        size = max(1, BATCH_TOKENS // self.settings.max_length)
        size = -(-min(size, len(part)) // replicas) * replicas
        plan = batches.plan_evaluation(
            part.lengths,
            size,
            replicas,
            batches.buckets_up_to(self.settings.max_length),
        )
        dataset = batches.pipeline(
            part, plan, self.encoder.special.pad, local_replicas=replicas
        )
        program = tf.function(
            functools.partial(prefix.run, self.encoder),
            reduce_retracing=True,
            autograph=False,
        )
        if replicas == 1:  # one trace for all lengths, in place of two
            program.get_concrete_function(dataset.element_spec)
        with tqdm.tqdm(
            total=int(part.tokens.lengths.sum()),
            desc=f"running {prefix.cut} frozen blocks once",
            unit=" tokens",
            unit_scale=True,
            leave=False,
            file=sys.stderr,
            disable=None if devices.is_chief else True,
        ) as bar:
            for step, values in enumerate(devices.run_local(program, dataset)):
                count = plan.counts[step]
                for row, value in zip(plan.rows[step, :count], values):
                    length = part.tokens.lengths[row]
                    end = prefix.before + length
                    yield row, value[:end] if value.ndim == 2 else value[None]
                    bar.update(int(length))

    def _check(self, values, texts, row, prefix):
        if np.isfinite(values.astype(np.float32)).all():
            return
        name, example = texts.where(row)
        raise UserError(
            f"--cache_dtype={prefix.dtype}: what the frozen blocks put out "
            f"for {name} example {example} is not finite or too large for it. "
            + (
                "Give --cache_dtype=bfloat16 or float32, or "
                "--frozen_prefix=live."
                if prefix.dtype == "float16"
                else "The encoder's weights may be damaged."
            )
        )

    # === Reading ===

    def _vectors(self, entry):
        """An entry's vectors as a tensor, mapped: nothing is read yet."""
        dtype, hidden = tf.as_dtype(entry.key["dtype"]), entry.hidden
        with tf.device("CPU:0"):
            if not entry.end:
                return tf.zeros([1, hidden], dtype)
            return tf.raw_ops.ImmutableConst(
                dtype=dtype,
                shape=[entry.end, hidden],
                memory_region_name=entry.vectors_file,
            )

    def _say(self, line):
        if self.devices.is_chief:
            print(line, flush=True)

    def _tell(self, entry, found, texts, built):
        left = int((found < 0).sum())
        self._say(
            f"Prefix cache: {len(found) - left:,} of {len(found):,} texts in "
            f"{formatting.size(entry.bytes)}"
            f"{', built now' if built else ''}: {entry.folder}"
        )
        if left:
            limit = self.store.limit(self.settings.cache_limit_gb)
            self._say(
                f"{left:,} texts do not fit --cache_limit_gb "
                f"({formatting.size(limit)}) or the disk: their frozen "
                "blocks run at every step."
            )


def _starts(entry, found):
    """First vectors of rows; anything where a row is missing."""
    if not len(entry.starts):
        return np.zeros(len(found), np.int64)
    return entry.starts[found]


@functools.lru_cache
def code_version():
    """A hash of the code that computes a prefix, and of what it runs on."""
    digest = hashlib.sha256()
    for module in (blocks, encoder_lib, prefix_lib):
        digest.update(inspect.getsource(module).encode())
    for package in ("keras", "keras-hub"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()[:16]
