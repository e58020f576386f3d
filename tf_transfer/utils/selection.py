"""The choice of a setting by what validates best."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TypeVar

_K = TypeVar("_K")


def best_on_validation(scored: Mapping[_K, Sequence[tuple[int, float]]]) -> _K:
    """The setting that is best on validation.

    The settings with the most seeds are compared first, by their
    `means_over_seeds`. A setting with fewer seeds is then compared with the
    best so far on the seeds that both have, so that it changes nothing between
    the others.

    Args:
        scored: Seed and score of the runs of each setting.
    """
    most = max(map(len, scored.values()))
    means = means_over_seeds(
        {key: runs for key, runs in scored.items() if len(runs) == most}
    )
    best = max(means, key=lambda key: means[key])
    for key in sorted(scored, key=lambda key: -len(scored[key])):
        if key not in means:
            pair = means_over_seeds({k: scored[k] for k in (best, key)})
            best = max(pair, key=lambda k: pair[k])
    return best


def means_over_seeds(
    scored: Mapping[_K, Sequence[tuple[int, float]]],
) -> dict[_K, float]:
    """The mean score of each setting, over the seeds that all have.

    So it makes no difference which of them was run again with more seeds. Where
    no seed is common, each has the mean of its own.

    Args:
        scored: Seed and score of the runs of each setting.
    """
    common = common_seeds(scored)
    return {
        key: statistics.fmean(
            score for seed, score in runs if seed in common or not common
        )
        for key, runs in scored.items()
    }


def common_seeds(scored: Mapping[_K, Sequence[tuple[int, float]]]) -> set[int]:
    """The seeds that all have; see `means_over_seeds`."""
    return set.intersection(
        *({seed for seed, _ in runs} for runs in scored.values())
    )
