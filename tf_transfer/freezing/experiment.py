"""How many blocks are enough: quality against the number of frozen blocks.

Jaejun Lee, Raphael Tang, Jimmy Lin, "What Would Elsa Do? Freezing Layers During
Transformer Fine-Tuning" (arXiv 1911.03090): with the embeddings and the first N
of L blocks frozen, a fourth of the blocks is enough for 90 % of the quality of
training everything.

    python -m tf_transfer.freezing --task=mrpc --trainable_layers=3 --lr=3e-5

is one run: a number of trained blocks, at one rate, with one seed. The grids in
`experiments/freezing` have the whole study. They search the rate that is best
for training everything, then train every number of blocks at that rate. The
report shows how many trained blocks are enough, and how sure that is.

Defaults are the paper's and its authors' code's: batch 16, 3 epochs for BERT
and 10 for RoBERTa, Adam with bias correction and epsilon 1e-8, no decay, linear
decay of the rate without warm-up, clipping at 1.0, the state after the last
epoch, CoLA scored by Matthews, pooler and head always trained. As committed
from 12 October to 22 November 2019, their code trains no biases and no
LayerNorm where it trains everything else; the paper does not mention it:
`--untrained=bias,norm`.

Output and dropout are as in the authors' code: two units with a softmax for
two classes, and for RoBERTa a second dropout, before the pooler.

Where the paper is silent, ours: a run without `--lr` has the middle one of the
paper's rates; clipping looks at what trains (their norm counted frozen
gradients too). The grids choose the rate on a tenth of the training set that is
held out for the search alone (the authors looked at the development set).
"""

import dataclasses

from tf_transfer import experiment
from tf_transfer.config.fields import Setting, setting
from tf_transfer.models import loading
from tf_transfer.models.freezing import Trainable
from tf_transfer.runs import task_settings

RATE = 3e-5  # the middle of the paper's rates
EPOCHS_BERT, EPOCHS_ROBERTA = 3, 10
# Weights that `--untrained` leaves out; LayerNorm's are gamma and beta.
UNTRAINED = {"": (), "bias,norm": ("bias", "beta", "gamma")}

RECIPE = {
    "batch_size": 16,
    "max_epochs": None,
    "weight_decay": 0.0,
    "adam_epsilon": 1e-8,
    "bias_correction": True,
    "schedule": "linear",
    "patience": 0,
    "validation_fraction": 0.0,
    "select": "last",
    "loss_head": "softmax",
}
HELP = {
    "lr": f"Learning rate. Unset: {RATE:g}, the middle of the paper's rates. "
    "The grids of the paper search the best.",
    "max_epochs": f"Epochs. Unset: {EPOCHS_BERT} for BERT, {EPOCHS_ROBERTA} "
    "for RoBERTa.",
    "validation_fraction": "Fraction of the training set that is held out. The "
    "grids hold out a tenth for the search of the rate, and nothing after it.",
    "loss_head": "The output for two classes: the softmax of two units, as in "
    "the authors' code, or the sigmoid of one.",
}


@dataclasses.dataclass(frozen=True)
class Settings(
    experiment.TaskSettings,
    defaults=RECIPE,
    help=HELP,
    rates=task_settings.Rates(everything=RATE, blocks=RATE, head=RATE),
):
    """The shared settings with the paper's defaults, and its own."""

    pooler_dropout: float = setting(
        None,
        "Dropout rate before the pooler. Unset: --head_dropout for RoBERTa, as "
        "in its classifier; none for BERT.",
        at_least=0,
        below=1,
        unnamed=0.0,
        needs={"pooling": "cls"},
    )
    untrained: str = setting(
        "",
        "The weights that do not train where everything does: `bias,norm`, no "
        "bias and no weight of a LayerNorm, as in the authors' code until "
        "they repaired it on 22 November 2019. Unset: every weight trains. "
        "Runs that freeze blocks do not read it.",
        choices=tuple(UNTRAINED),
        unnamed="",
        needs={"trains_everything": True},
    )

    def defaults(self) -> dict[str, Setting]:
        """Epochs and the pooler's dropout, by the family of the encoder."""
        values = super().defaults()
        is_roberta = loading.is_roberta(self.model)
        if self.max_epochs is None:
            values["max_epochs"] = EPOCHS_ROBERTA if is_roberta else EPOCHS_BERT
        if self.pooler_dropout is None:
            has_two = is_roberta and self.pooling == "cls"
            values["pooler_dropout"] = self.head_dropout if has_two else 0.0
        return values


class Freezing(experiment.Experiment[Settings]):
    """A number of trained blocks, at one rate, with one seed."""

    name = "freezing"
    Settings = Settings

    def trainable(self, blocks: int, phase: str = "") -> Trainable:
        """The weights that train, without those of `--untrained`."""
        trainable = super().trainable(blocks, phase)
        if not self.settings.reads("untrained"):
            return trainable
        untrained = UNTRAINED[self.settings.untrained]
        return dataclasses.replace(trainable, untrained=untrained)


EXPERIMENT = Freezing
run = Freezing.run
