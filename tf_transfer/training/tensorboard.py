"""TensorBoard's event files: numbers, and the table of runs."""

import contextlib
import os
import socket
import time

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import plugin_data_pb2, summary_v2 as hparams
from tensorboard.plugins.scalar import summary_v2 as scalar
from tensorboard.summary.writer.record_writer import RecordWriter

from tf_transfer.training.results import Outcome
from tf_transfer.utils import files
from tf_transfer.utils.json_files import Record

OVERVIEW = "overview"  # folder below the runs
# The columns of HParams' table of runs, in addition to the settings.
RESULT_COLUMNS = {
    "result/score": "score",
    "result/seconds": "seconds",
    "result/seconds_per_epoch": "seconds per epoch",
    "result/trainable_parameters": "trained parameters",
}
# The hyperparameters in HParams' table. TensorBoard lists all of them and shows
# five: those marked as different between runs come first, then by name.
FIRST_COLUMNS = ("approach", "frozen_prefix", "lr", "seed", "task")
HYPERPARAMETERS = (
    *FIRST_COLUMNS,
    *("model", "method", "pooling", "batch_size", "max_length", "precision"),
    *("dropout", "schedule"),
)


class EventFile:
    """An event file of its own in a folder."""

    def __init__(self, folder: str) -> None:
        name = (
            f"events.out.tfevents.{time.time():.6f}."
            f"{socket.gethostname()}.{os.getpid()}"
        )
        self._folder = folder
        self._writer = RecordWriter(
            open(os.path.join(folder, name), "ab", 1 << 20)
        )
        self.write(event_pb2.Event(file_version="brain.Event:2"))

    def write(self, event: event_pb2.Event, step: int = 0) -> None:
        """Writes one event, which gets the time and the step."""
        event.wall_time, event.step = time.time(), step
        self._writer.write(event.SerializeToString())

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Writes a number."""
        event = event_pb2.Event(summary=scalar.scalar_pb(tag, value))
        self.write(event, step)

    def flush(self) -> None:
        """Lets readers see what was written.

        Raises:
            UserError: The disk is full.
        """
        try:
            self._writer.flush()
        except OSError as error:
            files.raise_if_full(self._folder, error)
            raise

    def close(self) -> None:
        """Ends the file."""
        with contextlib.suppress(OSError):  # a full disk was reported
            self._writer.close()


class RunEvents(EventFile):
    """The event file of one run, in its directory."""

    def start(self, step: int, hyperparameters: Record) -> None:
        """Writes the settings of a run that begins, or resumes at `step`.

        TensorBoard then ignores later steps of older files.
        """
        begin = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self.write(event_pb2.Event(session_log=begin), step)
        # Runs with equal settings would be merged under one trial.
        summary = hparams.hparams_pb(
            hyperparameters, trial_id=os.path.basename(self._folder)
        )
        self.write(event_pb2.Event(summary=summary), step)

    def log_outcome(self, outcome: Outcome, metric: str, step: int) -> None:
        """Writes the columns of HParams' table; see `RESULT_COLUMNS`."""
        scores = outcome["test"] or outcome["validation"] or {}
        values = (
            scores.get(metric),
            outcome["train_seconds"],
            outcome["seconds_per_epoch"],
            outcome["trainable_parameters"],
        )
        for tag, value in zip(RESULT_COLUMNS, values):
            if value is not None:
                self.scalar(tag, value, step)
        self.flush()


def write_columns(root: str) -> None:
    """Writes the columns of the table of runs, once for a folder of runs."""
    folder = os.path.join(root, OVERVIEW)
    os.makedirs(folder, exist_ok=True)
    if any(name.startswith("events.out.") for name in os.listdir(folder)):
        return
    with contextlib.closing(EventFile(folder)) as file:
        file.write(event_pb2.Event(summary=_describe_columns()))


def _describe_columns() -> summary_pb2.Summary:
    """The columns of HParams' table."""
    summary = hparams.hparams_config_pb(
        [hparams.HParam(name) for name in HYPERPARAMETERS],
        [
            hparams.Metric(tag, display_name=name)
            for tag, name in RESULT_COLUMNS.items()
        ],
    )
    data = summary.value[0].metadata.plugin_data
    columns = plugin_data_pb2.HParamsPluginData.FromString(data.content)
    for info in columns.experiment.hparam_infos:
        info.differs = info.name in FIRST_COLUMNS
    data.content = columns.SerializeToString()
    return summary
