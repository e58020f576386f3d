"""The tables and figures of "Task-Specific Training", with runs of `tweets`.

Published figures are in `experiments/tweets/published.json`: the printed ones,
and those of the author's own runs, which are public. All are in points.
"""

import functools
import math
import textwrap
from collections.abc import Mapping

import pandas as pd
import scipy.stats

from tf_transfer.comparison.run_record import Settings
from tf_transfer.reports import (
    figures,
    run_frame as runs_lib,
    tables,
)
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table
from tf_transfer.utils.json_files import Record

NAMES = {
    "fine_tuning": "unfrozen",
    "last_0": "pooler trained",
    "last_2": "last two blocks",
    "probe": "the probe (ours)",
}
HELD_OUT = 762  # tweets; a fold of ten has 761 or 762
TEST = ("t", "df", "p")  # of Welch's test
METRICS = {"accuracy": "accuracy", "f1": "F1"}
BERT_METRICS = {
    "accuracy": "accuracy",
    "f1_hart": "paper's F1",
    "f1": "standard F1 (ours)",
}
LABEL = 18  # characters of a line of a row's label, in a figure


def name_approach(approach: str, settings: Settings) -> str:
    """What is trained, as the paper calls it."""
    if approach == "last_0" and settings["pooler"] == "frozen":
        return "frozen"
    name = NAMES.get(approach, approach.replace("_", " "))
    loaded = settings.get("load_blocks", "all")
    if loaded == "all":
        return name
    return f"{name} (loaded blocks: {loaded})"


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
            "Table 2: BERT, in points, ± the standard deviation over n runs. "
            "The paper exchanges two rows; its F1 is of the recall of "
            "disasters and the precision of other tweets. His runs: from the "
            "author's predictions. Empty: not published, or not run",
            table_2(study),
        ),
        Table(
            "t_tests",
            "Section 5.2: Welch's t-tests of accuracy. Empty: not run",
            t_tests(study),
        ),
    ]


def list_figures(study: Study) -> list[Figure]:
    """Figures 1 and 2, where boxes have runs; see `list_tables`."""
    if not _has_as_many_texts(study):
        return []
    return [
        *draw_boxes(
            study,
            1,
            METRICS,
            "Figure 1: accuracy and F1 of the sparse features over ten folds. "
            "Boxes: here; diamonds: the author's folds",
        ),
        *draw_boxes(
            study,
            2,
            BERT_METRICS,
            "Figure 2: accuracy and F1 of BERT over trials. Boxes: here; "
            "diamonds: the author's ten runs. The paper's F1 is that of table "
            "2. The panel of the standard F1 is ours. A model without a box "
            "is not shown to be above the majority baseline here",
        ),
    ]


def table_1(study: Study) -> pd.DataFrame:
    """Accuracy and F1 of sparse features, over folds."""
    lines = []
    for row in study.published["table_1"]:
        runs = find_runs(study, row["settings"])
        line = {"model": row["name"]}
        for metric, title in METRICS.items():
            line[f"{title}, published"] = f"{row[f'printed_{metric}']:.1f}"
            line[f"{title}, his folds"] = _show_his(row, metric)
            line[f"{title}, here"] = tables.show(metric, runs)
        lines.append(line)
    return pd.DataFrame(lines)


def table_2(study: Study) -> pd.DataFrame:
    """Accuracy, the paper's F1 and the standard one; readings, if run."""
    rows = study.published["table_2"]
    printed = {row["printed_as"]: row for row in rows}
    lines = []
    for row, runs in tables.find_rows(
        [*rows, *study.published["ours"]], functools.partial(find_runs, study)
    ):
        theirs = printed.get(row["name"], {})
        line = {
            "model": _name(row),
            "n": len(runs) or "",
            "accuracy, published": str(theirs.get("printed_accuracy", "")),
            "accuracy, his runs": _show_his(row, "accuracy"),
            "accuracy, here": tables.show("accuracy", runs),
            "paper's F1, published": str(theirs.get("printed_f1", "")),
            "paper's F1, his runs": str(row.get("printed_f1", "")),
            "paper's F1, here": tables.show("f1_hart", runs),
            "F1, his runs": _show_his(row, "f1"),
            "F1, here": tables.show("f1", runs),
        }
        lines.append(line)
    return pd.DataFrame(lines)


def t_tests(study: Study) -> pd.DataFrame:
    """Welch's tests of two models' accuracies; readings, if run."""
    lines = []
    for test in study.published["t_tests"]:
        both = [find_runs(study, test[name]) for name in ("first", "second")]
        ours: dict[str, str] = {}
        if all(len(runs) > 1 for runs in both):
            mark = tables.find_mark(both)
            ours = dict.fromkeys(TEST, mark) if mark else _test(*both)
        if ours or "reading" not in test:
            line = {"models": _name(test)}
            for name in TEST:
                line |= tables.pair(name, test[name], ours.get(name))
            lines.append(line)
    return pd.DataFrame(lines)


def _test(first: pd.DataFrame, second: pd.DataFrame) -> dict[str, str]:
    """Welch's test of the scores of two groups."""
    result = scipy.stats.ttest_ind(first.score, second.score, equal_var=False)
    values = (
        f"{result.statistic:.2f}",
        f"{result.df:.0f}",
        f"{result.pvalue:.2g}",
    )
    return dict(zip(TEST, values))


def draw_boxes(
    study: Study, number: int, metrics: Mapping[str, str], caption: str
) -> list[Figure]:
    """Box plots of scores, next to all values of the author's runs.

    Args:
        study: Theirs.
        number: Of the figure, and of the table of its means.
        metrics: The label of each panel's metric.
        caption: See `study.Figure`.

    Returns:
        One figure; none, if no row has several values.
    """
    boxes = []
    for row in study.published[f"table_{number}"]:
        runs = find_runs(study, row["settings"])
        if len(runs_lib.measure_runs("accuracy", runs)) > 1:
            boxes.append((row, runs))
    if not boxes:
        return []
    figure, axes = figures.make_panels(len(metrics), 1.2 + 0.5 * len(boxes))
    for axis, (metric, title) in zip(axes, metrics.items()):
        axis.boxplot(
            [
                runs_lib.measure_runs(
                    metric, runs[:0] if tables.find_mark([runs]) else runs
                )
                for _, runs in boxes
            ],
            orientation="horizontal",
            tick_labels=[textwrap.fill(_name(row), LABEL) for row, _ in boxes],
        )
        for height, (row, _) in enumerate(boxes, 1):
            points = row["points"][metric]
            heights = [height + 0.3] * len(points)
            axis.plot(points, heights, "d", color=figures.OTHERS[0], alpha=0.5)
        axis.invert_yaxis()
        figures.add_frame(axis, "", f"{title}, points")
    return [figures.finish(figure, {}, f"figure_{number}", caption)]


def find_runs(study: Study, settings: Settings) -> pd.DataFrame:
    """The runs of a row; see `tables.find_runs`."""
    return tables.find_runs(study, "tweets", settings)


def _has_as_many_texts(study: Study) -> bool:
    tested = study.runs.sizes.str["test"]
    return bool(tested.between(HELD_OUT - 1, HELD_OUT).any())


def _name(row: Record) -> str:
    reading = row.get("reading")
    return f"{row['name']}: {reading}" if reading else row["name"]


def _show_his(row: Record, metric: str) -> str:
    """Mean of the author's runs, with its standard deviation if known."""
    text = tables.number(row.get(metric, math.nan))
    deviation = row.get(f"{metric}_deviation")
    return f"{text} ± {deviation:.2f}" if deviation else text
