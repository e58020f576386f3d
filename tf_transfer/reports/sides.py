"""Which runs stand for the two sides of a claim."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import frames
from tf_transfer.reports.claims import Group
from tf_transfer.reports.claims import is_same
from tf_transfer.reports.claims import Paper
from tf_transfer.reports.claims import plain

CACHING = ("frozen_prefix", "cache_dtype")
LIVE = {"frozen_prefix": "live"}


def select(runs: pd.DataFrame, wanted: Group) -> pd.DataFrame:
    """The runs that have some settings; a setting that a run lacks differs."""
    mask = [
        all(
            name in settings
            and is_same(settings[name], _resolve(value, blocks))
            for name, value in wanted.items()
        )
        for settings, blocks in zip(runs.settings, runs.blocks)
    ]
    return runs[np.array(mask, dtype=bool)]


def _resolve(value: Any, blocks: int) -> Any:
    """`L/4` as a number of blocks, rounded up."""
    if isinstance(value, str) and value.startswith("L/"):
        return str(-(-blocks // int(value[2:])))
    return value


class NotFound(Exception):
    """Why a claim has no runs to judge it by."""


def choose_sides(
    runs: pd.DataFrame, paper: Paper, groups: Sequence[Group]
) -> tuple[pd.DataFrame, ...]:
    """The runs of each side of a comparison on one task.

    Runs at the paper's settings come first. Otherwise all sides take the
    settings that all have, with the most seeds and then the most training
    data; of settings that only one side has, those of the paper, or those with
    the most seeds. Learning rates are chosen on validation, of equally many on
    each side. Runs with live frozen blocks come before cached ones.

    Args:
        runs: of a study, on one task.
        paper: see there.
        groups: settings of each side.

    Raises:
        NotFound: a side has no runs, or they cannot be chosen alike.
    """
    sides = []
    asked = set().union(*groups)
    for wanted in groups:
        side = select(runs, wanted)
        # What another side asks for is what the claim is about: here it is as
        # usual in the paper.
        usual = _published(runs, paper, (asked - set(wanted)) & _names(side))
        side = select(side, usual)
        if side.empty:
            raise NotFound(f"no runs with {describe({**usual, **wanted})}")
        live = select(side, LIVE)
        if live.empty and "frozen_prefix" in side.settings.iloc[0]:
            dtypes = side.settings.map(lambda s: str(s.get("cache_dtype")))
            live = side[dtypes == dtypes.mode().iloc[0]]
        sides.append(side if live.empty else live)
    chooses = bool(paper.rates) and not any("lr" in group for group in groups)
    ignored = {"lr", *CACHING} if chooses else {*CACHING}
    sides = _agree_on(sides, paper, [{*group} | ignored for group in groups])
    return tuple(_choose_rates(sides, paper) if chooses else sides)


def _agree_on(
    sides: Sequence[pd.DataFrame], paper: Paper, fixed: Sequence[set[str]]
) -> list[pd.DataFrame]:
    """Of each side, the runs at settings that all sides have.

    Args:
        sides: of a comparison.
        paper: its settings come first.
        fixed: of each side, settings that are not looked at.
    """
    exact = [
        select(side, _published(side, paper, _names(side) - known))
        for side, known in zip(sides, fixed)
    ]
    may_vary = {*frames.VARIED, *paper.varied, "max_epochs"}
    if all(len(side) for side in exact):
        sides = exact
        # Only what the paper itself has several values of still varies.
        several = {
            name
            for side in sides
            for name, value in _published(side, paper, may_vary).items()
            if isinstance(value, list)
        }
        may_vary &= several
        if not may_vary:
            return exact
    common = may_vary.intersection(*map(_names, sides)).difference(*fixed)
    combinations = [_combine(side, common) for side in sides]
    shared = set.intersection(*(set(column) for column in combinations))
    if not shared:
        raise NotFound("the sides were run at different settings")

    def rank(combination: tuple[str, ...]) -> tuple[Any, ...]:
        members = [
            side[column == combination]
            for side, column in zip(sides, combinations)
        ]
        seeds = min(side.seed.nunique() for side in members)
        return seeds, members[0].sizes.iloc[0].get("train", 0), combination

    best = max(shared, key=rank)
    return [
        _settle(side[column == best], paper, may_vary - common - known)
        for side, column, known in zip(sides, combinations, fixed)
    ]


def _settle(side: pd.DataFrame, paper: Paper, names: set[str]) -> pd.DataFrame:
    """Of a side, the runs with one value of each of these settings."""
    exact = select(side, _published(side, paper, _names(side) & names))
    if len(exact):
        return exact
    combinations = _combine(side, names)
    seeds = side.groupby(combinations).seed.nunique()
    return side[combinations == seeds.idxmax()]


def _published(
    side: pd.DataFrame, paper: Paper, names: set[str]
) -> dict[str, Any]:
    """What the paper has of some settings with the encoder of a side."""
    settings = paper.settings_on(str(side.model.iloc[0]))
    return {n: v for n, v in settings.items() if n in names}


def _combine(side: pd.DataFrame, names: set[str]) -> pd.Series:
    """Of each run, its values of some settings."""
    return side.settings.map(
        lambda settings: tuple(str(settings.get(n, "")) for n in sorted(names))
    )


def _names(side: pd.DataFrame) -> set[str]:
    """Settings that runs have at all; those without an encoder have few."""
    return set().union(*side.settings)


def _choose_rates(
    sides: Sequence[pd.DataFrame], paper: Paper
) -> list[pd.DataFrame]:
    """Of each side, the runs at the rate that is best on validation."""
    rates = [set(side.lr) for side in sides]
    if paper.rates and all(set(paper.rates) <= tried for tried in rates):
        sides = [side[side.lr.isin(paper.rates)] for side in sides]
    elif len({len(tried) for tried in rates}) > 1:
        shared = set.intersection(*rates)
        if not shared:
            counts = " and ".join(str(len(tried)) for tried in rates)
            raise NotFound(f"{counts} rates were tried on the sides")
        sides = [side[side.lr.isin(shared)] for side in sides]
    chosen = []
    for side in sides:
        if side.lr.nunique() > 1:
            if side.validation.isna().any():
                raise NotFound("several rates, which nothing validates,")
            means = side.groupby("lr").validation.mean()
            side = side[side.lr == means.idxmax()]
        chosen.append(side)
    return chosen


def describe(group: Group) -> str:
    """Settings in words: `trainable_layers=4, lr=0.001`."""
    return ", ".join(f"{name}={plain(v)}" for name, v in group.items())
