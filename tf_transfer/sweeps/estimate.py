"""The cost of runs: counted operations, and seconds of similar runs.

The operations of the encoder's blocks (`models.cost`) are counted as if every
text had --max_length tokens. Seconds are those of finished runs of this machine
(`Estimator`). Neither texts of published corpora nor weights need to be at
hand.
"""

import dataclasses
import math
import socket
import statistics
from collections.abc import Iterable, Mapping, Sequence

from tf_transfer.config.fields import Setting
from tf_transfer.config.settings import Settings
from tf_transfer.data import batches
from tf_transfer.data.task import Task
from tf_transfer.models import cost, heads, loading
from tf_transfer.runs.run_model import RunModel
from tf_transfer.runs.task_settings import RunSettings
from tf_transfer.sweeps import plan
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

MOST_SCALED = 10  # smaller epochs do not show the speed of larger ones


@dataclasses.dataclass(frozen=True)
class TaskSize:
    """A task, and the numbers of its examples.

    Attributes:
        task: The task.
        train: Number of training examples.
        scored: Number of examples that are scored after every epoch.
    """

    task: Task
    train: int
    scored: int


@dataclasses.dataclass(frozen=True)
class Work:
    """The floating-point operations of a run.

    Attributes:
        epochs: Of an epoch of each phase, with its evaluation; the feature
            cache is built.
        build: Of its feature cache, from nothing.
        family: Names the caches that one pass stores together, of which it
            reads one; empty if it reads none.
        predict: Of all texts that are scored, once trained.
    """

    epochs: tuple[float, ...] = ()
    build: float = 0.0
    family: str = ""
    predict: float = 0.0

    @property
    def epoch(self) -> float:
        """The operations of an epoch of the last phase."""
        return self.epochs[-1] if self.epochs else 0.0

    def count(self, epochs: Sequence[int]) -> float:
        """The operations of this many epochs of each phase."""
        return sum(n * work for n, work in zip(epochs, self.epochs))


# === Counting ===


def count_examples(experiment: RunModel[RunSettings]) -> dict[str, TaskSize]:
    """The tasks of an experiment with their sizes, by name.

    Raises:
        UserError: The texts are the user's own, and cannot be read.
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
    data.drop_texts()
    return sizes


def count_work(
    run: Planned, sizes: Mapping[str, TaskSize] | None = None
) -> Work:
    """Counts the operations of a run.

    Args:
        run: The run.
        sizes: Its tasks, by name; None to count their examples.

    Raises:
        UserError: Its model or data is not known here.
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


def _count_probe(settings: Settings, shape: cost.Shape, size: TaskSize) -> Work:
    """A pass over all texts; of pairs, one over each text and one over both."""
    texts = len(size.task.texts)
    per_example = texts * cost.count_forward(shape, settings.max_length)
    name = f"probe {plan.feature_texts(settings)}"
    build = per_example * (size.train + size.scored)
    return Work((), build, name, per_example * size.scored)


def _count_phase(
    experiment: RunModel[RunSettings],
    shape: cost.Shape,
    sizes: Mapping[str, TaskSize],
    number: int,
) -> Work:
    """The operations of one phase.

    Args:
        experiment: Of the run.
        shape: Of its encoder.
        sizes: Of its tasks.
        number: Index of the phase.
    """
    settings: Settings = experiment.settings
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
        # Texts of a pair that are encoded separately have a row each.
        rows = experiment.data.texts_per_row(size.task)
        cls_only = experiment.pooling_of(size.task) in heads.CLS_ONLY
        all_blocks = cost.count_forward(shape, length, cls_only)
        trained = cost.count_training(
            shape, length, cls_only, trainable, is_cached
        )
        batch = min(settings.batch_size, size.train)  # a short one is filled
        epoch += rows * steps[name] * batch * trained
        above = cost.count_forward(shape, length, cls_only, cut)
        epoch += rows * size.scored * above
        build += rows * (size.train + size.scored) * below
        predict += rows * size.scored * all_blocks
    family = str(plan.feature_texts(settings)) if is_cached else ""
    return Work((epoch,), build, family, predict)


# === Seconds, by finished runs ===


@dataclasses.dataclass(frozen=True)
class MeasuredRun:
    """The seconds of a run of this machine, so far or in all.

    Attributes:
        run: The run.
        repeat: Equal for runs that take as long, see `_leave_out_repeats`.
        is_finished: Whether it has ended.
        work: Its operations, by `count_work`.
        operations: Of the epochs that it ran, evaluation included.
        seconds: Of these epochs; of a baseline, of its fit.
        overhead: All others, such as those of loading and tracing, apart from
            the pass that built its feature cache.
        build: Of that pass; 0 if another run had built it.
        engine: Of that pass, with its precision.
    """

    run: Planned
    repeat: Settings
    is_finished: bool
    work: Work
    operations: float
    seconds: float
    overhead: float
    build: float
    engine: str


class Estimator:
    """Estimates the seconds of runs by those that have been measured."""

    def __init__(self) -> None:
        self._works: dict[Settings, Work] = {}
        self._measured: dict[str, MeasuredRun] = {}  # by the name of the run

    def count(self, run: Planned) -> Work:
        """The operations of a run; another rate or seed takes as many.

        Raises:
            UserError: Its model or data is not known here.
        """
        key = _leave_out_repeats(run)
        if key not in self._works:
            self._works[key] = count_work(run)
        return self._works[key]

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

    def measure(self, run: Planned, wall: float | None = None) -> None:
        """Takes the seconds of a run, if this machine did it.

        Args:
            run: The run, finished or with some epochs.
            wall: Its seconds from start to end; None if they are not known.
        """
        starts = (run.directory.config() or {}).get("starts", [])
        if {start.get("host") for start in starts} != {socket.gethostname()}:
            return
        result, lines = run.directory.result(), run.directory.epochs()
        if not (result or lines):
            return
        work = self.count(run)
        seconds = add_up(lines, "eval_seconds")
        if result:
            build = result["prefix_seconds"] or 0.0
            engine = result.get("prefix_engine") or ""
            seconds += (result["train_seconds"] or 0.0) - build
            overhead = result.get("trace_seconds") or 0.0
            epochs = [phase["epochs"] for phase in result["phases"]]
        else:
            build, engine = 0.0, ""
            seconds += add_up(lines, "train_seconds")
            overhead = add_up(lines, "trace_seconds")
            by_phase = {x["phase"]: x["phase_epoch"] for x in lines}
            epochs = [*by_phase.values()]
        if wall is not None:
            overhead = max(0.0, wall - build - seconds)
        self._measured[run.name] = MeasuredRun(
            run,
            _leave_out_repeats(run),
            bool(result),
            work,
            0.0 if run.settings.is_probe else work.count(epochs),
            seconds,
            overhead,
            build,
            engine,
        )

    def measure_all(self, runs: Iterable[Planned]) -> None:
        """Takes the seconds of finished runs; see `measure`."""
        for run in runs:
            self.measure(run)

    def estimate(self, run: Planned) -> float | None:
        """The seconds of a run, apart from building its feature cache.

        They are the mean of runs that differ in rate and seed alone. Without
        any, they are those of the most similar run, scaled by operations; None
        if there is none, or none of at least a tenth of the operations.

        Raises:
            UserError: See `count`.
        """
        key = _leave_out_repeats(run)
        same = [
            one.overhead + one.seconds
            for one in self._measured.values()
            if one.is_finished and one.repeat == key
        ]
        if same:
            return statistics.fmean(same)
        kind = _describe_kind(run)
        similar = [
            one
            for one in self._measured.values()
            if _describe_kind(one.run) == kind
        ]
        operations = 0.0 if run.settings.is_probe else self.count_one(run)
        if not operations:
            seconds = [one.overhead + one.seconds for one in similar]
            return statistics.fmean(seconds) if seconds else None
        scales = [
            (operations / one.operations, one)
            for one in similar
            if one.operations >= operations / MOST_SCALED
        ]
        if not scales:
            return None
        texts = plan.feature_texts(run.settings)
        scale, one = min(
            scales,
            key=lambda pair: (
                plan.feature_texts(pair[1].run.settings) != texts,
                abs(math.log(pair[0])),
            ),
        )
        # Tracing and saving grow with what trains, and loading does not.
        overhead = one.overhead * min(1.0, math.sqrt(scale))
        return overhead + scale * one.seconds

    def estimate_builds(self, runs: Iterable[Planned]) -> float | None:
        """The seconds to build the feature caches of runs; see `estimate`.

        A cache that a finished run has read exists. The others take as long as
        measured passes of the same engine and precision; None without any.
        """
        stored: dict[str, float] = {}
        for one in self._measured.values():
            family = one.work.family
            if one.run.settings.is_probe:  # its pass stores the cuts of others
                family = str(plan.feature_texts(one.run.settings))
                stored[one.work.family] = one.work.build
            stored[family] = max(stored.get(family, 0.0), one.work.build)
        seconds = 0.0
        for run in runs:
            work, settings = self.count(run), run.settings
            if work.build <= stored.get(work.family, 0.0):
                continue
            engine = f"{settings.pass_engine} {settings.pass_precision}"
            speeds = [
                one.build / one.work.build
                for one in self._measured.values()
                if one.build and one.engine == engine
            ]
            if not speeds:
                return None
            stored[work.family] = work.build
            seconds += work.build * statistics.median(speeds)
        return seconds


def add_up(lines: Iterable[Record], name: str) -> float:
    """The seconds of this name in all lines of `epochs.jsonl` that have it."""
    return sum(line.get(name) or 0.0 for line in lines)


def _leave_out_repeats(run: Planned) -> Settings:
    """Equal for runs that take as long: they differ in rate and seed alone."""
    return dataclasses.replace(run.settings, lr=1e-5, seed=0)


def _describe_kind(run: Planned) -> tuple[Setting, ...]:
    """Equal for runs of which one may be scaled to the other."""
    settings = run.settings
    return (
        run.experiment.name,
        settings.is_sparse,
        settings.is_probe,
        settings.precision,
        settings.strategy,
    )


# === The output of a dry run ===


def describe_costs(
    run_states: RunStates, jobs: int, flops: float | None
) -> str:
    """The costs of each pending run, or of each grid if there are several.

    The sums follow; they include the feature caches, which runs share.

    Args:
        run_states: Of the sweep's runs. Those that wait for a search are
            counted at one of the values that it compares.
        jobs: The number of runs at the same time.
        flops: Operations per second of the device; None to estimate by the
            finished runs of this machine.
    """
    finished: list[Planned] = []
    problem = ""
    try:
        finished = run_states.select(State.FINISHED)
    except UserError as error:
        problem = f"\nNot known which runs are finished: {error}"
    runs = plan.select_values(run_states.runs, finished)
    pending = [run for run in runs if run not in finished]
    count = f"{len(runs)} runs, {len(pending)} of them pending."
    estimator = Estimator()
    try:
        total = estimator.count_all(pending)
        estimator.measure_all(finished)
        builds = estimator.estimate_builds(pending)
    except UserError as error:
        return f"{count}\nNo estimate: {error}{problem}"

    def time(runs: Iterable[Planned]) -> float | None:
        """Their seconds without feature caches, if known."""
        if flops:
            return sum(map(estimator.count_one, runs)) / flops
        return add(map(estimator.estimate, runs))

    by_grid = len({run.path for run in runs}) > 1
    groups: dict[str, list[Planned]] = {}
    for run in pending:
        name = run.path if by_grid else run.label
        groups.setdefault(name, []).append(run)
    rows = [("pending", "runs", "operations", "about")]
    for name, members in groups.items():
        operations = sum(map(estimator.count_one, members))
        seconds = time(members)
        about = "-" if seconds is None else formatting.duration(seconds)
        rows.append((name, str(len(members)), f"{operations:.2e}", about))
    lines = [formatting.aligned(rows), count]
    if pending:
        lines.append(
            f"Operations: {total:.2e}, if every text has --max_length tokens "
            "and every run --max_epochs epochs."
        )
        seconds = total / flops if flops else add([time(pending), builds])
        lines.append(_describe_time(seconds, jobs, flops))
    return "\n".join(lines) + problem


def add(values: Iterable[float | None]) -> float | None:
    """The sum; None if a value is not known."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _describe_time(
    seconds: float | None, jobs: int, flops: float | None
) -> str:
    """The sentence on the time of all runs; see `describe_costs`."""
    if seconds is None:
        return (
            "Time: not known before runs like these are finished here. "
            "--flops=30e12 gives it for a device that does 30e12 operations "
            "per second."
        )
    source = "as finished runs took"
    if flops:
        source = f"{flops:.2g} operations per second by --flops"
    return f"Time: {seconds / jobs / 3600:,.1f} hours, {source}."
