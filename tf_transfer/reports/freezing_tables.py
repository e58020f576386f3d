"""What "What Would Elsa Do?" tabulates: quality at each number of blocks.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. Beside each stands what it
costs.
"""

import dataclasses
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import operating
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.compare import epoch_share
from tf_transfer.reports.compare import facts_of
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.options import Options
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
from tf_transfer.reports.words import gigabytes
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import points
from tf_transfer.reports.words import spread

PUBLISHED_NAMES = {
    "bert_base_en_uncased": "bert-base",
    "roberta_base_en": "roberta-base",
    "bert_large_en_uncased": "bert-large",
    "roberta_large_en": "roberta-large",
}
PUBLISHED_TASKS = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "mnli, mismatched": "MNLI-MM",
    "qnli": "QNLI",
    "rte": "RTE",
}
MISMATCHED = "mismatched_accuracy"


@dataclasses.dataclass(frozen=True)
class Row:
    """One task and metric, its frozen blocks live or cached.

    Attributes:
        name: the task, and its test set where there are two.
        task: such as `rte`.
        metric: what it is scored by.
        cached: whether the frozen blocks are cached.
        cells: by number of trained blocks, and `all`.
        trials: the trials' scores in points, likewise.
        majority: what the commonest answer scores, in points, or None.
        published: the paper's scores, as `published.json` has them, or {}.
    """

    name: str
    task: str
    metric: str
    cached: bool
    cells: dict[int | str, Cell]
    trials: dict[int | str, list[float]]
    majority: float | None
    published: dict[str, list[float]]

    @property
    def mode(self) -> str:
        """How the frozen blocks were run."""
        return "cached" if self.cached else "live"

    @property
    def lr(self) -> float:
        """The learning rate of all of them."""
        return self.cells[operating.ALL].lr

    @property
    def full(self) -> float:
        """Mean score of training everything."""
        return operating.plain_mean(self.trials[operating.ALL])

    @property
    def published_trials(self) -> dict[int | str, list[float]]:
        """The paper's mean scores, as if each were a single trial."""
        return {
            blocks if blocks == operating.ALL else int(blocks): [known[0]]
            for blocks, known in self.published.items()
        }

    def majority_passes(self, quality: float) -> bool:
        """Whether the commonest answer alone is above a share of the score."""
        return self.majority is not None and (
            self.majority > quality * self.full
        )

    def published_score(self, blocks: int | str | None) -> float | None:
        """The paper's score at a number of trained blocks, or None."""
        known = self.published.get(str(blocks))
        return known[0] if known else None

    def published_point(self, quality: float) -> int | None:
        """The paper's operating point, or None."""
        trials = self.published_trials
        return operating.operating_point(trials, quality) if trials else None

    def share_of_full(self, score: float) -> str:
        """A score in percent of that of training everything."""
        return percent(100 * score / self.full) if self.full > 0 else ""


def rows_of(
    study: Study, summary: dict[str, Any], published: dict[str, Any]
) -> list[Row]:
    """A study's `Row`s: of a task one for each mode; MNLI has two."""
    return [
        row
        for dataset in study.datasets
        for cached in (False, True)
        for cells in cells_of(dataset, cached)
        for row in _rows_of_task(
            dataset, cached, cells, facts_of(summary, study, dataset), published
        )
    ]


def _rows_of_task(
    dataset: Dataset,
    cached: bool,
    cells: dict[int | str, Cell],
    facts: dict[str, Any],
    published: dict[str, Any],
) -> Iterator[Row]:
    model = cells[operating.ALL].records[0]["model"]
    theirs = published.get("scores", {}).get(PUBLISHED_NAMES.get(model), {})

    def make_row(
        suffix: str,
        metric: str,
        trials: dict[int | str, list[float]],
        majority: float | None,
    ) -> Row:
        return Row(
            dataset.name + suffix,
            dataset.task,
            metric,
            cached,
            cells,
            trials,
            None if majority is None else 100 * majority,
            theirs.get(PUBLISHED_TASKS.get(dataset.task + suffix), {}),
        )

    yield make_row(
        "",
        dataset.metric,
        {blocks: cell.scores for blocks, cell in cells.items()},
        facts.get("majority"),
    )
    mismatched = {
        blocks: cell.values(MISMATCHED) for blocks, cell in cells.items()
    }
    if all(len(mismatched[n]) == len(cells[n].records) for n in cells):
        yield make_row(
            ", mismatched",
            MISMATCHED,
            mismatched,
            facts.get("mismatched_majority"),
        )


def cells_of(dataset: Dataset, cached: bool) -> list[dict[int | str, Cell]]:
    """The cells by number of trained blocks, at each rate by itself.

    A rate is chosen by the search, on validation. These runs have none: to
    choose among theirs would be to look at the test.

    Returns:
        For each rate at which something was frozen in this mode and `all` was
        trained: the cells by `all` and by falling number.
    """
    rates: list[dict[int | str, Cell]] = []
    for base in dataset.cells_by_rate((studies.BASE, False)):
        numbers = {}
        for cell in dataset.cells.values():
            number = re.fullmatch(r"last_(\d+)", cell.approach)
            if number and (cell.cached, cell.lr) == (cached, base.lr):
                numbers[int(number[1])] = cell
        if numbers:
            ordered = sorted(numbers.items(), reverse=True)
            rates.append({operating.ALL: base, **dict(ordered)})
    return rates


def results(
    study: Study, rows: Sequence[Row], options: Options = Options()
) -> list[Part]:
    """Operating points and scores of a study.

    Args:
        study: of the runs.
        rows: what `rows_of` returned.
        options: for qualities and intervals.
    """
    return [
        *operating_points(study, rows, options),
        *(
            part
            for row in rows
            for part in _scores_at_every_number(study, row, rows, options)
        ),
    ]


def operating_points(
    study: Study, rows: Sequence[Row], options: Options
) -> list[Part]:
    """The paper's tables 6 to 9: all, enough, none; with what each costs."""
    if not rows:
        return []
    lines = []
    for row in rows:
        fewest = min(n for n in row.trials if isinstance(n, int))
        lines.append(_make_line(row, "all", operating.ALL, operating.ALL))
        for quality in options.qualities:
            point = operating.operating_point(row.trials, quality)
            label = f"> {100 * quality:.4g} %"
            if row.majority_passes(quality):
                label += "*"
            lines.append(
                _make_line(row, label, point, row.published_point(quality))
            )
        label = "none trained" if fewest == 0 else f"{fewest} trained"
        lines.append(_make_line(row, label, fewest, fewest))
    caption = (
        "Training everything, the fewest trained blocks whose mean is above a "
        "share of its score, and the fewest that were tried; "
        "scores in points, published ones with the paper's own number of "
        "blocks. *: the majority class alone passes"
    )
    columns = (
        "task",
        "lr",
        "frozen blocks",
        "quality",
        "trained blocks",
        "score",
        "of full score",
        "majority",
        "s per epoch",
        "of full epoch",
        "memory, GB",
        "published",
    )
    table = Table(f"operating_points_{study.name}", caption, columns, lines)
    return [Heading(3, "Operating points"), _without_empty_columns(table)]


def _rate(row: Row, rows: Iterable[Row], separator: str) -> str:
    """The rate of a row, where the task has others."""
    rates = {other.lr for other in rows if other.task == row.task}
    return f"{separator}lr {row.lr:g}" if len(rates) > 1 else ""


def _make_line(
    row: Row,
    label: str,
    blocks: int | str | None,
    published_blocks: int | str | None,
) -> tuple[str, ...]:
    """A line: the numbers of trained blocks here and in the paper, or None."""
    theirs = row.published_score(published_blocks)
    published = points(theirs)
    if theirs is not None and blocks != published_blocks:
        published += f" with {published_blocks}"
    name = (row.name, f"{row.lr:g}", row.mode, label)
    majority = points(row.majority)
    if blocks is None:
        return (*name, "never", "", "", majority, *[""] * 3, published)
    cell, full = row.cells[blocks], row.cells[operating.ALL]
    score = statistics.mean_of(row.trials[blocks])
    return (
        *name,
        str(blocks),
        spread(score),
        row.share_of_full(score.mean) if score else "",
        majority,
        spread(cell.seconds_per_epoch, 1),
        percent(epoch_share(cell, full)),
        gigabytes(cell.memory),
        published,
    )


def _without_empty_columns(table: Table) -> Table:
    """The table without the columns that say nothing."""
    kept = [
        index
        for index in range(len(table.columns))
        if any(row[index] for row in table.rows)
    ]
    columns, *rows = (
        tuple(cells[index] for index in kept)
        for cells in (table.columns, *table.rows)
    )
    return dataclasses.replace(table, columns=columns, rows=tuple(rows))


def _scores_at_every_number(
    study: Study, row: Row, rows: Sequence[Row], options: Options
) -> list[Part]:
    """Quality and cost at every number of frozen blocks."""
    lines = []
    for blocks, cell in row.cells.items():
        mean = operating.plain_mean(row.trials[blocks])
        lines.append(
            (
                str(study.blocks - blocks) if isinstance(blocks, int) else "0",
                str(blocks),
                spread(statistics.mean_of(row.trials[blocks])),
                cell.n,
                points(operating.authors_mean(row.trials[blocks])),
                points(mean - row.full),
                row.share_of_full(mean),
                points(row.published_score(blocks)),
                spread(cell.seconds_per_epoch, 1),
                spread(cell.seconds, 1),
                gigabytes(cell.memory),
                f"{cell.trained_parameters:,}",
            )
        )
    name = f"{row.name}, frozen blocks {row.mode}{_rate(row, rows, ', ')}"
    caption = (
        f"{name}: {row.metric} in points, learning rate "
        f"{row.lr:g}; the majority scores "
        f"{points(row.majority) or 'what is not known'}"
    )
    columns = (
        "frozen",
        "trained",
        "score",
        "trials",
        "authors' averaging",
        "relative score",
        "of full score",
        "published",
        "s per epoch",
        "time, s",
        "memory, GB",
        "trained parameters",
    )
    table = Table(
        f"freezing_{study.name}_{row.name}_{row.mode}" + _rate(row, rows, "_"),
        caption,
        columns,
        lines,
    )
    return [
        Heading(3, name),
        _without_empty_columns(table),
        Items(tuple(_describe_points(study, row, options))),
    ]


def _describe_points(study: Study, row: Row, options: Options) -> Iterator[str]:
    """For each quality: how many trained blocks reach it, and how sure."""
    is_single = min(map(len, row.trials.values())) < 2
    for quality in options.qualities:
        point = operating.operating_point(row.trials, quality)
        authors = operating.operating_point(
            row.trials, quality, operating.authors_mean
        )
        text = f"{100 * quality:.4g} % of all: {_enough(point, study.blocks)}"
        if authors != point:
            text += f" (authors' averaging: {_enough(authors, study.blocks)})"
        untried = operating.untried_below(row.trials, point) if point else 0
        if point and untried:
            numbers = ", ".join(map(str, range(point - untried, point)))
            text += f"; {numbers} not tried"
        text += (
            "; no interval of one trial"
            if is_single
            else f"; {_describe_interval(row, quality, point, options.level)}"
        )
        if row.majority_passes(quality):
            text += (
                "; **the majority class alone passes**, so this says nothing"
            )
        yield text + "."
    tried = [n for n in row.trials if isinstance(n, int)]
    between = max(tried) - min(tried) + 1 - len(tried)
    if between:
        yield (
            f"{len(tried)} numbers were tried, {between} between them were "
            "not: there we assume that more trained blocks are never worse."
        )


def _describe_interval(
    row: Row, quality: float, point: int | None, level: float
) -> str:
    """What resampling the trials says of an operating point."""
    interval = operating.interval(row.trials, quality, level)
    low, high = (
        "never" if end is None else str(end)
        for end in (interval.low, interval.high)
    )
    return (
        f"{100 * level:.4g} % of resampled trials give {low} to {high}, "
        f"{percent(100 * interval.shares.get(point, 0.0))} the same"
    )


def _enough(point: int | None, blocks: int) -> str:
    if point is None:
        return "no number of frozen blocks keeps it"
    return f"{point} of {blocks} trained blocks are enough"
