"""A finished run: its scores, its history, and its model, ready to answer."""

import dataclasses
import os
from typing import Any, TYPE_CHECKING

import numpy as np

from tf_transfer.data import (
    batches,
    entities,
    glue,
    tables,
    tagged,
    texts as texts_lib,
)
from tf_transfer.data.tables import Table
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.training import checkpoint, records
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

SEPARATOR = ";"  # between the labels of an answer that has several

if TYPE_CHECKING:
    import pandas as pd

    from tf_transfer.models.network import Network
    from tf_transfer.models.serving import TextModel, WordModel


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

        return pd.json_normalize(
            records.RunDirectory(self.directory, None).epochs()
        )

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
        scored: the labelled rows of the last file that was answered with a
            `label_column`, and their logits.
    """

    scored: tuple[Examples, np.ndarray]

    def __init__(self, run: Result) -> None:
        from tf_transfer.training import strategy

        self.directory = run.directory
        self.experiment = run.experiment
        self.tasks: dict[str, Task] = run.experiment.data.tasks
        self.task: Any = None
        if len(self.tasks) == 1:
            self.task = run.experiment.data.task
        self.threshold = 0.5
        strategy.allow_tf32(run.experiment.settings.precision)
        self.devices = strategy.single_device()
        self._programs: dict[str, Any] = {}
        self.network: Any = run.network
        if self.network is None:
            self.network = run.experiment.build_network(self.devices)
            self._load_weights()

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

    def _load_weights(self) -> None:
        directory = records.RunDirectory(self.directory, None)
        folder = directory.file("model")
        names = os.listdir(folder)
        if len(names) != 1:
            raise UserError(
                f"{folder}: should hold one file of weights, and holds "
                f"{len(names)}. Run the run's command again."
            )
        path = directory.check_file(f"model/{names[0]}")
        weights = {weight.path: weight for weight in self.network.weights}
        for name, array in checkpoint.read_arrays(path, None).items():
            weights[name].assign(array)

    # === Answers ===

    def answer(self, *columns: list[str]) -> list[tuple[str, float]]:
        """(label, score) of each text, or of each pair of texts.

        Args:
            columns: the texts; for pairs all first texts and all second texts.
        """
        examples = Examples(np.arange(len(columns[0])), list(columns), None)
        return self.answers(self.logits(examples))

    def prepare_text(self, text: str, keyword: str = "") -> str:
        """A text, prepared as the texts that the run was trained on."""
        settings = self.experiment.settings
        if not settings.reads_table:
            return text
        return texts_lib.make_text(text, keyword, settings.clean == "basic")

    def logits(self, examples: Examples) -> np.ndarray:
        """float32 [examples, units].

        Raises:
            UserError: a logit is not finite.
        """
        return self._run(
            self.experiment.data.encode(
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
        return tuple(self.task.labels or ())

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """float64 [examples, labels]. They sum to 1 unless labels combine.

        Args:
            logits: see `logits`.
        """
        from tf_transfer.data import metrics

        if self.task.kind == "labels":
            return metrics.sigmoid(logits)
        return metrics.probabilities(logits)

    def answer_file(
        self,
        path: str,
        output: str = "",
        encoding: str = "",
        probabilities: bool = False,
        label_column: str = "",
    ) -> bytes:
        """The content of a file with the answers to another one.

        A file with one word per line gets the tag after each word. A table gets
        further columns. The output of delimited text has the format of
        `output` for a task of your own, and is CSV for a table that the run's
        flags describe. Other tasks have text columns separated by tabs,
        without quoting, as the input.

        Args:
            path: The file to answer.
            output: The file that gets the content, whose extension selects the
                format; empty for that of `path`, as text.
            encoding: The encoding of delimited text; empty for the run's.
            probabilities: Whether each label has a column.
            label_column: The column of the labels to score by; empty for none.

        Raises:
            UserError: Naming the file, and the line or the column.
        """
        task, settings = self.task, self.experiment.settings
        if task.is_tagging and tables.is_plain(path):
            if not tables.is_plain(output):
                raise UserError(
                    f"--output={output}: a file with one word per line is "
                    "answered by one. Give another extension, or --input as "
                    "JSON lines or Parquet, with the words of a sentence as a "
                    "list."
                )
            return self._answer_words(path)
        extension = os.path.splitext(output or path)[1].lower()
        if not output and tables.is_parquet(path):
            extension = ".jsonl"
        columns, dialect = None, None
        is_brief = (
            tables.is_plain(path)
            and tables.is_plain(output)
            and not (probabilities or settings.is_own)
        )
        if is_brief and settings.reads_table:
            extension = ".csv"
        elif is_brief:
            extension, dialect = ".tsv", glue.dialect_of(task)
            columns = dict.fromkeys(task.texts, "")
            if label_column:
                columns[label_column] = "--label_column"
        table = tables.read_table(
            path, columns, encoding or settings.encoding, dialect
        )
        answers = self._answer_table(
            table, is_brief, probabilities, label_column
        )
        prefix = "predicted_" if set(answers) & set(table.columns) else ""
        named = {f"{prefix}{name}": cells for name, cells in answers.items()}
        if lost := sorted(set(named) & set(table.columns)):
            raise UserError(
                f"{path}: has a column {lost[0]!r} already, which the answers "
                "would replace. Rename it."
            )
        return tables.write_table({**table.columns, **named}, extension)

    def _answer_table(
        self,
        table: Table,
        is_brief: bool,
        probabilities: bool,
        label_column: str,
    ) -> dict[str, list[Any]]:
        """The answers to the rows of a table, as columns.

        Args:
            table: Has the text columns of the task.
            is_brief: Whether texts may be empty, and scores have 4 digits.
            probabilities: Whether each label has a column.
            label_column: See `answer_file`.
        """
        task, keyword = self.task, self.experiment.settings.keyword_column
        names = [*task.texts, *filter(None, [keyword])]
        wanted = dict.fromkeys(names, "")
        if label_column:
            wanted[label_column] = "--label_column"
        table.check_columns(wanted)
        if not len(table):
            raise UserError(f"{table.files[0][0]}: holds no texts.")
        if task.is_tagging:
            return {"tags": self.tags(table.words(*task.texts))}
        cells = table.columns[keyword] if keyword else [""] * len(table)
        keywords = [*map(tables.word_of, cells)]
        read = table.columns.__getitem__ if is_brief else table.texts
        texts = [
            [*map(self.prepare_text, read(name), keywords)]
            for name in task.texts
        ]
        rows = Examples(np.arange(len(table)), texts, None)
        if label_column:
            rows.labels = self._read_labels(table, label_column)
        logits = self.logits(rows)
        if label_column:
            self.scored = rows, logits
        labels, scores = map(list, zip(*self.answers(logits)))
        if is_brief:
            return {"label": labels, "score": [f"{s:.4f}" for s in scores]}
        if task.labels is None:
            digits = 10 if task.score_scale else 7  # of float64, float32
            return {"score": [float(f"{s:.{digits}g}") for s in scores]}
        columns = {"label": labels, "score": [round(s, 6) for s in scores]}
        if probabilities:
            for name, values in zip(self.labels, self.probabilities(logits).T):
                columns[f"probability_{name}"] = values.round(6).tolist()
        return columns

    def _read_labels(self, table: Table, column: str) -> np.ndarray:
        """The labels in a table; see `Examples`."""
        if self.task.kind == "score":
            return np.asarray(table.scores(column))
        cells = table.columns[column]
        if self.task.kind == "classes":
            words = [*map(tables.word_of, cells)]
            return table.label_ids(column, words, self.labels)
        lists = tables.split_labels(cells, SEPARATOR)
        return table.label_sets(column, lists, self.labels)

    def _answer_words(self, path: str) -> bytes:
        """The lines of a file with one word per line, and its tag behind."""
        lines = [*tables.read_lines(path)]
        starts, rows = zip(*tagged.read_sentences(path, min_columns=1))
        sentences = [[cells[0] for cells in sentence] for sentence in rows]
        for start, tags in zip(starts, self.tags(sentences)):
            for line, tag in enumerate(tags, start - 1):
                lines[line] += f" {tag}"
        return "".join(f"{line}\n" for line in [*lines, ""]).encode()

    def tags(self, sentences: list[list[str]]) -> list[list[str]]:
        """The tag of each word of some sentences."""
        untagged = [["O"] * len(words) for words in sentences]
        split = self.experiment.data.encode(
            Sentences(np.arange(len(sentences)), sentences, untagged),
            self.task,
            self.network.encoder,
            "texts",
        )
        chosen = self._run(split).argmax(axis=1)
        return entities.decode(
            entities.Tagged(chosen, split.word_starts), self.task.labels
        )

    def _run(self, split: batches.EncodedSplit) -> np.ndarray:
        import tensorflow as tf

        from tf_transfer.training import steps

        name = self.task.name
        if name not in self._programs:  # traced once, however often asked
            self._programs[name] = tf.function(
                lambda batch: self.network.logits(name, batch, training=False),
                autograph=False,  # traced sooner
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
        from tf_transfer.models import serving

        if self.task.is_tagging:
            return serving.WordModel(
                self.network,
                self.task.name,
                self.experiment.settings.max_length,
            )
        return serving.TextModel(
            self.network,
            self.task.name,
            len(self.task.texts),
            self.experiment.settings.max_length,
            is_score=self.task.labels is None,
            long_texts=self.experiment.settings.long_texts,
            several=self.task.kind == "labels",
        )
