"""Scenarios for `calibrate_verdicts`: what is true of runs, and is claimed."""

import dataclasses
from typing import Any

from tf_transfer.reports import contrast, verdicts

PUBLISHED = -2.0  # points, where a claim has a size
MARGIN = 1.0  # points, where a claim is of no difference


@dataclasses.dataclass(frozen=True)
class Scenario:
    """The truth about made-up runs, and what is claimed about them.

    Attributes:
        name: In words.
        claim: Keys of `claims.Claim`.
        false: Words that are false; `SIZE` is "agrees" on the size too.
        difference: True mean of the last blocks less that of fine-tuning.
        deviations: Standard deviations over seeds of both groups' scores.
        rates: Number of learning rates tried in each group; the one that is
            best on validation counts.
        correlation: Between a run's scores on validation and test.
        texts: Standard deviation of each group over test texts.
        failing: Share of the seeds that lose 20 points, in both groups.
        tasks: Number of tasks of the claim.
        in_folds: Whether both groups were tested in the same folds.
        drift: Percent by which times change over a task's runs.
        noise: Standard deviation of the times of both groups, in percent.
        apart: Whether the groups were timed one after the other.
        family: Number of claims judged together; a set with any false verdict
            counts as false.
        seeds: Numbers of seeds to try.
    """

    name: str
    claim: dict[str, Any]
    false: tuple[str, ...] = ()
    difference: float = 0.0
    deviations: tuple[float, float] = (1.0, 1.0)
    rates: int = 1
    correlation: float = 0.5
    texts: float = 0.0
    failing: float = 0.0
    tasks: int = 1
    in_folds: bool = False
    drift: float = 0.0
    noise: tuple[float, float] = (1.0, 1.0)
    apart: bool = False
    family: int = 1
    seeds: tuple[int, ...] = (3, 10)


DIFFERENCE = {"published": PUBLISHED}
SIGN = {"sign": -1}
EQUAL = {"kind": "equal", "margin": MARGIN}
SAME_TIME = {
    "kind": "equal",
    "margin": 10.0,
    "measure": ("seconds", "seconds"),
    "relative": True,
}
TIME = {"measure": ("seconds", "seconds"), "relative": True, "sign": -1}
SIZE = contrast.PUBLISHED_SIZE
BOTH = (verdicts.AGREES, verdicts.CONTRADICTS)
AGREE = (verdicts.AGREES,)
AGAINST = (verdicts.CONTRADICTS,)
MORE = (3, 5, 10)
SCENARIOS = (
    Scenario("no difference", SIGN, BOTH, seeds=MORE),
    Scenario(
        "no difference, deviations 1 to 10",
        SIGN,
        BOTH,
        deviations=(1.0, 10.0),
    ),
    Scenario(
        "no difference, a third of all seeds fail", SIGN, BOTH, failing=1 / 3
    ),
    Scenario("no difference, best of 2 rates a group", SIGN, BOTH, rates=2),
    Scenario(
        "no difference, best of 2 rates, validation is the test",
        SIGN,
        BOTH,
        rates=2,
        correlation=1.0,
    ),
    Scenario("no difference, on few test texts", SIGN, BOTH, texts=1.0),
    Scenario("no difference on 4 tasks, mean", SIGN, BOTH, tasks=4),
    Scenario(
        "no difference on 4 tasks, most",
        SIGN | {"over": "most"},
        BOTH,
        tasks=4,
    ),
    Scenario(
        "no difference on 4 tasks, each",
        SIGN | {"over": "each"},
        BOTH,
        tasks=4,
    ),
    Scenario(
        "no difference on 4 tasks, some",
        SIGN | {"over": "some"},
        BOTH,
        tasks=4,
    ),
    Scenario("no difference, 37 claims, any", SIGN, BOTH, family=37),
    Scenario(
        "no difference in the same 10 folds",
        SIGN,
        BOTH,
        in_folds=True,
        seeds=(1,),
    ),
    Scenario("no difference, -2 published", DIFFERENCE, AGREE, seeds=MORE),
    Scenario("half of the published", DIFFERENCE, (SIZE,), PUBLISHED / 2),
    Scenario("twice the published", DIFFERENCE, (SIZE,), 2 * PUBLISHED),
    Scenario("2.5 times the published", DIFFERENCE, (SIZE,), 2.5 * PUBLISHED),
    Scenario("the published, -2", DIFFERENCE, AGAINST, PUBLISHED, seeds=MORE),
    Scenario(
        "the published, spreads 0.5",
        DIFFERENCE,
        AGAINST,
        PUBLISHED,
        (0.5, 0.5),
        seeds=MORE,
    ),
    Scenario(
        "the sign, -2, 37 claims, each",
        SIGN,
        AGAINST,
        PUBLISHED,
        family=37,
        seeds=MORE,
    ),
    Scenario("the other sign", DIFFERENCE, AGREE, -PUBLISHED),
    Scenario("equal claimed, and true", EQUAL, AGAINST),
    Scenario("equal claimed, true, spread 0.3", EQUAL, AGAINST, 0, (0.3, 0.3)),
    Scenario(
        "equal claimed, at the margin, spread 0.3",
        EQUAL,
        AGREE,
        -MARGIN,
        (0.3, 0.3),
    ),
    Scenario("equal claimed, three times it", EQUAL, AGREE, -3 * MARGIN),
    Scenario("times alike, in turn", TIME, BOTH),
    Scenario(
        "times alike, deviations 1 and 10 %", TIME, BOTH, noise=(1.0, 10.0)
    ),
    Scenario(
        "times within 10 % claimed, they are 50 % apart",
        SAME_TIME,
        AGREE,
        -50.0,
    ),
    Scenario("times alike, in turn, drift of 5 %", TIME, BOTH, drift=5.0),
    Scenario(
        "times alike, one group later, drift of 5 %",
        TIME,
        BOTH,
        drift=5.0,
        apart=True,
    ),
    Scenario("a group takes 5 % less, in turn", TIME, AGAINST, -5.0),
)
