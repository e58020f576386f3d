"""The registry of experiments."""

import importlib
from typing import Any

from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

# The packages of the papers and of our own study; `train` is a module.
FOLDERS = (
    "freezing",
    "glue",
    "methods",
    "multitask",
    "stacking",
    "tweets",
)
# The commands of the experiments by name. A user's own module needs no row.
EXPERIMENTS = {name: f"tf_transfer.{name}" for name in (*FOLDERS, "train")}


def load(name: str) -> Any:
    """The experiment of a name or module.

    Args:
        name: one of `EXPERIMENTS`, its command, or a module that can be
            imported and has an `EXPERIMENT`.

    Raises:
        UserError: there is no such experiment.
    """
    module = EXPERIMENTS.get(name, name)
    if module.removeprefix("tf_transfer.") in FOLDERS:
        module += ".experiment"
    try:
        return importlib.import_module(module).EXPERIMENT
    except (ImportError, AttributeError, ValueError) as error:
        if name in EXPERIMENTS:
            raise
        raise UserError(
            f"{cut(name)!r} is no experiment ({error}). Give one of "
            f"{', '.join(EXPERIMENTS)}, or a module of your own that has an "
            "EXPERIMENT."
        ) from None
