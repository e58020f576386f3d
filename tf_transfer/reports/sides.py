"""Which runs stand for the two sides of a claim."""

import collections
import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import claims
from tf_transfer.reports import frames
from tf_transfer.utils import selection

CACHING = ("frozen_prefix", "cache_dtype")
LIVE = {"frozen_prefix": "live"}
# What a claim means where it says nothing else.
UNLESS_NAMED = {"method": "full", "freeze_schedule": "none", "untrained": ""}


@dataclasses.dataclass(frozen=True)
class Repeats:
    """Runs that differ by seed alone: a `group` of `frames.runs_frame`.

    Choosing among these, not among rows of a frame, is ten times as fast.

    Attributes:
        rows: their positions in the frame.
        model, blocks: of the encoder.
        lr: learning rate.
        settings: see `frames.runs_frame`.
        train: examples trained on.
        scores: of each run the seed, and the score on validation in points;
            nan where nothing is validated.
        recipe: settings that are no part of an approach, as text.
    """

    rows: tuple[int, ...]
    model: str
    blocks: int
    lr: float
    settings: Mapping[str, Any]
    train: int
    scores: tuple[tuple[int, float], ...]
    recipe: str


def list_repeats(runs: pd.DataFrame) -> list[Repeats]:
    """The runs of a frame by group."""
    groups = collections.defaultdict(list)
    for row in runs.assign(position=range(len(runs))).itertuples():
        groups[row.group].append(row)
    return [
        Repeats(
            tuple(row.position for row in (first, *others)),
            first.model,
            first.blocks,
            first.lr,
            first.settings,
            first.sizes.get("train", 0),
            tuple((row.seed, row.validation) for row in (first, *others)),
            frames.dump(
                {
                    n: v
                    for n, v in first.settings.items()
                    if n not in frames.VARIED
                }
            ),
        )
        for first, *others in groups.values()
    ]


def list_peers(
    repeats: Sequence[Repeats], chosen: Iterable[list[Repeats]]
) -> list[list[Repeats]]:
    """The approaches that differ from some chosen runs in nothing else.

    Each has the rate that is best on validation; the chosen ones have theirs.

    Args:
        repeats: of a study's runs on one task.
        chosen: sides of a comparison.
    """
    chosen = list(chosen)
    known = {id(member) for side in chosen for member in side}
    recipes = {member.recipe for side in chosen for member in side}
    others = [
        member
        for member in repeats
        if member.recipe in recipes and id(member) not in known
    ]
    names = _names(others) - {"lr", *CACHING}
    taken = {*_combine((m for side in chosen for m in side), names)}
    return chosen + [
        _keep_best_rate(side)
        for values, side in _combine(others, names).items()
        if values not in taken
    ]


def take_rows(runs: pd.DataFrame, side: Iterable[Repeats]) -> pd.DataFrame:
    """The rows of a frame that some of its `list_repeats` stand for."""
    return runs.take(sorted(row for repeats in side for row in repeats.rows))


def select(runs: pd.DataFrame, wanted: claims.Group) -> pd.DataFrame:
    """The runs that have some settings; a setting that a run lacks differs."""
    return take_rows(runs, _filter(list_repeats(runs), wanted))


def _filter(side: Iterable[Repeats], wanted: claims.Group) -> list[Repeats]:
    return [
        repeats
        for repeats in side
        if all(
            name in repeats.settings
            and claims.is_same(
                repeats.settings[name], resolve(value, repeats.blocks)
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


def choose_sides(
    repeats: Sequence[Repeats],
    paper: claims.Paper,
    groups: Sequence[claims.Group],
) -> list[list[Repeats]]:
    """The runs of each side of a comparison on one task.

    Runs at the paper's settings come first. Otherwise all sides take the
    settings that all have, with the most seeds and then the most training
    data; where several are left, those that are best on validation, of all
    sides together. Of settings that only one side has, nothing is chosen by
    its scores: they are the paper's, see `_settle`. Learning rates are chosen
    on validation, of equally many on each side. Runs with live frozen blocks
    come before cached ones that are alike.

    Args:
        repeats: of a study's runs on one task.
        paper: see there.
        groups: settings of each side.

    Raises:
        NotFound: a side has no runs, or they cannot be chosen alike.
    """
    sides = []
    asked = set().union(*groups)
    for wanted in groups:
        side = [
            member
            for member in _filter(repeats, wanted)
            if all(
                member.settings.get(name, usual) == usual
                for name, usual in UNLESS_NAMED.items()
                if name not in wanted
            )
        ]
        # What another side asks for is what the claim is about: here it is as
        # usual in the paper.
        usual = _published(repeats, paper, (asked - set(wanted)) & _names(side))
        side = _filter(side, usual)
        if not side:
            raise NotFound(f"no runs with {describe({**usual, **wanted})}")
        sides.append(_prefer_live(side))
    chooses = bool(paper.rates) and not any("lr" in group for group in groups)
    ignored = {"lr", *CACHING} if chooses else {*CACHING}
    sides = _agree_on(sides, paper, [{*group} | ignored for group in groups])
    if chooses:
        sides = _choose_rates(sides, paper)
    return sides


def _prefer_live(side: list[Repeats]) -> list[Repeats]:
    """A side without the cached runs whose settings live ones have, too.

    Their rates do not count as settings here: rates are compared among live
    runs, or among cached ones of one precision, the commonest.
    """
    kept: list[Repeats] = []
    for members in _combine(side, _names(side) - {"lr", *CACHING}).values():
        by_dtype = sorted(_combine(members, {"cache_dtype"}).items())
        _, commonest = max(by_dtype, key=lambda part: len(_scores(part[1])))
        kept += _filter(members, LIVE) or commonest
    return sorted(kept, key=lambda repeats: repeats.rows)


def _agree_on(
    sides: Sequence[list[Repeats]],
    paper: claims.Paper,
    fixed: Sequence[set[str]],
) -> list[list[Repeats]]:
    """Of each side, the runs at settings that all sides have.

    Args:
        sides: of a comparison.
        paper: its settings come first.
        fixed: of each side, settings that are not looked at.
    """
    exact = [
        _filter(side, _published(side, paper, _names(side) - known))
        for side, known in zip(sides, fixed)
    ]
    may_vary = {*frames.VARIED, *paper.varied, "max_epochs"}
    if all(exact):
        sides = exact
        # What the paper has one value of varies no more; only what it has
        # several of, or says nothing of, does.
        may_vary -= {
            name
            for side in sides
            for name, value in _published(side, paper, may_vary).items()
            if not isinstance(value, list)
        }
    common = may_vary.intersection(*map(_names, sides)).difference(*fixed)
    combinations = [_combine(side, common) for side in sides]
    shared = set.intersection(*map(set, combinations))
    if not shared:
        raise NotFound("the sides were run at different settings")

    def rank(combination: tuple[str, ...]) -> tuple[int, int]:
        members = [combined[combination] for combined in combinations]
        return min(map(_count_seeds, members)), members[0][0].train

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
    settled: Mapping[tuple[str, ...], Sequence[list[Repeats]]],
) -> tuple[str, ...]:
    """Of several settings, those that are best on validation for all sides.

    A side counts with its best rate, and all sides alike. Where nothing
    validates, it is the last one.

    Args:
        settled: the sides at each of the settings.
    """
    *_, last = settled
    best = {
        combination: [*map(_keep_best_rate, sides)]
        for combination, sides in settled.items()
    }
    if not all(map(all, best.values())):
        return last
    means = [
        selection.means_over_seeds(
            {at: _scores(sides[number]) for at, sides in best.items()}
        )
        for number in range(len(best[last]))
    ]
    totals = {at: sum(of_side[at] for of_side in means) for at in best}
    if np.isnan([*totals.values()]).any():
        return last
    return max(totals, key=lambda combination: totals[combination])


def _settle(
    side: list[Repeats], paper: claims.Paper, names: set[str]
) -> list[Repeats]:
    """Of a side, the runs with one value of each of some settings.

    The other sides have no such settings, so that a choice by scores would be
    one of more runs than theirs. It is that with which most rates were tried;
    then that with most of the paper's values; then that with most seeds.
    """
    published = _published(side, paper, _names(side) & names)

    def rank(members: list[Repeats]) -> tuple[int, int, int]:
        rates = {repeats.lr for repeats in members}
        settings = members[0].settings
        alike = sum(
            claims.is_same(settings.get(n), v) for n, v in published.items()
        )
        return len(rates), alike, _count_seeds(members)

    parts = _combine(side, names)
    ordered = sorted(parts, key=_by_number)
    return max((parts[values] for values in ordered), key=rank)


def _by_number(values: Sequence[str]) -> list[tuple[float, str]]:
    """Sort key by which `3` comes before `10`; words come after numbers."""
    keys = []
    for value in values:
        try:
            keys.append((float(value), ""))
        except ValueError:
            keys.append((math.inf, value))
    return keys


def _count_seeds(side: Iterable[Repeats]) -> int:
    return len({seed for seed, _ in _scores(side)})


def _published(
    side: Sequence[Repeats], paper: claims.Paper, names: set[str]
) -> dict[str, Any]:
    """What the paper has of some settings with the encoder of a side."""
    settings = paper.settings_on(side[0].model)
    return {n: v for n, v in settings.items() if n in names}


def _combine(
    side: Iterable[Repeats], names: set[str]
) -> dict[tuple[str, ...], list[Repeats]]:
    """A side in parts, by their values of some settings."""
    parts = collections.defaultdict(list)
    for repeats in side:
        values = (str(repeats.settings.get(n, "")) for n in sorted(names))
        parts[tuple(values)].append(repeats)
    return parts


def _names(side: Iterable[Repeats]) -> set[str]:
    """Settings that runs have at all; those without an encoder have few."""
    return set[str]().union(*(repeats.settings for repeats in side))


def _choose_rates(
    sides: Sequence[list[Repeats]], paper: claims.Paper
) -> list[list[Repeats]]:
    """Of each side, the runs at the rate that is best on validation."""
    rates = [{repeats.lr for repeats in side} for side in sides]
    has_published = all(set(paper.rates) <= tried for tried in rates)
    if has_published:
        sides = [_at(side, paper.rates) for side in sides]
    chosen = [*map(_keep_best_rate, sides)]
    if not all(chosen):
        raise NotFound("several rates, which nothing validates,")
    counts = [len(tried) for tried in rates]
    best = {repeats.lr for side in chosen for repeats in side}
    # Without the best rate of a side, the others do not stand for it.
    if not (
        has_published or len({*counts}) == 1 or best <= set.intersection(*rates)
    ):
        raise NotFound(
            f"{' and '.join(map(str, counts))} rates were tried on the sides"
        )
    return chosen


def _at(side: Iterable[Repeats], rates: Iterable[float]) -> list[Repeats]:
    return [repeats for repeats in side if repeats.lr in rates]


def _keep_best_rate(side: list[Repeats]) -> list[Repeats]:
    """Those at the rate that is best on validation.

    None of several rates that nothing validates.
    """
    scored = {
        rate: _scores(_at(side, [rate]))
        for rate in sorted({repeats.lr for repeats in side})
    }
    scores = [score for _, score in _scores(side)]
    if len(scored) > 1 and np.isnan(scores).any():
        return []
    return _at(side, [selection.best_on_validation(scored)])


def _scores(side: Iterable[Repeats]) -> list[tuple[int, float]]:
    """Seed and validation score of each run."""
    return [pair for repeats in side for pair in repeats.scores]


def describe(group: claims.Group) -> str:
    """Settings in words: `trainable_layers=4, lr=0.001`."""
    return ", ".join(f"{name}={claims.plain(v)}" for name, v in group.items())
