"""The folder that an export writes: the trained model, and its model card."""

import math
import os
import re
import tempfile

from tf_transfer.data.task import Task
from tf_transfer.runs import model_card
from tf_transfer.runs.run_model import RunModel
from tf_transfer.runs.task_settings import RunSettings
from tf_transfer.runs.trained import (
    BaselinePredictor,
    NetworkPredictor,
    Predictor,
)
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

FORMATS = ("saved_model", "hugging_face", "keras_preset")
PATTERNS = re.compile(r"[*?\[\\]")  # what TensorFlow matches files by
SPARE = 16e6  # bytes of an export besides its weights


def check(
    experiment: RunModel[RunSettings], task: Task, folder: str, form: str | None
) -> str:
    """Refuses what cannot be exported, before anything is loaded.

    Args:
        experiment: That of the run.
        task: The task that answers.
        folder: The folder to write; it must be empty or new.
        form: See `export`.

    Returns:
        The form.

    Raises:
        UserError: The folder is not empty, or the form has no such model.
    """
    settings = experiment.settings
    if os.path.exists(folder) and os.listdir(folder):
        raise UserError(f"--export={folder}: is not empty. Give a new folder.")
    if form and settings.is_sparse:
        raise UserError(
            f"--format={form}: is for encoders, and a baseline has its own. "
            "Leave it out."
        )
    form = form or "saved_model"
    if form != "saved_model":
        _check_other_library(experiment, task, form)
    path = os.path.abspath(folder)
    is_loaded_by_pattern = form == "saved_model" and not settings.is_sparse
    if is_loaded_by_pattern and (found := PATTERNS.search(path)):
        raise UserError(
            f"--export={folder}: its path ({path}) has a {found[0]}, which "
            "TensorFlow takes for a pattern when it loads a SavedModel. Give a "
            "folder without it."
        )
    return form


def _check_other_library(
    experiment: RunModel[RunSettings], task: Task, form: str
) -> None:
    """Raises `UserError` for what a form of another library does not read."""
    settings, probe = experiment.settings, experiment.data.fitted_probe
    instead = "Give --format=saved_model"
    if task.is_tagging:
        raise UserError(
            f"--format={form}: is for texts, and this run labels words. "
            f"{instead}."
        )
    if settings.long_texts != "head":
        raise UserError(
            f"--format={form}: reads the beginnings of long texts alone, and "
            f"this run has --long_texts={settings.long_texts}. {instead}."
        )
    if probe and probe["words"]:
        raise UserError(
            f"--format={form}: reads states alone, and this probe reads words, "
            f"too. {instead}, or fit the probe with --words=false."
        )
    if probe and (probe["pair_features"] or probe["pooling"] == "cls_state"):
        states = probe["pair_features"] or "[CLS] without the pooler"
        raise UserError(
            f"--format={form}: other libraries have no head on what this probe "
            f"reads ({states}). {instead}."
        )
    reads_means = experiment.pooling_of(task) in model_card.MEANS
    if probe:
        reads_means = probe["pooling"] in model_card.MEANS
    if reads_means and (form != "hugging_face" or len(task.texts) == 2):
        raise UserError(
            f"--format={form}: this run reads means of all tokens, which only "
            f"--format=hugging_face has, for single texts. {instead}."
        )


def export(predictor: Predictor, folder: str, form: str | None = None) -> None:
    """Writes the trained model, and a model card.

    Args:
        predictor: Has the model.
        folder: The folder to write; it must be empty or new.
        form: One of `FORMATS`: a SavedModel from raw strings to labels; a
            folder for transformers; or a preset for keras-hub. None for the
            first, and for a baseline, which has JSON and NumPy's arrays.

    Raises:
        UserError: See `check`; or the disk is full. Then nothing is left in
            the folder.
    """
    form = check(predictor.experiment, predictor.task, folder, form)
    with files.staged(folder) as stage:
        if isinstance(predictor, NetworkPredictor):
            text = _export_network(predictor, folder, stage, form)
        elif isinstance(predictor, BaselinePredictor):
            predictor.write_files(stage)
            text = model_card.write_baseline_card(predictor, stage)
        path = os.path.join(stage, "README.md")
        files.write_atomically(path, text.encode())
    print(f"Written to {folder}")
    if prepared := model_card.list_preparation(predictor.experiment.settings):
        print(
            f"{' and '.join(prepared)}: not in the exported model. Prepare "
            "texts by make_text first; its README.md has the Python."
        )


def _export_network(
    predictor: NetworkPredictor, folder: str, stage: str, form: str
) -> str:
    """Writes the files of an encoder; returns its model card.

    Args:
        predictor: Has the model.
        folder: What messages name.
        stage: Where it writes.
        form: One of `FORMATS`.
    """
    import tensorflow as tf

    from tf_transfer.models import exports
    from tf_transfer.models.methods import added

    task, network = predictor.task, predictor.network
    with added.merged(network.encoder):
        # Some libraries crash where the disk is full, so try before.
        with tempfile.TemporaryFile(dir=stage) as file:
            sizes = (math.prod(weight.shape) for weight in network.weights)
            try:
                size = int(4 * sum(sizes) + SPARE)
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:  # or the file system cannot
                files.raise_if_full(folder, error)
        model = predictor.text_model()
        functions = model.signatures()
        try:
            if form == "saved_model":
                tf.saved_model.save(model, stage, functions)
            else:
                getattr(exports, form)(
                    network,
                    task.name,
                    stage,
                    task.kind,
                    task.labels or (),
                    predictor.experiment.settings.max_length,
                )
        except tf.errors.OpError as error:  # of C++, where the disk fails
            raise UserError(
                f"--export={folder}: cannot be written ({error.message}). Free "
                "some space, or give the command when the disk works again."
            ) from None
        return model_card.write_card(
            predictor, form, stage, functions["serving_default"]
        )
