"""What training on one task does to the others, turn by turn.

For runs that take their tasks in turn: every turn is followed by an evaluation
of all tasks on dev. A change is the difference of two such evaluations in the
phase that trains the encoder. The first turn of a phase has none before it: it
begins from the selected weights of the phase before, not from its last.
"""

import collections
import itertools

from tf_transfer.data import cs224n
from tf_transfer.reports import figures
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.words import spread

METRICS = {name: f"{name}_{task.metric}" for name, task in cs224n.TASKS.items()}
SHOWN = {  # tasks, and what the figures call their scores
    "sentiment": "SST accuracy",
    "paraphrase": "Quora accuracy",
    "similarity": "STS r",
}


def parts(name, cells, preferred=None):
    """The parts of a report on some cells; none where no task had a turn.

    Args:
        name: ends the names of tables and figures.
        preferred: the cell that figures show, where it had turns; else the
            one with most runs, and of those the shortest.
    """
    found = [(cell, mean_changes(cell)) for cell in cells]
    found = [(cell, changes) for cell, changes in found if changes]
    if not found:
        return []
    shown, changes = max(
        found,
        key=lambda pair: (
            pair[0] is preferred,
            len(pair[0].records),
            -len(pair[0].records[0]["turns"]),
        ),
    )
    called = studies.way_name(shown.way)
    return [
        Heading(3, "What a turn of one task does to the others"),
        _table(name, found),
        Text(_both_ways(changes, called)),
        _heat_map(name, changes, called),
        _curves(name, shown, called),
    ]


def changes_of(record):
    """Dict from (task in turn, task) to the changes in points, a list."""
    found = collections.defaultdict(list)
    turns = record["turns"]
    for before, after in itertools.pairwise(turns):
        for task, metric in METRICS.items():
            change = after["validation"][metric] - before["validation"][metric]
            found[after["turn"], task].append(100 * change)
    return found


def mean_changes(cell):
    """Dict from (task in turn, task) to the `Mean` over runs of their means."""
    of_runs = collections.defaultdict(list)
    for record in cell.records:
        for pair, changes in changes_of(record).items():
            of_runs[pair].append(sum(changes) / len(changes))
    return {pair: statistics.mean_of(means) for pair, means in of_runs.items()}


def _table(name, found):
    rows = []
    for cell, changes in found:
        for turn in METRICS:
            if (turn, turn) not in changes:
                continue
            rows.append(
                (
                    studies.way_name(cell.way),
                    turn,
                    str(len(cell.records)),
                    *(spread(changes[turn, t], sign="+") for t in METRICS),
                )
            )
    caption = (
        "Change of each task's score on dev, in points, over a turn of one "
        "task: mean over all turns but a phase's first; deviation over n runs"
    )
    columns = ("trains", "a turn of", "n", *SHOWN.values())
    return Table(f"forgetting_{name}", caption, columns, tuple(rows))


def _both_ways(changes, called):
    """The paper's observation, and ours."""
    said = []
    for turn, other in (
        ("similarity", "sentiment"),
        ("sentiment", "similarity"),
    ):
        if (turn, other) in changes:
            mean = spread(changes[turn, other], sign="+")
            said.append(f"a turn of {turn} changes {SHOWN[other]} by {mean}")
    return (
        "The paper: a step for similarity often hurts sentiment, and the other "
        f"way round. Here ({called}), in points: {'; '.join(said)}."
    )


def _heat_map(name, changes, called):
    caption = (
        "Change of each task's score on dev over a turn of one task, mean in "
        f"points: {called}"
    )
    values = [
        [
            changes[turn, task].mean if (turn, task) in changes else None
            for task in METRICS
        ]
        for turn in METRICS
    ]
    return figures.heat_map(
        f"forgetting_{name}",
        caption,
        {f"a turn of\n{turn}": row for turn, row in zip(METRICS, values)},
        list(SHOWN.values()),
        "change, points",
    )


def _curves(name, cell, called):
    record = min(cell.records, key=lambda record: record["seed"])
    turns = record["turns"]
    scores = {
        SHOWN[task]: [100 * turn["validation"][metric] for turn in turns]
        for task, metric in METRICS.items()
    }
    caption = (
        "Each task's score on dev after every turn; the band says whose turn "
        f"it was: {called}, seed {record['seed']}"
    )
    return figures.over_turns(
        f"turns_{name}", caption, [turn["turn"] for turn in turns], scores
    )
