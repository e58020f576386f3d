"""The sentences of a study: its result, how sure that is, and what to run next.

An experiment's module may have its own `describe_study(study)`, which
returns sentences in place of those on what to train.
"""

import collections
import dataclasses
import math
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tf_transfer.reports import (
    choose,
    claims,
    estimates,
    infer,
    measures,
    overview,
    reading,
    verdicts,
)
from tf_transfer.reports.infer import FAILED, FEWEST_SEEDS, Verdict
from tf_transfer.reports.overview import Ranged, Row
from tf_transfer.reports.study import module_of, Study
from tf_transfer.reports.wording import (
    count,
    join,
    list_first,
    MOST_NAMED,
    percent,
    ranged,
)

SAMPLE = "sample"  # of `--data`
Approach = tuple[Row, ...]  # the rows of an approach, one per task


def write(study: Study, rows: Sequence[Row]) -> list[str]:
    """The sentences at the top of a study's part of the report."""
    on_sample = (
        "These runs are on the hand-written sample: their scores mean nothing."
    )
    unfinished = sum(
        reason == reading.NOT_FINISHED
        and study.experiment in path.split(os.sep)
        for path, reason in study.summary["left_out"]
    )
    lucky = (
        f"{count(unfinished, 'run')} of {study.experiment} did not finish. The "
        "scores are those of the runs that did, which may be the lucky ones."
    )
    own = getattr(module_of(study.experiment), "describe_study", None)
    return [
        *[on_sample] * (set(study.runs.data) == {SAMPLE}),
        *(own(study) if own else describe_rows(study, rows)),
        *[lucky] * bool(unfinished),
        *describe_verdicts(study),
    ]


# === The result ===


def describe_rows(study: Study, rows: Sequence[Row]) -> list[str]:
    """What to train instead of everything, or which row is best."""
    hopeless = {row.task: row for row in rows if row.is_base and row.failed}
    failed = [row for row in rows if row.failed and row.task not in hopeless]
    not_compared = (
        f"{len(failed)} of the {len(rows)} rows below are {FAILED}, so they "
        f"are not compared: {name_rows(failed)}."
    )
    return [
        *(describe_fewer(study, rows) or describe_best(rows)),
        *(
            f"No result for {task}: training everything is {FAILED}"
            + f" ({row.majority:.1f})" * (not math.isnan(row.majority))
            + "."
            for task, row in hopeless.items()
        ),
        *[not_compared] * bool(failed),
    ]


def describe_fewer(study: Study, rows: Sequence[Row]) -> list[str]:
    """What to train: the cheapest approach that is shown to lose little.

    Its loss to training everything is below the margin, after Holm's correction
    over all approaches, the probe among them. Without such a one: everything,
    and how many seeds would decide for the best of the others. Where something
    is shown to be better than everything, the best is named, too.
    """
    margin = study.options.margin
    rows = overview.keep_largest(rows)
    approaches = sorted(group_approaches(rows), key=_cost)
    if not approaches:
        return []
    enough = [*filter(_is_cheaper, _shown_to_lose_less(approaches, margin))]
    # Holm's correction is over all approaches: the best is the best of many.
    better = _shown_to_lose_less(approaches, 0.0)
    best = max(better or approaches, key=lambda some: loss_of(some).value)
    chosen = enough[0] if enough else best
    others = dict.fromkeys(
        [best] * bool(better) + _list_alternatives(approaches, enough, chosen)
    )
    others.pop(chosen, None)
    sentences = [
        _begin(_describe(study, some, some in enough)) for some in others
    ]
    if enough or better:
        advice = "Use" if chosen[0].is_probe else "Train"
        main = [
            f"{advice} {_describe(study, chosen, True)}"
            + ". Nothing cheaper is shown to be enough" * (not enough)
            + f" ({_how_sure(chosen)})"
        ]
        main += [
            f"But on {row.task}: {_describe_loss(study, [row])}"
            for row in chosen
            if row.gain.high < 0 and row.gain.value < -margin
        ]
    else:
        main = [
            "Train everything: nothing cheaper is shown to lose less than "
            f"{describe_points(margin)} ({_how_sure(chosen)})",
            _begin(_describe(study, chosen)) + _describe_needed(chosen, margin),
        ]
    compared = {some[0].trains for some in approaches}
    on_some = [
        f"{row.trains} on {row.task}, {_describe_loss(study, [row])}"
        for row in rows
        if row.trains not in compared and row.gain.high >= -margin
    ]
    if on_some:
        sentences.append(f"Compared on some tasks only: {list_first(on_some)}")
    return [f"{sentence}." for sentence in main + sentences]


def _list_alternatives(
    approaches: Sequence[Approach], enough: Sequence[Approach], chosen: Approach
) -> list[Approach]:
    """The next cheaper approach; for a probe first the best that trains."""
    cheaper = [
        some
        for some in approaches[: approaches.index(chosen)]
        if some[0].cached == chosen[0].cached
    ]
    if not chosen[0].is_probe:
        return cheaper[-1:]
    trained = [some for some in approaches if not some[0].is_probe]
    trained.sort(key=lambda some: -loss_of(some).value)
    cheap = [some for some in enough if not some[0].is_probe]
    return (cheap or trained)[:1] + cheaper[-1:]


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
    losses = [loss_of(some).estimate for some in approaches]
    p_values = estimates.adjust_for_many(
        [
            1.0 if loss is None else loss.p_within(-margin, math.inf)
            for loss in losses
        ]
    )
    return [some for some, p in zip(approaches, p_values) if p <= infer.ALPHA]


def _describe(
    study: Study, members: Sequence[Row], is_shown: bool = False
) -> str:
    """An approach, its difference to training everything, and its time."""
    share, whole = share_of_time(members)
    cost = f", in {percent(share, 0)} of {whole}" if share.is_known else ""
    return (
        f"{_name_approach(study, members)}: "
        f"{_describe_loss(study, members, is_shown)}{cost}"
    )


def _begin(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _describe_loss(
    study: Study, members: Sequence[Row], is_shown: bool = False
) -> str:
    """`-1.2 points (-2.0 to -0.4) against everything, worse`.

    Args:
        study: says which loss is accepted.
        members: rows of an approach.
        is_shown: whether its loss is shown to be below that.
    """
    loss = loss_of(members)
    word = "undecided"
    if is_shown:
        word = f"less than {describe_points(study.options.margin)} lost"
        if loss.high > 0:
            word += ", if any"
    elif loss.high < 0:
        word = "worse"
    if loss.low > 0:
        word = "better"
    return (
        f"{ranged(loss, 1, '+', ' points')} against everything"
        + f", {word}" * loss.has_interval
    )


def _describe_needed(members: Sequence[Row], margin: float) -> str:
    """About how many seeds would show that the loss is below the margin."""
    loss = loss_of(members)
    if loss.estimate is None:
        return ""
    if loss.high < -margin:
        return "; more seeds would not change that"
    needed = infer.describe_needed(
        [(loss.estimate, abs(loss.value + margin))], 1, 1, count_seeds(members)
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
    groups = choose.group_by(compared, lambda row: row.trains).values()
    most = max(map(len, groups), default=0)
    return [tuple(members) for members in groups if len(members) == most]


def _name_approach(study: Study, members: Sequence[Row]) -> str:
    """What is trained: `with lora8 in the last 2 of 6 blocks (cached)`."""
    first, name = members[0], members[0].trains
    if name == "the probe":
        return f"{name}, a regression on the frozen encoder"
    method = overview.split_approach(first.approach)[1].replace("_", " ")
    last = f"the last {first.blocks} of {study.blocks} blocks"
    for start, blocks in (f"last {first.blocks}", last), ("all", "every block"):
        known = f"{start} {method}".rstrip()
        if name.startswith(known):
            blocks = f"with {method} in {blocks}" if method else blocks
            return blocks + name.removeprefix(known)
    return f"the {name}" if name.startswith("last ") else name


def share_of_time(members: Sequence[Row]) -> tuple[Ranged, str]:
    """Percent of the time of training everything, and of which time."""
    bases = [row.base for row in members if row.base is not None]
    measure, whole = "seconds", "everything's time"
    if any(measures.is_cut_off(row.runs) for row in (*members, *bases)):
        measure, whole = "seconds_per_epoch", "everything's time per epoch"
    return overview.compare_with_base(members, measure), whole


def _how_sure(rows: Sequence[Row]) -> str:
    """On which tasks, from how many seeds and test texts."""
    where = rows[0].task
    if len(rows) > 1:
        gains = [f"{row.task} {row.gain.value:+.1f}" for row in rows]
        where = f"mean of {join(gains)}"
    texts = sum(verdicts.count_texts(row.runs) for row in rows)
    tested = count(texts, f"{overview.name_split(rows).lower()} text")
    seeds = count_seeds(rows)
    return (
        f"{where}; {count(seeds, 'seed')}"
        + f", {tested}" * (texts > 1)
        + ": not sure" * (seeds < FEWEST_SEEDS)
    )


def count_seeds(rows: Sequence[Row]) -> int:
    """The fewest seeds of a row or its base; a probe needs none."""
    return min(
        one.n
        for row in rows
        for one in (row, row.base)
        if one is not None and not one.is_probe
    )


def describe_best(rows: Sequence[Row]) -> list[str]:
    """The row with the best score on each task, where nothing is compared.

    Next to an encoder's score stands that of TF-IDF, and the other way round.
    """
    known = [row for row in rows if row.score.is_known and not row.failed]
    by_task = choose.group_by(known, lambda row: row.task)
    return [
        _describe_best_of(task, of_task)
        for task, of_task in [*by_task.items()][:MOST_NAMED]
    ]


def _describe_best_of(task: str, rows: Sequence[Row]) -> str:
    best = max(rows, key=lambda row: row.score.value)
    text = f"On {task}, {best.trains} scores {ranged(best.score, 1)}"
    if len(rows) > 1:
        text += f", the best of {len(rows)} rows"
    unlike = [row for row in rows if row.has_encoder != best.has_encoder]
    if unlike:
        other = max(unlike, key=lambda row: row.score.value)
        text += f"; {other.trains} scores {ranged(other.score, 1)}"
    not_sure = ": not sure" * (best.n < FEWEST_SEEDS)
    return f"{text} ({count(best.n, 'seed')}{not_sure})."


# === The claims ===


def describe_verdicts(study: Study) -> list[str]:
    """How many of the paper's claims have each word, in a sentence.

    Of other readings of the claims those that have runs are counted, in a
    sentence of their own.
    """
    if study.paper is None:
        return []
    first = [v for v in study.verdicts if not v.claim.reading_of]
    others = [v for v in study.verdicts if v.claim.reading_of and v.study]
    lists = {f" ({study.paper.name})": first, " of them": others}
    return [
        count(len(members), "other reading" if members is others else "claim")
        + f"{of}: {_count_words(study, members)}."
        for of, members in lists.items()
        if members
    ]


def _count_words(study: Study, members: Sequence[Verdict]) -> str:
    """The words of some verdicts, each with its number."""
    judged = [verdict for verdict in members if verdict.study]
    local = [v for v in judged if v.word == infer.NOT_COMPARABLE]
    counts = infer.count_words(v for v in judged if v not in local)
    words = [f"{number} {word}" for word, number in counts.items()]
    reported = sum(map(is_reported, local))
    if reported:
        [reason, *_] = study.differences or [main_reason(local)]
        words.append(
            f"{reported} tested for this encoder and data only "
            f"({claims.cut_brackets(reason)})"
        )
    others = {
        "need more runs, or runs that train": len(local) - reported,
        "without runs to compare": len(members) - len(judged),
    }
    words += [f"{number} {word}" for word, number in others.items() if number]
    return "; ".join(words)


def is_reported(verdict: Verdict) -> bool:
    """Whether runs that are not comparable suffice to say what they show."""
    return not (
        verdict.problem or FAILED in verdict.reason or math.isnan(verdict.value)
    )


def neutral_word(verdict: Verdict) -> str:
    """What runs that are not comparable show, without the paper's words."""
    if not is_reported(verdict):
        return FAILED if FAILED in verdict.reason else "not reported"
    kind, tally = verdict.claim.kind, verdict.tally
    is_so = verdict.outcome != infer.CONTRADICTS
    if not (verdict.outcome and verdict.p <= infer.ALPHA):
        word = "unclear"
        if kind == "difference" and verdict.low * verdict.high > 0:
            word = "unclear after Holm's correction"
    elif tally:
        word = "shown" if is_so else "the opposite is shown"
    elif kind == "equal" and is_so:
        word = "no difference beyond the margin"
    else:
        word = "higher" if verdict.value > 0 else "lower"
    return word + f": {tally}" * bool(tally)


def main_reason(judged: Iterable[Verdict]) -> str:
    """What makes most claims not comparable, a clause."""
    clauses = collections.Counter(
        clause
        for verdict in judged
        for clause in verdict.reason.split("; ")
        if verdict.word == infer.NOT_COMPARABLE
    )
    return clauses.most_common(1)[0][0]


# === What to do next ===


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to run next.

    Attributes:
        text: a sentence.
        command: that does it, for the first row that it is about; empty where
            the runs do not say how they were started.
    """

    text: str
    command: str = ""


def suggest(study: Study, rows: Sequence[Row]) -> Iterator[Advice]:
    """What to run next, the most needed first."""
    failed = [
        row
        for row in rows
        if row.failed and row.blocks != 0 and row.lr  # a baseline has no rate
    ]
    if failed:
        other = f"{failed[0].lr / 3:.2g}"
        yield Advice(
            f"Another learning rate, such as {other} in place of "
            f"{failed[0].lr:.2g}, for {name_rows(failed)}: their scores are "
            f"{FAILED}.",
            make_command(study, failed[0], lr=other),
        )
    cut_off = [row for row in rows if measures.is_cut_off(row.runs)]
    if cut_off:
        more = 2 * int(cut_off[0].runs.epochs_run.max())
        yield Advice(
            f"More epochs: in {len(cut_off)} of {len(rows)} rows --max_epochs "
            "ended runs before --patience did. Scores may still rise, times "
            "are limits.",
            make_command(study, cut_off[0], max_epochs=more),
        )
    ends = ("lower", "lowest", 1 / 3), ("higher", "highest", 3)
    for word, end, factor in ends:
        at_end = [row for row in rows if end_of_rates(row) == end]
        if at_end:
            beyond = f"{factor * at_end[0].lr:.2g}"
            yield Advice(
                f"A {word} learning rate for {name_rows(at_end)}: the {end} "
                "that was tried is the best.",
                make_command(study, at_end[0], lr=beyond),
            )
    compared = [row for row in rows if row.is_base or row.kept.is_known]
    few = [
        row
        for row in compared or rows
        if row.has_encoder and row.n < FEWEST_SEEDS and not row.is_probe
    ]
    if few:
        known = {*map(str, few[0].runs.seed)}
        seeds = [s for s in map(str, range(FEWEST_SEEDS)) if s not in known]
        yield Advice(
            f"More seeds, {FEWEST_SEEDS} at least, for {name_rows(few)}.",
            make_command(study, few[0], seed=seeds),
        )
    unlike = [row for row in rows if row.note]
    if unlike:
        yield Advice(
            "The same rates for both groups where a row is not compared: "
            f"{name_rows(unlike)} ({unlike[0].note}).",
            make_command(study, unlike[0]),
        )
    has_base = {row.task for row in rows if row.is_base and row.n}
    trained = [row for row in rows if row.blocks is not None]
    trained.sort(key=lambda row: row.task in has_base)
    without = sorted({row.task for row in rows} - has_base)
    if without and trained:
        yield Advice(
            f"Runs with --trainable_layers=all on {join(without)}: nothing is "
            "there to compare with.",
            make_command(study, trained[0], trainable_layers="all"),
        )


def make_command(study: Study, row: Row, **changes: Any) -> str:
    """The command of a row's first run, with other flags; or an empty text.

    Args:
        study: its study.
        row: whose run it is.
        changes: flags and their values; of a list, a loop has each of them.
    """
    words = row.runs.record.iloc[0].get("command")
    if not words:
        return ""
    names = {f"--{name}" for name in changes}
    kept = [word for word in words if word.partition("=")[0] not in names]
    command = shlex.join(
        ["python", "-m", f"tf_transfer.{study.experiment}", *kept]
    )
    for name, value in changes.items():
        if isinstance(value, list):
            loop = f"for {name} in {' '.join(value)}; do"
            return f"{loop} {command} --{name}=${name}; done"
        command += f" --{name}={value}"
    return command


def end_of_rates(row: Row) -> str:
    """`lowest` or `highest` where a row's rate is that of those tried, or "".

    Of two rates, each is an end.
    """
    if len(row.rates) < 3 or row.failed:
        return ""
    ends = {min(row.rates): "lowest", max(row.rates): "highest"}
    return ends.get(row.lr, "")


# === Words ===


def name_rows(rows: Sequence[Row]) -> str:
    """`last 1 and last 2 on cola, last 3 on rte`."""
    by_task = choose.group_by(rows, lambda row: row.task)
    by_names = choose.group_by(
        by_task, lambda task: join([row.trains for row in by_task[task]])
    )
    return list_first(
        [f"{names} on {join(tasks)}" for names, tasks in by_names.items()]
    )
