"""The pooling that an encoder of sentences was tuned with.

sentence-transformers keeps it in a folder of its own inside of the encoder's.
"""

import os

from tf_transfer.utils import json_files

POOLINGS = {"minilm": "mean", "mpnet": "mean"}  # of presets
FILE = os.path.join("1_Pooling", "config.json")
# The keys of that file, and `--pooling`.
KEYS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls_state",
}


def find_pooling(model: str) -> str:
    """`--pooling` of an encoder of sentences; "" for any other.

    Args:
        model: `--model`.
    """
    if model in POOLINGS:
        return POOLINGS[model]
    try:
        content = json_files.read_record(os.path.join(model, FILE))
    except (OSError, json_files.Damaged):
        return ""
    found = [KEYS[key] for key in KEYS if content.get(key) is True]
    return found[0] if len(found) == 1 else ""
