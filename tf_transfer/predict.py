"""Answers with a trained run: texts, files; or exports it.

    python -m tf_transfer.predict --run=DIR --text="Rain." --text="It is wet."
    python -m tf_transfer.predict --run=DIR --input=FILE.tsv
    python -m tf_transfer.predict --run=DIR --export=DIR3 --format=hugging_face
    python -m tf_transfer.predict --run=DIR --cs224n --output=DIR4

`--run` is a run directory (the folder that holds result.json).

`--input` is a table with the text columns of the task. Its answers depend on
the run:

- Texts of your own: CSV, TSV, JSON lines, Parquet or Excel. `--output`, a CSV,
  TSV or JSON lines, has every column of the input and the answers behind them;
  `--probabilities` adds a column for each label. Texts of `tf_transfer.tweets`
  are prepared as the run's were.
- Any other task on texts: a tab-separated file without quoting. The answers are
  its text columns, such as `sentence1` and `sentence2`, `label` and `score`.
  JSON lines and Parquet are answered as those of a task of your own.
- Entities: a file with one word per line, as CoNLL's; the tag is added behind
  each word. `--text` is a sentence whose words are separated by blanks.

`--calibrate` fits the probabilities to the run's validation texts; exports have
the fitted temperature, too.

`--export` writes a
TensorFlow SavedModel that takes raw strings and returns labels; import
tensorflow_text before you load it. `--format=hugging_face` writes a folder for
transformers, `--format=keras_preset` one for keras-hub; a model card describes
the training, the scores, the size and the speed.

A run of `tf_transfer.multitask` has three tasks; `--task` selects one.
`--cs224n` writes the files for the CS224N project's graders, for dev and, if
`--data` has its file, for test.
"""

import math
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from tf_transfer import experiment
from tf_transfer.config import command_line
from tf_transfer.data import cs224n, tables
from tf_transfer.trained import columns_to_read, Predictor
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError

ASKED = ("text", "input", "cs224n", "export")
FORMATS = ("saved_model", "hugging_face", "keras_preset")
SPARE = 16e6  # bytes of an export besides its weights
LOGITS = {
    "classes": "one unit: sigmoid of the second label; several: softmax",
    "labels": "a sigmoid of each",
    "score": "the score itself",
    "entities": 'softmax over the tags of each word; "" is no word',
}


def define_flags() -> None:
    """Defines this module's flags."""
    flags.DEFINE_string("run", None, "The run directory.")
    flags.DEFINE_multi_string(
        "text", [], "A text. Give it twice for a task on pairs."
    )
    flags.DEFINE_string("input", None, "A file of texts.")
    flags.DEFINE_string(
        "encoding", "", "Of --input, a CSV or TSV. Unset: the run's."
    )
    flags.DEFINE_string(
        "label_column",
        "",
        "Of --input: column of the labels. Scores and errors are printed and, "
        "with --output, written to OUTPUT.errors.json. A file with one word "
        "per line has its tags in the last column, whatever name is given.",
    )
    flags.DEFINE_bool(
        "probabilities", False, "Of --input: add a column for each label."
    )
    flags.DEFINE_bool(
        "raw",
        False,
        "Keep cells of CSV and TSV that a spreadsheet takes for formulas. "
        "Unset: an apostrophe is put before them.",
    )
    flags.DEFINE_bool(
        "calibrate",
        False,
        "Divide logits by the temperature that fits the run's validation "
        "labels best, so that probabilities are more accurate.",
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
        "Where --cs224n reads. Unset: the run's own source.",
    )
    flags.DEFINE_string(
        "output",
        None,
        "Where to write. Unset: --text's and --input's answers go to the "
        "terminal, --cs224n's files into the run directory.",
    )
    flags.DEFINE_string("export", None, "Folder to write the model into.")
    flags.DEFINE_enum(
        "format",
        "saved_model",
        FORMATS,
        "Of --export: TensorFlow's SavedModel, which takes raw strings; a "
        "folder that transformers loads; or a preset of keras-hub's.",
    )
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")
    flags.DEFINE_string(
        "experiment", "", "Of a run of your own experiment: its module."
    )


# === What the flags ask for ===


def predict_texts(
    predictor: Predictor, texts: Sequence[str], output: str | None = None
) -> None:
    """Writes the answer for one text or pair, or the tag of each word."""
    task = predictor.task
    if task.is_tagging:
        sentences = [text.split() for text in texts]
        if not all(sentences):
            raise UserError("--text: holds no words.")
        tags = predictor.tags(sentences)
        lines = [
            f"{word}\t{tag}"
            for pairs in map(zip, sentences, tags)
            for word, tag in pairs
        ]
    else:
        if len(texts) != len(task.texts):
            raise UserError(
                f"--text: task {task.name} takes {len(task.texts)} of them, "
                f"and {len(texts)} are given."
            )
        columns = [[predictor.prepare_text(text)] for text in texts]
        [(label, score)] = predictor.answer(*columns)
        lines = [f"{label}\t{formatting.decimal(score, 4)}"]
    _write(output, _join(lines))


def _check_table(run: Any, values: Any) -> None:
    """Raises `UserError`, before TensorFlow loads, for a wrong --input."""
    [task, *others], settings = run.data.tasks.values(), run.settings
    if values.input and settings.own_data and not (others or task.is_tagging):
        tables.read_table(
            values.input,
            columns_to_read(task, settings, values.label_column),
            values.encoding or settings.encoding,
        )


def predict_file(
    predictor: Predictor,
    path: str,
    output: str | None = None,
    probabilities: bool = False,
    encoding: str = "",
    label_column: str = "",
    raw: bool = False,
) -> None:
    """Adds the answer to every row of a file.

    Args:
        predictor: Answers.
        path: The file.
        output: The file of the answers; None for the terminal.
        probabilities: Whether each label has a column.
        encoding: The encoding of a CSV or TSV; empty for the run's.
        label_column: The column of the labels to score by; empty for none.
        raw: Whether cells that a spreadsheet takes for formulas stay.

    Raises:
        UserError: Naming the file, and the line or the column.
    """
    if label_column in predictor.task.texts:
        raise UserError(f"--label_column={label_column}: is one of the texts.")
    content, rows, logits = predictor.answer_file(
        path, output or "", encoding, probabilities, label_column, raw
    )
    _write(output, content)
    if label_column:
        _score(predictor, rows, logits, output)


def _score(
    predictor: Predictor, rows: Any, logits: np.ndarray, output: str | None
) -> None:
    """Scores the answers of a file with labels, and describes the errors."""
    from tf_transfer.data import errors, metrics
    from tf_transfer.reports import errors as lines

    task = predictor.task
    labels, starts = rows.targets(task)
    scores = metrics.measure_task(task, labels, logits, starts)
    described = errors.describe(task, rows, logits)
    listed = ", ".join(
        f"{n} {formatting.decimal(v, 4)}" for n, v in scores.items()
    )
    print(
        f"{len(rows):,} rows: {listed}\n{lines.summarize(described)}",
        file=sys.stderr,
    )
    if output:
        path = f"{output}.errors.json"
        files.write_json(path, {"scores": scores, **described})
        print(f"Errors are in {path}", file=sys.stderr)


def predict_cs224n(predictor: Predictor, data: str, folder: str) -> None:
    """Writes the submission files of the CS224N project.

    Args:
        predictor: Answers.
        data: The folder of the project's files; "" for the run's own.
        folder: The folder of the submissions.
    """
    from tf_transfer.data import metrics

    settings = predictor.experiment.settings
    data = data or settings.data
    _, identity = cs224n.open_all(data, settings.cache_folder)
    if not (
        identity.startswith("cs224n ")
        and set(predictor.tasks) == set(cs224n.SUBMISSIONS)
    ):
        raise UserError(
            "--cs224n: takes a run of tf_transfer.multitask, and its files in "
            f"--data, which is {data}."
        )
    for name, (start, *_) in cs224n.SUBMISSIONS.items():
        task = cs224n.TASKS[name]
        predictor.choose(name)
        for split, word in (("dev", "dev"), (cs224n.HIDDEN, "test")):
            path = os.path.join(data, cs224n.file_name(task, split))
            if word == "test" and not os.path.isfile(path):
                print(f"No {os.path.basename(path)}: left out.")
                continue
            examples, names = cs224n.read(path, task, split)
            logits = predictor.logits(examples)
            values = metrics.decide(logits) if task.labels else logits[:, 0]
            lines = cs224n.submission(name, names, values.tolist())
            _write_into(folder, f"{start}-{word}-output.csv", lines)


def _write(path: str | None, content: bytes) -> None:
    if path is None:
        print(content.decode(), end="")
    else:
        files.write_atomically(path, content)


def _join(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write_into(folder: str, name: str, lines: Sequence[str]) -> None:
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    _write(path, _join(lines))
    print(f"Written to {path}")


def export(
    predictor: Predictor,
    folder: str,
    form: str = "saved_model",
    run: str = "",
) -> None:
    """Writes the trained model, and a model card.

    Args:
        predictor: Has the model.
        folder: The folder to write; it must be empty or new.
        form: One of `FORMATS`: a SavedModel from raw strings to labels; a
            folder for transformers; or a preset for keras-hub.
        run: The run directory, for the card; empty for no card.

    Raises:
        UserError: The folder is not empty, the form has no such model, or the
            disk is full. Then nothing is left in the folder.
    """
    from tf_transfer.models import exports, serving
    from tf_transfer.models.methods import added
    from tf_transfer.reports import model_card

    task, network = predictor.task, predictor.network
    is_saved_model = form == "saved_model"
    problems = {
        f"--export={folder}: is not empty. Give a new folder.": (
            os.path.exists(folder) and os.listdir(folder)
        ),
        f"--format={form}: is for texts, and this run labels words.": (
            task.is_tagging and not is_saved_model
        ),
    }
    _raise_first(problems)
    with files.staged(folder) as stage, added.merged(network.encoder):
        # Some libraries crash where the disk is full, so try before.
        with tempfile.TemporaryFile(dir=stage) as file:
            sizes = (math.prod(weight.shape) for weight in network.weights)
            try:
                size = int(4 * sum(sizes) + SPARE)
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:  # or the file system cannot
                files.raise_if_full(folder, error)
        model = predictor.text_model()
        functions = model.signatures() if is_saved_model or run else {}
        if is_saved_model:
            _save_model(predictor, model, functions, stage)
        else:
            getattr(exports, form)(
                network,
                task.name,
                stage,
                task.kind,
                predictor.labels,
                predictor.experiment.settings.max_length,
            )
        if run:
            size = sum(
                os.path.getsize(os.path.join(path, name))
                for path, _, names in os.walk(stage)
                for name in names
            )
            speed = model.measure_speed(functions["serving_default"])
            text = model_card.write_card(
                run, predictor, form, size, serving.TIMED_WORDS, speed
            )
            path = os.path.join(stage, "README.md")
            files.write_atomically(path, text.encode())
    print(f"Written to {folder}")


def _save_model(
    predictor: Predictor, model: Any, functions: dict[str, Any], folder: str
) -> None:
    import tensorflow as tf

    task = predictor.task
    tf.saved_model.save(model, folder, functions)
    about = {
        "task": task.name,
        "texts": task.texts,
        "labels": task.labels,
        "logits": LOGITS[task.kind],
        "temperature": predictor.temperature,
    }
    files.write_json(os.path.join(folder, "task.json"), about)


# === Flags ===


def _check_flags(values: flags.FlagValues) -> None:
    """Raises `UserError` for wrong flags, before a model is loaded."""
    asked = [name for name in ASKED if values[name].value]
    into_folder = values.cs224n or values.export
    read, written = values.input or "", values.output or values.export or ""
    where = f"--{'export' if values.export else 'output'}={written}"
    parent = os.path.dirname(written) or "."
    problems = {
        "--run: give the folder of a finished run.": not values.run,
        "Give one of --text, --input, --cs224n and --export.": (
            len(asked) != 1
        ),
        f"--output={values.output}: --export={values.export} is where the "
        "model goes; leave --output out.": values.export and values.output,
        f"--data={values.data}: is read by --cs224n alone; "
        "give a file of texts as --input.": values.data and not values.cs224n,
        f"--label_column={values.label_column}: is a column of --input. Give "
        "the file.": values.label_column and not values.input,
        "--calibrate: does not apply to --cs224n. Leave it out.": (
            values.cs224n and values.calibrate
        ),
        "--text: is not in the encoding of the terminal, UTF-8. Give a file as "
        "--input, or another text.": not _is_unicode(values.text or ()),
        f"--input={read}: is a folder. Give a file.": os.path.isdir(read),
        f"--input={read}: no such file.": read and not os.path.isfile(read),
        f"{where}: is a file. Give a folder.": into_folder
        and os.path.isfile(written),
        f"{where}: is a folder. Give a file.": not into_folder
        and os.path.isdir(written),
        f"{where}: there is no folder {parent}. Make it first.": (
            not into_folder and not os.path.isdir(parent)
        ),
    }
    _raise_first(problems)


def _is_unicode(texts: Sequence[str]) -> bool:
    """Whether the command line's bytes were decoded."""
    return not any("\ud800" <= c <= "\udfff" for text in texts for c in text)


def _raise_first(problems: Mapping[str, Any]) -> None:
    """Raises `UserError` with the first message whose condition holds."""
    for problem, is_there in problems.items():
        if is_there:
            raise UserError(problem)


def _calibrate(predictor: Predictor) -> None:
    """Calibrates, and prints what that changes."""
    from tf_transfer.data import calibration

    predictor.calibrate()
    temperature = predictor.temperature
    kind, labels, logits = predictor.read_stored("test", "validation")
    before = calibration.measure(labels, temperature * logits)
    after = calibration.measure(labels, logits)
    print(
        f"--calibrate: temperature {temperature:.3f}. Calibration error "
        f"{before['expected_error']:.4f} -> {after['expected_error']:.4f}, "
        f"Brier score {before['brier']:.4f} -> {after['brier']:.4f} on "
        f"{len(labels):,} {kind} texts"
        f"{', which chose it' if kind == 'validation' else ''}.",
        file=sys.stderr,
    )


def main() -> None:
    """Reads the flags and predicts."""
    values = flags.FLAGS
    _check_flags(values)
    run = experiment.open_run(values.run, values.cache_dir, values.experiment)
    _check_table(run.experiment, values)
    command_line.import_tensorflow()
    predictor = run.predictor()
    if not values.cs224n:  # which asks every task
        predictor.choose(values.task)
    if values.calibrate:
        _calibrate(predictor)
    folder = values.output or values.run
    if values.cs224n:
        predict_cs224n(predictor, values.data, folder)
    elif values.text:
        predict_texts(predictor, values.text, values.output)
    elif values.input:
        predict_file(
            predictor,
            values.input,
            values.output,
            values.probabilities,
            values.encoding,
            values.label_column,
            values.raw,
        )
    else:
        export(predictor, values.export, values.format, values.run)


if __name__ == "__main__":
    define_flags()
    command_line.start(main)
