"""The overview of a study: what each approach scores and costs.

A row is an approach on a task, at its learning rate, against training
everything with the same other settings. Of several rates, a row has the one
that is best on validation, over the seeds that all of them have; where nothing
validates, each has its own row.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tf_transfer.config.settings import METHOD_OPTIONS
from tf_transfer.reports import (
    estimates,
    frames,
    groups as groups_lib,
    measures,
)
from tf_transfer.reports.claims import plain
from tf_transfer.reports.estimates import Cell, Contrast, Ranged, UNKNOWN
from tf_transfer.reports.groups import did_not_train, Group

EVERYTHING = "everything"
ENVIRONMENT = "machine, devices, threads, parallel runs, warm worker or not"
TIMED_APART = (
    "*: not compared, as it was measured in another environment than most "
    f"({ENVIRONMENT})"
)
NAMES = {
    "fine_tuning": EVERYTHING,
    "last_0": "the head alone",
    "head": "the output layer alone",
}
UNTRAINED = "untrained"  # a setting of runs that train everything
# Settings that name a row where rows of an approach differ in them. Methods
# with other options are other rows, never chosen by scores.
NAMED = (*METHOD_OPTIONS, "cache_dtype")
VARIED = {*frames.VARIED, UNTRAINED}


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """An approach on a task.

    Attributes:
        task: its name, with the size of its files where there are several.
        trains: what is trained, in words.
        approach, cached, lr: of its runs.
        blocks: number of trained blocks; None of `everything`, or if unknown.
        is_base: whether it trains everything.
        runs: see `frames.runs_frame`.
        n: scores that it stands on: seeds, or folds.
        score: their mean, in points.
        gain: over training everything, in points.
        kept: percent of what training everything scores above the majority
            baseline.
        seconds: to the stopping point.
        share: percent of the time of training everything.
        epoch_share: the same of an epoch.
        trained: percent of the parameters.
        majority: what the majority baseline scores, in points.
        failed: whether it is not shown to be above the majority baseline; see
            `groups_lib.did_not_train`.
        base: the row of training everything, where there is one.
        is_timed: whether runs of it were timed as most are.
        rates: that were tried, one of which was chosen on validation.
        note: why it is not compared, a clause; or an empty string.
    """

    task: str
    trains: str
    approach: str
    cached: bool
    lr: float
    blocks: int | None
    is_base: bool
    runs: pd.DataFrame
    n: int
    score: Ranged
    seconds: Ranged
    trained: float
    majority: float
    failed: bool
    is_timed: bool = True
    rates: tuple[float, ...] = ()
    gain: Ranged = UNKNOWN
    kept: Ranged = UNKNOWN
    share: Ranged = UNKNOWN
    epoch_share: Ranged = UNKNOWN
    base: "Row | None" = None
    note: str = ""

    @property
    def is_probe(self) -> bool:
        """Whether it is a regression on the frozen encoder."""
        return self.approach.startswith("probe")


def make_rows(runs: pd.DataFrame) -> list[Row]:
    """The rows of a study, by task, the one that trains most first.

    Args:
        runs: of a study, see `frames.runs_frame`.
    """
    runs = runs.assign(text=name_texts(runs))
    groups = groups_lib.list_groups(runs)
    names = _name_groups(groups)
    rows: list[Row] = []
    by_recipe = groups_lib.group_by(groups, _describe_recipe)
    for _, members in sorted(by_recipe.items()):
        rows += _match(members, names)
    counts = collections.Counter((row.task, row.trains) for row in rows)
    rows = [
        _complete(row, rows, counts[row.task, row.trains] > 1) for row in rows
    ]
    rows.sort(
        key=lambda row: (
            row.task,
            not row.is_base,
            -math.inf if row.blocks is None else -row.blocks,
            row.approach,
            row.cached,
            row.lr,
            row.trains,
        )
    )
    return [_compare(row) for row in rows]


def _complete(row: Row, rows: Sequence[Row], has_namesakes: bool) -> Row:
    """A row with its base, and a name that no other row has."""
    trains, base = row.trains, _find_base(row, rows)
    if has_namesakes:
        trains += _rate_or_folds(row)
    return dataclasses.replace(row, trains=trains, base=base)


def _find_base(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row of training everything that a row is compared with.

    A probe reads few of the settings that other rows have to share: it is
    compared with the only such row of its task.
    """
    bases = [one for one in rows if one.is_base and one.task == row.task]
    return bases[0] if row.is_probe and len(bases) == 1 else row.base


def _rate_or_folds(row: Row) -> str:
    """What distinguishes rows that train the same."""
    if row.lr:
        return f", lr {row.lr:g}"
    folds = row.runs.settings.iloc[0].get("folds")
    return f", {folds} folds" if folds else ", held-out test"


def name_split(rows: Sequence[Row]) -> str:
    """The split that scores are of: `Test`, `Validation`, or both."""
    splits = {
        "validation" if record["test"] is None else "test"
        for row in rows
        for record in row.runs.record
    }
    return " or ".join(sorted(splits)).capitalize()


def name_parts(rows: Sequence[Row]) -> str:
    """The sources of the intervals of rows: `seeds`, `seeds and test texts`."""
    names = {"seeds": "seeds", "folds": "folds", "texts": "test texts"}
    known = {
        part
        for row in rows
        if row.score.estimate is not None
        for part in row.score.estimate.parts
    }
    return " and ".join(w for n, w in names.items() if n in known) or "seeds"


def keep_largest(rows: Sequence[Row]) -> list[Row]:
    """The rows on the largest files of each task.

    Smaller files hold some of the data: the table has them, no mean does.
    """
    by_task = groups_lib.group_by(rows, lambda row: row.runs.task.iloc[0])
    largest = {
        max(of_task, key=lambda row: sum(row.runs.sizes.iloc[0].values())).task
        for of_task in by_task.values()
    }
    return [row for row in rows if row.task in largest]


def _describe_recipe(group: Group) -> tuple[str, str, str]:
    """Equal for groups on the same texts that differ only in what trains."""
    recipe = {n: v for n, v in group.settings.items() if n not in VARIED}
    first = group.first
    return first.text, first.data_identity, frames.dump(recipe)


def name_texts(runs: pd.DataFrame) -> list[str]:
    """Each run's task, with the size where it was run on several files.

    Args:
        runs: with `task`, `data_identity` and `sizes`.
    """
    files = runs.groupby("task").data_identity.transform("nunique")
    return [
        f"{task} ({sum(sizes.values()):,} texts)" if count > 1 else task
        for task, sizes, count in zip(runs.task, runs.sizes, files)
    ]


def label_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with `text`, the name of their task, and `trains`, in words.

    Runs that train most come first. Times of runs that are not timed are nan.

    Args:
        runs: of a study, see `frames.runs_frame`.
    """
    runs = runs.assign(
        text=name_texts(runs),  # as the overview calls them
        trains=[*map(name_approach, runs.approach, runs.cached)],
        seconds=runs.seconds.where(runs.timed),
    )
    for _, members in runs.groupby(["text", "trains"]):
        words = describe_differences(
            [{n: s[n] for n in NAMED if n in s} for s in members.settings]
        )
        runs.loc[members.index, "trains"] += words
    return runs.sort_values(
        ["text", "cached", "trainable_parameters", "trains", "lr"],
        ascending=[True, True, False, True, True],
        kind="stable",
    )


def describe_differences(
    groups: Sequence[Mapping[str, Any]], form: str = ", {} {}"
) -> list[str]:
    """The settings in which some groups differ, in words.

    Args:
        groups: settings of each.
        form: of a setting, with its name and value.
    """
    names = dict.fromkeys(name for settings in groups for name in settings)
    shown = [
        {name: str(plain(settings.get(name, ""))) for name in names}
        for settings in groups
    ]
    texts = [""] * len(shown)
    for name in names:
        values = [settings[name] for settings in shown]
        if len({*values}) > 1:
            for number, value in enumerate(values):
                if value:
                    texts[number] += form.format(name, value)
    return texts


def _name_groups(groups: Sequence[Group]) -> dict[Group, str]:
    """What each group trains, in words; with settings, where these differ."""
    by_approach = groups_lib.group_by(
        groups,
        lambda group: (
            *(group.first.text, group.first.data_identity),
            *(group.first.approach, group.first.cached),
        ),
    )
    names = {}
    for members in by_approach.values():
        differences = describe_differences([*map(_named, members)])
        for group, words in zip(members, differences):
            first = group.first
            names[group] = name_approach(first.approach, first.cached) + words
    return names


def _match(
    groups: Sequence[Group],
    names: Mapping[Group, str],
) -> list[Row]:
    """Rows of groups on the same texts that differ only in what trains."""
    # Without a group that trains every weight, the one that trains most is the
    # base.
    least = min(map(_untrained, filter(_trains_everything, groups)), default="")
    rows = []
    for _, members in sorted(
        groups_lib.group_by(groups, _describe_approach).items()
    ):
        best = groups_lib.keep_best_rate(members)
        for group in best or members:
            rates = sorted({g.lr for g in members}) if best else [group.lr]
            is_base = _trains_everything(group) and _untrained(group) == least
            rows.append(_make_row(group, names[group], is_base, rates))
    bases = [row for row in rows if row.is_base]
    return [_against(row, bases) for row in rows]


def _untrained(group: Group) -> str:
    return str(group.settings.get(UNTRAINED, ""))


def _trains_everything(group: Group) -> bool:
    """Whether it trains all weights, or all but what is `untrained`."""
    settings = group.settings
    return (
        settings.get("trainable_layers") == "all"
        and settings.get("method") == "full"
        and not group.first.cached
    )


def _describe_approach(group: Group) -> tuple[Any, ...]:
    """Equal for groups on the same texts that differ only in their rate."""
    first, settings = group.first, group.settings
    options = frames.dump(
        {n: settings[n] for n in METHOD_OPTIONS if n in settings}
    )
    dtype = str(settings.get("cache_dtype", ""))
    return first.approach, first.cached, dtype, _untrained(group), options


def _named(group: Group) -> dict[str, Any]:
    """Settings that name a row where rows of an approach differ in them."""
    known = dict(sorted(group.settings.items()))
    recipe = {n: v for n, v in known.items() if n not in VARIED}
    options = {n: v for n, v in known.items() if n in METHOD_OPTIONS}
    return {**recipe, **options, "cache_dtype": known.get("cache_dtype", "")}


def _make_row(
    group: Group,
    name: str,
    is_base: bool,
    rates: Sequence[float],
) -> Row:
    runs, first, untrained = group.runs, group.first, _untrained(group)
    layers = str(group.settings.get("trainable_layers", ""))
    is_timed = bool(runs.timed.any())
    return Row(
        task=first.text,
        trains=name + (f", untrained {untrained}" if untrained else ""),
        approach=first.approach,
        cached=first.cached,
        lr=first.lr,
        blocks=int(layers) if layers.isdigit() else None,
        is_base=is_base,
        runs=runs,
        n=len(measures.known(measures.measure_runs("score", runs))),
        score=_mean_of(runs, "score"),
        seconds=_mean_of(runs[runs.timed] if is_timed else runs, "seconds"),
        is_timed=is_timed,
        trained=100
        * float((runs.trainable_parameters / runs.total_parameters).mean()),
        majority=float(runs.majority.iloc[0]),
        failed=did_not_train(runs),
        rates=tuple(rates),
    )


def name_approach(approach: str, cached: bool) -> str:
    """What is trained, in words: `everything`, `last 2 (cached)`."""
    if approach.startswith("the probe"):
        return approach
    if approach.startswith("probe"):
        return approach.replace("probe", "the probe").replace("_", ", ")
    name = approach.replace("_", " ")
    if approach.startswith("fine_tuning_"):
        name = f"{EVERYTHING}, {approach.removeprefix('fine_tuning_')}"
    name = NAMES.get(approach, name)
    return f"{name} (cached)" if cached else name


def _against(row: Row, bases: Sequence[Row]) -> Row:
    """A row with its comparison with training everything.

    The rates of both are chosen from equally many, or among those that both
    were tried at.
    """
    if row.is_base or not bases:
        return row
    if len(bases) > 1:  # several rates, which nothing validates
        bases = [base for base in bases if base.lr == row.lr]
    if not bases:
        return dataclasses.replace(
            row, note="not everything was trained at its rate"
        )
    base, note = bases[0], ""
    has_both = {row.lr, base.lr} <= {*row.rates} & {*base.rates}
    if len(row.rates) != len(base.rates) and not has_both:
        note = (
            f"its rate is the best of {len(row.rates)}, that of training "
            f"everything of {len(base.rates)}"
        )
    return dataclasses.replace(row, base=base, note=note)


def _compare(row: Row) -> Row:
    if row.base is None or row.note or row.failed or row.base.failed:
        return row
    return dataclasses.replace(
        row,
        gain=compare_with_base([row], "score", "difference"),
        kept=compare_with_base([row], "score"),
        share=compare_with_base([row], "seconds"),
        epoch_share=compare_with_base([row], "seconds_per_epoch"),
    )


def _mean_of(runs: pd.DataFrame, measure: str) -> Ranged:
    [cell] = groups_lib.measure((measure,), (runs,))
    if not len(cell.values):
        return UNKNOWN
    return estimates.summarize(Contrast.of(cell), [cell])


def compare_with_base(
    rows: Sequence[Row], measure: str, kind: str = "percent"
) -> Ranged:
    """The mean over rows of a difference to training everything, or of a share.

    A share of a score is of what lies above the majority baseline; one of a
    time has an interval where the runs were timed in turn.

    Args:
        rows: each has a base.
        measure: see `measures.MEASURES`.
        kind: `difference` or `percent`.

    Returns:
        Nothing where a row or its base has no value, or a share is of nothing.
    """
    is_time = measure in measures.DURATIONS
    contrasts: list[Contrast] = []
    cells: list[Cell] = []
    for row in rows:
        assert row.base is not None
        pair = groups_lib.measure(
            (measure, measure),
            (row.runs, row.base.runs),
            logarithms=is_time,
        )
        if not all(len(cell.values) for cell in pair):
            return UNKNOWN
        cells += pair
        first, second = map(Contrast.of, pair)
        if kind == "difference" or is_time:
            contrasts.append(first - second)
            continue
        majority = 0.0 if math.isnan(row.majority) else row.majority
        first, second = first + -majority, second + -majority
        if second.value <= 0:
            return UNKNOWN
        contrasts.append((first / second) * 100)
    ranged = estimates.summarize(estimates.mean(contrasts), cells, is_time)
    if is_time and not all(cell.in_turn for cell in cells):
        return Ranged(ranged.value)
    return ranged
