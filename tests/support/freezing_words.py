"""The settings of a freezing study that words give."""

from tf_transfer.config import command_line
from tf_transfer.freezing import experiment as freezing


def parsed(*words):
    return command_line.parse(freezing.Settings, words).resolve()


SMALL = (
    "--model=tiny",
    "--data=sample",
    "--task=rte",
    "--max_length=16",
    "--batch_size=8",
    "--max_epochs=1",
)
