"""The order in which workers do the runs of a sweep."""

import dataclasses
from collections.abc import Hashable, Iterable, Sequence

from tf_transfer.config.settings import Settings
from tf_transfer.sweeps.grid import Planned


def order_runs(runs: list[Planned]) -> list[Planned]:
    """Sorts runs so that compared runs are timed in turn.

    On the same texts all runs of one seed come before those of the next, in
    rounds. Within a round, runs that share most follow each other. Every other
    round is in reverse order: then groups start at the same time on average,
    and each round begins with the programs of the end of the last one.

    Among the feature caches of one data set the highest cut comes first: its
    pass stores the others too. So does that of a probe, which may come before
    runs without a cache. Otherwise the grid's order stays.
    """
    first: dict[Hashable, int] = {}  # index of the first run of each group
    rounds: dict[Hashable, dict[int, int]] = {}  # on some texts, of each seed

    def rank(indexed: tuple[int, Planned]) -> tuple[int, ...]:
        index, run = indexed
        shared, cache = sharing(run), feature_cache(run)
        trains = run.settings.trains
        texts, seed = shared[:CACHE], run.settings.seed
        seeds = rounds.setdefault(texts, {})
        number = seeds.setdefault(seed, len(seeds))
        outside = [
            first.setdefault(shared[:level], index)
            for level in range(1, CACHE + 1)
        ]
        inside = [
            first.setdefault((*texts, bool(cache) and trains), index),
            -cache[1] if cache else 0,
            first.setdefault(shared, index),
            index,
        ]
        if number % 2:
            inside = [-rank for rank in inside]
        return *outside, number, *inside

    return [run for _, run in sorted(enumerate(runs), key=rank)]


CACHE = 3  # the level of the feature cache


def sharing(run: Planned) -> tuple[Hashable, ...]:
    """The state that a worker keeps between runs, the most expensive first.

    Returns:
        The kind of process; the encoder; its texts; their feature cache; and
        the traced program, which serves other rates, decays and seeds.
    """
    settings = run.settings
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
    return settings.strategy, settings.cpu_devices, settings.deterministic


def choose_run(
    recent: Sequence[Planned],
    todo: Sequence[Planned],
    running: Sequence[Planned],
) -> Planned:
    """The run that a worker does next.

    On each data set, it is of the round that is not yet done. First come runs
    whose program the worker has, then others on its texts, then those on texts
    that no other worker has.

    Args:
        recent: The worker's last runs.
        todo: The runs to select from, as `order_runs` sorts them; not empty.
        running: The runs of other workers.
    """
    in_memory = [sharing(run) for run in recent]
    in_use = [sharing(run)[:CACHE] for run in running]
    rounds: dict[Hashable, int] = {}  # the seed of each data set's round

    def rank(run: Planned) -> tuple[bool, ...]:
        shared, seed = sharing(run), run.settings.seed
        texts = shared[:CACHE]
        return (
            rounds.setdefault(texts, seed) != seed,
            shared not in in_memory,
            texts not in [last[:CACHE] for last in in_memory[-1:]],
            texts in in_use,
        )

    return min(todo, key=rank)


def feature_cache(run: Planned) -> tuple[Hashable, int] | None:
    """Identifies the feature cache that a run reads.

    Returns:
        The source of its texts and states, and a number that rises with the
        cut; None for a run without a feature cache.
    """
    settings = run.settings
    if not settings.runs_cached:
        return None
    depth = 0  # with `all`, a phase freezes every block
    if settings.blocks:
        depth = int(settings.blocks.partition("-")[0])
    elif settings.trainable_layers not in ("all", "head"):
        depth = -int(settings.trainable_layers)
    return feature_texts(settings), depth


def list_lower_cuts(run: Planned, runs: Iterable[Planned]) -> str:
    """`--also_cache` of a run, for other runs that read the same texts.

    Args:
        run: The run whose pass stores their cuts.
        runs: The runs of the sweep that are not finished.
    """
    cache = feature_cache(run)
    if cache is None:
        return ""
    texts, cut = cache
    layers = set()
    for other in filter(None, map(feature_cache, runs)):
        if other[0] == texts and other[1] < min(cut, 0):
            layers.add(-other[1])
    return ",".join(map(str, sorted(layers)))


def feature_texts(settings: Settings) -> tuple[Hashable, ...]:
    """Identifies the texts and states that feature caches hold."""
    return (
        settings.model,
        settings.keep_blocks,
        settings.data,
        getattr(settings, "task", ""),
        settings.max_length,
        settings.pass_engine,
        settings.pass_precision,
        settings.cache_dtype,
    )


def select_values(
    runs: Iterable[Planned], finished: Iterable[Planned] = ()
) -> list[Planned]:
    """The runs; those that wait for a search have one of its values.

    It is the value of finished runs, or the first.
    """
    values = {r.group: r.axes[r.searched] for r in finished if r.searched}
    return [
        run
        for run in runs
        if not run.searched
        or values.setdefault(run.group, run.axes[run.searched])
        == run.axes[run.searched]
    ]
