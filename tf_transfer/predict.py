"""Predicts texts and tables with a trained run, or exports it.

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

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Sequence

import numpy as np

from tf_transfer import experiment
from tf_transfer.config import command_line
from tf_transfer.config.fields import Fields, json_setting, setting
from tf_transfer.data import file_formats, table_files
from tf_transfer.data.columns import Cell
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.runs import export_folder, input_texts
from tf_transfer.runs.trained import choose_task, Predictor
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

ACTIONS = ("text", "input", "export")


@dataclasses.dataclass(frozen=True)
class Settings(Fields):
    """The settings of this command."""

    run: str = setting("", "The run directory, or the folder of a search.")
    text: tuple[str, ...] = setting(
        (), "A text. Give it twice for a task on pairs."
    )
    input: str = setting("", "A table of texts.")
    encoding: str = setting(
        "", "Encoding of --input, a CSV or TSV. Unset: the run's."
    )
    skip_bad_rows: bool = setting(
        False,
        "Leave out rows of --input that cannot be read, or whose text is "
        "empty. Unset: a row with an empty text has an empty answer.",
    )
    label_column: str = setting(
        "",
        "The column of the labels in --input. Scores and errors are printed "
        "and, with --output, written to OUTPUT.errors.json. A file with one "
        "word per line has its tags in the last column, whatever name is "
        "given.",
    )
    probabilities: bool = setting(
        False, "Add a column for the probability of each label."
    )
    calibrate: bool = setting(
        False,
        "Divide logits by the temperature that fits the run's validation "
        "labels best, so that probabilities are more accurate.",
    )
    min_confidence: float = setting(
        None,
        "Least probability of an answer, such as 0.9: `predicted_label` is "
        "empty below it. With --calibrate, the calibrated probability.",
        at_least=0,
        at_most=1,
    )
    task: str = setting("", "The task that answers, of a run that has several.")
    output: str = setting(
        "", "Where to write: a .csv or .jsonl file. Unset: the terminal."
    )
    export: str = setting("", "Folder to write the model into.")
    format: str = setting(
        None,
        "Format of --export: TensorFlow's SavedModel, which takes raw "
        "strings; a folder that transformers loads; or a preset of "
        "keras-hub's. Unset: `saved_model`, and for the TF-IDF baseline its "
        "terms and weights.",
        choices=export_folder.FORMATS,
    )
    cache_dir: str = setting("", "Folder for what pip fetches.")
    experiment: str = setting(
        "", "The module of your own experiment, for one of its runs."
    )
    json: bool = json_setting()

    def check_settings(self) -> None:
        """Raises `UserError` for wrong flags, before a model is loaded."""
        if not self.run:
            raise UserError("--run: give the folder of a finished run.")
        if sum(bool(getattr(self, name)) for name in ACTIONS) != 1:
            raise UserError("Give one of --text, --input and --export.")
        if self.export and self.output:
            raise UserError(
                f"--output={self.output}: --export={self.export} is where the "
                "model goes; leave --output out."
            )
        if self.label_column and not self.input:
            raise UserError(
                f"--label_column={self.label_column}: is a column of --input. "
                "Give the file."
            )
        if self.skip_bad_rows and not self.input:
            raise UserError("--skip_bad_rows: is of --input. Give the file.")
        if self.min_confidence and self.export:
            raise UserError(
                f"--min_confidence={self.min_confidence:g}: is for answers, "
                "and an export has every probability. Leave it out."
            )
        # Bytes of the command line that were not decoded.
        if any("\ud800" <= c <= "\udfff" for text in self.text for c in text):
            raise UserError(
                "--text: is not in the encoding of the terminal, UTF-8. Give a "
                "file as --input, or another text."
            )
        parent = os.path.dirname(self.output)
        if os.path.isdir(self.output):
            raise UserError(
                f"--output={self.output}: is a folder. Give a file."
            )
        if not os.path.isdir(parent or "."):
            raise UserError(
                f"--output={self.output}: there is no folder {parent}. Make "
                "it first."
            )
        if os.path.isfile(self.export):
            raise UserError(
                f"--export={self.export}: is a file. Give a folder."
            )


# === Writing ===


def choose_extension(task: Task, path: str, output: str = "") -> str:
    """The file extension of the answers: `.csv` or one of JSON lines.

    Args:
        task: The task that answers.
        path: The file that is read; it decides without `output`.
        output: The file of the answers; "" for the terminal.

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


@dataclasses.dataclass(frozen=True)
class Answers:
    """A table with the answers after its columns.

    Attributes:
        columns: Those of the table, and those of the answers.
        rows: The rows that have an answer.
        logits: Their logits, float32 [examples or words, units].
        count: Number of rows of the table that were read.
    """

    columns: dict[str, Sequence[Cell]]
    rows: Examples | Sentences
    logits: np.ndarray
    count: int


def answer_texts(
    predictor: Predictor,
    texts: input_texts.Texts,
    probabilities: bool = False,
    min_confidence: float = 0.0,
) -> Answers:
    """Answers the texts of a table.

    Args:
        predictor: Answers.
        texts: The table.
        probabilities: Whether each label has a column.
        min_confidence: Least probability of a label that is written.

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
    columns = {**texts.columns, **spread}
    if len(answered) == len(rows):
        return Answers(columns, rows, logits, len(rows))
    return Answers(columns, rows.take(answered), logits[answered], len(rows))


def write_answers(answers: Answers, output: str, extension: str) -> None:
    """Writes a table with answers to a file, or to the terminal.

    Args:
        answers: See `answer_texts`.
        output: The file; "" for the terminal.
        extension: Decides the format.
    """
    content = table_files.write_table(answers.columns, extension)
    if not output:
        print(content.decode(), end="")
        return
    files.write_atomically(output, content)
    count = formatting.count(answers.count, "row")
    print(f"{count} with answers: {output}")


def write_scores(
    task: Task,
    rows: Examples | Sentences,
    logits: np.ndarray,
    output: str,
) -> dict[str, float]:
    """Prints the scores of answers with labels, and describes the errors.

    Args:
        task: The task that answers.
        rows: Has the labels.
        logits: The logits of its rows.
        output: The file of the answers; the errors get one next to it.

    Returns:
        The scores, by metric.
    """
    from tf_transfer.data import error_analysis, metrics

    labels, starts = rows.targets(task)
    scores = metrics.measure_task(task, labels, logits, starts)
    described = error_analysis.describe_errors(task, rows, logits)
    listed = ", ".join(f"{n} {score:#.4g}" for n, score in scores.items())
    print(
        f"{formatting.count(len(rows), 'row')}: {listed}\n"
        f"{error_analysis.summarize(described)}",
        file=sys.stderr,
    )
    if output:
        path = f"{output}.errors.json"
        files.write_json(path, {"scores": scores, **described})
        print(f"Errors are in {path}", file=sys.stderr)
    return scores


# === The command ===


def _calibrate(predictor: Predictor) -> None:
    """Calibrates, and prints the calibration error before and after."""
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
    settings = command_line.from_flags(Settings).resolve()
    command_line.answer(functools.partial(_predict, settings), settings.json)


def _predict(settings: Settings) -> Record:
    """Predicts, or exports; returns the answer of `--json`."""
    run = experiment.open_run(
        settings.run, settings.cache_dir, settings.experiment
    )
    task = choose_task(run.experiment.data.tasks, settings.task)
    if settings.min_confidence and task.kind not in ("classes", "labels"):
        raise UserError(
            f"--min_confidence={settings.min_confidence:g}: is for classes and "
            f"labels, and {task.name} has other answers. Leave it out."
        )
    if settings.export:
        export_folder.check(
            run.experiment, task, settings.export, settings.format
        )
    trained = run.experiment.settings
    extension = choose_extension(task, settings.input, settings.output)
    texts = None
    if settings.text:
        texts = input_texts.read_texts(task, trained, settings.text)
    elif settings.input:
        texts = input_texts.read_file(
            task,
            trained,
            settings.input,
            settings.encoding,
            settings.label_column,
            settings.skip_bad_rows,
        )
    if not trained.is_sparse:
        command_line.import_tensorflow()
    predictor = run.predictor(settings.task)
    if settings.calibrate:
        _calibrate(predictor)
    if texts is None:
        export_folder.export(predictor, settings.export, settings.format)
        return {"task": task.name, "export": settings.export}
    answers = answer_texts(
        predictor,
        texts,
        settings.probabilities,
        settings.min_confidence or 0.0,
    )
    record: Record = {"task": task.name}
    if settings.output or not settings.json:
        write_answers(answers, settings.output, extension)
        record["output"] = settings.output
    else:
        lines = table_files.write_table(answers.columns, ".jsonl")
        record["answers"] = [*map(json.loads, lines.splitlines())]
    if settings.label_column and len(answers.rows):
        record["scores"] = write_scores(
            task, answers.rows, answers.logits, settings.output
        )
    return record


if __name__ == "__main__":
    command_line.command(main, Settings)
