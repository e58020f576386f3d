"""The overview of a study: what each approach scores and costs.

A row is an approach on a task, at its learning rate, against training
everything with the same other settings. Of several rates, a row has the one
that is best on validation, over the seeds that all of them have; where nothing
validates, each has its own row.
"""

import collections
import dataclasses
import json
import math
import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.config.settings import METHOD_OPTIONS
from tf_transfer.reports import estimates
from tf_transfer.reports import frames
from tf_transfer.reports import measures
from tf_transfer.reports.claims import plain
from tf_transfer.reports.estimates import Cell
from tf_transfer.reports.estimates import Contrast
from tf_transfer.reports.measures import Cells
from tf_transfer.reports.sides import UNLESS_NAMED
from tf_transfer.reports.verdicts import did_not_train
from tf_transfer.utils import selection

EVERYTHING = "everything"
ENVIRONMENT = (
    "machine since its start, devices, threads, runs side by side, traced or "
    "warm"
)
TIMED_APART = (
    "*: not compared, as it was measured in another environment than most: "
    f"{ENVIRONMENT}"
)
UNTRAINED = "untrained"  # a setting that only what trains everything has
# Of what trains few weights: other ones are another row, never a choice.
OPTIONS = (*METHOD_OPTIONS, "freeze_percentile")
NAMED = (*OPTIONS, "cache_dtype")  # in a row's name, where rows differ in them


@dataclasses.dataclass(frozen=True)
class Ranged:
    """A value with its 95 % interval; ends are nan where it has none.

    Attributes:
        variance: standard errors by part, see `estimates`.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    variance: Mapping[str, float] = dataclasses.field(
        default_factory=dict, compare=False
    )

    @property
    def is_known(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)


@dataclasses.dataclass(frozen=True)
class Row:
    """An approach on a task.

    Attributes:
        task: its name, with the size of its files where there are several.
        trains: what is trained, in words.
        approach, cached, lr: of its runs.
        blocks: how many are trained; None of `everything`, and of what does
            not say.
        is_base: whether it trains everything.
        runs: see `frames.runs_frame`.
        scores: of the runs that have one, in points.
        score: their mean.
        gain: over training everything, in points.
        kept: percent of what training everything scores above the majority
            baseline.
        seconds: to the stopping point.
        share: percent of the time of training everything.
        epoch_share: the same of an epoch.
        trained: percent of the parameters.
        majority: what the majority baseline scores, in points.
        failed: whether it is not above the majority baseline; see
            `verdicts.did_not_train`.
        base: the row of training everything, where there is one.
        is_timed: whether runs of it were timed as most are.
        rates: that were tried, one of which was chosen on validation.
        note: why it is not compared, a clause; or an empty string.
        peers: the runs of each row on its task with the same other settings.
        cells: of all rows.
    """

    task: str
    trains: str
    approach: str
    cached: bool
    lr: float
    blocks: int | None
    is_base: bool
    runs: pd.DataFrame
    scores: list[float]
    score: Ranged
    seconds: Ranged
    trained: float
    majority: float
    failed: bool
    is_timed: bool = True
    rates: tuple[float, ...] = ()
    gain: Ranged = Ranged()
    kept: Ranged = Ranged()
    share: Ranged = Ranged()
    epoch_share: Ranged = Ranged()
    base: "Row | None" = None
    note: str = ""
    peers: tuple[pd.DataFrame, ...] = ()
    cells: Cells = dataclasses.field(default_factory=Cells)

    @property
    def n(self) -> int:
        """Scores that it stands on: seeds, or folds."""
        return len(self.scores)

    @property
    def is_probe(self) -> bool:
        """Whether it is a regression on the frozen encoder."""
        return self.approach.startswith("probe")

    @property
    def has_encoder(self) -> bool:
        """Whether it is not the TF-IDF baseline."""
        return not self.runs.baseline.iloc[0]


def make_rows(runs: pd.DataFrame) -> list[Row]:
    """The rows of a study, by task, what trains most first.

    Args:
        runs: of a study, see `frames.runs_frame`.
    """
    return [_compare(row) for row in match_rows(runs)]


def name_split(rows: Sequence[Row]) -> str:
    """What the scores of some rows are of: `Test`, `Validation`, or both."""
    are_tested = {
        record["test"] is not None for row in rows for record in row.runs.record
    }
    if are_tested == {False}:
        return "Validation"
    return "Test" if are_tested == {True} else "Test or validation"


def name_parts(rows: Sequence[Row]) -> str:
    """What the intervals of some rows are over: `seeds`, `seeds and texts`."""
    names = {"seeds": "seeds", "folds": "folds", "texts": "test texts"}
    known = {part for row in rows for part in (*row.score.variance,)}
    return " and ".join(w for n, w in names.items() if n in known) or "seeds"


def keep_largest(rows: Sequence[Row]) -> list[Row]:
    """Of each task the rows on its largest files alone.

    Others have part of the data: they are in the table, not in a mean.
    """
    sizes: dict[str, dict[str, int]] = {}
    for row in rows:
        first = row.runs.iloc[0]
        sizes.setdefault(first.task, {})[row.task] = sum(first.sizes.values())
    largest = {max(texts, key=lambda t: texts[t]) for texts in sizes.values()}
    return [row for row in rows if row.task in largest]


def match_rows(runs: pd.DataFrame) -> list[Row]:
    """The rows with what they are to be compared with, not yet compared."""
    groups = _describe_groups(runs)
    of_group = dict(list(runs.groupby("group")))
    rows: list[Row] = []
    for _, alike in groups.groupby(["text", "data_identity", "recipe"]):
        rows += _match(alike, of_group)
    rows = [_beside_everything(row, rows) for row in rows]
    cells = Cells()
    rows = [dataclasses.replace(row, cells=cells) for row in rows]
    names = collections.Counter((row.task, row.trains) for row in rows)
    rows = [
        dataclasses.replace(row, trains=f"{row.trains}, {_rate_or_folds(row)}")
        if names[row.task, row.trains] > 1
        else row
        for row in rows
    ]
    return sorted(rows, key=_order)


def _beside_everything(row: Row, rows: Sequence[Row]) -> Row:
    """A probe's row with that of training everything, where there is one.

    A probe reads few of the settings in which others have to be alike.
    """
    bases = [one for one in rows if one.is_base and one.task == row.task]
    if not row.is_probe or len(bases) != 1:
        return row
    return dataclasses.replace(row, base=bases[0])


def _rate_or_folds(row: Row) -> str:
    """What tells rows apart that train the same."""
    if row.lr:
        return f"lr {row.lr:g}"
    folds = row.runs.settings.iloc[0].get("folds")
    return f"{folds} folds" if folds else "held-out test"


def _order(row: Row) -> tuple[Any, ...]:
    blocks = math.inf if row.blocks is None else row.blocks
    return (
        row.task,
        not row.is_base,
        -blocks,
        row.approach,
        row.cached,
        row.lr,
        row.trains,
    )


def _describe_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """A line for each group of runs, and what tells it from the others."""
    first = runs.groupby("group", sort=True).first()
    groups = first[["task", "data_identity", "approach", "cached", "lr"]].copy()
    groups["text"] = name_texts(first)
    groups["settings"] = first.settings
    groups["untrained"] = [
        str(s.get(UNTRAINED, UNLESS_NAMED[UNTRAINED])) for s in first.settings
    ]
    groups["options"] = [
        frames.dump({n: v for n, v in s.items() if n in OPTIONS})
        for s in first.settings
    ]
    known = {*frames.VARIED, UNTRAINED}
    groups["recipe"] = [
        frames.dump({n: v for n, v in s.items() if n not in known})
        for s in first.settings
    ]
    groups["dtype"] = [str(s.get("cache_dtype", "")) for s in first.settings]
    groups["layers"] = [
        str(s.get("trainable_layers", "")) for s in first.settings
    ]
    is_usual = [
        all(
            s.get(name, v) == v
            for name, v in UNLESS_NAMED.items()
            if name != UNTRAINED
        )
        for s in first.settings
    ]
    groups["is_full"] = (groups.layers == "all") & ~groups.cached
    groups["is_full"] &= np.array(is_usual, bool)
    groups["varied"] = ""
    alike = ["text", "data_identity", "approach", "cached"]
    for _, members in groups.groupby(alike):
        groups.loc[members.index, "varied"] = tell_apart(
            [
                {
                    **json.loads(recipe),
                    **json.loads(options),
                    "cache_dtype": dtype,
                }
                for recipe, options, dtype in zip(
                    members.recipe, members.options, members.dtype
                )
            ]
        )
    return groups


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


def tell_apart(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which some groups differ, in words."""
    names = dict.fromkeys(name for settings in groups for name in settings)
    words = [""] * len(groups)
    for name in names:
        values = [str(plain(settings.get(name, ""))) for settings in groups]
        if len({*values}) > 1:
            words = [
                f"{w}, {name} {v}" if v else w for w, v in zip(words, values)
            ]
    return words


def _match(groups: pd.DataFrame, runs: Mapping[int, pd.DataFrame]) -> list[Row]:
    """Rows of groups on the same texts that differ in what trains alone.

    Args:
        groups: see `_describe_groups`.
        runs: of each group.
    """
    # Where nothing trains every weight, what leaves some out stands for it.
    least = min(groups.untrained[groups.is_full], default="")
    is_base = groups.is_full & (groups.untrained == least)
    groups = groups.assign(is_base=is_base)
    rows = []
    for _, alike in groups.groupby(
        ["approach", "cached", "dtype", "untrained", "options"]
    ):
        chosen = list(alike.index)
        if not any(runs[group].validation.isna().any() for group in chosen):
            scored = {
                group: [*zip(runs[group].seed, runs[group].validation)]
                for group in chosen
            }
            chosen = [selection.best_on_validation(scored)]
        for group in chosen:
            row = _make_row(groups.loc[group], runs[group])
            tried = tuple(sorted(alike.lr)) if len(chosen) == 1 else (row.lr,)
            rows.append(dataclasses.replace(row, rates=tried))
    bases = [row for row in rows if row.is_base]
    peers = tuple(row.runs for row in rows)
    return [
        dataclasses.replace(_against(row, bases), peers=peers) for row in rows
    ]


def _make_row(group: pd.Series, runs: pd.DataFrame) -> Row:
    scores = measures.known(measures.measure_runs("score", runs))
    layers = str(group.layers)
    is_timed = bool(runs.timed.any())
    return Row(
        task=str(group.text),
        trains=_name(group),
        approach=str(group.approach),
        cached=bool(group.cached),
        lr=float(group.lr),
        blocks=int(layers) if layers.isdigit() else None,
        is_base=bool(group.is_base),
        runs=runs,
        scores=scores,
        score=_mean_of(runs, "score"),
        seconds=_mean_of(runs[runs.timed] if is_timed else runs, "seconds"),
        is_timed=is_timed,
        trained=100
        * float((runs.trainable_parameters / runs.total_parameters).mean()),
        majority=float(runs.majority.iloc[0]),
        failed=did_not_train(runs),
    )


def _name(group: pd.Series) -> str:
    name = name_approach(group.approach, group.cached) + str(group.varied)
    return name + (f", untrained {group.untrained}" if group.untrained else "")


def name_approach(approach: str, cached: bool) -> str:
    """What is trained, in words: `everything`, `last 2 (cached)`."""
    name = str(approach)
    if name == "fine_tuning":
        name = EVERYTHING
    elif name.startswith("fine_tuning_"):
        name = f"{EVERYTHING}, {name.removeprefix('fine_tuning_')}"
    elif name == "last_0":
        name = "the head alone"
    elif name == "head":
        name = "the output layer alone"
    elif name.startswith("the probe"):
        return name
    elif name.startswith("probe"):
        return name.replace("probe", "the probe").replace("_", ", ")
    else:
        name = re.sub(r"^last_(\d+)", r"last \1", name).replace("_", " ")
    return f"{name}{' (cached)' if cached else ''}"


APPROACH = re.compile(
    r"(fine_tuning|all|head|last_\d+|blocks_[\d-]+)(?:_([^,]+))?"
)


def split_approach(approach: str) -> tuple[str, str]:
    """The blocks, such as `last_4`, and the method's label, such as `lora8`.

    Without a label the method is `full`, or the approach has none.
    """
    match = APPROACH.match(approach)
    return (match[1], match[2] or "") if match else (approach, "")


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
    base = bases[0]
    row = dataclasses.replace(row, base=base)
    shared = {*row.rates} & {*base.rates}
    if len(row.rates) != len(base.rates) and not {row.lr, base.lr} <= shared:
        return dataclasses.replace(
            row,
            note=f"its rate is the best of {len(row.rates)}, that of training "
            f"everything of {len(base.rates)}",
        )
    return row


def _compare(row: Row) -> Row:
    base = row.base
    if base is None or row.note or row.failed or base.failed:
        return row
    return dataclasses.replace(
        row,
        gain=compare_with_base([row], "score", "difference"),
        kept=compare_with_base([row], "score"),
        share=compare_with_base([row], "seconds"),
        epoch_share=compare_with_base([row], "seconds_per_epoch"),
    )


def _mean_of(runs: pd.DataFrame, measure: str) -> Ranged:
    [cell] = Cells().measure((measure,), (runs,))
    if not len(cell.values):
        return Ranged()
    return _ranged(Contrast.of(cell), [cell])


def _ranged(
    contrast: Contrast, cells: Sequence[Cell], logs: bool = False
) -> Ranged:
    """Without an interval where a cell that is trained has one run."""
    show = _to_percent if logs else float
    if any(len(cell.values) < 2 and cell.is_trained for cell in cells):
        return Ranged(show(contrast.value))
    estimate = contrast.estimate()
    low, high = map(show, estimate.interval())
    return Ranged(show(estimate.value), low, high, estimate.parts)


def _to_percent(logarithm: float) -> float:
    return 100 * math.exp(logarithm)


def compare_with_base(
    rows: Sequence[Row], measure: str, kind: str = "percent"
) -> Ranged:
    """The mean over rows of a difference to training everything, or of a share.

    A share of a score is of what lies above the majority baseline; one of a
    time has an interval where the runs were timed in turn.

    Args:
        rows: each has a base.
        measure: see `measures.Cells`.
        kind: `difference` or `percent`.

    Returns:
        Nothing where a side of a row has no value, or there is nothing to have
        a share of.
    """
    is_time = measure in measures.DURATIONS
    pairs = _pair_with_base(rows, measure, is_time)
    if not pairs:
        return Ranged()
    contrasts = []
    for row, pair in zip(rows, pairs):
        first, second = map(Contrast.of, pair)
        if kind == "percent" and not is_time:
            majority = 0.0 if math.isnan(row.majority) else row.majority
            first, second = first + -majority, second + -majority
            if second.value <= 0:
                return Ranged()
            contrasts.append((first / second) * 100)
        else:
            contrasts.append(first - second)
    average = estimates.mean(contrasts)
    ranged = _ranged(average, [c for pair in pairs for c in pair], is_time)
    if is_time and not all(c.in_turn for pair in pairs for c in pair):
        return Ranged(ranged.value)
    return ranged


def subtract(first: Sequence[float], second: Sequence[float]) -> Ranged:
    """The difference of the means of two groups of values."""
    cells = [Cell(np.array(values)) for values in (first, second)]
    ours, theirs = map(Contrast.of, cells)
    return _ranged(ours - theirs, cells)


def estimate_loss(rows: Sequence[Row]) -> estimates.Estimate | None:
    """The mean over rows of the difference to training everything.

    None where there are too few runs to tell.
    """
    pairs = _pair_with_base(rows, "score")
    cells = [cell for pair in pairs for cell in pair]
    if not pairs or any(len(c.values) < 2 and c.is_trained for c in cells):
        return None
    differences = [Contrast.of(a) - Contrast.of(b) for a, b in pairs]
    return estimates.mean(differences).estimate()


def _pair_with_base(
    rows: Sequence[Row], measure: str, logarithms: bool = False
) -> list[tuple[Cell, ...]]:
    """Cells of each row and of its base; [] where some have no value."""
    pairs = []
    for row in rows:
        assert row.base is not None
        pairs.append(
            row.cells.measure(
                (measure, measure),
                (row.runs, row.base.runs),
                logarithms=logarithms,
                peers=row.peers,
            )
        )
    known = all(len(cell.values) for pair in pairs for cell in pair)
    return pairs if known else []
