"""How long runs will take, and what their cached prefixes will occupy.

From finished runs of the same folder where there are any: like runs take like
times. Before that, roughly, from the operations that a run needs and what this
machine's products of matrices reach.
"""

import dataclasses
import importlib
import statistics

from tf_transfer.models import cost

BROAD = ("task", "approach", "runs_cached", "batch_size", "model")
# What a run takes beside its epochs: start-up and tracing. And the share of
# the products' peak that training reached when it was measured here: at small
# batches next to nothing (experiments/prefix_cache/README.md).
START_SECONDS = 15
SHARE_OF_PEAK = 0.4
SHARE_AT_SMALL_BATCHES = 0.12
SMALL_BATCH = 4


class Pace:
    """Seconds of a run to come, from those that are finished.

    Args:
        board: `work.Board`.
    """

    def __init__(self, board):
        self.board = board
        self._seconds = {}

    def _known(self):
        for run in self.board.runs:
            if run.name in self._seconds or self.board.result(run) is None:
                continue
            self._seconds[run.name] = self.board.seconds(run)
        return [
            (run.settings, self._seconds[run.name])
            for run in self.board.runs
            if self._seconds.get(run.name) is not None
        ]

    def seconds(self, run):
        """The median of the runs that are most like it, or None."""
        return _median_of_like(self._known(), run)

    def left(self, runs, jobs):
        """Seconds until `runs` are done, or None where nothing is known."""
        known = self._known()
        each = [_median_of_like(known, run) for run in runs]
        if not each or None in each:
            return None
        return sum(each) / jobs


def _median_of_like(known, run):
    for depth in range(len(BROAD), -1, -1):
        like = [
            seconds
            for settings, seconds in known
            if all(
                getattr(settings, name, None)
                == getattr(run.settings, name, None)
                for name in BROAD[:depth]
            )
        ]
        if like:
            return statistics.median(like)
    return None


@dataclasses.dataclass(frozen=True)
class Rough:
    """What a run will need at most: all its epochs.

    Attributes:
        seconds: of training, evaluation and building the prefix.
        caches: dict from what a stored prefix is known by to its bytes.
    """

    seconds: float
    caches: dict


class Counter:
    """Counts operations and bytes of runs, reading each data set once."""

    def __init__(self):
        from tf_transfer.peers import peaks

        self._peaks = {}
        self._measure = peaks.measure
        self._prepared = {}

    def rough(self, run):
        """`Rough` of a `grid.Planned`.

        Raises:
            UserError: encoder or data cannot be read here.
        """
        settings = run.settings
        if settings.is_sparse:
            return Rough(START_SECONDS, {})
        network, phases = self._prepare(run)
        operations, caches = 0, {}
        for phase in phases:
            trainable = phase.trainable
            if len(phases) == 1:
                # The prepared one is shared by all that may train.
                trainable = settings.trainable(len(network.encoder.blocks))
            cached = settings.runs_cached and not trainable.embeddings
            for objective in phase.objectives:
                needed = _Needed(settings, network, objective, trainable)
                operations += needed.operations(phase.max_epochs, cached)
                if cached:
                    identity = run.directory.key["data_identity"]
                    key = settings.model, settings.precision, identity
                    key = *key, objective.name, needed.prefix
                    caches[key] = needed.cache_bytes()
        share = (
            SHARE_AT_SMALL_BATCHES
            if settings.batch_size <= SMALL_BATCH
            else SHARE_OF_PEAK
        )
        speed = self._peak(settings.precision) * share
        return Rough(START_SECONDS + operations / speed, caches)

    def _peak(self, precision):
        if precision not in self._peaks:
            measured = self._measure(precision)
            self._peaks[precision] = measured["TensorFlow"]
        return self._peaks[precision]

    def _prepare(self, run):
        """Network and phases of a run; shared by runs on the same texts."""
        import tensorflow as tf

        from tf_transfer.training import strategy

        settings = dataclasses.replace(
            run.settings,
            trainable_layers="all",
            blocks="",
            lr=1e-5,
            seed=0,
            strategy="default",
            frozen_prefix="live",
            cpu_devices=1,
            batch_size=1,
            schedule="constant",
            warmup_fraction=0.0,
            deterministic=False,
        )
        if settings not in self._prepared:
            module = importlib.import_module(f"tf_transfer.{run.module}")
            network, phases, _ = module.build(
                settings, strategy.Devices(tf.distribute.get_strategy())
            )
            self._prepared[settings] = network, phases
        return self._prepared[settings]


class _Needed:
    """What training one objective of a phase needs."""

    def __init__(self, settings, network, objective, trainable):
        from tf_transfer.data import batches

        buckets = batches.buckets_up_to(settings.max_length)
        self.settings = settings
        self.moving = trainable
        self.shape = cost.Shape.of(network.encoder)
        self.first_only = settings.pooling not in ("mean", "tokens")
        self.sides = objective.train.sides
        self.parts = [
            objective.train,
            *(
                part
                for splits in objective.evaluation.values()
                for _, part in splits
            ),
        ]
        self.prefix = None
        if not trainable.embeddings:
            self.prefix = network.prefix(
                objective.name, trainable, settings.cache_dtype
            )
        self.plan = batches.plan_epoch(
            objective.train.lengths,
            settings.batch_size,
            settings.batching,
            0,
            1,
            1,
            buckets,
        )
        self.evaluations = [
            batches.plan_evaluation(
                part.lengths, batches.EVALUATION_BATCH, 1, buckets
            )
            for part in self.parts[1:]
        ]

    def operations(self, epochs, cached):
        """Floating-point operations of so many epochs."""
        shape, cut = self.shape, self.moving.cut
        an_epoch = cost.epoch_operations(
            shape, self.plan, self.moving, self.first_only, cached
        )
        for plan in self.evaluations:
            an_epoch += cost.forward_operations(
                shape, plan, cut if cached else 0, shape.blocks, self.first_only
            )
        total = epochs * an_epoch
        if cached:
            for plan in (self.plan, *self.evaluations):
                total += cost.forward_operations(shape, plan, 0, cut, False)
        return self.sides * total

    def cache_bytes(self):
        """Of what its prefix puts out for all texts."""
        vectors = sum(
            int(part.tokens.lengths.sum())
            if self.prefix.keeps == "tokens"
            else len(part) * self.sides
            for part in self.parts
        )
        size = {"float32": 4}.get(self.settings.cache_dtype, 2)
        return vectors * self.prefix.width(self.shape.hidden) * size
