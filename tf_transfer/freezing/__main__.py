"""The command `python -m tf_transfer.freezing`; see `experiment`."""

from tf_transfer.config.command_line import command
from tf_transfer.freezing import experiment

__doc__ = experiment.__doc__  # what --help begins with

if __name__ == "__main__":
    command(experiment.Freezing.main, experiment.Settings)
