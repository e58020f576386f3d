"""What runs say of the papers' claims.

A verdict has one of four words, with its reason:

- *agrees*, *contradicts*: what the runs show, at the paper's own settings, data
  and encoder. A difference must be significant at 5 % after Holm's correction
  over the paper's claims; "no difference" needs two one-sided tests within the
  margin. Where the paper gives the size of a difference, the 95 % interval must
  overlap half to twice of it; else it *agrees in sign*, or, if it excludes half
  of it and has both signs, *contradicts*.
- *inconclusive*: the interval has both signs, or something is missing: three
  seeds a side, a task, a rate, a time that the limit of epochs did not cut off.
- *not comparable*: something outside the claim is not the paper's, the encoder
  has seen the data before, or a side did not train. The same statistics are
  told for what they are: of this encoder and data.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import estimates
from tf_transfer.reports import frames
from tf_transfer.reports import measures
from tf_transfer.reports.claims import Claim
from tf_transfer.reports.claims import Group
from tf_transfer.reports.claims import list_differences
from tf_transfer.reports.claims import Paper
from tf_transfer.reports.claims import size_of
from tf_transfer.reports.claims import SIZES_ALIKE
from tf_transfer.reports.claims import unlike_sizes
from tf_transfer.reports.sides import choose_sides
from tf_transfer.reports.sides import describe
from tf_transfer.reports.sides import list_repeats
from tf_transfer.reports.sides import NotFound
from tf_transfer.reports.sides import Repeats
from tf_transfer.reports.sides import take_rows

AGREES, IN_SIGN = "agrees", "agrees in sign"
CONTRADICTS = "contradicts"
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
WORDS = (AGREES, IN_SIGN, CONTRADICTS, INCONCLUSIVE, NOT_COMPARABLE)

FEWEST_SEEDS = 3
FEWEST_POINTS = 3  # tasks of a trend
ALPHA = 1 - estimates.LEVEL
# What an encoder was trained on before, as tasks are called here: Quora's
# questions, both NLI sets, and SQuAD, of which QNLI is made.
SEEN = {"minilm": ("qqp", "paraphrase", "pairs", "mnli", "qnli")}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What some runs say of a claim.

    Attributes:
        claim: what was judged.
        study: of the runs.
        word: one of `WORDS`.
        reason: a clause.
        value, low, high: ours, with its 95 % interval; nan where not known.
        runs: the fewest of a side on a task.
        beside: the value by the claim's other measure, or nan.
        p: of the test that the word rests on; nan where none was made.
        outcome: what the word would be if `p` is small enough.
        reading: settings in words, if it is another than the claim's own; see
            `Claim.readings`.
        tasks: those that the value is of, where the claim is on more.
        parts: of a claim on each, most or some of several comparisons, how
            many show it, a clause.
        problem: why its value is not told, apart from tasks without runs.
        compared: whether both sides have runs on a task.
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
    p: float = math.nan
    outcome: str = ""
    reading: str = ""
    tasks: tuple[str, ...] = ()
    parts: str = ""
    problem: str = ""
    compared: bool = False


def judge(runs: pd.DataFrame, paper: Paper) -> list[Verdict]:
    """A verdict on each claim by each study that has runs for it.

    Holm's correction is over the claims that a study's runs could be tested
    on. Claims that no study has runs for have one verdict, without a study,
    which says what is missing.

    Args:
        runs: of the paper's experiment, see `frames.runs_frame`.
        paper: its claims.
    """
    verdicts: list[Verdict] = []
    unrun: dict[str, Verdict] = {}
    for study, members in frames.studies(runs):
        tasks = split_tasks(members, paper)
        judged = [
            verdict
            for claim in paper.claims
            if (verdict := judge_claim(tasks, paper, claim)) is not None
        ]
        run = [verdict for verdict in judged if verdict.compared]
        verdicts += [
            dataclasses.replace(verdict, study=study)
            for verdict in correct_for_many(run)
        ]
        for verdict in judged:
            unrun.setdefault(verdict.claim.id, verdict)
    seen = {verdict.claim.id for verdict in verdicts}
    return verdicts + [
        unrun.get(
            claim.id, Verdict(claim, "", INCONCLUSIVE, "no runs of its encoder")
        )
        for claim in paper.claims
        if claim.id not in seen
    ]


def correct_for_many(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts after Holm's correction over those with a test."""
    tested = [v for v in verdicts if v.outcome]
    p_values = adjust_for_many([v.p for v in tested])
    adjusted = {id(v): p for v, p in zip(tested, p_values)}
    return [
        _conclude(verdict, adjusted[id(verdict)])
        if verdict.outcome
        else verdict
        for verdict in verdicts
    ]


def adjust_for_many(p_values: Sequence[float]) -> list[float]:
    """p-values after Holm's correction, in the same order."""
    if len(p_values) < 2:
        return [*p_values]
    from statsmodels.stats import multitest  # takes a second to load

    return multitest.multipletests(p_values, ALPHA, "holm")[1].tolist()


def _conclude(verdict: Verdict, p: float) -> Verdict:
    if p <= ALPHA:
        return dataclasses.replace(verdict, word=verdict.outcome, p=p)
    reason = verdict.reason
    if verdict.p <= ALPHA:
        reason = "not significant after Holm's correction"
    elif verdict.claim.kind == "equal" and verdict.claim.over == "mean":
        reason = "the runs do not show that it is within the margin"
    elif verdict.claim.direction and verdict.claim.over == "mean":
        reason = "the interval has both signs"
    return dataclasses.replace(verdict, word=INCONCLUSIVE, reason=reason, p=p)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Both sides of a claim on one task.

    Attributes:
        sides: runs of the first and, where there is one, of the second.
        groups: the settings by which each side was chosen.
        values: of each side, the measure of each run; see `measures`.
        at: of a time, in epochs of the last side.
    """

    task: str
    sides: tuple[pd.DataFrame, ...]
    groups: tuple[Group, ...]
    values: tuple[measures.Values, ...]
    at: float = 0.0

    @property
    def fewest(self) -> int:
        """Known values of the side that has fewer."""
        return min(
            sum(value is not None for value in values) for values in self.values
        )


TaskRuns = tuple[pd.DataFrame, list[Repeats]]


def split_tasks(runs: pd.DataFrame, paper: Paper) -> dict[str, TaskRuns]:
    """A study's runs by task, with their `list_repeats`.

    Where a task was run on several files, those that count.
    """
    tasks = {}
    for task, members in runs.groupby("task"):
        if members.data_identity.nunique() > 1:
            members = _choose_files(members, paper.sizes.get(str(task)))
        tasks[str(task)] = members, list_repeats(members)
    return tasks


def judge_claim(
    tasks: Mapping[str, TaskRuns], paper: Paper, claim: Claim
) -> Verdict | None:
    """What the runs of a study say of a claim; None if they are not for it.

    The word is not yet corrected for other claims.

    Args:
        tasks: see `split_tasks`.
        paper: whose claim it is.
        claim: what is judged.
    """
    models = {r.model for _, repeats in tasks.values() for r in repeats}
    if claim.encoder and claim.encoder not in models:
        # Another of the paper's encoders; on one that it does not have, what
        # it says of its first one is told.
        if models & {*paper.encoders}:
            return None
        if claim.encoder != paper.encoders[0]:
            return None
    read = _choose_reading(tasks, paper, claim)
    comparisons = read.complete or read.incomplete
    fewest = min((c.fewest for c in read.complete), default=0)
    on = tuple({c.task: None for c in read.complete})
    verdict = Verdict(
        claim,
        "",
        INCONCLUSIVE,
        "",
        runs=fewest,
        reading=describe(read.reading),
        tasks=on if len(on) < len(claim.tasks) else (),
        problem=read.problem,
        compared=bool(comparisons),
    )
    if fewest > 1:
        verdict = _test(claim, read.complete, verdict)
        if claim.beside:
            verdict = _tell_beside(claim, read.complete, verdict)
    if problem := read.describe_missing() or read.problem:
        verdict = dataclasses.replace(
            verdict, word=INCONCLUSIVE, reason=problem, outcome=""
        )
    of_sides = [
        difference
        for comparison in comparisons
        for side, group in zip(comparison.sides, comparison.groups)
        for difference in list_differences(side, paper, group, claim.encoder)
    ]
    incomparable = _find_incomparable(claim, comparisons)
    differences = [*dict.fromkeys([*incomparable, *of_sides])]
    if differences:
        reason = "; ".join(differences[:3])
        if len(differences) > 3:
            reason += f"; and {len(differences) - 3} more"
        verdict = dataclasses.replace(
            verdict, word=NOT_COMPARABLE, reason=reason, outcome=""
        )
    return verdict


@dataclasses.dataclass(frozen=True)
class Read:
    """A claim's comparisons in one of its readings.

    Attributes:
        reading: see `Claim.readings`; empty of the claim's own words.
        complete: on tasks that have runs for all that the claim compares there.
        incomplete: on the others that have some; they count for nothing.
        missing: what has no runs, in words.
        problem: what else keeps `complete` from telling anything, or an empty
            string.
    """

    reading: Group
    complete: list[Comparison]
    incomplete: list[Comparison]
    missing: list[str]
    problem: str

    def describe_missing(self) -> str:
        """What has no runs, a clause, or an empty string."""
        if not self.missing:
            return ""
        first, *others = self.missing
        return f"{first}, and {len(others)} more" if others else first


def _choose_reading(
    tasks: Mapping[str, TaskRuns], paper: Paper, claim: Claim
) -> Read:
    """The first reading of a claim whose runs suffice, else with the most.

    It looks at what was run, never at scores, so that no reading is chosen for
    what comes out of it.
    """
    candidates: list[Read] = []
    for reading in ({}, *claim.readings):
        read = _compare(tasks, paper, claim, reading)
        if not read.missing and not read.problem:
            return read
        candidates.append(read)
    return max(
        candidates, key=lambda read: (len(read.complete), len(read.incomplete))
    )


def _compare(
    tasks: Mapping[str, TaskRuns],
    paper: Paper,
    claim: Claim,
    reading: Group,
) -> Read:
    complete: list[Comparison] = []
    incomplete: list[Comparison] = []
    missing: list[str] = []
    for task in claim.tasks:
        if task not in tasks:
            missing.append(f"no runs on {task}")
            continue
        runs, repeats = tasks[task]
        found: list[Comparison] = []
        lacks: list[str] = []
        for pair in _pairs(claim):
            wanted = tuple(
                _read(group, reading)
                for group in (
                    {**claim.both, **g} for g in pair if g is not None
                )
            )
            try:
                chosen = choose_sides(repeats, paper, wanted)
            except NotFound as error:
                lacks.append(f"{error} on {task}")
                continue
            sides = tuple(take_rows(runs, side) for side in chosen)
            for at in claim.at or (0.0,):
                values = measures.measure_sides(claim.measure, sides, at)
                found.append(Comparison(task, sides, wanted, values, at))
        (incomplete if lacks else complete).extend(found)
        missing += lacks
    problem = _find_problem(claim, complete)
    if not complete:
        problem = missing[0]
    return Read(reading, complete, incomplete, missing, problem)


def _read(group: Group, reading: Group) -> Group:
    """Settings of a side in a reading; what freezes anything has none."""
    is_full = group.get("trainable_layers") == "all"
    return {**group, **reading} if is_full else group


def _pairs(claim: Claim) -> Iterable[tuple[Group | None, ...]]:
    """The groups that are compared; see `Claim`."""
    if claim.paired:
        return zip(claim.first, claim.second, strict=True)
    return itertools.product(claim.first, claim.second or (None,))


def _choose_files(
    runs: pd.DataFrame, official: dict[str, int] | None
) -> pd.DataFrame:
    """The runs on a task's official files, else on those of most runs.

    Runs in folds have an identity of their own; those with as many texts stay.
    """
    folded = runs.record.map(lambda record: bool(record["folds"]))
    whole = runs if folded.all() else runs[~folded]
    chosen = max(
        (members for _, members in whole.groupby("data_identity")),
        key=lambda members: (
            not unlike_sizes(members.sizes, official),
            len(members),
        ),
    )
    tested = chosen.sizes.iloc[0].get("test", 0)
    alike = runs.sizes.map(
        lambda sizes: abs(sizes.get("test", 0) - tested) <= SIZES_ALIKE * tested
    )
    return runs[runs.index.isin(chosen.index) | (folded & alike)]


def _find_problem(claim: Claim, comparisons: Sequence[Comparison]) -> str:
    """Why nothing can be told of what was run, or an empty string."""
    if {*measures.UNTIL_STOP} & {*claim.measure}:
        for comparison in comparisons:
            if any(map(_is_cut_off, comparison.sides)):
                return (
                    "the limit of epochs cut off the time to the stopping "
                    f"point on {comparison.task}"
                )
    for comparison in comparisons:
        for name, values in zip(claim.measure, comparison.values):
            if len(values) > FEWEST_SEEDS and None in values:
                return (
                    f"{measures.describe(name)} is not known of all runs on "
                    f"{comparison.task}"
                )
    least = min(comparisons, key=lambda c: c.fewest, default=None)
    if least is not None and least.fewest < FEWEST_SEEDS:
        runs = "1 run" if least.fewest == 1 else f"{least.fewest} runs"
        were = ""
        if {*measures.TIMES} & {*claim.measure} and all(
            len(side) >= FEWEST_SEEDS for side in least.sides
        ):
            were = " timed in an environment that both share"
        return (
            f"{runs} on a side on {least.task}{were}; {FEWEST_SEEDS} are needed"
        )
    return ""


def _is_cut_off(side: pd.DataFrame) -> bool:
    """Whether a run that stops by itself was ended by `--max_epochs`."""
    return any(
        settings.get("patience") and reason == "max_epochs"
        for settings, reason in zip(side.settings, side.stop_reason)
    )


def _find_incomparable(
    claim: Claim, comparisons: Sequence[Comparison]
) -> Iterator[str]:
    """Why a comparison is none, apart from settings: collapse, known data."""
    for comparison in comparisons:
        for name, side in zip(("first", "second"), comparison.sides):
            if name not in claim.may_fail and did_not_train(side):
                yield (
                    f"{side.approach.iloc[0]} at {side.lr.iloc[0]:g} did not "
                    f"train on {comparison.task}"
                )
    seen = {
        (model, task)
        for comparison in comparisons
        for side in comparison.sides
        for model in set(side.model)
        for task in claim.uses or (comparison.task,)
        if _has_seen(model, task, side)
    }
    for model, task in sorted(seen):
        yield f"{model} has seen {task} before"


def _has_seen(model: str, task: str, side: pd.DataFrame) -> bool:
    """Whether an encoder knows a task's data; `pairs` may be of MRPC's."""
    if task == "pairs" and side.data_identity.str.startswith("MRPC").all():
        return False
    return task in SEEN.get(model, ())


def did_not_train(side: pd.DataFrame) -> bool:
    """Whether half of the runs or more score as the majority baseline does."""
    score, majority = side.score.to_numpy(), side.majority.to_numpy()
    failed = (score <= majority + 1e-9) | side.one_answer.to_numpy(bool)
    return bool(failed.mean() >= 0.5)


# === Tests ===


def _test(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """The verdict with value, interval, p and what it would conclude."""
    if claim.kind == "spread":
        return _test_spread(claim, comparisons, verdict)
    if claim.kind == "maximum":
        return _test_maximum(claim, comparisons, verdict)
    if claim.kind == "trend" and len(comparisons) < FEWEST_POINTS:
        return verdict  # a line goes through any two points
    joined = _join_times(comparisons)
    if not all(_is_known(claim, comparison) for comparison in joined):
        return verdict
    groups = estimates.Groups()
    values = [_value(claim, comparison, groups) for comparison in comparisons]
    if claim.kind == "trend":
        if len({*map(_train_size, comparisons)}) < 2:
            return (
                verdict
                if verdict.reason
                else dataclasses.replace(
                    verdict, reason="all training sets have one size"
                )
            )
        value = _slope(comparisons, values)
    else:
        means = [_value(claim, comparison, groups) for comparison in joined]
        value = sum(means) / len(means)
    estimate = groups.estimate(value)
    low, high = estimate.interval()
    verdict = dataclasses.replace(
        verdict, value=estimate.value, low=float(low), high=float(high)
    )
    if not estimate.error:
        return dataclasses.replace(
            verdict, reason="all seeds score the same", outcome=""
        )
    if claim.over == "mean" or claim.kind == "trend":
        return _conclude_on_mean(claim, estimate, verdict)
    parts = [groups.estimate(value) for value in values]
    return _conclude_on_parts(claim, comparisons, parts, verdict)


def _join_times(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Those at several times of the same runs as one, of each run's mean.

    A run's scores at several times share its luck.
    """
    by_runs: dict[Any, list[Comparison]] = {}
    for comparison in comparisons:
        names = tuple(tuple(side.path) for side in comparison.sides)
        by_runs.setdefault((comparison.task, names), []).append(comparison)
    return [
        dataclasses.replace(
            several[0],
            values=tuple(
                [
                    None if None in of_run else float(np.mean(of_run))
                    for of_run in zip(*of_side)
                ]
                for of_side in zip(*(c.values for c in several))
            ),
        )
        if len(several) > 1
        else several[0]
        for several in by_runs.values()
    ]


def _is_known(claim: Claim, comparison: Comparison) -> bool:
    """Whether there are two values of each side, and no share of nothing."""
    means = [
        float(np.mean([v for v in values if v is not None]))
        for values in comparison.values
        if sum(v is not None for v in values) > 1
    ]
    return len(means) == len(comparison.sides) and not (
        claim.relative and not means[-1]
    )


def _value(
    claim: Claim, comparison: Comparison, groups: estimates.Groups
) -> Any:
    """What a claim is about on one task, from means of groups."""
    means = []
    for measure, side, values in zip(
        claim.measure, comparison.sides, comparison.values
    ):
        known = [value for value in values if value is not None]
        # Of a side's times, which ones count depends on the other side.
        name = (measure, comparison.at, *sorted(side.path), *known)
        means.append(groups.mean(name, known))
    return _difference(claim, means)


def _difference(claim: Claim, means: Sequence[Any]) -> Any:
    """What a claim is about, of one or two means."""
    if len(means) == 1:
        return means[0]
    first, second = means
    if claim.relative:
        return 100 * (first / second - 1)
    return first - claim.factor * second


def _slope(comparisons: Sequence[Comparison], values: Sequence[Any]) -> Any:
    """Of the values, per tenfold training set; least squares."""
    sizes = np.log10([*map(_train_size, comparisons)])
    centred = sizes - sizes.mean()
    return sum(
        x / float((centred**2).sum()) * value
        for x, value in zip(centred, values)
    )


def _train_size(comparison: Comparison) -> int:
    sizes = comparison.sides[0].sizes.iloc[0]
    return size_of(sizes, "train_and_validation")


def _conclude_on_mean(
    claim: Claim, estimate: estimates.Estimate, verdict: Verdict
) -> Verdict:
    low, high = verdict.low, verdict.high
    if claim.kind == "equal":
        within = estimate.p_within(claim.margin)
        outside = estimate.p_outside(claim.margin)
        p, outcome = min((within, AGREES), (outside, CONTRADICTS))
        reason = f"within {claim.margin:g} {claim.unit}"
        if outcome == CONTRADICTS:
            reason = f"not within {claim.margin:g} {claim.unit}"
        return dataclasses.replace(verdict, p=p, outcome=outcome, reason=reason)
    direction = claim.direction
    p = min(1.0, 2 * min(estimate.p_above(), estimate.p_below()))
    has_sign = np.sign(estimate.value) == direction
    outcome = AGREES if has_sign else CONTRADICTS
    reason = "the same sign" if has_sign else "the other sign"
    size = claim.published * direction  # positive; 0 where it is not known
    if size and has_sign:
        reason = "sign and size"
        if not _is_of_size((low, high), claim.published):
            smaller = max(low * direction, high * direction) < size / 2
            outcome = IN_SIGN
            reason = (
                f"but {'less than half' if smaller else 'more than twice'} as "
                "large as published"
            )
    half = estimates.Estimate(
        estimate.value * direction - size / 2, estimate.error, estimate.freedom
    )
    if size and p > ALPHA and half.p_below() <= ALPHA / 2:
        # Both signs, but nothing near the published size.
        return dataclasses.replace(
            verdict,
            p=2 * half.p_below(),
            outcome=CONTRADICTS,
            reason="any difference is below half of the published one",
        )
    return dataclasses.replace(verdict, p=p, outcome=outcome, reason=reason)


def _conclude_on_parts(
    claim: Claim,
    comparisons: Sequence[Comparison],
    parts: Sequence[estimates.Estimate],
    verdict: Verdict,
) -> Verdict:
    """Of each, most or some of several comparisons; told which do not agree."""
    count = len(parts)
    needed = {"each": count, "most": count // 2 + 1, "some": 1}[claim.over]
    refuted = count - needed + 1  # so many on the other side refute it
    if claim.kind == "equal":
        right = [part.p_within(claim.margin) for part in parts]
        wrong = [part.p_outside(claim.margin) for part in parts]
    else:
        right = [_p_of_sign(part, claim.direction) for part in parts]
        wrong = [_p_of_sign(part, -claim.direction) for part in parts]
    p, outcome = min(
        (estimates.partial_conjunction(right, needed), AGREES),
        (estimates.partial_conjunction(wrong, refuted), CONTRADICTS),
    )
    names = [_name_part(claim, comparison) for comparison in comparisons]
    yes = sum(q <= ALPHA for q in right)
    against = [name for name, q in zip(names, wrong) if q <= ALPHA]
    others = [name for name, *ps in zip(names, right, wrong) if min(ps) > ALPHA]
    reason = f"{yes} of {count} significantly so, {len(against)} the other way"
    if against:
        reason += f" ({_list_some(against)})"
    if others:
        reason += f", open {_list_some(others)}"
    shown = reason
    if outcome == AGREES and claim.published and claim.kind == "difference":
        unlike = [
            name
            for name, part in zip(names, parts)
            if not _is_of_size(part.interval(), claim.published)
        ]
        if len(unlike) > count - needed:
            outcome = IN_SIGN
            reason = f"but not of the published size: {_list_some(unlike)}"
    return dataclasses.replace(
        verdict, p=p, outcome=outcome, reason=reason, parts=shown
    )


def _list_some(names: Sequence[str], most: int = 4) -> str:
    """The first few of some names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _is_of_size(interval: tuple[float, float], published: float) -> bool:
    """Whether an interval overlaps half to twice of a published value."""
    sign = math.copysign(1.0, published)
    near, far = sorted(sign * end for end in interval)
    return far >= abs(published) / 2 and near <= 2 * abs(published)


def _p_of_sign(part: estimates.Estimate, sign: int) -> float:
    """Two-sided p-value where the sign is this one, else 1."""
    p = part.p_above() if sign > 0 else part.p_below()
    return min(1.0, 2 * p)


def _name_part(claim: Claim, comparison: Comparison) -> str:
    """`last_4 on rte at 1.1`, of which what all parts share is left out."""
    name = comparison.task
    if len(claim.first) > 1:
        name = f"{comparison.sides[0].approach.iloc[0]} on {name}"
    if len(claim.at) > 1:
        name += f" at {comparison.at:g} epochs"
    if len(claim.second) > 1 and not claim.paired:
        group = comparison.groups[1].items()
        other = {n: v for n, v in group if n not in claim.both}
        name += f" against {describe(other)}"
    return name


def _tell_beside(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """The verdict with the value by the claim's other measure."""
    others = [
        dataclasses.replace(
            comparison,
            values=measures.measure_sides(
                (claim.beside,) * len(comparison.sides),
                comparison.sides,
                comparison.at,
            ),
        )
        for comparison in comparisons
    ]
    if not all(_is_known(claim, other) for other in others):
        return verdict
    groups = estimates.Groups()
    value = sum(_value(claim, other, groups) for other in others) / len(others)
    return dataclasses.replace(verdict, beside=groups.estimate(value).value)


def _test_spread(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    value, low, high = estimates.spread_interval(
        [v for v in values if v is not None]
        for comparison in comparisons
        for values in comparison.values
    )
    verdict = dataclasses.replace(verdict, value=value, low=low, high=high)
    if high <= claim.margin:
        return dataclasses.replace(
            verdict,
            word=AGREES,
            reason=f"at most {claim.margin:g} {claim.unit}",
        )
    if low > claim.margin:
        return dataclasses.replace(
            verdict,
            word=CONTRADICTS,
            reason=f"more than {claim.margin:g} {claim.unit}",
        )
    return dataclasses.replace(
        verdict, reason=f"the interval has {claim.margin:g} in it"
    )


def _test_maximum(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """Of one comparison; there is no interval of a difference of maxima."""
    [comparison] = comparisons
    first, second = (
        np.array([v for v in values if v is not None])
        for values in comparison.values
    )
    value = float(first.max() - second.max())
    has_sign = np.sign(value) == claim.direction
    return dataclasses.replace(
        verdict,
        value=value,
        p=estimates.p_of_maxima(first, second),
        outcome=AGREES if has_sign else CONTRADICTS,
        reason="the same sign" if has_sign else "the other sign",
    )


def count_words(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many verdicts have each word, those with none left out."""
    counts = pd.Series([v.word for v in verdicts]).value_counts()
    return {word: int(counts[word]) for word in WORDS if word in counts}
