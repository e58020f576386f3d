"""The words and the table of a decision, for train, search and report."""

import functools
import math
from collections.abc import Mapping, Sequence

import jinja2
import numpy as np

from tf_transfer.comparison import decisions
from tf_transfer.comparison.decisions import (
    Decision,
    judge_losses,
    MARGIN,
    NO,
    OPEN,
    PER_EPOCH,
    Row,
    TIME,
    YES,
)
from tf_transfer.comparison.estimates import Cell, Contrast, FEWEST_SEEDS
from tf_transfer.comparison.finished_runs import Scored
from tf_transfer.reports import run_groups as groups_lib
from tf_transfer.reports.verdicts import describe_needed_seeds
from tf_transfer.training.record_types import Profile
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import formatting
from tf_transfer.utils.formatting import count

TERMS = {"word": "TF-IDF of words", "char_wb": "TF-IDF of characters"}
EVERYTHING = "everything"
PROBE, TFIDF = "the probe", "the TF-IDF baseline"
MOST_FREQUENT_TAG = "the most frequent tag"
COST = "time, s"
LABELS_HELP = "More labelled texts are likely to help."
LABELS_UNSURE = "It is not shown that more labelled texts would help."
PROBE_FOLD_SHARE = 1 / 4  # of the probe's folds, tested over trained on
NAMES = {
    "last_0": "the head alone",
    "head": "the output layer alone",
    "tfidf": TFIDF,
}


# === The sentence ===


def advise(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """The advice: what to train, its gain, loss and cost, and how sure it is.

    Args:
        rows: See `decisions.decide`.
        margin: See `decisions.decide`.
    """
    return describe_decision(decisions.decide(rows, margin))


def warn(rows: Sequence[Row], margin: float = MARGIN) -> str:
    """Why no row can be recommended, a sentence; "" if one can.

    Args:
        rows: See `decisions.find_problem`.
        margin: See `decisions.find_problem`.
    """
    problem = decisions.find_problem(rows, margin)
    return "" if problem is None else describe_decision(problem)


def describe_decision(decision: Decision) -> str:
    """A decision as a sentence; see `templates/advice.txt.jinja`."""
    needed, best = "", decision.best
    if best is not None and decision.margin and decision.word == OPEN:
        needed = _describe_needed_seeds(best, decision.margin)
    template = _make_environment().get_template("advice.txt.jinja")
    return " ".join(template.render(decision=decision, needed=needed).split())


@functools.cache
def _make_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tf_transfer.reports"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        certainty=_describe_certainty,
        cost=_describe_cost,
        points=describe_points,
        title=_name_reference,
    )
    return environment


def _name_reference(row: Row) -> str:
    """A row that others are compared with: `training last 2`, `the probe`."""
    return row.name if row.is_baseline else f"training {row.name}"


# === The table ===


def explain_table(margin: float) -> str:
    """How to read the table, a sentence.

    Args:
        margin: See `advise`.
    """
    times = (
        f"`{COST}`: from the start of training to its end, with the build of "
        "the feature cache. Times are compared where they were measured alike"
    )
    if not margin:
        return times
    return (
        f"*Loses < {describe_points(margin)}*: {YES} or {NO} where that is "
        "shown at 5 % (Holm), else *open* and how many seeds would decide. "
        f"{times}"
    )


def describe_points(margin: float) -> str:
    """`1 point`, `0.5 points`."""
    return "1 point" if margin == 1 else f"{margin:g} points"


def _describe_certainty(row: Row, other: Row) -> str:
    """The folds or seeds and texts of a difference, in brackets."""
    sources = [row.task, row.scored]
    numbers = [n for n in (row.folds, other.folds) if n]
    unit = "fold"
    if not numbers:
        numbers = [n for n in (row.seeds, other.seeds) if n]
        unit = "seed"
    if numbers:
        sources.insert(1, count(min(numbers), unit))
    text = ", ".join(filter(None, sources))
    if numbers and min(numbers) < FEWEST_SEEDS:
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
        rows: See `advise`.
        margin: The largest accepted loss, in points.
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
                needed = _describe_needed_seeds(row, margin)
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
                "seeds": "" if row.folds else str(row.seeds or ""),
                "folds": str(row.folds or ""),
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


def show_lines(lines: Sequence[str], table: Sequence[Mapping[str, str]]) -> str:
    """The answer of a search, its table behind the first line."""
    first, *others = lines
    return "\n".join([first, *([align(table)] if table else []), *others])


def _describe_needed_seeds(row: Row, margin: float) -> str:
    """About how many seeds would decide whether a loss is below a margin."""
    loss = row.difference
    if loss.estimate is None:
        return f"{FEWEST_SEEDS} seeds or more would decide"
    room = abs(loss.value + margin)
    return describe_needed_seeds(loss.estimate, room, max(row.seeds, 1))


# === Names ===


def name_approach(approach: str, cached: bool = False) -> str:
    """The name of an approach: `everything`, `last 2 (cached)`."""
    name = NAMES.get(approach, approach.replace("_", " "))
    for start, words in (("probe", PROBE), ("fine_tuning", EVERYTHING)):
        if approach.startswith(start):
            name = words + approach.removeprefix(start).replace("_", ", ")
    if cached and not name.startswith(PROBE):
        name += " (cached)"
    return name


def name_baseline(features: str, is_tagging: bool) -> str:
    """The name of a baseline that is not fitted yet.

    Args:
        features: `frozen` or `tfidf`.
        is_tagging: Whether words are labelled.
    """
    if features == "frozen":
        return PROBE
    return MOST_FREQUENT_TAG if is_tagging else TFIDF


def name_run(run: Scored) -> str:
    """The name of a finished run: `last 2`, `TF-IDF of characters`."""
    if run.approach != "tfidf":
        return name_approach(run.approach)
    config = RunDirectory(run.path, None).config() or {}
    options = config.get("chosen", {})
    return TERMS.get(options.get("analyzer"), MOST_FREQUENT_TAG)


# === Lines below a table ===


def describe_profile(profile: Profile) -> str:
    """The depth profile in a line.

    Args:
        profile: The content of `depth_profile.json`.
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
        f"Depth profile, cross-validated {profile['metric']} of the probe "
        "within the training texts, below block 1 and "
        f"above each block: {scores}."
    )


def describe_labels(profile: Profile) -> str:
    """The likely gain of more labelled texts, by the probe; "" if not known.

    The probe of each of its folds is fitted to half of the fold's texts, too.

    Args:
        profile: See `describe_profile`.
    """
    if "half_scores" not in profile:
        return ""
    gains = 100 * np.subtract(profile["fold_scores"], profile["half_scores"])
    cell = Cell(gains, fold_share=PROBE_FOLD_SHARE)
    gain = Contrast.of(cell).ranged()
    verdict = LABELS_HELP if gain.low > 0 else LABELS_UNSURE
    return (
        f"{verdict} From half of the training texts to all of them, the probe "
        f"gains {gain.show(1, '+', ' points')}, cross-validated."
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
    verdict = LABELS_HELP if gain.low > 0 else LABELS_UNSURE
    return (
        f"Learning curve, {run.metric} on {len(run.ids):,} {run.kind} texts: "
        f"{', '.join(scores)} training texts. The last {size - fewer:,} added "
        f"{gain.show(1, '+', ' points')}. {verdict}"
    )
