"""What a contrast of a claim's groups shows: its value, tests and word.

The contrast is of `estimates`; the groups are chosen in `verdicts`.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from tf_transfer.reports import choose, estimates, measures
from tf_transfer.reports.claims import Claim, Settings, size_of
from tf_transfer.reports.estimates import Cell, Contrast

AGREES, IN_SIGN = "agrees", "agrees in sign"
CONTRADICTS = "contradicts"
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
WORDS = (AGREES, IN_SIGN, CONTRADICTS, INCONCLUSIVE, NOT_COMPARABLE)

FEWEST_SEEDS = 3
FEWEST_POINTS = 3  # tasks of a trend
ALPHA = 1 - estimates.LEVEL
FAILED = "not shown to be above the majority baseline"  # as far as runs show


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What some runs say of a claim.

    Attributes:
        claim: what was judged.
        study: of the runs.
        word: one of `WORDS`.
        reason: a clause.
        value, low, high: ours, with its 95 % interval; nan where not known.
        runs: the fewest of a group on a task.
        beside: the value by the claim's other measure, or nan.
        variance: standard errors of the value by part, see `estimates`.
        p: of the test that the word rests on; nan where none was made.
        outcome: what the word would be if `p` is small enough.
        p_of_half: of the test that any difference is below half of the
            published one; nan where none is.
        tested: estimates, each with how far its interval may reach
            to decide.
        needed_of: how many of `tested` have to be decided.
        tests: by which factor p-values of these are corrected.
        needed: what would decide it, a clause, if not the number of seeds.
        reading: settings in words, if it is another than the claim's own; see
            `Claim.readings`.
        tasks: those that the value is of, where the claim is on more.
        blocks: what a share of the blocks is of this encoder, in words.
        parts: of a claim on each, most or some of several comparisons, how
            many show it, a clause.
        problem: why the value is not reported; a task without runs
            counts only if no task is complete.
        compared: whether both groups have runs on a task.
    """

    claim: Claim
    study: str
    word: str
    reason: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    runs: int = 0
    beside: float = math.nan
    variance: Mapping[str, float] = dataclasses.field(default_factory=dict)
    p: float = math.nan
    outcome: str = ""
    p_of_half: float = math.nan
    tested: tuple[tuple[estimates.Estimate, float], ...] = ()
    needed_of: int = 1
    tests: int = 1
    needed: str = ""
    reading: str = ""
    tasks: tuple[str, ...] = ()
    blocks: str = ""
    parts: str = ""
    problem: str = ""
    compared: bool = False


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

        What no seed could change has enough.
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


def _to_percent(value: float) -> float:
    """The change in percent that a difference of logarithms is."""
    return 100 * math.expm1(value)


def _to_logarithm(percent: float) -> float:
    return math.log1p(percent / 100)


def test_claim(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """The verdict with value, interval, p and what it would conclude."""
    if claim.kind == "spread":
        return _test_spread(claim, comparisons, verdict)
    if claim.kind == "maximum":
        return _describe_maximum(comparisons, verdict)
    joined = _join_times(comparisons)
    if not all(_is_known(claim, comparison) for comparison in joined):
        return verdict
    if claim.kind == "trend":
        return _test_trend(claim, comparisons, verdict)
    show = _to_percent if takes_logarithms(claim) else float
    contrasts = [_contrast(claim, comparison) for comparison in comparisons]
    estimate = estimates.mean(
        [_contrast(claim, comparison) for comparison in joined]
    ).estimate()
    low, high = map(show, estimate.interval())
    verdict = dataclasses.replace(
        verdict,
        value=show(estimate.value),
        low=low,
        high=high,
        variance=estimate.parts,
    )
    if not estimate.error:
        return dataclasses.replace(
            verdict, reason="all seeds score the same", outcome=""
        )
    if claim.over == "mean":
        return _conclude_on_mean(claim, estimate, verdict)
    parts = [contrast.estimate() for contrast in contrasts]
    return _conclude_on_parts(claim, comparisons, parts, verdict)


def _join_times(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Those at several times of the same runs as one, of each run's mean.

    A run's scores at several times share its luck.
    """
    by_runs: dict[Any, list[Comparison]] = {}
    for comparison in comparisons:
        names = tuple(tuple(runs.path) for runs in comparison.runs)
        by_runs.setdefault((comparison.task, names), []).append(comparison)
    known: dict[tuple[Cell, ...], Cell] = {}

    def join(of_group: tuple[Cell, ...]) -> Cell:
        if of_group not in known:  # a group of several is the same cell
            values = np.mean([cell.values for cell in of_group], axis=0)
            known[of_group] = dataclasses.replace(of_group[0], values=values)
        return known[of_group]

    return [
        dataclasses.replace(
            several[0], cells=tuple(map(join, zip(*(c.cells for c in several))))
        )
        if len({tuple(map(_count, c.cells)) for c in several}) == 1
        else several[0]
        for several in by_runs.values()
    ]


def _count(cell: Cell) -> int:
    return len(cell.values)


def _is_known(claim: Claim, comparison: Comparison) -> bool:
    """Whether there are two values of each group, and no share of nothing."""
    if comparison.fewest < 2:
        return False
    if not claim.relative or takes_logarithms(claim):
        return True
    whole = Contrast.of(comparison.cells[-1]).estimate()
    return whole.value > 0 and (not whole.error or whole.p_above() <= ALPHA)


def _contrast(claim: Claim, comparison: Comparison) -> Contrast:
    """What a claim is about on one task."""
    first, *others = map(Contrast.of, comparison.cells)
    if not others:
        return first
    [second] = others
    if takes_logarithms(claim):
        return first - second + -math.log(claim.factor)
    if claim.relative:
        return (first / second * (1 / claim.factor) + -1) * 100
    return first - second * claim.factor


def _margin_of(claim: Claim) -> tuple[float, float]:
    """What counts as no difference, on the scale of the contrast."""
    if takes_logarithms(claim):
        return _to_logarithm(-claim.margin), _to_logarithm(claim.margin)
    return -claim.margin, claim.margin


def _train_size(comparison: Comparison) -> int:
    sizes = comparison.runs[0].sizes.iloc[0]
    return size_of(sizes, "train_and_validation")


def _test_trend(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """A line through the tasks, per tenfold training set, with n - 2 degrees.

    The tasks differ in more than their size: only how far they lie from the
    line says how well it is known.
    """
    by_task: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        by_task.setdefault(comparison.task, []).append(comparison)
    sizes = [_train_size(of_task[0]) for of_task in by_task.values()]
    if len({*sizes}) < FEWEST_POINTS:
        return dataclasses.replace(
            verdict,
            reason=f"{len({*sizes})} sizes of training sets; "
            f"{FEWEST_POINTS} are needed",
        )
    values = [
        np.mean([_contrast(claim, one).value for one in of_task])
        for of_task in by_task.values()
    ]
    line = scipy.stats.linregress(np.log10(sizes), values)
    estimate = estimates.Estimate(
        float(line.slope), float(line.stderr), len(sizes) - 2
    )
    low, high = estimate.interval()
    verdict = dataclasses.replace(
        verdict, value=estimate.value, low=low, high=high
    )
    return dataclasses.replace(
        _conclude_on_mean(claim, estimate, verdict),
        needed=f"{len(sizes)} tasks do not decide it, nor would more seeds",
    )


def _conclude_on_mean(
    claim: Claim, estimate: estimates.Estimate, verdict: Verdict
) -> Verdict:
    value = estimate.value
    if claim.kind == "equal":
        bounds = _margin_of(claim)
        within, outside = (
            estimate.p_within(*bounds),
            estimate.p_outside(*bounds),
        )
        p, outcome = min((within, AGREES), (outside, CONTRADICTS))
        words = f"within {claim.margin:g} {claim.unit}"
        return dataclasses.replace(
            verdict,
            p=p,
            outcome=outcome,
            reason=words if outcome == AGREES else f"not {words}",
            tested=((estimate, _room(claim, value)),),
        )
    direction = claim.direction
    p = min(1.0, 2 * min(estimate.p_above(), estimate.p_below()))
    has_sign = np.sign(value) == direction
    outcome = AGREES if has_sign else CONTRADICTS
    reason = "the same sign" if has_sign else "the other sign"
    if claim.published and has_sign:
        outcome, reason = _judge_size(
            (verdict.low, verdict.high), claim.published
        )
    half = claim.published / 2
    if half and takes_logarithms(claim):
        half = _to_logarithm(half)
    below = estimate.p_below if direction > 0 else estimate.p_above
    return dataclasses.replace(
        verdict,
        p=p,
        outcome=outcome,
        reason=reason,
        p_of_half=min(1.0, 2 * below(half)) if half else math.nan,
        tested=((estimate, _room(claim, value)),),
    )


def _judge_size(
    interval: tuple[float, float], published: float
) -> tuple[str, str]:
    """(the word for a difference of the claimed sign, why)."""
    sign = math.copysign(1.0, published)
    near, far = sorted(sign * end for end in interval)
    size = abs(published)
    if size / 2 <= near and far <= 2 * size:
        return AGREES, "sign and size"
    if far < size / 2:
        return IN_SIGN, "but less than half as large as published"
    if near > 2 * size:
        return IN_SIGN, "but more than twice as large as published"
    return IN_SIGN, "the size is open"


def _room(claim: Claim, value: float) -> float:
    """How far the interval around a value may reach to decide a claim."""
    bounds = _margin_of(claim) if claim.kind == "equal" else (0.0,)
    return min(abs(value - bound) for bound in bounds)


def describe_needed(verdict: Verdict, alpha: float) -> str:
    """About how many seeds would decide a claim, a clause.

    Args:
        verdict: on it.
        alpha: of the tests that decide, after Holm's correction.
    """
    varies = all(estimate.error for estimate, _ in verdict.tested)
    if verdict.needed or not verdict.tested or not varies:
        return verdict.needed
    level = 1 - alpha / verdict.tests
    needed = [
        estimate.seeds_needed(room, verdict.runs, level) or math.inf
        for estimate, room in verdict.tested
    ]
    seeds = sorted(needed)[verdict.needed_of - 1]
    if seeds < math.inf:
        return f"about {seeds} seeds would decide"
    if any("seeds" in estimate.parts for estimate, _ in verdict.tested):
        return f"{estimates.REALISTIC} seeds would not decide it"
    return "more seeds would not decide it"


def _conclude_on_parts(
    claim: Claim,
    comparisons: Sequence[Comparison],
    parts: Sequence[estimates.Estimate],
    verdict: Verdict,
) -> Verdict:
    """Of each, most or some of several comparisons; and which do not agree."""
    if claim.kind == "equal":
        low, high = _margin_of(claim)
        right = [part.p_within(low, high) for part in parts]
        wrong = [part.p_outside(low, high) for part in parts]
        agree = [low <= part.value <= high for part in parts]
        word = f"within {claim.margin:g} {claim.unit}"
    else:
        right = [_p_of_sign(part, claim.direction) for part in parts]
        wrong = [_p_of_sign(part, -claim.direction) for part in parts]
        agree = [np.sign(part.value) == claim.direction for part in parts]
        word = "higher" if claim.direction > 0 else "lower"
    names = [_name_part(claim, comparison) for comparison in comparisons]
    others = [name for name, is_so in zip(names, agree) if not is_so]
    reason = f"{sum(agree)} of {len(parts)} {word}"
    if others:
        reason += f", not {_list_some(others)}"
    verdict = _conclude_on_several(claim, right, wrong, verdict)
    # Those that are as claimed have to be shown to be; without enough of them,
    # the others.
    needed, holds = _count_needed(claim, len(parts)), True
    if sum(agree) < needed:
        needed, holds = len(parts) - needed + 1, False
    verdict = dataclasses.replace(
        verdict,
        tested=tuple(
            (part, _room(claim, part.value))
            for part, is_so in zip(parts, agree)
            if is_so == holds
        ),
        needed_of=needed,
        tests=len(parts) - needed + 1,
    )
    if verdict.outcome == AGREES and claim.published:
        show = _to_percent if takes_logarithms(claim) else float
        unlike = [
            name
            for name, part in zip(names, parts)
            if _judge_size(
                (show(part.interval()[0]), show(part.interval()[1])),
                claim.published,
            )[0]
            != AGREES
        ]
        if len(unlike) > len(parts) - _count_needed(claim, len(parts)):
            reason += f", not shown of the size: {_list_some(unlike)}"
            verdict = dataclasses.replace(verdict, outcome=IN_SIGN)
    return dataclasses.replace(verdict, reason=reason, parts=reason)


def _count_needed(claim: Claim, count: int) -> int:
    """Of how many of several a claim has to hold."""
    return {"most": count // 2 + 1, "some": 1}.get(claim.over, count)


def _conclude_on_several(
    claim: Claim,
    right: Sequence[float],
    wrong: Sequence[float],
    verdict: Verdict,
) -> Verdict:
    """By partial conjunction.

    Args:
        claim: `over` says of how many.
        right, wrong: p-values for what it says and against it, of each.
        verdict: to be completed.
    """
    needed = _count_needed(claim, len(right))
    refuted = len(right) - needed + 1  # so many of the opposite refute it
    p, outcome = min(
        (estimates.partial_conjunction(right, needed), AGREES),
        (estimates.partial_conjunction(wrong, refuted), CONTRADICTS),
    )
    return dataclasses.replace(verdict, p=p, outcome=outcome)


def _list_some(names: Sequence[str], most: int = 4) -> str:
    """The first few of some names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _p_of_sign(part: estimates.Estimate, sign: int) -> float:
    """Two-sided p-value where the sign is this one, else 1."""
    p = part.p_above() if sign > 0 else part.p_below()
    return min(1.0, 2 * p)


def _name_part(claim: Claim, comparison: Comparison) -> str:
    """`last_4 on rte at 1.1`, of which what all parts share is left out."""
    name = comparison.task
    if len(claim.first) > 1:
        name = f"{comparison.runs[0].approach.iloc[0]} on {name}"
    if len(claim.at) > 1:
        name += f" at {comparison.at:g} epochs"
    if len(claim.second) > 1 and not claim.paired:
        group = comparison.settings[1].items()
        other = {n: v for n, v in group if n not in claim.both}
        name += f" against {choose.describe(other)}"
    return name


def add_other_measure(
    claim: Claim,
    comparisons: Sequence[Comparison],
    verdict: Verdict,
    cells: measures.Cells,
) -> Verdict:
    """The verdict with the value by the claim's other measure."""
    plain = dataclasses.replace(claim, measure=(claim.beside, claim.beside))
    logarithms = takes_logarithms(plain)
    others = [
        dataclasses.replace(
            comparison,
            cells=cells.measure(
                (claim.beside,) * len(comparison.runs),
                comparison.runs,
                comparison.at,
                logarithms,
            ),
        )
        for comparison in comparisons
    ]
    if not all(_is_known(plain, other) for other in others):
        return verdict
    value = estimates.mean([_contrast(plain, other) for other in others]).value
    return dataclasses.replace(
        verdict, beside=_to_percent(value) if logarithms else value
    )


def _test_spread(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """A bound for the standard deviation on each task, pooled over approaches.

    The value is the largest of a task, with its own interval.
    """
    by_task: dict[str, list[np.ndarray]] = {}
    for comparison in comparisons:
        of_task = by_task.setdefault(comparison.task, [])
        of_task += [cell.values for cell in comparison.cells]
    right, wrong, bounds, beyond = [], [], [], []
    chi2, tail = scipy.stats.chi2, (1 - estimates.LEVEL) / 2
    for task, groups in by_task.items():
        pool = estimates.pool(groups)
        squares = pool.variance * pool.freedom
        ratio = squares / claim.margin**2
        right.append(min(1.0, 2 * float(chi2.cdf(ratio, pool.freedom))))
        wrong.append(min(1.0, 2 * float(chi2.sf(ratio, pool.freedom))))
        bounds.append(
            [math.sqrt(pool.variance)]
            + [
                math.sqrt(squares / chi2.ppf(share, pool.freedom))
                for share in (1 - tail, tail)
            ]
        )
        if pool.variance > claim.margin**2:
            beyond.append(f"{task} {bounds[-1][0]:.2f}")
    value, low, high = max(bounds)
    verdict = dataclasses.replace(verdict, value=value, low=low, high=high)
    if not min(bounds)[0]:
        return dataclasses.replace(verdict, reason="all seeds score the same")
    reason = f"at most {claim.margin:g} {claim.unit} on each task"
    if beyond:
        reason = f"more than {claim.margin:g} {claim.unit}: "
        reason += _list_some(beyond)
    return dataclasses.replace(
        _conclude_on_several(claim, right, wrong, verdict), reason=reason
    )


def _describe_maximum(
    comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """Of one comparison: maxima are described, not tested."""
    [comparison] = comparisons
    first, second = (float(cell.values.max()) for cell in comparison.cells)
    return dataclasses.replace(
        verdict,
        value=first - second,
        reason="a maximum grows with the number of runs: it is described",
    )


def count_words(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many verdicts have each word, those with none left out."""
    counts = pd.Series([v.word for v in verdicts]).value_counts()
    return {word: int(counts[word]) for word in WORDS if word in counts}
