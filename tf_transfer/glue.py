"""Score against time: fine-tuning beside the last blocks, on GLUE.

Zian Wang, "A New Computationally Efficient Method to Tune BERT Networks -
Transfer Learning": training only the last one to four of BERT-base's twelve
blocks takes about 60 % of the time an epoch; on small tasks it saves a third to
a half of the time to the stopping point and costs two to four points.

    python -m tf_transfer.glue --task=rte --trainable_layers=4 --lr=1e-3

Defaults are the paper's: batch 1, at most 30 epochs, 2e-5 for fine-tuning and
1e-3 for the last blocks, 90 % of the training set to train on and 10 % to
validate on, the development set as test, stop when validation has not risen for
two epochs, dropout, one output unit for a yes/no.

Where the paper is silent, ours (also in experiments/glue/README.md):
the dropout rate, 0.1; the "small threshold", 0.1 points; 128 tokens; BERT's own
Adam (decay 0.01, epsilon 1e-6, clipping at 1.0, no bias correction); a constant
rate, since a decay over 30 epochs does not go with early stopping; pooler and
head train with the last blocks; dropout stays on in frozen blocks; the best
validation epoch is the result; STS-B learns its raw scores by squared error.
"""

import dataclasses

from tf_transfer import text_task
from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.settings import setting

LR_FINE_TUNING = 2e-5
LR_LAST_BLOCKS = 1e-3


@dataclasses.dataclass(frozen=True)
class GlueSettings(text_task.TaskSettings):
    """The shared settings with Wang's defaults."""

    module = "glue"

    lr: float = setting(
        None,
        f"Learning rate. Unset: {LR_FINE_TUNING:g} for `all`, "
        f"{LR_LAST_BLOCKS:g} for the last blocks.",
    )

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        settings_lib.check(self)
        if self.lr is not None:
            return self
        fine_tuning = self.approach == "fine_tuning"
        return dataclasses.replace(
            self, lr=LR_FINE_TUNING if fine_tuning else LR_LAST_BLOCKS
        )


# What a sweep asks of a module.
SETTINGS = GlueSettings
run, build, locate = text_task.run, text_task.build, text_task.locate


def main():
    """Reads the flags and runs."""
    text_task.main(GlueSettings)


if __name__ == "__main__":
    command_line.start(main, GlueSettings)
