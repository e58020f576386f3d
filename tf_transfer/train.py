r"""Trains once on your own texts with common settings, and reports the result.

    python -m tf_transfer.train --task=mine.toml --model=minilm
    python -m tf_transfer.train --data=mine.csv --text_column=text \
        --label_column=label --model=minilm --trainable_layers=2
    python -m tf_transfer.train --task=mine.toml --features=tfidf
    python -m tf_transfer.train --task=mine.toml --models=minilm,FOLDER

A task file describes the texts and labels (docs/guides/task_file.md); one table
needs none. The run ends with the score next to the majority baseline and
TF-IDF, the commands to try next, and how to predict.

Defaults are what the field uses now, not a paper's of the other commands:
batches of texts of like length, 16 for everything and 32 for the last blocks
(ours); for everything 5e-5, of the ranges of Devlin et al. 2019 (appendix A.3),
or 2e-4 for encoders of at most 512 values per token; for the last blocks 2e-4
and for a head on a frozen encoder 1e-3 (ours: the less trains, the higher);
Adam with bias correction and a linear schedule that warms up over a tenth of
the steps (Mosbach et al. 2021, Zhang et al. 2021: without the correction small
data sets fail); decay 0.01, clipping at 1.0 (Devlin et al.); three epochs for
everything and six for the last blocks (ours), or for few texts the number that
takes 60 updates; the last epoch is the result, since the rate has decayed then,
and one small validation set chooses badly (--select=best takes the best); up to
256 tokens, padded to the longest of a batch only; the output of frozen blocks
is computed once and stored (docs/guides/feature_cache.md); scores are learned
in units of their standard deviation. A task without validation texts holds out
a tenth of its training set, drawn by --split_seed.

--features=frozen is the probe: a logistic or ridge regression on states of the
frozen encoder, and on words (docs/guides/probe.md). --features=tfidf is the
TF-IDF baseline: of words, of words and pairs of words, or of characters, and
such a regression. Both are scikit-learn's, chosen by cross-validation within
the training set; --baseline adds them to every run of an encoder. --models
ranks encoders by their probes, and trains none.
"""

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Sequence
from typing import ClassVar, TYPE_CHECKING

from absl import logging

from tf_transfer import experiment
from tf_transfer.config import command_line
from tf_transfer.config.fields import (
    Group,
    json_setting,
    Reader,
    Setting,
    setting,
)
from tf_transfer.config.settings import pick
from tf_transfer.data import batches, task as task_lib
from tf_transfer.data.task import Source, Task, Texts
from tf_transfer.models import loading, presets
from tf_transfer.runs import disk, run_comparison, run_data, task_settings
from tf_transfer.runs.tfidf_run import TfidfRunner
from tf_transfer.runs.trained import Result
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import run_paths
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import formatting, screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.baselines.ranking import Ranking

# Epochs where every weight trains, or the last blocks; and updates, which few
# texts take more epochs to reach.
EPOCHS, BLOCKS_EPOCHS = 3, 6
LEAST_UPDATES = 60
# Everything trains better in smaller batches, the last blocks do not (ours).
EVERYTHING_BATCH, BATCH = 16, 32
CONTRASTIVE_UPDATES = 30
FEWEST_FOR_CURVE = 40  # training texts; a quarter of fewer trains nothing
RATES = task_settings.Rates(everything=5e-5, blocks=2e-4, head=1e-3)
# Small encoders, of at most this width, train at a higher rate (ours).
SMALL, SMALL_RATE = 512, 2e-4
RECIPE: dict[str, Setting] = {
    "task": "",
    "batch_size": None,
    "max_epochs": None,
    "bias_correction": True,
    "schedule": "linear",
    "warmup_fraction": 0.1,
    "patience": 0,
    "min_delta": 0.0,
    "select": "last",
    "batching": "grouped",
    "frozen_prefix": "cached",
}
HELP = {
    "task": "A task file of your own, such as mine.toml, or the name of a "
    "built-in task. With --data=FILE, the name in folders and tables.",
    "data": "A table of your own: CSV, TSV, JSON lines, Parquet or Excel. For "
    "a built-in task: `tfds`, a folder in the layout of the official download, "
    "or `sample`, a few hand-written examples.",
    "features": "`bert`, an encoder that trains, with a head; `frozen`, the "
    "probe: a regression on states of the frozen encoder and on words "
    "(docs/guides/probe.md); or "
    "`tfidf`, a linear model of words or characters, without an encoder.",
    "max_length": "Longest text (or pair) in tokens; batches are padded to "
    "their own longest text. Unset: 256, or the number of the encoder's "
    "positions if that is smaller.",
    "batch_size": "Examples per step, summed over all replicas. Unset: "
    f"{EVERYTHING_BATCH} where everything trains, else {BATCH}.",
    "max_epochs": f"Unset: {EPOCHS} where everything trains, else "
    f"{BLOCKS_EPOCHS}, or for few texts the number that takes {LEAST_UPDATES} "
    "updates.",
}

# Settings of the probes by which encoders are ranked.
RANKED: dict[str, Setting] = {
    "models": "",
    "features": "frozen",
    "refit": False,
}
UNREAD_BY_RANKING = (
    *("model", "features", "baseline", "refit"),
    *("learning_curve", "describe"),
)

# What `--json` prints of `result.json`.
ANSWERED = (
    *("task", "metric", "approach", "validation", "test", "best_epoch"),
    *("train_seconds", "trainable_parameters", "total_parameters", "warnings"),
)

# Number of training texts, by the identity and the settings of their split.
_TEXTS: dict[tuple[str, float, int, int, int, bool], int] = {}


def usual_epochs(texts: int, settings: "Settings") -> int:
    """Number of epochs without `--max_epochs`.

    Args:
        texts: Number of training texts.
        settings: Of the run.
    """
    steps = batches.count_steps(texts, settings.batch_size)
    if settings.is_contrastive:
        return math.ceil(CONTRASTIVE_UPDATES / steps)
    is_whole = settings.trainable_layers == "all"
    usual = EPOCHS if is_whole else BLOCKS_EPOCHS
    return max(usual, math.ceil(LEAST_UPDATES / steps))


@dataclasses.dataclass(frozen=True)
class Settings(
    task_settings.TaskSettings,
    defaults=RECIPE,
    help=HELP,
    changes={"features": {"choices": ("bert", "frozen", "tfidf")}},
    rates=RATES,
):
    """The shared settings with today's defaults."""

    models: str = setting(
        "",
        "Encoders with commas between, each as --model has it (in quotes if "
        "its name has a comma): rank them by their probes, and train none.",
        hashed=False,
        read_by=Reader.ENCODER,
    )
    baseline: bool = setting(
        True,
        "Also fit the probe and the TF-IDF baseline on the same split (up to "
        f"{run_comparison.MOST_FOR_BASELINE:,} training texts), to compare "
        "with.",
        hashed=False,
        read_by=Reader.ENCODER,
    )
    max_seconds: float = setting(
        None,
        "Stop after the last epoch expected to end within this many seconds; "
        "the same command resumes the run.",
        group=Group.STOPPING,
        hashed=False,
        above=0,
    )
    score_test: bool = setting(
        True,
        "Score the test after every epoch. `false`: not at all; the same "
        "command without this flag then scores the selected weights, once.",
        hashed=False,
        read_by=Reader.BASELINE,
    )
    refit: bool = setting(
        False,
        "Train on training and validation texts together, once everything is "
        "chosen: nothing validates, and the last epoch is the result.",
        unnamed=False,
        read_by=Reader.BASELINE,
    )

    fold: int = setting(
        0,
        "Which of the disjoint parts of --validation_fraction validates; the "
        "others train. 0 is the usual split.",
        group=Group.TEXTS,
        at_least=0,
        unnamed=0,
        read_by=Reader.BASELINE,
    )
    words: bool = setting(
        True,
        "Whether the probe of single texts also reads TF-IDF of their tokens, "
        "with a weight that held-out texts give (docs/guides/probe.md).",
        unnamed=False,
        read_by=Reader.ENCODER,
        needs={"is_probe": True},
    )
    learning_curve: bool = setting(
        False,
        "Also train on a quarter and on half of the training texts, and "
        "report how much the second half adds.",
        hashed=False,
        read_by=Reader.BASELINE,
    )
    json: bool = json_setting()

    scales_scores: ClassVar[bool] = True
    has_contrastive: ClassVar[bool] = True
    usual_length: ClassVar[int] = 256

    def unread(self) -> list[str]:
        """Names of the flags that a run with these settings does not read.

        A refit has no validation scores to stop by, yet its key names these.

        Raises:
            UserError: --data is a folder, whose files only a --task names.
        """
        if not self.task and os.path.isdir(self.data):
            raise UserError(
                f"--data={self.data}: is a folder. Give a file of texts, such "
                "as mine.csv; or --task, one whose files are in the folder."
            )
        if self.models and self.reader < Reader.STUDY:
            probe = pick(type(self), self, **RANKED)
            return [*probe.unread(), *UNREAD_BY_RANKING]
        names = super().unread()
        return [*names, "patience", "min_delta"] if self.refit else names

    def defaults(self) -> dict[str, Setting]:
        """Learning rate and batch size, by what is trained."""
        values = super().defaults()
        if self.models:  # each encoder has its own
            values.pop("max_length", None)
        trains_all = values.get("lr") == RATES.everything
        if trains_all and self.method == "full" and self._is_small:
            values["lr"] = SMALL_RATE
        if self.batch_size is None:
            is_whole = self.trainable_layers == "all" and self.method == "full"
            values["batch_size"] = EVERYTHING_BATCH if is_whole else BATCH
        return values

    @property
    def _is_small(self) -> bool:
        """Whether the encoder is a small one; an unknown one is not."""
        with contextlib.suppress(UserError, OSError):  # reported elsewhere
            return loading.read_shape(self.model).hidden <= SMALL
        return False

    def check_settings(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        if not self.task and not self.own_data:
            raise UserError(
                "--task: give a task file such as mine.toml; or --data=FILE "
                "with --text_column and --label_column. README shows both."
            )
        presets.split_names(self.models)
        if self.learning_curve and (self.max_seconds or self.refit):
            raise UserError(
                "--learning_curve: trains further runs, without a limit of "
                "time. Leave --max_seconds and --refit out."
            )
        if self.json and self.describe:
            raise UserError(
                "--json: is the answer of a run, and --describe runs nothing. "
                "Leave one of them out."
            )
        if self.fold * self.validation_fraction >= 1:
            raise UserError(
                f"--fold={self.fold}: a fraction of "
                f"{self.validation_fraction:g} has fewer parts. Give a number "
                "from 0, or a smaller --validation_fraction."
            )
        super().check_settings()


TrainSettings = Settings  # in a class with a `Settings` of its own


class TrainData(run_data.RunData[Settings]):
    """The texts of your own task; `--refit` trains on validation texts, too."""

    @property
    def may_score_nothing(self) -> bool:
        """Whether it trains what another run has validated."""
        return self.settings.refit

    def read_splits(self, task: Task) -> Texts:
        """The training, validation and test texts of a task.

        Raises:
            UserError: There are too few for `--learning_curve`.
        """
        texts = super().read_splits(task)
        if self.settings.refit:
            labelled = [texts["train"][""], *texts["validation"].values()]
            train = {"": task_lib.concatenate(labelled)}
            texts = {**texts, "train": train, "validation": {}}
        if not (self.settings.score_test or self.settings.trains):
            texts = {**texts, "test": {}}
        count = len(texts["train"][""])
        if self.settings.learning_curve and count < FEWEST_FOR_CURVE:
            raise UserError(
                f"--learning_curve: there are {count} training texts; it "
                f"needs {FEWEST_FOR_CURVE}. Leave it out, or give more texts."
            )
        return texts


class Train(experiment.Experiment[Settings]):
    """One run on your own task: an encoder, or a baseline."""

    name = "train"
    Settings = Settings
    Data = TrainData
    runners: ClassVar = {**experiment.Experiment.runners, "tfidf": TfidfRunner}

    @functools.cached_property
    def run_settings(self) -> TrainSettings:
        """The settings with the epochs, whose number depends on the texts."""
        settings, data = self.settings, self.data
        if settings.max_epochs is not None or not settings.trains:
            return settings
        split = (
            data.identity,
            settings.validation_fraction,
            settings.split_seed,
            settings.fold,
            settings.max_train_examples,
            settings.refit,
        )
        if split not in _TEXTS:  # a sweep asks for each of its runs
            _TEXTS[split] = len(data.examples[data.task.name]["train"][""])
        epochs = usual_epochs(_TEXTS[split], settings)
        return dataclasses.replace(settings, max_epochs=epochs)

    def find_run(self, replicas: int = 1) -> RunDirectory:
        """The directory of the run; see `Experiment`.

        Raises:
            UserError: Encoders are ranked, which is no run.
        """
        if self.settings.models:
            raise UserError(
                f"--models={self.settings.models}: ranks encoders, and is no "
                "run. Give a run one encoder, by --model."
            )
        return super().find_run(replicas)

    def execute(self) -> None:
        """Does what the command asks for: trains, ranks or describes."""
        settings = self.settings
        if settings.models:
            command_line.answer(self._rank, settings.json)
        elif settings.describe:
            super().execute()
        else:
            command_line.answer(self._train, settings.json)

    def _train(self) -> Record:
        """Trains; returns the answer of `--json`."""
        result = self.train()
        disk.print_used(self.settings.out, self.settings.cache_dir)
        record = {name: result.record.get(name) for name in ANSWERED}
        return {"run": result.directory, **record}

    def _rank(self) -> Record:
        """Ranks encoders; returns the answer of `--json`."""
        ranking = rank(self.settings, presets.split_names(self.settings.models))
        command = self.command(models="", model=ranking.model)
        words = formatting.quote_command(*command)
        screen.say(f"\n{ranking.text}\nTo train it: {words}")
        encoders = [
            {"model": model, "run": run, "metric": metric, "score": score}
            for model, run, metric, score in zip(
                ranking.runs.index,
                ranking.runs.directory,
                ranking.runs.metric,
                ranking.runs.score.tolist(),
            )
        ]
        return {"model": ranking.model, "encoders": encoders, "train": words}

    def print_answer(self, result: Result) -> None:
        """Prints the run next to its baselines, and what to use.

        Of the answer of a search, it prints what the search has found.
        """
        found = run_paths.read_answer_of(self.settings.out, result.directory)
        if found is not None:
            from tf_transfer.reports import advice  # loads pandas

            screen.say("\n" + advice.show_lines(found["lines"], found["table"]))
            return
        run_comparison.print_answer(self, result, self.settings.baseline)
        if self.settings.learning_curve:
            run_comparison.print_learning_curve(self, result)

    def train_another(
        self,
        features: str | None = None,
        max_train_examples: int | None = None,
        most: int | None = None,
    ) -> str:
        """See `run_comparison.TaskRun`."""
        settings = dataclasses.replace(
            self.settings, rerun=False, learning_curve=False
        )
        if features is not None:
            settings = dataclasses.replace(settings, features=features)
        if max_train_examples is not None:
            settings = dataclasses.replace(
                settings, max_train_examples=max_train_examples
            )
        try:
            # A head of the user's own is for this run's features.
            is_alike = settings.features == self.settings.features
            head = self.head if is_alike else None
            other = type(self)(settings, self.data.given_source, head)
            other.data.reports_problems = False  # this run has reported them
            directory = other.find_run()
            if directory.result() is None:
                [texts] = other.data.examples.values()
                if most is not None and len(texts["train"][""]) > most:
                    return ""
                other.train(prints_answer=False)
            return directory.path
        except UserError as error:  # this run is finished
            logging.warning("No score of %s: %s", settings.approach, error)
            return ""


def rank(
    settings: Settings, models: Sequence[str], source: Source | None = None
) -> "Ranking":
    """Ranks encoders by their probes, each a run like any other.

    Args:
        settings: Of a run or a search: those of the probes, apart from the
            model.
        models: As `--model` has them.
        source: See `Experiment`.

    Raises:
        UserError: The data is invalid, or no encoder can be used.
        Interrupted: SIGTERM or Ctrl-C; the same call continues.
    """
    from tf_transfer.baselines import ranking

    settings = pick(Settings, settings, **RANKED)
    data, warm = Train(settings, source).data, WarmState()
    data.checks_language = False  # the encoders may read different ones
    if data.reads_without_tensorflow:  # errors and problems are reported once
        _ = data.examples
        data.drop_texts()

    def fit(model: str) -> str:
        probe = Train(
            dataclasses.replace(settings, model=model), source, warm=warm
        )
        probe.data.reports_problems = False
        return probe.train(prints_answer=False).directory

    return ranking.rank_encoders(models, fit)


EXPERIMENT = Train
run = Train.run

if __name__ == "__main__":
    command_line.command(Train.main, Settings)
