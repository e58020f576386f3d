"""A finished run: its scores, its history, and its model, ready to answer."""

import dataclasses
import itertools
import os
from typing import Any
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.data import conll
from tf_transfer.data import rows
from tf_transfer.data import tsv
from tf_transfer.data.task import Examples
from tf_transfer.data.task import Sentences
from tf_transfer.data.task import Task
from tf_transfer.training import checkpoint
from tf_transfer.training import records
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

SEPARATOR = ";"  # between the labels of an answer that has several

if TYPE_CHECKING:
    import pandas as pd

    from tf_transfer.data.batches import EncodedSplit
    from tf_transfer.models.network import Network
    from tf_transfer.models.text_model import TextModel
    from tf_transfer.models.word_model import WordModel


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes:
        experiment: the `Experiment` that was run.
        directory: path of the run directory.
        record: content of `result.json`.
        network: the trained network, if it is in memory already.
    """

    experiment: Any
    directory: str
    record: dict[str, Any]
    network: "Network | None" = None

    @property
    def scores(self) -> dict[str, dict[str, float] | None]:
        """Metrics of `validation` and `test` at the selected epoch."""
        return {kind: self.record[kind] for kind in ("validation", "test")}

    @property
    def history(self) -> "pd.DataFrame":
        """`epochs.jsonl` as a data frame with one row per evaluation.

        The metrics of a split have columns such as `validation.accuracy`.
        """
        import pandas as pd

        directory = records.RunDirectory(self.directory, None)
        return pd.json_normalize(directory.epochs())

    def predictor(self) -> "Predictor":
        """The trained model, ready to answer."""
        return Predictor(self)

    def model(self, task: str = "") -> "TextModel | WordModel":
        """The trained model as a Keras model that takes strings.

        It returns probabilities, or the score itself. The model of a run that
        labels words takes words and returns the probabilities of their tags.

        Args:
            task: the task that answers, if the run has several.

        Raises:
            UserError: the run has several tasks and none is named.
        """
        predictor = self.predictor()
        predictor.choose(task)
        return predictor.text_model()


class Predictor:
    """A trained run, ready to answer.

    Args:
        run: the finished run.

    Attributes:
        directory: path of the run directory.
        experiment: the run's experiment.
        tasks: the run's tasks by name.
        task: the task that answers; None if there are several and none is
            chosen yet.
        network: the network with the weights of the selected epoch.
        threshold: probability above which the second of two classes, or each
            of several labels, is chosen.
    """

    def __init__(self, run: Result) -> None:
        from tf_transfer.training import strategy

        self.directory = run.directory
        self.experiment = run.experiment
        self.tasks: dict[str, Task] = run.experiment.tasks
        self.task: Any = None
        if len(self.tasks) == 1:
            [self.task] = self.tasks.values()
        self.threshold = 0.5
        self.devices = strategy.single_device()
        self._programs: dict[str, Any] = {}
        self.network: Any = run.network
        if self.network is None:
            self.network = run.experiment.build_network(self.devices)
            self._load_weights(records.RunDirectory(run.directory, None))

    def choose(self, name: str) -> None:
        """Sets which task answers.

        Raises:
            UserError: the run has no such task, or several and none is named.
        """
        if (name and name not in self.tasks) or not (name or self.task):
            raise UserError(
                f"--task={name}: this run has {', '.join(self.tasks)}. Give "
                "one of them."
            )
        self.task = self.tasks.get(name, self.task)

    def _load_weights(self, directory: records.RunDirectory) -> None:
        files = sorted(os.listdir(directory.file("model")))
        if len(files) != 1:
            raise UserError(
                f"{directory.file('model')}: should hold one file of weights, "
                f"and holds {len(files)}. Run the run's command again."
            )
        path = directory.check_file(f"model/{files[0]}")
        arrays = checkpoint.read_arrays(path, None)
        weights = {weight.path: weight for weight in self.network.weights}
        for name, array in arrays.items():
            weights[name].assign(array)

    # === Answers ===

    def answer(self, *columns: list[str]) -> list[tuple[str, float]]:
        """(label, score) of each text, or of each pair of texts.

        Args:
            columns: the texts; for pairs all first texts and all second texts.
        """
        examples = Examples(np.arange(len(columns[0])), list(columns), None)
        return self.answers(self.logits(examples))

    def logits(self, examples: Examples) -> np.ndarray:
        """float32 [examples, units].

        Raises:
            UserError: a logit is not finite.
        """
        return self._run(
            self.experiment.encode(
                examples, self.task, self.network.encoder, "texts"
            )
        )

    def answers(self, logits: np.ndarray) -> list[tuple[str, float]]:
        """(label, score) of each example.

        The score is the probability of the label, or the similarity itself,
        clipped to its range. With several labels, it is the lowest probability
        of a chosen one, or 0 if none is chosen.
        """
        from tf_transfer.data import metrics

        if self.task.labels is None:
            scores = logits[:, 0]
            if self.task.score_range is not None:
                scores = np.clip(scores, *self.task.score_range)
            return [
                (formatting.decimal(score, 3), float(score)) for score in scores
            ]
        probabilities = self.probabilities(logits)
        if self.task.kind == "labels":
            chosen = probabilities > self.threshold
            return [
                (
                    SEPARATOR.join(np.asarray(self.labels)[row].tolist()),
                    float(values[row].min()) if row.any() else 0.0,
                )
                for row, values in zip(chosen, probabilities)
            ]
        choices = metrics.decide(logits)
        if len(self.labels) == 2:
            choices = (probabilities[:, 1] > self.threshold).astype(np.int64)
        return [
            (self.labels[choice], float(probabilities[row, choice]))
            for row, choice in enumerate(choices)
        ]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels as answers name them."""
        return tuple(self.task.words or self.task.labels or ())

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """float64 [examples, labels]. They sum to 1 unless labels combine.

        Args:
            logits: see `logits`.
        """
        from tf_transfer.data import metrics

        if self.task.kind == "labels":
            return metrics.sigmoid(logits)
        return metrics.probabilities(logits)

    def answer_columns(
        self, examples: Examples, probabilities: bool = False
    ) -> dict[str, list[Any]]:
        """`label` and `score` of each example, as columns.

        Args:
            examples: the texts.
            probabilities: whether there is a column for each label, too.
        """
        logits = self.logits(examples)
        answers = self.answers(logits)
        if self.task.labels is None:
            return {"score": [float(f"{score:.7g}") for _, score in answers]}
        columns: dict[str, list[Any]] = {
            "label": [label for label, _ in answers],
            "score": [round(score, 6) for _, score in answers],
        }
        if probabilities:
            for name, values in zip(self.labels, self.probabilities(logits).T):
                columns[f"probability_{name}"] = values.round(6).tolist()
        return columns

    def answer_lines(self, path: str) -> list[str]:
        """The lines of a file with its answers.

        Of texts it is tab-separated without quotes, its header names the
        task's text columns, and `label` and `score` are added; of words it is
        CoNLL's, and each gets its tag.

        Args:
            path: of the file.

        Raises:
            UserError: naming the file and the line.
        """
        if self.task.is_tagging:
            sentences, numbers = conll.read_words(path)
            tags = itertools.chain.from_iterable(self.tags(sentences))
            lines = tsv.read_lines(path)
            for row, tag in zip(numbers, tags, strict=True):
                lines[row] += f" {tag}"
            return [*lines, ""]  # an empty one ends each sentence
        task = dataclasses.replace(self.task, header=None)
        examples = tsv.read_tsv(task, path, "test")
        lines = ["\t".join([*task.texts, "label", "score"])]
        answers = self.answers(self.logits(examples))
        for *texts, (label, score) in zip(*examples.texts, answers):
            lines.append("\t".join([*texts, label, f"{score:.4f}"]))
        return lines

    def answer_table(
        self,
        path: str,
        ending: str,
        encoding: str = "utf-8",
        probabilities: bool = False,
    ) -> bytes:
        """A file's rows with the answers as further columns.

        Args:
            path: of a CSV, TSV, JSON lines or Parquet file.
            ending: says the format of what is returned, such as `.parquet`.
            encoding: of a CSV or TSV.
            probabilities: whether there is a column for each label, too.

        Raises:
            UserError: naming the file, and the line or the column.
        """
        found = rows.read(path, None, encoding)
        rows.check_columns(found, self.task.texts)
        if not len(found):
            raise UserError(f"{path}: holds no texts.")
        numbers = range(len(found))
        if self.task.is_tagging:
            [column] = self.task.texts
            words = [rows.words_of(found, row, column) for row in numbers]
            answers: dict[str, list[Any]] = {"tags": self.tags(words)}
        else:
            texts = self.experiment.read_columns(found, self.task)
            answers = self.answer_columns(
                Examples(np.arange(len(found)), texts, None), probabilities
            )
        taken = set(answers) & set(found.columns)
        prefix = "predicted_" if taken else ""
        named = {f"{prefix}{name}": cells for name, cells in answers.items()}
        if lost := sorted(set(named) & set(found.columns)):
            raise UserError(
                f"{path}: has a column {lost[0]!r} already, which the answers "
                "would replace. Rename it."
            )
        return rows.write({**found.columns, **named}, ending)

    def tags(self, sentences: list[list[str]]) -> list[list[str]]:
        """The tag of each word of some sentences."""
        from tf_transfer.data import entities

        untagged = [["O"] * len(words) for words in sentences]
        split = self.experiment.encode(
            Sentences(np.arange(len(sentences)), sentences, untagged),
            self.task,
            self.network.encoder,
            "texts",
        )
        chosen = self._run(split).argmax(axis=1)
        return entities.decode(
            entities.Tagged(chosen, split.word_starts), self.task.labels
        )

    def _run(self, split: "EncodedSplit") -> np.ndarray:
        import tensorflow as tf

        from tf_transfer.training import steps

        name = self.task.name
        if name not in self._programs:  # traced once, however often asked
            self._programs[name] = tf.function(
                lambda batch: self.network.logits(name, batch, training=False)
            )
        output = steps.EvaluationBatches(
            self.devices,
            split,
            self.network.encoder.special.pad,
            self.experiment.settings.max_length,
        ).predict(self._programs[name])
        if not np.isfinite(output).all():
            raise UserError(
                f"{self.directory}: an output of this model is not finite.\n"
                "Its encoder or its weights are broken: train it again."
            )
        return output

    def text_model(self) -> "TextModel | WordModel":
        """A Keras model that takes strings and tokenizes them itself."""
        from tf_transfer.models import text_model
        from tf_transfer.models import word_model

        if self.task.is_tagging:
            return word_model.WordModel(
                self.network,
                self.task.name,
                self.experiment.settings.max_length,
            )
        return text_model.TextModel(
            self.network,
            self.task.name,
            len(self.task.texts),
            self.experiment.settings.max_length,
            is_score=self.task.labels is None,
            long_texts=self.experiment.settings.long_texts,
            several=self.task.kind == "labels",
        )
