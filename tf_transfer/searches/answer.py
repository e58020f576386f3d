"""The answer of a search: the setting to use, chosen on validation.

Test scores are read only of what has been chosen, and of the baselines.
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Mapping
from typing import Any

import scipy.stats

from tf_transfer.reports import answer as reports
from tf_transfer.searches import planner as planner_lib
from tf_transfer.searches.history import History
from tf_transfer.searches.planner import ScoredSetting
from tf_transfer.searches.space import Choice
from tf_transfer.sweeps.grid import Planned

FEWEST_SEEDS = 3  # for an interval over seeds


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A search that is over, for now.

    Attributes:
        settings: of the search, resolved: `search.Settings`.
        planner: knows all runs; None if it never began.
        runs: that are finished, by choice.
        baselines: runs without training of the encoder, by name.
        refit: the run of the answer on training and validation texts together,
            if that is the answer's model.
        history: what was done when.
        seconds: that the search took, over all starts.
        answer_seconds: of the budget, that the answer takes.
    """

    settings: Any
    planner: planner_lib.Planner | None
    runs: Mapping[Choice, Planned]
    baselines: Mapping[str, Planned]
    refit: Planned | None
    history: History
    seconds: float
    answer_seconds: float


@dataclasses.dataclass(frozen=True)
class Row:
    """The best setting of an approach.

    Attributes:
        setting: it, and its scores on validation.
        choice: its best seed.
        run: of its best seed.
        record: what `result.json` says of that run.
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
        """Of the approach."""
        return self.setting.choice.approach

    @property
    def score(self) -> float:
        """What the interval is of: the mean over seeds, or the run's score."""
        scores = self.setting.scores
        if len(scores) >= FEWEST_SEEDS:
            return self.setting.mean
        return max(scores)

    @property
    def basis(self) -> str:
        """What the interval is over."""
        count = len(self.setting.scores)
        return f"over {count} seeds" if count >= FEWEST_SEEDS else "over texts"


def rank_approaches(outcome: Outcome) -> list[Row]:
    """The best setting of each approach, the answer first.

    Of the settings within `--max_loss` of the best on validation, the answer is
    the best by the objective; the others follow by their score.
    """
    planner = outcome.planner
    if planner is None:
        return []
    spent: dict[str, float] = collections.defaultdict(float)
    for step in outcome.history.steps:
        spent[step.approach] += step.ended - step.began
    rows = []
    for setting in planner.best_of_approaches():
        choice = planner.best_seed(setting)
        run = outcome.runs[choice]
        record = run.directory.result()
        if record is not None:
            rows.append(
                Row(
                    setting,
                    choice,
                    run,
                    record,
                    f"{planner.rate_of(choice):g}",
                    _interval(setting, run.directory.path),
                    spent[choice.approach],
                )
            )
    settings = outcome.settings
    if rows and (settings.objective != "score" or settings.loss):
        least = rows[0].setting.mean - settings.loss
        close = [row for row in rows if row.setting.mean >= least]
        answer = min(close, key=lambda row: _price(outcome, row))
        rows.sort(key=lambda row: row is not answer)
    return rows


def _price(outcome: Outcome, row: Row) -> tuple[float, float]:
    """Sort key: the cost to minimise, then the negated score."""
    assert outcome.planner is not None
    costs = outcome.planner.costs
    prices = {
        "score": row.setting.epochs * costs.epoch_seconds(row.name),
        "seconds_at_prediction": costs.priors[row.name].predict_seconds,
        "parameters": row.record["trainable_parameters"],
    }
    return prices[outcome.settings.objective], -row.setting.mean


def _interval(setting: ScoredSetting, path: str) -> tuple[float, float] | None:
    count = len(setting.scores)
    if count < FEWEST_SEEDS:
        scored = reports.open_scored(path, "validation")
        return None if scored is None else reports.score_interval(scored)
    reach = scipy.stats.t.ppf(0.975, count - 1) * statistics.stdev(
        setting.scores
    )
    reach /= math.sqrt(count)
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
    """A model against another, on the same texts.

    Attributes:
        other: the other one's score, in points.
        points: by which the first scores more.
        interval: of `points`; None where the texts differ.
    """

    other: float
    points: float
    interval: tuple[float, float] | None

    @property
    def is_loss(self) -> bool:
        """Whether the first scores less by more than chance."""
        return self.interval is not None and self.interval[1] < 0

    @property
    def is_sure(self) -> bool:
        """Whether the difference is more than chance."""
        return self.is_loss or bool(self.interval and self.interval[0] > 0)


def compare(
    run: reports.Scored | None, other: reports.Scored | None
) -> Lead | None:
    """The lead of a run over another one; None if one of them has no scores."""
    if run is None or other is None:
        return None
    interval = reports.difference_interval(run, other)
    return Lead(other.score, run.score - other.score, interval)


def least_budget(outcome: Outcome) -> dict[str, Any]:
    """Why nothing was trained, and the budget that is enough for a run.

    Returns:
        `reason`, `baseline`, `epoch` or `failure`; `approach` and `seconds` of
        the cheapest run; and `budget`, as `--budget` takes it.
    """
    planner = outcome.planner
    assert planner is not None
    approach, seconds = planner.least_seconds()
    budget = outcome.settings.seconds
    spent = outcome.seconds + outcome.answer_seconds
    least = spent + planner_lib.MARGIN_UNMEASURED * seconds
    baselines = outcome.baselines.values()
    if (
        baselines
        and spent > budget
        and not any(run.directory.result() for run in baselines)
    ):
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
