"""Chooses the runs that are compared: at which settings, and at which rate.

Rates and settings are chosen on validation alone.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from tf_transfer.reports import claims, frames
from tf_transfer.reports.claims import Settings
from tf_transfer.reports.frames import VARIED
from tf_transfer.utils import selection

NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
CACHING = ("frozen_prefix", "cache_dtype")
LIVE = {"frozen_prefix": "live"}
# A claim is about the paper's values of these, unless it names others.
MEANT = ("method", "untrained")

_K = TypeVar("_K", bound=Hashable)


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ by seed alone: a `group` of `frames.runs_frame`.

    Choosing among groups is ten times as fast as choosing among rows of a
    frame.

    Attributes:
        first: the row of its first run, as `DataFrame.itertuples` has it.
        rows: positions of its runs in the frame.
        scores: of each run the seed, and the score on validation in points;
            nan where nothing is validated.
        settings: see `frames.runs_frame`.
        lr: its learning rate.
        recipe: settings that do not belong to an approach, as text.
    """

    first: Any
    rows: tuple[int, ...]
    scores: tuple[tuple[int, float], ...]
    settings: Settings
    lr: float
    recipe: str


def list_groups(runs: pd.DataFrame) -> list[Group]:
    """The groups of a frame, by number."""
    rows = runs.assign(position=range(len(runs))).itertuples()
    numbered = sorted(group_by(rows, lambda row: row.group).items())
    return [_make_group(members) for _, members in numbered]


def _make_group(rows: Sequence[Any]) -> Group:
    first = rows[0]
    recipe = {n: v for n, v in first.settings.items() if n not in VARIED}
    return Group(
        first,
        tuple(row.position for row in rows),
        tuple((row.seed, row.validation) for row in rows),
        first.settings,
        first.lr,
        frames.dump(recipe),
    )


def group_by(values: Iterable[Any], key: Callable[[Any], _K]) -> dict[_K, list]:
    """Lists of the values that have the same key."""
    lists = collections.defaultdict(list)
    for value in values:
        lists[key(value)].append(value)
    return lists


def take_rows(runs: pd.DataFrame, groups: Iterable[Group]) -> pd.DataFrame:
    """The rows of a frame that are the runs of some of its groups."""
    return runs.take(sorted(row for group in groups for row in group.rows))


def select(runs: pd.DataFrame, wanted: Settings) -> pd.DataFrame:
    """The runs with some settings; runs that lack one of them are left out."""
    return take_rows(runs, _filter(list_groups(runs), wanted))


def list_peers(
    groups: Sequence[Group], chosen: Sequence[list[Group]]
) -> list[list[Group]]:
    """The approaches that differ from the chosen ones in nothing else.

    Each has the rate that is best on validation; the chosen ones have theirs.

    Args:
        groups: of a study's runs on one task.
        chosen: what is compared, see `choose_groups`; they come first.
    """
    compared = [group for members in chosen for group in members]
    recipes = {group.recipe for group in compared}
    others = [
        group
        for group in groups
        if group.recipe in recipes and group not in compared
    ]
    names = _names(others) - {"lr", *CACHING}
    taken = _combine(compared, names)
    return [*chosen] + [
        keep_best_rate(members)
        for values, members in _combine(others, names).items()
        if values not in taken
    ]


def _filter(groups: Iterable[Group], wanted: Settings) -> list[Group]:
    return [
        group
        for group in groups
        if all(
            name in group.settings
            and claims.is_same(
                group.settings[name], resolve(value, group.first.blocks)
            )
            for name, value in wanted.items()
        )
    ]


def resolve(value: Any, blocks: int) -> Any:
    """`L/4` as a number of blocks, rounded up; `last 2` as `11-12`."""
    if isinstance(value, str) and value.startswith("L/"):
        return str(-(-blocks // int(value[2:])))
    if isinstance(value, str) and value.startswith("last "):
        return f"{blocks - int(value[5:]) + 1}-{blocks}"
    return value


class NotFound(Exception):
    """Why a claim has no runs to judge it by."""


def choose_groups(
    groups: Sequence[Group],
    paper: claims.Paper,
    wanted: Sequence[Settings],
    unshared: Iterable[str] = (),
) -> list[list[Group]]:
    """The groups that are compared on one task.

    Runs at the paper's settings come first. Otherwise all that is compared has
    the same settings: those with the most seeds, then with the most training
    data, then those that are best on validation, of all together. Settings that
    only one approach has are not chosen by scores: they are the paper's, see
    `_settle`. Learning rates are chosen on validation, among equally many of
    each. Live frozen blocks come before cached ones with the same settings.

    Args:
        groups: of a study's runs on one task.
        paper: see there.
        wanted: settings of each approach that is compared.
        unshared: see `Claim.unshared`.

    Returns:
        For each of `wanted` its groups, all at one rate.

    Raises:
        NotFound: there are no runs, or the groups have no common settings.
    """
    candidates = []
    asked = set().union(*wanted).difference(unshared)
    for own in wanted:
        members = [
            group
            for group in _filter(groups, own)
            if all(
                group.settings.get(name) in (None, paper.settings.get(name))
                for name in MEANT
                if name not in own
            )
        ]
        # The claim is about a setting that only the other approach names: this
        # approach has the paper's usual value.
        names = (asked - set(own)) & _names(members)
        usual = _published(members, paper, names)
        members = _filter(members, usual)
        if not members:
            raise NotFound(f"no runs with {describe({**usual, **own})}")
        candidates.append(_prefer_live(members))
    chooses = bool(paper.rates) and not any("lr" in own for own in wanted)
    ignored = {"lr", *CACHING} if chooses else {*CACHING}
    fixed = [{*own} | ignored for own in wanted]
    agreed = _agree_on(candidates, paper, fixed, unshared)
    return _choose_rates(agreed, paper) if chooses else agreed


def _prefer_live(groups: list[Group]) -> list[Group]:
    """Leaves out cached groups whose settings live groups also have.

    Rates are not settings here: they are compared among live runs, or among
    cached ones of one precision, the commonest.
    """
    kept: list[Group] = []
    for members in _combine(groups, _names(groups) - {"lr", *CACHING}).values():
        by_dtype = sorted(_combine(members, {"cache_dtype"}).items())
        _, commonest = max(by_dtype, key=lambda item: len(_scores(item[1])))
        kept += _filter(members, LIVE) or commonest
    return sorted(kept, key=lambda group: group.rows)


def _agree_on(
    candidates: Sequence[list[Group]],
    paper: claims.Paper,
    fixed: Sequence[set[str]],
    unshared: Iterable[str],
) -> list[list[Group]]:
    """Keeps the groups at settings that all candidates have.

    Args:
        candidates: of each approach that is compared.
        paper: its settings come first.
        fixed: of each approach, settings that are not compared.
        unshared: settings whose values may differ.
    """
    exact = [
        _filter(groups, _published(groups, paper, _names(groups) - known))
        for groups, known in zip(candidates, fixed)
    ]
    may_vary = {*VARIED, *paper.varied, "max_epochs"}
    if all(exact):
        candidates = exact
        # Settings with one published value are fixed now. Those with several,
        # or none, still vary.
        may_vary -= {
            name
            for groups in candidates
            for name, value in _published(groups, paper, may_vary).items()
            if not isinstance(value, list)
        }
    common = may_vary.intersection(*map(_names, candidates)).difference(
        unshared, *fixed
    )
    combinations = [_combine(groups, common) for groups in candidates]
    shared = set.intersection(*map(set, combinations))
    if not shared:
        raise NotFound("the groups were run at different settings")

    def rank(combination: tuple[str, ...]) -> tuple[int, int]:
        members = [combined[combination] for combined in combinations]
        train = members[0][0].first.sizes.get("train", 0)
        return min(map(_count_seeds, members)), train

    most = max(map(rank, shared))
    settled = {
        combination: [
            _settle(combined[combination], paper, may_vary - common - known)
            for combined, known in zip(combinations, fixed)
        ]
        for combination in sorted(shared, key=_by_number)
        if rank(combination) == most
    }
    return settled[_best_for_all(settled)]


def _best_for_all(
    settled: Mapping[tuple[str, ...], Sequence[list[Group]]],
) -> tuple[str, ...]:
    """The settings with the highest sum of all scores on validation.

    Each approach counts with its best rate. Where nothing validates, it is the
    last one.

    Args:
        settled: the groups of each approach at each of the settings.
    """
    *_, last = settled
    best = {
        combination: [*map(keep_best_rate, candidates)]
        for combination, candidates in settled.items()
    }
    if not all(map(all, best.values())):
        return last
    means = [
        selection.means_over_seeds(
            {at: _scores(chosen[number]) for at, chosen in best.items()}
        )
        for number in range(len(best[last]))
    ]
    totals = {at: sum(scores[at] for scores in means) for at in best}
    if np.isnan([*totals.values()]).any():
        return last
    return max(totals, key=lambda combination: totals[combination])


def _settle(
    groups: list[Group], paper: claims.Paper, names: set[str]
) -> list[Group]:
    """Keeps one combination of values of some settings.

    The other approaches have no such settings, so that a choice by scores would
    be one among more runs than theirs. It is the combination with most rates,
    then with most of the paper's values, then with most seeds.
    """
    published = _published(groups, paper, _names(groups) & names)

    def rank(members: list[Group]) -> tuple[int, int, int]:
        settings = members[0].settings
        published_values = sum(
            claims.is_same(settings.get(n), v) for n, v in published.items()
        )
        return len(_rates(members)), published_values, _count_seeds(members)

    combined = _combine(groups, names)
    ordered = sorted(combined, key=_by_number)
    return max((combined[values] for values in ordered), key=rank)


def _by_number(values: Sequence[str]) -> list[tuple[float, str]]:
    """Sort key by which `3` comes before `10`; words come after numbers."""
    return [
        (float(value), "") if NUMBER.fullmatch(value) else (math.inf, value)
        for value in values
    ]


def _count_seeds(groups: Iterable[Group]) -> int:
    return len({seed for seed, _ in _scores(groups)})


def _published(
    groups: Sequence[Group], paper: claims.Paper, names: set[str]
) -> dict[str, Any]:
    """The paper's values of some settings, with the encoder of some groups."""
    if not groups:
        return {}
    settings = paper.settings_on(groups[0].first.model)
    return {n: v for n, v in settings.items() if n in names}


def _combine(
    groups: Iterable[Group], names: set[str]
) -> dict[tuple[str, ...], list[Group]]:
    """Groups by their values of some settings."""
    ordered = sorted(names)
    return group_by(
        groups,
        lambda group: tuple(str(group.settings.get(n, "")) for n in ordered),
    )


def _names(groups: Iterable[Group]) -> set[str]:
    """The names of all settings of some groups."""
    return set[str]().union(*(group.settings for group in groups))


def _rates(groups: Iterable[Group]) -> set[float]:
    return {group.lr for group in groups}


def _choose_rates(
    candidates: Sequence[list[Group]], paper: claims.Paper
) -> list[list[Group]]:
    """Keeps the rate of each approach that is best on validation."""
    rates = [*map(_rates, candidates)]
    has_published = all(set(paper.rates) <= tried for tried in rates)
    if has_published:
        candidates = [_at(groups, paper.rates) for groups in candidates]
    chosen = [*map(keep_best_rate, candidates)]
    if not all(chosen):
        raise NotFound("several rates, which nothing validates,")
    counts = [*map(len, rates)]
    best = set[float]().union(*map(_rates, chosen))
    # An approach may be better at a best rate that it was not tried at.
    if not (
        has_published or len({*counts}) == 1 or best <= set.intersection(*rates)
    ):
        raise NotFound(
            f"{' and '.join(map(str, counts))} rates were tried in the groups"
        )
    return chosen


def _at(groups: Iterable[Group], rates: Iterable[float]) -> list[Group]:
    return [group for group in groups if group.lr in rates]


def keep_best_rate(groups: list[Group]) -> list[Group]:
    """The groups at the rate that is best on validation.

    Returns:
        Nothing, if there are several rates and a run without such a score.
    """
    scored = {
        rate: _scores(_at(groups, [rate])) for rate in sorted(_rates(groups))
    }
    scores = [score for _, score in _scores(groups)]
    if len(scored) > 1 and np.isnan(scores).any():
        return []
    return _at(groups, [selection.best_on_validation(scored)])


def _scores(groups: Iterable[Group]) -> list[tuple[int, float]]:
    """Seed and validation score of each run."""
    return [pair for group in groups for pair in group.scores]


def describe(settings: Settings) -> str:
    """Settings in words: `trainable_layers=4, lr=0.001`."""
    return ", ".join(f"{n}={claims.plain(v)}" for n, v in settings.items())
