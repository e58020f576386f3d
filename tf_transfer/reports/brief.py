"""The sentences of a study: what to train, and how sure that is."""

import math
from collections.abc import Sequence

from tf_transfer.reports import (
    contrast,
    estimates,
    groups as groups_lib,
    measures,
    overview,
)
from tf_transfer.reports.contrast import FEWEST_SEEDS
from tf_transfer.reports.overview import Ranged, Row
from tf_transfer.reports.study import Study
from tf_transfer.reports.wording import (
    count,
    join,
    percent,
    ranged,
)

SAMPLE = "sample"  # of `--data`
Approach = tuple[Row, ...]  # the rows of an approach, one per task


def write(study: Study, rows: Sequence[Row]) -> list[str]:
    """The sentences at the top of a study's part of the report."""
    sentences = []
    if set(study.runs.data) == {SAMPLE}:
        sentences.append(
            "These runs are on the hand-written sample: their scores mean "
            "nothing."
        )
    sentences += describe_rows(study, rows)
    return sentences + describe_verdicts(study)


# === The result ===


def describe_rows(study: Study, rows: Sequence[Row]) -> list[str]:
    """What to train instead of everything, if that can be compared."""
    approaches = group_approaches(overview.keep_largest(rows))
    if approaches:
        return [describe_choice(approaches, study.options.margin)]
    return ["Nothing is compared with training everything on the same texts."]


def describe_choice(approaches: Sequence[Approach], margin: float) -> str:
    """What to train, what that loses and costs, and how sure that is.

    It is the cheapest approach whose loss to training everything is shown to
    be below the margin, after Holm's correction over all approaches, the probe
    among them. Without such a one it is everything, with about how many seeds
    would decide for the best of the others.

    Args:
        approaches: see `group_approaches`; one at least.
        margin: largest loss that is accepted, in points.
    """
    lost = describe_points(margin)
    enough = [
        members
        for members in _shown_to_lose_less(approaches, margin)
        if _is_cheaper(members)
    ]
    if not enough:
        best = max(approaches, key=lambda members: loss_of(members).value)
        return (
            f"Train everything: nothing cheaper is shown to lose less than "
            f"{lost}. Next is {_describe_loss(best)}"
            f"{_describe_needed(best, margin)} ({_how_sure(best)})."
        )
    chosen = min(enough, key=_cost)
    verb = "Train"
    if chosen[0].is_probe:
        verb = "Use"
    return (
        f"{verb} {_describe_loss(chosen)}: less than {lost} lost "
        f"({_how_sure(chosen)})."
    )


def _cost(members: Sequence[Row]) -> tuple[float, float, int]:
    """Time against everything, or none; then what trains, and fewer seeds.

    A probe that was timed elsewhere comes first, as nothing trains.
    """
    time = share_of_time(members)[0].value
    if math.isnan(time):
        time = 0.0 if members[0].is_probe else math.inf
    return time, members[0].trained, -count_seeds(members)


def _is_cheaper(members: Sequence[Row]) -> bool:
    """Whether it takes less time than everything, or trains fewer weights."""
    share = share_of_time(members)[0]
    return (share.value if share.is_known else members[0].trained) < 100


def loss_of(members: Sequence[Row]) -> Ranged:
    """The mean difference to training everything, in points."""
    return overview.compare_with_base(members, "score", "difference")


def _shown_to_lose_less(
    approaches: Sequence[Approach], margin: float
) -> list[Approach]:
    """Those whose loss is below the margin, by Holm's correction."""
    losses = [loss_of(members).estimate for members in approaches]
    p_values = estimates.adjust_for_many(
        [
            1.0 if loss is None else loss.p_within(-margin, math.inf)
            for loss in losses
        ]
    )
    pairs = zip(approaches, p_values)
    return [members for members, p in pairs if p <= contrast.ALPHA]


def _describe_loss(members: Sequence[Row]) -> str:
    """An approach, its difference to training everything, and its time."""
    loss = ranged(loss_of(members), 1, "+", " points")
    text = f"{members[0].trains}, {loss} against everything"
    share, whole = share_of_time(members)
    if share.is_known:
        text += f", in {percent(share, 0)} of {whole}"
    return text


def _describe_needed(members: Sequence[Row], margin: float) -> str:
    """About how many seeds would show that the loss is below the margin."""
    loss = loss_of(members)
    if loss.estimate is None:
        return ""
    if loss.high < -margin:
        return "; more seeds would not change that"
    room = abs(loss.value + margin)
    needed = contrast.describe_needed(
        [(loss.estimate, room)], 1, 1, count_seeds(members)
    )
    return f"; {needed}" if needed else ""


def describe_points(margin: float) -> str:
    """`1 point`, `0.5 points`."""
    return "1 point" if margin == 1 else f"{margin:g} points"


def group_approaches(rows: Sequence[Row]) -> list[Approach]:
    """Rows that are compared, of one approach on all tasks that it has.

    Where some approaches have fewer tasks than others, only those with the
    most are taken, so that means are over the same tasks.
    """
    compared = [row for row in rows if row.kept.is_known]
    groups = groups_lib.group_by(compared, lambda row: row.trains).values()
    most = max(map(len, groups), default=0)
    return [tuple(members) for members in groups if len(members) == most]


def share_of_time(members: Sequence[Row]) -> tuple[Ranged, str]:
    """Percent of the time of training everything, and of which time."""
    bases = [row.base for row in members if row.base is not None]
    measure, whole = "seconds", "its time"
    if any(measures.is_cut_off(row.runs) for row in (*members, *bases)):
        measure, whole = "seconds_per_epoch", "its time per epoch"
    return overview.compare_with_base(members, measure), whole


def _how_sure(rows: Sequence[Row]) -> str:
    """On which tasks, from how many seeds and test texts."""
    where = rows[0].task
    if len(rows) > 1:
        worst_first = sorted(rows, key=lambda row: row.gain.value)
        gains = [f"{row.task} {row.gain.value:+.1f}" for row in worst_first]
        where = f"mean of {join(gains)}"
    seeds = count_seeds(rows)
    text = f"{where}; {count(seeds, 'seed')}"
    texts = sum(groups_lib.count_texts(row.runs) for row in rows)
    if texts > 1:
        text += f", {count(texts, f'{overview.name_split(rows).lower()} text')}"
    if seeds < FEWEST_SEEDS:
        text += ": not sure"
    return text


def count_seeds(rows: Sequence[Row]) -> int:
    """The fewest seeds of a row or its base; a probe needs none."""
    return min(
        one.n
        for row in rows
        for one in (row, row.base)
        if one is not None and not one.is_probe
    )


# === The claims ===


def describe_verdicts(study: Study) -> list[str]:
    """How many of the paper's claims have each word, in a sentence."""
    first = [v for v in study.verdicts if not v.claim.reading_of]
    judged = [verdict for verdict in first if verdict.study]
    if study.paper is None or not judged:
        return []
    counts = contrast.count_words(judged)
    words = [f"{number} {word}" for word, number in counts.items() if number]
    without_runs = len(first) - len(judged)
    if without_runs:
        words.append(f"{without_runs} without runs to compare")
    claimed = count(len(first), "claim")
    return [f"{claimed} ({study.paper.name}): {'; '.join(words)}."]


def end_of_rates(row: Row) -> str:
    """`lowest` or `highest` where a row's rate is that of those tried, or "".

    Of two rates, each is an end.
    """
    if len(row.rates) < 3 or row.failed:
        return ""
    ends = {min(row.rates): "lowest", max(row.rates): "highest"}
    return ends.get(row.lr, "")
