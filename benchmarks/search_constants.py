"""Judges two constants of the search, each task by what the others choose."""

import functools
import itertools
import statistics

import numpy as np

from benchmarks import documents, search_contestants, search_replay
from benchmarks.search_replay import SHARES
from benchmarks.search_world import Record
from tf_transfer.searches import planner

OWN_SHARES, FLOOR_MARGINS = (0.0, 0.5, 1.0), (0.0, 1.0, 2.0)


def judge(records: dict[str, Record]) -> dict[str, dict[str, float]]:
    """Mean regret of the search on test, by `own_share` and `floor_margin`.

    Each pair of `OWN_SHARES` and `FLOOR_MARGINS` is replayed on each task. The
    pair with the least regret on all tasks but one is judged on that one.

    Returns:
        For each share of the grid's time the mean regret, in points, with the
        constants `in use`, with those `chosen on the other tasks`, and with the
        `best` and the `worst` of all pairs.
    """
    pairs = list(itertools.product(OWN_SHARES, FLOOR_MARGINS))
    regrets: dict[str, list[list[float]]] = {share: [] for share in SHARES}
    for own_share, floor_margin in pairs:
        search = functools.partial(
            search_contestants.search,
            own_share=own_share,
            floor_margin=floor_margin,
        )
        rows = search_replay.replay(records, 1, {"search": search})
        for share, of_pairs in regrets.items():
            of_share = [row for row in rows if row["share"] == share]
            of_pairs.append([statistics.fmean(row["test"]) for row in of_share])
    in_use = planner.Options.own_share, planner.Options.floor_margin
    return {
        share: leave_one_out(np.array(of_pairs), pairs.index(in_use))
        for share, of_pairs in regrets.items()
    }


def leave_one_out(regrets: np.ndarray, in_use: int) -> dict[str, float]:
    """The means of `judge`.

    Args:
        regrets: float [pairs, tasks].
        in_use: which pair is in use.
    """
    means = regrets.mean(axis=1)
    tasks = range(regrets.shape[1])
    chosen = [
        np.delete(regrets, task, axis=1).mean(axis=1).argmin() for task in tasks
    ]
    return {
        "in use": means[in_use],
        "chosen on the other tasks": regrets[chosen, tasks].mean(),
        "best": means.min(),
        "worst": means.max(),
    }


def tabulate(judged: dict[str, dict[str, float]]) -> str:
    """What `judge` returns, as Markdown."""
    heads = ["budget", *next(iter(judged.values()))]
    rows = [
        [share, *(f"{value:.2f}" for value in values.values())]
        for share, values in judged.items()
    ]
    return documents.as_markdown([heads, ["---"] * len(heads), *rows])
