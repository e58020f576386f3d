"""In which order runs are done, and which of them by one shard of a sweep."""

import re
from collections.abc import Callable
from typing import Any

from tf_transfer.config import settings as settings_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils.errors import UserError


def order(runs: list[Planned]) -> list[Planned]:
    """Sorts runs on one frozen prefix next to each other, lowest cut first.

    A higher cut continues from a lower one's cached states, and an entry is
    used before later ones replace it. Otherwise the grid's order stays.
    """
    first_index: dict[Any, int] = {}
    keys = []
    for index, run in enumerate(runs):
        texts, depth = feature_cache(run) or (index, 0)
        keys.append((first_index.setdefault(texts, index), depth, index))
    return [runs[index] for _, _, index in sorted(keys)]


def feature_cache(run: Planned) -> tuple[Any, int] | None:
    """What tells the feature cache that a run reads from others.

    Returns:
        What its texts and states come from, and a number that rises with the
        cut; None for a run without one.
    """
    settings: Any = run.settings
    if not settings.runs_cached:
        return None
    texts = (
        settings.model,
        settings.data,
        getattr(settings, "task", ""),
        settings.max_length,
        settings.precision,
        settings.cache_dtype,
    )
    return texts, _depth(settings)


def _depth(settings: settings_lib.Settings) -> int:
    if settings.blocks:
        return int(settings.blocks.partition("-")[0])
    if settings.trainable_layers == "all":  # a phase freezes every block
        return 0
    return -int(settings.trainable_layers)


# === Shards ===


def parse_shard(text: str) -> tuple[int, int]:
    """Reads `--shard`, such as `3/16`: which of how many.

    Raises:
        UserError: it is no such thing.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    shard, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= shard <= count:
        raise UserError(
            f"--shard={text[:40]}: give which of how many, such as 3/16 for "
            "the third of sixteen."
        )
    return shard, count


def choose_shard(
    runs: list[Planned],
    shard: int,
    count: int,
    seconds: Callable[[Planned], float],
    build_seconds: Callable[[Planned], float],
) -> list[Planned]:
    """The runs of one shard: every shard has whole feature caches.

    The largest group of runs goes to the shard that has least to do so far,
    then the next. So the shards of a grid are the same on every machine, as
    long as the seconds are.

    Args:
        runs: of the whole sweep.
        shard: which, from 1.
        count: how many shards there are.
        seconds: what a run takes, apart from building a feature cache.
        build_seconds: what building its feature cache takes.
    """
    groups: dict[Any, list[Planned]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(feature_cache(run) or index, []).append(run)
    costs = {
        group: max(map(build_seconds, members)) + sum(map(seconds, members))
        for group, members in groups.items()
    }
    loads = [0.0] * count
    chosen: set[str] = set()
    for group in sorted(groups, key=lambda group: -costs[group]):
        index = loads.index(min(loads))
        loads[index] += costs[group]
        if index == shard - 1:
            chosen |= {run.name for run in groups[group]}
    return [run for run in runs if run.name in chosen]
