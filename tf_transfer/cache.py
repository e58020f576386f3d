"""Lists, checks and clears the feature cache.

    python -m tf_transfer.cache
    python -m tf_transfer.cache --check
    python -m tf_transfer.cache --clear --unused_days=30

An entry is the output of one frozen prefix, for every text that a run with
`--frozen_prefix=cached` has asked for. Runs build what is missing and remove
what does not fit `--cache_limit_gb`, so nothing here needs to be done by hand.
"""

import dataclasses
import datetime
import time
from collections.abc import Sequence

import numpy as np

from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.config.fields import Fields, setting
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError

COLUMNS = (
    "entry",
    "model",
    "blocks",
    "output",
    "dtype",
    "texts",
    "size",
    "last used",
)
REBUILD_NOTE = "The next run that needs it builds it again."


@dataclasses.dataclass(frozen=True)
class Settings(Fields):
    """The settings of this command."""

    cache_dir: str = setting(
        "", "The runs' --cache_dir. Unset: the user's cache folder."
    )
    check: bool = setting(False, "Read every row, and report the damaged ones.")
    clear: bool = setting(False, "Remove entries that no run is using.")
    unused_days: float = setting(
        0.0, "Days: only entries unused for at least as long."
    )

    def check_settings(self) -> None:
        """Raises `UserError` for flags that exclude each other."""
        if self.check and self.clear:
            raise UserError("Give one of --check and --clear.")


def format_table(entries: Sequence[store_lib.Entry]) -> str:
    """The entries as aligned text, the least recently used first."""
    rows = [COLUMNS]
    for entry in entries:
        entry.vectors.load()
        used = datetime.datetime.fromtimestamp(entry.lock.last_used)
        rows.append(
            (
                entry.name,
                entry.model,
                # An entry of an older version has other keys: no run reads it.
                str(entry.key.get("cut", "?")),
                str(entry.key.get("output", "?")),
                entry.key["dtype"],
                f"{len(entry.vectors.rows):,}",
                formatting.size(entry.num_bytes),
                f"{used:%Y-%m-%d %H:%M}",
            )
        )
    return formatting.aligned(rows)


def check_entry(entry: store_lib.Entry) -> str:
    """Reads an entry; returns a line that reports damage."""
    name = store_lib.name_of(entry.key)
    if entry.name != name:
        return (
            f"{entry.name}: is damaged, holds the entry {name}. {REBUILD_NOTE}"
        )
    entry.vectors.load()
    damaged = entry.vectors.find_damaged(
        np.array(sorted(entry.vectors.rows.values()), np.int64)
    )
    if not damaged and not entry.vectors.unreadable:
        return f"{entry.name}: intact, {len(entry.vectors.rows):,} texts."
    lists = len(entry.vectors.unreadable)
    return (
        f"{entry.name}: {len(damaged):,} of {len(entry.vectors.rows):,} texts "
        f"and {lists} lists of texts are damaged. {REBUILD_NOTE}"
    )


def clear_entry(entry: store_lib.Entry) -> str:
    """Removes an entry; returns a line that reports it."""
    size = formatting.size(entry.num_bytes)
    if entry.remove():
        return f"{entry.name}: removed, {size}."
    return f"{entry.name}: in use by a run, kept."


def main(argv: Sequence[str] = ()) -> None:
    """Reads the flags and does what they say."""
    command_line.refuse_words(argv)
    settings = command_line.from_flags(Settings).resolve()
    folder = settings_lib.Settings(cache_dir=settings.cache_dir).cache_folder
    store = store_lib.Store(folder)
    if settings.clear:
        files.remove_litter(store.folder)
    limit = time.time() - settings.unused_days * 86400
    entries = [
        entry for entry in store.entries() if entry.lock.last_used <= limit
    ]
    if settings.check:
        for name in store.find_unreadable():
            print(f"{name}: entry.json is damaged. {REBUILD_NOTE}")
    if not entries:
        unused = ""
        if settings.unused_days:
            unused = f" that was unused for {settings.unused_days:g} days"
        print(f"{store.folder}: nothing stored{unused}.")
    elif settings.check or settings.clear:
        report = check_entry if settings.check else clear_entry
        for entry in entries:
            print(report(entry), flush=True)
    else:
        print(f"{store.folder}\n{format_table(entries)}")


if __name__ == "__main__":
    command_line.command(main, Settings)
