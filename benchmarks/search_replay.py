"""Replays all contestants within shares of a grid's time, and their regret."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.search_contestants import CONTESTANTS
from benchmarks.search_world import grid_seconds, Record, regret_at, World

SHARES = {"1/20": 1 / 20, "1/10": 1 / 10, "1/4": 1 / 4}
SEEDS = 10
CURVE_POINTS = 40


def replay(
    records: dict[str, Record],
    seeds: int = SEEDS,
    contestants: Mapping[str, Callable[[World, int], None]] = CONTESTANTS,
) -> list[dict]:
    """Replays contestants; a dict for each task, share, and contestant."""
    rows = []
    for task, record in records.items():
        whole = grid_seconds(record)
        for share_name, share in SHARES.items():
            for name, contestant in contestants.items():
                worlds = []
                for seed in range(seeds):
                    world = World(record, share * whole)
                    contestant(world, seed)
                    worlds.append(world)
                regrets = [
                    regret_at(w.events, w.budget, record, w.answers)
                    for w in worlds
                ]
                rows.append(
                    {
                        "task": task,
                        "share": share_name,
                        "contestant": name,
                        "budget": share * whole,
                        "validation": [v for v, _ in regrets],
                        "test": [t for _, t in regrets],
                        "used": [
                            (w.budget - w.left) / w.budget for w in worlds
                        ],
                        "curve": _mean_curve(worlds, record),
                    }
                )
    return rows


def _mean_curve(worlds: Sequence[World], record: Record) -> list[float]:
    """Mean regret on validation at equal parts of the budget."""
    return [
        statistics.fmean(
            regret_at(
                w.events,
                part * w.budget / CURVE_POINTS,
                record,
                w.answers,
            )[0]
            for w in worlds
        )
        for part in range(1, CURVE_POINTS + 1)
    ]
