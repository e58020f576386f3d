"""The answer of a search: the setting to use, chosen on validation.

Test scores are read only of what has been chosen, and of the baselines. The
functions are handed a `searches.search.Search` that is over for now.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import scipy.stats

from tf_transfer.reports import advice, predictions
from tf_transfer.reports.estimates import Ranged
from tf_transfer.searches.planner import (
    answer_seconds,
    MARGIN_UNMEASURED,
    ScoredSetting,
)
from tf_transfer.searches.space import Choice
from tf_transfer.sweeps.grid import Planned

FEWEST_SEEDS = 3  # for an interval over seeds


@dataclasses.dataclass(frozen=True)
class Row:
    """The best setting of an approach.

    Attributes:
        setting: it, and its scores on validation.
        choice: its best seed.
        run: of its best seed.
        record: the content of that run's `result.json`.
        rate: as text.
        validation: the score in points, with an interval over seeds where there
            are three, else over texts.
        seconds: of the search that went into the approach.
    """

    setting: ScoredSetting
    choice: Choice
    run: Planned
    record: dict[str, Any]
    rate: str
    validation: Ranged
    seconds: float

    @property
    def name(self) -> str:
        """Name of the approach."""
        return self.choice.approach

    @property
    def words(self) -> str:
        """The approach in words."""
        return describe_approach(self.name)


def describe_approach(name: str) -> str:
    """An approach in words: `last 2 (keep_blocks=3)`."""
    base, _, options = name.partition(", ")
    words = advice.name_approach(base)
    return f"{words} ({options})" if options else words


def rank_approaches(search: Any) -> list[Row]:
    """The best setting of each approach, the answer first.

    The answer is the best by the objective among the settings within
    `--max_loss` of the best on validation. The others follow by their score.
    """
    planner, settings = search.planner, search.settings
    rows = []
    for setting in planner.best_of_approaches() if planner else ():
        choice = planner.best_seed(setting)
        run = search.runs[choice]
        record = run.directory.result()
        if record is None:
            continue
        rows.append(
            Row(
                setting,
                choice,
                run,
                record,
                f"{planner.rate_of(choice):g}",
                _score(setting, run.directory.path),
                sum(
                    step.ended - step.began
                    for step in search.history.record.steps
                    if step.choice.approach == choice.approach
                ),
            )
        )
    if rows and (settings.objective != "score" or settings.max_loss):
        least = rows[0].setting.mean - settings.max_loss
        close = [row for row in rows if row.setting.mean >= least]
        answer = min(close, key=lambda row: _price(search, row))
        rows.sort(key=lambda row: row is not answer)
    return rows


def _price(search: Any, row: Row) -> tuple[float, float]:
    """Sort key: the cost to minimise, then the negated score."""
    costs = search.planner.costs
    prices = {
        "score": row.setting.epochs * costs.epoch_seconds(row.name),
        "seconds_at_prediction": costs.works[row.name].predict,
        "parameters": row.record["trainable_parameters"],
    }
    return prices[search.settings.objective], -row.setting.mean


def _score(setting: ScoredSetting, path: str) -> Ranged:
    count = len(setting.scores)
    if count < FEWEST_SEEDS:
        scored = predictions.open_scored(path, "validation")
        return Ranged(max(setting.scores)) if scored is None else scored.ranged
    reach = scipy.stats.t.ppf(0.975, count - 1) * scipy.stats.sem(
        setting.scores
    )
    return Ranged(setting.mean, setting.mean - reach, setting.mean + reach)


def recommend(
    search: Any, ranked: Sequence[Row]
) -> tuple[list[advice.Row], advice.Row]:
    """The rows of the approaches and the baselines, and the one to use.

    That is the answer or a baseline, by the rule of `advice`; the reference is
    what is expected to score more.

    Args:
        search: see `rank_approaches`.
        ranked: what that returned; one at least.
    """
    answer = ranked[0]
    paths = {row.words: row.run.directory.path for row in ranked}
    scores = {}
    for name, run in search.baselines.items():
        result = run.directory.result()
        if result is not None:
            paths[name] = run.directory.path
            scores[name] = result["validation"][result["metric"]]
    reference = answer.words
    if scores and not search.planner.beats_floor(answer.setting):
        reference = max(scores, key=lambda name: scores[name])
    known = {row.words: row for row in ranked}
    rows = []
    for row in advice.compare_runs(paths, reference, "validation"):
        if row.name in known:
            setting = known[row.name]
            row = dataclasses.replace(
                row,
                validation=setting.validation,
                seeds=len(setting.setting.scores),
            )
        rows.append(row)
    candidates = [r for r in rows if r.name == answer.words or r.is_baseline]
    return rows, advice.choose(candidates, search.settings.max_loss)


def is_better_refit(row: Row, refit: Planned | None) -> bool:
    """Whether a refit's training loss is as low as that of the chosen run."""
    if refit is None or refit.directory.result() is None:
        return False
    loss = refit.directory.epochs()[-1]["train_loss"]
    epochs = row.run.directory.epochs()
    return loss <= epochs[row.record["best_epoch"] - 1]["train_loss"]


def least_budget(search: Any) -> dict[str, Any]:
    """Why nothing was trained, and the budget that is enough for a run.

    Returns:
        `reason`, `baseline`, `epoch` or `failure`; `approach` and `seconds` of
        the cheapest run; and `budget`, as `--budget` takes it.
    """
    planner, budget = search.planner, search.settings.seconds
    approach, seconds = planner.least_seconds()
    spent = search.clock() + answer_seconds(budget)
    least = spent + MARGIN_UNMEASURED * seconds
    fitted = [run.directory.result() for run in search.baselines.values()]
    if spent > budget and not any(fitted):
        reason, least = "baseline", spent + 3 * budget  # they begin again
    elif least > budget and not any(map(planner.has_failed, planner.space)):
        reason = "epoch"
    else:
        reason, least = "failure", 2 * budget
    return {
        "reason": reason,
        "approach": approach,
        "seconds": seconds,
        "budget": f"{math.ceil(least / 10) * 10}s"
        if least < 120
        else f"{math.ceil(least / 60)}m",
    }
