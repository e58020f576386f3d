"""TensorBoard's event files: numbers, pictures, and the table of runs."""

import contextlib
import os
import socket
import struct
import time

import numpy as np
from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.hparams import summary_v2 as hparams
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

OVERVIEW = "overview"  # folder below the runs, for what shows all of them
# What HParams' table of runs shows of each, beside its settings.
RESULT_COLUMNS = {
    "result/score": "score",
    "result/seconds": "seconds",
    "result/seconds_per_epoch": "seconds an epoch",
    "result/trainable_parameters": "trained parameters",
}
# TensorBoard shows the first five by name, so there are five: task and approach
# must be among them. A run's name has batch size and model, too.
HYPERPARAMETERS = ("approach", "frozen_prefix", "lr", "seed", "task")


class EventFile:
    """An event file of its own below a folder."""

    def __init__(self, folder):
        name = (
            f"events.out.tfevents.{time.time():.6f}."
            f"{socket.gethostname()}.{os.getpid()}"
        )
        file = open(os.path.join(folder, name), "ab", 1 << 20)
        self._writer = RecordWriter(file)
        self.write(file_version="brain.Event:2")

    def write(self, step=0, **content):
        """Writes one event."""
        event = event_pb2.Event(wall_time=time.time(), step=step, **content)
        self._writer.write(event.SerializeToString())

    def start(self, step, hyperparameters, trial):
        """Says that a run goes on at `step`, and with what settings."""
        self.write(
            session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START),
            step=step,
        )
        self.write(
            summary=hparams.hparams_pb(hyperparameters, trial_id=trial),
            step=step,
        )

    def scalar(self, tag, value, step):
        """Writes a number."""
        summary = summary_pb2.Summary()
        entry = summary.value.add(tag=tag)
        entry.metadata.CopyFrom(scalar_metadata.create_summary_metadata("", ""))
        entry.tensor.CopyFrom(tensor_util.make_tensor_proto(np.float32(value)))
        self.write(summary=summary, step=step)

    def image(self, tag, caption, png):
        """Writes a picture, given as the bytes of a PNG file."""
        summary = summary_pb2.Summary()
        entry = summary.value.add(tag=tag)
        entry.metadata.CopyFrom(
            image_metadata.create_summary_metadata(tag, caption)
        )
        width, height = struct.unpack(">II", png[16:24])
        entry.tensor.CopyFrom(
            tensor_util.make_tensor_proto(
                [str(width).encode(), str(height).encode(), png]
            )
        )
        self.write(summary=summary)

    def columns(self):
        """Writes which settings and results HParams' table has."""
        self.write(
            summary=hparams.hparams_config_pb(
                [hparams.HParam(name) for name in HYPERPARAMETERS],
                [
                    hparams.Metric(tag, display_name=name)
                    for tag, name in RESULT_COLUMNS.items()
                ],
            )
        )

    def flush(self):
        """Lets readers see what was written."""
        self._writer.flush()

    def close(self):
        """Ends the file."""
        self._writer.close()


def write_overview(folder, images=None):
    """What TensorBoard shows of a folder of runs as a whole.

    Args:
        folder: below that of the runs.
        images: dict from a name to (caption, PNG bytes), in place of those
            of an earlier call. None leaves what is there.
    """
    os.makedirs(folder, exist_ok=True)
    known = [n for n in os.listdir(folder) if n.startswith("events.out.")]
    if images is None and known:
        return
    for name in known:
        with contextlib.suppress(FileNotFoundError):  # another's turn, too
            os.remove(os.path.join(folder, name))
    with contextlib.closing(EventFile(folder)) as file:
        file.columns()
        for name, (caption, png) in (images or {}).items():
            file.image(name, caption, png)
