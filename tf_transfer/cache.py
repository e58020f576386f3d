"""The stored states of frozen blocks: lists, checks and clears them.

    python -m tf_transfer.cache
    python -m tf_transfer.cache --check
    python -m tf_transfer.cache --clear --unused_days=30

An entry is what one frozen prefix put out, for every text that a run with
`--frozen_prefix=cached` has asked for. Runs build what they miss and drop what
does not fit `--cache_limit_gb`, so nothing here needs to be done by hand.
"""

import datetime
import time

import numpy as np
from absl import flags

from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

COLUMNS = (
    "entry",
    "model",
    "blocks",
    "keeps",
    "dtype",
    "texts",
    "size",
    "last used",
)


def define_flags():
    """Defines this module's flags."""
    flags.DEFINE_string(
        "cache_dir", "", "The runs' --cache_dir. Unset: the user's cache."
    )
    flags.DEFINE_bool(
        "check", False, "Read every row, and say which are damaged."
    )
    flags.DEFINE_bool("clear", False, "Remove entries that no run is using.")
    flags.DEFINE_string(
        "entry", "", "Only entries whose name begins like this."
    )
    flags.DEFINE_float("unused_days", 0.0, "Only entries that long unused.")


def chosen(store, name, unused_days):
    """The entries that the flags mean.

    Raises:
        UserError: no entry has that name.
    """
    entries = [e for e in store.entries() if e.name.startswith(name)]
    if name and not entries:
        raise UserError(f"--entry={name}: {store.folder} holds none of it.")
    before = time.time() - unused_days * 86400
    return [entry for entry in entries if entry.used_at <= before]


def table(entries):
    """The entries as aligned text, the least lately used first."""
    rows = [COLUMNS]
    for entry in entries:
        entry.load()
        used = datetime.datetime.fromtimestamp(entry.used_at)
        rows.append(
            (
                entry.name,
                entry.model,
                "+".join(map(str, entry.key["stops"])),
                entry.key["keeps"],
                entry.key["dtype"],
                f"{len(entry.rows):,}",
                formatting.size(entry.bytes),
                f"{used:%Y-%m-%d %H:%M}",
            )
        )
    return formatting.aligned(rows)


def check(entry):
    """One line on what is damaged in an entry."""
    entry.load()
    damaged = entry.damaged(np.array(sorted(entry.rows.values()), np.int64))
    if not damaged and not entry.unreadable:
        return f"{entry.name}: whole, {len(entry.rows):,} texts."
    return (
        f"{entry.name}: {len(damaged):,} of {len(entry.rows):,} texts and "
        f"{len(entry.unreadable)} lists of texts are damaged. The next run "
        "that needs them builds them again."
    )


def clear(entry):
    """Removes an entry; one line on it."""
    size = formatting.size(entry.bytes)
    if entry.drop():
        return f"{entry.name}: removed, {size}."
    return f"{entry.name}: a run is using it. It stays."


def main():
    """Reads the flags and does what they say."""
    values = flags.FLAGS
    folder = settings_lib.cache_folder(values.cache_dir)
    store = store_lib.Store(folder)
    entries = chosen(store, values.entry, values.unused_days)
    if values.check and values.clear:
        raise UserError("Give one of --check and --clear.")
    if not entries:
        print(f"{store.folder}: nothing stored.")
    elif values.check or values.clear:
        for entry in entries:
            print((check if values.check else clear)(entry), flush=True)
    else:
        print(f"{store.folder}\n{table(entries)}")


if __name__ == "__main__":
    define_flags()
    command_line.start(main)
