"""Answers with a trained run: texts and tables; or exports it.

    python -m tf_transfer.predict --run=DIR --text="Rain." --text="It is wet."
    python -m tf_transfer.predict --run=DIR --input=FILE.tsv --output=FILE.csv
    python -m tf_transfer.predict --run=DIR --export=DIR2 --format=hugging_face

`--run` is a run directory (the folder that holds result.json), or the folder of
a search, whose answer then predicts.

`--input` is a table with the text columns of the task: CSV, TSV, JSON lines,
Parquet or Excel. The texts of a table of `tf_transfer.tweets` are prepared as
the run's were. The answers are the columns of the table and, behind them,
`predicted_label` and its probability `predicted_score`; of a task on scores,
`predicted_score`; of entities, `predicted_tags`. They are CSV, or JSON lines if
the file extension of `--output` says so. A row with an empty text has an empty
answer, or is left out with `--skip_bad_rows`.

Entities: the table has a column with lists of words, or it is a file with one
word per line, as CoNLL's. The answers are JSON lines. `--text` is a sentence
whose words are separated by blanks.

`--calibrate` fits the probabilities to the run's validation texts; exports have
the fitted temperature, too.

`--min_confidence=0.9` leaves `predicted_label` empty where its probability,
after `--calibrate`, is below 0.9; `predicted_score` stays. Scores and errors of
`--label_column` are then those of the answered rows.

`--export` writes a TensorFlow SavedModel that takes raw strings and returns
labels; import tensorflow_text before you load it. `--format=hugging_face`
writes a folder for transformers, `--format=keras_preset` one for keras-hub; a
model card describes the training, the scores, the size and the speed. For a run
with `--keyword_column` or `--clean`, the card has the Python that prepares
texts. Of the TF-IDF baseline, terms and weights are written, as JSON and
NumPy's arrays.

A run of `tf_transfer.multitask` has several tasks; `--task` selects one.
"""

import os
import sys
from collections.abc import Sequence

import numpy as np
from absl import flags

from tf_transfer import experiment
from tf_transfer.config import command_line
from tf_transfer.data import file_formats, table_files
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.runs import export_folder, input_texts
from tf_transfer.runs.trained import choose_task, Predictor
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError

ASKED = ("text", "input", "export")


def define_flags() -> None:
    """Defines this module's flags."""
    flags.DEFINE_string(
        "run", None, "The run directory, or the folder of a search."
    )
    flags.DEFINE_multi_string(
        "text", [], "A text. Give it twice for a task on pairs."
    )
    flags.DEFINE_string("input", None, "A table of texts.")
    flags.DEFINE_string(
        "encoding", "", "Of --input, a CSV or TSV. Unset: the run's."
    )
    flags.DEFINE_bool(
        "skip_bad_rows",
        False,
        "Of --input: leave out rows that cannot be read, or whose text is "
        "empty. Unset: a row with an empty text has an empty answer.",
    )
    flags.DEFINE_string(
        "label_column",
        "",
        "Of --input: column of the labels. Scores and errors are printed and, "
        "with --output, written to OUTPUT.errors.json. A file with one word "
        "per line has its tags in the last column, whatever name is given.",
    )
    flags.DEFINE_bool(
        "probabilities",
        False,
        "Add a column for the probability of each label.",
    )
    flags.DEFINE_bool(
        "calibrate",
        False,
        "Divide logits by the temperature that fits the run's validation "
        "labels best, so that probabilities are more accurate.",
    )
    flags.DEFINE_float(
        "min_confidence",
        None,
        "Least probability of an answer, such as 0.9: `predicted_label` is "
        "empty below it. With --calibrate, the calibrated probability.",
        0,
        1,
    )
    flags.DEFINE_string(
        "task", "", "Of a run that has several: the one that answers."
    )
    flags.DEFINE_string(
        "output",
        None,
        "Where to write: a .csv or .jsonl file. Unset: the terminal.",
    )
    flags.DEFINE_string("export", None, "Folder to write the model into.")
    flags.DEFINE_enum(
        "format",
        None,
        export_folder.FORMATS,
        "Of --export: TensorFlow's SavedModel, which takes raw strings; a "
        "folder that transformers loads; or a preset of keras-hub's. Unset: "
        "`saved_model`, and of the TF-IDF baseline its terms and weights.",
    )
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")
    flags.DEFINE_string(
        "experiment", "", "Of a run of your own experiment: its module."
    )


# === Writing ===


def choose_extension(task: Task, path: str, output: str | None) -> str:
    """The file extension of the answers: `.csv` or one of JSON lines.

    Args:
        task: The task that answers.
        path: The file that is read; it decides without `output`.
        output: The file of the answers; None for the terminal.

    Raises:
        UserError: The answers have no such format.
    """
    allowed: tuple[str, ...] = file_formats.JSON_LINES
    if not task.is_tagging:  # CSV has no lists
        allowed = (".csv", *allowed)
    extension = file_formats.extension_of(path)
    if output:
        extension = os.path.splitext(output)[1].lower()
    if extension in allowed:
        return extension
    if output:
        raise UserError(
            f"--output={output}: the answers are written as "
            f"{', '.join(allowed)}. Give such a file."
        )
    return allowed[0]


def write_answers(
    predictor: Predictor,
    texts: input_texts.Texts,
    output: str | None,
    extension: str,
    probabilities: bool = False,
    min_confidence: float = 0.0,
) -> tuple[Examples | Sentences, np.ndarray]:
    """Writes a table with the answers behind its columns.

    Args:
        predictor: Answers.
        texts: The table.
        output: The file of the answers; None for the terminal.
        extension: Decides the format.
        probabilities: Whether each label has a column.
        min_confidence: Least probability of a label that is written.

    Returns:
        The rows that have an answer, and their logits, float32 [examples or
        words, units].

    Raises:
        UserError: The answers would replace a column.
    """
    rows, logits = texts.rows, predictor.logits(texts.rows)
    answers = predictor.describe_answers(rows, logits, probabilities)
    answered = np.arange(len(rows))
    if min_confidence:
        scores = np.array([score for _, score in predictor.answers(logits)])
        answered = np.flatnonzero(scores >= min_confidence)
        answers["predicted_label"] = [
            label if score >= min_confidence else None
            for label, score in zip(answers["predicted_label"], scores)
        ]
        print(
            f"--min_confidence={min_confidence:g}: {len(answered):,} of "
            f"{formatting.count(len(rows), 'row')} answered, "
            f"{len(rows) - len(answered):,} left empty.",
            file=sys.stderr,
        )
    for name in answers:
        if name in texts.columns:
            raise UserError(
                f"{texts.source}: has a column '{name}' already, which the "
                "answers would replace. Rename it."
            )
    spread = {name: texts.spread(name, answers[name]) for name in answers}
    content = table_files.write_table({**texts.columns, **spread}, extension)
    if output is None:
        print(content.decode(), end="")
    else:
        files.write_atomically(output, content)
        count = formatting.count(len(texts.rows), "row")
        print(f"{count} with answers: {output}")
    if len(answered) == len(rows):
        return rows, logits
    return rows.take(answered), logits[answered]


def write_scores(
    task: Task,
    rows: Examples | Sentences,
    logits: np.ndarray,
    output: str | None,
) -> None:
    """Prints the scores of answers with labels, and describes the errors.

    Args:
        task: The task that answers.
        rows: Has the labels.
        logits: The logits of its rows.
        output: The file of the answers; the errors get one beside it.
    """
    from tf_transfer.data import error_analysis, metrics

    labels, starts = rows.targets(task)
    scores = metrics.measure_task(task, labels, logits, starts)
    described = error_analysis.describe_errors(task, rows, logits)
    listed = ", ".join(f"{n} {score:#.4g}" for n, score in scores.items())
    print(
        f"{len(rows):,} rows: {listed}\n{error_analysis.summarize(described)}",
        file=sys.stderr,
    )
    if output:
        path = f"{output}.errors.json"
        files.write_json(path, {"scores": scores, **described})
        print(f"Errors are in {path}", file=sys.stderr)


# === Flags ===


def _check_flags(values: flags.FlagValues) -> None:
    """Raises `UserError` for wrong flags, before a model is loaded."""
    if not values.run:
        raise UserError("--run: give the folder of a finished run.")
    if sum(bool(values[name].value) for name in ASKED) != 1:
        raise UserError("Give one of --text, --input and --export.")
    if values.export and values.output:
        raise UserError(
            f"--output={values.output}: --export={values.export} is where the "
            "model goes; leave --output out."
        )
    if values.label_column and not values.input:
        raise UserError(
            f"--label_column={values.label_column}: is a column of --input. "
            "Give the file."
        )
    if values.skip_bad_rows and not values.input:
        raise UserError("--skip_bad_rows: is of --input. Give the file.")
    if values.min_confidence and values.export:
        raise UserError(
            f"--min_confidence={values.min_confidence:g}: is for answers, and "
            "an export has every probability. Leave it out."
        )
    # Bytes of the command line that were not decoded.
    if any("\ud800" <= c <= "\udfff" for text in values.text for c in text):
        raise UserError(
            "--text: is not in the encoding of the terminal, UTF-8. Give a "
            "file as --input, or another text."
        )
    path, parent = values.output or "", os.path.dirname(values.output or "")
    if os.path.isdir(path):
        raise UserError(f"--output={path}: is a folder. Give a file.")
    if not os.path.isdir(parent or "."):
        raise UserError(
            f"--output={path}: there is no folder {parent}. Make it first."
        )
    if os.path.isfile(values.export or ""):
        raise UserError(f"--export={values.export}: is a file. Give a folder.")


def _calibrate(predictor: Predictor) -> None:
    """Calibrates, and prints what that changes."""
    from tf_transfer.data import metrics

    predictor.calibrate()
    temperature = predictor.temperature
    labels, logits = predictor.read_validation()
    before, after = (
        metrics.measure_calibration(labels, x)["expected_error"]
        for x in (logits, logits / temperature)
    )
    print(
        f"--calibrate: temperature {temperature:.3f}. Calibration error "
        f"{before:.4f} -> {after:.4f} on the {len(labels):,} validation texts "
        "that chose it.",
        file=sys.stderr,
    )


def main(argv: Sequence[str] = ()) -> None:
    """Reads the flags and predicts."""
    command_line.refuse_words(argv)
    values = flags.FLAGS
    _check_flags(values)
    run = experiment.open_run(values.run, values.cache_dir, values.experiment)
    task = choose_task(run.experiment.data.tasks, values.task)
    if values.min_confidence and task.kind not in ("classes", "labels"):
        raise UserError(
            f"--min_confidence={values.min_confidence:g}: is for classes and "
            f"labels, and {task.name} has other answers. Leave it out."
        )
    if values.export:
        export_folder.check(run.experiment, task, values.export, values.format)
    settings, path = run.experiment.settings, values.input or ""
    extension = choose_extension(task, path, values.output)
    texts = None
    if values.text:
        texts = input_texts.read_texts(task, settings, values.text)
    elif path:
        texts = input_texts.read_file(
            task,
            settings,
            path,
            values.encoding,
            values.label_column,
            values.skip_bad_rows,
        )
    if not settings.is_sparse:
        command_line.import_tensorflow()
    predictor = run.predictor(values.task)
    if values.calibrate:
        _calibrate(predictor)
    if texts is None:
        export_folder.export(predictor, values.export, values.format)
        return
    rows, logits = write_answers(
        predictor,
        texts,
        values.output,
        extension,
        values.probabilities,
        values.min_confidence or 0.0,
    )
    if values.label_column and len(rows):
        write_scores(task, rows, logits, values.output)


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
