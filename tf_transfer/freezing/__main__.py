"""The command `python -m tf_transfer.freezing`; see `experiment`."""

from tf_transfer.experiment import start
from tf_transfer.freezing import experiment

__doc__ = experiment.__doc__  # what --help begins with

if __name__ == "__main__":
    start(experiment.EXPERIMENT)
