"""A trained run, ready to answer."""

import dataclasses
import importlib
import os

import numpy as np

from tf_transfer import text_task
from tf_transfer.data import conll
from tf_transfer.data import entities
from tf_transfer.data import metrics
from tf_transfer.data import tables
from tf_transfer.data import tasks
from tf_transfer.utils.errors import UserError


class Predictor:
    """A trained run, ready to answer.

    Args:
        run: path of a finished run directory.
        cache_dir: folder for what pip fetches.

    Attributes:
        task: `tasks.Task`, the one that answers.
        tasks: dict from name to all that the run has.
        table: the settings of the run's table, or None.
    """

    def __init__(self, run, cache_dir=""):
        from tf_transfer.models import loading
        from tf_transfer.training import records
        from tf_transfer.training import strategy

        directory = records.RunDirectory(run, None)
        config, result = directory.config(), directory.result()
        if result is not None and not result["best_epoch"]:
            raise UserError(
                f"--run={run}: is a baseline tested in folds, which keeps no "
                "model. Give a run of an encoder."
            )
        if config is None or result is None:
            raise UserError(
                f"--run={run}: has no "
                f"{'config.json' if config is None else 'result.json'}. Give "
                "the folder of a finished run."
            )
        self.module = config["key"]["module"]
        self.settings = self._settings(config["settings"], cache_dir)
        self.tasks = _tasks_of(config)
        self.table = None
        if config["key"]["data_identity"].startswith("table "):
            unset = {"keyword_column": "", "clean": "none"}
            self.table = {**unset, **config["settings"]}
        self.task = None
        if len(self.tasks) == 1:
            [self.task] = self.tasks.values()
        identity = loading.identify(
            self.settings.model, self.settings.cache_folder
        )
        if identity != config["key"]["model_identity"]:
            raise UserError(
                f"--run={run}: was trained on another {self.settings.model} "
                f"({config['key']['model_identity']}) than there is now "
                f"({identity}). Bring the old one back."
            )
        self.devices = strategy.Devices(strategy.tf.distribute.get_strategy())
        self.network = self._build_network()
        self._load_weights(directory)

    def _settings(self, known, cache_dir):
        """The run's settings, with what this machine has."""
        cls = text_task.TaskSettings
        if self.module in ("multitask", "stacking"):
            paper = importlib.import_module(f"tf_transfer.{self.module}")
            cls = paper.SETTINGS
        names = {field.name for field in dataclasses.fields(cls)}
        kept = {k: v for k, v in known.items() if k in names}
        return dataclasses.replace(
            cls(**kept), strategy="default", cpu_devices=1, cache_dir=cache_dir
        )

    def _build_network(self):
        if self.module == "multitask":
            from tf_transfer import multitask

            return multitask.build_network(
                self.settings, self.devices, self.tasks
            )
        if self.module == "stacking":
            from tf_transfer import stacking

            return stacking.build_network(
                self.settings, self.devices, self.task
            )
        return text_task.build_network(self.settings, self.task, self.devices)

    @property
    def reads_words(self):
        """Whether it labels words, not texts."""
        return self.task is not None and self.task.name == conll.TASK.name

    def choose(self, name):
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

    def prepared(self, text):
        """A text as the run's were."""
        if self.table and self.table["clean"] == "basic":
            return tables.cleaned(text)
        return text

    def _load_weights(self, directory):
        files = sorted(os.listdir(directory.file("model")))
        if len(files) != 1:
            raise UserError(
                f"{directory.file('model')}: should hold one file of weights; "
                f"found {len(files)}. Run the run's command again."
            )
        name = files[0].removesuffix(".safetensors")
        try:
            arrays = directory.read_model({"file": name, "sha256": None})
        except Exception as error:
            raise UserError(
                f"{directory.file('model', files[0])}: is damaged ({error})."
            ) from None
        weights = {weight.path: weight for weight in self.network.weights}
        for path, array in arrays.items():
            weights[path].assign(array)

    def logits(self, examples):
        """float32 [examples, units] of `sources.Examples`."""
        return self._run(
            text_task.tokenise(
                examples,
                self.network.encoder,
                self.settings,
                self.task,
                "texts",
            )
        )

    def tags(self, sentences):
        """The tag of each word.

        Args:
            sentences: list of lists of words.

        Returns:
            The same of tags.
        """
        from tf_transfer import word_task

        untagged = [["O"] * len(words) for words in sentences]
        split = word_task.encode(
            conll.Sentences(np.arange(len(sentences)), sentences, untagged),
            self.network.encoder,
            self.settings.max_length,
            "texts",
        )
        found = self._run(split).argmax(axis=1)
        return entities.decode(
            entities.Tagged(found, split.word_starts), self.task.labels
        )

    def _run(self, split):
        import tensorflow as tf

        from tf_transfer.training import learner

        program = tf.function(self._logits_of_batch)
        return learner.predict(
            self.devices,
            program,
            split,
            self.network.encoder.special.pad,
            self.settings.max_length,
        )

    def _logits_of_batch(self, batch):
        return self.network.logits(self.task.name, batch, training=False)

    def answers(self, logits):
        """(label word, score) of each example.

        The score is the probability of the label, or the similarity itself,
        kept within its range.
        """
        if self.task.labels is None:
            low, high = tasks.SCORE_RANGE
            scores = np.clip(logits[:, 0], low, high)
            return [(f"{score:.3f}", float(score)) for score in scores]
        chances = metrics.probabilities(logits)
        words = self.task.words or self.task.labels
        return [
            (words[choice], float(chances[row, choice]))
            for row, choice in enumerate(metrics.decide(logits))
        ]


def _tasks_of(config):
    """Dict of `tasks.Task` of a run."""
    if "tasks" in config:
        return {n: tasks.of_facts(n, f) for n, f in config["tasks"].items()}
    name = config["settings"]["task"]
    if config["key"]["module"] in ("tweets", "stacking"):
        return {name: tasks.of_facts(name, config)}
    return {name: tasks.GLUE[name]}  # with the words of its submissions
