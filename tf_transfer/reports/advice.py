"""What to train: one table and one sentence, for train, search and report.

A row is an approach, compared on the same texts with a reference: in a report
training everything, at the end of a run or a search the strongest. One rule
says what to train: the cheapest approach whose loss against the reference is
shown to be below a margin, else the reference.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.config.settings import METHOD_OPTIONS
from tf_transfer.reports import (
    estimates,
    groups as groups_lib,
    runs as runs_lib,
)
from tf_transfer.reports.claims import plain
from tf_transfer.reports.contrast import (
    describe_needed,
    FAILED,
    FEWEST_SEEDS,
)
from tf_transfer.reports.estimates import Cell, Contrast, Ranged, UNKNOWN
from tf_transfer.reports.groups import count_texts, did_not_train, Group
from tf_transfer.reports.predictions import open_scored, Scored
from tf_transfer.reports.runs import known
from tf_transfer.utils import formatting
from tf_transfer.utils.formatting import count

MARGIN = 1.0  # points that a cheaper approach may lose
ALPHA = 1 - estimates.LEVEL
YES, NO, OPEN = "yes", "no", "open"
EVERYTHING = "everything"
PROBE, TFIDF = "the probe", "the TF-IDF baseline"
MOST_FREQUENT_TAG = "the most frequent tag"
BASELINES = ("probe", "tfidf")  # approaches of `train` that train no encoder
NAMES = {"last_0": "the head alone", "head": "the output layer alone"}
# Settings that do not divide approaches, and those that name none. Methods with
# other options are other approaches, never chosen by scores.
VARIED = {*runs_lib.VARIED, "untrained"}
UNNAMED = {*runs_lib.VARIED} - {*METHOD_OPTIONS, *runs_lib.CACHING}


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
        time_of: which time, such as `time per epoch`.
        weights: trained parameters, percent of the reference's.
        seeds: that it stands on; 0 of what has no seed.
        scored: number and kind of the scored texts, such as `277 test texts`.
        is_reference: whether others are compared with it.
        is_baseline: whether nothing of an encoder trains.
        note: why it is not compared, or "".
    """

    name: str
    task: str = ""
    validation: Ranged = UNKNOWN
    test: Ranged = UNKNOWN
    difference: Ranged = UNKNOWN
    time: Ranged = UNKNOWN
    time_of: str = "time"
    weights: float = math.nan
    seeds: int = 1
    scored: str = ""
    is_reference: bool = False
    is_baseline: bool = False
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
        The reference, if no cheaper row is shown to lose less.
    """
    words = judge_losses(rows, margin)
    enough = [
        row
        for row, word in zip(rows, words)
        if word == YES and row.cost[0] < 100
    ]
    reference = next(row for row in rows if row.is_reference)
    return min(enough, key=lambda row: row.cost, default=reference)


def take_headline(rows: Sequence[Row]) -> list[Row]:
    """The rows of the first task that compares, which may be several's mean."""
    first = next((row.task for row in rows if row.difference.is_known), None)
    return [row for row in rows if row.task == first]


def advise(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """What to train, what that loses and costs, and how sure it is.

    Args:
        rows: of any number of tasks, means over them included.
        margin: the largest accepted loss, in points.
    """
    rows = take_headline(rows)
    if not rows:
        return "No two approaches are compared on the same texts."
    chosen = choose(rows, margin)
    [reference, *_] = [row for row in rows if row.is_reference]
    use = f"{'Use' if chosen.is_baseline else 'Train'} {chosen.name}"
    if not chosen.is_reference:
        return f"{use}: it {_describe(chosen, reference)}."
    others = [row for row in rows if row.difference.is_known]
    cheaper = [row for row in others if row.cost[0] < 100]
    why = "nothing cheaper was run"
    if cheaper:
        least = f"less than {describe_points(margin)}" if margin else "nothing"
        why = f"nothing cheaper is shown to lose {least}"
    best = max(cheaper or others, key=lambda row: row.difference.value)
    text = f"{use}: {why}; {best.name} {_describe(best, reference)}"
    needed = _describe_needed(best, margin)
    if needed and judge_losses([best], margin) == [OPEN]:
        text += f"; {needed}"
    return f"{text}."


def describe(margin: float) -> str:
    """How to read the table, a sentence.

    Args:
        margin: see `advise`.
    """
    return (
        f"Whether it loses less than {describe_points(margin)}: {YES} and {NO} "
        "are shown at 5 % (Holm), and of what is open it says how many seeds "
        "would decide. Times are compared where they were measured alike"
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
    if row.time.is_known:
        text += f", in {row.time.value:.0f} % of its {row.time_of}"
    seeds = [n for n in (row.seeds, reference.seeds) if n]
    how_sure = [row.task, row.scored]
    if seeds:
        how_sure.insert(1, count(min(seeds), "seed"))
    text += f" ({', '.join(filter(None, how_sure))}"
    if seeds and min(seeds) < FEWEST_SEEDS:
        text += ": not sure"
    return f"{text})"


def make_table(
    rows: Sequence[Row], margin: float = MARGIN
) -> list[dict[str, str]]:
    """The cells of each row, by the title of their column.

    Columns that are empty in all rows are left out.

    Args:
        rows: see `advise`.
        margin: the largest accepted loss, in points.
    """
    references = {row.name for row in rows if row.is_reference}
    other = references.pop() if len(references) == 1 else EVERYTHING
    title = f"loses < {describe_points(margin)}" if margin else "loses nothing"
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
                f"minus {other}": row.note or row.difference.show(1, "+"),
                title: word,
                "time, %": "",
                "time per epoch, %": "",
                "seeds": str(row.seeds or ""),
            }
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


# === The approaches of a study ===


@dataclasses.dataclass(eq=False)
class Approach:
    """Runs of an approach on a task, at its rate.

    Attributes:
        task: its name, with the size of its files where there are several.
        name: what is trained, in words.
        runs: see `runs_lib.runs_frame`.
        rates: that were tried, one of which was chosen on validation.
        base: what it is compared with, which may be itself; or None.
        note: why it may not be compared, a clause; or "".
    """

    task: str
    name: str
    runs: pd.DataFrame
    rates: set[float]
    base: "Approach | None" = None
    note: str = ""

    @property
    def first(self) -> Any:
        """The row of its first run."""
        return self.runs.iloc[0]

    @property
    def is_probe(self) -> bool:
        """Whether it is a regression on the frozen encoder."""
        return self.first.approach.startswith("probe")

    @property
    def is_compared(self) -> bool:
        """Whether it is compared with another approach."""
        if self.base is None or self.base is self:
            return False
        return not self.note and not self.base.note


def list_approaches(runs: pd.DataFrame) -> list[Approach]:
    """The approaches of a study, by task, the largest first.

    Of several rates, an approach has the one that is best on validation, over
    the seeds that all of them have. Where nothing validates, each is an
    approach.

    Args:
        runs: of a study, see `label_runs`.
    """

    def describe(group: Group) -> tuple[str, ...]:
        """Equal for groups that differ only in their rate."""
        first, settings = group.first, _leave_out(group.settings, {"lr"})
        return first.data_identity, first.trains, runs_lib.dump(settings)

    approaches: list[Approach] = []
    by_text = groups_lib.group_by(
        groups_lib.list_groups(runs), lambda group: group.first.text
    )
    sizes = {
        text: sum(groups[0].first.sizes.values())
        for text, groups in by_text.items()
    }
    for text in sorted(by_text, key=lambda text: (-sizes[text], text)):
        groups = by_text[text]
        on_task = []
        for members in groups_lib.group_by(groups, describe).values():
            best = groups_lib.keep_best_rate(members)
            rates = {group.lr for group in members}
            for group in best or members:
                one = Approach(text, group.first.trains, group.runs, rates)
                if not best:
                    one.name += f", lr {group.lr:g}"
                    one.rates = {group.lr}
                on_task.append(one)
        for one in on_task:
            one.base = _find_base(one, on_task)
            one.note = _find_reason(one)
        on_task.sort(
            key=lambda one: (
                *(one.base is not one, one.first.cached),
                *(-one.runs.trainable_parameters.mean(), one.name),
            )
        )
        approaches += on_task
    return approaches


def _leave_out(
    settings: Mapping[str, Any], names: Collection[str]
) -> dict[str, Any]:
    return {n: v for n, v in settings.items() if n not in names}


def _find_base(one: Approach, on_task: Sequence[Approach]) -> Approach | None:
    """What an approach is compared with, which may be itself.

    That is training everything with the same other settings. A baseline reads
    few settings: it is compared with the only base. Where nothing trains
    everything, the base is the best on validation, or on the test where nothing
    validates.
    """
    whole = [other for other in on_task if _trains_everything(other.first)]
    if not whole:
        column = "validation"
        if any(other.runs.validation.isna().any() for other in on_task):
            column = "score"
        return max(on_task, key=lambda other: other.runs[column].mean())
    recipe = _leave_out(one.first.settings, VARIED)
    bases = [
        other
        for other in whole
        if one.is_probe or _leave_out(other.first.settings, VARIED) == recipe
    ]
    if one in bases:
        return one
    if len(bases) > 1:  # several rates, which nothing validates
        bases = [base for base in bases if base.first.lr == one.first.lr]
    return bases[0] if len(bases) == 1 else None


def _trains_everything(run: Any) -> bool:
    settings = run.settings
    if run.cached or settings.get("untrained"):
        return False
    layers, method = settings.get("trainable_layers"), settings.get("method")
    return layers == "all" and method == "full"


def _find_reason(one: Approach) -> str:
    """Why an approach may not be compared with its base; or "".

    The rates of both are chosen from equally many, or among those that both
    were tried at.
    """
    if did_not_train(one.runs):
        return FAILED
    if one.base is None or one.is_probe:
        return ""
    rates, others = one.rates, one.base.rates
    chosen = {one.first.lr, one.base.first.lr}
    if len(rates) == len(others) or chosen <= rates & others:
        return ""
    return f"best of {len(rates)} rates, {one.base.name} of {len(others)}"


# === Rows of a study ===


def make_rows(
    approaches: Sequence[Approach], with_probe: bool = True
) -> list[Row]:
    """The rows of a study: means over tasks, then each task's.

    Means are over the most tasks on which an approach is compared. Of several
    files of a task, the largest counts.

    Args:
        approaches: see `list_approaches`.
        with_probe: whether the probe is among them.
    """
    approaches = [one for one in approaches if with_probe or not one.is_probe]
    by_name: dict[str, dict[str, Approach]] = {}
    for one in approaches:
        if one.is_compared:
            on_tasks = by_name.setdefault(one.name, {})
            on_tasks.setdefault(one.first.task, one)
    most = max(by_name.values(), key=len, default={})
    groups = []
    if len(most) > 1:
        groups.append([one.base for one in most.values() if one.base])
        for tasks in by_name.values():
            if tasks.keys() == most.keys():
                groups.append([*tasks.values()])
    return [_make_row(members) for members in groups] + [
        _make_row([one]) for one in approaches
    ]


def _make_row(members: Sequence[Approach]) -> Row:
    """The row of an approach on a task, or of its mean over several."""
    first, runs = members[0], [one.runs for one in members]
    kind, score = runs_lib.choose_split(runs), average([[r] for r in runs])
    validation, test = score, UNKNOWN
    if kind == "test":
        validated = [one.validation.mean() for one in runs]
        validation, test = Ranged(float(np.mean(validated))), score
    scores = [runs_lib.measure_runs("score", one) for one in runs]
    texts = sum(map(count_texts, runs))
    row = Row(
        first.name,
        first.task if len(members) == 1 else f"mean of {len(members)} tasks",
        validation,
        test,
        seeds=0 if first.is_probe else min(map(len, map(known, scores))),
        scored=count(texts, f"{kind} text") if texts > 1 else "",
        is_reference=first.base is first,
        is_baseline=first.is_probe or not first.first.blocks,
        note=first.note,
    )
    pairs = [
        (one.runs, one.base.runs)
        for one in members
        if one.base is not None and one.is_compared
    ]
    if len(pairs) < len(members):
        return row
    weights = [
        one.trainable_parameters.mean() / base.trainable_parameters.mean()
        for one, base in pairs
    ]
    measure, time_of = "seconds", "time"
    if any(runs_lib.is_cut_off(runs) for pair in pairs for runs in pair):
        measure, time_of = "seconds_per_epoch", "time per epoch"
    return dataclasses.replace(
        row,
        difference=average(pairs),
        time=average(pairs, measure),
        time_of=time_of,
        weights=100 * float(np.mean(weights)),
    )


def average(
    on_tasks: Sequence[Sequence[pd.DataFrame]], measure: str = "score"
) -> Ranged:
    """The mean over tasks of a measure, or of its difference.

    Args:
        on_tasks: runs; or those of an approach and of its base.
        measure: see `runs_lib.MEASURES`. A time is percent of the base's, with
            an interval where the runs were timed in turn.

    Returns:
        Nothing where some have no value.
    """
    is_time = measure in runs_lib.DURATIONS
    contrasts: list[Contrast] = []
    cells: list[Cell] = []
    for groups in on_tasks:
        names = [measure] * len(groups)
        compared = groups_lib.measure(names, groups, logarithms=is_time)
        if not all(len(cell.values) for cell in compared):
            return UNKNOWN
        cells += compared
        value, *others = map(Contrast.of, compared)
        for other in others:
            value -= other
        contrasts.append(value)
    ranged = estimates.mean(contrasts).ranged(is_time)
    if is_time and not all(cell.in_turn for cell in cells):
        return Ranged(ranged.value)
    return ranged


# === Finished runs ===


def compare_runs(
    paths: Mapping[str, str], reference: str = "", kind: str = ""
) -> list[Row]:
    """A row for each finished run, with differences over the same texts.

    Args:
        paths: their directories, by what to call them.
        reference: the one that others are compared with. Unset: the best on
            the split that is compared.
        kind: of that split. Unset: `validation`, where all runs have it, as the
            test must not choose; else `test`.

    Returns:
        No row for runs that have stored no predictions.
    """
    opened = {}
    for name, path in paths.items():
        splits = (open_scored(path, split) for split in ("validation", "test"))
        opened[name] = {one.kind: one for one in splits if one is not None}
    if not kind:
        has_validated = ["validation" in splits for splits in opened.values()]
        kind = "validation" if all(has_validated) else "test"
    runs = {name: one[kind] for name, one in opened.items() if kind in one}
    if reference not in runs:
        reference = max(runs, key=lambda name: runs[name].score, default="")
    rows = []
    for name, run in runs.items():
        other = runs[reference]
        trained = not run.record["approach"].startswith(BASELINES)
        parameters = max(other.record["trainable_parameters"], 1)
        shown = {split: one.ranged for split, one in opened[name].items()}
        rows.append(
            Row(
                name,
                validation=shown.get("validation", UNKNOWN),
                test=shown.get("test", UNKNOWN),
                difference=UNKNOWN if run is other else run.minus(other),
                time=Ranged(100 * _seconds(run) / _seconds(other)),
                weights=100 * run.record["trainable_parameters"] / parameters,
                seeds=1 if trained else 0,
                scored=count(len(run.ids), f"{kind} text"),
                is_reference=run is other,
                is_baseline=not trained,
            )
        )
    return rows


def _seconds(run: Scored) -> float:
    """What a run took, as if it had built its feature cache itself."""
    record = run.record
    seconds = record["train_seconds"] - (record["prefix_seconds"] or 0.0)
    return max(seconds + (record["prefix_build_seconds"] or 0.0), 1e-3)


# === Names ===


def label_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with `text` and `trains`: what they read and train, in words.

    A text is the task, with the size where it was run on several files.

    Args:
        runs: of a study, see `runs_lib.runs_frame`.
    """
    files = runs.groupby("task").data_identity.transform("nunique")
    sizes = [f" ({sum(sizes.values()):,} texts)" for sizes in runs.sizes]
    runs = runs.assign(
        text=runs.task + pd.Series(sizes, runs.index).where(files > 1, ""),
        trains=[*map(name_approach, runs.approach, runs.cached)],
    )
    for _, members in runs.groupby(["text", "trains"]):
        named = [_leave_out(known, UNNAMED) for known in members.settings]
        runs.loc[members.index, "trains"] += describe_differences(named)
    return runs


def describe_differences(
    groups: Sequence[Mapping[str, Any]], form: str = ", {} {}"
) -> list[str]:
    """The settings in which some groups differ, in words.

    Args:
        groups: settings of each.
        form: of a setting, with its name and value.
    """
    texts = [""] * len(groups)
    for name in dict.fromkeys(name for settings in groups for name in settings):
        values = [str(plain(settings.get(name, ""))) for settings in groups]
        if len({*values}) > 1:
            for number, value in enumerate(values):
                if value:
                    texts[number] += form.format(name, value)
    return texts


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
    """What to call a baseline.

    Args:
        features: `frozen` or `tfidf`.
        is_tagging: whether words are labelled.
    """
    if features == "frozen":
        return PROBE
    return MOST_FREQUENT_TAG if is_tagging else TFIDF


# === What else a run knows ===


def describe_profile(profile: Mapping[str, Any]) -> str:
    """The depth profile in a line.

    Args:
        profile: what `depth_profile.json` says.
    """
    scores = " ".join(
        f"{100 * line['score']:.1f}" for line in profile["blocks"]
    )
    needed, last = profile["blocks_needed"], profile["blocks"][-1]["block"]
    if 0 < needed < last:
        scores += (
            f"; {needed} of {last} blocks are within a standard error of the "
            f"best: --keep_blocks={needed}"
        )
    return (
        f"Depth profile, {profile['metric']} of the probe below block 1 and "
        f"above each block: {scores}."
    )


def describe_curve(runs: Mapping[int, Scored]) -> str:
    """The scores, and how much the last texts added.

    Args:
        runs: By number of training texts, rising, two at least. Each has the
            texts of those before it, and all are scored on the same texts.
    """
    *_, fewer, size = runs
    run = runs[size]
    scores = [f"{one.score:.1f} with {n:,}" for n, one in runs.items()]
    gain = run.minus(runs[fewer])
    verdict = "It is not shown that more labelled texts would help."
    if gain.low > 0:
        verdict = "More labelled texts are likely to help."
    return (
        f"Learning curve, {run.metric} on {len(run.ids):,} {run.kind} texts: "
        f"{', '.join(scores)} training texts. The last {size - fewer:,} added "
        f"{gain.show(1, '+', ' points')}. {verdict}"
    )
