"""How much of a pretrained BERT must be trained, and what does it cost?"""

import importlib
import os
import time
from typing import TYPE_CHECKING

from tf_transfer._version import __version__

if TYPE_CHECKING:
    from tf_transfer.estimators import (
        TextClassifier,
        TextRegressor,
        TextSearch,
    )
    from tf_transfer.models.freezing import freeze_blocks

IMPORT_TIME = time.monotonic()  # a command's start, without Python's own

# Before anything imports Keras, which chooses its backend once.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

__all__ = [
    "TextClassifier",
    "TextRegressor",
    "TextSearch",
    "__version__",
    "freeze_blocks",
]

# The modules of the public names import large libraries when asked for.
_MODULES = {
    "TextClassifier": "tf_transfer.estimators",
    "TextRegressor": "tf_transfer.estimators",
    "TextSearch": "tf_transfer.estimators",
    "freeze_blocks": "tf_transfer.models.freezing",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _MODULES:
            return getattr(importlib.import_module(_MODULES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
