"""A finished run next to its baselines, and to runs on fewer texts.

Both are runs of the same experiment on the same split; they are trained if need
be.
"""

import dataclasses
import math
import os
from typing import Any, TYPE_CHECKING

from absl import logging

from tf_transfer.data.task import Task
from tf_transfer.runs.trained import Result
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import quote_command

if TYPE_CHECKING:
    from tf_transfer.comparison.finished_runs import Scored

MOST_FOR_BASELINE = 50_000  # training texts; more would take minutes
CURVE_SHARES = (0.25, 0.5)  # of the training texts, in addition to all


def print_answer(experiment: Any, result: Result) -> None:
    """Prints what to use, and a table of a run and its baselines.

    Args:
        experiment: the `Experiment` of the run.
        result: the finished run.
    """
    from tf_transfer.comparison import decisions, finished_runs
    from tf_transfer.data import error_analysis
    from tf_transfer.reports import advice

    run = finished_runs.open_scored(result.directory, "validation")
    run = run or finished_runs.open_scored(result.directory)
    directory, task = RunDirectory(result.directory, None), experiment.data.task
    if run is None:  # a refit without a test
        screen.say(f"\nTo predict: {_predict_command(directory.path, task)}")
        return
    paths = {advice.name_run(run): run.path}
    paths |= _fit_baselines(experiment, run.kind)
    rows = finished_runs.compare_runs(paths, kind=run.kind)
    profile = None
    if advice.PROBE in paths:
        profile = RunDirectory(paths[advice.PROBE], None).profile()
    if profile is not None and profile != directory.profile():
        directory.write_profile(profile)
    choice = advice.advise(rows) if len(rows) > 1 else advice.warn(rows)
    if choice:
        choice = f"{task.name}: {choice}\n"
    answering = paths[decisions.choose(rows, decisions.MARGIN).name]
    majority = ""
    if not math.isnan(run.majority):  # no scores
        majority = (
            f"The majority baseline, a constant, scores {run.majority:.1f}."
        )
    lines = [
        f"\n{choice}{advice.align(advice.make_table(rows))}",
        f"{task.title} in points on {rows[0].scored}, in brackets with "
        f"95 % intervals over {run.drawn}; a score that is equal on all "
        f"samples of them has none. {majority}",
    ]
    if profile is not None:
        lines.append(advice.describe_profile(profile))
    errors = directory.errors()
    wrong = errors.get("test", errors.get("validation"))
    if wrong is not None:
        lines.append(f"Errors (all of them in {run.path}/errors.json):")
        lines.append(error_analysis.summarize(wrong))
    lines.append(f"To predict: {_predict_command(answering, task)}")
    screen.say("\n".join(lines))


def _predict_command(path: str, task: Task) -> str:
    """The command that predicts with a run, and a line on its other input."""
    texts = ["--text=..."] * len(task.texts)
    words = "python", "-m", "tf_transfer.predict", f"--run={path}", *texts
    return (
        f"{quote_command(*words)}\n"
        "In place of --text: --input=FILE --output=FILE"
    )


def _fit_baselines(experiment: Any, kind: str) -> dict[str, str]:
    """The baselines to compare the run with, on the same split.

    Args:
        kind: of the split that is compared.

    Returns:
        Directories by the name of each baseline. What cannot be fitted, or
        would take minutes, is left out.
    """
    from tf_transfer.reports import advice

    settings, paths = experiment.settings, {}
    if not settings.baseline or settings.is_sparse:
        return {}
    for features in ("frozen", "tfidf"):
        if features != settings.features:
            name = advice.name_baseline(
                features, experiment.data.task.is_tagging
            )
            screen.say(f"To compare with: {name}.")
            scored = _score_baseline(experiment, features, kind)
            if scored is not None:
                paths[advice.name_run(scored)] = scored.path
    return paths


def warn_of_tfidf(experiment: Any, path: str) -> str:
    """A sentence if the TF-IDF baseline scores more than a run; else "".

    Args:
        experiment: the `Experiment` of the run.
        path: of its directory; it is finished.
    """
    from tf_transfer.comparison import finished_runs
    from tf_transfer.reports import advice

    run, words = finished_runs.open_scored(path), None
    if run is not None and not experiment.settings.is_sparse:
        words = _score_baseline(experiment, "tfidf", run.kind)
    if run is None or words is None or words.score <= run.score:
        return ""
    gain = words.minus(run).show(1, "+", " points")
    return (
        f"{experiment.data.name}: {advice.name_run(words)}, without an "
        f"encoder, is {gain} above {advice.name_run(run)} on "
        f"{len(run.ids):,} {run.kind} texts. features='tfidf' fits it."
    )


def _score_baseline(
    experiment: Any, features: str, kind: str
) -> "Scored | None":
    """The scores of a baseline on the same split; see `_score_another`."""
    settings = dataclasses.replace(experiment.settings, features=features)
    return _score_another(experiment, settings, kind, MOST_FOR_BASELINE)


def print_learning_curve(experiment: Any, result: Result) -> None:
    """Trains on shares of the training texts, and prints what the last adds.

    Args:
        experiment: the `Experiment` of a run on all of them.
        result: that run.
    """
    from tf_transfer.comparison import finished_runs
    from tf_transfer.reports import advice

    run = finished_runs.open_scored(result.directory)
    config = RunDirectory(result.directory, None).config()
    if run is None or config is None:
        return
    size, scored = config["split_sizes"]["train"], {}
    for share in CURVE_SHARES:
        count = round(share * size)
        screen.say(f"\nLearning curve: {count:,} of {size:,} training texts.")
        another = dataclasses.replace(
            experiment.settings, max_train_examples=count
        )
        one = _score_another(experiment, another, run.kind)
        if one is not None:  # too few texts may train nothing
            scored[count] = one
    if scored:
        screen.say(f"\n{advice.describe_curve({**scored, size: run})}")


def _score_another(
    experiment: Any, settings: Any, kind: str, most: int | None = None
) -> "Scored | None":
    """The scores of a run with other settings, which it trains if need be.

    Args:
        settings: Of the run.
        kind: Of the split that is scored.
        most: Training texts that it may have; None for any number.

    Returns:
        None if there are more, or if it cannot be trained.
    """
    from tf_transfer.comparison import finished_runs

    settings = dataclasses.replace(settings, rerun=False, learning_curve=False)
    try:
        # A head of the user's own is for this run's features.
        is_alike = settings.features == experiment.settings.features
        head = experiment.head if is_alike else None
        other = type(experiment)(settings, experiment.data.given_source, head)
        other.data.reports_problems = False  # this run has reported them
        path = other.find_run().path
        if not os.path.isfile(os.path.join(path, "result.json")):
            [texts] = other.data.examples.values()
            if most is not None and len(texts["train"][""]) > most:
                return None
            other.train(prints_answer=False)
        return finished_runs.open_scored(path, kind)
    except UserError as error:  # this run is finished
        logging.warning("No score of %s: %s", settings.approach, error)
        return None
