"""How many blocks are enough: quality against the number of frozen blocks.

Jaejun Lee, Raphael Tang, Jimmy Lin, "What Would Elsa Do? Freezing Layers During
Transformer Fine-Tuning" (arXiv 1911.03090): with the embeddings and the first N
of L blocks frozen, a fourth of the blocks is enough for 90 % of the quality of
training everything.

    python -m tf_transfer.freezing --task=mrpc --model=roberta_base_en

is the whole study of a task: it fits the probe, which is ours, searches the
learning rate that is best for training everything, then trains with every N at
that rate, several trials each, and shows how many trained blocks are enough,
what they cost, and how sure that is. It runs as a sweep: finished trials are
reused, and interrupted ones continue.

Defaults are the paper's and its authors' code's: batch 16, 3 epochs for BERT
and 10 for RoBERTa, rates from 1e-5 to 5e-5, five trials, Adam with bias
correction and epsilon 1e-8, no decay, linear decay of the rate without warm-up,
clipping at 1.0, the state after the last epoch, CoLA scored by Matthews, pooler
and head always trained, N from L/2 to L and 0. As committed from 12 October to
22 November 2019, their code trains no biases and no LayerNorm where it trains
everything else; the paper does not mention it: `--untrained=bias,norm`.

Output and dropout are as in the authors' code: two units with a softmax for
two classes, and for RoBERTa a second dropout, before the pooler.

Where the paper is silent, ours: the rate is chosen on a tenth of the training
set that is held out for the search alone (the authors looked at the development
set); clipping looks at what trains (their norm counted frozen gradients too).
"""

import dataclasses
from collections.abc import Sequence

from absl import flags

from tf_transfer import experiment
from tf_transfer.config.fields import (
    baseline_setting,
    Reader,
    setting,
    study_setting,
)
from tf_transfer.freezing import operating
from tf_transfer.freezing.studies import (
    rates_of,
    run_studies,
    SEARCH_FRACTION,
    tasks_of,
)
from tf_transfer.models import loading
from tf_transfer.models.freezing import Trainable
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

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
    "lr": "Learning rate. Unset: the best of --rates, by the search.",
    "max_epochs": f"Epochs. Unset: {EPOCHS_BERT} for BERT, {EPOCHS_ROBERTA} "
    "for RoBERTa.",
    "validation_fraction": "Fraction of the training set that is held out. The "
    f"study holds out {SEARCH_FRACTION:g} for the search of the rate, and "
    "nothing after it.",
    "loss_head": "The output for two classes: the softmax of two units, as in "
    "the authors' code, or the sigmoid of one.",
}


@dataclasses.dataclass(frozen=True)
class Settings(
    experiment.TaskSettings,
    defaults=RECIPE,
    help=HELP,
):
    """The shared settings with the paper's defaults, and the study's own."""

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
    trial: bool = baseline_setting(
        False,
        "Do one run, with --lr, --trainable_layers and --seed, as the study's "
        "own processes do.",
        hashed=False,
    )
    tasks: str = baseline_setting(
        "",
        "Tasks that are studied one after another, such as mrpc,mine.toml, "
        "or `all` of GLUE's. Unset: --task.",
        hashed=False,
    )
    rates: str = study_setting(
        "1e-5,2e-5,3e-5,4e-5,5e-5",
        "Rates of the search; the best has the highest plain mean on "
        "validation.",
    )
    search_trials: int = study_setting(
        5,
        "Trials of each rate.",
        at_least=1,
    )
    trials: int = study_setting(
        5,
        "Trials of each number of blocks.",
        at_least=1,
    )
    frozen_blocks: str = study_setting(
        "",
        "Numbers of the first blocks to freeze, such as 6-12 or 0,3,6. "
        "Unset: from half of them to all. 0 trains everything, the embeddings "
        "too, and is always studied.",
    )
    quality: str = study_setting(
        "0.9",
        "Shares of the full score to keep, such as 0.9 or 0.9,0.95.",
    )
    interval: float = study_setting(
        None,
        "Share of resampled trials that the interval of the number of blocks "
        "holds; it needs two trials. Unset: "
        f"{operating.LEVEL:g}, where there are two.",
        above=0,
        below=1,
    )
    jobs: int = study_setting(
        None,
        "Number of runs at the same time. Unset: one, or one on each GPU.",
        at_least=1,
    )
    retry_failed: bool = study_setting(
        False,
        "Try runs again that have failed before.",
    )
    dry_run: bool = study_setting(
        False,
        "List the runs of the study with their operations and their time, and "
        "stop.",
    )
    flops: float = study_setting(
        None,
        "Operations per second of the device, for the time that --dry_run "
        "prints. Unset: those of the last finished run of this machine.",
        above=0,
    )

    @property
    def reader(self) -> Reader:
        """Which settings are read: a study's, unless it is one run."""
        if self.trial or self.is_probe:
            return super().reader
        return Reader.STUDY

    def unread(self) -> list[str]:
        """Names of flags that are not read; a study's trials read more."""
        names = super().unread()
        if self.reader < Reader.STUDY:
            return names
        return [n for n in names if n != "untrained" and "cache_" not in n]

    def defaults(self) -> Record:
        """Epochs and the pooler's dropout, by the family of the encoder."""
        values = super().defaults()
        is_roberta = loading.is_roberta(self.model)
        if self.max_epochs is None:
            values["max_epochs"] = EPOCHS_ROBERTA if is_roberta else EPOCHS_BERT
        if self.pooler_dropout is None:
            has_two = is_roberta and self.pooling == "cls"
            values["pooler_dropout"] = self.head_dropout if has_two else 0.0
        return values

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check()
        if self.trial and self.lr is None and not self.is_probe:
            raise UserError("--trial: one run needs its --lr.")
        rates_of(self)
        tasks_of(self)
        operating.parse_qualities(self.quality)
        if self.interval is not None and self.trials < 2:
            raise UserError(
                f"--trials={self.trials}: the interval that --interval="
                f"{self.interval:g} asks for needs two trials of each number "
                "of blocks: give --trials=2 or more, or leave --interval out."
            )


class Freezing(experiment.Experiment[Settings]):
    """One trial: a number of trained blocks, at one rate, with one seed."""

    name = "freezing"
    Settings = Settings

    def trainable(self, blocks: int, phase: str = "") -> Trainable:
        """The weights that train, without those of `--untrained`."""
        trainable = super().trainable(blocks, phase)
        if not self.settings.reads("untrained"):
            return trainable
        untrained = UNTRAINED[self.settings.untrained]
        return dataclasses.replace(trainable, untrained=untrained)

    def find_run(self, replicas: int = 1) -> RunDirectory:
        """The directory of the run; see `Experiment.find_run`.

        Raises:
            UserError: `--lr` is missing; a study would search it.
        """
        if self.settings.lr is None and not self.settings.is_probe:
            raise UserError("--lr: one run needs it; a study searches it.")
        return super().find_run(replicas)

    def execute(self) -> None:
        """Does what the command asks for: the study, or one run of it."""
        settings = self.settings
        if settings.describe:
            super().execute()
        elif settings.is_probe:
            for task in tasks_of(settings):
                Freezing(
                    dataclasses.replace(settings, task=task, tasks="")
                ).train()
        elif settings.trial:
            _refuse(
                ("tasks",),
                "belongs to the study, and --trial is one run: give --task.",
            )
            super().execute()
        else:
            _refuse(
                ("validation_fraction", "select"),
                "a study holds out a fraction for the search of the rate, "
                "and tests the last state. Add --trial for one run of another "
                "kind.",
            )
            if settings.tasks and flags.FLAGS["task"].present:
                raise UserError(
                    f"--task={settings.task} and --tasks={settings.tasks} (of "
                    "a flag file?) both say what is studied: give --tasks "
                    "alone."
                )
            _refuse(
                ("trainable_layers", "blocks", "seed", "rerun"),
                "belongs to one run: add --trial and --lr; a study has "
                "--frozen_blocks and --trials.",
            )
            run_studies(settings)


def _refuse(names: Sequence[str], why: str) -> None:
    """Raises `UserError` if a flag was given that has no use here."""
    for name in names:
        if flags.FLAGS[name].present:
            raise UserError(f"--{name}: {why}")


EXPERIMENT = Freezing
run = Freezing.run
