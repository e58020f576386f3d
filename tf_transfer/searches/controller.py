"""A search, from its settings to its answer.

The scores are in the run directories alone, the time in `search_runs.Clock`.
"""

import contextlib
import math
import statistics
import time
from typing import Any

from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.config.settings import pick
from tf_transfer.data import groups as groups_lib
from tf_transfer.reports import advice
from tf_transfer.runs.run_comparison import MOST_FOR_BASELINE
from tf_transfer.searches import (
    answer,
    ladder as ladder_lib,
    search_runs as runs_lib,
)
from tf_transfer.searches.ladder import Choice, Costs, Ladder, MARGIN
from tf_transfer.searches.search_runs import Clock, PROBE, TFIDF
from tf_transfer.sweeps import execute, work
from tf_transfer.sweeps.estimate import TaskSize
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import formatting, screen
from tf_transfer.utils.errors import Interrupted, UserError
from tf_transfer.utils.json_files import Record

FEW_TEXTS = 500  # with fewer labelled ones, finalists are cross-validated
MUCH_CUT = 0.1  # share of the texts; with more, --long_texts is varied
# Seconds that the answer takes (reading predictions, drawing, writing), and
# its share of the budget at most.
ANSWER_SECONDS, ANSWER_SHARE = 8.0, 0.15
# A run that exceeds its time by this much is stopped, even within an epoch.
GRACE_SECONDS = 2.0
STOP_SECONDS = 10.0  # for it to save its state, before it is killed


class OutOfTime(Exception):
    """A run did not end in time."""


def answer_seconds(budget: float) -> float:
    """Seconds of a budget that the answer takes."""
    return min(ANSWER_SECONDS, ANSWER_SHARE * budget)


class Search:
    """A search, from its settings to its answer.

    Args:
        settings: resolved.
        began: when the command began, by `time.monotonic`.

    Attributes:
        runs: of the ladder, that are finished.
        floor: the runs of the baselines, by name and fold.
        ladder: None until the baselines are fitted.
        refit: the answer's run on all labelled texts; or None.

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
        self.validating = runs_lib.check_validation(
            settings, texts["validation"]
        )
        labelled = texts["train"][""]
        self.training = len(labelled)
        self.testing = sum(map(len, texts["test"].values()))
        self.seconds_guess = runs_lib.guess_seconds(
            labelled, settings.max_length
        )
        size = TaskSize(data.task, self.training, self.validating)
        groups = labelled.groups
        has_enough_groups = groups is None or groups_lib.can_hold_out(
            groups, settings.validation_fraction, ladder_lib.SEEDS - 1
        )
        self.has_folds = (
            not data.task.validation
            and self.training + self.validating < FEW_TEXTS
            and ladder_lib.SEEDS * settings.validation_fraction <= 1
            and has_enough_groups
        )
        data.forget()
        self.plan = runs_lib.Runs(settings, size, self.testing, self.has_folds)
        self.clock = Clock(settings.out, self._key(experiment), began)
        self.end = settings.seconds - answer_seconds(settings.seconds)
        self.ladder: Any = None
        self.runs: dict[Choice, Planned] = {}
        self.refit: Planned | None = None
        folds = range(ladder_lib.SEEDS if self.has_folds else 1)
        self.floor: dict[str, list[Planned]] = {}
        for features in (TFIDF, PROBE):
            if features == PROBE or self.training <= MOST_FOR_BASELINE:
                name = advice.name_baseline(features, data.task.is_tagging)
                self.floor[name] = [
                    self.plan.baseline(features, fold) for fold in folds
                ]
        self._run_states: Any = None
        self._pool: Any = None
        self._reserved = 0.0  # seconds before the end, for the test

    def _key(self, experiment: train.Train) -> Record:
        settings = experiment.settings
        left_out = ("max_epochs", "trainable_layers", "lr", "select")
        hashed = settings.hashed().items()
        return {
            **{name: value for name, value in hashed if name not in left_out},
            "frozen_prefix": settings.frozen_prefix,
            "cache_dtype": settings.cache_dtype,
            **experiment.identities,
        }

    @property
    def probe(self) -> Planned:
        """The run of the probe."""
        return self.floor[advice.PROBE][0]

    @property
    def left(self) -> float:
        """Seconds that there are for the next run."""
        return self.end - self.clock() - self._reserved

    def run(self) -> answer.Values:
        """Searches until the budget is over, or nothing is left to do.

        Returns:
            The answer; see `answer.report`.
        """
        settings = self.settings
        self._run_states = RunStates(settings.out, [])
        with execute.lock(self._run_states.folder):
            try:
                with execute.open_pool(
                    [self.probe],
                    jobs=settings.jobs,
                    out=settings.out,
                    engine=settings.engine,
                    ray_address=settings.ray_address,
                ) as self._pool:
                    self._pool.save_seconds = STOP_SECONDS
                    self._work()
            except Interrupted:
                screen.say("Stopped: the answer so far.")
            finally:
                self.clock.stop()
            return answer.report(self)

    def _work(self) -> None:
        spent = self.clock()
        if spent:
            whole = formatting.duration(self.settings.seconds)
            screen.say(
                f"This search goes on: {formatting.duration(spent)} of {whole} "
                "are spent."
            )
        if any(not runs[0].directory.result() for runs in self.floor.values()):
            names = " and ".join(self.floor)
            screen.say(f"The baselines come first: {names}.")
        self._do(*(runs[0] for runs in self.floor.values()))
        for name, scores in self.score_floor().items():
            mean = statistics.fmean(scores.values())
            screen.say(f"{name}: validation {mean:.1f}")
        self.ladder = self.make_ladder()
        self._recall()
        self._climb()
        self._score_answer()

    # === The floor ===

    def score_floor(self) -> dict[str, dict[int, float]]:
        """The validation scores of the baselines, by name and fold."""
        scores: dict[str, dict[int, float]] = {}
        for name, runs in self.floor.items():
            for fold, run in enumerate(runs):
                result = run.directory.result()
                if result is not None:
                    score = 100 * result["validation"][result["metric"]]
                    scores.setdefault(name, {})[fold] = score
        # They are compared on the same folds.
        shared = set.intersection(*map(set, scores.values())) if scores else ()
        if not shared:
            return {}
        return {
            name: {fold: of_fold[fold] for fold in sorted(shared)}
            for name, of_fold in scores.items()
        }

    def best_floor(self) -> dict[int, float]:
        """The scores of the best baseline by fold; 0 where there is none."""
        return max(
            self.score_floor().values(),
            key=lambda scores: statistics.fmean(scores.values()),
            default={0: 0.0},
        )

    def _measure_pass(self) -> float:
        """Seconds per operation of the probe's pass; a guess without it."""
        result = self.probe.directory.result()
        if result is None:
            return self.seconds_guess
        seconds = result["prefix_build_seconds"] or 0.0
        return seconds / self.plan.count_probe().build

    def make_ladder(self) -> Ladder:
        """The ladder, without results."""
        result = self.probe.directory.result() or {}
        is_cut = result.get("cut_texts", 0.0) > MUCH_CUT
        if is_cut and self.settings.long_texts == "head":
            self.plan.add_approaches("head_tail")
        stores = bool(self.probe.settings.also_cache)
        return Ladder(
            self.plan.approaches,
            Costs(
                self.plan.approaches,
                self._measure_pass(),
                [runs_lib.CACHE] if result and stores else [],
            ),
            self.best_floor(),
            ladder_lib.noise_of(self.validating),
            self.settings.seconds,
        )

    # === Before the first run ===

    def describe_rungs(self) -> str:
        """The rungs and their estimated minutes, a table."""
        ladder = self.ladder = self.make_ladder()
        floor = self._measure_pass() * self.plan.count_probe().build
        left = self.left - floor - self._test_seconds()
        names = [*ladder.approaches]
        rows = [("rung", "approach", "rate", "epochs", "about")]
        while action := ladder.next(left):
            left -= action.seconds
            choice, done = action.choice, ladder.count_epochs(action.choice)
            # As if the largest were the best: that takes longest.
            points = [float(names.index(choice.approach))] * action.epochs
            epoch = ladder.costs.epoch_seconds(choice.approach)
            ladder.tell(choice, points, [epoch] * (action.epochs - done))
            rows.append(
                (
                    action.rung,
                    choice.approach,
                    f"{choice.rate:g}",
                    str(action.epochs),
                    formatting.duration(action.seconds),
                )
            )
        about = formatting.duration(floor)
        return (
            f"{' and '.join(self.floor)}: about {about}.\n"
            f"{formatting.aligned(rows)}\n"
            "The scores decide which runs go on; here it is the largest, which "
            "take longest."
        )

    # === Runs ===

    def _recall(self) -> None:
        """Tells the ladder of all finished runs."""
        ladder = self.ladder
        for approach in ladder.approaches.values():
            for rate in approach.rates:
                for seed in range(ladder_lib.SEEDS):
                    choice = Choice(approach.name, rate, seed)
                    run = self.plan.train(choice, 1, 1.0)
                    if self._run_states.failure(run):
                        ladder.failed.add(choice)
                    with contextlib.suppress(OSError, UserError):
                        # What is damaged, the run itself reports.
                        result = run.directory.result()
                        if result is not None:
                            self._tell(choice, run, result)

    def _tell(
        self,
        choice: Choice,
        run: Planned,
        result: Record,
        seconds: float | None = None,
    ) -> float:
        """Tells the ladder of a run, or of its continuation.

        Args:
            choice: the run.
            run: its directory is read.
            result: the content of `result.json`.
            seconds: from its order to its result; None if that is not known.

        Returns:
            Its best validation score, in points.
        """
        done, epochs = self.ladder.count_epochs(choice), run.directory.epochs()
        scores = [100 * line["validation"][result["metric"]] for line in epochs]
        if run.settings.is_contrastive:  # its last epoch is its result
            scores = scores[-1:] * len(scores)
        new = [
            line["train_seconds"] + line["eval_seconds"]
            for line in epochs[done:]
        ]
        self.runs[choice] = run
        if new:
            built = 0.0 if done else result["prefix_seconds"] or 0.0
            self.ladder.tell(choice, scores, new, built, seconds)
        return max(scores)

    def _do(self, *runs: Planned) -> None:
        """Does runs one after another, while there is time."""
        for run in runs:
            if self._run_states.result(run) is None and self.left > 0:
                scheduler = self._open_scheduler()
                scheduler.add(run)
                self._work_off(scheduler)

    def _open_scheduler(self) -> work.Scheduler:
        def check_time() -> None:
            if self.left < -GRACE_SECONDS:
                raise OutOfTime

        return work.Scheduler(self._run_states, self._pool, on_poll=check_time)

    def _work_off(self, scheduler: work.Scheduler) -> None:
        """Works until no run is left, or the time is over."""
        self.clock.start()
        try:
            scheduler.work()
        except OutOfTime:
            screen.say("A run took longer than expected, and was stopped.")

    def _climb(self) -> None:
        """Does what the ladder asks for, first with one seed, then with more.

        Of few texts each further seed is a fold, on which the baselines are
        fitted as well.
        """
        ladder = self.ladder
        refit = self._baseline_seconds(self.probe)
        tested = max(self._test_seconds(), refit)
        for seed in range(ladder_lib.SEEDS):
            ladder.seeds = seed + 1
            self._reserved = tested
            if seed:
                self._reserved += self._refit_seconds()
            if ladder.next(self.left) is None:
                continue
            if seed and self.has_folds:
                self._do(*(runs[seed] for runs in self.floor.values()))
                ladder.floor = self.best_floor()
            self._do_rungs()
        self._reserved = tested

    def _do_rungs(self) -> None:
        """Does the runs that the ladder asks for."""
        ladder = self.ladder
        # By name of the run: the run of the ladder, and when it began.
        orders: dict[str, tuple[Choice, float]] = {}
        scheduler = self._open_scheduler()

        def order() -> None:
            """Gives the workers the next runs."""
            while len(orders) < self._pool.jobs:
                busy = [choice for choice, _ in orders.values()]
                action = ladder.next(self.left, busy)
                if action is None:
                    return
                choice = action.choice
                # A run counts its seconds from its training until it is saved.
                overhead = ladder.costs.overhead_seconds(choice.approach)
                seconds = max(min(action.most, self.left) - overhead, 1.0)
                run = self.plan.train(choice, action.epochs, seconds)
                orders[run.name] = choice, self.clock()
                scheduler.add(run)

        def on_event(event: work.Event, run: Planned, detail: Record) -> None:
            choice, began = orders.pop(run.name)
            if event in ("started", "retried"):
                # It may have waited for a feature cache.
                orders[run.name] = choice, self.clock()
                return
            self._end_run(choice, run, began, detail, event == "failed")
            order()

        scheduler.on_event = on_event
        order()
        self._work_off(scheduler)

    def _end_run(
        self,
        choice: Choice,
        run: Planned,
        began: float,
        detail: Record,
        has_failed: bool,
    ) -> None:
        """Reports a run to the ladder and on the screen.

        Args:
            choice: the run.
            run: its directory is read.
            began: seconds of the search.
            detail: its result, or the record of its failure.
            has_failed: whether it failed.
        """
        title = f"{choice.approach} at {choice.rate:g}"
        title += f", seed {choice.seed}" if choice.seed else ""
        if has_failed:
            self.ladder.failed.add(choice)
            log = self._run_states.log_file(run)
            screen.say(f"{title}: failed ({detail['reason']}); {log}")
            return
        seconds = self.clock() - began
        best = self._tell(choice, run, detail, seconds)
        self.clock.save()
        epochs = formatting.count(self.ladder.count_epochs(choice), "epoch")
        screen.say(
            f"{time.strftime('%T')} {title}, {epochs}: "
            f"validation {detail['metric']} {best:.1f}  ({seconds:.0f} s)"
        )

    # === The end ===

    def _test_seconds(self) -> float:
        """Seconds that scoring the test takes; 0 where there is none."""
        if not self.testing:
            return 0.0
        costs, name = self.ladder.costs, [*self.ladder.approaches][-1]
        share = self.testing / self.validating
        seconds = costs.predict_seconds(name) * share
        return costs.overhead_seconds(name) + MARGIN * seconds

    def _refit_seconds(self) -> float:
        """Seconds that the best setting takes on all labelled texts."""
        ranked = self.ladder.rank()
        if not (self.settings.refit and ranked):
            return 0.0
        name = ranked[0].choice.approach
        seconds = self.ladder.whole_seconds(name)
        return MARGIN * (1 + self.validating / self.training) * seconds

    def _baseline_seconds(self, run: Planned) -> float:
        """Seconds that a fitted baseline takes on all labelled texts."""
        result = run.directory.result()
        if result is None or not self.settings.refit:
            return 0.0
        seconds = result["train_seconds"] - (result["prefix_seconds"] or 0.0)
        return MARGIN * (ladder_lib.OVERHEAD_SECONDS + seconds)

    def _score_answer(self) -> None:
        """Scores the answer on the test, once: a refit, or what was chosen.

        The test score of a baseline is known, but it is fitted again, too.
        """
        rows = answer.rank_approaches(self)
        if not (rows or self.score_floor()):
            return
        advised = answer.recommend(self, rows)[1]
        row = None if advised.is_baseline else rows[0]
        if row is None:
            run = self.floor[advised.name][0]
            seconds = self._baseline_seconds(run)
            refit = self.plan.baseline(run.settings.features, refit=True)
        else:
            seconds = self._refit_seconds()
            # On all texts, for as many updates.
            share = self.training / (self.training + self.validating)
            epochs = max(1, round(row.record["best_epoch"] * share))
            refit = self.plan.train(
                row.choice, epochs, score_test=True, refit=True
            )
        self._reserved = 0.0
        if self.settings.refit and seconds <= self.left:
            self._do(refit)
        if self.settings.refit and answer.is_sound_refit(refit, row):
            self.refit = refit
        elif self.testing and row is not None:
            self.end = math.inf  # also where runs took all of the time
            epochs = row.record["epochs_run"]
            self._do(self.plan.train(row.choice, epochs, score_test=True))
