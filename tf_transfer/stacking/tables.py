"""Tables of "To Tune or Not To Tune?", and the ensemble of its experiment B.

The cells of the paper's tables are lost. The gains in its text, and the rows
that they are of, are in `experiments/stacking/published.json`. The ensemble is
joined from stored predictions when run directories are read. Its record is
like that of a run whose head is `ensemble` and whose adaptation is `mean`.
"""

import collections
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import pandas as pd

from tf_transfer.comparison.predictions import Predictions
from tf_transfer.comparison.run_record import RunRecord, Setting, Settings
from tf_transfer.data import metrics
from tf_transfer.reports import run_frame as runs_lib, tables
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.reading import Reasons
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table
from tf_transfer.training.checkpoint import Arrays
from tf_transfer.utils.json_files import Record

HEADS = {
    "dense": "two dense layers",
    "bilstm": "BiLSTM",
    "densenet": "DenseNet",
    "highway": "Highway LSTM",
    "bimpm": "BiMPM",
    "bimpm_without_context": "BiMPM without its first BiLSTM",
    "sim_transformer": "Sim-Transformer",
    "ensemble": "ensemble of three",
}
ADAPTATIONS = {
    "finetune_only": "finetune-only",
    "stack_only": "stack-only",
    "stack_and_finetune": "stack-and-finetune",
    "joint": "joint",
    "two_rates": "joint at two rates",
    "mean": "mean of probabilities",
}
# Head and adaptation of the three models of the ensemble.
MEMBERS = (
    ("dense", "finetune_only"),
    ("densenet", "stack_and_finetune"),
    ("highway", "stack_and_finetune"),
)
_Number = TypeVar("_Number", int, float)


def name_approach(approach: str, settings: Settings) -> str:
    """The head and the adaptation, in words."""
    head, adaptation = str(settings["head"]), str(settings["adaptation"])
    return f"{HEADS.get(head, head)}, {ADAPTATIONS[adaptation]}"


# === The paper's tables ===


def list_tables(study: Study) -> list[Table]:
    """Table 1, and those on the tasks of a study."""
    strategies = study.published.get("strategies", ())
    made = [
        Table(
            "table_1",
            "Table 1: three ways of adapting BERT, from the paper's text, and "
            "how many runs of each there are here",
            table_1(study, strategies),
        )
    ]
    for table in study.published.get("tables", ()):
        if table["task"] in {*study.runs.task}:
            caption = (
                f"{table['caption']} In points. Here: mean ± standard "
                "deviation over n seeds at the best rate on validation. "
                "Empty: not in our copy, or not run"
            )
            made.append(Table(table["name"], caption, compare(study, table)))
    return made


def list_figures(study: Study) -> list[Figure]:
    """None: the paper's only figure is a drawing."""
    return []


def table_1(study: Study, strategies: Iterable[dict[str, str]]) -> pd.DataFrame:
    """What trains first and then, by strategy."""
    frame = pd.DataFrame(strategies)
    adaptations = list(study.runs.settings.str["adaptation"])
    counts = frame.pop("adaptation").map(adaptations.count)
    return frame.assign(**{"runs here": [count or "" for count in counts]})


def compare(study: Study, table: Record) -> pd.DataFrame:
    """Scores of models and strategies, and their gains over other rows.

    Args:
        study: Whose runs are ours.
        table: Dict of `task`, `metrics` and `rows`. A row has `model`,
            `strategy`, `settings` and, where the text compares the row,
            `gains`: dicts of `over` (model and strategy of another row) and
            the published gain by metric; also `both`, settings of the two
            rows, with a `reading` that says so. A gain is of the runs that a
            claim would compare, whose rates agree.

    Returns:
        For each metric, a line for each row, or for each of its gains.
    """
    settings_of = {
        f"{row['model']}, {row['strategy']}": row["settings"]
        for row in table["rows"]
    }
    find_pair = functools.partial(tables.find_pair, study, table["task"])
    lines = []
    for metric, title in table["metrics"].items():
        for row, (name, settings) in zip(table["rows"], settings_of.items()):
            runs = tables.find_runs(study, table["task"], settings)
            for gain in row.get("gains", [{}]):
                over, ours = gain.get("over", ""), ""
                if over:
                    both = gain.get("both", {})
                    pair = find_pair(
                        {**settings, **both}, {**settings_of[over], **both}
                    )
                    score, base = (
                        tables.mean(runs_lib.measure_runs(metric, runs))
                        for runs in pair
                    )
                    ours = tables.show_difference(score - base, pair, sign="+")
                lines.append(
                    {
                        "measure": title,
                        "model and strategy": name.strip(", "),
                        "n": str(len(runs) or ""),
                        "here": tables.show(metric, runs),
                        "gain over": _name_gain(gain),
                        **tables.pair("gain", gain.get(metric, ""), ours),
                    }
                )
    return pd.DataFrame(lines)


def _name_gain(gain: Record) -> str:
    """The row that a gain is over, and the reading of both rows."""
    words = [gain.get("over", ""), gain.get("reading", "")]
    return ", ".join(filter(None, words))


# === The ensemble of experiment B ===


def ensembles(
    records: Iterable[RunRecord], predictions: Predictions
) -> tuple[list[RunRecord], Reasons]:
    """The ensembles of three of some runs; called by `summary.summarize`.

    Args:
        records: Of runs of `stacking`.
        predictions: Theirs.

    Returns:
        A record for each ensemble; and (path, reason) of what may not be
        joined.
    """
    joined: list[RunRecord] = []
    refused = []
    for trio in find_trios(records):
        tested = [predictions.read_split(record, "test") for record in trio]
        validated = [
            predictions.read_split(record, "validation") for record in trio
        ]
        if not all("ids" in arrays for arrays in (*tested, *validated)):
            continue
        problem = _compare_labels(trio, tested) or _compare_labels(
            trio, validated
        )
        if problem:
            refused.append((trio[-1].path, f"is in no ensemble: {problem}"))
            continue
        test = _average(tested)
        record = make_record(trio, test, _average(validated))
        joined.append(predictions.describe_record(record, test))
    return joined, refused


def find_trios(
    records: Iterable[RunRecord],
) -> Iterator[tuple[RunRecord, ...]]:
    """Three models of one seed whose settings are equal where they share them.

    Their heads and adaptations are those of `MEMBERS`, in this order. Settings
    of one head alone, such as its sizes, do not count.
    """
    buckets = collections.defaultdict(list)
    for record in records:
        if record.task == "text":
            buckets[record.seed, record.lr].append(record)
    for members in buckets.values():
        by_model = collections.defaultdict(list)
        for record in members:
            key = record.key
            by_model[key.get("head"), key.get("adaptation")].append(record)
        for trio in itertools.product(*(by_model[m] for m in MEMBERS)):
            if _agree(trio):
                yield trio


def _list_settings(record: RunRecord) -> Settings:
    """What a member has to share with others."""
    settings = {**record.key, "max_epochs": record.max_epochs}
    left_out = ["head"]
    if settings["adaptation"] == "finetune_only":  # it freezes no encoder
        left_out += ["adaptation", "frozen_prefix", "cache_dtype"]
    return {n: v for n, v in settings.items() if n not in left_out}


def _agree(trio: Iterable[RunRecord]) -> bool:
    """Whether settings are equal where several members have them."""
    values = collections.defaultdict(set)
    for record in trio:
        for name, value in _list_settings(record).items():
            values[name].add(value)
    return all(len(shared) == 1 for shared in values.values())


def _compare_labels(
    trio: Sequence[RunRecord], members: Sequence[Arrays]
) -> str:
    """Names a member with other ids or labels of a split; empty if none has."""
    first = members[0]
    for record, arrays in zip(trio, members):
        for name in ("ids", "labels"):
            if not np.array_equal(first[name], arrays[name]):
                return f"{record.path} has other {name} than {trio[0].path}."
    return ""


def _average(members: Sequence[Arrays]) -> Arrays:
    """Arrays of a split whose logits are the members' mean probabilities."""
    probabilities = [
        metrics.probabilities(arrays["logits"]) for arrays in members
    ]
    return {**members[0], "logits": np.mean(probabilities, axis=0)}


def make_record(
    trio: Sequence[RunRecord], test: Arrays, validation: Arrays
) -> RunRecord:
    """The record of an ensemble: its cost is that of all members together.

    Args:
        trio: Records of the members, the one that is not stacked first.
        test: See `_average`.
        validation: See `_average`.
    """
    base, *stacked = trio
    settings: dict[str, Setting] = {}
    for member in trio:
        settings.update(member.key)
    names = [name for name in base.metrics if name in metrics.METRICS]
    scores = metrics.measure(names, test["labels"], test["logits"])
    [validated] = metrics.measure(
        [base.metric], validation["labels"], validation["logits"]
    ).values()
    environments = [member.timing_environment for member in trio]
    mixed = any(e.mixed or e != environments[0] for e in environments)
    paid, built = base.prefix_seconds, base.prefix_build_seconds
    if stacked[0].cached:  # they share a prefix
        paid = _add(member.prefix_seconds for member in stacked)
        built = max(member.prefix_build_seconds or 0.0 for member in stacked)
    return msgspec.structs.replace(
        base,
        path="mean of " + " + ".join(member.path for member in trio),
        members=[member.path for member in trio],
        key={**settings, "head": "ensemble", "adaptation": "mean"},
        approach="mean_ensemble",
        cached=stacked[0].cached,
        timing_environment=msgspec.structs.replace(
            environments[0], mixed=mixed
        ),
        epochs=[],
        passes=[],
        validation=validated,
        test=scores[base.metric],
        metrics=scores,
        epochs_run=sum(member.epochs_run for member in trio),
        seconds=_add(member.seconds for member in trio),
        trainable_parameters=_add(
            member.trainable_parameters for member in trio
        ),
        total_parameters=_add(member.total_parameters for member in trio),
        prefix_seconds=paid,
        prefix_build_seconds=built,
        stop_reason=None,
        seconds_per_epoch=None,
        memory=None,
    )


def _add(values: Iterable[_Number | None]) -> _Number | None:
    """The sum; None if a value is not known."""
    total = None
    for value in values:
        if value is None:
            return None
        total = value if total is None else total + value
    return total
