"""Groups of runs that are compared: their settings, their rate, their values.

A group of a claim has the settings that the claim names. Other settings have
the paper's value if a run has it. Nothing else is selected, apart from the
learning rate where a paper compares rates.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pandas as pd

from tf_transfer.comparison import estimates, predictions
from tf_transfer.comparison.estimates import Cell
from tf_transfer.comparison.run_record import RunRecord, Setting, Settings
from tf_transfer.data.task import ALLOWED
from tf_transfer.reports import claims, run_frame as runs_lib
from tf_transfer.utils import selection

# The groups of a claim may differ in these, as training every block has no
# frozen prefix. Live runs count first, like the papers'.
CACHING = ("frozen_prefix", *runs_lib.CACHING)
LIVE = {"frozen_prefix": "live"}
FAILED = "not shown to be above the majority baseline"
# Encoders without a pooler: a new one trains where a paper freezes it.
WITHOUT_POOLER = ("mpnet", "roberta_base_en", "roberta_large_en")
IN_TURN = 1 / 3  # of the span of starts, see `were_timed_in_turn`

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ by seed alone: a `group` of `run_frame.runs_frame`.

    Attributes:
        runs: Its rows.
        first: The first of them, as `DataFrame.itertuples` has it.
    """

    runs: pd.DataFrame
    first: runs_lib.FrameRow

    @property
    def settings(self) -> Settings:
        """See `run_frame.runs_frame`."""
        return self.first.settings

    @property
    def lr(self) -> float:
        """Its learning rate."""
        return float(self.first.lr)


TaskGroups = Mapping[str, Sequence[Group]]


def list_groups(runs: pd.DataFrame) -> list[Group]:
    """The groups of a frame, by number."""
    rows = runs.drop_duplicates("group").itertuples()
    first = {row.group: row for row in rows}
    return [
        Group(members, first[number])
        for number, members in runs.groupby("group")
    ]


def split_tasks(runs: pd.DataFrame) -> dict[str, list[Group]]:
    """The groups of a study by task."""
    return {
        str(task): list_groups(members)
        for task, members in runs.groupby("task")
    }


def group_by(
    values: Iterable[_V], key: Callable[[_V], _K]
) -> dict[_K, list[_V]]:
    """Lists of the values that have the same key."""
    lists = collections.defaultdict(list)
    for value in values:
        lists[key(value)].append(value)
    return lists


def _filter(groups: Iterable[Group], wanted: Settings) -> list[Group]:
    return [
        group
        for group in groups
        if all(
            name in group.settings
            and claims.is_same(
                group.settings[name], _resolve(name, value, group.first)
            )
            for name, value in wanted.items()
        )
    ]


def _resolve(name: str, value: Setting, run: runs_lib.FrameRow) -> Setting:
    """The value of a setting that a claim names, on the encoder of a run.

    `L/4` is a number of blocks, rounded up, `last 2` stands for `11-12`, and a
    pooler that the encoder lacks is a new one, which trains.
    """
    if name == "pooler" and run.model in WITHOUT_POOLER:
        return "trained"
    blocks = run.blocks
    if isinstance(value, str) and value.startswith("L/"):
        return str(-(-blocks // int(value[2:])))
    if isinstance(value, str) and value.startswith("last "):
        return f"{blocks - int(value[5:]) + 1}-{blocks}"
    return value


# === The groups of a claim ===


class NotFound(Exception):
    """Why a claim has no runs to judge it by."""


def find_groups(
    groups: Sequence[Group], paper: claims.Paper, wanted: Sequence[Settings]
) -> list[Group]:
    """The groups that are compared on one task.

    Args:
        groups: Of a study's runs on the task.
        paper: Its settings and rates.
        wanted: Settings of each group that is compared.

    Returns:
        A group for each of `wanted`.

    Raises:
        NotFound: There are no such runs, or several values of a setting remain.
    """
    named = set().union(*wanted)
    free = {*CACHING}
    if paper.rates and "lr" not in named:
        free.add("lr")
    members = [
        _find_members(groups, paper, settings, named - settings.keys(), free)
        for settings in wanted
    ]
    if "lr" in free:
        members = _choose_rates(members, paper)
    for candidates in members:
        _check_equal_settings(
            candidates, set().union(*(one.settings for one in candidates)), {}
        )
        if len(candidates) > 1:
            raise NotFound("runs on several files,")
    compared = [group for [group] in members]
    shared = set.intersection(*({*group.settings} for group in compared))
    # Each may have another one of the paper's values.
    published = paper.settings_on(compared[0].first.model)
    _check_equal_settings(compared, shared - named - free, published)
    return compared


def _find_members(
    groups: Sequence[Group],
    paper: claims.Paper,
    wanted: Settings,
    others: set[str],
    free: set[str],
) -> list[Group]:
    """The groups with a claim's settings, and otherwise with the paper's.

    Args:
        groups: Of a study's runs on one task.
        paper: Its settings.
        wanted: Settings that the claim names.
        others: Settings that it names only for the other group; here they must
            have the paper's value.
        free: Settings that have no value of the paper here.
    """
    members = _filter(groups, wanted)
    if not members:
        raise NotFound(f"no runs with {describe_settings(wanted)}")
    required = {
        name: value
        for name, value in paper.settings_on(members[0].first.model).items()
        if name not in wanted and name not in free
        if name in others or _filter(members, {name: value})
    }
    # A group without a setting has no other value of it.
    exact = [
        group
        for group in members
        if all(
            name not in group.settings
            or claims.is_same(group.settings[name], value)
            for name, value in required.items()
        )
    ]
    if not exact:
        raise NotFound(
            f"no runs with {describe_settings(wanted)} and else as in the paper"
        )
    return _filter(exact, LIVE) or exact


def _choose_rates(
    members: Sequence[list[Group]], paper: claims.Paper
) -> list[list[Group]]:
    """Keeps the rate of each group that is best on validation.

    The rates are the paper's, if all groups were tried at each. Otherwise each
    group has its own rates, if all have the same number, else the common ones.
    """
    tried = [{group.lr for group in candidates} for candidates in members]
    rates = set[float]().union(*tried)
    if all(of_group.issuperset(paper.rates) for of_group in tried):
        rates = {*paper.rates}
    elif len({*map(len, tried)}) > 1:
        rates = set.intersection(*tried)
    if not rates:
        raise NotFound("no rate that all groups were tried at,")
    best = [
        keep_best_rate([group for group in candidates if group.lr in rates])
        for candidates in members
    ]
    if not all(best):
        raise NotFound("several rates, which nothing validates,")
    return best


def keep_best_rate(groups: list[Group]) -> list[Group]:
    """The groups at the rate that is best on validation.

    Returns:
        Nothing if there are several rates and a run has no validation score.
    """
    by_rate = group_by(groups, lambda group: group.lr)
    scored = {
        rate: [
            pair
            for group in by_rate[rate]
            for pair in zip(group.runs.seed, group.runs.validation)
        ]
        for rate in sorted(by_rate)
    }
    scores = [score for pairs in scored.values() for _, score in pairs]
    if len(scored) > 1 and np.isnan(scores).any():
        return []
    return by_rate[selection.best_on_validation(scored)]


def _check_equal_settings(
    groups: Sequence[Group], names: set[str], published: Settings
) -> None:
    """Raises `NotFound` if groups differ in a setting.

    Args:
        groups: That are compared, or of which one has to be chosen.
        names: Of the settings.
        published: Values of settings that each group may have.
    """
    for name in sorted(names):
        values = [group.settings.get(name, "") for group in groups]
        texts = sorted({*map(claims.show, values)})
        theirs = published.get(name, "")
        if len(texts) > 1 and not all(
            claims.is_same(v, theirs) for v in values
        ):
            raise NotFound(
                f"runs with {name} {' and '.join(texts)}, of which the claim "
                "names none,"
            )


def describe_settings(settings: Settings) -> str:
    """Settings in words: `trainable_layers=4, lr=0.001`."""
    return ", ".join(f"{n}={claims.show(v)}" for n, v in settings.items())


# === The values of groups ===


def measure(
    names: Sequence[str],
    groups: Sequence[pd.DataFrame],
    at: float = 0.0,
    logarithms: bool = False,
) -> tuple[Cell, ...]:
    """The cells of groups that are compared, without unknown values.

    Args:
        names: Of the measure of each group; see `run_frame.measure_all`.
        groups: Runs of each, see `run_frame.runs_frame`.
        at: For measures within a time, the time in epochs of the last group.
        logarithms: Whether to take those of times.

    Returns:
        Of times, those of the timing environment that most runs of all groups
        share; of scores, those of the split that both groups have, see
        `run_frame.choose_split`; of runs tested in folds, a value for each
        fold.
    """
    if {*names} & {*runs_lib.TIMES}:
        groups = select_shared_environment(groups)
    in_turn = were_timed_in_turn(groups)
    seconds = at * runs_lib.epoch_seconds(groups[-1]) if at else math.nan
    split = runs_lib.choose_split(groups)
    cells = []
    for name, runs in zip(names, groups):
        cell = _make_cell(name, runs, seconds, split, in_turn)
        if logarithms:
            cell = dataclasses.replace(cell, values=np.log(cell.values))
        cells.append(cell)
    return tuple(cells)


def _make_cell(
    name: str,
    runs: pd.DataFrame,
    seconds: float,
    split: str,
    in_turn: bool,
) -> Cell:
    measured = runs_lib.measure_all(name, runs, seconds, split)
    values = np.array(runs_lib.drop_missing(measured))
    # Plain loops: of so few runs, each method of a series takes longer.
    scored = [r for r in runs.record if r.split == split]
    resampled = [r.resampled for r in scored if r.resampled is not None]
    texts = [r.texts for r in scored if r.texts is not None]
    # The predictions of the last epoch are not stored. The variance over texts
    # is that of the selected epoch.
    has_texts = name in ("score", "last_score", *runs.metric[:1])
    share = 0.0
    if len(values) > len(runs):  # one for each fold
        sizes = runs.sizes.iloc[0]
        share, has_texts = sizes["test"] / sizes["train"], False
    return Cell(
        values,
        (*runs.task[:1], *runs.data_identity[:1]),
        texts[0] if texts else None,
        np.stack([*map(predictions.decode, resampled)])
        if has_texts and resampled
        else None,
        fold_share=share,
        # Times vary even if nothing is trained.
        is_trained=name in runs_lib.DURATIONS
        or any(record.trains for record in runs.record),
        in_turn=in_turn,
        key=(name, seconds, split, *runs.path),
    )


def select_shared_environment(
    groups: Sequence[pd.DataFrame],
) -> list[pd.DataFrame]:
    """The runs of each group in the environment that most runs share."""
    groups = [runs[~runs.mixed] for runs in groups]
    names = sorted({name for runs in groups for name in runs.environment})
    best = max(
        ([runs[runs.environment == name] for runs in groups] for name in names),
        key=lambda runs: (min(map(len, runs)), sum(map(len, runs))),
        default=groups,
    )
    return best if all(map(len, best)) else [runs[:0] for runs in groups]


def were_timed_in_turn(groups: Sequence[pd.DataFrame]) -> bool:
    """Whether runs of several groups were timed in turn.

    The mean starts of two groups lie no further apart than a third of the time
    between the first start and the last. Without recorded starts the answer is
    no.
    """
    starts = pd.concat([runs.started for runs in groups])
    means = [runs.started.mean() for runs in groups if len(runs)]
    if starts.empty or starts.isna().any():
        return False
    return bool(np.ptp(means) <= IN_TURN * np.ptp(starts))


# === The majority baseline ===


def did_not_train(runs: pd.DataFrame, measure: str = "score") -> bool:
    """Whether runs are not shown to be above the majority baseline.

    That is a one-sided test at 5 %, over the seeds and the test texts; where no
    predictions are stored, with the variance over texts of a model that has
    learned nothing. Where half of the runs or more score no more than the
    baseline, or give one answer, no test is made.

    Args:
        runs: Of a group.
        measure: What is compared. Of `last_score`, runs that lost again what
            they had learned by the selected epoch are not above the baseline.
    """
    score, majority = runs.score.to_numpy(), float(runs.majority.mean())
    if measure == "last_score" and all(run.epochs for run in runs.record):
        score = np.array(runs_lib.measure_all(measure, runs))
    failed = (score <= runs.majority + 1e-9) | runs.one_answer.to_numpy(bool)
    if failed.mean() >= 0.5:
        return True
    if math.isnan(majority):
        return False
    errors = [record.lead_error for record in runs.record]
    if None in errors:
        texts = 2500 / count_texts(runs)  # of an accuracy, at most
    else:
        texts = float(np.mean(np.square(errors)))
    seeds = Cell(score).variance / len(score)
    total, freedom = seeds + texts, math.inf
    if seeds:
        freedom = (len(score) - 1) * (total / seeds) ** 2
    above = estimates.Estimate(
        score.mean() - majority, math.sqrt(total), freedom
    )
    return above.error > 0 and above.p_above() > 1 - estimates.LEVEL


def has_baseline(runs: pd.DataFrame) -> bool:
    """Whether the majority baseline is known; a correlation has none."""
    return bool(
        runs.metric.isin(ALLOWED["score"]).all() or runs.majority.notna().all()
    )


def count_texts(runs: pd.DataFrame) -> int:
    """Number of texts on which runs are scored, over all folds."""
    first: RunRecord = runs.record.iloc[0]
    sizes = [n for k, n in first.sizes.items() if k.startswith(first.split)]
    return max(sum(sizes), 1) * len(first.folds or [0])
