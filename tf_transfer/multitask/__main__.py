"""The command `python -m tf_transfer.multitask`; see `experiment`."""

from tf_transfer.experiment import start
from tf_transfer.multitask import experiment

__doc__ = experiment.__doc__  # what --help begins with

if __name__ == "__main__":
    start(experiment.EXPERIMENT)
