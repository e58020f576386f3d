"""Every task that has a name, and what opens it.

A data set that is added here is known to every command that takes `--task`. A
task of one's own needs no row: its task file, or `--data` with a table, says
what it is (`task_file`, `own`).
"""

import functools
import os
from collections.abc import Callable

from tf_transfer.data import conll
from tf_transfer.data import cs224n
from tf_transfer.data import glue
from tf_transfer.data import yahoo
from tf_transfer.data.task import Source
from tf_transfer.utils.errors import UserError

# From `--data` and the folder where wheels are unpacked to the source.
Opener = Callable[[str, str], Source]


def _open_glue(name: str, data: str, cache_folder: str) -> Source:
    return glue.GlueSource(glue.TASKS[name], data, cache_folder)


def _open_cs224n(name: str, data: str, cache_folder: str) -> Source:
    """A task of the CS224N project's, or the nearest of GLUE's."""
    path = os.path.join(data, cs224n.file_name(cs224n.TASKS[name], "train"))
    if os.path.isfile(path):
        return cs224n.FilesOfTask(data, name)
    return glue.GlueSource(cs224n.NEAREST[name], data, cache_folder)


def _open_conll(data: str, cache_folder: str) -> Source:
    del cache_folder
    return conll.Corpus(data)


def _open_yahoo(data: str, cache_folder: str) -> Source:
    del cache_folder
    return yahoo.Answers(data, yahoo.DEFAULT_CLASSES)


OPENERS: dict[str, Opener] = {
    **{name: functools.partial(_open_glue, name) for name in glue.TASKS},
    **{name: functools.partial(_open_cs224n, name) for name in cs224n.TASKS},
    "ner": _open_conll,
    "yahoo": _open_yahoo,
}


def check(name: str) -> None:
    """Raises `UserError` where there is no such task."""
    if name not in OPENERS:
        raise UserError(
            f"--task={name}: no such task. Give a task file of your own, such "
            f"as mine.toml, or one of {', '.join(OPENERS)}."
        )


def open_source(name: str, data: str, cache_folder: str) -> Source:
    """The source of a task that has a name.

    Args:
        name: One of `OPENERS`.
        data: Where its texts are; see its source.
        cache_folder: Where wheels are unpacked.

    Raises:
        UserError: There is no such task, or no such data.
    """
    check(name)
    return OPENERS[name](data, cache_folder)
