"""The data of a run: where its texts come from, their splits and their ids.

A task names its texts and labels; a source reads them. `RunData` splits what
they read and encodes it for a model. A paper with another source, other splits
or another encoding subclasses it.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import Generic, TYPE_CHECKING

import numpy as np
from absl import logging

from tf_transfer.data import (
    card,
    glue,
    groups as groups_lib,
    official,
    registry,
    scripts,
    splits,
    tokens,
    word_pieces,
)
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.data.task import Examples, Sentences, Source, Task, Texts
from tf_transfer.models import vocabulary
from tf_transfer.own import held_out, table_source, task_file
from tf_transfer.runs.task_settings import SettingsT
from tf_transfer.runs.warm import WarmState
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.models.encoder import Encoder

MOST_UNKNOWN = 0.01  # share of unknown tokens above which a run warns

Splits = dict[str, dict[str, EncodedSplit]]


class RunData(Generic[SettingsT]):
    """The texts of a run's tasks.

    Args:
        settings: Resolved.
        warm: Keeps the ids of texts from one run to the next.
        source: The source of the texts, in place of the one that the settings
            name.
        recorded: The content of a finished run's `config.json`, whose tasks
            these are.

    Attributes:
        warnings: Sentences on splits with many unknown tokens, or a script
            that the vocabulary lacks, once encoded.
        fitted_probe: What a fitted probe reads; see `probe.Probe.chosen`. None
            for any other run.
        reports_problems: Whether it prints problems of a user's own texts.
        checks_language: Whether the language of the texts is one of them.
    """

    reports_problems = True
    checks_language = True

    def __init__(
        self,
        settings: SettingsT,
        warm: WarmState,
        source: Source | None = None,
        recorded: Record | None = None,
    ) -> None:
        self.settings = settings
        self.warm = warm
        self.given_source = source
        self.warnings: list[str] = []
        # By task, the training texts that are cut, and all of them.
        self._cut: dict[str, tuple[int, int]] = {}
        self.fitted_probe: Record | None = None
        self._recorded = recorded
        if recorded and settings.is_probe:
            self.fitted_probe = recorded["chosen"]

    @property
    def name(self) -> str:
        """The task's name in folders and tables."""
        if self.given_source is not None:
            return self.given_source.task.name
        return self.settings.task_name

    @property
    def cut_texts(self) -> float:
        """The share of the training texts that are cut, once encoded."""
        if not self._cut:
            return 0.0
        cut, texts = map(sum, zip(*self._cut.values()))
        return cut / texts

    def open_source(self, task: str | task_file.TaskFile) -> Source:
        """The source of a built-in task, or of one of the user's own.

        Raises:
            UserError: There is no such task, file or column.
        """
        settings = self.settings
        if isinstance(task, held_out.HeldOutTable):
            return held_out.HeldOutSource(
                task, settings.split_seed, settings.out
            )
        if isinstance(task, task_file.TaskFile):
            return table_source.TableSource(
                task, settings.split_seed, settings.out
            )
        return registry.open_source(task, settings.data, settings.cache_folder)

    @functools.cached_property
    def sources(self) -> dict[str, Source]:
        """The source of each task, by the task's name."""
        settings, source = self.settings, self.given_source
        if source is None:
            source = self.open_source(
                settings.own_task if settings.own_data else settings.task
            )
        return {source.task.name: source}

    def sized(self) -> "RunData[SettingsT]":
        """Data of the same size; those of published data sets are empty."""
        settings = self.settings
        data = type(self)(settings, self.warm, self.given_source)
        data.reports_problems = False
        if self.given_source is None and settings.own_data != "task_file":
            names = settings.task_names
            sources = official.open_sources(names, settings.data)
            if sources:
                data.sources = sources
        return data

    @functools.cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks as the network answers them, by the names of its heads."""
        settings, tasks = self.settings, {}
        if self._recorded:
            for name, entry in self._recorded["tasks"].items():
                tasks[name] = glue.make_recorded_task(name, entry)
            return tasks
        reads_head = settings.trains and not settings.is_contrastive
        loss_head = settings.loss_head if reads_head else "sigmoid"
        for name, source in self.sources.items():
            tasks[name] = dataclasses.replace(source.task, loss_head=loss_head)
            # The probe, a regression, needs no unit, but float32 may.
            if settings.scales_scores and not settings.is_probe:
                tasks[name] = tasks[name].scaled()
        return tasks

    @property
    def source(self) -> Source:
        """The only source."""
        [source] = self.sources.values()
        return source

    @property
    def task(self) -> Task:
        """The only task."""
        [task] = self.tasks.values()
        return task

    @property
    def identity(self) -> str:
        """The identity of the data in a run's key, and its unit of scores."""
        identity = "; ".join(s.identity for s in self.sources.values())
        if self.settings.scales_scores and any(
            source.task.scaled() != source.task
            for source in self.sources.values()
        ):
            identity += " scaled"
        return identity

    # === Splits ===

    @property
    def reads_without_tensorflow(self) -> bool:
        """Whether `examples` may be read before the devices are set up.

        TFDS reads with TensorFlow, and a user's own source may.
        """
        if self.given_source is not None:
            return False
        return bool(self.settings.own_data) or self.settings.data != "tfds"

    @functools.cached_property
    def examples(self) -> dict[str, Texts]:
        """The texts of each task, by its name, until `drop_texts`."""
        examples = {
            name: self.read_splits(task) for name, task in self.tasks.items()
        }
        settings = self.settings
        # The report card of --describe has them, too.
        reports = self.reports_problems and not settings.describe
        if reports and settings.own_data:
            for name, texts in examples.items():
                for problem in self.sources[name].find_problems():
                    screen.say(f"{name}: {problem}")
                # Without a sample of the training set, scored with it.
                splits = {kind: s[""] for kind, s in texts.items() if "" in s}
                self.report(self.tasks[name], splits)
        return examples

    def report(
        self, task: Task, splits: dict[str, Examples | Sentences]
    ) -> None:
        """Prints what may be wrong with a user's own texts.

        Args:
            task: The task.
            splits: The texts by split; `train` is one.
        """
        languages = self.read_languages
        for problem in card.find_problems(task, splits, languages):
            screen.say(f"{task.name}: {problem}")

    @property
    def read_languages(self) -> frozenset[str] | None:
        """The languages that the encoder reads; None if they are not known."""
        settings = self.settings
        if settings.is_sparse or not self.checks_language:
            return None
        return vocabulary.find_languages(settings.model)

    def describe_data(
        self, task: Task, encoder: "Encoder | None" = None
    ) -> str:
        """The report card of a task's texts, and problems of its source.

        Args:
            task: The task.
            encoder: Whose tokens are counted; None for none.
        """
        examples, lengths = self.examples[task.name], np.zeros(0, np.int64)
        unknown = 0.0, 0
        if encoder is not None and not task.is_tagging:
            ids = self.encode(
                examples["train"][""], task, encoder, "train"
            ).tokens
            lengths = ids.lengths + ids.lost
            unknown = ids.count(encoder.tokenizer.unknown)
        text = card.describe_data(
            task,
            examples,
            lengths,
            self.settings.max_length,
            unknown,
            self.read_languages,
        )
        problems = self.sources[task.name].find_problems()
        return "\n".join([text, *problems])

    def read_splits(self, task: Task) -> Texts:
        """The training, validation and test texts of a task.

        A task without a validation split holds out a fraction of its training
        set. The official development sets are the test: the first has the
        split name "", MNLI's other one `mismatched`.

        Raises:
            UserError: A row is invalid; the message names file and line.
        """
        settings, source = self.settings, self.sources[task.name]
        train, fraction = source.read("train"), settings.validation_fraction
        assert train.labels is not None
        if task.validation:
            rows = np.arange(len(train))
            validation = {"": source.read(task.validation)}
        else:
            groups = self._find_groups(source, train)
            if fraction and train.groups is not None:
                groups_lib.check_held_out(train.groups, fraction, settings.fold)
            rows, held = splits.split_train_validation(
                train.labels,
                fraction,
                settings.split_seed,
                groups,
                settings.fold,
            )
            validation = {"": train.take(held)} if len(held) else {}
        subset = splits.choose_subset(
            train.labels[rows], settings.max_train_examples, settings.split_seed
        )
        return {
            "train": {"": train.take(rows[subset])},
            "validation": validation,
            "test": {
                name.removeprefix("dev_") if number else "": source.read(name)
                for number, name in enumerate(task.development)
            },
        }

    def count_folds(self) -> int:
        """The number of parts of --validation_fraction of the only task.

        They cover all labelled texts; 1 where validation texts are given.
        """
        source = self.source
        if source.task.validation:
            return 1
        train = source.read("train")
        groups = self._find_groups(source, train)
        return splits.count_folds(
            len(train), self.settings.validation_fraction, groups
        )

    def _find_groups(
        self, source: Source, train: Examples | Sentences
    ) -> np.ndarray | None:
        """int64 [examples]. What a split keeps together; None for nothing."""
        groups = source.group(train.ids)
        return train.groups if groups is None else groups

    @property
    def may_score_nothing(self) -> bool:
        """Whether a run without validation and test texts is of use."""
        return False

    @property
    def leaves_test(self) -> bool:
        """Whether there are test texts which a run does not score."""
        has_test = any(task.development for task in self.tasks.values())
        return has_test and not self.settings.score_test

    def drop_texts(self) -> None:
        """Frees the texts."""
        self.__dict__.pop("examples", None)
        for source in self.sources.values():
            source.drop_texts()

    # === Encoding ===

    def texts_per_row(self, task: Task) -> int:
        """Number of texts of an example that run as rows of their own.

        Raises:
            UserError: `--pairs` is given, and the task has no pairs.
        """
        if self.fitted_probe:
            return 2 if self.fitted_probe["pair_features"] else 1
        is_apart = self.settings.pairs == "sbert"
        if not (is_apart and self.settings.reads("pairs")):
            return 1
        if len(task.texts) == 1:
            raise UserError(
                f"--pairs=sbert: task {task.name} has one text an example, no "
                "pairs. Leave it out."
            )
        return len(task.texts)

    def name_split(self, kind: str, task: str, split: str) -> str:
        """The name of a split in `config.json`, such as `test_mismatched`."""
        if split == splits.TRAINING_SAMPLE:
            return "sample"
        task = task if len(self.tasks) > 1 else ""
        return splits.join_names(kind, task, split)

    def encode_splits(self, task: Task, encoder: "Encoder") -> Splits:
        """The examples of a task as token ids; prints how much is cut."""
        title = f"{task.name} " if len(self.tasks) > 1 else ""
        encoded = {
            kind: {
                name: self.encode(examples, task, encoder, f"{title}{kind}")
                for name, examples in named.items()
                if kind != "test" or self.settings.score_test
            }
            for kind, named in self.examples[task.name].items()
        }
        self.note_cut(task, encoded["train"][""])
        return encoded

    def note_cut(self, task: Task, train: EncodedSplit) -> None:
        """Prints and keeps the share of a task's training texts that is cut."""
        ids = train.tokens
        is_new = task.name not in self._cut
        count = int(np.sum(ids.lost > 0))
        self._cut[task.name] = count, len(ids)
        if count and is_new:
            title = f" of {task.name}" if len(self.tasks) > 1 else ""
            lost = ids.lost.sum() / (ids.lost.sum() + ids.lengths.sum())
            screen.say(
                f"Cut: {count / len(ids):.1%} of the training texts{title} "
                f"have more than --max_length={self.settings.max_length} "
                f"tokens; {lost:.1%} of all tokens are left out."
            )

    def encode(
        self,
        examples: Examples | Sentences,
        task: Task,
        encoder: "Encoder",
        name: str,
        texts_per_row: int | None = None,
    ) -> EncodedSplit:
        """Tokenises examples.

        Args:
            examples: `Examples`, labelled or not, or `Sentences` of a task
                that labels words.
            task: The task of the examples.
            encoder: The encoder, which has the tokenizer.
            name: Text of the progress bar.
            texts_per_row: Number of texts of an example that run as rows of
                their own. None: as `texts_per_row` returns.
        """
        settings = self.settings
        if isinstance(examples, Sentences):
            encoded = word_pieces.encode_sentences(
                examples, task.labels or (), encoder, settings.max_length, name
            )
            words = itertools.chain(*examples.words)
            self._warn_of_unknown(encoded.tokens, encoder, name, words)
            return encoded
        texts_per_row = texts_per_row or self.texts_per_row(task)
        columns = [examples.texts]
        if texts_per_row == 2:
            columns = [[column] for column in examples.texts]
        ids = tokens.concatenate(
            [
                self.warm.encode(
                    encoder,
                    texts,
                    settings.max_length,
                    name,
                    settings.long_texts,
                )
                for texts in columns
            ]
        )
        texts = itertools.chain(*examples.texts)
        self._warn_of_unknown(ids, encoder, name, texts)
        labels = examples.labels
        if labels is None:
            labels = np.zeros(len(examples), np.int64)
        return EncodedSplit(
            ids,
            labels,
            examples.ids,
            texts_per_example=texts_per_row,
            groups=examples.groups,
        )

    def _warn_of_unknown(
        self,
        ids: tokens.Tokens,
        encoder: "Encoder",
        name: str,
        texts: Iterable[str],
    ) -> None:
        """Logs and keeps a warning if many tokens are unknown, or a script is.

        Scores suffer silently from a vocabulary of another language or domain.
        """
        problems = []
        share, count = ids.count(encoder.tokenizer.unknown)
        if share > MOST_UNKNOWN:
            problems.append(
                f"{share:.1%} of the tokens, in {count:,} of {len(ids):,} "
                "texts, are not in the encoder's vocabulary"
            )
        words = encoder.tokenizer.words_by_script
        for script, share in scripts.find_missing_scripts(texts, words).items():
            problems.append(
                f"{share:.1%} of the letters are {script.title()}, and "
                f"{words[script]:,} of the {words.total():,} tokens in the "
                "encoder's vocabulary are words of this script"
            )
        for problem in problems:
            warning = f"{name}: {problem}. Does it read this language?"
            logging.warning("Unknown tokens: %s", warning)
            self.warnings.append(warning)
