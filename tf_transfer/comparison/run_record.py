"""A finished run: all that a comparison and a report use of it.

`reports.reading` makes the record of a run directory; `reports.summary` writes
records as JSON, and reads them.
"""

from collections.abc import Mapping, Sequence

import msgspec

from tf_transfer.training.record_types import Profile

Scalar = str | int | float | bool | None
Setting = Scalar | Sequence[Scalar]
Settings = Mapping[str, Setting]  # by name
# Times are compared only between runs that agree in these.
CONDITIONS = (
    "machine",
    "processor",
    "devices",
    "threads",
    "concurrent_runs",
    "replicas",
)


class Epoch(msgspec.Struct, frozen=True):
    """The measurements after an epoch.

    Attributes:
        validation, test: The headline scores, 0..1.
        seconds: Since the run began.
    """

    validation: float | None
    test: float | None
    seconds: float | None


class Pass(msgspec.Struct, frozen=True):
    """A pass over one of several tasks.

    Attributes:
        validation: The metrics after it, 0..1.
    """

    task: str
    validation: dict[str, float]


class Environment(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True
):
    """Where a run was timed; None where it was not recorded.

    Attributes:
        mixed: Whether `CONDITIONS` changed during the run.
    """

    machine: str | None = None
    processor: str | None
    devices: list[str] | None
    threads: int | None
    concurrent_runs: int | None
    replicas: int | None
    mixed: bool

    @property
    def conditions(self) -> list[str | int | list[str] | None]:
        """The values of `CONDITIONS`."""
        return [getattr(self, name) for name in CONDITIONS]


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A finished run, or an ensemble of several.

    Scores and metrics are from 0 to 1. A time, a count or a score that was not
    recorded is None. JSON has no field that is None by default.

    Attributes:
        path: Of the run directory, from the folder that was read.
        experiment: Such as `glue`.
        data: What `--data` or `--task` named.
        blocks: Of the encoder; 0 without one.
        parts: Number of parameters by part of the network.
        approach: Such as `last_2`.
        cached: Whether the frozen blocks' output was read from a feature cache.
        lr: 0 without an encoder.
        key: The settings and identities that make the run this run.
        sizes: Examples by split.
        epochs: None of an ensemble.
        passes: Where several tasks train, in turn.
        folds: The metrics of each fold, of a baseline that is tested in folds.
        validation, test: The headline scores of the selected epoch.
        metrics: All scores on `split`.
        majorities: What the majority baseline scores on `split`, by metric.
        one_answer: Whether all examples of `split` have the same answer.
        seconds: Of training, with the part of the frozen blocks it paid for.
        trace_seconds: Of tracing and compiling, in no other time.
        prefix_seconds, prefix_build_seconds: What this run paid for the output
            of the frozen blocks, and what it took to compute.
        memory: Peak, in bytes.
        started: In seconds since 1970.
        command: That trained it.
        predictions: Begin of the SHA-256 of `predictions.npz`, or "".
        texts, resampled, lead_error: See `predictions.resample`.
        profile: Of a probe.
        members: The paths of the runs that an ensemble joins.
    """

    path: str
    experiment: str
    task: str
    data: str
    model: str
    blocks: int
    parts: dict[str, int]
    metric: str
    approach: str
    cached: bool
    lr: float
    seed: int
    max_epochs: int | None
    key: dict[str, Setting]
    sizes: dict[str, int]
    timing_environment: Environment
    commit: str | None
    versions: dict[str, str | None]
    epochs: list[Epoch]
    passes: list[Pass]
    folds: list[dict[str, float]] | None
    validation: float | None
    test: float | None
    metrics: dict[str, float]
    majorities: dict[str, float]
    one_answer: bool
    epochs_run: int
    stop_reason: str | None
    seconds: float | None
    seconds_per_epoch: float | None
    trace_seconds: float | None
    prefix_seconds: float | None
    prefix_build_seconds: float | None
    memory: int | None
    trainable_parameters: int | None
    total_parameters: int | None
    started: float | None = None
    warnings: list[str] | None = None
    command: list[str] | None = None
    predictions: str | None = None
    texts: str | None = None
    resampled: str | None = None
    lead_error: float | None = None
    profile: Profile | None = None
    members: list[str] | None = None

    @property
    def split(self) -> str:
        """The split that the run is compared on: the test, if it has one."""
        return "validation" if self.test is None else "test"

    @property
    def score(self) -> float | None:
        """The headline score on `split`."""
        return self.validation if self.test is None else self.test

    @property
    def trains(self) -> bool:
        """Whether weights of an encoder or its head were trained."""
        return self.blocks > 0 and not self.approach.startswith("probe")

    @property
    def shared_prefix_seconds(self) -> float:
        """Seconds of the frozen blocks that other runs have spent.

        A run counts as if it had computed all of their output itself.
        """
        build, paid = self.prefix_build_seconds, self.prefix_seconds
        if not self.cached or build is None or paid is None:
            return 0.0
        return build - paid
