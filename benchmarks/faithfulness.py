"""Does a cached prefix cost score? Live and cached runs, paired by seed.

    python -m tf_transfer.sweep experiments/prefix_cache/grid.json
    python -m benchmarks.faithfulness runs [DOCUMENT]

Prints, or writes into a document, a Markdown table of the finished runs of each
encoder: a row for each data set, number of blocks and precision of cached runs,
with the differences to live runs in float32, paired by seed.
"""

import os
import statistics
import sys
from collections.abc import Sequence

from benchmarks import documents
from tf_transfer.comparison import predictions as predictions_lib
from tf_transfer.comparison.estimates import Estimate
from tf_transfer.comparison.run_record import RunRecord
from tf_transfer.data import glue as glue_data, metrics
from tf_transfer.reports import reading, run_groups, tables

COLUMNS = (
    "data, metric",
    "majority",
    "trains",
    "live",
    "cached",
    "cached - live, 95 % interval",
    "seeds",
)


def make_tables(root: str) -> dict[str, str]:
    """Returns means, deviations and the difference's interval as Markdown.

    Args:
        root: Folder of run directories.

    Returns:
        The table of each encoder.
    """
    records, _ = reading.read_runs(root)
    predictions = predictions_lib.Predictions(root)
    by_encoder = run_groups.group_by(records, lambda record: record.model)
    return {
        encoder: _make_table(members, predictions)
        for encoder, members in sorted(by_encoder.items())
    }


def _make_table(
    records: Sequence[RunRecord], predictions: predictions_lib.Predictions
) -> str:
    """The table of an encoder's runs."""
    by_approach = run_groups.group_by(
        records, lambda record: (_data_name(record), record.approach)
    )
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    for (name, approach), members in sorted(by_approach.items()):
        live = {
            record.seed: record
            for record in members
            if not record.cached and record.key["precision"] == "float32"
        }
        cached = run_groups.group_by(
            [record for record in members if record.cached],
            lambda record: record.key["precision"],
        )
        for precision, compared in sorted(cached.items()):
            trains = approach.replace("_", " ")
            if precision != "float32":
                trains += f", {precision}"
            pairs = [
                (live[record.seed], record)
                for record in sorted(compared, key=lambda record: record.seed)
                if record.seed in live
            ]
            if len(pairs) < 2:
                continue
            majority, *scores = _compare(pairs, predictions)
            rows.append([name, majority, trains, *scores])
    return documents.as_markdown(rows)


def _compare(
    pairs: Sequence[tuple[RunRecord, RunRecord]],
    predictions: predictions_lib.Predictions,
) -> list[str]:
    """The majority baseline's score, and the cells that compare the runs.

    Args:
        pairs: The live and the cached run of each seed.
        predictions: Of all runs.
    """
    live, cached = (
        [100 * (record.test or 0.0) for record in records]
        for records in zip(*pairs)
    )
    first, _ = pairs[0]
    labels = predictions.read_split(first, "test")["labels"]
    differences = [after - before for before, after in zip(live, cached)]
    error = statistics.stdev(differences) / len(pairs) ** 0.5
    difference = Estimate(statistics.mean(differences), error, len(pairs) - 1)
    return [
        f"{100 * metrics.majority(first.metric, labels):.1f}",
        tables.spread(live),
        tables.spread(cached),
        difference.ranged().show(2, "+"),
        str(len(pairs)),
    ]


def _data_name(record: RunRecord) -> str:
    """The data set with its size and metric."""
    name = "Rotten Tomatoes"
    if record.data != "rotten_tomatoes":
        name = glue_data.TASKS[record.task].folder
    examples = record.key["max_train_examples"]
    if examples:
        name += f", {examples:,} examples"
    return f"{name}, {record.metric}"


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not os.path.isdir(sys.argv[1]):
        sys.exit("Give the folder of the sweep's runs, and a document to fill.")
    for encoder, table in make_tables(sys.argv[1]).items():
        if len(sys.argv) == 3:
            documents.fill(sys.argv[2], f"faithfulness_{encoder}", table)
        else:
            print(f"{encoder}:\n\n{table}\n")
