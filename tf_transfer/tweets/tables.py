"""The tables and figures of "Task-Specific Training", with runs of `tweets`.

Published figures are in `experiments/tweets/published.json`: the printed ones,
and those of the author's own runs, which are public. All are in points.
"""

import math
from typing import Any

import pandas as pd
import scipy.stats

from tf_transfer.reports import (
    claims,
    figures,
    groups,
    runs as runs_lib,
    tables,
)
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table

NAMES = {
    "fine_tuning": "unfrozen",
    "last_0": "pooler trained",
    "last_2": "last two blocks",
    "probe": "the probe (ours)",
}
HELD_OUT = 762  # tweets; a fold of ten has 761 or 762
METRICS = {"accuracy": "accuracy", "f1": "F1"}


def name_approach(approach: str, settings: claims.Settings) -> str:
    """What is trained, as the paper calls it."""
    if approach == "last_0" and settings["pooler"] == "frozen":
        return "frozen"
    name = NAMES.get(approach, approach.replace("_", " "))
    loaded = settings.get("load_blocks", "all")
    if loaded == "all":
        return name
    return f"{name}, loaded blocks: {loaded}"


def list_tables(study: Study) -> list[Table]:
    """Tables 1 and 2, and the t-tests of section 5.2.

    There are none of texts that are not as many as the paper's.
    """
    if not _has_as_many_texts(study):
        return []
    return [
        Table(
            "table_1",
            "Table 1: logistic regression on sparse features, in points, with "
            "the standard deviation over ten folds. His folds: from the "
            "author's public result files. Empty: not run",
            table_1(study),
        ),
        Table(
            "table_2",
            "Table 2: BERT, in points, with the standard deviation over n "
            "runs. The paper exchanges the figures of two rows. Its F1 is the "
            "harmonic mean of the recall of disasters and the precision of "
            "other tweets. His runs: the named model's, from the author's "
            "public predictions. Majority baseline: 57.3. Empty: not "
            "published, or not run",
            table_2(study),
        ),
        Table(
            "t_tests",
            "Section 5.2: Welch's t-tests of accuracy. Empty: not run, or a "
            "model is not shown to be above the majority baseline",
            t_tests(study),
        ),
    ]


def list_figures(study: Study) -> list[Figure]:
    """Figures 1 and 2, where boxes have runs; see `list_tables`."""
    drawn: list[Figure] = []
    if _has_as_many_texts(study):
        drawn += draw_boxes(
            study,
            1,
            "Figure 1: accuracy and F1 of the sparse features over ten folds. "
            "Boxes: here; diamonds: the author's folds",
        )
        drawn += draw_boxes(
            study,
            2,
            "Figure 2: accuracy and F1 of BERT over trials. Boxes: here; "
            "diamonds: the lowest, the median and the highest accuracy of the "
            "author's ten runs, and their mean F1. The F1 is the standard "
            "one, not the paper's",
        )
    return drawn


def table_1(study: Study) -> pd.DataFrame:
    """Accuracy and F1 of sparse features, over folds."""
    lines = []
    for row in study.published["table_1"]:
        runs = find_runs(study, row["settings"])
        line = {"model": row["name"]}
        for metric, title in METRICS.items():
            line[f"{title}, published"] = _show_printed(row, metric)
            line[f"{title}, his folds"] = _show_his(row, metric)
            line[f"{title}, here"] = show(metric, runs)
        lines.append(line)
    return pd.DataFrame(lines)


def table_2(study: Study) -> pd.DataFrame:
    """Accuracy, the paper's F1 and the standard one; readings, if run."""
    rows = study.published["table_2"]
    printed = {row["printed_as"]: row for row in rows}
    lines = []
    for row in [*rows, *study.published["ours"]]:
        runs = find_runs(study, row["settings"])
        if len(runs) or "reading" not in row:
            theirs = printed.get(row["name"], {})
            line = {
                "model": _name(row),
                "n": len(runs) or "",
                "accuracy, published": _show_printed(theirs, "accuracy"),
                "accuracy, his runs": _show_his(row, "accuracy"),
                "accuracy, here": show("accuracy", runs),
                "paper's F1, published": _show_printed(theirs, "f1"),
                "paper's F1, his runs": _show_printed(row, "f1"),
                "paper's F1, here": show("f1_hart", runs),
                "F1, his runs": _show_his(row, "f1"),
                "F1, here": show("f1", runs),
            }
            lines.append(line)
    return pd.DataFrame(lines)


def t_tests(study: Study) -> pd.DataFrame:
    """Welch's tests of two models' accuracies; readings, if run."""
    lines = []
    for test in study.published["t_tests"]:
        first = find_runs(study, test["first"])
        second = find_runs(study, test["second"])
        ours: dict[str, str] = {}
        if _can_test(first) and _can_test(second):
            result = scipy.stats.ttest_ind(
                first.score, second.score, equal_var=False
            )
            ours = {
                "t": f"{result.statistic:.2f}",
                "df": f"{result.df:.0f}",
                "p": f"{result.pvalue:.2g}",
                "n": f"{len(first)} and {len(second)}",
            }
        if ours or "reading" not in test:
            line = {"models": _name(test), "n": ours.get("n")}
            for name in ("t", "df", "p"):
                line[f"{name}, published"] = test[name]
                line[f"{name}, here"] = ours.get(name)
            lines.append(line)
    return pd.DataFrame(lines)


def draw_boxes(study: Study, number: int, caption: str) -> list[Figure]:
    """Box plots of accuracy and F1, next to the values of the author's runs.

    Args:
        study: theirs.
        number: of the figure, and of the table of its means.
        caption: see `study.Figure`.

    Returns:
        One figure; none, if no row has several values.
    """
    labels, drawn = [], []
    for row in study.published[f"table_{number}"]:
        runs = find_runs(study, row["settings"])
        if len(measure("accuracy", runs)) > 1:
            labels.append(_name(row))
            drawn.append((row["points"], runs))
    if not drawn:
        return []
    figure, axes = figures.make_panels(len(METRICS), 1.2 + 0.5 * len(drawn))
    for axis, (metric, title) in zip(axes, METRICS.items()):
        axis.boxplot(
            [measure(metric, runs) for _, runs in drawn],
            orientation="horizontal",
            tick_labels=labels,
        )
        for height, (points, _) in enumerate(drawn, 1):
            for value in points[metric]:
                axis.plot(value, height + 0.3, "d", color=figures.OTHERS[0])
        axis.invert_yaxis()
        figures.add_frame(axis, "", f"{title}, points")
    axes[1].set_yticklabels([])
    return [figures.finish(figure, {}, f"figure_{number}", caption)]


def find_runs(study: Study, settings: claims.Settings) -> pd.DataFrame:
    """The runs of a row; see `tables.find_runs`."""
    return tables.find_runs(study, "tweets", settings)


def measure(metric: str, runs: pd.DataFrame) -> list[float]:
    """The known values of a metric in points, one a run or a fold."""
    return runs_lib.known(runs_lib.measure_runs(metric, runs))


def show(metric: str, runs: pd.DataFrame) -> str:
    """Mean and standard deviation of a metric over runs or folds."""
    return tables.spread(measure(metric, runs))


def _has_as_many_texts(study: Study) -> bool:
    sizes = [size.get("test", 0) for size in study.runs.sizes]
    return any(HELD_OUT - 1 <= size <= HELD_OUT for size in sizes)


def _name(row: dict[str, Any]) -> str:
    reading = row.get("reading")
    return f"{row['name']}: {reading}" if reading else row["name"]


def _show_printed(row: dict[str, Any], metric: str) -> str:
    """The paper's mean, with its digits."""
    return tables.number(row.get(f"printed_{metric}", math.nan), 1)


def _show_his(row: dict[str, Any], metric: str) -> str:
    """Mean of the author's runs, with the deviation if it is known."""
    text = tables.number(row.get(metric, math.nan))
    deviation = row.get(f"{metric}_deviation")
    return f"{text} ± {deviation:.2f}" if deviation else text


def _can_test(runs: pd.DataFrame) -> bool:
    return len(runs) > 1 and not groups.did_not_train(runs)
