"""A finished run: its scores, its history, and its model, ready to answer."""

import dataclasses
import os
from typing import Any, TYPE_CHECKING

import numpy as np

from tf_transfer.data import (
    entities,
    tables,
    tagged,
    texts as texts_lib,
)
from tf_transfer.data.tables import Table
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.data.task_file import SEPARATOR
from tf_transfer.training import checkpoint, records
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

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


def columns_to_read(
    task: Task, settings: Any, label_column: str
) -> dict[str, str]:
    """The columns of a table to answer, each with its flag or ""."""
    names = filter(None, [*task.texts, settings.keyword_column])
    columns = dict.fromkeys(names, "")
    if label_column:
        columns[label_column] = "--label_column"
    return columns


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
        temperature: what logits are divided by; 1 until `calibrate`.
    """

    def __init__(self, run: Result) -> None:
        from tf_transfer.training import strategy

        self.directory = run.directory
        self.experiment = run.experiment
        self.tasks: dict[str, Task] = run.experiment.data.tasks
        self.task: Any = None
        if len(self.tasks) == 1:
            self.task = run.experiment.data.task
        self.temperature = 1.0
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
        result = directory.result() or {"sha256": {}}
        names = [n for n in result["sha256"] if n.startswith("model/")]
        path = directory.check_file(names[0] if names else "model", result)
        weights = {weight.path: weight for weight in self.network.weights}
        for name, array in checkpoint.read_arrays(path, None).items():
            weights[name].assign(array)

    # === What validation chooses ===

    def read_stored(self, *kinds: str) -> tuple[str, np.ndarray, np.ndarray]:
        """Reads labels and logits that the run stored.

        Args:
            *kinds: `validation` or `test`; the first that is stored is read.

        Returns:
            Its kind, and labels and logits.

        Raises:
            UserError: none is stored.
        """
        directory = records.RunDirectory(self.directory, None)
        with np.load(directory.check_file("predictions.npz")) as arrays:
            for kind in kinds:
                name = self.experiment.data.name_split(kind, self.task.name, "")
                if len(arrays.get(f"{name}_logits", ())):
                    logits = arrays[f"{name}_logits"] / self.temperature
                    return kind, arrays[f"{name}_labels"], logits
        raise UserError(
            f"--run={self.directory}: has no {kinds[-1]} texts, by "
            "which --calibrate chooses. Leave it out."
        )

    def calibrate(self) -> None:
        """Divides logits by the temperature that fits the validation labels.

        Raises:
            UserError: answers have no probabilities, or nothing validated.
        """
        from tf_transfer.data import calibration
        from tf_transfer.models.network import Network

        task, network = self.task, self.network
        if task.kind not in ("classes", "labels"):
            raise UserError(
                f"--calibrate: is for classes and labels, and {task.name} has "
                f"{'entities' if task.is_tagging else 'scores'}. Leave it out."
            )
        _, *stored = self.read_stored("validation")
        self.temperature *= calibration.fit_temperature(*stored)
        # Exports of all formats have the scale, too.
        scales = {**network.scales, task.name: (0.0, 1 / self.temperature)}
        self.network = Network(network.encoder, network.heads, scales)
        self._programs.clear()

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
        is_cleaned = self.experiment.settings.clean == "basic"
        return texts_lib.make_text(text, keyword, is_cleaned)

    def logits(self, examples: Examples | Sentences) -> np.ndarray:
        """float32 [examples, units], or of sentences [words, units].

        Raises:
            UserError: a logit is not finite.
        """
        import tensorflow as tf

        from tf_transfer.training import steps

        name, encoder = self.task.name, self.network.encoder
        if name not in self._programs:  # traced once, however often asked
            self._programs[name] = tf.function(
                lambda batch: self.network.logits(name, batch, training=False),
                autograph=False,  # traced sooner
            )
        output = steps.EvaluationBatches(
            self.devices,
            self.experiment.data.encode(examples, self.task, encoder, "texts"),
            encoder.special.pad,
            self.experiment.settings.max_length,
        ).predict(self._programs[name])
        if not np.isfinite(output).all():
            raise UserError(
                f"{self.directory}: an output of this model is not finite.\n"
                "Its encoder or its weights are broken: train it again."
            )
        return output

    def answers(self, logits: np.ndarray) -> list[tuple[str, float]]:
        """(label, score) of each example.

        The score is the probability of the label, or the similarity itself,
        clipped to its range. With several labels, it is the lowest probability
        of a chosen one, or 0 if none is chosen.
        """
        from tf_transfer.data import metrics

        if self.task.labels is None:
            return [
                (formatting.decimal(score, 3), float(score))
                for score in metrics.clip_scores(self.task, logits)
            ]
        probabilities = self.probabilities(logits)
        several, names = self.task.kind == "labels", np.asarray(self.labels)
        chosen = metrics.decide_each(logits) > 0
        if not several:
            chosen = np.eye(len(names), dtype=bool)[metrics.decide(logits)]
        return [
            (
                SEPARATOR.join(names[row].tolist()),
                float(values[row].min()) if row.any() else 0.0,
            )
            for row, values in zip(chosen, probabilities)
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
        raw: bool = False,
    ) -> tuple[bytes, Any, np.ndarray]:
        """Answers to a file: the content of another one, rows and logits.

        A file with one word per line gets the tag after each word. A table gets
        further columns. The output of delimited text has the format of
        `output` for texts of your own. Other tasks have text columns separated
        by tabs, without quoting, as the input.

        Args:
            path: The file to answer.
            output: The file that gets the content, whose extension selects the
                format; empty for that of `path`, as text.
            encoding: The encoding of delimited text; empty for the run's.
            probabilities: Whether each label has a column.
            label_column: The column of the labels, which the rows get; empty
                for none. A file with one word per line has them in its last.
            raw: Whether cells that a spreadsheet takes for formulas stay.

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
            return self._answer_words(path, label_column)
        extension = os.path.splitext(output or path)[1].lower()
        if extension in (*tables.PARQUET, *tables.EXCEL):
            if output:
                raise UserError(
                    f"--output={output}: Parquet and Excel are read, not "
                    "written. Give a .jsonl or .csv."
                )
            extension = ".jsonl" if extension in tables.PARQUET else ".csv"
        columns = columns_to_read(task, settings, label_column)
        dialect = None
        is_brief = (
            tables.is_plain(path)
            and tables.is_plain(output)
            and not (probabilities or settings.own_data)
        )
        if is_brief:
            extension = ".tsv"
            dialect = dataclasses.replace(tables.TSV, is_ragged=True)
        table = tables.read_table(
            path,
            columns,
            encoding or settings.encoding,
            dialect,
            takes_all=not is_brief,
        )
        rows = self._read_rows(table, is_brief, label_column)
        logits = self.logits(rows)
        answers = self._columns(rows, logits, is_brief, probabilities)
        prefix = "predicted_" if set(answers) & set(table.columns) else ""
        named = {f"{prefix}{name}": cells for name, cells in answers.items()}
        if lost := sorted(set(named) & set(table.columns)):
            raise UserError(
                f"{path}: has a column {lost[0]!r} already, which the answers "
                "would replace. Rename it."
            )
        content = tables.write_table({**table.columns, **named}, extension, raw)
        return content, rows, logits

    def _read_rows(
        self, table: Table, is_brief: bool, label_column: str
    ) -> Examples | Sentences:
        """The rows of a table, labelled where a column has the labels.

        Args:
            table: Has the text columns of the task.
            is_brief: Whether texts may be empty.
            label_column: See `answer_file`.
        """
        task, keyword = self.task, self.experiment.settings.keyword_column
        path, ids = table.path, np.arange(len(table))
        if not len(table):
            raise UserError(f"{path}: holds no texts.")
        if task.is_tagging:
            return self._tagged(path, table.words(*task.texts), label_column)
        cells = table.columns[keyword] if keyword else [""] * len(table)
        keywords = [*map(tables.word_of, cells)]
        read = table.columns.__getitem__ if is_brief else table.texts
        texts = [
            [*map(self.prepare_text, read(name), keywords)]
            for name in task.texts
        ]
        labels = None
        if label_column:
            labels = self._read_labels(table, label_column)
        return Examples(ids, texts, labels)

    def _read_labels(self, table: Table, column: str) -> np.ndarray:
        """The labels in a table; see `Examples`."""
        if self.task.kind == "score":
            return np.asarray(table.scores(column))
        cells = table.columns[column]
        if self.task.kind == "classes":
            words = [*map(tables.word_of, cells)]
            return table.label_ids(column, words, self.labels)
        lists = [tables.split_labels(cell, SEPARATOR) for cell in cells]
        return table.label_sets(column, lists, self.labels)

    def _tagged(
        self, path: str, sentences: list[list[str]], column: str
    ) -> Sentences:
        """Sentences with the tags of a column of a file, or without any."""
        tags = [["O"] * len(words) for words in sentences]
        if column:
            table = tagged.read(path, self.task.texts[0], column)
            tags = table.columns[column]
            tagged.check_types(table, tags, entities.types_of(self.labels))
        return Sentences(np.arange(len(sentences)), sentences, tags)

    def _columns(
        self,
        rows: Examples | Sentences,
        logits: np.ndarray,
        is_brief: bool,
        probabilities: bool,
    ) -> dict[str, list[Any]]:
        """The answers as columns.

        Args:
            rows, logits: The rows, and their logits.
            is_brief: Whether scores have 4 digits.
            probabilities: Whether each label has a column.
        """
        if isinstance(rows, Sentences):
            return {"tags": self._decode(rows, logits)}
        labels, scores = map(list, zip(*self.answers(logits)))
        if is_brief:
            return {"label": labels, "score": [f"{s:.4f}" for s in scores]}
        if self.task.labels is None:
            digits = 10 if self.task.score_scale else 7  # of float64, float32
            return {"score": [float(f"{s:.{digits}g}") for s in scores]}
        columns = {"label": labels, "score": [round(s, 6) for s in scores]}
        if probabilities:
            for name, values in zip(self.labels, self.probabilities(logits).T):
                columns[f"probability_{name}"] = values.round(6).tolist()
        return columns

    def _answer_words(
        self, path: str, label_column: str
    ) -> tuple[bytes, Sentences, np.ndarray]:
        """The lines of a file with one word per line, and its tag behind."""
        lines = [*tables.read_lines(path)]
        starts, cells = zip(*tagged.read_sentences(path, min_columns=1))
        words = [[first for first, *_ in sentence] for sentence in cells]
        rows = self._tagged(path, words, label_column)
        logits = self.logits(rows)
        for start, tags in zip(starts, self._decode(rows, logits)):
            for line, tag in enumerate(tags, start - 1):
                lines[line] += f" {tag}"
        content = "".join(f"{line}\n" for line in [*lines, ""]).encode()
        return content, rows, logits

    def tags(self, sentences: list[list[str]]) -> list[list[str]]:
        """The tag of each word of some sentences."""
        rows = self._tagged("", sentences, "")
        return self._decode(rows, self.logits(rows))

    def _decode(self, rows: Sentences, logits: np.ndarray) -> list[list[str]]:
        tags = entities.encode(rows.tags, self.labels)
        return entities.decode(
            entities.Tagged(logits.argmax(axis=1), tags.starts), self.labels
        )

    def text_model(self) -> "TextModel | WordModel":
        """A Keras model that takes strings and tokenizes them itself."""
        from tf_transfer.models import serving

        settings = self.experiment.settings
        if self.task.is_tagging:
            return serving.WordModel(
                self.network, self.task, settings.max_length
            )
        return serving.TextModel(
            self.network,
            self.task,
            settings.max_length,
            settings.long_texts,
        )
