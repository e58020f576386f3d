"""Runs, with a NumPy step in place of TensorFlow's."""

import contextlib
import os
import pathlib
import types

import numpy as np

from tests.faults.points import Scenario
from tests.support import run_files
from tf_transfer.glue import experiment as glue
from tf_transfer.training import records, results, tensorboard

DEVICES = types.SimpleNamespace(names=["CPU:0"], replicas=1)
RUN, OTHER = "runs/glue/rte/last_1/seed=0", "runs/glue/rte/last_1/seed=1"
STEPS = 2  # in an epoch
PHASES, EPOCHS = 2, 2  # of a run of several tasks
TASKS = ("sst", "quora", "sts")


# === A run ===


def train(root, path=RUN, epochs=2, seed=0, stop_after=None):
    """Does to the files of a run what `training.trainer` does.

    Args:
        root: the folder.
        path: of the run below it.
        epochs: to train for.
        seed: of the run.
        stop_after: steps after which it stops, as if killed.
    """
    settings = glue.Settings(
        task="rte", model="tiny", data="sample", seed=seed, max_epochs=epochs
    )
    key = {"module": "glue", "seed": seed}
    directory = records.RunDirectory(os.path.join(root, path), key)
    result = directory.result()
    directory.check_key()
    if result and not results.describe_extension(settings, result):
        return
    with contextlib.closing(directory):
        directory.begin(settings, DEVICES, {"head": 1}, {"train": 8})
        state = {"step": 0, "epochs": [], "best": None}
        weights = np.full(4, seed + 1, np.float32)
        weights, state, events = resume(directory, weights, state)
        while state["step"] < epochs * STEPS:
            if state["step"] == stop_after:
                return
            weights = np.float32(0.7) * weights + np.float32(state["step"])
            state["step"] += 1
            if state["step"] % STEPS == 0:
                end_epoch(directory, state, weights)
                events.scalar("test/accuracy", 0.5, state["step"])
                events.flush()
            save(directory, state, weights)
        finish(directory, state, weights, events, epochs)


def resume(directory, weights, state):
    """Weights and state, those of the newest checkpoint if any; the events."""
    newest = directory.checkpoints.newest(
        repair=True, also_needs=lambda s: check_best(directory, s)
    )
    if newest is not None:
        weights, state = newest[0]["w"], newest[1]
    directory.write_epochs(state["epochs"])
    events = tensorboard.RunEvents(directory.path)
    events.start(state["step"], {})
    return weights, state, events


def train_tasks(root):
    """A run of two phases of two epochs; each has a pass over every task.

    The second phase begins at the weights that the first has selected.
    """
    settings = glue.Settings(task="rte", model="tiny", data="sample")
    key = {"module": "multitask"}
    directory = records.RunDirectory(os.path.join(root, RUN), key)
    result = directory.result()
    directory.check_key()
    if result is not None:
        return
    with contextlib.closing(directory):
        directory.begin(settings, DEVICES, {"head": 1}, {"train": 8})
        state = {"phase": 1, "epoch": 0, "step": 0, "epochs": [], "best": None}
        weights = np.ones(4, np.float32)
        weights, state, events = resume(directory, weights, state)
        while state["phase"] <= PHASES:
            while state["epoch"] < EPOCHS:
                weights = train_epoch(directory, state, weights)
                save(directory, state, weights)
            # Not saved: a resumed run ends the phase again.
            weights = directory.read_model(state["best"])["w"]
            state["phase"] += 1
            state["epoch"] = 0
        finish(directory, state, weights, events, PHASES * EPOCHS)


def train_epoch(directory, state, weights):
    """Passes over all tasks; the first epoch of a phase is its best."""
    state["epoch"] += 1
    for task in TASKS:
        weights = np.float32(0.7) * weights + np.float32(state["step"])
        state["step"] += 1
        state["epochs"].append(
            {
                "epoch": len(state["epochs"]) // len(TASKS) + 1,
                "phase": state["phase"],
                "phase_epoch": state["epoch"],
                "task": task,
                "validation": {task: float(weights[0])},
                "test": {task: float(weights[1])},
                "elapsed_seconds": 1.0,
            }
        )
        directory.write_epochs(state["epochs"])
    if state["epoch"] == 1:
        state["best"] = directory.write_model(
            f"phase-{state['phase']}-epoch-1", {"w": weights}
        )
    return weights


def check_best(directory, state):
    if state["best"]:
        directory.read_model(state["best"])


def end_epoch(directory, state, weights):
    epoch = state["step"] // STEPS
    score = float(np.float64(weights.sum()) / 64)
    state["best"] = directory.write_model(
        f"phase-1-epoch-{epoch}", {"w": weights}
    )
    state["epochs"].append(
        {
            "epoch": epoch,
            "phase": 1,
            "phase_epoch": epoch,
            "validation": {"accuracy": score},
            "test": {"accuracy": score},
            "elapsed_seconds": float(epoch),
        }
    )
    directory.write_epochs(state["epochs"])
    directory.note_concurrent_runs()


def save(directory, state, weights):
    kept = directory.checkpoints.save(state["step"], {"w": weights}, state)
    directory.keep_models([one["best"] for one in kept if one["best"]])


def finish(directory, state, weights, events, epochs):
    directory.checkpoints.keep(1)
    directory.keep_models([state["best"]])
    directory.write_predictions(
        {"test_ids": np.arange(4), "test_logits": weights}
    )
    events.log_outcome(
        run_files.finished(test={"accuracy": 0.5}), "accuracy", state["step"]
    )
    events.close()
    directory.write_profile(
        {
            "metric": "accuracy",
            "texts": 4,
            "states": "cls",
            "fold_scores": [0.5],
            "blocks_needed": 1,
            "blocks": [],
        }
    )
    directory.write_errors({"test": float(weights[0])})
    directory.write_result(
        run_files.finished(
            test=state["epochs"][-1]["test"],
            epochs_run=epochs,
            phases=[run_files.phase(epochs)],
            stop_reason="max_epochs",
            seed=directory.key.get("seed", 0),
        )
    )


def read_run(root, path=RUN):
    """The numbers, weights and predictions of a run; None if unfinished."""
    directory = records.RunDirectory(os.path.join(root, path), None)
    result = directory.result()
    if result is None:
        return None
    for name in result["sha256"]:
        directory.check_file(name, result)
    [model] = [n for n in result["sha256"] if n.startswith("model/")]
    content = []
    for name in (model, "predictions.npz", "errors.json"):
        with open(directory.check_file(name), "rb") as file:
            content.append(file.read())
    numbers = [without_times(line) for line in [result, *directory.epochs()]]
    return numbers, content


def without_times(record):
    """The fields that are the same whenever a run is done."""
    if isinstance(record, list):
        return [*map(without_times, record)]
    if not isinstance(record, dict):
        return record
    timed = ("second", "sha256", "memory")
    return {
        name: without_times(value)
        for name, value in record.items()
        if not any(word in name for word in timed)
    }


def read_answers(root):
    content = {}
    for name in ("answers.csv", "answers.csv.errors.json"):
        path = pathlib.Path(root, name)
        content[name] = path.read_bytes() if path.exists() else None
    return content


def has_whole_files(result, before, expected):
    """Each file is the older one or the new one."""
    return all(
        result.get(name) in (before[name], expected[name]) for name in expected
    )


def prepare_other(root):
    train(root, OTHER, seed=1)


def prepare_half(root):
    prepare_other(root)
    train(root, stop_after=3)


def prepare_finished(root):
    prepare_other(root)
    train(root)


SCENARIOS = {
    "run": Scenario(prepare_other, train, read_run, (f"{RUN}/*",)),
    "resumed run": Scenario(prepare_half, train, read_run, (f"{RUN}/*",)),
    "run of three tasks": Scenario(
        prepare_other, train_tasks, read_run, (f"{RUN}/*",)
    ),
    "extended run": Scenario(
        prepare_finished,
        lambda root: train(root, epochs=3),
        read_run,
        (f"{RUN}/*",),
    ),
}
