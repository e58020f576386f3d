"""The disk that a command has used, in one line."""

import os

from tf_transfer.config.settings import Settings
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.utils import formatting, screen


def print_used(out: str, cache_dir: str = "") -> None:
    """Prints the sizes of run directories and stored states.

    The line has the command that deletes stored states. A folder that cannot be
    read prints nothing: the work of the command is done.

    Args:
        out: Root of the run directories; each file below it counts once.
        cache_dir: `--cache_dir`; empty for the user's own.
    """
    cache = Settings(cache_dir=cache_dir).cache_folder
    try:
        runs, stored = _measure(out, cache), store_lib.Store(cache).num_bytes
    except OSError:
        return
    line = f"Disk: {formatting.size(runs)} in {out}."
    if stored:
        command = ["python", "-m", "tf_transfer.cache", "--clear"]
        if cache_dir:
            command.append(f"--cache_dir={cache_dir}")
        line = (
            f"{line[:-1]}, {formatting.size(stored)} of stored states in "
            f"{cache}. To delete these: {formatting.quote_command(*command)}"
        )
    screen.say(line)


def _measure(folder: str, left_out: str) -> int:
    """Bytes of the files below a folder, apart from another one below it."""
    total, left_out = 0, os.path.abspath(left_out)
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if os.path.abspath(os.path.join(parent, name)) != left_out
        ]
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # another process has removed it
                continue
    return total
