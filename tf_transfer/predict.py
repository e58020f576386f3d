"""Uses a trained run: on a text, on a file, for GLUE's test set, or exported.

    python -m tf_transfer.predict --run=DIR --text="Rain." --text="It is wet."
    python -m tf_transfer.predict --run=DIR --input=FILE.tsv
    python -m tf_transfer.predict --run=DIR --glue_test --output=DIR2
    python -m tf_transfer.predict --run=DIR --export=DIR3
    python -m tf_transfer.predict --run=DIR --cs224n --output=DIR4

`--run` is a run directory (the folder that holds result.json). `--input` is a
tab-separated file without quoting whose header names the task's text columns,
such as `sentence1` and `sentence2`; a column `label` with the answer and one
`score` are added. For a run of `tf_transfer.tweets` it is a CSV or TSV with the
run's text column, prepared as the run's was, and the answers are CSV: every
column of the file, and these two behind them.
For a run of `tf_transfer.stacking` on entities, `--text` is a sentence whose
words are parted by blanks, and `--input` a file with a word a line, as CoNLL's:
the tag is added behind each word.
`--glue_test` writes the file that gluebenchmark.com takes.
`--export` writes a TensorFlow SavedModel that takes raw strings; who loads it
imports tensorflow_text first.
A run of `tf_transfer.multitask` has three tasks: `--task` says which one
answers. `--cs224n` writes the files that the CS224N project's graders take, for
dev and, where `--data` holds them, for test.
"""

import csv
import dataclasses
import io
import itertools
import json
import os

import numpy as np
from absl import flags

from tf_transfer.config import command_line
from tf_transfer.data import conll
from tf_transfer.data import cs224n
from tf_transfer.data import metrics
from tf_transfer.data import sources
from tf_transfer.data import tables
from tf_transfer.predictor import Predictor
from tf_transfer.utils.errors import UserError


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
        "task", "", "Of a run that has several: the one that answers."
    )
    flags.DEFINE_bool(
        "cs224n", False, "Write the CS224N project's submission files."
    )
    flags.DEFINE_string(
        "data",
        None,
        "Where --glue_test and --cs224n read. Unset: the run's own source.",
    )
    flags.DEFINE_string(
        "output",
        None,
        "Where to write. Unset: --text's and --input's answers go to the "
        "terminal, --glue_test's and --cs224n's files into the run directory.",
    )
    flags.DEFINE_string("export", None, "Folder to write a SavedModel into.")
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")


# === What the flags ask for ===


def predict_texts(predictor, texts, output=None):
    """Writes the answer for one text or pair, or each word's tag."""
    if predictor.reads_words:
        sentences = [text.split() for text in texts]
        if not all(sentences):
            raise UserError("--text: holds no words.")
        _write(
            output,
            [
                "\t".join(pair)
                for words, tags in zip(sentences, predictor.tags(sentences))
                for pair in zip(words, tags)
            ],
        )
        return
    wanted = len(predictor.task.texts)
    if len(texts) != wanted:
        raise UserError(
            f"--text: task {predictor.task.name} takes {wanted} of them, "
            f"found {len(texts)}."
        )
    columns = [[predictor.prepared(text)] for text in texts]
    examples = sources.Examples(np.arange(1), columns, None)
    [(word, score)] = predictor.answers(predictor.logits(examples))
    _write(output, [f"{word}\t{score:.4f}"])


def predict_file(predictor, path, output):
    """Adds `label` and `score` to every row of a file."""
    if not os.path.isfile(path):
        raise UserError(f"--input={path}: no such file.")
    if predictor.reads_words:
        _predict_words(predictor, path, output)
        return
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
        settings["encoding"],
        settings["clean"] == "basic",
    )
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


def _predict_words(predictor, path, output):
    """Adds a tag to every line with a word."""
    sentences, places = conll.read_words(path)
    tags = itertools.chain.from_iterable(predictor.tags(sentences))
    lines = sources.read_lines(path)
    for place, tag in zip(places, tags, strict=True):
        lines[place] += f" {tag}"
    _write(output, [*lines, ""])  # one stands behind each sentence


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


def predict_cs224n(predictor, data, output, run):
    """Writes the submission files of the CS224N project."""
    folder = data or predictor.settings.data
    source = cs224n.open_source(folder, predictor.settings.cache_folder)
    if set(predictor.tasks) != set(cs224n.SUBMISSIONS) or not isinstance(
        source, cs224n.Files
    ):
        raise UserError(
            "--cs224n: takes a run of tf_transfer.multitask, and its files in "
            f"--data; found {folder}."
        )
    for name, (start, _, _) in cs224n.SUBMISSIONS.items():
        predictor.choose(name)
        task = source.tasks[name]
        for split, word in (("dev", "dev"), (cs224n.HIDDEN, "test")):
            if word == "test" and not source.has(task, split):
                print(f"No {cs224n.file_name(task, split)}: left out.")
                continue
            rows = source.read(task, split)
            logits = predictor.logits(rows.examples)
            is_score = task.labels is None
            values = logits[:, 0] if is_score else metrics.decide(logits)
            path = os.path.join(output or run, f"{start}-{word}-output.csv")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _write(path, cs224n.submission(name, rows.names, values))
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

    from tf_transfer.models import text_model

    if predictor.reads_words:
        raise UserError(
            "--export: takes runs that label texts; this one labels words. "
            "Give --input for a file of them."
        )
    if os.path.exists(folder) and os.listdir(folder):
        raise UserError(f"--export={folder}: is not empty. Give a new folder.")
    module = text_model.TextModule(
        predictor.network,
        predictor.task.name,
        len(predictor.task.texts),
        predictor.settings.max_length,
    )
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
        bool(values.text),
        bool(values.input),
        values.glue_test,
        bool(values.export),
        values.cs224n,
    ]
    if sum(asked) != 1:
        raise UserError(
            "Give one of --text, --input, --glue_test, --cs224n and --export."
        )
    if values.export and values.output:
        raise UserError(
            f"--output={values.output}: --export={values.export} is where the "
            "SavedModel goes; leave --output out."
        )
    if values.data and not (values.glue_test or values.cs224n):
        raise UserError(
            f"--data={values.data}: is read by --glue_test and --cs224n alone; "
            "give a file of texts as --input."
        )
    command_line.import_tensorflow()
    predictor = Predictor(values.run, values.cache_dir)
    if values.cs224n:
        predict_cs224n(predictor, values.data, values.output, values.run)
        return
    predictor.choose(values.task)
    if values.text:
        predict_texts(predictor, values.text, values.output)
    elif values.input:
        predict_file(predictor, values.input, values.output)
    elif values.glue_test:
        predict_glue_test(predictor, values.data, values.output, values.run)
    else:
        export(predictor, values.export)


if __name__ == "__main__":
    define_flags()
    command_line.start(main)
