"""The approaches of a study, each at its rate, and rows that compare them."""

import dataclasses
import functools
import os
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from tf_transfer.comparison import decisions, estimates
from tf_transfer.comparison.compare import Candidate, compare
from tf_transfer.comparison.decisions import Row
from tf_transfer.comparison.estimates import Cell, Contrast, Ranged, UNKNOWN
from tf_transfer.comparison.run_record import Setting, Settings
from tf_transfer.config.settings import METHOD_OPTIONS
from tf_transfer.reports import run_frame as runs_lib, run_groups as groups_lib
from tf_transfer.reports.advice import name_approach
from tf_transfer.reports.claims import plain
from tf_transfer.reports.run_frame import drop_missing
from tf_transfer.reports.run_groups import count_texts, did_not_train, Group
from tf_transfer.training.results import OUT_OF_TIME
from tf_transfer.utils.formatting import count

# Settings that do not divide approaches, and those that name none. Methods with
# other options are other approaches, never chosen by scores.
VARIED = {*runs_lib.VARIED, "untrained", "pooler"}
UNNAMED = {*runs_lib.VARIED} - {*METHOD_OPTIONS, *runs_lib.CACHING}


@dataclasses.dataclass(eq=False)
class Approach:
    """Runs of an approach on a task, at its rate.

    Attributes:
        task: Its name, with the size of its files where there are several.
        name: What is trained, in words.
        runs: See `runs_lib.runs_frame`.
        rates: That were tried, one of which was chosen on validation.
        base: What it is compared with, which may be itself; or None.
        note: Why it may not be compared, a clause; or "".
    """

    task: str
    name: str
    runs: pd.DataFrame
    rates: set[float]
    base: "Approach | None" = None
    note: str = ""

    @functools.cached_property
    def first(self) -> runs_lib.FrameRow:
        """The row of its first run."""
        row: runs_lib.FrameRow = next(self.runs.head(1).itertuples())
        return row

    @property
    def is_probe(self) -> bool:
        """Whether it is a regression on the frozen encoder."""
        return self.first.settings.get("features") == "frozen"

    @property
    def is_compared(self) -> bool:
        """Whether it is compared with another approach."""
        if self.base is None or self.base is self:
            return False
        return not self.note and not self.base.note


def list_approaches(
    runs: pd.DataFrame, of_paper: bool = True
) -> list[Approach]:
    """The approaches of a study, by task, the largest first.

    Of several rates, an approach has the one that is best on validation, over
    the seeds that all of them have. Where nothing validates, each is an
    approach.

    Args:
        runs: Of a study, see `label_runs`.
        of_paper: Whether the reference is training everything, and rates are
            chosen from equally many. Else it is the best on validation.
    """

    def identify(group: Group) -> tuple[str, ...]:
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
        for members in groups_lib.group_by(groups, identify).values():
            best = groups_lib.keep_best_rate(members)
            rates = {group.lr for group in members}
            for group in best or members:
                one = Approach(text, group.first.trains, group.runs, rates)
                if not best:
                    one.name += f", lr {group.lr:g}"
                    one.rates = {group.lr}
                on_task.append(one)
        for one in on_task:
            if of_paper:
                one.base = _find_base(one, on_task)
            else:
                one.base = _find_best(one, on_task)
            one.note = _find_reason(one, of_paper)
        on_task.sort(
            key=lambda one: (
                *(one.base is not one, one.first.cached),
                *(-one.runs.trainable_parameters.mean(), one.name),
            )
        )
        approaches += on_task
    return approaches


def _leave_out(
    settings: Settings, names: Collection[str]
) -> dict[str, Setting]:
    return {n: v for n, v in settings.items() if n not in names}


def _find_base(one: Approach, on_task: Sequence[Approach]) -> Approach | None:
    """The base of an approach, which may be itself.

    That is training all of a pretrained encoder with the same other settings. A
    baseline reads few settings: it is compared with the base that is best on
    validation. Where nothing trains everything, the base is the best.
    """
    full = [other for other in on_task if _trains_everything(other.first)]
    if not full:
        return _find_best(one, on_task)
    recipe = _leave_out(one.first.settings, VARIED)
    bases = [
        other
        for other in full
        if one.is_probe or _leave_out(other.first.settings, VARIED) == recipe
    ]
    if one in bases:
        return one
    if one.is_probe and (best := find_best_validated(bases)):
        return best
    if len(bases) > 1:  # several rates, which nothing validates
        bases = [base for base in bases if base.first.lr == one.first.lr]
    return bases[0] if len(bases) == 1 else None


def _find_best(one: Approach, on_task: Sequence[Approach]) -> Approach:
    """The best approach on the same data: on validation, else on the test."""
    identity = one.first.data_identity
    same_data = [o for o in on_task if o.first.data_identity == identity]
    return find_best_validated(same_data) or max(
        same_data, key=lambda other: other.runs.score.mean()
    )


def find_best_validated(some: Sequence[Approach]) -> Approach | None:
    """The best on validation of the approaches that have such a score."""
    validated = [one for one in some if one.runs.validation.notna().all()]
    return max(
        validated, key=lambda one: one.runs.validation.mean(), default=None
    )


def _trains_everything(run: runs_lib.FrameRow) -> bool:
    settings = run.settings
    if run.cached or settings.get("untrained"):
        return False
    if settings.get("blocks") or settings.get("load_blocks", "all") != "all":
        return False  # some blocks are frozen, or have random weights
    layers, method = settings.get("trainable_layers"), settings.get("method")
    return layers == "all" and method == "full"


def _find_reason(one: Approach, of_paper: bool) -> str:
    """Why an approach may not be compared with its base; or "".

    In a paper's study, the rates of both are chosen from equally many, or among
    those that both were tried at.
    """
    if did_not_train(one.runs):
        return groups_lib.FAILED
    if one.base is None or one.is_probe:
        return ""
    if (one.runs.stop_reason == OUT_OF_TIME).all() and one is not one.base:
        epochs, most = one.first.epochs_run, one.first.settings["max_epochs"]
        return f"ended by its time limit, after {epochs} of {most} epochs"
    if not of_paper:
        return ""
    rates, others = one.rates, one.base.rates
    best = {one.first.lr, one.base.first.lr}
    if len(rates) == len(others) or best <= rates & others:
        return ""
    return f"best of {len(rates)} rates, {one.base.name} of {len(others)}"


# === Rows of a study ===


def make_rows(approaches: Sequence[Approach]) -> list[Row]:
    """The rows of a study: means over tasks, then each task's.

    Means are over the most tasks on which an approach is compared. Of several
    files of a task, the largest counts.

    Args:
        approaches: See `list_approaches`.
    """
    by_name: dict[str, dict[str, Approach]] = {}
    for one in approaches:
        if one.is_compared:
            on_tasks = by_name.setdefault(one.name, {})
            on_tasks.setdefault(one.first.task, one)
    most = max(by_name.values(), key=len, default={})
    groups = []
    bases = [one.base for one in most.values() if one.base]
    # Where the best of each task is its base, a mean would mix approaches.
    if len(most) > 1 and len({base.name for base in bases}) == 1:
        groups.append(bases)
        for tasks in by_name.values():
            if tasks.keys() == most.keys():
                groups.append([*tasks.values()])
    return [_make_row(members) for members in groups] + [
        _make_row([one]) for one in approaches
    ]


def _make_row(members: Sequence[Approach]) -> Row:
    """The row of an approach on a task, or of its mean over several."""
    pairs = [
        (one, one.base)
        for one in members
        if one.base is not None and one.is_compared
    ]
    row = _describe_alone(members)
    if len(pairs) < len(members):
        return row
    measure, time_of = "seconds", decisions.TIME
    if any(runs_lib.is_cut_off(one.runs) for pair in pairs for one in pair):
        measure, time_of = "seconds_per_epoch", decisions.PER_EPOCH
    row = dataclasses.replace(row, time_of=time_of)
    is_timed = not (time_of == decisions.PER_EPOCH and row.is_baseline)
    # A cell depends on the other group: both are of one split and environment.
    scores = [_measure_pair("score", *pair) for pair in pairs]
    seconds = [_measure_pair(measure, *pair) for pair in pairs if is_timed]
    ours, base = (
        Candidate(
            row,
            [cells[side] for cells in scores],
            [cells[side] for cells in seconds],
            [pair[side].runs.trainable_parameters.mean() for pair in pairs],
        )
        for side in (0, 1)
    )
    [compared] = compare([ours], base)
    return compared


def _describe_alone(members: Sequence[Approach]) -> Row:
    """A row that is not compared yet."""
    first, runs = members[0], [one.runs for one in members]
    kind = runs_lib.choose_split(runs)
    cells = [groups_lib.measure(["score"], [one])[0] for one in runs]
    score, test = UNKNOWN, UNKNOWN
    if all(len(cell.values) for cell in cells):
        score = estimates.mean([*map(Contrast.of, cells)]).ranged()
    validation = score
    if kind == "test":
        validated = [one.validation.mean() for one in runs]
        validation, test = Ranged(float(np.mean(validated))), score
    scores = [runs_lib.measure_runs("score", one) for one in runs]
    texts = sum(map(count_texts, runs))
    return Row(
        first.name,
        first.task if len(members) == 1 else f"mean of {len(members)} tasks",
        validation,
        test,
        seeds=0 if first.is_probe else min(map(len, map(drop_missing, scores))),
        scored=count(texts, f"{kind} text") if texts > 1 else "",
        is_reference=first.base is first,
        is_baseline=first.is_probe or not first.first.blocks,
        seconds=float(np.mean([one.seconds[one.timed].mean() for one in runs])),
        is_cached=bool(first.first.cached),
        note=first.note,
    )


def _measure_pair(
    measure: str, one: Approach, base: Approach
) -> tuple[Cell, ...]:
    """The cells of an approach and its base; of times, as logarithms."""
    is_time = measure in runs_lib.DURATIONS
    groups = [one.runs, base.runs]
    return groups_lib.measure([measure] * 2, groups, logarithms=is_time)


# === Names ===


def label_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with `text` and `trains`: what they read and train, in words.

    A text is the task, with the size where it was run on several files, and
    with the file where those of one size are not the same file.

    Args:
        runs: Of a study, see `runs_lib.runs_frame`.
    """
    files = runs.groupby("task").data_identity.transform("nunique")
    sizes = [f" ({sum(sizes.values()):,} texts)" for sizes in runs.sizes]
    runs = runs.assign(
        text=runs.task + pd.Series(sizes, runs.index).where(files > 1, ""),
        trains=[*map(name_approach, runs.approach, runs.cached)],
    )
    for text, members in runs.groupby("text"):
        # Equal texts that a command finds elsewhere are no other file.
        sources = members.groupby("data_identity").data.first()
        if sources.nunique() > 1:
            names = members.data_identity.map(shorten_paths(sources))
            texts = [f"{text[:-1]}, {name})" for name in names]
            runs.loc[members.index, "text"] = texts
    for _, members in runs.groupby(["text", "trains"]):
        named = [_leave_out(settings, UNNAMED) for settings in members.settings]
        runs.loc[members.index, "trains"] += describe_differences(named)
    return runs


def shorten_paths(paths: "pd.Series[str]") -> "pd.Series[str]":
    """Paths from the folder that all of them are in."""
    try:
        folder = os.path.commonpath([*paths])
    except ValueError:  # not all of them are absolute
        return paths
    return paths.map(lambda path: path and os.path.relpath(path, folder or "."))


def describe_differences(
    groups: Sequence[Settings], form: str = ", {} {}"
) -> list[str]:
    """The settings in which some groups differ, in words.

    Args:
        groups: Settings of each.
        form: Of a setting, with its name and value.
    """
    texts = [""] * len(groups)
    # By name: a summary keeps settings in another order than a run.
    for name in sorted({name for settings in groups for name in settings}):
        values = [str(plain(settings.get(name, ""))) for settings in groups]
        if len({*values}) > 1:
            for number, value in enumerate(values):
                if value:
                    texts[number] += form.format(name, value)
    return texts
