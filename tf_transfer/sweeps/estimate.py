"""Estimates the seconds of runs, and the bytes of their feature caches.

Finished runs of the same folder are the best measure: similar runs take similar
times. Without any, the estimate is a rough one, from the operations of a run,
the speed of matrix products on this machine, and the costs of its kind of
device (`DeviceCosts`).
"""

import collections
import dataclasses
import functools
import statistics
from collections.abc import Callable, Sequence
from typing import Any, TYPE_CHECKING

from tf_transfer.config import settings as settings_lib
from tf_transfer.models import cost, freezing
from tf_transfer.sweeps import peak
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import machine

if TYPE_CHECKING:
    from tf_transfer.data.batches import BatchPlan
    from tf_transfer.models.network import Network
    from tf_transfer.training.objectives import Objective, Phase

# Only runs with equal values of the required settings are similar. Among them,
# runs that agree in more of the preferred settings, from the left, are more
# similar.
REQUIRED_MATCHES = ("approach", "runs_cached", "model", "precision")
PREFERRED_MATCHES = ("task", "max_train_examples", "batch_size", "max_epochs")
# Work of the host, whatever the device.
START_SECONDS = 15  # of a process, to load TensorFlow and to trace
RUN_SECONDS = 1  # overhead of a further run of a process
PROBE_SECONDS = 8  # of the fits by which it chooses
LAUNCHES_WITHOUT_XLA = 10  # times those with it
TRAINED_PASSES = 4  # forward passes that launch as much as a trained block
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


def predict_durations(
    run_states: RunStates, runs: Sequence[Planned]
) -> list[float | None]:
    """The median seconds of the finished runs most similar to each run.

    Args:
        run_states: of the sweep, with its finished runs.
        runs: the runs.

    Returns:
        For each run, None if no similar run is finished.
    """
    known: dict[tuple, list[float]] = collections.defaultdict(list)
    for run in run_states.runs:
        seconds = run_states.seconds(run)
        if seconds is not None:
            for match in _list_matches(run):
                known[match].append(seconds)
    return [
        next(
            (
                statistics.median(known[match])
                for match in _list_matches(run)
                if match in known
            ),
            None,
        )
        for run in runs
    ]


def _list_matches(run: Planned) -> list[tuple]:
    """The settings in which similar runs agree, the most similar first."""
    names = (*REQUIRED_MATCHES, *PREFERRED_MATCHES)
    values = [getattr(run.settings, name, None) for name in names]
    counts = range(len(values), len(REQUIRED_MATCHES) - 1, -1)
    return [tuple(values[:count]) for count in counts]


@dataclasses.dataclass(frozen=True)
class DeviceCosts:
    """What a kind of device takes, in addition to its peak speed.

    A batch takes `batch_seconds` and the longer of two times: of its
    operations, and of launching the kernels of its blocks. A GPU computes
    while the host launches.

    The numbers of `CPU` are measured (docs/feature_cache.md). Those of `GPU`
    are not measured:

    - `block_seconds` is derived from the operations of a traced step. A block
      has 58 forward in evaluation and 91 in training, 221 with the gradients,
      and about 80 more for the update of its 16 weights. At 4 to 5
      microseconds a launch, a step of BERT-base takes 14 to 18 ms. XLA, the
      default on a GPU, is assumed to fuse them into a tenth. Without XLA, as
      under `--deterministic`, launches take ten times as long.
    - The shares assume that products reach 0.6 of the peak with 16 texts and
      0.3 with few, and that all else takes as long as the products.
    - `compile_seconds` is twice what XLA takes on two CPU cores, where it
      compiles the gradients of a block in 0.5 s. `batch_seconds` is a guess.

    Attributes:
        share_of_peak: of matrix products, that training reaches.
        share_at_small_batches: the same with `small_batch` texts or fewer.
        small_batch: the texts of a batch.
        batch_seconds: overhead of a batch.
        block_seconds: of launching the forward pass of a block.
        compile_seconds: of compiling the forward pass of a block.
    """

    share_of_peak: float
    share_at_small_batches: float
    small_batch: int
    batch_seconds: float
    block_seconds: float
    compile_seconds: float


CPU = DeviceCosts(
    share_of_peak=0.4,
    share_at_small_batches=0.12,
    small_batch=4,
    batch_seconds=0.002,  # nearly all of last 0's seconds
    block_seconds=0.0,
    compile_seconds=0.0,
)
GPU = DeviceCosts(
    share_of_peak=0.3,
    share_at_small_batches=0.15,
    small_batch=4,
    batch_seconds=0.0005,
    block_seconds=3.5e-5,
    compile_seconds=0.25,
)


@dataclasses.dataclass(frozen=True)
class Build:
    """The cost of a feature cache: bytes, and seconds to build it."""

    bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The cost of a run that does all its epochs.

    Attributes:
        seconds: of training, evaluation and overhead.
        builds: dict from what identifies a feature cache to its cost.
        predict_seconds: of running the encoder over what is evaluated, once.
        updates: of the weights.
        disk_bytes: of its directory once it is finished: the weights that
            train, in float32, as the selected weights and, with two moments,
            in the checkpoint.
        compile_seconds: in addition, of the first such run of a process: XLA
            compiles the step once for each padded length.
    """

    seconds: float
    builds: dict[tuple, Build]
    predict_seconds: float = 0.0
    updates: int = 0
    disk_bytes: int = 0
    compile_seconds: float = 0.0

    @property
    def build_seconds(self) -> float:
        """Seconds of building all its feature caches from nothing."""
        return sum(build.seconds for build in self.builds.values())


class Estimator:
    """Counts operations and bytes of runs, reading each data set once.

    Args:
        measure_peak: function from a precision to operations per second;
            unset, `peak.measure_peak`.
        device: the costs of its kind of device; unset, those of a GPU if
            TensorFlow can use one, else those of a CPU.
    """

    def __init__(
        self,
        measure_peak: Callable[[str], float] | None = None,
        device: DeviceCosts | None = None,
    ) -> None:
        self._peak = functools.cache(measure_peak or peak.measure_peak)
        self.device = device or (GPU if machine.has_gpu() else CPU)
        self._estimates: dict[settings_lib.Settings, Estimate] = {}
        self._prepared: dict[
            settings_lib.Settings, tuple[Network, list[Phase]]
        ] = {}

    def estimate(self, run: Planned) -> Estimate:
        """The cost of a run; another rate or seed costs the same.

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
            return Estimate(START_SECONDS, {})
        network, phases = self._prepare(run)
        if settings.is_probe:
            return self._count_probe(run, network, phases)
        device, most = self.device, self._peak(settings.precision)
        uses_xla = device.block_seconds > 0 and settings.uses_xla
        speed = full_speed = most * device.share_of_peak
        if settings.batch_size <= device.small_batch:
            speed = most * device.share_at_small_batches
        needs: list[_Needs] = []
        for phase in phases:
            trainable = phase.trainable
            if len(phases) == 1:
                # The prepared phase is shared: it may be of another run.
                trainable = run.experiment.trainable(
                    len(network.encoder.blocks)
                )
            needs += [
                _Needs(settings, network, objective, trainable, phase, uses_xla)
                for objective in phase.objectives
            ]
        batches = sum(n.epochs * n.batches for n in needs)
        operations = sum(n.epochs * n.operations() for n in needs)
        passes = sum(n.epochs * n.passes() for n in needs)
        return Estimate(
            RUN_SECONDS
            + device.batch_seconds * batches
            + max(operations / speed, device.block_seconds * passes),
            {
                n.identify_cache(run): n.estimate_build(full_speed)
                for n in needs
                if n.is_cached
            },
            sum(n.predict_operations() for n in needs) / full_speed,
            sum(n.epochs * len(n.plan) for n in needs),
            # Weights; with both moments.
            (1 + 3)
            * FLOAT32_BYTES
            * max(freezing.count_trained(network, n.trained) for n in needs),
            device.compile_seconds * sum(n.compiled_passes() for n in needs),
        )

    def _count_probe(
        self, run: Planned, network: "Network", phases: "list[Phase]"
    ) -> Estimate:
        """A pass over all texts, two of pairs; then the fits."""
        phase, blocks = phases[-1], len(network.encoder.blocks)
        [objective] = phase.objectives
        needs = _Needs(
            run.settings,
            network,
            objective,
            freezing.parse("head", "", blocks),
            phase,
        )
        needs.prefix = dataclasses.replace(
            needs.prefix, output="pooled_blocks", cls_from=0
        )
        # Each text of a pair by itself, and together.
        passes = len(run.experiment.data.task.texts)
        share = self.device.share_of_peak
        speed = self._peak(run.settings.precision) * share / passes
        build = needs.estimate_build(speed)
        return Estimate(
            RUN_SECONDS + PROBE_SECONDS,
            {
                needs.identify_cache(run): Build(
                    passes * build.bytes, build.seconds
                )
            },
            needs.predict_operations() / speed,
        )

    def _prepare(self, run: Planned) -> "tuple[Network, list[Phase]]":
        """Network and phases of a run; shared by runs on the same texts."""
        from tf_transfer.training import strategy

        shared = dataclasses.replace(run.settings, **SHARED_SETTINGS)
        if shared not in self._prepared:
            network, phases, _ = run.experiment.build(strategy.single_device())
            self._prepared[shared] = network, phases
        return self._prepared[shared]


class _Needs:
    """The operations and bytes of training one objective of a phase."""

    def __init__(
        self,
        settings: Any,
        network: "Network",
        objective: "Objective",
        trainable: freezing.Trainable,
        phase: "Phase",
        uses_xla: bool = False,
    ) -> None:
        from tf_transfer.data import batches
        from tf_transfer.models import network as network_lib

        self.epochs = phase.max_epochs
        self.name = objective.name
        self.trained = trainable
        self.uses_xla = uses_xla
        self.is_cached = settings.runs_cached and trainable.has_prefix
        # The blocks that do not run, as the cache has their output.
        self.cached_blocks = trainable.cut if self.is_cached else 0
        self.shape = cost.Shape.from_encoder(network.encoder)
        pooling = network.heads[objective.name].pooling
        self.cls_only = pooling in network_lib.CLS_ONLY
        scored = [split for *_, split in objective.scored_splits]
        self.splits = [objective.train, *scored]
        self.texts_per_example = objective.train.texts_per_example
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
            batches.buckets_up_to(settings.max_length, uses_xla),
            drop_last=settings.short_batches == "dropped",
        )
        self.evaluation_plans = [
            batches.plan_evaluation(
                split.lengths,
                batches.EVALUATION_BATCH,
                1,
                batches.buckets_up_to(settings.max_length),
            )
            for split in scored
        ]

    @property
    def batches(self) -> int:
        """The number in an epoch and its evaluation."""
        return sum(map(len, (self.plan, *self.evaluation_plans)))

    def operations(self) -> int:
        """Floating-point operations of an epoch and its evaluation."""
        trained = cost.count_epoch_operations(
            self.shape, self.plan, self.trained, self.cls_only, self.is_cached
        )
        evaluated = self.predict_operations(self.cached_blocks)
        return self.texts_per_example * trained + evaluated

    def passes(self) -> int:
        """Launches of an epoch and its evaluation, in compiled block passes."""
        steps = len(self.plan) * self._step_passes()
        evaluations = sum(map(len, self.evaluation_plans))  # never compiled
        evaluated = evaluations * (self.shape.blocks - self.cached_blocks)
        if self.uses_xla:
            return steps + LAUNCHES_WITHOUT_XLA * evaluated
        return LAUNCHES_WITHOUT_XLA * (steps + evaluated)

    def compiled_passes(self) -> int:
        """Passes of one block in the programs of its steps, one per length."""
        if not self.uses_xla:
            return 0
        return len(set(self.plan.lengths.tolist())) * self._step_passes()

    def _step_passes(self) -> int:
        """Those of a step: gradients reach all blocks above the cut."""
        trained = self.shape.blocks - self.trained.cut
        run = self.shape.blocks - self.cached_blocks
        return run + (TRAINED_PASSES - 1) * trained

    def predict_operations(self, bottom: int = 0) -> int:
        """Operations of the blocks above one over the scored splits."""
        return self._forward(
            self.evaluation_plans, bottom, self.shape.blocks, self.cls_only
        )

    def _forward(
        self,
        plans: Sequence["BatchPlan"],
        bottom: int,
        top: int,
        cls_only: bool,
    ) -> int:
        return self.texts_per_example * sum(
            cost.count_forward_operations(
                self.shape, plan, bottom, top, cls_only
            )
            for plan in plans
        )

    def estimate_build(self, speed: float) -> Build:
        """The cost of running the prefix over all texts, and storing it.

        Args:
            speed: operations per second.
        """
        vectors = sum(
            int(split.tokens.lengths.sum())
            if self.prefix.output == "tokens"
            else len(split) * self.texts_per_example
            for split in self.splits
        )
        width = self.prefix.width(self.shape.hidden)
        value_bytes = 4 if self.prefix.dtype == "float32" else 2
        plans = [self.plan, *self.evaluation_plans]
        operations = self._forward(plans, 0, self.trained.cut, False)
        return Build(vectors * width * value_bytes, operations / speed)

    def identify_cache(self, run: Planned) -> tuple:
        """The values that distinguish the feature cache from others."""
        return (
            run.settings.model,
            run.settings.precision,
            run.experiment.data.identity,
            self.name,
            self.prefix,
        )
