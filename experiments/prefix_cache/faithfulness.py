"""Does a cached prefix cost score? Live beside cached, over five seeds.

    python experiments/prefix_cache/faithfulness.py --glue=tfds

Runs STS-B, SST-2 (5,000 training examples) and Rotten Tomatoes with `minilm`,
last 1 and last 2, live and cached, and prints a Markdown table. Finished runs
are found, interrupted ones continue: the same command goes on where it was.
"""

import dataclasses
import glob
import os
import statistics

import scipy.stats
from absl import app
from absl import flags

from tf_transfer import glue
from tf_transfer import settings as settings_lib
from tf_transfer.data import tasks
from tf_transfer.training import records

SEEDS = range(5)
LAST = (1, 2)
PREFIXES = ("live", "cached")

_GLUE = flags.DEFINE_string("glue", "tfds", "--data of STS-B and SST-2.")
_OUT = flags.DEFINE_string("out", "runs/prefix_cache", "Where runs go.")
_RUN = flags.DEFINE_bool("run", True, "Run what is missing; else only show.")


def cases():
    """(name, settings) of the three tasks."""
    shared = dict(
        model="minilm", batch_size=16, max_epochs=5, patience=0, lr=1e-4,
        out=_OUT.value,
    )  # fmt: skip
    return [
        ("STS-B", dict(task="stsb", data=_GLUE.value, **shared)),
        (
            "SST-2, 5,000 examples",
            dict(
                task="sst2", data=_GLUE.value, max_train_examples=5000, **shared
            ),
        ),
        (
            "Rotten Tomatoes",
            dict(task="sst2", data="rotten_tomatoes", **shared),
        ),
    ]


def settings_of(case, last, prefix, seed):
    """One run of the grid."""
    return glue.GlueSettings(
        trainable_layers=last, frozen_prefix=prefix, seed=seed, **case
    )


def majority(case):
    """What always giving the commonest answer scores on the test set."""
    from tf_transfer.data import sources

    settings = settings_of(case, 1, "live", 0).resolve()
    task = tasks.GLUE[settings.task]
    if task.labels is None:
        return 0.0  # a constant orders nothing
    source = sources.Source(task, settings.data, settings.cache_folder)
    labels = source.read(task.development[0]).labels
    return max((labels == label).mean() for label in set(labels.tolist()))


def main(argv):
    """Runs the grid, seed by seed, and prints the table."""
    del argv
    settings_lib.import_tensorflow()
    import keras

    if _RUN.value:
        for seed in SEEDS:
            for _, case in cases():
                for last in LAST:
                    for prefix in PREFIXES:
                        glue.run(settings_of(case, last, prefix, seed))
                        keras.backend.clear_session()
    print(table())


def table():
    """Means, deviations, and the interval of the difference, as Markdown."""
    lines = [
        "| data, metric | majority | trains | live | cached | cached - live, "
        "95 % interval | seconds an epoch, live | cached | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    runs = finished_runs()
    for name, case in cases():
        metric = tasks.GLUE[case["task"]].metric
        for last in LAST:
            results = {
                prefix: [
                    result
                    for seed in SEEDS
                    if (result := runs.get(_key(case, last, prefix, seed)))
                ]
                for prefix in PREFIXES
            }
            count = min(map(len, results.values()))
            if count < 2:
                continue
            scores, seconds = {}, {}
            for prefix, found in results.items():
                scores[prefix] = [
                    100 * result["test"][metric] for result in found[:count]
                ]
                seconds[prefix] = statistics.median(
                    result["seconds_per_epoch"] for result in found[:count]
                )
            difference = [c - l for l, c in zip(*scores.values())]
            middle = statistics.mean(difference)
            reach = (
                scipy.stats.t.ppf(0.975, count - 1)
                * statistics.stdev(difference)
                / count**0.5
            )
            means = " | ".join(
                f"{statistics.mean(some):.2f} ± {statistics.stdev(some):.2f}"
                for some in scores.values()
            )
            lines.append(
                f"| {name}, {metric} | {100 * majority(case):.1f} "
                f"| last {last} | {means} "
                f"| {middle:+.2f} ({middle - reach:+.2f} to "
                f"{middle + reach:+.2f}) | {seconds['live']:.1f} "
                f"| {seconds['cached']:.1f} | {count} |"
            )
    return "\n".join(lines)


def _key(*run):
    return _name(dataclasses.asdict(settings_of(*run)))


def finished_runs():
    """Results of the finished runs, by what tells the grid's runs apart."""
    found = {}
    for path in glob.glob(f"{_OUT.value}/**/result.json", recursive=True):
        directory = records.RunDirectory(os.path.dirname(path), None)
        found[_name(directory.config()["settings"])] = directory.result()
    return found


def _name(settings):
    return tuple(
        str(settings[name])
        for name in (
            "task", "data", "trainable_layers", "frozen_prefix", "seed"
        )
    )  # fmt: skip


if __name__ == "__main__":
    app.run(lambda argv: settings_lib.guarded(lambda: main(argv)))
