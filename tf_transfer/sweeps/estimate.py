"""How long runs will take, and what their cached prefixes will occupy.

From finished runs of the same folder where there are any: similar runs take
similar times. Before that, roughly, from the operations that a run needs and
the speed of matrix products on this machine.
"""

import dataclasses
import statistics
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

from tf_transfer.config import settings as settings_lib
from tf_transfer.models import cost
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates

if TYPE_CHECKING:
    from tf_transfer.models.freezing import Trainable
    from tf_transfer.models.network import Network
    from tf_transfer.training.phases import Phase

# A run of another approach or cut says nothing of what a run takes. Of those
# that are alike, runs that agree in more of the others, from the left, are more
# similar.
ALIKE_BY = ("approach", "runs_cached", "model", "precision")
SIMILAR_BY = ("task", "max_train_examples", "batch_size", "max_epochs")
# What a process takes to begin and to trace, and what a run takes beside its
# epochs in a process that goes on. And the share of the products' peak that
# training reached when it was measured here: at small batches next to nothing
# (docs/feature_cache.md).
START_SECONDS = 15
RUN_SECONDS = 1
PROBE_SECONDS = 8  # of the fits by which it chooses
BATCH_SECONDS = 0.002  # beside what blocks compute: nearly all of last 0's
SHARE_OF_PEAK = 0.4
SHARE_AT_SMALL_BATCHES = 0.12
SMALL_BATCH = 4
FLOAT32_BYTES = 4
# A network and its texts serve all runs that differ in these alone.
SHARED_SETTINGS: dict[str, Any] = {
    "trainable_layers": "all",
    "blocks": "",
    "method": "full",
    "lr": 1e-5,
    "seed": 0,
    "strategy": "default",
    "frozen_prefix": "live",
    "cpu_devices": 1,
    "batch_size": 1,
    "schedule": "constant",
    "warmup_fraction": 0.0,
    "deterministic": False,
}


class FinishedDurations:
    """Predicts the durations of runs from those that are finished."""

    def __init__(self, run_states: RunStates) -> None:
        self.run_states = run_states
        self._seconds: dict[str, float | None] = {}

    def _known(self) -> dict[tuple, list[float]]:
        """Seconds of the finished runs, by what they are alike in."""
        known: dict[tuple, list[float]] = {}
        for run in self.run_states.runs:
            if run.name not in self._seconds:
                if self.run_states.result(run) is None:
                    continue
                self._seconds[run.name] = self.run_states.seconds(run)
            seconds = self._seconds[run.name]
            if seconds is not None:
                for likeness in _likenesses(run):
                    known.setdefault(likeness, []).append(seconds)
        return known

    def seconds(self, runs: Sequence[Planned]) -> list[float | None]:
        """Returns, for each run, the median of those most similar, or None."""
        known = self._known()
        return [
            next(
                (
                    statistics.median(known[likeness])
                    for likeness in _likenesses(run)
                    if likeness in known
                ),
                None,
            )
            for run in runs
        ]

    def remaining(self, runs: list[Planned], jobs: int) -> tuple[float, int]:
        """What runs will take, `jobs` at the same time.

        Returns:
            Seconds, and how many runs they leave out: none like them is
            finished yet.
        """
        seconds = self.seconds(runs)
        measured = [value for value in seconds if value is not None]
        return sum(measured) / jobs, len(seconds) - len(measured)


def _likenesses(run: Planned) -> Iterator[tuple]:
    """What similar runs agree in, the most similar first."""
    values = [
        getattr(run.settings, name, None) for name in (*ALIKE_BY, *SIMILAR_BY)
    ]
    for count in range(len(values), len(ALIKE_BY) - 1, -1):
        yield tuple(values[:count])


@dataclasses.dataclass(frozen=True)
class Build:
    """What a feature cache needs: bytes, and seconds to build it."""

    bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a run will need at most: all its epochs.

    Attributes:
        seconds: of training and evaluation, and what a run takes beside.
        builds: dict from what identifies a feature cache to what it needs.
        live_seconds: what `seconds` were without a feature cache.
        predict_seconds: of running the encoder over what is evaluated, once.
        updates: of the weights.
        disk_bytes: of its directory once it is finished: what trains, in
            float32, as the selected weights and in the checkpoint, there with
            two moments.
    """

    seconds: float
    builds: dict[tuple, Build]
    live_seconds: float
    predict_seconds: float = 0.0
    updates: int = 0
    disk_bytes: int = 0


class Estimator:
    """Counts operations and bytes of runs, reading each data set once.

    Args:
        measure_peak: function from a precision to operations per second;
            unset, `peak.measure_peak`.
    """

    def __init__(
        self, measure_peak: Callable[[str], float] | None = None
    ) -> None:
        if measure_peak is None:
            from tf_transfer.sweeps import peak

            measure_peak = peak.measure_peak
        self._measure_peak = measure_peak
        self._peaks: dict[str, float] = {}
        self._estimates: dict[settings_lib.Settings, Estimate] = {}
        self._prepared: dict[
            settings_lib.Settings, tuple[Network, list[Phase]]
        ] = {}

    def estimate(self, run: Planned) -> Estimate:
        """Returns what a run will need; another rate or seed needs the same.

        Raises:
            UserError: encoder or data cannot be read here.
        """
        shared = dataclasses.replace(run.settings, lr=1e-5, seed=0)
        if shared not in self._estimates:
            self._estimates[shared] = self._count(run)
        return self._estimates[shared]

    def _count(self, run: Planned) -> Estimate:
        settings: Any = run.settings
        if settings.is_sparse:
            return Estimate(START_SECONDS, {}, START_SECONDS)
        if settings.is_probe:
            return self._count_probe(run)
        from tf_transfer.models import freezing

        network, phases = self._prepare(run)
        share = (
            SHARE_AT_SMALL_BATCHES
            if settings.batch_size <= SMALL_BATCH
            else SHARE_OF_PEAK
        )
        peak = self._peak(settings.precision)
        operations, live, predicting, builds = 0.0, 0.0, 0.0, {}
        batches = updates = trained = 0
        for phase in phases:
            trainable = phase.trainable
            if len(phases) == 1:
                # The prepared phase is shared: it may be of another run.
                trainable = run.experiment.trainable(
                    len(network.encoder.blocks)
                )
            cached = settings.runs_cached and trainable.has_prefix
            trained = max(trained, freezing.count_trained(network, trainable))
            for objective in phase.objectives:
                needs = _ObjectiveNeeds(settings, network, objective, trainable)
                operations += needs.operations(phase.max_epochs, cached)
                live += needs.operations(phase.max_epochs, False)
                predicting += needs.predict_operations()
                batches += phase.max_epochs * needs.batches
                updates += phase.max_epochs * needs.updates
                if cached:
                    builds[_identify_cache(run, objective.name, needs)] = Build(
                        needs.cache_bytes(),
                        needs.build_operations() / (peak * SHARE_OF_PEAK),
                    )
        speed = peak * share
        beside = RUN_SECONDS + batches * BATCH_SECONDS
        return Estimate(
            beside + operations / speed,
            builds,
            beside + live / speed,
            predicting / (peak * SHARE_OF_PEAK),
            updates,
            trained * FLOAT32_BYTES * (1 + 3),  # weights; with both moments
        )

    def _count_probe(self, run: Planned) -> Estimate:
        """A pass over all texts, two of pairs; then the fits."""
        from tf_transfer.models.freezing import Trainable

        settings: Any = run.settings
        network, phases = self._prepare(run)
        [objective] = phases[-1].objectives
        blocks = len(network.encoder.blocks)
        needs = _ObjectiveNeeds(
            settings, network, objective, Trainable.heads(blocks)
        )
        needs.prefix = dataclasses.replace(
            needs.prefix, output="pooled_blocks", cls_from=0
        )
        passes = len(run.experiment.task.texts)  # each by itself, and together
        operations = passes * needs.build_operations()
        speed = self._peak(settings.precision) * SHARE_OF_PEAK
        build = Build(passes * needs.cache_bytes(), operations / speed)
        return Estimate(
            RUN_SECONDS + PROBE_SECONDS,
            {_identify_cache(run, objective.name, needs): build},
            RUN_SECONDS + PROBE_SECONDS + build.seconds,
            passes * needs.predict_operations() / speed,
        )

    def _peak(self, precision: str) -> float:
        if precision not in self._peaks:
            self._peaks[precision] = self._measure_peak(precision)
        return self._peaks[precision]

    def _prepare(self, run: Planned) -> "tuple[Network, list[Phase]]":
        """Network and phases of a run; shared by runs on the same texts."""
        from tf_transfer.training import strategy

        shared = dataclasses.replace(run.settings, **SHARED_SETTINGS)
        if shared not in self._prepared:
            network, phases, _ = run.experiment.build(strategy.single_device())
            self._prepared[shared] = network, phases
        return self._prepared[shared]


def _identify_cache(
    run: Planned, objective: str, needs: "_ObjectiveNeeds"
) -> tuple:
    """What tells the feature cache of an objective from others."""
    settings = run.settings
    return (
        settings.model,
        settings.precision,
        run.experiment.identities["data_identity"],
        objective,
        needs.prefix,
    )


class _ObjectiveNeeds:
    """What training one objective of a phase needs."""

    def __init__(
        self,
        settings: Any,
        network: "Network",
        objective: Any,
        trainable: "Trainable",
    ) -> None:
        from tf_transfer.data import batches
        from tf_transfer.models import network as network_lib

        buckets = batches.buckets_up_to(settings.max_length)
        self.trained = trainable
        self.shape = cost.Shape.from_encoder(network.encoder)
        pooling = network.heads[objective.name].pooling
        self.cls_only = pooling in network_lib.CLS_ONLY
        self.texts_per_example = objective.train.texts_per_example
        self.value_bytes = 4 if settings.cache_dtype == "float32" else 2
        self.splits = [
            objective.train,
            *(
                split
                for splits in objective.evaluation.values()
                for split in splits.values()
            ),
        ]
        self.prefix: Any = None
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
            drop_last=settings.drop_last,
        )
        self.evaluation_plans = [
            batches.plan_evaluation(
                split.lengths, batches.EVALUATION_BATCH, 1, buckets
            )
            for split in self.splits[1:]
        ]

    @property
    def updates(self) -> int:
        """Those of an epoch."""
        return len(self.plan.lengths)

    @property
    def batches(self) -> int:
        """Those of an epoch, and of its evaluation."""
        plans = (self.plan, *self.evaluation_plans)
        return sum(len(plan.lengths) for plan in plans)

    def operations(self, epochs: int, cached: bool) -> float:
        """Returns the floating-point operations of so many epochs."""
        shape, cut = self.shape, self.trained.cut
        per_epoch = cost.count_epoch_operations(
            shape, self.plan, self.trained, self.cls_only, cached
        )
        for plan in self.evaluation_plans:
            per_epoch += cost.count_forward_operations(
                shape, plan, cut if cached else 0, shape.blocks, self.cls_only
            )
        return self.texts_per_example * epochs * per_epoch

    def predict_operations(self) -> float:
        """Returns the operations of all blocks over what is evaluated."""
        return self.texts_per_example * sum(
            cost.count_forward_operations(
                self.shape, plan, 0, self.shape.blocks, self.cls_only
            )
            for plan in self.evaluation_plans
        )

    def build_operations(self) -> float:
        """Returns the operations of running the prefix over all texts."""
        return self.texts_per_example * sum(
            cost.count_forward_operations(
                self.shape, plan, 0, self.trained.cut, False
            )
            for plan in (self.plan, *self.evaluation_plans)
        )

    def cache_bytes(self) -> int:
        """Returns the bytes of the prefix's output for all texts."""
        vectors = 0
        for split in self.splits:
            if self.prefix.output == "tokens":
                vectors += int(split.tokens.lengths.sum())
            else:
                vectors += len(split) * self.texts_per_example
        return vectors * self.prefix.width(self.shape.hidden) * self.value_bytes
