"""A sixth experiment, as a user would write it: a head first, then blocks.

One epoch trains the head alone on the frozen encoder; then the last blocks
train at a rate of their own.
"""

import dataclasses

from tf_transfer import experiment
from tf_transfer.config import command_line
from tf_transfer.config.settings import setting


@dataclasses.dataclass(frozen=True)
class Settings(experiment.TaskSettings):
    """The shared settings, and those of the first phase."""

    lr: float = setting(1e-4, "Learning rate of the last blocks.", above=0)
    head_lr: float = setting(1e-3, "Learning rate of the head.", above=0)
    head_epochs: int = setting(1, "Epochs of the head alone.", at_least=1)

    @property
    def approach(self) -> str:
        """`head_first_last_2`, ..."""
        return f"head_first_{super().approach}"


class HeadFirst(experiment.Experiment):
    """The phase of the base class, after one that trains the head alone."""

    name = "head_first"
    Settings = Settings

    def make_phases(self, objectives, blocks):
        """The head, then the last blocks."""
        [last] = super().make_phases(objectives, blocks)
        head = dataclasses.replace(
            last,
            trainable=self.trainable(blocks, "head"),
            trainable_layers="head",
            lr=self.settings.head_lr,
            max_epochs=self.settings.head_epochs,
        )
        return [head, last]


EXPERIMENT = HeadFirst
run = HeadFirst.run

if __name__ == "__main__":
    command_line.command(HeadFirst.main, HeadFirst.Settings)
