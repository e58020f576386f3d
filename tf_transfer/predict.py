"""Uses a trained run: on a text, on a file, for GLUE's test set, or exported.

    python -m tf_transfer.predict --run=DIR --text="Rain." --text="It is wet."
    python -m tf_transfer.predict --run=DIR --input=FILE.tsv
    python -m tf_transfer.predict --run=DIR --glue_test --output=DIR2
    python -m tf_transfer.predict --run=DIR --export=DIR3

`--run` is a run directory (the folder that holds result.json). `--input` is a
tab-separated file without quoting whose header names the task's text columns,
such as `sentence1` and `sentence2`; a column `label` with the answer and one
`score` are added. For a run of `tf_transfer.tweets` it is a CSV or TSV with the
run's text column, prepared as the run's was, and the answers are CSV: every
column of the file, and these two behind them.
`--glue_test` writes the file that gluebenchmark.com takes.
`--export` writes a TensorFlow SavedModel that takes raw strings; who loads it
imports tensorflow_text first.
"""

import csv
import dataclasses
import io
import json
import os

import numpy as np
from absl import flags

from tf_transfer import settings as settings_lib
from tf_transfer import text_task
from tf_transfer.data import metrics
from tf_transfer.data import sources
from tf_transfer.data import tables
from tf_transfer.data import tasks
from tf_transfer.errors import UserError


def define_flags():
    """Defines this module's flags."""
    flags.DEFINE_string("run", None, "The run directory.")
    flags.DEFINE_multi_string(
        "text", [], "A text. Give it twice for a task on pairs."
    )
    flags.DEFINE_string("input", None, "A tab-separated file of texts.")
    flags.DEFINE_bool(
        "glue_test", False, "Predict the task's hidden test set, for GLUE."
    )
    flags.DEFINE_string(
        "data", None, "Where --glue_test reads. Unset: the run's own source."
    )
    flags.DEFINE_string(
        "output",
        None,
        "Where to write. Unset: --input's answers go to the "
        "terminal, --glue_test's file into the run directory.",
    )
    flags.DEFINE_string("export", None, "Folder to write a SavedModel into.")
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")


class Predictor:
    """A trained run, ready to answer.

    Args:
        run: path of a finished run directory.
        cache_dir: folder for what pip fetches.
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
        known = {
            field.name for field in dataclasses.fields(text_task.TaskSettings)
        }
        kept = {k: v for k, v in config["settings"].items() if k in known}
        self.settings = dataclasses.replace(
            text_task.TaskSettings(**kept),
            strategy="default", cpu_devices=1, cache_dir=cache_dir,
        )  # fmt: skip
        self.task, self.table = _task_of(config)
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
        self.network = text_task.build_network(
            self.settings, self.task, self.devices
        )
        self._load_weights(directory)

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
        from tf_transfer.training import loop

        split = text_task.tokenise(
            examples, self.network.encoder, self.settings, self.task, "texts"
        )
        program = loop.tf.function(self._logits_of_batch, reduce_retracing=True)
        return loop.predict(
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


def _task_of(config):
    """(`tasks.Task`, the settings of its table or None) of a run."""
    settings = config["settings"]
    if config["key"]["module"] != "tweets":
        return tasks.GLUE[settings["task"]], None
    task = tasks.Task(
        settings["task"], "", tuple(config["texts"]), "",
        tuple(config["labels"]), "accuracy", "", (),
    )  # fmt: skip
    return task, settings


# === What the flags ask for ===


def predict_texts(predictor, texts):
    """Prints the answer for one text or pair."""
    wanted = len(predictor.task.texts)
    if len(texts) != wanted:
        raise UserError(
            f"--text: task {predictor.task.name} takes {wanted} of them, "
            f"found {len(texts)}."
        )
    columns = [[predictor.prepared(text)] for text in texts]
    examples = sources.Examples(np.arange(1), columns, None)
    [(word, score)] = predictor.answers(predictor.logits(examples))
    print(f"{word}\t{score:.4f}")


def predict_file(predictor, path, output):
    """Adds `label` and `score` to every row of a file."""
    if not os.path.isfile(path):
        raise UserError(f"--input={path}: no such file.")
    if predictor.table:
        _predict_table(predictor, path, output)
        return
    task = dataclasses.replace(predictor.task, header=None)
    examples = sources.read_tsv(task, path, "test")
    answers = predictor.answers(predictor.logits(examples))
    rows = zip(*examples.texts, answers)
    lines = ["\t".join([*task.texts, "label", "score"])]
    lines += [
        "\t".join([*texts, word, f"{score:.4f}"])
        for *texts, (word, score) in rows
    ]
    _write(output, lines)


def _predict_table(predictor, path, output):
    """The same for a CSV or TSV, as CSV."""
    settings = predictor.table
    texts = tables.read_texts(
        path,
        tables.Columns(
            settings["text_column"], "", "", settings["keyword_column"]
        ),
        settings["encoding"], settings["clean"] == "basic",
    )  # fmt: skip
    if not texts:
        raise UserError(f"--input={path}: holds no texts.")
    examples = sources.Examples(np.arange(len(texts)), [texts], None)
    answers = predictor.answers(predictor.logits(examples))
    header, rows = tables.read_cells(path, settings["encoding"])
    taken = "predicted_" if {"label", "score"} & set(header) else ""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow((*header, f"{taken}label", f"{taken}score"))
    for cells, (word, score) in zip(rows, answers, strict=True):
        writer.writerow((*cells, word, f"{score:.4f}"))
    _write(output, buffer.getvalue().removesuffix("\n").split("\n"))


def predict_glue_test(predictor, data, output, run):
    """Writes the task's GLUE submission file, or MNLI's two."""
    task = predictor.task
    if not task.tests:
        raise UserError(
            f"--glue_test: task {task.name} is none of GLUE's. Give --input."
        )
    source = sources.Source(
        task, data or predictor.settings.data, predictor.settings.cache_folder
    )
    for split, name in task.tests:
        examples = source.read(split)
        answers = predictor.answers(predictor.logits(examples))
        lines = ["index\tprediction"]
        lines += [
            f"{row}\t{word}" for row, (word, _) in zip(examples.ids, answers)
        ]
        path = os.path.join(output or run, f"{name}.tsv")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, lines)
        print(f"Written to {path}")


def _write(path, lines):
    if path is None:
        print("\n".join(lines))
        return
    from tf_transfer.training import checkpoint

    checkpoint.write_atomically(path, ("\n".join(lines) + "\n").encode())


def export(predictor, folder):
    """Writes a SavedModel from raw strings to logits, and how to read them."""
    import tensorflow as tf

    from tf_transfer.models import serving

    if os.path.exists(folder) and os.listdir(folder):
        raise UserError(f"--export={folder}: is not empty. Give a new folder.")
    module = serving.TextModule(
        predictor.network, predictor.task.name, len(predictor.task.texts),
        predictor.settings.max_length,
    )  # fmt: skip
    tf.saved_model.save(module, folder, module.signatures())
    about = {
        "task": predictor.task.name,
        "texts": predictor.task.texts,
        "labels": predictor.task.words or predictor.task.labels,
        "logits": "one unit: sigmoid of the second label; several: softmax"
        if predictor.task.labels
        else "the score itself",
    }
    with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
        json.dump(about, file, indent=2)
    print(f"Written to {folder}")


def main():
    """Reads the flags and predicts."""
    values = flags.FLAGS
    if not values.run:
        raise UserError("--run: give the folder of a finished run.")
    asked = [
        bool(values.text), bool(values.input), values.glue_test,
        bool(values.export),
    ]  # fmt: skip
    if sum(asked) != 1:
        raise UserError(
            "Give one of --text, --input, --glue_test and --export."
        )
    settings_lib.import_tensorflow()
    predictor = Predictor(values.run, values.cache_dir)
    if values.text:
        predict_texts(predictor, values.text)
    elif values.input:
        predict_file(predictor, values.input, values.output)
    elif values.glue_test:
        predict_glue_test(predictor, values.data, values.output, values.run)
    else:
        export(predictor, values.export)


if __name__ == "__main__":
    define_flags()
    settings_lib.start(main)
