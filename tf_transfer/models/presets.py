"""The presets of keras-hub that can be an encoder, known without loading it.

Importing keras-hub takes seconds, and TensorFlow with it; its tables of presets
are files that import nothing. Checked with keras-hub 0.32.0; a release that
moves or changes them makes `tests/models/presets_test.py` fail.
"""

import functools
import importlib.util
import os
import runpy
from typing import Any

FAMILIES = ("bert", "roberta")


@functools.cache
def read_presets() -> dict[str, dict[str, Any]]:
    """Returns keras-hub's entry on each preset of BERT and RoBERTa, by name.

    An entry's `kaggle_handle` names the release.
    """
    spec = importlib.util.find_spec("keras_hub")
    if spec is None or spec.origin is None:
        raise ImportError("keras-hub is not installed.")
    models = os.path.join(os.path.dirname(spec.origin), "src", "models")
    presets: dict[str, dict[str, Any]] = {}
    for family in FAMILIES:
        path = os.path.join(models, family, f"{family}_presets.py")
        presets |= runpy.run_path(path)["backbone_presets"]
    return presets
