"""Score against time: fine-tuning and the last blocks, on GLUE.

Zian Wang, "A New Computationally Efficient Method to Tune BERT Networks -
Transfer Learning": training only the last one to four of BERT-base's twelve
blocks takes about 60 % of the time an epoch; on small tasks it saves a third to
a half of the time to the stopping point and costs two to four points.

    python -m tf_transfer.glue --task=rte --trainable_layers=4 --lr=1e-3

Defaults are the paper's: batch 1, at most 30 epochs, 2e-5 for fine-tuning and
1e-3 for the last blocks, 90 % of the training set to train on and 10 % to
validate on, the development set as test, stop when validation has not risen for
two epochs, dropout, one output unit for a yes/no.

Where the paper is silent, ours (also in docs/papers/glue.md):
the dropout rate, 0.1; the "small threshold", 0.1 points; 128 tokens; BERT's own
Adam (decay 0.01, epsilon 1e-6, clipping at 1.0, no bias correction); a constant
rate, since a decay over 30 epochs does not go with early stopping; pooler and
head train with the last blocks; dropout stays on in frozen blocks; the best
validation epoch is the result, while claims take the score of the last, as the
paper does; STS-B learns its raw scores by squared error.
"""

import dataclasses

from tf_transfer import experiment
from tf_transfer.data import glue as glue_data
from tf_transfer.data.task import Source
from tf_transfer.own.task_file import TaskFile
from tf_transfer.runs import run_data, task_settings


@dataclasses.dataclass(frozen=True)
class Settings(
    experiment.TaskSettings,
    rates=task_settings.Rates(everything=2e-5, blocks=1e-3, head=1e-3),
):
    """The shared settings, whose defaults are Wang's."""


class GlueData(run_data.RunData[Settings]):
    """A task of GLUE; CoLA is scored by accuracy (section 3.2)."""

    def open_source(self, task: str | TaskFile) -> Source:
        """The source of a task; see `RunData`."""
        source = super().open_source(task)
        if source.task == glue_data.TASKS["cola"]:
            source.task = source.task.scored_by("accuracy")
        return source


class Glue(experiment.Experiment[Settings]):
    """Wang's comparison: one task of GLUE, one approach."""

    name = "glue"
    Settings = Settings
    Data = GlueData


EXPERIMENT = Glue
run = Glue.run
