"""Every task that has a name, and the data set that has its texts.

A data set that is added here is known to every command that takes `--task`. A
task of your own needs no row: its task file, or `--data` with a table,
describes it (`task_file`, `table_source`).
"""

import importlib

from tf_transfer.data import glue
from tf_transfer.data.task import Source
from tf_transfer.utils.errors import UserError

# The module of each task's data set. Others than GLUE's are imported when one
# of their tasks is opened.
DATA_SETS = {
    **dict.fromkeys(glue.TASKS, "glue"),
    **dict.fromkeys(("sentiment", "paraphrase", "similarity"), "cs224n"),
    "ner": "conll",
    "yahoo": "yahoo",
}


def check(name: str) -> None:
    """Raises `UserError` if there is no such task."""
    if name not in DATA_SETS:
        raise UserError(
            f"--task={name}: no such task. Give a task file of your own, such "
            f"as mine.toml, or one of {', '.join(DATA_SETS)}."
        )


def open_source(name: str, data: str, cache_folder: str) -> Source:
    """The source of a task that has a name.

    Args:
        name: One of `DATA_SETS`.
        data: `--data`; see the data set.
        cache_folder: The folder where wheels are unpacked.

    Raises:
        UserError: There is no such task, or no such data.
    """
    check(name)
    module = importlib.import_module(f"tf_transfer.data.{DATA_SETS[name]}")
    return module.open_source(name, data, cache_folder)
