"""A finished run: its scores, its history, and its model, ready to answer."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.data import entities
from tf_transfer.data.columns import Cell
from tf_transfer.data.task import Examples, Sentences, SEPARATOR, Task
from tf_transfer.runs.run_model import RunModel
from tf_transfer.runs.task_settings import RunSettings
from tf_transfer.training import checkpoint, record_types, records
from tf_transfer.utils import files, json_files, screen
from tf_transfer.utils.errors import RunError, UserError
from tf_transfer.utils.json_files import Record

FEWEST_COMPILED = 512  # texts: for fewer, compiling takes longer than it saves

if TYPE_CHECKING:
    import pandas as pd
    import tensorflow as tf
    from tensorflow.types.experimental import PolymorphicFunction

    from tf_transfer.models.network import Network
    from tf_transfer.models.serving import TextModel, WordModel
    from tf_transfer.training.evaluation import EvaluationBatches

    Batch = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes:
        experiment: The `Experiment` that was run.
        directory: Path of the run directory.
        record: Content of `result.json`.
        network: The trained network, if it is in memory already.
    """

    experiment: RunModel[RunSettings]
    directory: str
    record: Record
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

    def predictor(self, task: str = "") -> "Predictor":
        """The trained model, ready to answer.

        Args:
            task: The task that answers, if the run has several.

        Raises:
            UserError: The run has several tasks and none is named.
        """
        cls: type[Predictor] = NetworkPredictor
        if self.experiment.settings.is_sparse:
            cls = BaselinePredictor
        return cls(self, task)

    def model(self, task: str = "") -> "TextModel | WordModel":
        """The trained model as a Keras model that takes strings.

        It takes texts as the encoder reads them; see `Predictor.answer`. It
        returns probabilities, or the score itself. The model of a run that
        labels words takes words and returns the probabilities of their tags.

        Args:
            task: The task that answers, if the run has several.

        Raises:
            UserError: The run has several tasks and none is named, or no
                encoder.
        """
        return self.predictor(task).text_model()


def choose_task(tasks: Mapping[str, Task], name: str) -> Task:
    """The task of a run that answers.

    Args:
        tasks: The run's tasks by name.
        name: The value of `--task`; empty for the only task.

    Raises:
        UserError: The run has no such task, or several and none is named.
    """
    if not name and len(tasks) == 1:
        [name] = tasks
    if name not in tasks:
        raise UserError(
            f"--task={name}: this run has {', '.join(tasks)}. Give one of them."
        )
    return tasks[name]


class Predictor:
    """A trained run, ready to answer; the base class.

    Args:
        run: The finished run.
        task: See `choose_task`.

    Attributes:
        directory: Path of the run directory.
        record: The content of `result.json`.
        experiment: The run's experiment.
        task: The task that answers.
        temperature: What logits are divided by; 1 until `calibrate`.
    """

    def __init__(self, run: Result, task: str) -> None:
        self.directory = run.directory
        self.record = run.record
        self.experiment = run.experiment
        self.task = choose_task(run.experiment.data.tasks, task)
        self.temperature = 1.0

    def compute(self, examples: Examples | Sentences) -> np.ndarray:
        """Float [examples or words, units]. The logits; see `logits`."""
        raise NotImplementedError

    def text_model(self) -> "TextModel | WordModel":
        """A Keras model that takes strings and tokenizes them itself.

        It takes texts as the encoder reads them; see `answer`.

        Raises:
            UserError: The run has no encoder.
        """
        raise UserError(
            f"--run={self.directory}: has no encoder, so no Keras model. "
            "`predictor()` answers, and `--export` writes its weights."
        )

    def _read_model(self) -> checkpoint.Arrays:
        """The arrays that the run has kept below `model/`."""
        directory = records.RunDirectory(self.directory, None)
        names = [n for n in self.record["sha256"] if n.startswith("model/")]
        name = names[0] if names else "model"
        path = directory.check_file(name, self.record)
        return checkpoint.read_arrays(path, None)

    # === What validation chooses ===

    def read_validation(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and logits of the validation texts, as the run stored them.

        Raises:
            UserError: It stored none.
        """
        directory = records.RunDirectory(self.directory, None)
        name = self.experiment.data.name_split("validation", self.task.name, "")
        arrays = directory.predictions(self.record)
        if f"{name}_logits" in arrays:
            return arrays[f"{name}_labels"], arrays[f"{name}_logits"]
        raise UserError(
            f"--run={self.directory}: has no validation texts, by which "
            "--calibrate chooses. Leave it out."
        )

    def calibrate(self) -> None:
        """Divides logits by the temperature that fits the validation labels.

        Raises:
            UserError: Answers have no probabilities, or nothing validated.
        """
        from tf_transfer.data import metrics

        task = self.task
        if task.kind not in ("classes", "labels"):
            raise UserError(
                f"--calibrate: is for classes and labels, and {task.name} has "
                f"{'entities' if task.is_tagging else 'scores'}. Leave it out."
            )
        self.temperature = metrics.fit_temperature(*self.read_validation())

    # === Answers ===

    def answer(self, *columns: list[str]) -> list[tuple[str, float]]:
        """(label, score) of each text, or of each pair of texts.

        Texts are as the encoder reads them. For a run with --keyword_column
        or --clean, `data.texts.make_text` prepares them.

        Args:
            columns: The texts; for pairs all first texts and all second texts.
        """
        examples = Examples(np.arange(len(columns[0])), list(columns), None)
        return self.answers(self.logits(examples))

    def logits(self, examples: Examples | Sentences) -> np.ndarray:
        """float32 [examples, units], or of sentences [words, units].

        Raises:
            RunError: A logit is not finite.
        """
        output = self.compute(examples)
        if not np.isfinite(output).all():
            raise RunError(
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
            scores = metrics.clip_scores(self.task, logits).tolist()
            return [(f"{score:.10g}", score) for score in scores]
        names, probabilities = self.task.labels, self.probabilities(logits)
        if self.task.kind == "classes":
            ids = metrics.decide(logits)
            return [
                (names[label], float(row[label]))
                for label, row in zip(ids, probabilities)
            ]
        answers = []
        for is_chosen, row in zip(metrics.decide_each(logits), probabilities):
            numbers = np.flatnonzero(is_chosen)
            label = SEPARATOR.join(names[number] for number in numbers)
            answers.append((label, min(row[numbers].tolist(), default=0.0)))
        return answers

    def describe_answers(
        self,
        rows: Examples | Sentences,
        logits: np.ndarray,
        probabilities: bool,
    ) -> dict[str, Sequence[Cell]]:
        """The answers as columns, named apart from those of an input.

        They are `predicted_tags`, or `predicted_score`, or `predicted_label`
        and its probability `predicted_score`.

        Args:
            rows: The examples or sentences.
            logits: Their logits.
            probabilities: Whether each label has a column, such as
                `probability_good`.
        """
        if isinstance(rows, Sentences):
            return {"predicted_tags": self._decode(rows, logits)}
        answers = self.answers(logits)
        if self.task.labels is None:
            return {"predicted_score": [float(score) for score, _ in answers]}
        columns: dict[str, Sequence[Cell]] = {
            "predicted_label": [label for label, _ in answers],
            "predicted_score": [round(score, 6) for _, score in answers],
        }
        if probabilities:
            for name, values in zip(
                self.task.labels, self.probabilities(logits).T
            ):
                columns[f"probability_{name}"] = values.round(6).tolist()
        return columns

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """float64 [examples, labels]. They sum to 1 unless labels combine.

        Args:
            logits: See `logits`.
        """
        from tf_transfer.data import metrics

        if self.task.kind == "labels":
            return metrics.sigmoid(logits)
        return metrics.probabilities(logits)

    def tags(self, sentences: list[list[str]]) -> list[list[str]]:
        """The tag of each word of some sentences."""
        tags = [["O"] * len(words) for words in sentences]
        rows = Sentences(np.arange(len(sentences)), sentences, tags)
        return self._decode(rows, self.logits(rows))

    def _decode(self, rows: Sentences, logits: np.ndarray) -> list[list[str]]:
        names = self.task.labels or ()
        tags = entities.encode(rows.tags, names)
        tagged = entities.Tagged(logits.argmax(axis=1), tags.starts)
        return entities.decode(tagged, names)


class NetworkPredictor(Predictor):
    """A run with an encoder.

    Attributes:
        devices: That it runs on.
        network: The network with the weights of the selected epoch.
    """

    def __init__(self, run: Result, task: str) -> None:
        from tf_transfer.training import strategy

        super().__init__(run, task)
        strategy.allow_tf32(run.experiment.settings.precision)
        self.devices = strategy.single_device()
        self._program: PolymorphicFunction | None = None
        network = run.network
        if network is None:
            network = run.experiment.build_network(self.devices)
            weights = {weight.path: weight for weight in network.weights}
            for name, array in self._read_model().items():
                weights[name].assign(array)
        self.network = network

    def calibrate(self) -> None:
        """Puts the temperature into the network, which exports have."""
        from tf_transfer.models.network import Network

        super().calibrate()
        network = self.network
        scale = 0.0, 1 / self.temperature
        scales = {**network.scales, self.task.name: scale}
        self.network = Network(network.encoder, network.heads, scales)
        self._program = None

    def compute(self, examples: Examples | Sentences) -> np.ndarray:
        """float32 [examples or words, units]."""
        from tf_transfer.training.evaluation import EvaluationBatches

        encoder = self.network.encoder
        batches = EvaluationBatches(
            self.devices,
            self.experiment.data.encode(examples, self.task, encoder, "texts"),
            encoder.special.pad,
            self.experiment.settings.max_length,
        )
        if self._program is None:  # traced once, however often asked
            self._program = self._make_program(batches, len(examples))
        return batches.predict(self._program)

    def _make_program(
        self, batches: "EvaluationBatches", count: int
    ) -> "PolymorphicFunction":
        """A program from a batch to the logits of the task.

        Args:
            batches: Of the examples.
            count: Number of examples. A probe of many is run by its engine;
                for few, compiling takes longer.
        """
        import tensorflow as tf

        from tf_transfer.feature_cache import engines

        name, network = self.task.name, self.network
        settings, head = self.experiment.settings, network.heads[name]

        def answer(batch: "Batch") -> tf.Tensor:
            return network.logits(name, batch, training=False)

        run: Callable[[Batch], tf.Tensor] = answer

        def read(batch: "Batch") -> list[tf.Tensor]:
            return network.read(name, batch, training=False)[0][:1]

        if (
            settings.is_probe
            and settings.pass_engine == "openvino"
            and count >= FEWEST_COMPILED
            and name not in network.scales  # float64
        ):
            try:
                compute = engines.compile_openvino(
                    read, batches.first(), settings.pass_precision
                )
            except engines.Unusable as error:
                screen.say(f"{error} TensorFlow predicts.")
            else:
                run = engines.add_head(head, compute)
        return tf.function(run, autograph=False)  # traced sooner

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


class BaselinePredictor(Predictor):
    """A run of the TF-IDF baseline, without an encoder.

    Attributes:
        baseline: See `baselines.usual.make`.

    Raises:
        Damaged: Its files do not fit each other.
    """

    def __init__(self, run: Result, task: str) -> None:
        from tf_transfer.baselines import usual  # scikit-learn takes seconds

        super().__init__(run, task)
        config = records.RunDirectory(self.directory, None).config() or {}
        self.baseline = usual.make(self.task, 0)
        arrays = self._read_model()
        try:
            self.baseline.restore(config["chosen"], arrays)
        except (ValueError, TypeError, LookupError, UserError) as error:
            raise json_files.Damaged(
                f"{self.directory}: its model is damaged ({error}).\n"
                f"{record_types.ADVICE}"
            ) from None

    def compute(self, examples: Examples | Sentences) -> np.ndarray:
        """Float [examples or words, units]."""
        return self.baseline.logits(examples) / self.temperature

    def write_files(self, folder: str) -> None:
        """Writes `model.json` and `weights.npz`, which a model card explains.

        Scores are in their own units, and logits have the temperature.
        """
        from tf_transfer.baselines import usual

        arrays, task = self.baseline.arrays, self.task
        content = {
            "labels": task.labels,
            **self.baseline.chosen,
            "terms": usual.unpack_terms(arrays.pop("terms")),
        }
        if not task.is_tagging:
            mean, deviation = task.score_scale or (0.0, 1 / self.temperature)
            arrays["kernel"] = arrays["kernel"] * deviation
            arrays["bias"] = arrays["bias"] * deviation + mean
        files.write_json(os.path.join(folder, "model.json"), content)
        path = os.path.join(folder, "weights.npz")
        files.write_atomically(path, records.compress_arrays(arrays))
