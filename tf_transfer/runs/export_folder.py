"""The folder that an export writes: the trained model, and its model card."""

import math
import os
import re
import tempfile

from tf_transfer.runs import model_card
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


def export(predictor: Predictor, folder: str, form: str | None = None) -> None:
    """Writes the trained model, and a model card.

    Args:
        predictor: Has the model.
        folder: The folder to write; it must be empty or new.
        form: One of `FORMATS`: a SavedModel from raw strings to labels; a
            folder for transformers; or a preset for keras-hub. None for the
            first, and for a baseline, which has JSON and NumPy's arrays.

    Raises:
        UserError: The folder is not empty, the form has no such model, or the
            disk is full. Then nothing is left in the folder.
    """
    if os.path.exists(folder) and os.listdir(folder):
        raise UserError(f"--export={folder}: is not empty. Give a new folder.")
    if form and isinstance(predictor, BaselinePredictor):
        raise UserError(
            f"--format={form}: is for encoders, and a baseline has its own. "
            "Leave it out."
        )
    form = form or "saved_model"
    if predictor.task.is_tagging and form != "saved_model":
        raise UserError(
            f"--format={form}: is for texts, and this run labels words."
        )
    long_texts = predictor.experiment.settings.long_texts
    if long_texts != "head" and form != "saved_model":
        raise UserError(
            f"--format={form}: reads the beginnings of long texts alone, and "
            f"this run has --long_texts={long_texts}. Give "
            "--format=saved_model."
        )
    path = os.path.abspath(folder)
    is_loaded_by_pattern = form == "saved_model" and isinstance(
        predictor, NetworkPredictor
    )
    if is_loaded_by_pattern and (found := PATTERNS.search(path)):
        raise UserError(
            f"--export={folder}: its path ({path}) has a {found[0]}, which "
            "TensorFlow takes for a pattern when it loads a SavedModel. Give a "
            "folder without it."
        )
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
