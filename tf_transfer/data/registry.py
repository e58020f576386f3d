"""Every task that has a name, and the data set that has its texts.

A data set that is added here is known to every command that takes `--task`. A
task of your own needs no row: its task file, or `--data` with a table,
describes it (`task_file`, `table_source`).
"""

import functools
from collections.abc import Callable

from tf_transfer.data import conll, cs224n, glue, yahoo
from tf_transfer.data.task import Source
from tf_transfer.utils.errors import UserError

# By task, the function that opens its source: from `--data`, and the folder
# where wheels are unpacked.
DATA_SETS: dict[str, Callable[[str, str], Source]] = {
    **{
        name: functools.partial(glue.open_source, task)
        for name, task in glue.TASKS.items()
    },
    **{
        name: functools.partial(cs224n.open_source, name)
        for name in cs224n.TASKS
    },
    "ner": conll.open_source,
    "yahoo": yahoo.open_source,
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
    return DATA_SETS[name](data, cache_folder)
