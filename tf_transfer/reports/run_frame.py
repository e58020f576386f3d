"""The frame of runs, with one row per run, and measures of runs.

A *group* is runs that differ by seed alone; a *study* is groups that may be
compared: they differ in what is trained, in rate and seed, and in what their
paper varies on purpose. Runs that train nothing of an encoder, *baselines*,
have few settings; they belong to every study that has the same values of these.
The probe has the weights of the encoder whose states it reads.
"""

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from tf_transfer.comparison.run_record import RunRecord, Settings
from tf_transfer.config import settings as settings_lib

# What only runs with a feature cache have.
CACHING = ("cache_dtype", "prefix_engine", "prefix_precision")
# What may differ within every study; a paper varies more.
VARIED = (
    "trainable_layers",
    "blocks",
    "method",
    *settings_lib.METHOD_OPTIONS,
    "lr",
    "frozen_prefix",
    *CACHING,
    "features",
    "words",
)
# Parts of the key that name a run, or its texts and weights.
IDENTITIES = ("module", "task", "seed", "data_identity", "model_identity")

# Units of measures; all others are in points.
UNITS = {"seconds": "s", "seconds_per_epoch": "s", "epochs_run": "epochs"}
PASS = "pass:"  # `pass:similarity:sentiment_accuracy`
DURATIONS = ("seconds", "seconds_per_epoch")
WITHIN = ("score_within", "interpolated_score")  # a time
TIMES = (*DURATIONS, *WITHIN)
# Not known for runs that the limit of epochs ended.
UNTIL_STOP = ("seconds", "epochs_run", "last_score")

dump = json.JSONEncoder(sort_keys=True).encode  # equal texts of equal values


# === The frame ===


class FrameRow(Protocol):
    """A row of the frame of a study, as pandas has it; see `runs_frame`.

    `text` and `trains` describe the task and the trained weights: see
    `approaches.label_runs`.
    """

    task: str
    model: str
    approach: str
    data_identity: str
    settings: Settings
    sizes: Mapping[str, int]
    blocks: int
    cached: bool
    lr: float
    epochs_run: int
    text: str
    trains: str


def runs_frame(
    records: Sequence[RunRecord], varied: Iterable[str] = ()
) -> pd.DataFrame:
    """One row for each run of one experiment.

    Args:
        records: See `reading`.
        varied: Settings that the paper varies, in addition to `VARIED`.

    Returns:
        Columns, scores and metrics in points and times in seconds; numbers are
        nan where not known:
        `path experiment task data data_identity model blocks metric approach
        cached lr seed epochs_run stop_reason` and `sizes` (dict): as recorded;
        `baseline`: whether it trains nothing of an encoder, nor has a `model`;
        `settings` (dict): the key without `IDENTITIES`, and `model`, `weights`
        (their identity) and `max_epochs`; of baselines without encoders, none
        of the three, and of the probe `weights` alone;
        `test`, `validation`: the headline score of each split; `score`: that of
        the test, or of validation where the run tests nothing;
        `metrics` (dict), `majority` (the majority baseline's headline score),
        `one_answer` (whether all examples have the same answer): of the split
        of `score`;
        `seconds`: to the stopping point, a cached prefix as if this run had
        built it; `seconds_per_epoch` (of runs that are `timed`);
        `trainable_parameters`; `started`; `environment`: equal for runs timed
        under the same conditions; `mixed`: whether its epochs were timed in
        several; `timed`: whether its times may be compared with those of most
        runs on its texts;
        `record` (`RunRecord`): what the row is made from;
        `study`: `A`, the largest, `B`, ...; of a baseline that belongs to
        others an empty string, see `studies`; `shared` (dict): settings that a
        study's runs have in common; `group`: a number.
    """
    frame = pd.DataFrame([_make_row(record) for record in records])
    frame["shared"] = [
        {n: v for n, v in s.items() if n not in {*VARIED, *varied}}
        for s in frame.settings
    ]
    encoders = frame[~frame.baseline]
    groups = [
        (group.shared.iloc[0], set(group.task))
        for _, group in encoders.groupby(encoders.shared.map(dump))
    ]
    belongs = [
        row.baseline
        and any(
            row.task in tasks and row.shared.items() <= shared.items()
            for shared, tasks in groups
        )
        for row in frame.itertuples()
    ]
    shared_texts = frame.shared.map(dump).where(~np.array(belongs, dtype=bool))
    sizes = shared_texts.value_counts()
    ranked = sorted(sizes.index, key=lambda text: (-sizes[text], text))
    letters = {text: letters_of(rank) for rank, text in enumerate(ranked)}
    frame["study"] = [letters.get(text, "") for text in shared_texts]
    settings = frame.settings.map(dump).rename("settings_text")
    frame["group"] = frame.groupby(
        ["study", "task", "data_identity", "approach", settings]
    ).ngroup()
    frame["timed"] = _has_modal_environment(frame)
    frame.loc[~frame.timed, "seconds_per_epoch"] = np.nan
    # Columns of a type lie together: rows are taken several times as fast.
    text_columns = frame.select_dtypes(["string"]).columns
    return frame.astype(dict.fromkeys(text_columns, object)).copy()


def studies(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yields each study's name and runs, including baselines on its tasks."""
    baselines = runs[runs.study == ""]
    for name, members in runs[runs.study != ""].groupby("study"):
        shared = members.shared.iloc[0]
        fits = [few.items() <= shared.items() for few in baselines.shared]
        fitting = baselines[
            np.array(fits, dtype=bool) & baselines.task.isin(members.task)
        ].copy()
        # A baseline is timed where the encoders are.
        where = members[members.timed].set_index(["task", "environment"]).index
        fitting["timed"] &= pd.MultiIndex.from_frame(
            fitting[["task", "environment"]]
        ).isin(where)
        # A copy has columns of a type together, as in `runs_frame`.
        yield str(name), pd.concat([members, fitting]).copy()


def find_model(runs: pd.DataFrame) -> str:
    """The `--model` of a study's runs; empty if all are baselines."""
    return str(runs.model.max())


def _make_row(record: RunRecord) -> dict[str, object]:
    settings = {n: v for n, v in record.key.items() if n not in IDENTITIES}
    baseline = not record.blocks
    model = "" if baseline else record.model
    if "model_identity" in record.key:  # also of the probe
        settings["weights"] = record.key["model_identity"]
    if not baseline:
        settings |= {"model": model, "max_epochs": record.max_epochs}
        if "combine" in settings:  # the key lacks an equal `head_combine`
            settings.setdefault("head_combine", settings["combine"])
    return {
        "path": record.path,
        "experiment": record.experiment,
        "task": record.task,
        "data": record.data,
        "blocks": record.blocks,
        "metric": record.metric,
        "approach": record.approach,
        "cached": record.cached,
        "lr": record.lr,
        "seed": record.seed,
        "sizes": record.sizes,
        "epochs_run": record.epochs_run,
        "stop_reason": record.stop_reason,
        "seconds_per_epoch": number(record.seconds_per_epoch),
        "trainable_parameters": number(record.trainable_parameters),
        "started": number(record.started),
        "model": model,
        "baseline": baseline,
        "data_identity": record.key["data_identity"],
        "settings": settings,
        "metrics": {n: points(v) for n, v in record.metrics.items()},
        "score": points(record.score),
        "test": points(record.test),
        "validation": points(record.validation),
        "majority": points(record.majorities.get(record.metric)),
        "one_answer": record.one_answer,
        "seconds": number(record.seconds) + record.shared_prefix_seconds,
        "environment": dump(record.timing_environment.conditions),
        "mixed": record.timing_environment.mixed,
        "record": record,
    }


def number(value: float | None) -> float:
    """A number; nan where it is not known."""
    return np.nan if value is None else float(value)


def points(score: float | None) -> float:
    """A score in points; nan where there is none."""
    return np.nan if score is None else 100 * score


def letters_of(number: int) -> str:
    """`A`, `B`, ... `Z`, `AA`, ... for 0, 1, ..."""
    more, last = divmod(number, 26)
    return (letters_of(more - 1) if more else "") + chr(ord("A") + last)


def _has_modal_environment(frame: pd.DataFrame) -> pd.Series:
    """Whether each run has its texts' modal timing environment in its study."""
    runs = frame[~frame.mixed]
    of_texts = runs.groupby(["study", "task", "data_identity"]).environment
    is_so = runs.environment == of_texts.transform(lambda v: v.mode().iloc[0])
    return is_so.reindex(frame.index, fill_value=False)


class Epoch(NamedTuple):
    """An epoch of a run.

    Attributes:
        epoch: From 1.
        validation, test: Scores in points, or nan.
        seconds: Since the start, a cached prefix as if built by this run.
    """

    path: str
    epoch: int
    validation: float
    test: float
    seconds: float


def list_epochs(record: RunRecord) -> list[Epoch]:
    """The epochs of a run."""
    return [
        Epoch(
            record.path,
            count,
            points(epoch.validation),
            points(epoch.test),
            number(epoch.seconds) + record.shared_prefix_seconds,
        )
        for count, epoch in enumerate(record.epochs, 1)
    ]


def epochs_frame(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each epoch of each run; columns as in `Epoch`."""
    return pd.DataFrame(
        [epoch for record in runs.record for epoch in list_epochs(record)],
        columns=Epoch._fields,
    )


# === Splits ===


def choose_split(groups: Sequence[pd.DataFrame]) -> str:
    """The split on which groups are compared.

    It is the test, where all of them have test scores.
    """
    if all(runs.test.notna().any() for runs in groups):
        return "test"
    return "validation"


# === Measures ===


def drop_missing(values: Iterable[float | None]) -> list[float]:
    """The values that are known."""
    return [float(v) for v in values if v is not None and not math.isnan(v)]


def measure_runs(
    name: str, runs: pd.DataFrame, seconds: float = math.nan
) -> list[float]:
    """A measure of each run, to be shown next to those of all other runs.

    See `measure_all`; times are those of runs in the modal timing environment.
    """
    if name in TIMES:
        runs = runs[runs.timed]
    return measure_all(name, runs, seconds)


def measure_all(
    name: str,
    runs: pd.DataFrame,
    seconds: float = math.nan,
    split: str = "score",
) -> list[float]:
    """A measure of each run, or of each of its folds; nan where not known.

    Args:
        name: Of the measure. `score`, `seconds` and `epochs_run` are at the
            stopping point, `last_score` is that of the last epoch,
            `score_within` the best within a time, `interpolated_score` that
            at a time, `deviation` the distance from the group's median; any
            other name is a metric of the run, or begins with `PASS`.
        runs: See `runs_frame`.
        seconds: Those of measures within a time.
        split: `test` or `validation`, of scores; `score` for each run's own.
    """
    if name == "deviation":
        return list(np.abs(runs[split] - runs[split].median()))
    if name in ("seconds", "epochs_run"):
        return list(runs[name])
    if name == "seconds_per_epoch":  # of all environments
        return [number(record.seconds_per_epoch) for record in runs.record]
    values: list[float] = []
    for record, score in zip(runs.record, runs[split]):
        if split in ("score", record.split):
            values += _measure(name, record, score, seconds)
        elif name in ("score", record.metric):
            values.append(score)
        else:  # of the other split, the headline score alone is recorded
            values.append(math.nan)
    return values


def _measure(
    name: str, record: RunRecord, score: float, seconds: float
) -> list[float]:
    """The measure of a run, or of each of its folds."""
    if name == "score_within":
        return [score_within(record, seconds)]
    if name == "interpolated_score":
        return [interpolated_score(record, seconds)]
    if name == "last_score":
        return [epoch.test for epoch in list_epochs(record)[-1:]]
    if name.startswith(PASS):
        return [mean_change(record, *name.split(":")[1:])]
    metric = record.metric if name == "score" else name
    if record.folds:
        return [points(fold.get(metric)) for fold in record.folds]
    if name == "score":
        return [score]
    return [points(record.metrics.get(name))]


def is_cut_off(runs: pd.DataFrame) -> bool:
    """Whether a run that stops by itself was ended by `--max_epochs`."""
    return any(
        settings.get("patience") and reason == "max_epochs"
        for settings, reason in zip(runs.settings, runs.stop_reason)
    )


def epoch_seconds(runs: pd.DataFrame) -> float:
    """Mean seconds per epoch, the unit of "within a time"; nan if unknown."""
    times = drop_missing(measure_all("seconds_per_epoch", runs))
    return float(np.mean(times)) if times else math.nan


def score_within(record: RunRecord, seconds: float) -> float:
    """The test score in points that a run has reached within a time.

    That is the score of the epoch that is best on validation among those ended
    by then; of the last one, if runs select it or have no validation. nan if no
    epoch has ended.
    """
    ended = [
        epoch
        for epoch in list_epochs(record)
        if epoch.seconds <= seconds and not math.isnan(epoch.test)
    ]
    if not ended:
        return math.nan
    is_last = record.key.get("select") == "last"
    if is_last or math.isnan(ended[0].validation):
        return ended[-1].test
    return max(ended, key=lambda epoch: epoch.validation).test


def interpolated_score(record: RunRecord, seconds: float) -> float:
    """The test score in points at a time, on a curve through all epochs.

    The curve is linear between the ends of epochs, and constant after the last
    one. nan before the first epoch ends.
    """
    epochs = list_epochs(record)
    ends, scores = zip(*((epoch.seconds, epoch.test) for epoch in epochs))
    if math.isnan(ends[-1]):
        return math.nan
    return float(np.interp(seconds, ends, scores, left=math.nan))


def mean_change(record: RunRecord, task: str, metric: str) -> float:
    """Mean change in points of a metric during passes over one task.

    The first pass of a phase has no evaluation before it: it begins from the
    selected weights of the phase before, not from its last.
    """
    changes = [
        after.validation[metric] - before.validation[metric]
        for before, after in itertools.pairwise(record.passes)
        if after.task == task
    ]
    return 100 * float(np.mean(changes)) if changes else math.nan
