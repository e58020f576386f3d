"""Tables and figures of "Task-Specific Training", from runs of `tweets`.

The paper tests sparse baselines in ten folds, and encoders ten times on one
held-out set. Baselines that were tested on that set (`--folds=0`) are in the
tables of the encoders. Any table of texts and labels may replace the paper's.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import scipy.stats

from tf_transfer.reports import (
    claims,
    frames,
    groups as groups_lib,
    measures,
    plots,
    tables,
    wording,
)
from tf_transfer.reports.study import Figure, Study

NAMES = {"fine_tuning": "unfrozen", "last_2": "last two blocks"}
F1 = {"f1": "F1", "f1_macro": "macro F1"}  # of two labels, and of many
PAPER_F1 = "F1, computed as in the paper"
# Columns that are equal for runs on the same texts.
SPLIT = ["task", "data_identity", "in_folds"]
MOST_BOXES = 8


def name_approach(approach: str, settings: claims.Settings) -> str:
    """What is trained, as the paper calls it."""
    if approach.startswith("probe"):
        return "the probe (ours)"
    if "features" in settings:
        is_raw = settings["preprocessing"] == "none"
        return f"{approach} of raw words" if is_raw else approach
    is_frozen = settings.get("pooler") == "frozen"
    if approach == "last_0":
        return "frozen" if is_frozen else "pooler trained"
    loaded = settings.get("load_blocks", "all")
    name = NAMES.get(approach, approach.replace("_", " "))
    if loaded == "none":
        name += ", nothing loaded"
    elif loaded != "all":
        name += f", blocks {loaded} loaded"
    return f"{name}, pooler frozen" if is_frozen else name


def label_runs(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with columns of their own, the most trained first, baselines last.

    `has_sizes`: what was trained on several numbers of examples at its rate;
    `has_grid`: of its number of examples, two or more have several rates;
    `published`: the row of the paper that its group fills, or {}.
    """
    caches = runs.settings.map(tables.describe_cache)
    runs = runs.assign(
        label=[*map(tables.join, runs.approach, caches)],
        rate=runs.lr.map("{:g}".format).where(~runs.baseline, ""),
        trained=runs.trainable_parameters.where(~runs.baseline, 0),
        examples=[sizes.get("train", 0) for sizes in runs.sizes],
        in_folds=[bool(record["folds"]) for record in runs.record],
        texts=runs.record.map(_describe_texts),
    )
    runs["named"] = [*map(tables.join, runs.label, runs.rate)]
    sizes = runs.groupby([*SPLIT, "named"]).examples.transform("nunique")
    rates = runs.groupby([*SPLIT, "examples", "label"]).lr.transform("nunique")
    runs["tried"] = runs.label.where(rates > 1)
    tried = runs.groupby([*SPLIT, "examples"]).tried.transform("nunique")
    published = _find_published(study, runs)
    runs["published"] = [published.get(group, {}) for group in runs.group]
    return runs.assign(has_sizes=sizes > 1, has_grid=tried > 1).sort_values(
        ["baseline", "trained", "approach", "examples", "lr", "cached"],
        ascending=[True, False, True, False, True, True],
    )


def _describe_texts(record: frames.Record) -> str:
    """What a run is tested on: `10 folds` or `762 held-out texts`."""
    if record["folds"]:
        return wording.count(len(record["folds"]), "fold")
    return f"{record['sizes'].get('test', 0):,} held-out texts"


def _find_published(study: Study, runs: pd.DataFrame) -> dict[int, Any]:
    """The published rows that groups of runs fill, by the group's number."""
    found = {}
    for _, members in runs.groupby(SPLIT):
        for row in study.published.get("rows", ()):
            ours = tables.find_published(members, study.paper, row["settings"])
            found.update(dict.fromkeys(ours.group, row))
    return found


# === Tables ===


def _list_t_tests(part: tables.Part) -> Iterator[tables.Line]:
    """Welch's t-test of the runs of each claim that the paper tests.

    `p_equal` is the p-value of two one-sided tests within the claim's margin.
    Groups that did not train have no test.
    """
    paper, groups = part.study.paper, groups_lib.list_groups(part.runs)
    known = part.study.published.get("t_tests", {})
    if paper is None:
        return
    for claim in paper.claims:
        if claim.id not in known:
            continue
        sides = [*claim.first, *claim.second]
        try:
            chosen = groups_lib.find_groups(groups, paper, sides)
        except groups_lib.NotFound:
            continue
        first, second = (group.runs for group in chosen)
        if min(len(first), len(second)) < 2:
            continue
        if tables.describe_failure(first) or tables.describe_failure(second):
            continue
        test = _test(first, second, 0, "two-sided")
        above = _test(first, second, -claim.margin, "greater")
        below = _test(first, second, claim.margin, "less")
        values = {
            "groups": f"{first.named.iloc[0]} and {second.named.iloc[0]}",
            "each": f"{len(first)} and {len(second)}",
            "t": test.statistic,
            "df": test.df,
            "p": f"{test.pvalue:.2g}",
            "margin": claim.margin,
            "p_equal": f"{max(above.pvalue, below.pvalue):.2g}",
        }
        values.update(known[claim.id])
        yield tables.Line(part, values=values)


def _test(
    first: pd.DataFrame, second: pd.DataFrame, bound: float, alternative: str
) -> Any:
    """Welch's t-test of accuracies whose difference is a bound."""
    shifted = second.score.to_numpy() + bound
    return scipy.stats.ttest_ind(
        first.score.to_numpy(),
        shifted,
        equal_var=False,
        alternative=alternative,
    )


def _show_published_f1(line: tables.Line) -> str:
    """The paper's F1, and the standard one of the same runs if it differs."""
    row = line.runs.published.iloc[0]
    if not row:
        return ""
    text = f"{row['printed_f1']:.1f}"
    if "printed_as" in row:
        text += f" ({row['f1']:.1f})"
    return text


def _measure_f1(line: tables.Line) -> dict[str, list[float]]:
    """F1; of encoders next to published ones also what the paper calls so."""
    names = {name: F1[name] for name in _choose_f1(line.part)}
    if any(line.part.runs.published) and not line.runs.baseline.iloc[0]:
        names["f1_hart"] = PAPER_F1
    scores = {}
    for name, title in names.items():
        scores[title] = measures.measure_runs(name, line.runs)
    return scores


def _choose_f1(part: tables.Part) -> list[str]:
    """The F1 that all runs have: of one label, if there are two."""
    return [name for name in F1 if name in part.metrics][:1]


def _name_or_failure(line: tables.Line) -> str:
    failure = tables.describe_failure(line.runs)
    return tables.join(line.runs.label.iloc[0], failure)


def _show_published_accuracy(line: tables.Line) -> float | None:
    return line.runs.published.iloc[0].get("printed_accuracy")


MEASURES: dict[str, tables.Measure] = {
    "trains": _name_or_failure,
    "f1": _measure_f1,
    "published_accuracy": _show_published_accuracy,
    "published_f1": _show_published_f1,
}

ROWS = {"t_tests": _list_t_tests}


# === Figures ===


def figures(study: Study) -> list[Figure]:
    """Boxes of folds and of trials, the paper's figures."""
    drawn = []
    for part in tables.divide_runs(study, SPLIT):
        boxes = _choose_boxes(part)
        if boxes:
            drawn.append(_draw_boxes(part, boxes))
    return drawn


def _choose_boxes(part: tables.Part) -> list[tables.Line]:
    """Groups of several values; of many groups, those at the paper's rate."""
    lines = []
    for line in tables.list_groups(part):
        values = wording.known(measures.measure_runs("accuracy", line.runs))
        if len(values) > 1 and not tables.describe_failure(line.runs):
            lines.append(line)
    if len(lines) > MOST_BOXES:
        rate = part.study.paper and part.study.paper.settings["lr"]
        most = max(line.runs.examples.iloc[0] for line in lines)
        lines = [x for x in lines if x.runs.examples.iloc[0] == most]
        lines = [x for x in lines if x.runs.lr.iloc[0] == rate] or lines
    return lines[:MOST_BOXES]


def _name_box(line: tables.Line) -> str:
    """What trains, its rate, and how many examples if they are limited."""
    name = line.runs.named.iloc[0]
    size = line.settings.get("max_train_examples")
    return f"{name}, {size:,} examples" if size else name


def _draw_boxes(part: tables.Part, lines: Sequence[tables.Line]) -> Figure:
    """Box plots: a panel for each metric, a box for each group."""
    first = part.runs.iloc[0]
    over, number, but = "trials", 2, ", but for its F1"
    if first.in_folds:
        over, number, but = "folds", 1, ""
    shown = ["accuracy", *_choose_f1(part)]
    names = [_name_box(line) for line in lines]
    figure, axes = plots.make_panels(len(shown), 1.2 + 0.45 * len(lines))
    for axis, metric in zip(axes, shown):
        boxes = []
        for line in lines:
            scores = measures.measure_runs(metric, line.runs)
            boxes.append(wording.known(scores))
        axis.boxplot(
            boxes,
            orientation="horizontal",
            tick_labels=names,
            widths=0.55,
            medianprops={"color": plots.APPROACH_COLOURS["last_4"]},
        )
        if axis is not axes[0]:
            axis.set_yticklabels([])
        axis.invert_yaxis()
        plots.add_frame(axis, "", f"{F1.get(metric, metric)}, points")
    return plots.finish(
        figure,
        {},
        f"{over}_{part.words['number']}_{first.task}",
        f"{first.task}, {first.texts}: accuracy and F1 over {over}, as in the "
        f"paper's figure {number}{but}",
    )
