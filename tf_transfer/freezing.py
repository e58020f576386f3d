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
import os
import re

from absl import flags

from tf_transfer import command_line
from tf_transfer import settings as settings_lib
from tf_transfer import text_task
from tf_transfer.data import tasks as tasks_lib
from tf_transfer.errors import UserError
from tf_transfer.reports import operating
from tf_transfer.settings import setting

EPOCHS_BERT, EPOCHS_ROBERTA = 3, 10
SEARCH_SHARE = 0.1
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
        f"{SEARCH_SHARE:g} for the search of the rate, and nothing after it.",
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
        for name in ("trials", "search_trials", "jobs"):
            if getattr(settings, name) < 1:
                raise UserError(
                    f"--{name}={getattr(settings, name)}: give 1 or more."
                )
        rates_of(settings)
        tasks_of(settings)
        operating.parse_qualities(settings.quality)
        _check_interval(settings)
        return settings


def _check_interval(settings):
    level = settings.interval
    if level is None:
        return
    if not 0 < level < 1:
        raise UserError(
            f"--interval={level:g}: give a share between 0 and 1, such as 0.95."
        )
    if settings.trials < 2:
        raise UserError(
            f"--trials={settings.trials}: the interval that --interval="
            f"{level:g} asks for needs two trials of each number of blocks: "
            "give --trials=2 or more, or leave --interval out."
        )


def tasks_of(settings):
    """The tasks of the study."""
    if settings.tasks == "all":
        return list(tasks_lib.GLUE)
    found = settings.tasks.split(",") if settings.tasks else [settings.task]
    for name in found:
        if name not in tasks_lib.GLUE or found.count(name) > 1:
            raise UserError(
                f"--tasks={settings.tasks}: give `all`, or some of "
                f"{', '.join(tasks_lib.GLUE)}, each once."
            )
    return found


def rates_of(settings):
    """The rates of the search."""
    try:
        rates = [float(word) for word in settings.rates.split(",")]
    except ValueError:
        rates = [0.0]
    if not all(0 < rate < 1 for rate in rates) or len(set(rates)) < len(rates):
        raise UserError(
            f"--rates={settings.rates}: give rates such as 1e-5,2e-5, each "
            "once."
        )
    return rates


def frozen_of(settings, blocks):
    """The numbers N of frozen blocks that are studied, 0 apart.

    Args:
        blocks: L, how many the encoder has.
    """
    if blocks < 1:
        raise UserError(
            f"--model={settings.model}: has no blocks that could be frozen."
        )
    if not settings.frozen_blocks:
        return list(range(-(-blocks // 2), blocks + 1))
    found = set()
    for word in settings.frozen_blocks.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        if not ends or int(ends[2] or ends[1]) > blocks:
            raise UserError(
                f"--frozen_blocks={settings.frozen_blocks}: give numbers and "
                f"ranges from 0 to {blocks}, which is all that this encoder "
                f"has, such as {blocks // 2}-{blocks}."
            )
        found |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(found - {0})


# What a sweep asks of a module.
SETTINGS = FreezingSettings
run, build, locate = text_task.run, text_task.build, text_task.locate


# === The study ===


class Study:
    """The runs of one task and encoder; see the module.

    Args:
        settings: `FreezingSettings`, resolved.

    Attributes:
        runs: the `grid.Planned` of what it has trained, the search's included.
    """

    def __init__(self, settings):
        from tf_transfer.models import loading

        self.settings = settings
        self.runs = []
        self.blocks = loading.count_blocks(
            settings.model, settings.cache_folder
        )
        self.frozen = frozen_of(settings, self.blocks)

    def run(self):
        """Searches and trains."""
        rate = self.settings.lr or self.best_rate()
        layers = sorted(self.blocks - frozen for frozen in self.frozen)
        if self.settings.search == "all":
            self.train(rate, [operating.ALL, *reversed(layers)])
        else:
            self.bisect(rate, layers)

    def best_rate(self):
        """The rate whose trials are best on validation, training all."""
        settings = self.settings
        results = self._sweep(
            {
                "lr": rates_of(settings),
                "seed": list(range(settings.search_trials)),
            },
            validation_fraction=SEARCH_SHARE,
        )
        scores = {}
        for point, result in results:
            score = result["validation"][result["metric"]]
            scores.setdefault(float(point["lr"]), []).append(score)
        return max(
            scores, key=lambda rate: sum(scores[rate]) / len(scores[rate])
        )

    def train(self, rate, layers):
        """Test scores of the trials, by number of trained blocks."""
        results = self._sweep(
            {
                "trainable_layers": layers,
                "seed": list(range(self.settings.trials)),
            },
            lr=rate,
        )
        found = {}
        for point, result in results:
            blocks = point["trainable_layers"]
            blocks = blocks if blocks == operating.ALL else int(blocks)
            found.setdefault(blocks, []).append(
                result["test"][result["metric"]]
            )
        return found

    def bisect(self, rate, layers):
        """Trains with few numbers of blocks: those that tell each quality."""
        trials = self.train(rate, [operating.ALL])

        def keeps(blocks, quality):
            if blocks not in trials:
                trials.update(self.train(rate, [blocks]))
            full, mine = trials[operating.ALL], trials[blocks]
            return operating.plain_mean(mine) > quality * operating.plain_mean(
                full
            )

        for quality in operating.parse_qualities(self.settings.quality):
            operating.bisect(layers, lambda blocks: keeps(blocks, quality))

    def _sweep(self, axes, **changes):
        """Does what is missing of a grid; returns (axes, result) of each."""
        from tf_transfer.sweeps import all_of
        from tf_transfer.sweeps import grid

        given = {**given_flags(self.settings), "trial": True, **changes}
        given = {n: value for n, value in given.items() if n not in axes}
        runs = grid.expand(
            "freezing",
            {"module": "freezing", "flags": given, "axes": axes},
            self.settings.out, self.settings.cache_dir,
        )  # fmt: skip
        results = all_of.finish(runs, self.settings)
        self.runs += runs
        return [(run.axes, result) for run, result in zip(runs, results)]


STUDY_ONLY = (
    "out", "cache_dir", "rerun", "describe", "trial", "tasks", "rates",
    "search_trials", "trials", "frozen_blocks", "search", "quality",
    "interval", "jobs", "retry_failed",
)  # fmt: skip


def given_flags(settings):
    """The flags that a trial takes over from the study."""
    own = (*STUDY_ONLY, "lr", "trainable_layers", "seed", "max_epochs")
    found = settings_lib.given(settings, own)
    return {**found, "max_epochs": settings.max_epochs}


def told(settings, runs, show):
    """What some runs have found, as the report would tell it, as text.

    Args:
        show: `results` or `operating_points` of `reports.freezing_tables`.
    """
    from tf_transfer.reports import document
    from tf_transfer.reports import freezing_tables
    from tf_transfer.reports import options
    from tf_transfer.reports import reading
    from tf_transfer.reports import studies
    from tf_transfer.reports import summary

    found = []
    for run in runs:
        path = run.directory.path
        try:
            found.append(
                reading.read_run(path, os.path.relpath(path, settings.out))
            )
        except reading.LeftOut as reason:
            raise UserError(
                f"{path}: {reason}. Remove it, and give the same command."
            ) from None
    made = summary.of(found, [], settings.out)
    asked = options.Options(
        qualities=operating.parse_qualities(settings.quality),
        level=settings.interval or operating.LEVEL,
    )
    published = options.read_published("experiments", "freezing")
    parts = []
    for study in studies.sort_into_studies(found):
        if not study.settings["validation_fraction"]:
            rows = freezing_tables.rows_of(study, made, published)
            parts += show(study, rows, asked)
    return document.plain(parts)


def study(settings):
    """The whole study of each task; tells of each as soon as it is done."""
    from tf_transfer.reports import freezing_tables

    runs = []
    tasks = tasks_of(settings)
    for task in tasks:
        one = Study(dataclasses.replace(settings, task=task, tasks=""))
        one.run()
        runs += one.runs
        print(f"\n{told(settings, one.runs, freezing_tables.results)}")
    if len(tasks) > 1:
        print(told(settings, runs, freezing_tables.operating_points))
    print(
        "All tables, the figure and the paper's claims: python -m "
        f"tf_transfer.report {settings.out}"
    )


def main():
    """Reads the flags; does the study, or one run of it."""
    settings = command_line.from_flags(FreezingSettings).resolve()
    command_line.import_tensorflow()
    if settings.describe:
        print(text_task.describe(settings))
    elif settings.trial:
        _refuse(
            ("tasks",), "belongs to the study, and --trial is one run: give "
            "--task.",
        )  # fmt: skip
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
        study(settings)


def _refuse(names, why):
    """Raises `UserError` where a flag was given that has no use here."""
    for name in names:
        if flags.FLAGS[name].present:
            raise UserError(f"--{name}: {why}")


if __name__ == "__main__":
    command_line.start(main, FreezingSettings)
