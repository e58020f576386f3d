"""What to train: one table and one sentence, for train, search and report.

A row is an approach, compared on the same texts with a reference: in a report
training everything, at the end of a run or a search the strongest. One rule
says what to train: the cheapest approach whose loss against the reference is
shown to be below a margin, else the reference. Nothing is recommended that is
not likely to be above the majority baseline, or if a score is below chance.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tf_transfer.reports import estimates, run_groups as groups_lib
from tf_transfer.reports.contrast import FEWEST_SEEDS
from tf_transfer.reports.estimates import Ranged, UNKNOWN
from tf_transfer.reports.verdicts import describe_needed
from tf_transfer.utils import formatting
from tf_transfer.utils.formatting import count

MARGIN = 1.0  # points that a cheaper approach may lose
ALPHA = 1 - estimates.LEVEL
YES, NO, OPEN = "yes", "no", "open"
EVERYTHING = "everything"
PROBE, TFIDF = "the probe", "the TF-IDF baseline"
MOST_FREQUENT_TAG = "the most frequent tag"
TIME, PER_EPOCH = "time", "time per epoch"  # with and without a cache's build
COST = "time, s"
CAUSES = (
    "labels that are reversed in a file, or a text (one of a pair is enough) "
    "that training and scored rows share with different labels"
)
NAMES = {
    "last_0": "the head alone",
    "head": "the output layer alone",
    "tfidf": TFIDF,
}


# === The table and the sentence ===


@dataclasses.dataclass(frozen=True)
class Row:
    """What an approach scores, loses and costs.

    Attributes:
        name: in words, such as `last 2`.
        task: its name; of a mean over several, the number of them.
        validation, test: scores in points.
        difference: its score minus the reference's, in points; unknown of the
            reference, and where the two are not compared.
        time: percent of the reference's.
        time_of: which time, `TIME` or `PER_EPOCH`.
        weights: trained parameters, percent of the reference's.
        seeds: that it stands on; 0 of what has no seed.
        scored: number and kind of the scored texts, such as `277 test texts`.
        is_reference: whether others are compared with it.
        is_baseline: whether nothing of an encoder trains.
        seconds: that it took, with the build of its feature cache.
        is_cached: whether it read the output of frozen blocks from one.
        lead: its score minus that of the majority baseline, in points.
        gains: its score minus that of each baseline, in points, by its name.
        below_chance: its score and the texts, if that is below chance.
        note: why it is not compared, or "".
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

    def move(self, points: float) -> "Row":
        """The row with another score: its lead and its gains move with it."""
        gains = {name: gain.add(points) for name, gain in self.gains.items()}
        return dataclasses.replace(
            self, lead=self.lead.add(points), gains=gains
        )

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
        rows: on the same texts.
        margin: the largest accepted loss, in points.
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
        rows: on the same texts, the reference among them.
        margin: the largest accepted loss, in points.

    Returns:
        The reference, if no cheaper row is shown to lose less. See `warn` for
        whether it can be recommended.
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


def warn(rows: Sequence[Row]) -> str:
    """Why no row can be recommended, a sentence; "" if one can.

    Args:
        rows: on the same texts; one is enough.
    """
    for row in rows:
        if row.below_chance:
            return (
                f"Check the data: {row.name} is below chance, "
                f"{row.below_chance}. Likely causes: {CAUSES}."
            )
    if any(row.is_likely for row in rows):
        return ""
    best = max(rows, key=lambda row: row.lead.value)
    return (
        "Nothing is recommended: no approach is likely to be above the "
        f"majority baseline. The best, {best.name}, is "
        f"{best.lead.show(1, '+')} above it ({best.scored})."
    )


def find_floor(advised: Row, rows: Sequence[Row]) -> Row | None:
    """The baseline that a row's gain is reported over.

    It is the cheapest over which no gain is shown, else the strongest. A
    baseline is held against cheaper ones alone.

    Args:
        advised: the row.
        rows: all rows on the same texts.
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


def advise(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """What to train, what that gains, loses and costs, and how sure it is.

    Args:
        rows: of any number of tasks, means over them included.
        margin: the largest accepted loss, in points.
    """
    rows = take_headline(rows)
    if not rows:
        return "No two approaches are compared on the same texts."
    if warning := warn(rows):
        return warning
    advised = choose(rows, margin)
    [reference, *_] = [row for row in rows if row.is_reference]
    use = f"{'Use' if advised.is_baseline else 'Train'} {advised.name}"
    floor, gain, loss = find_floor(advised, rows), "", ""
    if not advised.is_reference:
        loss = f"it {_describe(advised, reference)}"
    if floor is not None:
        over = f"{floor.name}, which costs {_describe_cost(floor)}"
        ranged = advised.gains[floor.name]
        gain = ranged.show(1, "+")
        sure = _describe_certainty(advised, floor)
        cost = _describe_cost(advised)
        if not ranged.low > 0:
            return (
                f"No gain shown over {over}; {advised.name} is {gain} and "
                f"costs {cost}{sure}. Best guess: {advised.name}."
            )
        gain = f"{gain} over {over}; {advised.name} costs {cost}{sure}"
    if gain or loss:
        return f"{use}: {'; '.join(filter(None, [gain, loss]))}."
    others = [row for row in rows if row.difference.is_known]
    cheaper = [row for row in others if row.cost[0] < 100]
    why = "nothing cheaper was run"
    if cheaper:
        least = f"less than {describe_points(margin)}" if margin else "nothing"
        why = f"nothing cheaper is shown to lose {least}"
    elif advised.is_baseline:
        why = "nothing is shown to score more"
    best = max(cheaper or others, key=lambda row: row.difference.value)
    text = f"{use}: {why}; {best.name} {_describe(best, reference)}"
    if margin and judge_losses([best], margin) == [OPEN]:
        needed = _describe_needed(best, margin)
        text += f"; {needed}" if needed else ""
    return f"{text}."


def explain_table(margin: float) -> str:
    """How to read the table, a sentence.

    Args:
        margin: see `advise`.
    """
    times = (
        f"`{COST}`: from the start of training to its end, with the build of "
        "the feature cache. Times are compared where they were measured alike"
    )
    if not margin:
        return times
    return (
        f"Whether it loses less than {describe_points(margin)}: {YES} and {NO} "
        "are shown at 5 % (Holm), and of what is open it says how many seeds "
        f"would decide. {times}"
    )


def describe_points(margin: float) -> str:
    """`1 point`, `0.5 points`."""
    return "1 point" if margin == 1 else f"{margin:g} points"


def _describe(row: Row, reference: Row) -> str:
    """The clause on a row: its loss, its cost, and how sure that is."""
    value = row.difference.value
    other = reference.name
    if not reference.is_baseline:
        other = f"training {other}"
    text = f"scores {abs(value):.1f} points "
    text += f"{'more' if value > 0 else 'less'} than {other}"
    if row.difference.has_interval:
        _, interval = row.difference.show(1, "+").split(" ", 1)
        text += f" {interval}"
    if row.seconds * 2 < reference.seconds:
        text += (
            f" and costs {_describe_cost(row)}, "
            f"{reference.seconds / row.seconds:.0f} times less than "
            f"{_describe_cost(reference)}"
        )
    elif reference.is_baseline and not math.isnan(row.seconds):
        text += f" and costs {_describe_cost(row)}"
    elif row.time.is_known:
        text += f", in {row.time.value:.0f} % of its {row.time_of}"
        if row.is_cached and row.seconds * 2 >= reference.seconds:  # both known
            cost, whole = _describe_cost(row), _describe_cost(reference)
            text += f": {cost} against {whole} in all"
    return text + _describe_certainty(row, reference)


def _describe_certainty(row: Row, other: Row) -> str:
    """What a difference stands on, in brackets."""
    seeds = [n for n in (row.seeds, other.seeds) if n]
    how_sure = [row.task, row.scored]
    if seeds:
        how_sure.insert(1, count(min(seeds), "seed"))
    text = ", ".join(filter(None, how_sure))
    if seeds and min(seeds) < FEWEST_SEEDS:
        text += ": not sure"
    return f" ({text})"


def _describe_cost(row: Row) -> str:
    """The seconds of a row, such as `34 s`."""
    text = _show_seconds(row)
    return f"{text} with the cache's build" if row.is_cached else text


def _show_seconds(row: Row) -> str:
    return "" if math.isnan(row.seconds) else f"{max(1.0, row.seconds):.0f} s"


def make_table(
    rows: Sequence[Row], margin: float = MARGIN
) -> list[dict[str, str]]:
    """The cells of each row, by the title of their column.

    Columns that are empty in all rows are left out.

    Args:
        rows: see `advise`.
        margin: the largest accepted loss, in points.
    """
    references = {row.name: row for row in rows if row.is_reference}
    other, has_percents = EVERYTHING, True
    if len(references) == 1:
        [(other, reference)] = references.items()
        has_percents = not reference.is_baseline  # which takes next to nothing
    title = f"loses < {describe_points(margin)}"
    minus = f"minus {other}"
    if any(row.scored.endswith("validation texts") for row in rows):
        minus = f"validation, {minus}"
    lines = []
    for members in groups_lib.group_by(rows, lambda row: row.task).values():
        for row, word in zip(members, judge_losses(members, margin)):
            if word == OPEN:
                needed = _describe_needed(row, margin)
                needed = needed.removesuffix(" would decide")
                word = "; ".join(filter(None, [OPEN, needed]))
            line = {
                "task": row.task,
                "approach": row.name,
                "validation": row.validation.show(1),
                "test": row.test.show(1),
                COST: _show_seconds(row).removesuffix(" s"),
                minus: row.note or row.difference.show(1, "+"),
                title: word if margin else "",
                f"{TIME}, %": "",
                f"{PER_EPOCH}, %": "",
                "seeds": str(row.seeds or ""),
            }
            if has_percents:
                line[f"{row.time_of}, %"] = row.time.show(0)
            lines.append(line)
    titles = dict.fromkeys(title for line in lines for title in line)
    shown = [t for t in titles if any(line[t] for line in lines)]
    if len({row.task for row in rows}) == 1 and "task" in shown:
        shown.remove("task")
    return [{title: line[title] for title in shown} for line in lines]


def align(table: Sequence[Mapping[str, str]]) -> str:
    """The table as a screen shows it; see `make_table`."""
    lines = [[*line.values()] for line in table]
    return formatting.aligned([[*table[0]], *lines])


def _describe_needed(row: Row, margin: float) -> str:
    """About how many seeds would decide whether a loss is below a margin."""
    loss = row.difference
    if loss.estimate is None:
        return f"{FEWEST_SEEDS} seeds or more would decide"
    room = abs(loss.value + margin)
    return describe_needed(loss.estimate, room, max(row.seeds, 1))


# === Names ===


def name_approach(approach: str, cached: bool = False) -> str:
    """What is trained, in words: `everything`, `last 2 (cached)`."""
    name = NAMES.get(approach, approach.replace("_", " "))
    for start, words in (("probe", PROBE), ("fine_tuning", EVERYTHING)):
        if approach.startswith(start):
            name = words + approach.removeprefix(start).replace("_", ", ")
    if cached and not name.startswith(PROBE):
        name += " (cached)"
    return name


def name_baseline(features: str, is_tagging: bool) -> str:
    """What to call a baseline that is not fitted yet.

    Args:
        features: `frozen` or `tfidf`.
        is_tagging: whether words are labelled.
    """
    if features == "frozen":
        return PROBE
    return MOST_FREQUENT_TAG if is_tagging else TFIDF
