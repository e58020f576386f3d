"""Run records as pandas frames: what tables, figures and claims are made from.

A *group* is runs that differ by seed alone; a *study* is groups that may be
compared: they differ in what is trained, in rate and seed, and in what their
paper varies on purpose. Runs without an encoder, *baselines*, have few
settings; they belong to every study that has the same values of these.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tf_transfer.config import settings as settings_lib
from tf_transfer.reports.reading import Record, TIMING_ENVIRONMENT

# What may differ within every study; a paper varies more.
VARIED = (
    "trainable_layers",
    "blocks",
    "method",
    *settings_lib.METHOD_OPTIONS,
    "lr",
    "frozen_prefix",
    "cache_dtype",
    "features",
)
# Parts of the key that name a run, or its texts and weights.
IDENTITIES = ("module", "task", "seed", "data_identity", "model_identity")

# Fields of a record that are columns.
COPIED = (
    *("path", "experiment", "task", "data", "blocks", "metric", "approach"),
    *("cached", "lr", "seed", "sizes", "epochs_run", "stop_reason"),
)
# Columns that a record may not know.
COUNTS = (
    "seconds_per_epoch",
    "memory",
    "trainable_parameters",
    "total_parameters",
)

dump = json.JSONEncoder(sort_keys=True).encode  # equal texts of equal values


def runs_frame(
    records: Sequence[Record], varied: Iterable[str] = ()
) -> pd.DataFrame:
    """One row for each run of one experiment.

    Args:
        records: see `reading`.
        varied: settings that the paper varies, in addition to `VARIED`.

    Returns:
        Columns, scores and metrics in points and times in seconds:
        `path experiment task data data_identity model blocks metric approach
        cached lr seed`; `baseline` (whether it has no encoder, nor a `model`);
        `settings` (dict: the key without `IDENTITIES`, and `model`,
        `weights` (their identity) and `max_epochs`); `sizes` (dict); `metrics`
        (dict); `score` (test, or validation where nothing is tested),
        `validation`, `majority` (of the headline metric; nan where not known),
        `one_answer` (whether
        all examples have the same answer); `seconds` (to the stopping point, a
        cached prefix as if this run had built it), `seconds_per_epoch` (of
        runs timed as most on their texts), `memory` (bytes),
        `trainable_parameters`, `total_parameters` (all nan where not known),
        `started` (seconds, nan where not known), `epochs_run`, `stop_reason`;
        `timed` (whether its times may be compared with those of most runs on
        its texts); `environment` (text: equal for runs timed under the same
        conditions), `mixed` (whether its epochs were timed in several
        environments); `record` (dict: what the row is made from); `study` (`A`,
        the largest, `B`, ...; of a baseline that belongs to others an empty
        string, see `studies`), `shared` (dict: settings that a study's runs
        have in common) and `group` (a number).
    """
    frame = pd.DataFrame([_make_row(record) for record in records])
    frame["shared"] = [
        {n: v for n, v in s.items() if n not in {*VARIED, *varied}}
        for s in frame.settings
    ]
    encoders = frame.shared[~frame.baseline]
    distinct = [*{dump(shared): shared for shared in encoders}.values()]
    belongs = [
        baseline and any(shared.items() <= other.items() for other in distinct)
        for shared, baseline in zip(frame.shared, frame.baseline)
    ]
    shared_texts = frame.shared.map(dump).where(~np.array(belongs, dtype=bool))
    sizes = shared_texts.value_counts()
    ranked = sorted(sizes.index, key=lambda text: (-sizes[text], text))
    letters = {text: letters_of(rank) for rank, text in enumerate(ranked)}
    frame["study"] = [letters.get(text, "") for text in shared_texts]
    settings = frame.settings.map(dump).rename("settings_text")
    frame["group"] = frame.groupby(
        ["study", "task", "data_identity", "approach", settings], sort=True
    ).ngroup()
    frame["timed"] = _has_modal_value(frame, ~frame.mixed, "environment")
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


def _make_row(record: Record) -> dict[str, Any]:
    key = record["key"]
    settings = {n: v for n, v in key.items() if n not in IDENTITIES}
    baseline = not record["blocks"]
    model = "" if baseline else record["model"]
    if not baseline:
        settings = {
            **settings,
            "model": model,
            "weights": key["model_identity"],
            "max_epochs": record["max_epochs"],
        }
        if "combine" in settings:  # the key lacks an equal `head_combine`
            settings.setdefault("head_combine", settings["combine"])
    scored = "validation" if record["test"] is None else "test"
    conditions = dict(record["timing_environment"])
    mixed = conditions.pop("mixed")
    # Stored summaries may lack a name that was added later.
    lacking = {*TIMING_ENVIRONMENT} - {*conditions}
    conditions |= dict.fromkeys(lacking)
    row = {name: record[name] for name in COPIED}
    row |= {name: number(record[name]) for name in COUNTS}
    return row | {
        "model": model,
        "baseline": baseline,
        "data_identity": key["data_identity"],
        "settings": settings,
        "metrics": {n: points(v) for n, v in record["metrics"].items()},
        "score": points(record[scored]),
        "validation": points(record["validation"]),
        "majority": points(record["majorities"].get(record["metric"])),
        "one_answer": record["one_answer"],
        "seconds": number(record["seconds"]) + _unpaid_seconds(record),
        "started": number(record.get("started")),
        "environment": dump(conditions),
        "mixed": mixed,
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


def _has_modal_value(
    frame: pd.DataFrame, among: pd.Series, column: str
) -> pd.Series:
    """Whether each run has the most frequent value on its texts in its study.

    Args:
        frame: see `runs_frame`.
        among: whether a run counts; False for the others.
        column: the values that are compared.
    """
    runs = frame[among]
    of_most = runs.groupby(["study", "task", "data_identity"])[column]
    is_so = runs[column] == of_most.transform(lambda v: v.mode().iloc[0])
    return is_so.reindex(frame.index, fill_value=False)


class Epoch(NamedTuple):
    """An epoch of a run.

    Attributes:
        epoch: from 1.
        validation, test: scores in points, or nan.
        seconds: since the start, a cached prefix as if built by this run.
    """

    path: str
    epoch: int
    validation: float
    test: float
    seconds: float


def _unpaid_seconds(record: Record) -> float:
    """What building its cached prefix took, as far as it was not built here.

    A run counts as if it had built its prefix itself.
    """
    if not record["cached"]:
        return 0.0
    return record["prefix_build_seconds"] - record["prefix_seconds"]


def list_epochs(record: Record) -> list[Epoch]:
    """The epochs of a run."""
    unpaid = _unpaid_seconds(record)
    return [
        Epoch(
            record["path"],
            count,
            points(epoch["validation"]),
            points(epoch["test"]),
            number(epoch["seconds"]) + unpaid,
        )
        for count, epoch in enumerate(record["epochs"], 1)
    ]


def epochs_frame(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each epoch of each run; columns as in `Epoch`."""
    return pd.DataFrame(
        [epoch for record in runs.record for epoch in list_epochs(record)],
        columns=Epoch._fields,
    )
