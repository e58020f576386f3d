"""How much of a pretrained BERT must be trained, and what does it cost?"""

import importlib
import os
import time
from typing import TYPE_CHECKING

from tf_transfer._version import __version__

if TYPE_CHECKING:
    from tf_transfer.estimators.text_classifier import TextClassifier
    from tf_transfer.estimators.text_features import TextFeatures
    from tf_transfer.estimators.text_regressor import TextRegressor
    from tf_transfer.estimators.text_search import TextSearch
    from tf_transfer.estimators.trained_model import load, TrainedModel
    from tf_transfer.models.freezing import freeze_blocks

IMPORT_TIME = time.monotonic()  # a command's start, without Python's own

# Before anything imports Keras, which chooses its backend once.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

__all__ = [
    "TextClassifier",
    "TextFeatures",
    "TextRegressor",
    "TextSearch",
    "TrainedModel",
    "__version__",
    "freeze_blocks",
    "load",
]

# These modules import large libraries, so the first use of a name does.
_MODULES = {
    "TextClassifier": "tf_transfer.estimators.text_classifier",
    "TextFeatures": "tf_transfer.estimators.text_features",
    "TextRegressor": "tf_transfer.estimators.text_regressor",
    "TextSearch": "tf_transfer.estimators.text_search",
    "TrainedModel": "tf_transfer.estimators.trained_model",
    "freeze_blocks": "tf_transfer.models.freezing",
    "load": "tf_transfer.estimators.trained_model",
}

if not TYPE_CHECKING:  # or it would accept any name

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return getattr(importlib.import_module(_MODULES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
