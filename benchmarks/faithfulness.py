"""Does a cached prefix cost score? Live and cached runs, paired by seed.

    python -m tf_transfer.sweep experiments/prefix_cache/grid.json
    python -m benchmarks.faithfulness runs [DOCUMENT]

Prints, or writes into a document, a Markdown table of the finished runs: a row
for each data set and number of blocks, the differences paired by seed.
"""

import collections
import os
import statistics
import sys

import scipy.stats

from benchmarks import documents
from tf_transfer.comparison import predictions as predictions_lib
from tf_transfer.comparison.run_record import RunRecord
from tf_transfer.data import glue as glue_data, metrics
from tf_transfer.reports import reading, tables

COLUMNS = (
    "data, metric",
    "majority",
    "trains",
    "live",
    "cached",
    "cached - live, 95 % interval",
    "seeds",
)


def table(root: str) -> str:
    """Returns means, deviations and the difference's interval as Markdown.

    Args:
        root: Folder of run directories.
    """
    records, _ = reading.read_runs(root)
    groups: dict[tuple[str, str], dict[tuple[bool, int], RunRecord]] = (
        collections.defaultdict(dict)
    )
    for record in records:
        group = groups[_data_name(record), record.approach]
        group[record.cached, record.seed] = record
    predictions = predictions_lib.Predictions(root)
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    for (name, approach), group in sorted(groups.items()):
        seeds = [
            seed
            for cached, seed in sorted(group)
            if not cached and (True, seed) in group
        ]
        if len(seeds) < 2:
            continue
        live, cached = (
            [100 * (group[is_cached, seed].test or 0.0) for seed in seeds]
            for is_cached in (False, True)
        )
        record = group[False, seeds[0]]
        metric = record.metric
        labels = predictions.read_split(record, "test")["labels"]
        majority = metrics.majority(metric, labels)
        rows.append(
            (
                f"{name}, {metric}",
                f"{100 * majority:.1f}",
                approach.replace("_", " "),
                tables.spread(live),
                tables.spread(cached),
                _interval(
                    [after - before for before, after in zip(live, cached)]
                ),
                str(len(seeds)),
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _data_name(record: RunRecord) -> str:
    if record.data == "rotten_tomatoes":
        return "Rotten Tomatoes"
    name = glue_data.TASKS[record.task].folder
    examples = record.key["max_train_examples"]
    return f"{name}, {examples:,} examples" if examples else name


def _interval(differences: list[float]) -> str:
    """The mean, and its 95 % interval by Student's t."""
    count = len(differences)
    mean = statistics.mean(differences)
    margin = scipy.stats.t.ppf(0.975, count - 1) * (
        statistics.stdev(differences) / count**0.5
    )
    return f"{mean:+.2f} ({mean - margin:+.2f} to {mean + margin:+.2f})"


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not os.path.isdir(sys.argv[1]):
        sys.exit("Give the folder of the sweep's runs, and a document to fill.")
    if len(sys.argv) == 3:
        documents.fill(sys.argv[2], "faithfulness", table(sys.argv[1]))
    else:
        print(table(sys.argv[1]))
