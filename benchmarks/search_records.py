"""The records of a full grid: what its runs took and scored, by task."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchmarks.search_replay import Record
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.models import loading
from tf_transfer.search import prior_of
from tf_transfer.searches import space as space_lib
from tf_transfer.searches.costs import RUN_SECONDS
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates


def add_probes(
    records: dict[str, Record], grids: Sequence[str], out: str, cache_dir: str
) -> None:
    """Fits the probe of each task in some records, and puts it there.

    Args:
        records: by task.
        grids, out, cache_dir: see `collect`.
    """
    command_line.import_tensorflow()
    for path in grids:
        for run in grid_lib.expand(path, grid_lib.read(path), out, cache_dir):
            settings: Any = run.settings
            record = records.get(settings.task_name)
            if record is None or "probe" in record:
                continue
            result = _fit(run, "frozen")
            metric = record["metric"]
            record["probe"] = {
                "validation": 100 * result["validation"][metric],
                "test": 100 * result["test"][metric],
                "seconds": round(
                    result["train_seconds"] + result["prefix_build_seconds"], 1
                ),
            }


def collect(
    grids: Sequence[str], out: str, cache_dir: str
) -> dict[str, Record]:
    """What the finished runs of some grids come to, by task.

    Args:
        grids: paths of the grid files.
        out: root of the run directories.
        cache_dir: folder for what pip fetches.

    Returns:
        Of each task whose runs are all finished.
    """
    runs: dict[str, list[Planned]] = {}
    for path in grids:
        for run in grid_lib.expand(path, grid_lib.read(path), out, cache_dir):
            settings: Any = run.settings
            runs.setdefault(settings.task_name, []).append(run)
    command_line.import_tensorflow()
    records = {}
    for task, members in runs.items():
        missing = [run for run in members if run.directory.result() is None]
        if missing:
            print(f"{task}: {len(missing)} of {len(members)} are not finished.")
        else:
            records[task] = _collect_task(members)
    return records


def _collect_task(runs: Sequence[Planned]) -> Record:
    approaches: dict[str, Record] = {}
    lines: list[Record] = []
    names = list(dict.fromkeys(run.settings.trainable_layers for run in runs))
    estimator = estimate.Estimator()
    blocks = loading.count_blocks(
        runs[0].settings.model, runs[0].settings.cache_folder
    )
    space = {
        dict(approach.flags)["trainable_layers"]: approach
        for approach in space_lib.make_space(
            names, blocks, lambda layers, _: train.usual_rate(layers), {}
        )
    }
    for run in runs:
        result = run.directory.result() or {}
        approach, metric = (
            space[run.settings.trainable_layers],
            result["metric"],
        )
        epochs = run.directory.epochs()
        prior = prior_of(estimator.estimate(_of_one_epoch(run)))
        about = approaches.setdefault(
            approach.name,
            {
                "name": approach.name,
                "flags": approach.flags,
                "depth": approach.depth,
                "rates": approach.rates,
                "prior": dataclasses.asdict(prior),
                "build_seconds": 0.0,
            },
        )
        about["build_seconds"] = max(
            about["build_seconds"], result["prefix_build_seconds"] or 0.0
        )
        lines.append(
            {
                "approach": approach.name,
                "rate": approach.rates.index(run.settings.lr),
                "validation": _points(epochs, "validation", metric),
                "test": _points(epochs, "test", metric),
                "epoch_seconds": [
                    line["train_seconds"] + line["eval_seconds"]
                    for line in epochs
                ],
                "beside_seconds": _seconds_beside(run, epochs, result),
            }
        )
    words = _fit(runs[0], "tfidf")
    config = runs[0].directory.config() or {}
    return {
        "metric": words["metric"],
        "approaches": sorted(approaches.values(), key=lambda a: a["depth"]),
        "runs": lines,
        "start_seconds": round(
            estimate.START_SECONDS + words["train_seconds"], 1
        ),
        "floor": 100 * words["validation"][words["metric"]],
        "test_floor": 100 * words["test"][words["metric"]],
        "validation_examples": config["split_sizes"]["validation"],
    }


def _seconds_beside(
    run: Planned, epochs: Sequence[Record], result: Record
) -> float:
    """What a run of the grid took beside its epochs and its feature cache."""
    seconds = RunStates(run.settings.out, [run]).seconds(run)
    if seconds is None:  # it was interrupted
        return RUN_SECONDS
    seconds -= sum(e["train_seconds"] + e["eval_seconds"] for e in epochs)
    return round(max(seconds - (result["prefix_seconds"] or 0.0), 0.0), 3)


def _points(epochs: Sequence[Record], kind: str, metric: str) -> list[float]:
    return [round(100 * line[kind][metric], 4) for line in epochs]


def _of_one_epoch(run: Planned) -> Planned:
    settings = dataclasses.replace(run.settings, max_epochs=1)
    return dataclasses.replace(run, experiment=train.Train(settings))


def _fit(run: Planned, features: str) -> Record:
    """What a baseline comes to on the split of a run."""
    settings: Any = run.settings
    settings = dataclasses.replace(settings, features=features)
    return train.Train(settings).train().record
