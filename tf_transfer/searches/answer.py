"""What a search comes to: ten lines on the screen, and a page.

The answer is chosen on validation. Only then are test scores read, of what is
reported.
"""

import collections
import dataclasses
import math
import os
import re
import shlex
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import answer as reports
from tf_transfer.searches.history import History
from tf_transfer.searches.planner import Action
from tf_transfer.searches.planner import Found
from tf_transfer.searches.planner import Planner
from tf_transfer.searches.runner import Clock
from tf_transfer.searches.space import Choice
from tf_transfer.searches.space import count_epochs
from tf_transfer.sweeps.grid import Planned
from tf_transfer.training import records
from tf_transfer.utils import formatting

FEWEST_SEEDS = 3  # for an interval over seeds
PAGE = "search.html"
EVERYTHING = "fine_tuning"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A search that is over, for now.

    Attributes:
        task: its name.
        planner: knows all runs; None if it never began.
        runs: that are finished, by choice.
        baselines: runs for which nothing of an encoder trains, by what to
            call them.
        refit: the run of the answer on training and validation texts together,
            if that is the answer's model.
        history: what was done when.
        clock: seconds over all starts.
        budget: seconds.
        objective, loss: see `search.Settings`.
        answer_seconds: of the budget, that the answer takes.
    """

    task: str
    planner: Planner | None
    runs: dict[Choice, Planned]
    baselines: Mapping[str, Planned]
    refit: Planned | None
    history: History
    clock: Clock
    budget: float
    objective: str
    loss: float
    answer_seconds: float


@dataclasses.dataclass(frozen=True)
class Line:
    """The best setting of an approach, as it is told.

    Attributes:
        found: its scores on validation.
        choice: its best seed.
        path: of the run directory of its best seed.
        record: what `result.json` says of that run.
        interval: of the score on validation, in points; over seeds where there
            are three, else over texts; None where it has none.
        seconds: of the search that went into the approach.
    """

    found: Found
    choice: Choice
    path: str
    record: dict[str, Any]
    interval: tuple[float, float] | None
    seconds: float

    @property
    def name(self) -> str:
        """Of the approach."""
        return self.found.choice.approach

    @property
    def score(self) -> float:
        """What the interval is of: the mean over seeds, or the run's score."""
        scores = self.found.scores
        return self.found.score if len(scores) >= FEWEST_SEEDS else max(scores)


def give(outcome: Outcome) -> None:
    """Prints the answer, and writes the page."""
    from tf_transfer.reports import depth
    from tf_transfer.reports import search_page

    profile = _profile(outcome)
    rows = tell_approaches(outcome)
    sentences = write(outcome, rows)
    path = os.path.join(os.path.dirname(outcome.history.folder), PAGE)
    page = search_page.SearchPage(
        f"{outcome.task}: what to train",
        sentences,
        search_page.draw_progress(collect_progress(outcome)),
        depth.draw({} if profile is None else {outcome.task: profile}),
        search_page.tabulate("approaches", _table_of_approaches(outcome, rows)),
        search_page.tabulate("runs", _table_of_runs(outcome)),
    )
    search_page.write(page, path)
    print("\n" + "\n".join([*sentences, f"The whole answer: {path}"]))


# === Choosing ===


def tell_approaches(outcome: Outcome) -> list[Line]:
    """The best setting of each approach, the answer first.

    Of those within `loss` of the best on validation, the answer is the best
    by the objective; the others follow by their score.
    """
    planner = outcome.planner
    if planner is None:
        return []
    spent: dict[str, float] = collections.defaultdict(float)
    for step in outcome.history.steps:
        spent[step.approach] += step.ended - step.began
    lines = []
    for found in planner.best_of_approaches():
        choice = _best_seed(planner, found)
        run = outcome.runs[choice]
        record = run.directory.result()
        if record is not None:
            lines.append(
                Line(
                    found,
                    choice,
                    run.directory.path,
                    record,
                    _interval(found, run.directory.path),
                    spent[found.choice.approach],
                )
            )
    if not lines:
        return []
    least = lines[0].found.score - outcome.loss
    close = [line for line in lines if line.found.score >= least]
    chosen = lines[0]
    if outcome.objective != "score" or outcome.loss:
        chosen = min(close, key=lambda line: _price(outcome, line))
    return [chosen, *(line for line in lines if line is not chosen)]


def is_better_refit(line: Line, refit: Planned | None) -> bool:
    """Whether a refit has a training loss as low as what was chosen."""
    if refit is None or refit.directory.result() is None:
        return False
    loss = refit.directory.epochs()[-1]["train_loss"]
    chosen = records.RunDirectory(line.path, None).epochs()
    return loss <= chosen[line.record["best_epoch"] - 1]["train_loss"]


def _best_seed(planner: Planner, found: Found) -> Choice:
    """The run of a setting whose validation score is highest."""
    seeds = [c for c in planner.curves if c.setting == found.choice]
    return max(sorted(seeds), key=lambda choice: max(planner.curves[choice]))


def _price(outcome: Outcome, line: Line) -> tuple[float, float]:
    """What is to be little, then what is better where that is equal."""
    assert outcome.planner is not None
    costs = outcome.planner.costs
    prices = {
        "score": line.found.epochs * costs.epoch_seconds(line.name),
        "seconds_at_prediction": costs.priors[line.name].predict_seconds,
        "parameters": line.record["trainable_parameters"],
    }
    return prices[outcome.objective], -line.found.score


def _interval(found: Found, path: str) -> tuple[float, float] | None:
    count = len(found.scores)
    if count < FEWEST_SEEDS:
        scored = reports.open_scored(path, "validation")
        return None if scored is None else reports.score_interval(scored)
    import scipy.stats

    reach = scipy.stats.t.ppf(0.975, count - 1) * statistics.stdev(found.scores)
    reach /= math.sqrt(count)
    return found.score - reach, found.score + reach


# === Sentences ===


def write(outcome: Outcome, rows: Sequence[Line]) -> list[str]:
    """The answer in sentences."""
    if not rows:
        return _write_without_runs(outcome)
    planner = outcome.planner
    assert planner is not None
    first = rows[0]
    found, record = first.found, first.record
    metric = record["metric"]
    path, of_chosen = first.path, ""
    again = command_of(outcome.runs[first.choice], record["epochs_run"])
    if outcome.refit is not None:
        path = outcome.refit.directory.path
        epochs = outcome.refit.settings.max_epochs
        again = command_of(outcome.refit, epochs)
        of_chosen = (
            " That is the run that was chosen; the model was then trained once "
            "more, on training and validation texts together."
        )
    scored = reports.open_scored(path)
    assert scored is not None
    title, instead, predict = f"{outcome.task}: train", "", path
    if not planner.beats_floor(found):
        name, path = _best_baseline(outcome)
        if name:
            title = "The best that was trained:"
            instead = _recommend(outcome, first, name, path)
            predict = path
            again = command_of(outcome.baselines[name])
    sentences = [
        instead,
        f"{title} {_what(first.name)} at "
        f"{_rate(planner, found.choice):g}, {_how_long(first)}"
        f"{_why(outcome, first, rows)}.",
        f"Validation: {metric} {first.score:.1f}"
        f"{_between(first.interval, _basis(found))}.{of_chosen}"
        f"{'' if instead else _tell_test(scored)}",
        "" if instead else _beside_baselines(outcome, scored),
        *_against_everything(outcome, rows),
        *([] if instead else _how_sure(planner, rows)),
        _tell_profile(outcome),
        _tell_more(outcome),
        _tell_time(outcome),
        f"Train it again: {again}",
        ""
        if instead and name != reports.PROBE
        else f"To predict: python -m tf_transfer.predict --run={predict} "
        f"{_texts(outcome, first)}; or --export=FOLDER.",
    ]
    return [sentence for sentence in sentences if sentence]


def _finished(outcome: Outcome) -> dict[str, reports.Scored]:
    """The baselines that are finished, on validation."""
    found = {
        name: reports.open_scored(run.directory.path, "validation")
        for name, run in outcome.baselines.items()
    }
    return {name: one for name, one in found.items() if one is not None}


def _best_baseline(outcome: Outcome) -> tuple[str, str]:
    """Name and path of the best baseline on validation; empty without one."""
    known = _finished(outcome)
    if not known:
        return "", ""
    name = max(known, key=lambda name: known[name].score)
    return name, known[name].path


def _recommend(outcome: Outcome, line: Line, name: str, path: str) -> str:
    """What to use where nothing that was trained is better than a baseline."""
    validated, scored = (
        reports.open_scored(path, kind) for kind in ("validation", "")
    )
    assert validated is not None and scored is not None
    what = name
    if name == reports.PROBE:
        what += ", a regression on the frozen encoder"
    why = "What was trained is not better by more than chance."
    if line.score < validated.score:
        why = "The encoder that was trained is worse."
    return (
        f"{outcome.task}: use {what}, {validated.metric} "
        f"{validated.score:.1f}"
        f"{_between(reports.score_interval(validated), 'over texts')} on "
        f"validation.{_tell_test(scored)} {why} Give it more time (a larger "
        f"--budget) or more labelled texts. It is in {path}"
    )


def _write_without_runs(outcome: Outcome) -> list[str]:
    sentences = []
    known = _finished(outcome)
    if outcome.planner is not None:
        planner = outcome.planner
        name, seconds = planner.least_seconds()
        has_failed = any(map(planner.has_failed, planner.space))
        spent = outcome.clock() + outcome.answer_seconds
        least = spent + 1.3 * seconds
        cost = f": the least, {_what(name)}, takes about {seconds:.0f} s here"
        if outcome.baselines and not known and spent > outcome.budget:
            why = "--budget is too small to fit a baseline"
            least, cost = spent + 3 * outcome.budget, ""  # they begin anew
        elif least > outcome.budget and not has_failed:
            why = "--budget is too small for one epoch of anything"
        else:
            why = "no run ended an epoch in time, or runs failed"
            least = 2 * outcome.budget
        sentences.append(
            f"{outcome.task}: {why}{cost}. Give --budget={_round_up(least)}."
        )
    else:
        sentences.append(f"{outcome.task}: no run has finished yet.")
    for name, one in known.items():
        scored = reports.open_scored(one.path) or one
        sentences.append(
            f"{scored.kind.capitalize()} {scored.metric} of {name}: "
            f"{scored.score:.1f}"
            f"{_between(reports.score_interval(scored), 'over texts')}: "
            f"{scored.path}"
        )
    return sentences


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 180 else formatting.duration(seconds)


def _round_up(seconds: float) -> str:
    if seconds < 120:
        return f"{math.ceil(seconds / 10) * 10}s"
    return f"{math.ceil(seconds / 60)}m"


def _what(name: str) -> str:
    """An approach in words."""
    base, comma, rest = name.partition(", ")
    if base == EVERYTHING:
        said = "everything"
    elif base == "head":
        said = "the output layer alone"
    elif base == "last_0":
        said = "the head alone"
    else:
        number = base.removeprefix("last_")
        blocks = "block" if number == "1" else f"{number} blocks"
        said = f"the last {blocks}"
    return f"{said} ({rest})" if comma else said


def _is_everything(name: str) -> bool:
    """Whether an approach trains every weight."""
    base, _, rest = name.partition(", ")
    return base == EVERYTHING and not re.search("method=|keep_blocks=", rest)


def _rate(planner: Planner, choice: Choice) -> float:
    return planner.space[choice.approach].rates[choice.rate]


def _how_long(line: Line) -> str:
    epochs = count_epochs(line.found.epochs)
    if line.found.choice.linear_epochs:
        return f"{epochs}, the rate falling to 0"
    return f"{epochs} at a constant rate"


def _why(outcome: Outcome, first: Line, rows: Sequence[Line]) -> str:
    assert outcome.planner is not None
    top = outcome.planner.best_of_approaches()[0].choice
    [best] = [line for line in rows if line.found.choice == top]
    if best is first:
        return ""
    word = {
        "score": "the cheapest",
        "seconds_at_prediction": "the fastest to predict",
        "parameters": "the fewest trained parameters",
    }[outcome.objective]
    return (
        f" ({word} within {outcome.loss:g} points of {_what(best.name)}, "
        f"{best.found.score:.1f})"
    )


def _between(interval: tuple[float, float] | None, basis: str) -> str:
    if interval is None:
        return ""
    return f" ({interval[0]:.1f} to {interval[1]:.1f} {basis})"


def _basis(found: Found) -> str:
    count = len(found.scores)
    return f"over {count} seeds" if count >= FEWEST_SEEDS else "over texts"


def _tell_test(scored: reports.Scored) -> str:
    if not scored.record.get("scores_test", True):
        return " Not scored on the test: the first command below does that."
    if scored.kind != "test":
        return " The task has no test."
    interval = reports.score_interval(scored)
    return f" Test: {scored.score:.1f}{_between(interval, 'over texts')}."


def _beside_baselines(outcome: Outcome, scored: reports.Scored) -> str:
    """What training brings beyond each baseline, and the majority baseline."""
    sentences = []
    for name, one in _finished(outcome).items():
        other = reports.open_scored(one.path, scored.kind)
        if other is None:
            continue
        lead = scored.score - other.score
        interval = reports.difference_interval(scored, other)
        verdict = "brings"
        if interval is not None and interval[1] < 0:
            verdict = f"loses to {name}:"
        elif interval is not None and interval[0] <= 0:
            verdict = "brings, which may be chance,"
        sentences.append(
            f"Beyond {name} ({other.score:.1f}) training {verdict} "
            f"{lead:+.1f} points on {scored.kind}"
            f"{_between(interval, 'over texts')}."
        )
    majority_score = reports.majority(scored)
    if majority_score is not None:
        sentences.append(f"The majority baseline scores {majority_score:.1f}.")
    return " ".join(sentences)


def _profile(outcome: Outcome) -> dict[str, Any] | None:
    """The probe's depth profile, where there is one."""
    run = outcome.baselines.get(reports.PROBE)
    return run.directory.profile() if run is not None else None


def _tell_profile(outcome: Outcome) -> str:
    profile = _profile(outcome)
    return "" if profile is None else reports.tell_profile(profile)


def _against_everything(outcome: Outcome, rows: Sequence[Line]) -> list[str]:
    planner = outcome.planner
    assert planner is not None
    first, total = rows[0], sum(line.seconds for line in rows)
    for line in rows:
        if not _is_everything(line.name):
            continue
        share = f" in {line.seconds / total:.0%} of the time" if total else ""
        if line is first:
            others = [other for other in rows if other is not line]
            if not others:
                return []
            second = others[0]
            loss = line.found.score - second.found.score
            return [
                f"Everything is trained{share}; {_what(second.name)} would "
                f"lose {loss:.1f} points of validation."
            ]
        loss = line.found.score - first.found.score
        epochs = count_epochs(line.found.epochs)
        return [
            f"Training everything came to {line.found.score:.1f} on validation"
            f" ({loss:+.1f}){share}, with {epochs} at "
            f"{_rate(planner, line.found.choice):g}."
        ]
    for name in filter(_is_everything, planner.space):
        if planner.has_failed(name):
            return ["Training everything failed; its log is named above."]
        seconds = planner.costs.seconds(name, 1)
        return [
            "Training everything ended no epoch in the time: one takes about "
            f"{_duration(seconds)}, as counted."
        ]
    return []


def _how_sure(planner: Planner, rows: Sequence[Line]) -> list[str]:
    """The answer against the best of another approach, on the same texts.

    They are those that validate: the test is scored of the answer alone.
    """
    if len(rows) < 2:
        return []
    first, other = rows[:2]
    scored = reports.open_scored(first.path, "validation")
    theirs = reports.open_scored(other.path, "validation")
    if scored is None or theirs is None:
        return []
    interval = reports.difference_interval(scored, theirs)
    is_sure = interval is not None and (interval[0] > 0 or interval[1] < 0)
    return [
        f"Against {_what(other.name)} at "
        f"{_rate(planner, other.found.choice):g}: "
        f"{scored.score - theirs.score:+.1f} points on {scored.kind}"
        f"{_between(interval, 'over texts')}: "
        f"{'sure' if is_sure else 'not sure'} for these trained models."
    ]


def _tell_more(outcome: Outcome) -> str:
    planner = outcome.planner
    assert planner is not None
    actions = planner.explorations(outcome.budget)
    if not actions:
        return "With more time: nothing of this search is left to try."
    action: Action = actions[0]
    done = len(planner.curves.get(action.choice, ()))
    verb = "on to" if done else "for"
    seconds = planner.costs.seconds(action.choice.approach, action.aim - done)
    return (
        f"With more time: {_what(action.choice.approach)} at "
        f"{_rate(planner, action.choice):g} {verb} {count_epochs(action.aim)} "
        f"(about {_duration(seconds)}; "
        f"{action.gain or 0:+.1f} points may be expected)."
    )


def _tell_time(outcome: Outcome) -> str:
    assert outcome.planner is not None
    tried = len({choice.approach for choice in outcome.runs})
    known = len(outcome.planner.space)
    return (
        f"Tried: {len(outcome.runs)} runs of {tried} of {known} approaches, "
        f"in {_duration(outcome.clock())} of {_duration(outcome.budget)}."
    )


def command_of(run: Planned, epochs: int | None = None) -> str:
    """The command that trains the answer's model, and finds it.

    Args:
        run: of the answer.
        epochs: that it has; None of a baseline.
    """
    left_out = (
        "--max_seconds=",
        "--max_epochs=",
        "--baseline=",
        "--score_test=",
        "--also_cache=",
    )
    words = [word for word in run.words if not word.startswith(left_out)]
    if epochs is not None:
        words.append(f"--max_epochs={epochs}")
    return shlex.join(["python", "-m", run.experiment.command_module, *words])


def _texts(outcome: Outcome, line: Line) -> str:
    run = outcome.runs[line.choice]
    return " ".join(["--text=..."] * len(run.experiment.task.texts))


# === The page ===


def collect_progress(
    outcome: Outcome,
) -> dict[str, list[tuple[float, float]]]:
    """Of each approach, (seconds, best score on validation so far)."""
    planner = outcome.planner
    progress: dict[str, list[tuple[float, float]]] = {}
    if planner is None:
        return progress
    for step in outcome.history.steps:
        curve = planner.curves.get(step.choice, ())[: step.epochs]
        if not curve:
            continue
        points = progress.setdefault(step.approach, [])
        best = max([max(curve), *(score for _, score in points)])
        points.append((step.ended, best))
    return progress


def _table_of_approaches(
    outcome: Outcome, rows: Sequence[Line]
) -> list[dict[str, Any]]:
    planner = outcome.planner
    table = []
    for line in rows:
        assert planner is not None
        scored = reports.open_scored(line.path)
        table.append(
            {
                "trains": _what(line.name),
                "rate": f"{_rate(planner, line.found.choice):g}",
                "epochs": line.found.epochs,
                "schedule": "falling"
                if line.found.choice.linear_epochs
                else "constant",
                "seeds": len(line.found.scores),
                "validation": f"{line.score:.2f}"
                f"{_between(line.interval, _basis(line.found))}",
                "test": round(scored.score, 2)
                if scored is not None and scored.kind == "test"
                else None,
                "an epoch, s": round(planner.costs.epoch_seconds(line.name), 2),
                "of the search, s": round(line.seconds),
                "trained parameters": line.record["trainable_parameters"],
                "run": line.path,
            }
        )
    return table


def _table_of_runs(outcome: Outcome) -> list[dict[str, Any]]:
    planner = outcome.planner
    if planner is None:
        return []
    return [
        {
            "trains": _what(choice.approach),
            "rate": f"{_rate(planner, choice):g}",
            "schedule": "falling" if choice.linear_epochs else "constant",
            "seed": choice.seed,
            "epochs": len(curve),
            "validation, by epoch": ", ".join(f"{s:.1f}" for s in curve),
        }
        for choice, curve in sorted(planner.curves.items())
    ]
