"""How much of a pretrained BERT must be trained, and what does it cost?"""

import os
import time
from typing import Any

IMPORT_TIME = time.monotonic()  # a command's start, without Python's own

# Before anything imports Keras, which chooses its backend once.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Public names; their modules import large libraries when asked for."""
    if name in ("TextClassifier", "TextRegressor", "TextSearch"):
        from tf_transfer import estimators

        return getattr(estimators, name)
    if name == "freeze_blocks":
        from tf_transfer.models import freezing

        return freezing.freeze_blocks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
