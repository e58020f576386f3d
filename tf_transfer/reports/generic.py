"""The section on experiments without one of their own: a table per task."""

from typing import Any

from tf_transfer.reports.document import footnotes
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.options import Options
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
from tf_transfer.reports.studies import variant_name
from tf_transfer.reports.studies import variant_order
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import notes_on_times
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import spread

COLUMNS = (
    "approach",
    "lr",
    "n",
    "validation",
    "test",
    "s per epoch",
    "trained",
)


def sections(
    study: Study,
    summary: dict[str, Any],
    published: dict[str, Any],
    options: Options = Options(),
) -> list[Part]:
    """The parts of a report on one study; see `reports.glue.sections`."""
    del summary, published, options
    notes = notes_on_model(study.model) + notes_on_times(study)
    return [
        *(_make_table(study, dataset) for dataset in study.datasets),
        *(footnotes(notes) if notes else ()),
    ]


def _make_table(study: Study, dataset: Dataset) -> Table:
    cells = sorted(
        dataset.cells.values(),
        key=lambda cell: (variant_order(cell.variant), cell.lr),
    )
    caption = (
        f"{dataset.name}: {dataset.metric} in points, mean and standard "
        "deviation over n seeds; `trained` is the share of the parameters"
    )
    rows = tuple(map(_make_row, cells))
    return Table(f"scores_{study.name}_{dataset.name}", caption, COLUMNS, rows)


def _make_row(cell: Cell) -> tuple[str, ...]:
    total = cell.records[0]["total_parameters"]
    return (
        variant_name(cell.variant),
        f"{cell.lr:g}",
        cell.n,
        spread(cell.validation),
        spread(cell.score),
        spread(cell.seconds_per_epoch, 1),
        percent(100 * cell.trained_parameters / total),
    )
