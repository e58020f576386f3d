"""The answer of a search: the setting to use, chosen on validation.

Test scores are read only of what has been chosen, and of the baselines. The
functions are handed a `searches.search.Search` that is over for now.
"""

import dataclasses
import math
from typing import Any

import scipy.stats

from tf_transfer.reports import answer as reports
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
        interval: of the score on validation, in points; over seeds where there
            are three, else over texts; None where it has none.
        seconds: of the search that went into the approach.
    """

    setting: ScoredSetting
    choice: Choice
    run: Planned
    record: dict[str, Any]
    rate: str
    interval: tuple[float, float] | None
    seconds: float

    @property
    def name(self) -> str:
        """Name of the approach."""
        return self.choice.approach

    @property
    def score(self) -> float:
        """The score in the interval: the mean over seeds, or the run's own."""
        if len(self.setting.scores) >= FEWEST_SEEDS:
            return self.setting.mean
        return max(self.setting.scores)

    @property
    def basis(self) -> str:
        """The sample of the interval, such as `over texts`."""
        count = len(self.setting.scores)
        return f"over {count} seeds" if count >= FEWEST_SEEDS else "over texts"


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
                _interval(setting, run.directory.path),
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


def _interval(setting: ScoredSetting, path: str) -> tuple[float, float] | None:
    count = len(setting.scores)
    if count < FEWEST_SEEDS:
        scored = reports.open_scored(path, "validation")
        return None if scored is None else reports.score_interval(scored)
    reach = scipy.stats.t.ppf(0.975, count - 1) * scipy.stats.sem(
        setting.scores
    )
    return setting.mean - reach, setting.mean + reach


def is_better_refit(row: Row, refit: Planned | None) -> bool:
    """Whether a refit's training loss is as low as that of the chosen run."""
    if refit is None or refit.directory.result() is None:
        return False
    loss = refit.directory.epochs()[-1]["train_loss"]
    epochs = row.run.directory.epochs()
    return loss <= epochs[row.record["best_epoch"] - 1]["train_loss"]


@dataclasses.dataclass(frozen=True)
class Lead:
    """A model compared with another, on the same texts.

    Attributes:
        other: the other one's score, in points.
        points: by which the first scores more.
        interval: of `points`; None where the texts differ.
    """

    other: float
    points: float
    interval: tuple[float, float] | None

    @property
    def is_sure(self) -> bool:
        """Whether the difference is more than chance."""
        low, high = self.interval or (0.0, 0.0)
        return low > 0 or high < 0


def compare(run: reports.Scored, other: reports.Scored) -> Lead:
    """The lead of a run over another one."""
    interval = reports.difference_interval(run, other)
    return Lead(other.score, run.score - other.score, interval)


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
