"""A finished run next to its baselines, and to runs on fewer texts.

Both are runs of the same experiment on the same split; they are trained if need
be.
"""

import math
from typing import Protocol, TYPE_CHECKING

from tf_transfer.data.task import Task
from tf_transfer.runs.run_data import RunData
from tf_transfer.runs.task_settings import TaskSettings
from tf_transfer.runs.trained import Result
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import screen
from tf_transfer.utils.formatting import quote_command

if TYPE_CHECKING:
    from tf_transfer.comparison.finished_runs import Scored

MOST_FOR_BASELINE = 50_000  # training texts; more would take minutes
CURVE_SHARES = (0.25, 0.5)  # of the training texts, in addition to all


class TaskRun(Protocol):
    """A run on a task, as `train.Train` is, and others like it."""

    @property
    def settings(self) -> TaskSettings:
        """The settings, resolved."""

    @property
    def data(self) -> RunData[TaskSettings]:
        """The texts and their task."""

    def train_another(
        self,
        features: str | None = None,
        max_train_examples: int | None = None,
        most: int | None = None,
    ) -> str:
        """Trains a run with another setting on the same texts, if need be.

        Args:
            features: The setting; None for that of this run.
            max_train_examples: The setting; None for that of this run.
            most: Training texts that it may have; None for any number.

        Returns:
            The path of its directory, or "" if it has too many texts or cannot
            be trained.
        """


def print_answer(
    run: TaskRun, result: Result, with_baselines: bool = True
) -> None:
    """Prints what to use, and a table of a run and its baselines.

    Args:
        run: What was trained.
        result: The finished run.
        with_baselines: Whether to fit them.
    """
    from tf_transfer.comparison import compare, decisions, finished_runs
    from tf_transfer.data import error_analysis
    from tf_transfer.reports import advice

    scored = finished_runs.open_scored(result.directory, "validation")
    scored = scored or finished_runs.open_scored(result.directory)
    directory, task = RunDirectory(result.directory, None), run.data.task
    if scored is None:  # a refit without a test
        screen.say(f"\nTo predict: {_predict_command(directory.path, task)}")
        return
    paths = {advice.name_run(scored): scored.path}
    if with_baselines and not run.settings.is_sparse:
        paths |= _fit_baselines(run, scored.kind)
    rows = compare.compare_runs(compare.open_candidates(paths, scored.kind))
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
    if not math.isnan(scored.majority):  # no scores
        majority = (
            f"The majority baseline, a constant, scores {scored.majority:.1f}."
        )
    lines = [
        f"\n{choice}{advice.align(advice.make_table(rows))}",
        f"{task.title} in points on {rows[0].scored}, in brackets with "
        f"95 % intervals over {scored.drawn}; a score that is equal on all "
        f"samples of them has none. {majority}",
    ]
    if profile is not None:
        lines.append(advice.describe_profile(profile))
    errors = directory.errors()
    wrong = errors.get("test", errors.get("validation"))
    if wrong is not None:
        lines.append(f"Errors (all of them in {scored.path}/errors.json):")
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


def _fit_baselines(run: TaskRun, kind: str) -> dict[str, str]:
    """The baselines to compare a run with, on the same split.

    Args:
        run: The run that is compared.
        kind: Of the split that is compared.

    Returns:
        Directories by the name of each baseline. What cannot be fitted, or
        would take minutes, is left out.
    """
    from tf_transfer.reports import advice

    paths = {}
    for features in ("frozen", "tfidf"):
        if features != run.settings.features:
            name = advice.name_baseline(features, run.data.task.is_tagging)
            screen.say(f"To compare with: {name}.")
            scored = _score_another(run, kind, features, most=MOST_FOR_BASELINE)
            if scored is not None:
                paths[advice.name_run(scored)] = scored.path
    return paths


def warn_of_tfidf(run: TaskRun, path: str) -> str:
    """A sentence if the TF-IDF baseline scores more than a run; else "".

    Args:
        run: What was trained.
        path: Of its directory; it is finished.
    """
    from tf_transfer.comparison import finished_runs
    from tf_transfer.reports import advice

    scored, words = finished_runs.open_scored(path), None
    if scored is not None and not run.settings.is_sparse:
        words = _score_another(
            run, scored.kind, "tfidf", most=MOST_FOR_BASELINE
        )
    if scored is None or words is None or words.score <= scored.score:
        return ""
    gain = words.minus(scored).show(1, "+", " points")
    return (
        f"{run.data.name}: {advice.name_run(words)}, without an "
        f"encoder, is {gain} above {advice.name_run(scored)} on "
        f"{len(scored.ids):,} {scored.kind} texts. features='tfidf' fits it."
    )


def print_learning_curve(run: TaskRun, result: Result) -> None:
    """Trains on shares of the training texts, and prints what the last adds.

    Args:
        run: On all training texts.
        result: That run, finished.
    """
    from tf_transfer.comparison import finished_runs
    from tf_transfer.reports import advice

    whole = finished_runs.open_scored(result.directory)
    config = RunDirectory(result.directory, None).config()
    if whole is None or config is None:
        return
    size, scored = config["split_sizes"]["train"], {}
    for share in CURVE_SHARES:
        count = round(share * size)
        screen.say(f"\nLearning curve: {count:,} of {size:,} training texts.")
        another = _score_another(run, whole.kind, max_train_examples=count)
        if another is not None:  # too few texts may train nothing
            scored[count] = another
    if scored:
        screen.say(f"\n{advice.describe_curve({**scored, size: whole})}")


def _score_another(
    run: TaskRun,
    kind: str,
    features: str | None = None,
    max_train_examples: int | None = None,
    most: int | None = None,
) -> "Scored | None":
    """The scores of a run with another setting on a split.

    Args:
        run: The run without the other setting.
        kind: Of the split.
        features: See `TaskRun.train_another`.
        max_train_examples: See `TaskRun.train_another`.
        most: See `TaskRun.train_another`.
    """
    from tf_transfer.comparison import finished_runs

    path = run.train_another(features, max_train_examples, most)
    return finished_runs.open_scored(path, kind) if path else None
