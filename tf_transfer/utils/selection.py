"""The choice of a setting by what validates best."""

import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeVar

_K = TypeVar("_K")


def best_on_validation(scored: Mapping[_K, Sequence[tuple[int, float]]]) -> _K:
    """What has the highest of the `means_on_validation`.

    Args:
        scored: seed and score of the runs of each.
    """
    means = means_on_validation(scored)
    return max(means, key=lambda key: means[key])


def means_on_validation(
    scored: Mapping[_K, Sequence[tuple[int, float]]],
) -> dict[_K, float]:
    """The mean on validation of each, over the seeds that all have.

    So it makes no difference which of them was run again with more seeds. Where
    no seed is common, each has the mean of its own.

    Args:
        scored: seed and score of the runs of each.
    """
    common = common_seeds(scored)
    return {
        key: statistics.fmean(
            score for seed, score in runs if seed in common or not common
        )
        for key, runs in scored.items()
    }


def common_seeds(scored: Mapping[_K, Sequence[tuple[int, float]]]) -> set[int]:
    """The seeds that all have; see `means_on_validation`."""
    return set.intersection(
        *({seed for seed, _ in runs} for runs in scored.values())
    )
