"""What runs take: operations counted from shapes, at a measured speed.

The operations of the encoder's blocks (`models.cost`) are counted as if every
text had --max_length tokens. The seconds of an operation are those of the last
finished run of this machine. Neither texts of published corpora nor weights
need to be at hand.
"""

import dataclasses
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tf_transfer.data import batches
from tf_transfer.data.task import Task
from tf_transfer.experiment import Experiment
from tf_transfer.models import cost, loading
from tf_transfer.sweeps import plan
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class TaskSize:
    """A task, and the numbers of its examples.

    Attributes:
        task: the task.
        train: that train.
        scored: that are scored after every epoch.
    """

    task: Task
    train: int
    scored: int


@dataclasses.dataclass(frozen=True)
class Work:
    """The floating-point operations of a run.

    Attributes:
        epochs: of an epoch of each phase, with its evaluation; the feature
            cache is built.
        build: of its feature cache, from nothing.
        family: names the caches that one pass stores together, of which it
            reads one; empty if it reads none.
        predict: of all texts that are scored, once trained.
    """

    epochs: tuple[float, ...] = ()
    build: float = 0.0
    family: str = ""
    predict: float = 0.0

    @property
    def epoch(self) -> float:
        """Those of an epoch of the last phase."""
        return self.epochs[-1] if self.epochs else 0.0

    def count(self, epochs: Sequence[int]) -> float:
        """Those of this many epochs of each phase."""
        return sum(n * work for n, work in zip(epochs, self.epochs))


# === Counting ===


def count_examples(experiment: Experiment) -> dict[str, TaskSize]:
    """The tasks of an experiment with their sizes, by name.

    Raises:
        UserError: the texts are the user's own, and cannot be read.
    """
    data = experiment.data.sized()
    sizes = {}
    for name, task in data.tasks.items():
        texts = data.examples[name]
        scored = [*texts["validation"].values()]
        if experiment.settings.score_test:
            scored += texts["test"].values()
        train = len(texts["train"][""])
        sizes[name] = TaskSize(task, train, sum(map(len, scored)))
    data.forget()
    return sizes


def count_work(
    run: Planned, sizes: Mapping[str, TaskSize] | None = None
) -> Work:
    """Counts the operations of a run.

    Args:
        run: the run.
        sizes: its tasks, by name; None to count their examples.

    Raises:
        UserError: its model or data is not known here.
    """
    experiment, settings = run.experiment, run.settings
    if settings.is_sparse:
        return Work()
    if sizes is None:
        sizes = count_examples(experiment)
    shape = loading.read_shape(settings.model, settings.keep_blocks)
    if settings.is_probe:
        return _count_probe(settings, shape, *sizes.values())
    if settings.max_epochs is None:
        raise UserError(
            "--max_epochs: the number of epochs depends on the texts, which "
            "are not here. Give it."
        )
    phases = [
        _count_phase(experiment, shape, sizes, number)
        for number in range(len(settings.phases))
    ]
    cached = max(phases, key=lambda phase: phase.build)
    epochs = [phase.epoch for phase in phases]
    return dataclasses.replace(cached, epochs=tuple(epochs))


def _count_probe(settings: Any, shape: cost.Shape, size: TaskSize) -> Work:
    """A pass over all texts; two over pairs, by themselves and together."""
    texts = len(size.task.texts)
    per_example = texts * cost.count_forward(shape, settings.max_length)
    name = f"probe {plan.feature_texts(settings)}"
    build = per_example * (size.train + size.scored)
    return Work((), build, name, per_example * size.scored)


def _count_phase(
    experiment: Experiment,
    shape: cost.Shape,
    sizes: Mapping[str, TaskSize],
    number: int,
) -> Work:
    """The operations of one phase.

    Args:
        experiment: of the run.
        shape: of its encoder.
        sizes: of its tasks.
        number: index of the phase.
    """
    settings: Any = experiment.settings
    length, phases = settings.max_length, settings.phases
    trainable = experiment.trainable(shape.blocks, phases[number])
    is_cached = settings.runs_cached and trainable.has_prefix
    cut = trainable.cut if is_cached else 0
    below = cost.count_forward(shape, length, top=cut)
    steps = {
        name: batches.count_steps(
            size.train,
            settings.batch_size,
            settings.short_batches == "dropped",
        )
        for name, size in sizes.items()
    }
    is_last = number == len(phases) - 1
    combine = settings.combine if is_last else settings.head_combine
    if combine in ("sum", "pcgrad"):  # every step has a batch of each task
        steps = dict.fromkeys(steps, max(steps.values()))
    epoch = build = predict = 0
    for name, size in sizes.items():
        # Texts of a pair that do not see each other are rows of their own.
        rows = experiment.data.texts_per_row(size.task)
        cls_only = experiment.pooling_of(size.task) in cost.CLS_ONLY
        whole = cost.count_forward(shape, length, cls_only)
        trained = cost.count_training(
            shape, length, cls_only, trainable, is_cached
        )
        batch = min(settings.batch_size, size.train)  # a short one is filled
        epoch += rows * steps[name] * batch * trained
        above = cost.count_forward(shape, length, cls_only, cut)
        epoch += rows * size.scored * above
        build += rows * (size.train + size.scored) * below
        predict += rows * size.scored * whole
    family = str(plan.feature_texts(settings)) if is_cached else ""
    return Work((epoch,), build, family, predict)


# === The measured speed ===


class Estimator:
    """Knows the operations of runs, and the seconds of an operation.

    Attributes:
        seconds_per_operation: of the run that was measured, or None.
    """

    def __init__(self) -> None:
        self.seconds_per_operation: float | None = None
        self._most = 1.0  # operations of the run that was measured
        self._works: dict[object, Work] = {}

    def count(self, run: Planned) -> Work:
        """The operations of a run; another rate or seed takes as many.

        Raises:
            UserError: its model or data is not known here.
        """
        shared = dataclasses.replace(run.settings, lr=1e-5, seed=0)
        if shared not in self._works:
            self._works[shared] = count_work(run)
        return self._works[shared]

    def count_one(self, run: Planned) -> float:
        """The operations of all epochs of a run; see `count`."""
        return self.count(run).count(run.settings.phase_epochs)

    def count_all(self, runs: Iterable[Planned]) -> float:
        """The operations of runs, which share feature caches; see `count`."""
        builds: dict[str, float] = {}
        for run in runs:
            work = self.count(run)
            builds[work.family] = max(work.build, builds.get(work.family, 0.0))
        return sum(map(self.count_one, runs)) + sum(builds.values())

    def measure(self, run: Planned) -> None:
        """Measures the speed by a finished run of this machine.

        The pass that built the run's feature cache counts. A run with fewer
        operations than one before does not: an epoch that runs next to no
        block measures no speed.
        """
        result, config = run.directory.result(), run.directory.config()
        starts = (config or {}).get("starts", [])
        hosts = {start.get("host") for start in starts}
        if not result or hosts != {socket.gethostname()}:
            return
        work = self.count(run)
        operations, seconds = 0.0, 0.0
        if result["prefix_seconds"]:
            operations, seconds = work.build, result["prefix_seconds"]
        if not run.settings.is_probe:  # its line has the pass and the fit
            epochs = [phase["epochs"] for phase in result["phases"]]
            operations += work.count(epochs)
            seconds += sum(
                line["train_seconds"] + line["eval_seconds"]
                for line in run.directory.epochs()
            )
        if operations >= self._most and seconds > 0:
            self._most = operations
            self.seconds_per_operation = seconds / operations

    def measure_all(self, runs: Iterable[Planned]) -> None:
        """Measures by finished runs, in the order of their ends."""

        def find_end(run: Planned) -> float:
            return os.path.getmtime(run.directory.file("result.json"))

        for run in sorted(runs, key=find_end):
            self.measure(run)


# === What a dry run prints ===


def describe_costs(
    run_states: RunStates, jobs: int, flops: float | None
) -> str:
    """Each run that is pending, or each of several grids, with its costs.

    The sums follow; they include the feature caches, which runs share.

    Args:
        run_states: of the sweep's runs. Those that wait for a search are
            counted at one of the values that it compares.
        jobs: the number of runs at the same time.
        flops: operations per second of the device; None to take those of the
            last finished run of this machine.
    """
    finished: list[Planned] = []
    problem = ""
    try:
        finished = run_states.select(State.FINISHED)
    except UserError as error:
        problem = f"\nNot known which runs are finished: {error}"
    values = {r.group: r.axes[r.searched] for r in finished if r.searched}
    runs = [
        run
        for run in run_states.runs
        if not run.searched
        or values.setdefault(run.group, run.axes[run.searched])
        == run.axes[run.searched]
    ]
    pending = [run for run in runs if run not in finished]
    count = f"{len(runs)} runs, {len(pending)} of them pending."
    estimator = Estimator()
    try:
        total = estimator.count_all(pending)
        estimator.measure_all(finished)
    except UserError as error:
        return f"{count}\nNo estimate: {error}{problem}"
    speed = 1 / flops if flops else estimator.seconds_per_operation
    by_grid = len({run.path for run in runs}) > 1
    groups: dict[str, list[Planned]] = {}
    for run in pending:
        name = run.path if by_grid else run.label
        groups.setdefault(name, []).append(run)
    rows = [("pending", "runs", "operations", "about")]
    for name, members in groups.items():
        operations = sum(map(estimator.count_one, members))
        time = formatting.duration(speed * operations) if speed else "-"
        rows.append((name, str(len(members)), f"{operations:.2e}", time))
    lines = [formatting.aligned(rows), count]
    if pending:
        lines.append(
            f"Operations: {total:.2e}, if every text has --max_length tokens "
            "and every run --max_epochs epochs."
        )
        lines.append(_describe_time(total / jobs, flops, speed))
    return "\n".join(lines) + problem


def _describe_time(
    operations: float, flops: float | None, speed: float | None
) -> str:
    """The sentence on the time of all operations; see `describe_costs`."""
    if speed is None:
        return (
            "Time: not known before a run is finished here. --flops=30e12 "
            "gives it for a device that does 30e12 operations per second."
        )
    source = "by --flops" if flops else "as the last finished run measured"
    return (
        f"Time: {operations * speed / 3600:,.1f} hours, {1 / speed:.2g} "
        f"operations per second {source}."
    )
