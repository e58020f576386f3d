"""A search, from its settings to its answer."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.config.settings import pick
from tf_transfer.models import loading
from tf_transfer.reports import advice
from tf_transfer.searches import answer, costs, page
from tf_transfer.searches.history import Clock, History
from tf_transfer.searches.plan import (
    count_works,
    list_approaches,
    Plan,
    PROBE,
)
from tf_transfer.searches.planner import (
    Action,
    answer_seconds,
    MARGIN,
    MARGIN_UNMEASURED,
    noise_of,
    Options,
    Planner,
)
from tf_transfer.searches.runner import Runner, say
from tf_transfer.searches.space import Choice, DECIDED, VARIED
from tf_transfer.sweeps import execute
from tf_transfer.sweeps.estimate import TaskSize
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import Interrupted, UserError

# Share of the budget that scoring the test may take: else it is not scored.
TEST_SHARE = 0.15
# Share of the time left that the probe may take: else it is left out.
PROBE_SHARE = 0.6
LEAST_SECONDS = 1.0  # with fewer seconds left, a search repeats its answer
FEWEST_VALIDATING = 20  # texts: fewer distinguish no scores


def check_validation(settings: Any, validation: Mapping[str, Any]) -> int:
    """The number of validation texts.

    Args:
        settings: of the search.
        validation: by split name; see `RunData.read`.

    Raises:
        UserError: there are too few, or all have one label.
    """
    texts = validation.get("", ())
    if len(texts) < FEWEST_VALIDATING:
        raise UserError(
            f"--task={settings.task_name}: only {len(texts)} validation texts; "
            f"a search needs {FEWEST_VALIDATING}. Give a larger "
            "--validation_fraction, or more labelled texts."
        )
    labels: Any = getattr(texts, "labels", None)  # tagged sentences have tags
    if np.ndim(labels) == 1 and len(np.unique(labels)) == 1:
        raise UserError(
            f"--task={settings.task_name}: all {len(texts)} validation texts "
            "have one label, so a search cannot choose by them. Give another "
            "--split_seed, or more labelled texts."
        )
    return len(texts)


class Search:
    """A search, from its settings to its answer.

    Args:
        settings: resolved.
        began: when the command began, by `time.monotonic`.

    Raises:
        UserError: the task, the data or `--out` cannot be used. Nothing was
            written.
    """

    def __init__(self, settings: Any, began: float) -> None:
        self.settings = settings
        experiment = train.Train(pick(train.Settings, settings, refit=False))
        data = experiment.data
        if not data.reads_without_tensorflow:
            command_line.import_tensorflow()
        [texts] = data.examples.values()
        self.validating = check_validation(settings, texts["validation"])
        self.training = len(texts["train"][""])
        self.testing = sum(map(len, texts["test"].values()))
        self.size = TaskSize(data.task, self.training, self.validating)
        data.forget()
        self.history = History(settings.out, self._key(experiment))
        record = self.history.record
        # Without time that is left the answer is given once more.
        self.end = settings.seconds - answer_seconds(settings.seconds)
        self.is_over = record.spent >= self.end - LEAST_SECONDS
        self.clock = Clock(began, self.history)
        self.planner: Planner | None = None
        self._probe_seconds = 0.0  # of this start
        self.refit: Planned | None = None
        self.runs: dict[Choice, Planned] = {}
        self._plan_runs(data.task.is_tagging)

    def _plan_runs(self, is_tagging: bool) -> None:
        """Plans the runs of the space, and the baselines.

        Args:
            is_tagging: whether words are labelled.
        """
        settings = self.settings
        shape = loading.read_shape(settings.model, settings.keep_blocks)
        self.space = list_approaches(settings, shape.blocks)
        # Equal to `record.ended` where nothing is left to do.
        names = (approach.name for approach in self.space)
        self._asked = [settings.seconds, settings.max_epochs, *names]
        self.plan = Plan(settings, self.space)
        for approach in self.space:  # a run takes every combination
            self.plan(Action(approach.choices[0], 1, 0.0), None)
        self.works = count_works(self.space, self.plan, self.size, self.testing)
        self.probe = self.plan.baseline("frozen")
        self.baselines = {}
        if self.training <= train.MOST_FOR_BASELINE:
            name = advice.name_baseline("tfidf", is_tagging)
            self.baselines[name] = self.plan.baseline("tfidf")
        self.baselines[advice.PROBE] = self.probe

    def _key(self, experiment: train.Train) -> dict[str, Any]:
        settings = experiment.settings
        varied = [
            n for flag, n in VARIED.items() if getattr(self.settings, flag)
        ]
        left_out = {*DECIDED, *varied, "max_epochs"}
        hashed = settings.hashed().items()
        return {
            **{name: value for name, value in hashed if name not in left_out},
            "frozen_prefix": settings.frozen_prefix,
            "cache_dtype": settings.cache_dtype,
            **experiment.identities,
        }

    def run(self) -> None:
        """Searches until the budget is over, or nothing is worth trying."""
        settings = self.settings
        run_states = RunStates(settings.out, [])
        with execute.lock(run_states.folder):
            if not self.is_over and self.history.record.ended != self._asked:
                self.clock.start()
            try:
                with execute.open_pool(
                    [self.probe],
                    jobs=settings.jobs,
                    out=settings.out,
                    engine=settings.engine,
                    ray_address=settings.ray_address,
                ) as pool:
                    runner = Runner(
                        self.plan,
                        pool,
                        run_states,
                        self.history,
                        self.clock,
                        self.end,
                    )
                    self.runs = runner.runs
                    self._work(runner)
            except Interrupted:
                say("Stopped: the answer so far.")
            finally:
                self.clock.stop()
            page.give(self)

    def _work(self, runner: Runner) -> None:
        self._fit_baselines(runner)
        planner = self.planner = self._make_planner()
        runner.recall(planner)
        if not self.is_over:
            runner.reserved = self._seconds_for_test(planner)
            if self.history.record.ended != self._asked:
                runner.do_all(planner)
                self.history.record.ended = self._asked
        self._score_answer(runner, planner)

    def _fit_baselines(self, runner: Runner) -> None:
        """Fits the baselines; the probe in a share of the time at most."""
        for run in self.baselines.values():
            if self.is_over or run.directory.result():
                continue
            began = self.clock()
            if run is self.probe:
                runner.reserved = (1 - PROBE_SHARE) * runner.left
            runner.do_alone(run)
            runner.reserved = 0.0
            if run is self.probe:
                self._probe_seconds = self.clock() - began

    def _make_planner(self) -> Planner:
        """A planner that knows the baselines, and how fast the probe ran."""
        settings, floor = self.settings, 0.0
        for name, run in self.baselines.items():
            result = run.directory.result()
            if result is not None:
                metric = result["metric"]
                score = 100 * result["validation"][metric]
                floor = max(floor, score)
                say(f"Validation {metric} of {name}: {score:.1f}")
        return Planner(
            self.space,
            costs.Costs(
                {a.name: self.works[a.name] for a in self.space},
                self._measure_pass(),
            ),
            Options(
                settings.seconds,
                settings.max_epochs,
                train.usual_epochs(self.training, settings.batch_size),
                max_loss=settings.max_loss,
            ),
            noise_of(self.validating),
            floor,
        )

    def _measure_pass(self) -> float:
        """Seconds per operation of the probe's pass.

        At least that if the probe was stopped; 0 if it was not begun.
        """
        fitted = self.probe.directory.result()
        seconds = self._probe_seconds
        if fitted is not None:
            seconds = fitted["prefix_build_seconds"] or 0.0
        return seconds / self.works[PROBE].build

    def _seconds_for_test(self, planner: Planner) -> float:
        """Seconds that scoring the test takes at most.

        The encoder runs over texts that it has not seen. 0 where there are
        none, or it would take too long.
        """
        validating = max(map(planner.costs.predict_seconds, planner.space))
        seconds = costs.START_SECONDS + MARGIN_UNMEASURED * (
            validating * self.testing / self.validating
        )
        is_short = seconds <= TEST_SHARE * self.settings.seconds
        return seconds if self.testing and is_short else 0.0

    def _score_answer(self, runner: Runner, planner: Planner) -> None:
        """Scores the answer on the test, once: a refit, or what was chosen."""
        rows = answer.rank_approaches(self)
        if not rows:
            return
        _, chosen = answer.recommend(self, rows)
        if chosen.is_baseline:
            return
        row, refit = rows[0], None
        if self.settings.refit and self.testing:
            # On all texts, for as many updates.
            epochs = row.choice.linear_epochs or row.record["best_epoch"]
            epochs *= self.training / (self.training + self.validating)
            action = Action(row.choice, max(1, round(epochs)), 0.0)
            refit = self.plan(action, None, score_test=True, refit=True)
            seconds = planner.costs.seconds(row.name, action.epochs)
            seconds *= MARGIN * (1 + self.validating / self.training)
            if (
                runner.reserved
                and refit.directory.result() is None
                and seconds <= runner.left
            ):
                runner.do_alone(refit)
        if answer.is_better_refit(row, refit):
            self.refit = refit
        elif runner.reserved:
            action = Action(row.choice, row.record["epochs_run"], 0.0)
            runner.reserved = 0.0
            runner.extend_alone(self.plan(action, None, score_test=True))
