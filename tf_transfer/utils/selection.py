"""The choice of a setting by what validates best."""

import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeVar

_K = TypeVar("_K")


def best_on_validation(scored: Mapping[_K, Sequence[tuple[int, float]]]) -> _K:
    """What has the highest mean on validation over the seeds that all have.

    So it makes no difference which of them was run again with more seeds. Where
    no seed is common, each has the mean of its own.

    Args:
        scored: seed and score of the runs of each.
    """
    common = common_seeds(scored)

    def mean(key: _K) -> float:
        return statistics.fmean(
            score for seed, score in scored[key] if seed in common or not common
        )

    return max(scored, key=mean)


def common_seeds(scored: Mapping[_K, Sequence[tuple[int, float]]]) -> set[int]:
    """The seeds that all have; see `best_on_validation`."""
    return set.intersection(
        *({seed for seed, _ in runs} for runs in scored.values())
    )
