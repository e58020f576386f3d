"""A search, from its settings to its answer.

The scores are in the run directories alone, the time in `clock.Clock`.
"""

import contextlib
import functools
import math
import time

import numpy as np

from tf_transfer import train
from tf_transfer.comparison import decisions
from tf_transfer.comparison.finished_runs import open_scored
from tf_transfer.config import command_line
from tf_transfer.config.settings import pick
from tf_transfer.searches import answer
from tf_transfer.searches.candidates import Candidates, guess_seconds
from tf_transfer.searches.clock import Clock
from tf_transfer.searches.costs import Costs, RunSeconds
from tf_transfer.searches.race import Action, Race, ROUNDS
from tf_transfer.searches.settings import Settings
from tf_transfer.sweeps import execute, work
from tf_transfer.sweeps.estimate import TaskSize
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.training.checkpoint import Checkpoints
from tf_transfer.utils import formatting, screen
from tf_transfer.utils.errors import Interrupted, UserError
from tf_transfer.utils.json_files import Record

FEWEST_LABELLED = 16  # texts: fewer distinguish no scores
# Seconds that the answer takes (reading predictions, drawing, writing), and
# its share of the budget at most.
ANSWER_SECONDS, ANSWER_SHARE = 8.0, 0.15
# A run that exceeds its time by this much is stopped, even within an epoch.
GRACE_SECONDS = 2.0
STOP_SECONDS = 10.0  # for it to save its state, before it is killed
# A refit whose last training loss is this many times those of the folds has
# not trained (ours).
WORSE_LOSS = 1.5


class OutOfTime(Exception):
    """A run did not end in time."""


def read_seconds(run: Planned, result: Record) -> RunSeconds:
    """The seconds of the parts of a finished run.

    Args:
        run: Its directory is read.
        result: The content of its `result.json`.
    """
    built = result["prefix_seconds"] or 0.0
    epochs = [
        line["train_seconds"] + line["eval_seconds"]
        for line in run.directory.epochs()
    ]
    if not run.settings.trains:
        epochs = [max(sum(epochs) - built, 0.0)]
    return RunSeconds(epochs, built, result["prefix_build_seconds"] or 0.0)


def answer_seconds(budget: float) -> float:
    """Seconds of a budget that the answer takes."""
    return min(ANSWER_SECONDS, ANSWER_SHARE * budget)


class Search:
    """A search, from its settings to its answer.

    Args:
        settings: Resolved.
        began: When the command began, by `time.monotonic`.

    Attributes:
        race: Decides what runs next, and has the results.
        plan: Makes the runs.
        labelled: Number of labelled texts, validation texts included.
        has_test: Whether the task has a test.
        folds: Number of folds; 1 where validation texts are given.
        too_long: Candidates that there is no time to train on all labelled
            texts; they are not the answer.
        refit: The run of the answer on all labelled texts; or None.

    Raises:
        UserError: The task, the data or `--out` cannot be used. Nothing was
            written.
    """

    def __init__(self, settings: Settings, began: float) -> None:
        self.settings = settings
        self.experiment = experiment = train.Train(
            pick(
                train.Settings,
                settings,
                refit=False,
                precision=settings.usual_precision,
            )
        )
        data = experiment.data
        if not data.reads_without_tensorflow:
            command_line.import_tensorflow()
        [texts] = data.examples.values()
        train_texts = texts["train"][""]
        if not texts["validation"]:
            raise UserError(
                "--validation_fraction=0: holds out no texts, so that nothing "
                "decides. Leave it out for folds of a fifth."
            )
        held = len(texts["validation"][""])
        self.labelled = labelled = len(train_texts) + held
        labels = train_texts.labels
        assert labels is not None
        if labelled < FEWEST_LABELLED:
            raise UserError(
                f"--task={settings.task_name}: only {labelled} labelled texts; "
                f"a search needs {FEWEST_LABELLED}. Label more texts, or train "
                "once with tf_transfer.train."
            )
        if np.ndim(labels) == 1 and len(np.unique(labels)) == 1:
            raise UserError(
                f"--task={settings.task_name}: all {len(train_texts)} training "
                "texts have one label. Give texts of other labels, too."
            )
        tested = sum(map(len, texts["test"].values()))
        self.has_test = tested > 0
        self.folds = data.count_folds()
        seconds_guess = guess_seconds(train_texts, settings)
        size = TaskSize(data.task, len(train_texts), held)
        data.drop_texts()
        self.plan = Candidates(settings, size, self.folds)
        self.clock = Clock(settings.out, self._key(), began)
        self.end = settings.seconds - answer_seconds(settings.seconds)
        self.race = Race(
            self.plan.by_name,
            Costs(self.plan.by_name, seconds_guess),
            self.folds,
            labelled / len(train_texts) if settings.refit else 0.0,
            tested / held,
        )
        self.too_long: set[str] = set()
        self.refit: Planned | None = None
        self._pool: work.Pool | None = None

    def _key(self) -> Record:
        settings = self.experiment.settings
        left_out = ("max_epochs", "trainable_layers", "lr", "select")
        hashed = settings.hashed().items()
        return {
            **{name: value for name, value in hashed if name not in left_out},
            "frozen_prefix": settings.frozen_prefix,
            "cache_dtype": settings.cache_dtype,
            **self.experiment.identities,
        }

    @functools.cached_property
    def _run_states(self) -> RunStates:
        return RunStates(self.settings.out, [])

    @property
    def left(self) -> float:
        """Seconds left for further runs."""
        return self.end - self.clock()

    def run(self) -> answer.Answer:
        """Searches until the budget is over, or nothing is left to do.

        Returns:
            The answer.
        """
        settings = self.settings
        with execute.lock(self._run_states.folder):
            try:
                with execute.open_pool(
                    [self.plan.make_run(self.race.baselines[-1], 0)],
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
        self._report_finished_runs()
        # Another --approaches or --max_epochs has other candidates.
        tried = f"{self.settings.approaches} {self.settings.max_epochs}"
        is_new = self.clock.ended(tried) < self.settings.seconds
        if is_new:
            self._race()
        self._finish(is_new)
        self.clock.end(tried, self.settings.seconds)

    # === Before the first run ===

    def describe_rungs(self) -> str:
        """The runs of the first rungs and their estimated time, a table."""
        left, rows = self.left, [("rung", "candidate", "about")]
        for action in self.race.plan_first(left):
            left -= action.seconds
            about = formatting.duration(action.seconds)
            rows.append((action.rung, action.name, about))
        planned = {name for _, name, _ in rows}
        too_long = [
            f"{name} ({seconds})"
            for name, seconds in answer.list_untried(self).items()
            if name not in planned
        ]
        if too_long:
            return (
                f"{formatting.aligned(rows)}\n"
                f"Too long for the budget: {', '.join(too_long)}."
            )
        return (
            f"{formatting.aligned(rows)}\n"
            f"About {formatting.duration(max(left, 0.0))} are left for further "
            "folds of the best, their other rates and numbers of epochs, and "
            "for training the answer on all labelled texts. The scores decide."
        )

    # === Runs ===

    def _report_finished_runs(self) -> None:
        """Reports all finished runs to the race."""
        names = [*self.plan.by_name]
        for number, name in enumerate(names):
            is_baseline = self.plan.by_name[name].is_baseline
            rounds = 1 if is_baseline else ROUNDS
            for repeat in range(rounds * self.folds):
                run = self.plan.make_run(name, repeat)
                if self._run_states.failure(run):
                    self.race.failed.add((name, repeat))
                with contextlib.suppress(OSError, UserError):
                    # The run itself reports a damaged file.
                    result = run.directory.result()
                    if result is not None:
                        self._report_run(name, repeat, run, result)
            if number + 1 == len(self.race.baselines):
                names += [n for n in self.plan.by_name if n not in names]

    def _report_run(
        self,
        name: str,
        repeat: int,
        run: Planned,
        result: Record,
        seconds: float | None = None,
    ) -> float:
        """Reports a run to the race.

        Args:
            name: The candidate that was run.
            repeat: The number of the run of this candidate.
            run: Its directory is read.
            result: The content of `result.json`.
            seconds: From its order to its result; None if that is not known.

        Returns:
            Its score on the texts that were held out, in points.
        """
        scored = open_scored(run.directory.path, "validation")
        assert scored is not None  # nothing but a refit validates nothing
        self.race.add_scores(name, repeat, scored)
        if self.plan.by_name[name].is_baseline and repeat == 0:
            seconds = None  # a process started
            profile = run.directory.profile()  # the probe's
            if profile is not None:
                self.plan.add_keep_blocks(profile["blocks_needed"])
        self.race.costs.add_run(name, read_seconds(run, result), seconds)
        return scored.score

    def _open_scheduler(self) -> work.Scheduler:
        def check_time() -> None:
            if self.left < -GRACE_SECONDS:
                raise OutOfTime

        assert self._pool is not None
        return work.Scheduler(self._run_states, self._pool, on_poll=check_time)

    def _run_scheduler(self, scheduler: work.Scheduler) -> None:
        """Works until no run is left, or the time is over."""
        self.clock.start()
        try:
            scheduler.work()
        except OutOfTime:
            screen.say("A run took longer than expected, and was stopped.")

    def _run_one(self, run: Planned) -> None:
        """Does a run, if there is time."""
        if self._run_states.result(run) is None and self.left > 0:
            scheduler = self._open_scheduler()
            scheduler.add(run)
            self._run_scheduler(scheduler)

    def _race(self) -> None:
        """Does the runs that the race asks for."""
        # By name of the run: its action, and when it began.
        orders: dict[str, tuple[Action, float]] = {}
        scheduler = self._open_scheduler()

        def order() -> None:
            """Gives the workers the next runs."""
            assert self._pool is not None
            while len(orders) < self._pool.jobs:
                busy = [(a.name, a.repeat) for a, _ in orders.values()]
                action = self.race.next(self.left, busy)
                if action is None:
                    return
                run = self.plan.make_run(action.name, action.repeat)
                orders[run.name] = action, self.clock()
                scheduler.add(run)

        def on_event(event: work.Event, run: Planned, detail: Record) -> None:
            action, began = orders.pop(run.name)
            if event in ("started", "retried"):
                # It may have waited for a feature cache.
                orders[run.name] = action, self.clock()
                return
            self._end_run(action, run, began, detail, event == "failed")
            order()

        scheduler.on_event = on_event
        order()
        self._run_scheduler(scheduler)

    def _end_run(
        self,
        action: Action,
        run: Planned,
        began: float,
        detail: Record,
        has_failed: bool,
    ) -> None:
        """Reports a run to the race and on the screen.

        Args:
            action: The run.
            run: Its directory is read.
            began: Seconds of the search.
            detail: Its result, or the record of its failure.
            has_failed: Whether it failed.
        """
        title = action.name
        if self.folds > 1:
            fold = action.repeat % self.folds + 1
            title += f", fold {fold} of {self.folds}"
        if action.repeat >= self.folds:
            title += f", seed {action.repeat}"
        if has_failed:
            self.race.failed.add((action.name, action.repeat))
            log = self._run_states.log_file(run)
            screen.say(f"{title}: failed ({detail['reason']}); {log}")
            return
        seconds = self.clock() - began
        score = self._report_run(
            action.name, action.repeat, run, detail, seconds
        )
        self.clock.save()
        if action.repeat:  # only a run of the first fold may be tested
            Checkpoints(run.directory.file("checkpoint")).clear()
        screen.say(
            f"{time.strftime('%T')} {title}: {detail['metric']} {score:.1f}  "
            f"({seconds:.0f} s)"
        )

    # === The end ===

    def _finish(self, is_new: bool) -> None:
        """Trains the answer on all labelled texts, and scores the test.

        Args:
            is_new: Whether another run may begin. The same command again
                repeats its answer.
        """
        if not self.race.results:
            return
        if self.settings.refit:
            left = self.left if is_new else -math.inf
            self.too_long = {
                name
                for name in self.race.list_too_long(left)
                if self._make_refit(name).directory.result() is None
            }
        rows = self.race.compare(self.too_long)
        name = decisions.choose(rows, self.settings.max_loss).name
        if self.settings.refit:
            refit = self._make_refit(name)
            if name not in self.too_long:
                if self.plan.by_name[name].is_baseline:
                    self.end = math.inf  # it scores the test, which is due
                self._run_one(refit)
            if self._is_sound(refit, name):
                self.refit = refit
        if not self.has_test:
            return
        self.end = math.inf  # also where runs took all of the time
        if self.refit:
            self._run_one(self.plan.make_refit(name, score_test=True))
        else:
            self._run_one(self.plan.make_run(name, 0, score_test=True))

    def _make_refit(self, name: str) -> Planned:
        """The run of a candidate on all labelled texts, before the test."""
        is_baseline = self.plan.by_name[name].is_baseline
        return self.plan.make_refit(name, score_test=is_baseline)

    def _is_sound(self, refit: Planned, name: str) -> bool:
        """Whether a refit is done, and has trained as the folds have."""
        if refit.directory.result() is None:
            return False
        if self.plan.by_name[name].is_baseline:
            return True
        runs = [self.plan.make_run(name, n) for n in self.race.results[name]]
        losses = [run.directory.epochs()[-1]["train_loss"] for run in runs]
        loss = refit.directory.epochs()[-1]["train_loss"]
        return bool(loss <= WORSE_LOSS * max(losses))
