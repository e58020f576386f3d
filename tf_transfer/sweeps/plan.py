"""The order in which workers do the runs of a sweep."""

import dataclasses
import itertools
from collections.abc import Hashable, Sequence
from typing import Any

from tf_transfer.sweeps.grid import Planned


def order(runs: list[Planned]) -> list[Planned]:
    """Sorts runs so that those that share most follow each other.

    Among the feature caches of one data set the lowest cut comes first: a
    higher one continues from its states. Otherwise the grid's order stays.
    """
    first: dict[Any, int] = {}  # index of the first run of each group

    def rank(indexed: tuple[int, Planned]) -> tuple[int, ...]:
        index, run = indexed
        shared, cache = sharing(run), feature_cache(run)
        groups = [shared[:level] for level in range(1, len(shared) + 1)]
        groups.insert(CACHE, (*shared[:CACHE], bool(cache)))
        indices = [first.setdefault(group, index) for group in groups]
        indices.insert(CACHE + 1, cache[1] if cache else 0)
        return tuple(indices)

    return [run for _, run in sorted(enumerate(runs), key=rank)]


CACHE = 3  # the level of the feature cache


def sharing(run: Planned) -> tuple[Hashable, ...]:
    """The state that a worker keeps between runs, the most expensive first.

    Returns:
        The kind of process; the encoder; its texts; their feature cache; and
        the traced program, which serves other rates, decays and seeds.
    """
    settings: Any = run.settings
    encoder = settings.model, settings.dropout, settings.precision
    texts = (
        run.experiment.name,
        settings.data,
        getattr(settings, "task", ""),
        settings.max_length,
    )
    program = dataclasses.replace(
        settings,
        lr=1.0,
        seed=0,
        weight_decay=float(bool(settings.weight_decay)),
    )
    return kind(run), encoder, texts, feature_cache(run), program


def kind(run: Planned) -> Hashable:
    """The settings that a process has for all its runs."""
    settings = run.settings
    return (
        settings.is_sparse,
        settings.strategy,
        settings.cpu_devices,
        settings.deterministic,
    )


def choose(
    last: Planned | None, todo: Sequence[Planned], running: Sequence[Planned]
) -> Planned:
    """The run that a worker does next.

    It is the run that shares most with the last one, if that is more than the
    texts; otherwise a run on texts that no other worker has. Among equals it
    shares least with the runs of other workers: two workers trace no program
    twice while there are other programs.

    Args:
        last: what the worker did last.
        todo: what may be done, in the order of `order`; not empty.
        running: what other workers do.
    """

    def count_shared(run: Planned, others: Sequence[Planned]) -> int:
        """The most levels, from the first on, shared with one of the others."""
        pairs = [zip(sharing(run), sharing(other)) for other in others]
        equal = [[a == b for a, b in levels] for levels in pairs]
        return max(
            (sum(itertools.takewhile(bool, levels)) for levels in equal),
            default=0,
        )

    before = [last] if last else []
    counts = {
        index: (count_shared(run, before), -count_shared(run, running))
        for index, run in enumerate(todo)
    }
    best = max(counts, key=lambda index: counts[index])
    if counts[best][0] <= CACHE:
        best = max(counts, key=lambda index: counts[index][::-1])
    return todo[best]


def feature_cache(run: Planned) -> tuple[Any, int] | None:
    """Identifies the feature cache that a run reads.

    Returns:
        The source of its texts and states, and a number that rises with the
        cut; None for a run without a feature cache.
    """
    settings: Any = run.settings
    if not settings.runs_cached:
        return None
    depth = 0  # with `all`, a phase freezes every block
    if settings.blocks:
        depth = int(settings.blocks.partition("-")[0])
    elif settings.trainable_layers not in ("all", "head"):
        depth = -int(settings.trainable_layers)
    return feature_texts(settings), depth


def feature_texts(settings: Any) -> tuple[Hashable, ...]:
    """Identifies the texts and states that feature caches hold."""
    return (
        settings.model,
        settings.data,
        getattr(settings, "task", ""),
        settings.max_length,
        settings.precision,
        settings.cache_dtype,
    )
