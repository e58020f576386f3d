"""What "What Would Elsa Do?" tabulates: quality at each number of blocks.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. Beside each stands what it
costs.
"""

import dataclasses
import re

from tf_transfer.reports import operating
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.compare import epoch_share
from tf_transfer.reports.compare import facts_of
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.options import Options
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


def results(study, rows, options=Options()):
    """Operating points and scores: what a study has found.

    Args:
        rows: what `rows_of` gave.
    """
    return [
        *operating_points(study, rows, options),
        *(
            part
            for row in rows
            for part in _all_numbers(study, row, rows, options)
        ),
    ]


@dataclasses.dataclass(frozen=True)
class Row:
    """One task, scored one way, its frozen blocks live or cached.

    Attributes:
        cells: dict from `all` or a number of trained blocks to
            `studies.Cell`.
        trials: the same, to the trials' scores in points.
        majority: what the commonest answer scores, in points, or None.
        published: the paper's scores, as `published.json` has them, or {}.
    """

    name: str
    task: str
    metric: str
    cached: bool
    cells: dict
    trials: dict
    majority: float | None
    published: dict

    @property
    def mode(self):
        """How the frozen blocks were run."""
        return "cached" if self.cached else "live"

    @property
    def lr(self):
        """The learning rate of all of them."""
        return self.cells[operating.ALL].lr

    @property
    def full(self):
        """Mean score of training everything."""
        return operating.plain_mean(self.trials[operating.ALL])

    def majority_passes(self, quality):
        """Whether the commonest answer alone is above a share of the score."""
        return self.majority is not None and (
            self.majority > quality * self.full
        )

    def published_point(self, quality):
        """The paper's operating point, or None."""
        trials = {
            blocks if blocks == operating.ALL else int(blocks): [known[0]]
            for blocks, known in self.published.items()
        }
        return operating.operating_point(trials, quality) if trials else None


def rows_of(study, summary, published):
    """A study's `Row`s: of a task one for each mode; MNLI has two."""
    return [
        row
        for dataset in study.datasets
        for cached in (False, True)
        for cells in cells_of(dataset, cached)
        for row in _rows_of(
            dataset, cached, cells, facts_of(summary, study, dataset), published
        )
    ]


def _rows_of(dataset, cached, cells, known, published):
    majority, other = (
        None if known.get(name) is None else 100 * known[name]
        for name in ("majority", "mismatched_majority")
    )
    theirs = published.get("scores", {}).get(
        PUBLISHED_NAMES.get(cells[operating.ALL].records[0]["model"]), {}
    )

    def row(suffix, metric, trials, majority):
        return Row(
            dataset.name + suffix,
            dataset.task,
            metric,
            cached,
            cells,
            trials,
            majority,
            theirs.get(PUBLISHED_TASKS.get(dataset.task + suffix), {}),
        )

    yield row(
        "",
        dataset.metric,
        {blocks: cell.scores for blocks, cell in cells.items()},
        majority,
    )
    mismatched = {
        blocks: [100 * record["metrics"][MISMATCHED] for record in cell.records]
        for blocks, cell in cells.items()
        if all(MISMATCHED in record["metrics"] for record in cell.records)
    }
    if len(mismatched) == len(cells):
        yield row(", mismatched", MISMATCHED, mismatched, other)


def cells_of(dataset, cached):
    """The cells by number of trained blocks, at each rate by itself.

    A rate is chosen by the search, on validation. These runs have none: to
    choose among theirs would be to look at the test.

    Returns:
        List of dicts from `all`, and numbers by falling number, to
        `studies.Cell`; a dict for each rate at which something was frozen in
        this mode and `all` is there.
    """
    found = []
    for base in dataset.rates((studies.BASE, False)):
        numbers = {}
        for cell in dataset.cells.values():
            number = re.fullmatch(r"last_(\d+)", cell.approach)
            if number and (cell.cached, cell.lr) == (cached, base.lr):
                numbers[int(number[1])] = cell
        if numbers:
            ordered = dict(sorted(numbers.items(), reverse=True))
            found.append({operating.ALL: base, **ordered})
    return found


def operating_points(study, rows, options):
    """The paper's tables 6 to 9: all, enough, none; with what each costs."""
    if not rows:
        return []
    lines = []
    for row in rows:
        fewest = min(b for b in row.trials if b != operating.ALL)
        lines.append(_point(row, "all", operating.ALL, operating.ALL))
        for quality in options.qualities:
            mine = operating.operating_point(row.trials, quality)
            label = f"> {100 * quality:.4g} %"
            if row.majority_passes(quality):
                label += "*"
            lines.append(_point(row, label, mine, row.published_point(quality)))
        name = "none trained" if fewest == 0 else f"{fewest} trained"
        lines.append(_point(row, name, fewest, fewest))
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
        "keeps",
        "trained blocks",
        "score",
        "of all",
        "majority",
        "s an epoch",
        "of all's",
        "memory, GB",
        "published",
    )
    table = Table(
        f"operating_points_{study.name}", caption, columns, tuple(lines)
    )
    return [Heading(3, "Operating points"), _without_empty_columns(table)]


def _rate(row, rows, before):
    """The rate of a row, where the task has others."""
    rates = {other.lr for other in rows if other.task == row.task}
    return f"{before}lr {row.lr:g}" if len(rates) > 1 else ""


def _point(row, label, blocks, published_blocks):
    """A line: the numbers of trained blocks here and in the paper, or None."""
    theirs = row.published.get(str(published_blocks), (None,))[0]
    known = points(theirs)
    if theirs is not None and blocks != published_blocks:
        known += f" with {published_blocks}"
    first = (row.name, f"{row.lr:g}", row.mode, label)
    if blocks is None:
        return (*first, "never", "", "", points(row.majority), *[""] * 3, known)
    cell, full = row.cells[blocks], row.cells[operating.ALL]
    score = statistics.mean_of(row.trials[blocks])
    return (
        *first,
        str(blocks),
        spread(score),
        percent(100 * score.mean / row.full) if row.full > 0 else "",
        points(row.majority),
        spread(cell.seconds_per_epoch, 1),
        percent(epoch_share(cell, full)),
        _memory(cell),
        known,
    )


def _memory(cell):
    return f"{max(record['memory'] for record in cell.records) / 1e9:.2f}"


def _without_empty_columns(table):
    """The table less the columns that say nothing."""
    kept = [
        number
        for number in range(len(table.columns))
        if any(row[number] for row in table.rows)
    ]

    def chosen(cells):
        return tuple(cells[number] for number in kept)

    return dataclasses.replace(
        table,
        columns=chosen(table.columns),
        rows=tuple(map(chosen, table.rows)),
    )


def _all_numbers(study, row, rows, options):
    """Quality and cost at every number of frozen blocks."""
    lines = []
    for blocks, cell in row.cells.items():
        mine = operating.plain_mean(row.trials[blocks])
        is_all = blocks == operating.ALL
        theirs = row.published.get(str(blocks), (None,))[0]
        lines.append(
            (
                "0" if is_all else str(study.blocks - blocks),
                str(blocks),
                spread(statistics.mean_of(row.trials[blocks])),
                str(len(cell.records)),
                points(operating.authors_mean(row.trials[blocks])),
                points(mine - row.full),
                percent(100 * mine / row.full) if row.full > 0 else "",
                points(theirs),
                spread(cell.seconds_per_epoch, 1),
                spread(cell.seconds, 1),
                _memory(cell),
                f"{cell.records[0]['trainable_parameters']:,}",
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
        "of all",
        "published",
        "s an epoch",
        "time, s",
        "memory, GB",
        "trained parameters",
    )
    table = Table(
        f"freezing_{study.name}_{row.name}_{row.mode}" + _rate(row, rows, "_"),
        caption,
        columns,
        tuple(lines),
    )
    return [
        Heading(3, name),
        _without_empty_columns(table),
        Items(tuple(_sentences(study, row, options))),
    ]


def _sentences(study, row, options):
    """For each quality: how many trained blocks keep it, and how sure."""
    is_one = min(map(len, row.trials.values())) < 2
    for quality in options.qualities:
        point = operating.operating_point(row.trials, quality)
        authors = operating.operating_point(
            row.trials, quality, operating.authors_mean
        )
        said = f"{100 * quality:.4g} % of all: {_trained(point, study.blocks)}"
        if authors != point:
            said += f" (authors' averaging: {_trained(authors, study.blocks)})"
        untried = operating.untried_below(row.trials, point) if point else 0
        if untried:
            numbers = ", ".join(map(str, range(point - untried, point)))
            said += f"; {numbers} not tried"
        said += (
            "; no interval of one trial"
            if is_one
            else (f"; {_sureness(row, quality, point, options.level)}")
        )
        if row.majority_passes(quality):
            said += (
                "; **the majority class alone passes**, so this says nothing"
            )
        yield said + "."
    tried = set(row.trials) - {operating.ALL}
    between = max(tried) - min(tried) + 1 - len(tried)
    if between:
        yield (
            f"{len(tried)} numbers were tried, {between} between them were "
            "not: there it is taken that more trained blocks are never worse."
        )


def _sureness(row, quality, point, level):
    """What resampling the trials says of an operating point."""
    found = operating.interval(row.trials, quality, level=level)
    low, high = (
        "never" if end is None else str(end) for end in (found.low, found.high)
    )
    return (
        f"{100 * level:.4g} % of resampled trials give {low} to {high}, "
        f"{percent(100 * found.shares.get(point, 0.0))} the same"
    )


def _trained(point, blocks):
    if point is None:
        return "no number of frozen blocks keeps it"
    return f"{point} of {blocks} trained blocks are enough"
