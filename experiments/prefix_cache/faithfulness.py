"""Does a cached prefix cost score? Live beside cached, over the seeds.

    python -m tf_transfer.sweep experiments/prefix_cache/grid.json
    python experiments/prefix_cache/faithfulness.py runs

Prints a Markdown table of the runs that are finished: a row for each data set
and number of blocks, the difference paired by seed.
"""

import collections
import os
import statistics
import sys

import scipy.stats

from tf_transfer.data import tasks
from tf_transfer.reports import reading

COLUMNS = (
    "data, metric",
    "majority",
    "trains",
    "live",
    "cached",
    "cached - live, 95 % interval",
    "seeds",
)


def table(root):
    """Means, deviations, and the interval of the difference, as Markdown."""
    found, _ = reading.read(root)
    cells = collections.defaultdict(dict)
    for record in found:
        row = (_data_name(record), record["approach"])
        cells[row][record["cached"], record["seed"]] = record
    predictions = reading.Predictions(root)
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    for (name, approach), records in sorted(cells.items()):
        seeds = [
            seed
            for cached, seed in sorted(records)
            if not cached and (True, seed) in records
        ]
        if len(seeds) < 2:
            continue
        live, cached = (
            [100 * records[is_cached, seed]["test"] for seed in seeds]
            for is_cached in (False, True)
        )
        first = records[False, seeds[0]]
        majority = reading.majority(first["metric"], predictions.test(first)[1])
        rows.append(
            (
                f"{name}, {first['metric']}",
                f"{100 * majority:.1f}",
                approach.replace("_", " "),
                _spread(live),
                _spread(cached),
                _interval([one - other for other, one in zip(live, cached)]),
                str(len(seeds)),
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _data_name(record):
    if record["data"] == "rotten_tomatoes":
        return "Rotten Tomatoes"
    name = tasks.GLUE[record["task"]].folder
    some = record["key"]["max_train_examples"]
    return f"{name}, {some:,} examples" if some else name


def _spread(values):
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def _interval(differences):
    """The mean, and where it lies by Student's t."""
    count = len(differences)
    middle = statistics.mean(differences)
    reach = scipy.stats.t.ppf(0.975, count - 1) * (
        statistics.stdev(differences) / count**0.5
    )
    return f"{middle:+.2f} ({middle - reach:+.2f} to {middle + reach:+.2f})"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("Give the folder of the sweep's runs.")
    print(table(sys.argv[1]))
