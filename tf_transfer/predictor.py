"""A trained run, ready to answer."""

import dataclasses
import os

import numpy as np

from tf_transfer import text_task
from tf_transfer.data import metrics
from tf_transfer.data import tables
from tf_transfer.data import tasks
from tf_transfer.errors import UserError


class Predictor:
    """A trained run, ready to answer.

    Args:
        run: path of a finished run directory.
        cache_dir: folder for what pip fetches.
        name: the task that answers, of a run that has several.

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
        if config["key"]["module"] == "stacking":
            raise UserError(
                f"--run={run}: is one of tf_transfer.stacking, whose runs "
                "cannot answer yet. Their answers on the test set are in "
                "predictions.npz."
            )
        self.settings = _settings_of(config, cache_dir)
        self.tasks, self.table = _tasks_of(config)
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

    def _build_network(self):
        if self.task is None:
            from tf_transfer import multitask

            return multitask.build_network(
                self.settings, self.devices, self.tasks
            )
        return text_task.build_network(self.settings, self.task, self.devices)

    def choose(self, name):
        """Sets which task answers.

        Raises:
            UserError: the run has no such task, or several and none is named.
        """
        if name and name not in self.tasks or not (name or self.task):
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
        import tensorflow as tf

        from tf_transfer.training import learner

        split = text_task.tokenise(
            examples, self.network.encoder, self.settings, self.task, "texts"
        )
        program = tf.function(self._logits_of_batch, reduce_retracing=True)
        return learner.predict(
            self.devices, program, split, self.network.encoder.special.pad,
            self.settings.max_length,
        )  # fmt: skip

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
        if logits.shape[1] == 1:
            yes = 1 / (1 + np.exp(-logits[:, 0].astype(np.float64)))
            chances = np.stack([1 - yes, yes], axis=1)
        else:
            shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
            chances = shifted / shifted.sum(axis=1, keepdims=True)
        words = self.task.words or self.task.labels
        return [
            (words[choice], float(chances[row, choice]))
            for row, choice in enumerate(metrics.decide(logits))
        ]


def _settings_of(config, cache_dir):
    """The run's settings, with what this machine has."""
    cls = text_task.TaskSettings
    if config["key"]["module"] == "multitask":
        from tf_transfer import multitask

        cls = multitask.MultitaskSettings
    known = {field.name for field in dataclasses.fields(cls)}
    kept = {k: v for k, v in config["settings"].items() if k in known}
    return dataclasses.replace(
        cls(**kept), strategy="default", cpu_devices=1, cache_dir=cache_dir
    )


def _tasks_of(config):
    """(dict of `tasks.Task`, the settings of its table or None) of a run."""
    settings = config["settings"]
    if "tasks" in config:
        return {
            name: _task(name, known["texts"], known["labels"])
            for name, known in config["tasks"].items()
        }, None
    name = settings["task"]
    if config["key"]["module"] == "tweets":
        return {name: _task(name, config["texts"], config["labels"])}, settings
    return {name: tasks.GLUE[name]}, None


def _task(name, texts, labels):
    labels = None if labels is None else tuple(labels)
    return tasks.Task(name, "", tuple(texts), "", labels, "", "", ())
