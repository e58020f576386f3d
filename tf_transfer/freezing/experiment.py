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
import os
import re
from collections.abc import Sequence
from typing import Any

from absl import flags, logging

from tf_transfer import experiment
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.fields import Reader, setting
from tf_transfer.data import glue, table_source, task_file
from tf_transfer.freezing import operating
from tf_transfer.models import loading
from tf_transfer.models.freezing import Trainable
from tf_transfer.sweeps import estimate, execute, grid
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils.errors import UserError

EPOCHS_BERT, EPOCHS_ROBERTA = 3, 10
# Weights that `--untrained` leaves out; LayerNorm's are gamma and beta.
UNTRAINED = {"": (), "bias,norm": ("bias", "beta", "gamma")}
SEARCH_FRACTION = 0.1  # of the training set, held out for the search alone

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
    trial: bool = setting(
        False,
        "Do one run, with --lr, --trainable_layers and --seed, as the study's "
        "own processes do.",
        hashed=False,
        read_by=Reader.BASELINE,
    )
    tasks: str = setting(
        "",
        "Tasks that are studied one after another, such as mrpc,mine.toml, "
        "or `all` of GLUE's. Unset: --task.",
        hashed=False,
        read_by=Reader.BASELINE,
    )
    rates: str = setting(
        "1e-5,2e-5,3e-5,4e-5,5e-5",
        "Rates of the search; the best has the highest plain mean on "
        "validation.",
        read_by=Reader.STUDY,
    )
    search_trials: int = setting(
        5,
        "Trials of each rate.",
        at_least=1,
        read_by=Reader.STUDY,
    )
    trials: int = setting(
        5,
        "Trials of each number of blocks.",
        at_least=1,
        read_by=Reader.STUDY,
    )
    frozen_blocks: str = setting(
        "",
        "Numbers of the first blocks to freeze, such as 6-12 or 0,3,6. "
        "Unset: from half of them to all. 0 trains everything, the embeddings "
        "too, and is always studied.",
        read_by=Reader.STUDY,
    )
    quality: str = setting(
        "0.9",
        "Shares of the full score to keep, such as 0.9 or 0.9,0.95.",
        read_by=Reader.STUDY,
    )
    interval: float = setting(
        None,
        "Share of resampled trials that the interval of the number of blocks "
        "holds; it needs two trials. Unset: "
        f"{operating.LEVEL:g}, where there are two.",
        above=0,
        below=1,
        read_by=Reader.STUDY,
    )
    jobs: int = setting(
        None,
        "Number of runs at the same time. Unset: one, or one on each GPU.",
        at_least=1,
        read_by=Reader.STUDY,
    )
    retry_failed: bool = setting(
        False,
        "Try runs again that have failed before.",
        read_by=Reader.STUDY,
    )
    dry_run: bool = setting(
        False,
        "List the runs of the study with their operations and their time, and "
        "stop.",
        read_by=Reader.STUDY,
    )
    flops: float = setting(
        None,
        "Operations per second of the device, for the time that --dry_run "
        "prints. Unset: those of the last finished run of this machine.",
        above=0,
        read_by=Reader.STUDY,
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

    def defaults(self) -> dict[str, Any]:
        """Epochs and the pooler's dropout, by the family of the encoder."""
        values: dict[str, Any] = {}
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


class Freezing(experiment.Experiment):
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


EXPERIMENT = Freezing
run = Freezing.run


# === The flags of a study ===


def tasks_of(settings: Settings) -> list[str]:
    """The tasks of the study."""
    if settings.tasks == "all":
        return list(glue.TASKS)
    if not settings.tasks:
        return [settings.task]
    names = settings.tasks.split(",")
    for name in names:
        is_known = name in glue.TASKS or task_file.is_task_file(name)
        if not is_known or names.count(name) > 1:
            raise UserError(
                f"--tasks={settings.tasks}: give `all`, or some of "
                f"{', '.join(glue.TASKS)} and task files, each once."
            )
    return names


def rates_of(settings: Settings) -> list[float]:
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


def numbers_of_frozen_blocks(settings: Settings, blocks: int) -> list[int]:
    """The numbers N of frozen blocks that are studied, 0 apart.

    Args:
        blocks: L, the number of the encoder's blocks.
    """
    if blocks < 1:
        raise UserError(
            f"--model={settings.model}: has no blocks that could be frozen."
        )
    if not settings.frozen_blocks:
        return list(range(-(-blocks // 2), blocks + 1))
    numbers: set[int] = set()
    for word in settings.frozen_blocks.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        if not ends or int(ends[2] or ends[1]) > blocks:
            raise UserError(
                f"--frozen_blocks={settings.frozen_blocks}: give numbers and "
                f"ranges from 0 to {blocks}, which is all that this encoder "
                f"has, such as {blocks // 2}-{blocks}."
            )
        numbers |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(numbers - {0})


# === A study ===


class Study:
    """The runs of one task and encoder: the search of the rate, then trials.

    Args:
        settings: resolved.
        pool: pool of the workers that do the runs: `sweeps.work.Pool`.

    Attributes:
        runs: the runs so far, those of the search included.
    """

    def __init__(self, settings: Settings, pool: Any) -> None:
        self.settings = settings
        self.pool = pool
        self.runs: list[Any] = []
        if settings.own_data:
            task = settings.own_task
            # Reports what is wrong with the table before all else.
            _ = table_source.TableSource(
                task, settings.split_seed, settings.out
            ).task
            if not task.test:
                raise UserError(
                    f"{task.path}: has no test, and a study compares test "
                    "scores. Add test, a file or a fraction such as 0.1."
                )
        self.blocks = loading.read_shape(settings.model).blocks
        self.frozen = numbers_of_frozen_blocks(settings, self.blocks)

    def run(self) -> None:
        """Fits the probe, searches the rate, and trains."""
        self._fit_probe()
        self._do(self.plan())

    def plan(self) -> list[Planned]:
        """The trials, and the runs that search their rate, unless it is given.

        The rate is the one whose runs are best on validation where everything
        trains.
        """
        settings = self.settings
        rates = [settings.lr] if settings.lr else rates_of(settings)
        layers = sorted(self.blocks - frozen for frozen in self.frozen)
        axes = {
            "trainable_layers": [operating.ALL, *reversed(layers)],
            "lr": rates,
            "seed": list(range(settings.trials)),
        }
        if settings.lr:
            return self._expand({"axes": axes})
        validates = settings.own_data and settings.own_task.validation
        search = {
            **axes,
            "trainable_layers": [operating.ALL],
            "seed": list(range(settings.search_trials)),
            "validation_fraction": [0.0 if validates else SEARCH_FRACTION],
        }
        return self._expand({"axes": axes, "best_of": "lr", "search": search})

    def _fit_probe(self) -> None:
        """Fits and prints the probe; the study continues if that fails."""
        try:
            [result] = self._do(self._expand({}, features="frozen"))
        except UserError as error:
            logging.warning("No probe: %s", error)
            return
        score = 100 * result["test"][result["metric"]]
        print(
            f"{result['task']}: the probe, a regression on the frozen encoder, "
            f"scores {score:.1f} ({result['metric']}, test)."
        )

    def _expand(self, content: dict[str, Any], **changes: Any) -> list[Planned]:
        """The runs of a grid with the study's settings, partly changed."""
        run = dataclasses.replace(self.settings, trial=True, **changes)
        given = {
            **settings_lib.given_flags(self.settings, OWN_TO_A_RUN),
            "max_epochs": run.max_epochs,
            "trial": True,
            **changes,
        }
        given = {
            name: value
            for name, value in given.items()
            if not run.is_probe or run.reads(name)
        }
        content = {"experiment": "freezing", "flags": given, **content}
        out, cache_dir = self.settings.out, self.settings.cache_dir
        return grid.expand("freezing", content, out, cache_dir)

    def _do(self, runs: list[Planned]) -> list[dict[str, Any]]:
        """Does the missing runs; returns the results of all that are done."""
        states = execute.run_completely(
            runs, self.settings.out, self.pool, self.settings.retry_failed
        )
        self.runs += states.runs
        results = map(states.result, states.runs)
        return [result for result in results if result is not None]


# What the study sets in each of its runs, or reads itself.
OWN_TO_A_RUN = (
    *("out", "cache_dir", "rerun", "describe", "dry_run", "trial", "tasks"),
    *("lr", "trainable_layers", "seed"),
)


def format_report(
    settings: Settings, runs: Sequence[Any], names: Sequence[str]
) -> str:
    """The report's tables on some runs, as text.

    Args:
        settings: settings of the study.
        runs: runs of one or several studies.
        names: names of the tables.
    """
    from tf_transfer.freezing import tables
    from tf_transfer.reports import reading, study as lib, summary

    records = []
    # With a validation file, a run of the search may also be a trial.
    for path in dict.fromkeys(run.directory.path for run in runs):
        try:
            records.append(
                reading.read_run(path, os.path.relpath(path, settings.out))
            )
        except reading.LeftOut as reason:
            raise UserError(
                f"{path}: {reason}. Remove it, and give the same command."
            ) from None
    made = summary.summarize(records, [], settings.out)
    qualities = operating.parse_qualities(settings.quality)
    level = settings.interval or operating.LEVEL
    return "\n".join(
        f"{table.caption}\n\n{table.frame.to_string(index=False)}\n"
        for study in lib.collect(made)
        for table in tables.list_tables(study, qualities, level)
        if table.name in names  # the search has none
    )


def run_studies(settings: Settings) -> None:
    """Studies each task, and prints its tables as soon as it is done."""
    runs: list[Planned] = []
    tasks = tasks_of(settings)
    if settings.dry_run:
        _describe(settings, tasks)
        return
    with execute.open_pool(jobs=settings.jobs) as pool:
        for task in tasks:
            study = Study(
                dataclasses.replace(settings, task=task, tasks=""), pool
            )
            study.run()
            runs += study.runs
            tables = ("operating_points", "layers")
            print(f"\n{format_report(settings, study.runs, tables)}")
    if len(tasks) > 1:
        print(format_report(settings, runs, ("operating_points",)))
    print(
        "All tables, the figure and the paper's claims: python -m "
        f"tf_transfer.report {settings.out}"
    )


def _describe(settings: Settings, tasks: Sequence[str]) -> None:
    """Prints the runs of the studies of some tasks, with their costs."""
    runs: list[Planned] = []
    for task in tasks:
        of_task = dataclasses.replace(settings, task=task, tasks="")
        runs += Study(of_task, None).plan()
    try:
        finished = RunStates(settings.out, runs).select(State.FINISHED)
    except UserError:  # models or data are not here
        finished = []
    jobs = settings.jobs or 1
    print(estimate.describe_costs(runs, finished, jobs, settings.flops))


def _refuse(names: Sequence[str], why: str) -> None:
    """Raises `UserError` if a flag was given that has no use here."""
    for name in names:
        if flags.FLAGS[name].present:
            raise UserError(f"--{name}: {why}")
