"""Which weights to train: LoRA, biases, LayerNorm, or the last blocks.

Ours, not a paper's: every method of `--method`, in every block and in the last
ones, live and above a cached prefix, by score, time, memory and weights.

    python -m tf_transfer.methods --task=rte --trainable_layers=2 --method=lora

One recipe for all: batch 16, a constant rate, bias-corrected Adam, 10 % of the
training set to validate on, the best of at most 20 epochs, and the end when
validation has not risen for three. STS-B's scores are in units of their
standard deviation: few weights would take epochs to leave the zero of a new
output layer. The rate
is each method's own: a comparison tries equally many for each, and chooses on
validation (experiments/methods).
"""

import dataclasses
from typing import ClassVar

from tf_transfer import experiment
from tf_transfer.runs import task_settings

RECIPE = {
    "batch_size": 16,
    "max_epochs": 20,
    "bias_correction": True,
    "patience": 3,
}


@dataclasses.dataclass(frozen=True)
class Settings(
    experiment.TaskSettings,
    defaults=RECIPE,
    rates=task_settings.Rates(everything=5e-5, blocks=3e-4, head=1e-3),
):
    """The shared settings with one recipe for all methods."""

    scales_scores: ClassVar[bool] = True


class Methods(experiment.Experiment[Settings]):
    """One method, in some blocks, on one task."""

    name = "methods"
    Settings = Settings


EXPERIMENT = Methods
run = Methods.run
