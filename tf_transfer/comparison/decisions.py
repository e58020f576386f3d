"""The recommendation: one rule for train, search and report.

A row is an approach, compared on the same texts with a reference: in a report
training everything, at the end of a run or a search the strongest. One rule
says what to train: the cheapest approach whose loss against the reference is
shown to be below a margin, else the reference. Nothing is recommended if no
approach is likely to be above the majority baseline, or if a score is below
chance. `reports.advice` puts a decision into words.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tf_transfer.comparison import estimates
from tf_transfer.comparison.estimates import Ranged, UNKNOWN

MARGIN = 1.0  # points that a cheaper approach may lose
ALPHA = 1 - estimates.LEVEL
YES, NO, OPEN = "yes", "no", "open"
TIME, PER_EPOCH = "time", "time per epoch"  # with and without a cache's build


@dataclasses.dataclass(frozen=True)
class Row:
    """The score, loss and cost of an approach.

    Attributes:
        name: In words, such as `last 2`.
        task: Its name; of a mean over several, the number of them.
        validation, test: Scores in points.
        difference: Its score minus the reference's, in points; unknown of the
            reference, and where the two are not compared.
        time: Percent of the reference's.
        time_of: Which time, `TIME` or `PER_EPOCH`.
        weights: Trained parameters, percent of the reference's.
        seeds: Number of its seeds; 0 if it has none.
        folds: Number of its folds; 0 without cross-validation.
        scored: Number and kind of the scored texts, such as `277 test texts`.
        is_reference: Whether others are compared with it.
        is_baseline: Whether nothing of an encoder trains.
        seconds: That it took, with the build of its feature cache.
        is_cached: Whether it read the output of frozen blocks from one.
        lead: Its score minus that of the majority baseline, in points.
        gains: Its score minus that of each baseline, in points, by its name.
        below_chance: Its score and the texts, if that is below chance.
        note: Why it is not compared, or "".
    """

    name: str
    task: str = ""
    validation: Ranged = UNKNOWN
    test: Ranged = UNKNOWN
    difference: Ranged = UNKNOWN
    time: Ranged = UNKNOWN
    time_of: str = TIME
    weights: float = math.nan
    seeds: int = 1
    folds: int = 0
    scored: str = ""
    is_reference: bool = False
    is_baseline: bool = False
    seconds: float = math.nan
    is_cached: bool = False
    lead: Ranged = UNKNOWN
    gains: Mapping[str, Ranged] = dataclasses.field(default_factory=dict)
    below_chance: str = ""
    note: str = ""

    @property
    def cost(self) -> tuple[float, float, int]:
        """Its time in percent of the reference's; then weights, fewer seeds.

        Without a time it is that of its weights. A baseline that was timed
        elsewhere is the cheapest, as nothing trains.
        """
        cost = self.time.value
        if math.isnan(cost):
            cost = 0.0 if self.is_baseline else self.weights
        return cost, self.weights, -self.seeds

    @property
    def lacks_build(self) -> bool:
        """Whether its `time` leaves out the build of its feature cache."""
        is_per_epoch = self.time.is_known and self.time_of == PER_EPOCH
        return self.is_cached and is_per_epoch

    @property
    def is_likely(self) -> bool:
        """Whether it leads the majority baseline by a standard error.

        A row without a lead, as those of a study, is not judged here.
        """
        error = self.lead.estimate.error if self.lead.estimate else 0.0
        return not self.lead.value <= error


def judge_losses(rows: Sequence[Row], margin: float) -> list[str]:
    """Whether each row's loss is below the margin: `YES`, `NO` or `OPEN`.

    `YES` is after Holm's correction over the rows; it is "" where a row is not
    compared.

    Args:
        rows: On the same texts.
        margin: The largest accepted loss, in points.
    """
    p_values = []
    for row in rows:
        if row.difference.is_known:
            loss, p_value = row.difference.estimate, 1.0
            if loss is not None:
                p_value = loss.p_within(-margin, math.inf)
            p_values.append(p_value)
    adjusted = iter(estimates.adjust_for_many(p_values))
    words = []
    for row in rows:
        word = ""
        if row.difference.is_known:
            word = YES if next(adjusted) <= ALPHA else OPEN
            if row.difference.high < -margin:
                word = NO
        words.append(word)
    return words


def choose(rows: Sequence[Row], margin: float) -> Row:
    """The cheapest row whose loss is shown to be below the margin.

    Args:
        rows: On the same texts, the reference among them.
        margin: The largest accepted loss, in points.

    Returns:
        The reference, if no cheaper row is shown to lose less. See
        `find_problem` for whether it can be recommended.
    """
    words = judge_losses(rows, margin)
    enough = [
        row
        for row, word in zip(rows, words)
        if word == YES and row.cost[0] < 100 and row.is_likely
    ]
    reference = next(row for row in rows if row.is_reference)
    return min(enough, key=lambda row: row.cost, default=reference)


def take_headline(rows: Sequence[Row]) -> list[Row]:
    """The rows of the first task that compares, which may be several's mean."""
    first = next((row.task for row in rows if row.difference.is_known), None)
    return [row for row in rows if row.task == first]


def find_floor(advised: Row, rows: Sequence[Row]) -> Row | None:
    """The baseline that a row's gain is reported over.

    It is the cheapest over which no gain is shown, else the strongest. A
    baseline is held against cheaper ones alone.

    Args:
        advised: The row.
        rows: All rows on the same texts.
    """
    others = [
        row
        for row in rows
        if row.name in advised.gains
        and (row.cost < advised.cost or not advised.is_baseline)
    ]
    unproven = [row for row in others if not advised.gains[row.name].low > 0]
    if unproven:
        return min(unproven, key=lambda row: row.cost)
    return min(
        others, key=lambda row: advised.gains[row.name].value, default=None
    )


@dataclasses.dataclass(frozen=True)
class Decision:
    """A recommendation, and its evidence.

    Attributes:
        margin: The largest accepted loss, in points.
        advised: The row to use; None where nothing is compared, or nothing can
            be recommended.
        reference: The row that the others are compared with.
        floor: The baseline to which `gain` refers; None without one.
        best: Where neither a gain nor a loss of `advised` is known, the row
            that loses least, of the cheaper ones if there are any.
        word: Whether the loss of `best` is below the margin: `YES`, `NO` or
            `OPEN`.
        below_chance: The row whose score is below chance, if one is.
        unlikely: The best of all rows, where none is likely to be above the
            majority baseline.
    """

    margin: float
    advised: Row | None = None
    reference: Row | None = None
    floor: Row | None = None
    best: Row | None = None
    word: str = ""
    below_chance: Row | None = None
    unlikely: Row | None = None

    @property
    def gain(self) -> Ranged:
        """The score of `advised` minus that of `floor`, in points."""
        if self.advised is None or self.floor is None:
            return UNKNOWN
        return self.advised.gains[self.floor.name]

    @property
    def loss(self) -> Ranged:
        """The score of `advised` minus that of `reference`, in points."""
        if self.advised is None or self.advised.is_reference:
            return UNKNOWN
        return self.advised.difference

    @property
    def is_cheaper(self) -> bool:
        """Whether `best` costs less than the reference."""
        return self.best is not None and self.best.cost[0] < 100


def decide(rows: Sequence[Row], margin: float = MARGIN) -> Decision:
    """Recommends a row by the rule of this module.

    Args:
        rows: Of any number of tasks, means over them included. The first task
            that compares decides.
        margin: The largest accepted loss, in points.
    """
    rows = take_headline(rows)
    if not rows:
        return Decision(margin)
    problem = find_problem(rows, margin)
    if problem is not None:
        return problem
    advised = choose(rows, margin)
    reference = next(row for row in rows if row.is_reference)
    floor = find_floor(advised, rows)
    decision = Decision(margin, advised, reference, floor)
    if floor is not None or not advised.is_reference:
        return decision
    others = [row for row in rows if row.difference.is_known]
    cheaper = [row for row in others if row.cost[0] < 100]
    best = max(cheaper or others, key=lambda row: row.difference.value)
    [word] = judge_losses([best], margin)
    return dataclasses.replace(decision, best=best, word=word)


def find_problem(rows: Sequence[Row], margin: float) -> Decision | None:
    """Why no row can be recommended; None if one can.

    Args:
        rows: On the same texts; one is enough.
        margin: See `decide`.
    """
    for row in rows:
        if row.below_chance:
            return Decision(margin, below_chance=row)
    if any(row.is_likely for row in rows):
        return None
    best = max(rows, key=lambda row: row.lead.value)
    return Decision(margin, unlikely=best)
