"""The command `python -m tf_transfer.glue`; see `experiment`."""

from tf_transfer.config.command_line import command
from tf_transfer.glue import experiment

__doc__ = experiment.__doc__  # what --help begins with

if __name__ == "__main__":
    command(experiment.Glue.main, experiment.Settings)
