"""Tests the contrast of a claim's groups: its value, p-value and word.

The contrast is of `estimates`; the groups are chosen in `verdicts`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from tf_transfer.reports import choose, estimates, measures, wording
from tf_transfer.reports.claims import Claim, Settings
from tf_transfer.reports.estimates import Cell, Contrast, Estimate

AGREES, IN_SIGN = "agrees", "agrees in sign"
CONTRADICTS = "contradicts"
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
WORDS = (AGREES, IN_SIGN, CONTRADICTS, INCONCLUSIVE, NOT_COMPARABLE)

FEWEST_SEEDS = 3
ALPHA = 1 - estimates.LEVEL
FAILED = "not shown to be above the majority baseline"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of judging a claim by some runs.

    Attributes:
        claim: what was judged.
        study: of the runs; empty where no comparison has runs.
        word: one of `WORDS`.
        reason: a clause.
        value, low, high: ours, with its 95 % interval; nan where not known.
        runs: the fewest of a group on a task.
        variance: standard errors of the value by source, see `estimates`.
        p: of the test that the word rests on; nan where none was made.
        outcome: what the word would be if `p` is small enough.
        p_of_half: of the test that any difference is below half of the
            published one; nan where none is.
        needed: returns for a level of significance what would decide the claim,
            a clause or an empty string.
        tasks: those that the value is of, where the claim is on more.
        blocks: what a share of the blocks is of this encoder, in words.
        tally: how many of several comparisons show the claim, a clause; empty
            of a claim on their mean.
        problem: why the value is not reported, or an empty string. A task
            without runs counts only if no task is complete.
    """

    claim: Claim
    study: str
    word: str
    reason: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    runs: int = 0
    variance: Mapping[str, float] = dataclasses.field(default_factory=dict)
    p: float = math.nan
    outcome: str = ""
    p_of_half: float = math.nan
    needed: Callable[[float], str] = dataclasses.field(
        default=lambda alpha: "", compare=False
    )
    tasks: tuple[str, ...] = ()
    blocks: str = ""
    tally: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The two groups of a claim on one task.

    Attributes:
        runs: of the first group and, where there is one, of the second.
        settings: by which each group was chosen.
        cells: of each group, see `measures.Cells`.
        at: of a time, in epochs of the last group.
    """

    task: str
    runs: tuple[pd.DataFrame, ...]
    settings: tuple[Settings, ...]
    cells: tuple[Cell, ...]
    at: float = 0.0

    @property
    def fewest(self) -> int:
        """Known values of the group that has fewer.

        A group that no seed could change has enough.
        """
        counts = [
            len(cell.values)
            for cell in self.cells
            if cell.is_trained or cell.fold_share or not len(cell.values)
        ]
        return min(counts, default=FEWEST_SEEDS)


def takes_logarithms(claim: Claim) -> bool:
    """Whether it is about a ratio of times."""
    return claim.relative and {*claim.measure} <= {*measures.DURATIONS}


def _show(claim: Claim, value: float) -> float:
    """A value of the contrast on the scale of the claim."""
    return 100 * math.expm1(value) if takes_logarithms(claim) else value


def _scale(claim: Claim, value: float) -> float:
    """Reverses `_show`."""
    return math.log1p(value / 100) if takes_logarithms(claim) else value


def test_claim(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """The verdict with value, interval, p and what it would conclude."""
    joined = _join_times(comparisons)
    if not all(_is_known(claim, comparison) for comparison in joined):
        return verdict
    estimate = _average(claim, joined).estimate()
    verdict = _report_value(claim, estimate, verdict)
    if not estimate.error:
        return dataclasses.replace(verdict, reason="all seeds score the same")
    if claim.over == "mean":
        return _conclude_on_mean(claim, estimate, verdict)
    return _conclude_on_several(claim, comparisons, verdict)


def _report_value(
    claim: Claim, estimate: Estimate, verdict: Verdict
) -> Verdict:
    """The verdict with an estimate as its value."""
    low, high = (_show(claim, end) for end in estimate.interval())
    return dataclasses.replace(
        verdict,
        value=_show(claim, estimate.value),
        low=low,
        high=high,
        variance=estimate.parts,
    )


def _join_times(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Those at several times of the same runs as one, of each run's mean.

    A run's scores at several times share its luck.
    """

    @functools.cache  # so that a group of several comparisons has one cell
    def join(cells: tuple[Cell, ...]) -> Cell:
        values = np.mean([cell.values for cell in cells], axis=0)
        return dataclasses.replace(cells[0], values=values)

    by_runs = choose.group_by(
        comparisons, lambda c: (c.task, *(tuple(runs.path) for runs in c.runs))
    )
    return [
        dataclasses.replace(
            several[0], cells=tuple(map(join, zip(*(c.cells for c in several))))
        )
        if len({tuple(len(cell.values) for cell in c.cells) for c in several})
        == 1
        else several[0]
        for several in by_runs.values()
    ]


def _is_known(claim: Claim, comparison: Comparison) -> bool:
    """Whether there are two values of each group, and no share of nothing."""
    if comparison.fewest < 2:
        return False
    if not claim.relative or takes_logarithms(claim):
        return True
    whole = Contrast.of(comparison.cells[-1]).estimate()
    return whole.value > 0 and (not whole.error or whole.p_above() <= ALPHA)


def _average(claim: Claim, comparisons: Sequence[Comparison]) -> Contrast:
    return estimates.mean([_contrast(claim, one) for one in comparisons])


def _contrast(claim: Claim, comparison: Comparison) -> Contrast:
    """The contrast of a claim on one task."""
    first, *others = map(Contrast.of, comparison.cells)
    if not others:
        return first
    [second] = others
    if takes_logarithms(claim):
        return first - second + -math.log(claim.factor)
    if claim.relative:
        return (first / second * (1 / claim.factor) + -1) * 100
    return first - second * claim.factor


# === Conclusions ===


def _conclude_on_mean(
    claim: Claim, estimate: Estimate, verdict: Verdict
) -> Verdict:
    verdict = _weigh(claim, [estimate], verdict)
    outcome, p_of_half = verdict.outcome, math.nan
    agrees = outcome == AGREES
    reason = "the same sign" if agrees else "the other sign"
    if claim.kind == "equal":
        bounds = f"within {claim.margin:g} {claim.unit}"
        reason = bounds if agrees else f"not {bounds}"
    elif claim.published:
        half = _scale(claim, claim.published / 2)
        below = sorted((half, math.copysign(math.inf, -claim.published)))
        p_of_half = estimate.p_within(*below)
        if agrees:
            outcome, reason = _judge_size(claim, estimate)
    return dataclasses.replace(
        verdict, outcome=outcome, reason=reason, p_of_half=p_of_half
    )


def _conclude_on_several(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """On each, most or some of several comparisons; and which do not agree."""
    single = [_contrast(claim, one).estimate() for one in comparisons]
    verdict = _weigh(claim, single, verdict)
    names = [_name_comparison(claim, one) for one in comparisons]
    low, high = _region(claim)
    others = [n for n, e in zip(names, single) if not low < e.value < high]
    word = "higher" if claim.direction > 0 else "lower"
    if claim.kind == "equal":
        word = f"within {claim.margin:g} {claim.unit}"
    tally = f"{len(single) - len(others)} of {len(single)} {word}"
    if others:
        tally += f", not {wording.list_first(others, ', ')}"
    if verdict.outcome == AGREES and claim.published:
        unlike = [
            name
            for name, estimate in zip(names, single)
            if _judge_size(claim, estimate)[0] != AGREES
        ]
        if len(unlike) > len(single) - _count_needed(claim, len(single)):
            names_of_unlike = wording.list_first(unlike, ", ")
            tally += f", not shown of the size: {names_of_unlike}"
            verdict = dataclasses.replace(verdict, outcome=IN_SIGN)
    return dataclasses.replace(verdict, reason=tally, tally=tally)


def _weigh(
    claim: Claim, single: Sequence[Estimate], verdict: Verdict
) -> Verdict:
    """The verdict with what several estimates conclude together."""
    low, high = _region(claim)
    showing = _count_needed(claim, len(single))
    refuting = len(single) - showing + 1  # of these, the opposite refutes it
    agrees = estimates.partial_conjunction(
        [estimate.p_within(low, high) for estimate in single], showing
    )
    contradicts = estimates.partial_conjunction(
        [estimate.p_outside(low, high) for estimate in single], refuting
    )
    # If enough estimates are as claimed, these have to be shown to be. If not,
    # the others have to be.
    agreeing = [estimate for estimate in single if low < estimate.value < high]
    deciding, count = agreeing, showing
    if len(agreeing) < showing:
        deciding = [one for one in single if one not in agreeing]
        count = refuting
    describe = functools.partial(
        describe_needed,
        [(e, min(abs(e.value - low), abs(e.value - high))) for e in deciding],
        count,
        len(single) - count + 1,
        verdict.runs,
    )
    return dataclasses.replace(
        verdict,
        needed=describe,
        p=min(agrees, contradicts),
        outcome=AGREES if agrees <= contradicts else CONTRADICTS,
    )


def _count_needed(claim: Claim, count: int) -> int:
    """The number of several comparisons on which a claim has to hold."""
    return {"most": count // 2 + 1, "some": 1}.get(claim.over, count)


def _region(claim: Claim) -> tuple[float, float]:
    """The open interval of what is claimed, on the scale of the contrast."""
    if claim.kind == "equal":
        return _scale(claim, -claim.margin), _scale(claim, claim.margin)
    return (0.0, math.inf) if claim.direction > 0 else (-math.inf, 0.0)


def _judge_size(claim: Claim, estimate: Estimate) -> tuple[str, str]:
    """(the word for a difference of the claimed sign, why)."""
    near, far = sorted(
        math.copysign(1.0, claim.published) * _show(claim, end)
        for end in estimate.interval()
    )
    size = abs(claim.published)
    if size / 2 <= near and far <= 2 * size:
        return AGREES, "sign and size"
    if far < size / 2:
        return IN_SIGN, "but less than half as large as published"
    if near > 2 * size:
        return IN_SIGN, "but more than twice as large as published"
    return IN_SIGN, "the size is open"


def describe_needed(
    rooms: Sequence[tuple[Estimate, float]],
    count: int,
    tests: int,
    runs: int,
    alpha: float = ALPHA,
) -> str:
    """About how many seeds would decide a claim, a clause.

    Args:
        rooms: estimates, each with how far its interval may reach to decide.
        count: how many of them have to be decided.
        tests: by which factor their p-values are corrected.
        runs: that the estimates are from.
        alpha: of the tests that decide, after Holm's correction.
    """
    if not all(estimate.error for estimate, _ in rooms):
        return ""
    needed = [
        estimate.seeds_needed(room, runs, 1 - alpha / tests) or math.inf
        for estimate, room in rooms
    ]
    seeds = sorted(needed)[count - 1]
    if seeds < math.inf:
        return f"about {seeds} seeds would decide"
    if any("seeds" in estimate.parts for estimate, _ in rooms):
        return f"{estimates.REALISTIC} seeds would not decide it"
    return "more seeds would not decide it"


def _name_comparison(claim: Claim, comparison: Comparison) -> str:
    """`last_4 on rte at 1.1`, without what all comparisons of a claim share."""
    name = comparison.task
    if len(claim.first) > 1:
        name = f"{comparison.runs[0].approach.iloc[0]} on {name}"
    if len(claim.at) > 1:
        name += f" at {comparison.at:g} epochs"
    if len(claim.second) > 1 and not claim.paired:
        group = comparison.settings[-1].items()
        other = {n: v for n, v in group if n not in claim.both}
        name += f" against {choose.describe(other)}"
    return name


def count_words(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """The number of verdicts with each word; words without any are left out."""
    counts = pd.Series([v.word for v in verdicts]).value_counts()
    return {word: int(counts[word]) for word in WORDS if word in counts}
