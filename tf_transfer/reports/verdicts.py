"""The verdict on each claim, when the tests of all claims are known.

It is one of four words, and a reason:

- *agrees*, *contradicts*: what the runs show, at the paper's own settings, data
  and encoder. A difference must be significant at 5 % after Holm's correction
  over the paper's claims; "no difference" needs two one-sided tests within the
  margin. Where the paper gives the size of a difference, the reason says
  whether the 95 % interval lies within half to twice of it, or only the sign
  agrees. It *contradicts* if the sign is open and half of the size is excluded.
- *inconclusive*: nothing is shown, or something is missing: three seeds, a
  task, a time that the limit of epochs did not cut off. Of a mean, the reason
  says about how many seeds would decide.
- *not comparable*: something outside the claim is not the paper's, the encoder
  has seen the data before, or a group is not shown to be above the majority
  baseline. The same statistics describe this encoder and data, corrected
  over all such claims that runs of the encoder judge in a report.
"""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence

from tf_transfer.comparison import estimates
from tf_transfer.comparison.estimates import Estimate
from tf_transfer.reports import run_groups
from tf_transfer.reports.claims import Claim
from tf_transfer.reports.contrast import describe_size, region, show, Test
from tf_transfer.reports.run_groups import FAILED
from tf_transfer.utils import formatting

AGREES, CONTRADICTS = "agrees", "contradicts"
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
WORDS = (AGREES, CONTRADICTS, INCONCLUSIVE, NOT_COMPARABLE)

# What runs show of a claim, comparable with the paper's or not.
AS_CLAIMED, OPPOSITE, UNCLEAR = "as claimed", "the opposite", "unclear"
NO_RESULT = "no result"
OUTCOMES = {
    AGREES: AS_CLAIMED,
    CONTRADICTS: OPPOSITE,
    INCONCLUSIVE: UNCLEAR,
}

ALPHA = 1 - estimates.LEVEL


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of judging a claim by some runs.

    Attributes:
        claim: What was judged.
        study: Of the runs; empty where no comparison has runs.
        word: One of `WORDS`.
        reason: A clause.
        runs, tasks: See `Test`.
        value, low, high: Ours, with its 95 % interval; nan where not known.
        errors: Standard errors of the value by source, see `estimates`.
        p: After Holm's correction; nan where nothing was tested.
        outcome: One of `OUTCOMES`, or `NO_RESULT`.
        detail: Behind the outcome: how large the difference is beside the
            published one, how many of several comparisons are as claimed, or
            why there is none.
        local: Of what is not comparable, its outcome in words of its own.
        encoder: See `Test`.
    """

    claim: Claim
    study: str
    word: str
    reason: str
    runs: int = 0
    tasks: tuple[str, ...] = ()
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    errors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    p: float = math.nan
    outcome: str = NO_RESULT
    detail: str = ""
    local: str = ""
    encoder: str = ""


def conclude(tests: Sequence[Test]) -> list[Verdict]:
    """The verdicts of tests, in their order.

    Holm's correction is over all tests of a paper; over those of an encoder in
    a report, where they are not comparable. Readings that are judged first are
    one family, other readings another.
    """
    decided = [t for t in tests if t.findings and not t.problem]
    factors: dict[Hashable, float] = {}
    for members in run_groups.group_by(decided, lambda t: t.family).values():
        # Baselines that stand in several studies are judged once.
        p_values = {(test.claim.id, test.p): test.p for test in members}
        adjusted = estimates.adjust_for_many([*p_values.values()])
        by_key = dict(zip(p_values, adjusted))
        for test in members:
            ratio = by_key[test.claim.id, test.p] / test.p if test.p else 1.0
            factors[id(test)] = ratio
    return [_conclude(test, factors.get(id(test))) for test in tests]


def _conclude(test: Test, factor: float | None) -> Verdict:
    """The verdict of a test.

    Args:
        test: Of a claim.
        factor: Of Holm's correction; None where nothing can be concluded.
    """
    word, reason, p, local = INCONCLUSIVE, test.problem, math.nan, ""
    outcome, detail = NO_RESULT, test.problem
    if factor is not None:
        p = min(1.0, factor * test.p)
        word, reason = _choose_word(test, factor)
        outcome = OUTCOMES[word]
        detail = _describe_outcome(test, outcome, reason)
    if any(FAILED in clause for clause in test.differences[:3]):
        outcome, detail = NO_RESULT, f"a group is {FAILED}"
    if test.differences:
        local = _describe_locally(test, outcome, detail)
        word = NOT_COMPARABLE
        reason = formatting.list_first(test.differences, most=3)
    low, high = (show(test.claim, end) for end in test.mean.interval())
    return Verdict(
        test.claim,
        test.study,
        word,
        reason,
        test.runs,
        test.tasks,
        show(test.claim, test.mean.value),
        low,
        high,
        test.mean.parts,
        p,
        outcome,
        detail,
        local,
        test.encoder,
    )


def _choose_word(test: Test, factor: float) -> tuple[str, str]:
    """(word, reason) after multiplying p-values by Holm's factor."""
    for finding in test.findings:
        if factor * finding.p <= ALPHA:
            word = AGREES if finding.agrees else CONTRADICTS
            return word, finding.reason
    reason = "nothing is shown"
    if test.p <= ALPHA:
        reason = "not significant after Holm's correction"
    needed = ""
    if test.claim.over == "mean":
        bounds = region(test.claim)
        room = min(abs(test.mean.value - bound) for bound in bounds)
        alpha = ALPHA / max(factor, 1.0)
        needed = describe_needed_seeds(test.mean, room, test.runs, alpha)
    return INCONCLUSIVE, "; ".join(filter(None, [reason, test.tally, needed]))


def _describe_outcome(test: Test, outcome: str, reason: str) -> str:
    """What stands behind an outcome, a clause; see `Verdict`."""
    if outcome == UNCLEAR or test.claim.over != "mean":
        return reason
    if outcome == AS_CLAIMED:
        return describe_size(test.claim, test.mean)
    return ""


def _describe_locally(test: Test, outcome: str, detail: str) -> str:
    """The outcome of runs that are not comparable, in other words."""
    if outcome in (NO_RESULT, UNCLEAR):
        return f"{outcome}: {detail}"
    if test.claim.over != "mean":
        is_so = "shown" if outcome == AS_CLAIMED else "the opposite is shown"
        return f"{is_so}: {detail}"
    if test.claim.kind == "equal" and outcome == AS_CLAIMED:
        return "no difference beyond the margin"
    word = "higher" if test.mean.value > 0 else "lower"
    return "; ".join(filter(None, (word, detail)))


def describe_needed_seeds(
    estimate: Estimate, room: float, runs: int, alpha: float = ALPHA
) -> str:
    """About how many seeds would decide a claim, a clause.

    Args:
        estimate: What decides it.
        room: How far its interval may reach to decide.
        runs: That the estimate is from.
        alpha: Of the test that decides, after Holm's correction.
    """
    if not estimate.error:
        return ""
    seeds = estimate.seeds_needed(room, runs, 1 - alpha)
    if seeds is None:
        return f"{estimates.REALISTIC} seeds would not decide it"
    return f"about {seeds} seeds would decide"
