"""The command `python -m tf_transfer.multitask`; see `experiment`."""

from tf_transfer.config.command_line import command
from tf_transfer.multitask import experiment
from tf_transfer.multitask.settings import Settings

__doc__ = experiment.__doc__  # what --help begins with

if __name__ == "__main__":
    command(experiment.Multitask.main, Settings)
