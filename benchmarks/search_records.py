"""The records of a full grid: what its runs took and scored."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from benchmarks import run_seconds
from benchmarks.search_world import Record
from tf_transfer.config import command_line
from tf_transfer.sweeps import estimate, grid as grid_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils.errors import UserError

START_SECONDS = 15  # of a process, to load TensorFlow and to trace
INTERRUPTED_SECONDS = 2.0  # apart from the epochs of an interrupted run


def collect(
    grids: Sequence[str], out: str, cache_dir: str
) -> dict[str, Record]:
    """Reads the runs of the grids whose first seed is finished.

    Args:
        grids: Paths of the grid files, one per task.
        out: Root of the run directories.
        cache_dir: Folder for what pip fetches.

    Returns:
        A record per task, by the name of its grid.
    """
    command_line.import_tensorflow()
    records = {}
    for path in grids:
        name = os.path.splitext(os.path.basename(path))[0]
        runs = grid_lib.expand(path, grid_lib.read_grid(path), out, cache_dir)
        finished = [run for run in runs if run.directory.result() is not None]
        missing = sum(
            run.settings.seed == 0 and run not in finished for run in runs
        )
        if missing:
            print(f"{name}: {missing} runs of seed 0 are not finished.")
        else:
            records[name] = _collect_task(finished)
    return records


def _collect_task(runs: Sequence[Planned]) -> Record:
    approaches: dict[str, Record] = {}
    lines: list[Record] = []
    for run in runs:
        result = run.directory.result() or {}
        layers, metric = run.settings.trainable_layers, result["metric"]
        name = run.settings.approach
        rates = [
            r.settings.lr for r in runs if r.settings.trainable_layers == layers
        ]
        epochs = run.directory.epochs()
        if name not in approaches:
            approaches[name] = {
                "name": name,
                "rates": sorted({*rates}),
                "work": dataclasses.asdict(estimate.count_work(run)),
                "build_seconds": 0.0,
            }
        about = approaches[name]
        about["build_seconds"] = max(
            about["build_seconds"], result["prefix_build_seconds"] or 0.0
        )
        lines.append(
            {
                "approach": name,
                "rate": about["rates"].index(run.settings.lr),
                "seed": run.settings.seed,
                "validation": _points(epochs, "validation", metric),
                "test": _points(epochs, "test", metric),
                "epoch_seconds": [
                    line["train_seconds"] + line["eval_seconds"]
                    for line in epochs
                ],
                "beside_seconds": _seconds_beside(run, epochs, result),
            }
        )
    probed = estimate.count_work(_change(runs[0], features="frozen"))
    baselines = _fit_baselines(runs[0])
    config = runs[0].directory.config() or {}
    return {
        "metric": metric,
        "approaches": [*approaches.values()],
        "runs": lines,
        **baselines,
        "probe": {**baselines["probe"], "operations": probed.build},
        "validation_examples": config["split_sizes"]["validation"],
    }


def refit_baselines(
    grids: Sequence[str], out: str, cache_dir: str, records: dict[str, Record]
) -> None:
    """Puts scores of today's baselines into records.

    The seconds of the probe's pass stay: those of all other runs are of the
    same machine. Those of its fits are new.

    Args:
        grids, out, cache_dir: See `collect`.
        records: By the name of the grid; they are changed.
    """
    command_line.import_tensorflow()
    for path in grids:
        name = os.path.splitext(os.path.basename(path))[0]
        if name not in records:
            continue
        grid = grid_lib.read_grid(path)
        run = grid_lib.expand(path, grid, out, cache_dir)[0]
        try:
            fitted = _fit_baselines(run)
        except UserError as error:
            print(f"{name}: its baselines stay. {error}")
            continue
        recorded, probe = records[name], fitted["probe"]
        fits = probe["seconds"] - probe["pass_seconds"]
        pass_seconds = recorded["probe"]["pass_seconds"]
        recorded["floor"] = fitted["floor"]
        recorded["test_floor"] = fitted["test_floor"]
        recorded["probe"] |= {
            "validation": probe["validation"],
            "test": probe["test"],
            "seconds": round(pass_seconds + fits, 1),
        }


def _fit_baselines(run: Planned) -> Record:
    """Scores and seconds of the baselines on the split of a run."""
    words, probe = _fit(run, "tfidf"), _fit(run, "frozen")
    metric = words["metric"]
    return {
        "start_seconds": round(START_SECONDS + words["train_seconds"], 1),
        "floor": 100 * words["validation"][metric],
        "test_floor": 100 * words["test"][metric],
        "probe": {
            "validation": 100 * probe["validation"][metric],
            "test": 100 * probe["test"][metric],
            "seconds": round(  # as if the states had not been there
                probe["train_seconds"]
                - (probe["prefix_seconds"] or 0.0)
                + probe["prefix_build_seconds"],
                1,
            ),
            "pass_seconds": round(probe["prefix_build_seconds"], 1),
        },
    }


def _seconds_beside(
    run: Planned, epochs: Sequence[Record], result: Record
) -> float:
    """Seconds of a run apart from its epochs and its feature cache."""
    seconds = run_seconds.read_seconds(run)
    if seconds is None:  # it was interrupted
        return INTERRUPTED_SECONDS
    seconds -= sum(e["train_seconds"] + e["eval_seconds"] for e in epochs)
    return round(max(seconds - (result["prefix_seconds"] or 0.0), 0.0), 3)


def _points(epochs: Sequence[Record], kind: str, metric: str) -> list[float]:
    return [round(100 * line[kind][metric], 4) for line in epochs]


def _change(run: Planned, **changes: Any) -> Planned:
    """A run on the same split with other settings."""
    settings = dataclasses.replace(run.settings, **changes)
    return dataclasses.replace(run, experiment=type(run.experiment)(settings))


def _fit(run: Planned, features: str) -> Record:
    """The result of a baseline on the split of a run."""
    return _change(run, features=features).experiment.train().record
