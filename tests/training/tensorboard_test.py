"""What TensorBoard reads in a run directory."""

import subprocess
import sys

import pytest
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

from tf_transfer.training import tensorboard


def log(folder, first_step, points):
    """Logs as one process does, from its start to its end."""
    events = tensorboard.RunEvents(str(folder))
    events.start(first_step, {"task": "rte", "lr": 1e-3, "seed": 0})
    for tag, step, value in points:
        events.scalar(tag, value, step)
    events.close()


def read_events(folder):
    """TensorBoard's reader of a folder."""
    reader = plugin_event_accumulator.EventAccumulator(folder)
    reader.Reload()
    return reader


def points(folder):
    """The points that TensorBoard shows, by tag."""
    reader = read_events(folder)
    return {
        tag: [
            (event.step, float(tensor_util.make_ndarray(event.tensor_proto)))
            for event in reader.Tensors(tag)
        ]
        for tag in reader.PluginTagToContent("scalars")
    }


def test_tensorboard_reads_what_was_logged(tmp_path):
    log(
        tmp_path,
        0,
        [("train/loss", 1, 0.5), ("train/loss", 2, 0.25), ("time/x", 2, 7.0)],
    )
    assert points(str(tmp_path)) == {
        "train/loss": [(1, 0.5), (2, 0.25)],
        "time/x": [(2, 7.0)],
    }


def test_tensorboard_has_the_hyperparameters_for_its_table(tmp_path):
    log(tmp_path, 0, [])
    reader = read_events(str(tmp_path))
    [content] = reader.PluginTagToContent("hparams").values()
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    found = data.session_start_info.hparams
    assert found["task"].string_value == "rte"
    assert found["lr"].number_value == pytest.approx(1e-3)


def test_points_that_a_killed_process_logged_too_early_are_void(tmp_path):
    """It was killed at step 5, and its last checkpoint stands at step 2."""
    log(tmp_path, 0, [("train/loss", step, 1.0) for step in (1, 2, 3, 4, 5)])
    log(tmp_path, 3, [("train/loss", step, 2.0) for step in (3, 4)])
    assert points(str(tmp_path))["train/loss"] == [
        (1, 1.0),
        (2, 1.0),
        (3, 2.0),
        (4, 2.0),
    ]


# === Without TensorFlow ===

LIGHT = """
import sys
from tf_transfer.training import records
from tf_transfer.training import tensorboard
run = records.RunDirectory({path!r}, {{}})
run.lock()
events = tensorboard.RunEvents(run.path)
events.start(0, {{"lr": 1e-3}})
events.scalar("train/loss", 1.0, 1)
events.close()
run.write_model("epoch-1", {{}})
run.close()
print([name for name in ("tensorflow", "keras") if name in sys.modules])
"""


def test_records_are_written_without_tensorflow(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIGHT.format(path=str(tmp_path / "run"))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    assert points(str(tmp_path / "run"))["train/loss"] == [(1, 1.0)]
