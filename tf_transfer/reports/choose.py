"""Chooses the runs that are compared: at which settings, and at which rate.

Settings are those of the claim and its paper; rates are chosen on validation.
"""

import collections
import dataclasses
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Sequence,
)
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from tf_transfer.reports import claims, frames
from tf_transfer.reports.claims import Settings
from tf_transfer.reports.frames import VARIED
from tf_transfer.utils import selection

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
    unshared: Collection[str] = (),
) -> list[list[Group]]:
    """The groups that are compared on one task.

    Each approach has the paper's value of a setting that it does not name, if
    any of its runs has it; else the only value that the runs of all approaches
    have. Live frozen blocks come before cached ones. Learning rates are chosen
    on validation where the paper compares rates.

    Args:
        groups: of a study's runs on one task.
        paper: see there.
        wanted: settings of each approach that is compared.
        unshared: see `Claim.unshared`.

    Returns:
        For each of `wanted` its groups, all at one rate.

    Raises:
        NotFound: there are no runs, an approach was run at several values of a
            setting, or the approaches at none that they share.
    """
    asked = set().union(*wanted).difference(unshared)
    chooses_rate = bool(paper.rates) and "lr" not in asked
    free = {"lr"} if chooses_rate else set[str]()
    chosen = []
    for own in wanted:
        members = _find_named(groups, paper, own, asked)
        chosen.append(_at_published(members, paper, {*own, *free}))
    may_vary = {*VARIED, *paper.varied, "max_epochs"}
    common = may_vary.intersection(*map(_names, chosen))
    for name in sorted(common.difference(asked, unshared, free, CACHING)):
        lists = [_list(members, name) for members in chosen]
        shared = set.intersection(*map(set, lists))
        if not shared:
            values = [" or ".join(values) for values in lists]
            raise NotFound(f"the groups have {name} {' and '.join(values)}")
        chosen = [
            [group for group in members if _text(group, name) in shared]
            for members in chosen
        ]
    chosen = [_filter(members, LIVE) or members for members in chosen]
    for own, members in zip(wanted, chosen):
        _check_single(members, {*own, *free})
    if chooses_rate:
        return _choose_rates(chosen, paper)
    return chosen


def _find_named(
    groups: Sequence[Group],
    paper: claims.Paper,
    own: Settings,
    asked: set[str],
) -> list[Group]:
    """The groups with the settings that a claim names.

    Args:
        groups: of a study's runs on one task.
        paper: see there.
        own: settings of the approach.
        asked: settings that any of the compared approaches names. Where this
            one does not, it has the paper's value.
    """
    members = _filter(groups, own)
    published = _published(members, paper, asked - own.keys())
    meant = _published(members, paper, {*MEANT} - own.keys())
    for name, usual in meant.items():
        members = [
            group
            for group in members
            if name not in group.settings or _has(group, name, usual)
        ]
    members = _filter(members, published)
    if not members:
        raise NotFound(f"no runs with {describe({**published, **own})}")
    return members


def _at_published(
    groups: list[Group], paper: claims.Paper, named: set[str]
) -> list[Group]:
    """Those of some groups with the paper's values of what a claim leaves open.

    The paper's value of a setting that none of the groups has is left out.
    """
    names = _names(groups).difference(named, CACHING)
    taken = {}
    for name, value in _published(groups, paper, names).items():
        has_it = [_has(group, name, value) for group in groups]
        if any(has_it) and not all(has_it):
            taken[name] = value
    exact = [
        group
        for group in groups
        if all(_has(group, name, value) for name, value in taken.items())
    ]
    if not exact:
        raise NotFound(f"no runs with {describe(taken)}")
    return exact


def _check_single(groups: Sequence[Group], named: set[str]) -> None:
    """Raises `NotFound` if groups differ in what a claim leaves open."""
    for name in sorted(_names(groups) - named):
        values = _list(groups, name)
        if len(values) > 1:
            raise NotFound(
                f"runs with {name} {' and '.join(values)}, of which the claim "
                "names none,"
            )


def _value(group: Group, name: str) -> Any:
    return group.settings.get(name, "")


def _has(group: Group, name: str, value: Any) -> bool:
    return claims.is_same(_value(group, name), value)


def _text(group: Group, name: str) -> str:
    return str(claims.plain(_value(group, name))) or "none"


def _list(groups: Iterable[Group], name: str) -> list[str]:
    """The values of a setting, as text."""
    return sorted({_text(group, name) for group in groups})


def _published(
    groups: Sequence[Group], paper: claims.Paper, names: Iterable[str]
) -> dict[str, Any]:
    """The paper's values of some settings that any of some groups has."""
    if not groups:
        return {}
    settings = paper.settings_on(groups[0].first.model)
    known = _names(groups)
    return {n: settings[n] for n in names if n in settings and n in known}


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
