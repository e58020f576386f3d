"""The lines that a run prints, which a caller may turn off.

Estimators work in threads of a program that prints lines of its own, so nothing
of the process is redirected.
"""

import contextlib
import contextvars
import functools
import sys
from collections.abc import Iterator

_IS_SILENT = contextvars.ContextVar("is_silent", default=False)


def say(text: str) -> None:
    """Prints a text at once, also into a pipe; nothing inside `silence`."""
    if not _IS_SILENT.get():
        print(text, flush=True)


@functools.cache
def notify_once(message: str) -> None:
    """Prints to stderr how a file is read, once, though it is read again."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def silence(is_silent: bool) -> Iterator[None]:
    """Inside, `say` prints nothing in this thread.

    Args:
        is_silent: Whether it does so.
    """
    token = _IS_SILENT.set(is_silent)
    try:
        yield
    finally:
        _IS_SILENT.reset(token)
