"""The command `python -m tf_transfer.methods`; see `experiment`."""

from tf_transfer.config.command_line import command
from tf_transfer.methods import experiment

__doc__ = experiment.__doc__  # what --help begins with

if __name__ == "__main__":
    command(experiment.Methods.main, experiment.Settings)
