"""How many blocks are enough: quality against the number of frozen blocks.

Jaejun Lee, Raphael Tang, Jimmy Lin, "What Would Elsa Do? Freezing Layers During
Transformer Fine-Tuning" (arXiv 1911.03090): with the embeddings and the first N
of L blocks frozen, a fourth of the blocks is enough for 90 % of the quality of
training everything.

    python -m tf_transfer.freezing --task=mrpc --model=roberta_base_en

is the whole study of a task: it searches the learning rate that is best for
training everything, then trains with every N at that rate, several trials each,
and shows how many trained blocks are enough, what they cost, and how sure that
is. It runs as a sweep: each trial a process, what is finished is found, and
what was interrupted goes on. `--search=bisect` finds the number without trying
all.

Defaults are the paper's and its authors' code's: batch 16, 3 epochs for BERT
and 10 for RoBERTa, rates from 1e-5 to 5e-5, five trials, Adam with bias
correction and epsilon 1e-8, no decay, linear decay of the rate without warm-up,
clipping at 1.0, the state after the last epoch, CoLA scored by Matthews, pooler
and head always trained, N from L/2 to L and 0.

Where the paper is silent, ours: the rate is chosen on a tenth of the training
set that is held out for the search alone (the authors looked at the development
set); clipping looks at what trains (their norm counted frozen gradients too).
"""

import dataclasses

from absl import flags

from tf_transfer import freezing_study
from tf_transfer import text_task
from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.settings import setting
from tf_transfer.reports import operating
from tf_transfer.utils.errors import UserError

EPOCHS_BERT, EPOCHS_ROBERTA = 3, 10
HEADLINES = {"cola": "matthews"}  # where it is not that of the task's row


@dataclasses.dataclass(frozen=True)
class FreezingSettings(text_task.TaskSettings):
    """The shared settings with the paper's defaults, and the study's own."""

    module = "freezing"

    lr: float = setting(
        None, "Learning rate. Unset: the best of --rates, by the search."
    )
    batch_size: int = setting(16, "Examples a step, over all replicas.")
    max_epochs: int = setting(
        None,
        f"Epochs. Unset: {EPOCHS_BERT} for BERT, {EPOCHS_ROBERTA} for RoBERTa.",
    )
    weight_decay: float = setting(0.0, "Decoupled weight decay.")
    adam_epsilon: float = setting(1e-8, "Adam's epsilon.")
    bias_correction: bool = setting(
        True, "Correct Adam's moments for their start at zero."
    )
    schedule: str = setting(
        "linear",
        "The learning rate over time; `linear` falls to 0 at --max_epochs.",
        choices=("constant", "linear"),
    )
    patience: int = setting(
        0, "Stop when validation has not risen for so many epochs (0: never)."
    )
    validation_fraction: float = setting(
        0.0,
        "Part of the training set that is held out. The study holds out "
        f"{freezing_study.SEARCH_SHARE:g} for the search of the rate, and "
        "nothing after it.",
    )
    select: str = setting(
        "last",
        "Which epoch is the result: the best on validation, or the last.",
        choices=("best", "last"),
    )
    trial: bool = setting(
        False,
        "Do one run, with --lr, --trainable_layers and --seed, as the study's "
        "own processes do.",
        hashed=False,
    )
    tasks: str = setting(
        "",
        "Tasks that are studied one after another, such as mrpc,stsb, or "
        "`all`. Unset: --task.",
        hashed=False,
    )
    rates: str = setting(
        "1e-5,2e-5,3e-5,4e-5,5e-5", "Rates of the search.", hashed=False
    )
    search_trials: int = setting(5, "Trials of each rate.", hashed=False)
    trials: int = setting(5, "Trials of each number of blocks.", hashed=False)
    frozen_blocks: str = setting(
        "",
        "How many of the first blocks are frozen, such as 6-12 or 0,3,6. "
        "Unset: from half of them to all. 0 trains everything, the embeddings "
        "too, and is always part of the study.",
        hashed=False,
    )
    search: str = setting(
        "all",
        "Which of these numbers are tried: `all`; or `bisect`, which halves "
        "them until the fewest trained blocks that keep each --quality are "
        "found, and takes it that more of them are never worse.",
        choices=("all", "bisect"),
        hashed=False,
    )
    quality: str = setting(
        "0.9",
        "Shares of the full score that are to be kept, such as 0.9 or "
        "0.9,0.95.",
        hashed=False,
    )
    interval: float = setting(
        None,
        "Share of resampled trials that the interval of the number of blocks "
        "holds; it needs two trials. Unset: "
        f"{operating.LEVEL:g}, where there are two.",
        hashed=False,
    )
    jobs: int = setting(1, "Runs side by side.", hashed=False)
    retry_failed: bool = setting(
        False, "Try again what has failed before.", hashed=False
    )

    @property
    def row(self):
        """The task, scored as the paper scores it."""
        row = super().row
        headline = HEADLINES.get(self.task, row.metric)
        others = [name for name in row.metrics if name != headline]
        return dataclasses.replace(row, metric=headline, also=tuple(others))

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        from tf_transfer.models import loading

        settings = self
        if settings.max_epochs is None:
            is_roberta = loading.is_roberta(settings.model)
            settings = dataclasses.replace(
                settings,
                max_epochs=EPOCHS_ROBERTA if is_roberta else EPOCHS_BERT,
            )
        settings_lib.check(settings)
        if settings.trial and settings.lr is None:
            raise UserError("--trial: one run needs its --lr.")
        freezing_study.check(settings)
        return settings


# What a sweep asks of a module.
SETTINGS = FreezingSettings
run, build, locate = text_task.run, text_task.build, text_task.locate


def main():
    """Reads the flags; does the study, or one run of it."""
    settings = command_line.from_flags(FreezingSettings).resolve()
    command_line.import_tensorflow()
    if settings.describe:
        print(text_task.describe(settings))
    elif settings.trial:
        _refuse(
            ("tasks",),
            "belongs to the study, and --trial is one run: give --task.",
        )
        run(settings)
    else:
        _refuse(
            ("validation_fraction", "select"),
            "a study holds out a part for the search of the rate alone, and "
            "tests the last state. Add --trial for one run of another kind.",
        )
        if settings.tasks and flags.FLAGS["task"].present:
            raise UserError(
                f"--task={settings.task} and --tasks={settings.tasks} (of a "
                "flag file?) both say what is studied: give --tasks alone."
            )
        _refuse(
            ("trainable_layers", "blocks", "seed", "rerun"),
            "belongs to one run: add --trial and --lr; a study has "
            "--frozen_blocks and --trials.",
        )
        freezing_study.study(settings)


def _refuse(names, why):
    """Raises `UserError` where a flag was given that has no use here."""
    for name in names:
        if flags.FLAGS[name].present:
            raise UserError(f"--{name}: {why}")


if __name__ == "__main__":
    command_line.start(main, FreezingSettings)
