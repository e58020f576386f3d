"""The next rate of an approach, by Optuna: one study an approach."""

import warnings
from collections.abc import Mapping

RANDOM_TRIALS = 2  # before the sampler looks at scores, the first apart


def propose(count: int, scores: Mapping[int, float], seed: int) -> int | None:
    """Index of a rate that was not tried; None where all were.

    The study is made anew of what is known, so the same records and seed give
    the same rate.

    Args:
        count: of rates, rising.
        scores: what each rate that was tried has reached.
        seed: of the sampler.
    """
    untried = [index for index in range(count) if index not in scores]
    if not untried:
        return None
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space: dict[str, optuna.distributions.BaseDistribution]
    space = {"rate": optuna.distributions.IntDistribution(0, count - 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=1 + RANDOM_TRIALS, seed=seed + len(scores)
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for rate, score in sorted(scores.items()):
            study.add_trial(
                optuna.trial.create_trial(
                    params={"rate": rate}, distributions=space, value=score
                )
            )
        asked = study.ask(space).params["rate"]
    return min(untried, key=lambda index: (abs(index - asked), index))
