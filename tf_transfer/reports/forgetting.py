"""What training on one task does to the scores of the others, pass by pass.

For runs that train their tasks in turn: after every pass over one task's data,
all tasks are evaluated on dev. A change is the difference of two such
evaluations in the phase that trains the encoder. The first pass of a phase has
none before it: it begins from the selected weights of the phase before, not
from its last.
"""

import collections
import itertools
from collections.abc import Iterable

from tf_transfer.reports import figures
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Figure
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.reading import Record
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.words import spread

METRICS = {
    "sentiment": "sentiment_accuracy",
    "paraphrase": "paraphrase_accuracy",
    "similarity": "similarity_pearson",
}
LABELS = {  # what the figures call the tasks' scores
    "sentiment": "SST accuracy",
    "paraphrase": "Quora accuracy",
    "similarity": "STS r",
}

# By (task that was trained on, task that was evaluated).
Changes = dict[tuple[str, str], statistics.Mean]


def show_forgetting(
    name: str, cells: Iterable[Cell], preferred: Cell | None = None
) -> list[Part]:
    """The parts of a report on some cells; none without passes over one task.

    Args:
        name: ends the names of tables and figures.
        cells: of a data set.
        preferred: the cell that figures show, where it has such passes; else
            the one with most runs, and of those the shortest.
    """
    measured = [(cell, mean_changes(cell)) for cell in cells]
    measured = [(cell, changes) for cell, changes in measured if changes]
    if not measured:
        return []
    shown, changes = max(
        measured,
        key=lambda pair: (
            pair[0] is preferred,
            len(pair[0].records),
            -len(pair[0].records[0]["passes"]),
        ),
    )
    title = studies.variant_name(shown.variant)
    return [
        Heading(3, "What a pass over one task does to the others"),
        _make_table(name, measured),
        Text(_compare_with_paper(changes, title)),
        _draw_heat_map(name, changes, title),
        _draw_curves(name, shown, title),
    ]


def changes_of(record: Record) -> dict[tuple[str, str], list[float]]:
    """Changes in points by (task that was trained on, task evaluated)."""
    changes = collections.defaultdict(list)
    for before, after in itertools.pairwise(record["passes"]):
        for task, metric in METRICS.items():
            change = after["validation"][metric] - before["validation"][metric]
            changes[after["task"], task].append(100 * change)
    return changes


def mean_changes(cell: Cell) -> Changes:
    """The `Mean` over runs of each run's mean change; see `changes_of`."""
    of_runs = collections.defaultdict(list)
    for record in cell.records:
        for pair, changes in changes_of(record).items():
            of_runs[pair].append(sum(changes) / len(changes))
    means = {pair: statistics.mean_of(runs) for pair, runs in of_runs.items()}
    return {pair: mean for pair, mean in means.items() if mean}


def _make_table(name: str, measured: Iterable[tuple[Cell, Changes]]) -> Table:
    rows = [
        (
            studies.variant_name(cell.variant),
            trained,
            cell.n,
            *(spread(changes[trained, task], sign="+") for task in METRICS),
        )
        for cell, changes in measured
        for trained in METRICS
        if (trained, trained) in changes
    ]
    caption = (
        "Change of each task's score on dev, in points, during a pass over "
        "one task: mean over all passes but a phase's first; deviation over n "
        "runs"
    )
    columns = ("trains", "a pass over", "n", *LABELS.values())
    return Table(f"forgetting_{name}", caption, columns, rows)


def _compare_with_paper(changes: Changes, title: str) -> str:
    """The paper's observation, and ours."""
    sentences = []
    for trained, task in (
        ("similarity", "sentiment"),
        ("sentiment", "similarity"),
    ):
        if (trained, task) in changes:
            change = spread(changes[trained, task], sign="+")
            sentences.append(
                f"a pass over {trained} changes {LABELS[task]} by {change}"
            )
    return (
        "The paper: a step for similarity often hurts sentiment, and the other "
        f"way round. Here ({title}), in points: {'; '.join(sentences)}."
    )


def _draw_heat_map(name: str, changes: Changes, title: str) -> Figure:
    caption = (
        "Change of each task's score on dev during a pass over one task, mean "
        f"in points: {title}"
    )
    rows = {
        f"a pass over\n{trained}": [
            changes[trained, task].mean if (trained, task) in changes else None
            for task in METRICS
        ]
        for trained in METRICS
    }
    return figures.heat_map(
        f"forgetting_{name}",
        caption,
        rows,
        list(LABELS.values()),
        "change, points",
    )


def _draw_curves(name: str, cell: Cell, title: str) -> Figure:
    record = min(cell.records, key=lambda record: record["seed"])
    passes = record["passes"]
    scores = {
        LABELS[task]: [100 * line["validation"][metric] for line in passes]
        for task, metric in METRICS.items()
    }
    caption = (
        "Each task's score on dev after every pass; the band says over which "
        f"task's data it went: {title}, seed {record['seed']}"
    )
    tasks = [line["task"] for line in passes]
    return figures.scores_over_passes(f"passes_{name}", caption, tasks, scores)
