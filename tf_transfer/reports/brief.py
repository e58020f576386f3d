"""What a study found, how sure that is, and what to run next: sentences.

An experiment's module may have its own `brief(study, rows) -> sentences` in
place of the first ones.
"""

import collections
import dataclasses
import math
import os
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from tf_transfer.reports import (
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
from tf_transfer.reports.wording import count, join, MOST_NAMED, percent, ranged

SAMPLE = "sample"  # of `--data`


def write(study: Study, rows: Sequence[Row]) -> list[str]:
    """The sentences at the top of a study's part of the report."""
    sentences = []
    if set(study.runs.data) == {SAMPLE}:
        sentences.append(
            "These runs are on the hand-written sample: their scores mean "
            "nothing."
        )
    own = getattr(module_of(study.experiment), "describe_study", None)
    # A module may also import this one by its name.
    tell = own if callable(own) else describe_rows
    sentences += tell(study, rows)
    unfinished = [
        path
        for path, reason in study.summary["left_out"]
        if reason == reading.NOT_FINISHED
        and study.experiment in path.split(os.sep)
    ]
    if unfinished:
        sentences.append(
            f"{count(len(unfinished), 'run')} of {study.experiment} did not "
            "finish. The scores are those of the runs that did, which may be "
            "the lucky ones."
        )
    if study.paper is not None and study.verdicts:
        sentences.append(describe_verdicts(study))
    return sentences


# === What was found ===


def describe_rows(study: Study, rows: Sequence[Row]) -> list[str]:
    """What to train instead of everything, or which row is best."""
    sentences = describe_fewer(study, rows) or describe_best(rows)
    hopeless = {row.task: row for row in rows if row.is_base and row.failed}
    for task, row in hopeless.items():
        sentences.append(
            f"No result for {task}: training everything is {FAILED}"
            + ("" if math.isnan(row.majority) else f" ({row.majority:.1f})")
            + "."
        )
    failed = [row for row in rows if row.failed and row.task not in hopeless]
    if failed:
        sentences.append(
            f"{len(failed)} of the {len(rows)} rows below are {FAILED}, so "
            f"they are not compared: {name_rows(failed)}."
        )
    return sentences


def describe_fewer(study: Study, rows: Sequence[Row]) -> list[str]:
    """What to train: the cheapest approach that is shown to lose little.

    Its loss to training everything is below the margin, after Holm's correction
    over all approaches, the probe among them. Without such a one: everything,
    and how many seeds would decide for the best of the others. Where something
    is shown to be better than everything, the best is named, too.
    """
    margin = study.options.margin
    rows = overview.keep_largest(rows)
    approaches = sorted(group_alike(rows), key=_cost)
    if not approaches:
        return []
    enough = [
        some
        for some in _shown_to_lose_less(approaches, margin)
        if _is_cheaper(some)
    ]
    # Holm's correction is over all approaches: the best is the best of many.
    better = _shown_to_lose_less(approaches, 0.0)
    best = max(better or approaches, key=lambda some: loss_of(some).value)
    chosen = enough[0] if enough else best
    advice = "Use" if chosen[0].is_probe else "Train"
    sentences = []
    if enough or better:
        sentences.append(
            f"{advice} {_describe(study, chosen, True)}"
            + ". Nothing cheaper is shown to be enough" * (not enough)
            + f" ({_how_sure(chosen)})."
        )
        sentences += [
            f"But on {row.task}: {_describe_loss(study, [row])}."
            for row in chosen
            if row.gain.high < 0 and row.gain.value < -margin
        ]
    else:
        sentences += [
            "Train everything: nothing cheaper is shown to lose less than "
            f"{describe_points(margin)} ({_how_sure(chosen)}).",
            f"{_begin(_describe(study, chosen))}"
            f"{_describe_needed(chosen, margin)}.",
        ]
    # Also: the best; the next cheaper one; after a probe, what trains weights.
    others = [best] * bool(better)
    if chosen[0].is_probe:
        trained = [some for some in approaches if not some[0].is_probe]
        trained.sort(key=lambda some: -loss_of(some).value)
        cheap = [some for some in enough if not some[0].is_probe]
        others += cheap[:1] or trained[:1]
    others += [
        some
        for some in approaches[: approaches.index(chosen)]
        if some[0].cached == chosen[0].cached
    ][-1:]
    sentences += [
        f"{_begin(_describe(study, some, some in enough))}."
        for number, some in enumerate(others)
        if some is not chosen and some not in others[:number]
    ]
    compared = {some[0].trains for some in approaches}
    on_some = [
        f"{row.trains} on {row.task}, {_describe_loss(study, [row])}"
        for row in rows
        if row.trains not in compared and row.gain.high >= -margin
    ]
    if on_some:
        more = f"; {len(on_some) - MOST_NAMED} more" * (
            len(on_some) > MOST_NAMED
        )
        sentences.append(
            "Compared on some tasks only: "
            f"{'; '.join(on_some[:MOST_NAMED])}{more}."
        )
    return sentences


def _cost(members: Sequence[Row]) -> tuple[float, float, int]:
    """Time against everything, or none; then what trains, and fewer seeds.

    A probe that was timed elsewhere comes first, as nothing trains.
    """
    first, share = members[0], share_of_time(members)[0]
    unknown = 0.0 if first.is_probe else math.inf
    time = share.value if share.is_known else unknown
    return time, first.trained, -count_seeds(members)


def _is_cheaper(members: Sequence[Row]) -> bool:
    """Whether it takes less time than everything, or trains fewer weights."""
    share = share_of_time(members)[0]
    return (share.value if share.is_known else members[0].trained) < 100


def loss_of(members: Sequence[Row]) -> Ranged:
    """The mean difference to training everything, in points."""
    return overview.compare_with_base(members, "score", "difference")


def _shown_to_lose_less(
    approaches: Sequence[list[Row]], margin: float
) -> list[list[Row]]:
    """Those whose loss is below the margin, by Holm's correction."""
    losses = [overview.estimate_loss(some) for some in approaches]
    p_values = estimates.adjust_for_many(
        # Twice: 5 % where the 95 % interval ends at the margin.
        [
            1.0 if loss is None else min(1.0, 2 * loss.p_above(-margin))
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
    text = f"{ranged(loss, 1, '+', ' points')} against everything"
    if not loss.has_interval:
        return text
    word = "worse" if loss.high < 0 else "undecided"
    if is_shown:
        word = f"less than {describe_points(study.options.margin)} lost"
        word += ", if any" * (loss.high > 0)
    return f"{text}, {'better' if loss.low > 0 else word}"


def _describe_needed(members: Sequence[Row], margin: float) -> str:
    """About how many seeds would show that the loss is below the margin."""
    loss = overview.estimate_loss(members)
    if loss is None or not loss.error:
        return ""
    if loss.interval()[1] < -margin:
        return "; more seeds would not change that"
    seeds = loss.seeds_needed(abs(loss.value + margin), count_seeds(members))
    if seeds is None:
        return f"; {estimates.REALISTIC} seeds would not decide it"
    return f"; about {seeds} seeds would decide"


def describe_points(margin: float) -> str:
    """`1 point`, `0.5 points`."""
    return "1 point" if margin == 1 else f"{margin:g} points"


def group_alike(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that are compared, of one approach on all tasks that it has.

    Where some approaches have fewer tasks than others, only those with the
    most are taken, so that means are over the same tasks.
    """
    groups: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        if row.kept.is_known:
            groups[row.trains].append(row)
    most = max(map(len, groups.values()), default=0)
    return [members for members in groups.values() if len(members) == most]


def _name_approach(study: Study, members: Sequence[Row]) -> str:
    """What is trained: `with lora8 in the last 2 of 6 blocks (cached)`."""
    first = members[0]
    name = first.trains
    if name == "the probe":
        return f"{name}, a regression on the frozen encoder"
    method = overview.split_approach(first.approach)[1].replace("_", " ")
    if first.blocks and name.startswith(f"last {first.blocks}"):
        others = name.removeprefix(f"last {first.blocks} {method}".rstrip())
        name = f"the last {first.blocks} of {study.blocks} blocks{others}"
        return f"with {method} in {name}" if method else name
    if method and name.startswith(f"all {method}"):
        others = name.removeprefix(f"all {method}")
        return f"with {method} in every block{others}"
    return f"the {name}" if name.startswith("last ") else name


def share_of_time(members: Sequence[Row]) -> tuple[Ranged, str]:
    """Percent of the time of training everything, and of which time."""
    bases = [row.base for row in members if row.base is not None]
    if any(measures.is_cut_off(row.runs) for row in (*members, *bases)):
        share = overview.compare_with_base(members, "seconds_per_epoch")
        return share, "everything's time per epoch"
    return overview.compare_with_base(members, "seconds"), "everything's time"


def _how_sure(rows: Sequence[Row]) -> str:
    """On which tasks, from how many seeds and test texts."""
    tasks = [row.task for row in rows]
    where = tasks[0] if len(tasks) == 1 else f"mean of {join(tasks)}"
    if len(tasks) > 1 and rows[0].gain.is_known:
        gains = [f"{row.task} {row.gain.value:+.1f}" for row in rows]
        where = f"mean of {join(gains)}"
    seeds = count_seeds(rows)
    not_sure = ": not sure" if seeds < FEWEST_SEEDS else ""
    texts = sum(verdicts.count_texts(row.runs) for row in rows)
    kind = overview.name_split(rows).lower()
    tested = f", {count(texts, f'{kind} text')}" if texts > 1 else ""
    return f"{where}; {count(seeds, 'seed')}{tested}{not_sure}"


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
    sentences = []
    tasks = dict.fromkeys(row.task for row in rows)
    for task in list(tasks)[:MOST_NAMED]:
        known = [
            r
            for r in rows
            if r.task == task and r.score.is_known and not r.failed
        ]
        if not known:
            continue
        best = max(known, key=lambda row: row.score.value)
        others = f", the best of {len(known)} rows" if len(known) > 1 else ""
        unlike = [r for r in known if r.has_encoder != best.has_encoder]
        if unlike:
            other = max(unlike, key=lambda row: row.score.value)
            others += f"; {other.trains} scores {ranged(other.score, 1)}"
        not_sure = ": not sure" if best.n < FEWEST_SEEDS else ""
        sentences.append(
            f"On {task}, {best.trains} scores {ranged(best.score, 1)}{others} "
            f"({count(best.n, 'seed')}{not_sure})."
        )
    return sentences


# === What the claims come to ===


def describe_verdicts(study: Study) -> str:
    """How many of the paper's claims have each word, in a sentence."""
    assert study.paper is not None
    judged = [verdict for verdict in study.verdicts if verdict.study]
    local = [v for v in judged if v.word == infer.NOT_COMPARABLE]
    counts = infer.count_words(v for v in judged if v not in local)
    words = [f"{number} {word}" for word, number in counts.items()]
    if local:
        [reason, *_] = study.differences or [main_reason(local)]
        reported = sum(map(is_reported, local))
        if reported:
            words.append(
                f"{reported} tested for this encoder and data only "
                f"({claims.cut_brackets(reason)})"
            )
        if few := len(local) - reported:
            words.append(f"{few} need more runs, or runs that train")
    if unrun := len(study.verdicts) - len(judged):
        words.append(f"{unrun} without runs to compare")
    number = count(len(study.verdicts), "claim")
    return f"{number} ({study.paper.name}): {'; '.join(words)}."


def is_reported(verdict: Verdict) -> bool:
    """Whether runs that are not comparable suffice to say what they show."""
    return not (
        verdict.problem or FAILED in verdict.reason or math.isnan(verdict.value)
    )


def neutral_word(verdict: Verdict) -> str:
    """What runs that are not comparable show, without the paper's words."""
    if not is_reported(verdict):
        return FAILED if FAILED in verdict.reason else "not reported"
    claim = verdict.claim
    if claim.kind == "maximum":
        return "described"
    word = "unclear"
    if claim.kind == "difference" and verdict.low * verdict.high > 0:
        word = "unclear after Holm's correction"
    if verdict.outcome and verdict.p <= infer.ALPHA:
        is_so = verdict.outcome != infer.CONTRADICTS
        if claim.kind == "spread":
            word = "within the margin" if is_so else "beyond the margin"
        elif verdict.tally:
            word = "shown" if is_so else "the opposite is shown"
        elif claim.kind == "equal" and is_so:
            word = "no difference beyond the margin"
        else:
            word = "higher" if verdict.value > 0 else "lower"
    return f"{word}: {verdict.tally}" if verdict.tally else word


def main_reason(judged: Iterable[Verdict]) -> str:
    """What makes most claims not comparable, a clause."""
    clauses = collections.Counter(
        clause
        for verdict in judged
        for clause in verdict.reason.split("; ")
        if verdict.word == infer.NOT_COMPARABLE
    )
    [(clause, _)] = clauses.most_common(1)
    return clause


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


def suggest(study: Study, rows: Sequence[Row]) -> list[Advice]:
    """What to run next, the most needed first."""
    advice: list[Advice] = []

    def add(text: str, row: Row, **changes: Any) -> None:
        advice.append(Advice(text, make_command(study, row, **changes)))

    failed = [
        row
        for row in rows
        if row.failed and row.blocks != 0 and row.lr  # a baseline has no rate
    ]
    if failed:
        add(
            f"Another learning rate, such as {failed[0].lr / 3:.2g} in place "
            f"of {failed[0].lr:.2g}, for {name_rows(failed)}: their scores are "
            f"{FAILED}.",
            failed[0],
            lr=f"{failed[0].lr / 3:.2g}",
        )
    cut_off = [row for row in rows if measures.is_cut_off(row.runs)]
    if cut_off:
        add(
            f"More epochs: in {len(cut_off)} of {len(rows)} rows --max_epochs "
            "ended runs before --patience did. Scores may still rise, times "
            "are limits.",
            cut_off[0],
            max_epochs=2 * int(cut_off[0].runs.epochs_run.max()),
        )
    compared = [row for row in rows if row.is_base or row.kept.is_known]
    drawn = [row for row in compared or rows if row.has_encoder]
    ends = ("lower", "lowest", 1 / 3), ("higher", "highest", 3)
    for word, end, factor in ends:
        at_end = [row for row in rows if end_of_rates(row) == end]
        if at_end:
            add(
                f"A {word} learning rate for {name_rows(at_end)}: the {end} "
                "that was tried is the best.",
                at_end[0],
                lr=f"{factor * at_end[0].lr:.2g}",
            )
    few = [row for row in drawn if row.n < FEWEST_SEEDS and not row.is_probe]
    if few:
        seeds = map(str, range(FEWEST_SEEDS))
        known = {*map(str, few[0].runs.seed)}
        add(
            f"More seeds, {FEWEST_SEEDS} at least, for {name_rows(few)}.",
            few[0],
            seed=[seed for seed in seeds if seed not in known],
        )
    unlike = [row for row in rows if row.note]
    if unlike:
        add(
            "The same rates for both groups where a row is not compared: "
            f"{name_rows(unlike)} ({unlike[0].note}).",
            unlike[0],
        )
    tasks = {row.task for row in rows}
    without = sorted(
        tasks - {row.task for row in rows if row.is_base and row.n}
    )
    trained = [row for row in rows if row.blocks is not None]
    if without and trained:
        add(
            f"Runs with --trainable_layers=all on {join(without)}: nothing is "
            "there to compare with.",
            next((row for row in trained if row.task in without), trained[0]),
            trainable_layers="all",
        )
    return advice


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
    prefixes = tuple(f"--{name}=" for name in changes)
    kept = [word for word in words if not word.startswith(prefixes or ("\n",))]
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
    by_task: dict[str, list[str]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row.trains)
    by_names: dict[str, list[str]] = {}
    for task, names in by_task.items():
        by_names.setdefault(join(names), []).append(task)
    named = [f"{names} on {join(tasks)}" for names, tasks in by_names.items()]
    if len(named) > MOST_NAMED:
        named[MOST_NAMED - 1 :] = [f"and {len(named) - MOST_NAMED + 1} more"]
    return "; ".join(named)
