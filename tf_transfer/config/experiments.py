"""The registry of experiments."""

import importlib
from typing import Any

from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

# The modules of the experiments by name. A module of a user's own needs no row.
EXPERIMENTS = {
    "freezing": "tf_transfer.freezing",
    "glue": "tf_transfer.glue",
    "methods": "tf_transfer.methods",
    "multitask": "tf_transfer.multitask",
    "stacking": "tf_transfer.stacking",
    "train": "tf_transfer.train",
    "tweets": "tf_transfer.tweets",
}


def load(name: str) -> Any:
    """The experiment of a name or module.

    Args:
        name: one of `EXPERIMENTS`, or a module that can be imported and has
            an `EXPERIMENT`.

    Raises:
        UserError: there is no such experiment.
    """
    try:
        return importlib.import_module(EXPERIMENTS.get(name, name)).EXPERIMENT
    except (ImportError, AttributeError, ValueError) as error:
        if name in EXPERIMENTS:
            raise
        raise UserError(
            f"{cut(name)!r} is no experiment ({error}). Give one of "
            f"{', '.join(EXPERIMENTS)}, or a module of your own that has an "
            "EXPERIMENT."
        ) from None
