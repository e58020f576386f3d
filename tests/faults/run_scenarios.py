"""Runs, with a NumPy step in place of TensorFlow's."""

import contextlib
import os
import types

import numpy as np

from tests.faults.points import Scenario
from tests.support import run_files
from tf_transfer.glue import experiment as glue
from tf_transfer.training import records, results, tensorboard

DEVICES = types.SimpleNamespace(names=["CPU:0"], replicas=1)
RUN, OTHER = "runs/glue/rte/last_1/seed=0", "runs/glue/rte/last_1/seed=1"
STEPS = 2  # in an epoch


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
        newest = directory.checkpoints.newest(
            repair=True, also_needs=lambda s: check_best(directory, s)
        )
        if newest is not None:
            weights, state = newest[0]["w"], newest[1]
        directory.write_epochs(state["epochs"])
        events = tensorboard.RunEvents(directory.path)
        events.start(state["step"], {})
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
    events.log_result(
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
    directory.end(
        run_files.finished(
            test=state["epochs"][-1]["test"],
            epochs_run=epochs,
            phases=[run_files.phase(epochs)],
            stop_reason="max_epochs",
            seed=directory.key["seed"],
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
    timed = ("second", "sha256", "memory")
    return {
        name: value
        for name, value in record.items()
        if not any(word in name for word in timed)
    }


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
    "extended run": Scenario(
        prepare_finished,
        lambda root: train(root, epochs=3),
        read_run,
        (f"{RUN}/*",),
    ),
}
