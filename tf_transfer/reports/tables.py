"""Tables, the formats of their cells, and the runs of a row of a paper's table.

A value that is not known is an empty text.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self

import numpy as np
import pandas as pd

from tf_transfer.comparison.estimates import Ranged
from tf_transfer.comparison.run_record import Settings
from tf_transfer.data import error_analysis as errors_lib
from tf_transfer.reports import (
    run_frame as runs_lib,
    run_groups as groups_lib,
)
from tf_transfer.reports.reading import Search
from tf_transfer.reports.study import Study
from tf_transfer.utils.json_files import Record

Value = str | float | None  # of a cell
Values = Iterable[float | None]  # one for each run; some are not known
NAMES = {"id": "row", "standard_deviation": "standard deviation"}
HERE = re.compile(r"\bhere\b")  # in the title of a column of runs' values
# What stands in place of a difference that no claim would rest on.
NOTES = {
    "†": "a model, or the one that it is compared with, is "
    + groups_lib.FAILED,
    "‡": "the majority baseline of one of them is not known",
}
RATES = ("precision", "recall", "f1", "probability")  # shown in points


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as it is shown.

    Attributes:
        name: Of its CSV file.
        caption: What it shows, in which units.
        frame: Cells as text or numbers; nan and None are shown empty.
        open: Whether the page shows it unfolded.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    open: bool = False

    @property
    def title(self) -> str:
        """The beginning of the caption, such as `Table 2`."""
        return re.split("[:,]", self.caption)[0]

    @property
    def note(self) -> str:
        """The meaning of the marks in its cells; empty without marks."""
        cells = {*self.frame.astype(str).to_numpy().ravel()}
        used = [mark for mark in NOTES if mark in cells]
        return " ".join(f"{mark}: {NOTES[mark]}." for mark in used)

    @property
    def columns_of_runs(self) -> list[str]:
        """The columns that runs fill: those whose titles say `here`.

        Where none does, all but the first, which names the row.
        """
        columns = list(self.frame.columns)
        return [c for c in columns if HERE.search(str(c))] or columns[1:]

    def keep_runs(self) -> Self:
        """The table without the rows that no run has filled."""
        ours = self.frame[self.columns_of_runs]
        is_filled = (ours.notna() & (ours != "")).any(axis=1)
        return dataclasses.replace(self, frame=self.frame[is_filled])


# === Formats of cells ===


def mean(values: Values) -> float:
    """The mean of the known values; nan without any."""
    numbers = runs_lib.drop_missing(values)
    return float(np.mean(numbers)) if numbers else math.nan


def deviation(values: Values) -> Ranged:
    """The mean of the known values, and one standard deviation either way."""
    numbers = runs_lib.drop_missing(values)
    middle = mean(numbers)
    reach = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else math.nan
    return Ranged(middle, middle - reach, middle + reach)


def spread(values: Values, digits: int = 2, sign: str = "") -> str:
    """Mean and standard deviation: `82.79 ± 0.31`; of one value, `82.79`.

    Args:
        values: One for each run.
        digits: After the point.
        sign: `+` shows the sign of positive numbers.
    """
    numbers = runs_lib.drop_missing(values)
    text = number(mean(numbers), digits, sign)
    if len(numbers) > 1:
        text += f" ± {np.std(numbers, ddof=1):.{digits}f}"
    return text


def number(value: float, digits: int = 2, sign: str = "") -> str:
    """A value rounded: `82.79`; an unknown one is empty."""
    return "" if pd.isna(value) else f"{value:{sign}z.{digits}f}"


def whole(value: float) -> str:
    """A count: `22,713,601`."""
    return "" if pd.isna(value) else f"{value:,.0f}"


def rate(value: float) -> str:
    """A learning rate: `2e-05`."""
    return "" if pd.isna(value) else f"{value:g}"


# === The rows of a paper's table ===


def find_runs(study: Study, task: str, wanted: Settings) -> pd.DataFrame:
    """The runs of one row of a paper's table, of a study on one task.

    They are chosen by the rule of claims: settings that the row does not name
    are the paper's where the study has these.

    Args:
        study: Theirs.
        task: As in the column `task`.
        wanted: Settings of the row.

    Returns:
        Runs that differ by seed alone; none if there is no such group.
    """
    if study.paper is None:
        return study.runs.iloc[:0]
    try:
        [group] = groups_lib.find_groups(
            study.groups.get(task, []), study.paper, [wanted]
        )
    except groups_lib.NotFound:
        return study.runs.iloc[:0]
    return group.runs


def find_pair(
    study: Study,
    task: str,
    first: Settings,
    second: Settings,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs of two rows that are compared, chosen as a claim would.

    Both are at rates that both were tried at; see `run_groups.find_groups`.

    Args:
        study: Theirs.
        task: As in the column `task`.
        first: Settings of the rows of the first column.
        second: Settings of the rows of the second.

    Returns:
        Runs of each; none of both, if a claim would find none.
    """
    nothing = study.runs.iloc[:0]
    if study.paper is None:
        return nothing, nothing
    try:
        one, other = groups_lib.find_groups(
            study.groups.get(task, []), study.paper, [first, second]
        )
    except groups_lib.NotFound:
        return nothing, nothing
    return one.runs, other.runs


def find_mark(groups: Iterable[pd.DataFrame], measure: str = "score") -> str:
    """The mark of `NOTES` in place of what compares runs; empty for none.

    Args:
        groups: The runs that are compared.
        measure: See `run_groups.did_not_train`.
    """
    for runs in groups:
        if groups_lib.did_not_train(runs, measure):
            return "†"
        if not groups_lib.has_baseline(runs):
            return "‡"
    return ""


def show_difference(
    value: float,
    groups: Iterable[pd.DataFrame],
    sign: str = "",
    measure: str = "score",
) -> str:
    """A difference, saving or gain, or the mark in its place; see `find_mark`.

    Args:
        value: The difference; nan if it is not known.
        groups: The runs that are compared.
        sign: See `number`.
        measure: See `find_mark`.
    """
    if pd.isna(value):
        return ""
    return find_mark(groups, measure) or number(value, 2, sign)


# === The errors of a run ===


def tabulate_errors(
    errors: Mapping[str, errors_lib.Errors], run: str
) -> Iterator[Table]:
    """Yields the errors by label, confusions, residuals, and the worst texts.

    Args:
        errors: The content of `errors.json`.
        run: What captions begin with.
    """
    for number, (split, described) in enumerate(errors.items(), 1):
        residuals = []
        if of_scores := described.get("residuals"):
            shown = [f"{value:+.3g}" for value in of_scores["quantiles"]]
            residuals.append({**of_scores, "quantiles": "; ".join(shown)})
        contents = {
            "by label, in points": described.get("labels", []),
            "the labels most often taken for another": (
                errors_lib.rank_confusions(described)
            ),
            "answers minus scores, with the quantiles 5, 25, 50, 75, 95 %": (
                residuals
            ),
            "the worst texts, by row from 0 on": described["worst"],
        }
        for part, (title, rows) in enumerate(contents.items(), 1):
            frame = pd.DataFrame(rows).rename(columns=NAMES)
            rates = frame.columns.intersection(RATES)
            frame[rates] = (100 * frame[rates]).round(1)
            if rows:
                yield Table(
                    f"errors_{number}_{part}",
                    f"{run}: errors on {split}, {title}",
                    frame.round(4),
                    open=number == 1,
                )


# === Rows of a paper's tables ===


def find_rows(
    rows: Iterable[Record],
    find: Callable[[Settings], pd.DataFrame],
) -> Iterator[tuple[Record, pd.DataFrame]]:
    """Published rows with their runs; a `reading` only where it was run.

    Args:
        rows: Of a paper's `published.json`, each with `settings`.
        find: The runs of some settings.
    """
    for row in rows:
        runs = find(row["settings"])
        if len(runs) or "reading" not in row:
            yield row, runs


def show(metric: str, runs: pd.DataFrame, sign: str = "") -> str:
    """Mean and standard deviation of a measure over runs, or over folds."""
    return spread(runs_lib.measure_runs(metric, runs), sign=sign)


def pair(title: str, published: Value, here: Value) -> Record:
    """Cells of two neighbouring columns: the paper's value, and ours."""
    return {f"{title}, published": published, f"{title}, here": here}


def tabulate_answer(search: Search) -> Table:
    """The table of a search's candidates."""
    frame = pd.DataFrame(search.get("table", []))
    return Table("search", "The candidates, scored on held-out texts", frame)
