"""Searches whose runs train nothing, by a clock that they move."""

import dataclasses
import os

import numpy as np

from tests.support import own_data, run_files
from tests.sweeps import fakes
from tf_transfer.baselines import usual
from tf_transfer.data import error_analysis
from tf_transfer.searches import candidates, clock, controller
from tf_transfer.searches.settings import Settings
from tf_transfer.sweeps.estimate import Work
from tf_transfer.training import records
from tf_transfer.utils import files

PROBE_SECONDS, PASS_SECONDS = 2.0, 1.0
REFIT_LOSS = 0.9  # of a run on all texts; of others 1
TOPS = {
    "probe": 50.0,
    "last_0": 60.0,
    "last_1": 75.0,
    "last_2": 82.0,
    "last_2_contrastive": 80.0,
    "fine_tuning": 83.0,
}
SECONDS = {
    "last_0": 0.2,
    "last_1": 2.0,
    "last_2": 6.0,
    "last_2_contrastive": 5.0,
    "fine_tuning": 20.0,
}
BESIDE_SECONDS = 0.5


class World:
    """Does runs at once; each takes its seconds by `now`.

    Args:
        slowness: what everything takes of the expected.

    Attributes:
        now: seconds.
        done: (approach, lr, seed, epochs, refit) of each run that trained.
        tested: approaches of the runs that were scored on the test.
        breaks: approaches whose runs fail.
        slow: approaches that take a hundred times as long as expected.
        end: when a run hangs.
        tfidf_seconds: of the TF-IDF baseline; over a minute it hangs.
        pass_seconds: that the probe says its pass took.
        cut_texts: share of the texts that the probe cut.
        probe_seconds: of the probe.
        on_run: called with each run; what it returns is how the run ends.
    """

    def __init__(self, slowness=1.0):
        self.now = 0.0
        self.slowness = slowness
        self.done = []
        self.tested = []
        self.breaks = ()
        self.slow = ()
        self.end = np.inf
        self.tfidf_seconds = 3.0
        self.probe_seconds = PROBE_SECONDS
        self.pass_seconds = PASS_SECONDS
        self.cut_texts = 0.0
        self.on_run = lambda run: None
        self._texts = {}

    def read(self, run):
        """The texts of a run, once for all that read the same."""
        settings = run.settings
        key = (
            *(settings.task, settings.fold, settings.refit),
            *(settings.score_test, settings.trains),
            *(settings.validation_fraction, settings.max_train_examples),
        )
        if key not in self._texts:
            data = run.experiment.data
            self._texts[key] = data.examples[data.task.name]
            data.drop_texts()
        return self._texts[key]

    def do(self, run):
        """What a worker does with a run; see `fakes.FakeWorker`."""
        settings = run.settings
        if settings.approach in self.breaks:
            return "failed"
        if settings.is_sparse:
            self.now += self.tfidf_seconds
            if self.tfidf_seconds > 60:
                return "hangs"
            run.experiment.train()
            return None
        if settings.is_probe:
            self.now += self.probe_seconds
            if self.probe_seconds > 60:
                return "hangs"
            seconds = self.pass_seconds
            self.finish(
                run,
                *(1, PROBE_SECONDS, "one held-out set", seconds),
                cut_texts=self.cut_texts,
            )
            return None
        self.now += BESIDE_SECONDS
        outcome = self.on_run(run)
        if outcome:
            return outcome
        seconds = self.slowness * SECONDS[settings.approach]
        if run.directory.result() is not None:  # the test alone is missing
            seconds = 0.1
        if settings.approach in self.slow:
            seconds *= 100
        self.now += settings.max_epochs * seconds
        if self.now > self.end and not settings.score_test:
            return "hangs"
        if settings.score_test:
            self.tested.append(settings.approach)
        else:
            self.done.append(
                (
                    *(settings.approach, settings.lr),
                    *(settings.seed, settings.max_epochs, settings.refit),
                )
            )
        self.finish(run, settings.max_epochs, seconds, "max_epochs")
        return None

    def finish(self, run, *arguments, **others):
        """See `finish`."""
        finish(run, self.read(run), *arguments, **others)


def score_of(settings, epoch):
    """The score of a run on validation, from 0 to 1."""
    top = TOPS[settings.approach]
    if settings.is_probe:
        return top / 100
    usual = {"last_0": 1e-3, "fine_tuning": 5e-5}.get(settings.approach, 2e-4)
    top -= 3 * abs(np.log10(settings.lr / usual))
    return (top - 8 * np.exp(-epoch) - 0.1 * settings.seed) / 100


def finish(run, texts, epochs, seconds, reason, build_seconds=None, **others):
    """Writes what a run of `tf_transfer.train` leaves, on these texts."""
    settings, directory = run.settings, run.directory
    os.makedirs(directory.path, exist_ok=True)
    config = {
        "key": directory.key,
        "settings": dataclasses.asdict(settings),
        "starts": [],
    }
    files.write_json(directory.file("config.json"), config)
    directory = records.RunDirectory(directory.path, directory.key)
    lines = [
        {
            "epoch": epoch,
            "phase": 1,
            "phase_epoch": epoch,
            "task": None,
            "train_loss": REFIT_LOSS if settings.refit else 1.0,
            "validation": None
            if settings.refit
            else {"accuracy": score_of(settings, epoch)},
            "test": {"accuracy": score_of(settings, epoch) - 0.01}
            if settings.score_test and texts["test"]
            else None,
            "train_seconds": 0.9 * seconds,
            "eval_seconds": 0.1 * seconds + 5 * settings.score_test,
            "elapsed_seconds": 0.9 * seconds * epoch,
        }
        for epoch in range(1, epochs + 1)
    ]
    directory.write_epochs(lines)
    arrays = {}
    kinds = [k for k in ("validation", "test") if lines[-1][k]]
    for kind in kinds:
        examples, score = texts[kind][""], lines[-1][kind]["accuracy"]
        right = np.arange(len(examples)) < score * len(examples)
        answers = np.where(right, examples.labels, (examples.labels + 1) % 3)
        arrays[f"{kind}_ids"] = examples.ids
        arrays[f"{kind}_labels"] = examples.labels
        arrays[f"{kind}_logits"] = np.eye(3)[answers]
    task = run.experiment.data.task
    scored = {k: (task, texts[k][""]) for k in kinds}
    directory.write_errors(error_analysis.describe_splits(scored, arrays))
    directory.write_predictions(arrays)
    directory.write_result(
        run_files.finished(
            task="news",
            approach=settings.approach,
            validation=lines[-1]["validation"],
            test=lines[-1]["test"],
            best_epoch=epochs,
            epochs_run=epochs,
            stop_reason=reason,
            phases=[] if settings.is_probe else [run_files.phase(epochs)],
            prefix_seconds=3.0 * settings.score_test,
            prefix_build_seconds=build_seconds,
            trainable_parameters=int(TOPS[settings.approach]),
            train_seconds=0.9 * seconds * epochs,
            seed=settings.seed,
            lr=settings.lr,
            **others,
            **(
                {"scores_test": False}
                if texts["test"] and not settings.score_test
                else {}
            ),
        )
    )


def put_in(monkeypatch, world):
    """From now on searches run in this world."""
    real = clock.Clock

    def open_clock(out, key, began):
        return real(out, key, world.now, lambda: world.now)

    def count_work(run, sizes=None):
        if run.settings.is_sparse:
            return Work()
        if run.settings.is_probe:
            return Work(build=PASS_SECONDS)
        return Work((SECONDS[run.settings.approach],))

    monkeypatch.setattr(controller, "Clock", open_clock)
    monkeypatch.setattr(
        controller.command_line, "import_tensorflow", lambda: None
    )
    monkeypatch.setattr(candidates.estimate, "count_work", count_work)
    monkeypatch.setattr(
        controller.execute, "open_pool", fakes.pool_opener(world.do)
    )
    monkeypatch.setattr("tf_transfer.sweeps.work.POLL_SECONDS", 0)
    # The TF-IDF baseline is fitted once, not for each of a grid of settings.
    monkeypatch.setattr(usual, "STRENGTHS", (10.0,))
    monkeypatch.setattr(usual, "NGRAMS", usual.NGRAMS[:1])


def write_task(folder, count=300, noise=0.8, ending="", **keys):
    """A task file of three classes.

    Args:
        folder, keys: see `own_data.write_task`.
        count: of texts.
        noise: share of the texts whose label is any, so that TF-IDF
            scores less than the runs.
        ending: of each text.
    """
    columns, draw = own_data.news(count), np.random.default_rng(0)
    columns["team"] = [
        draw.choice(list(own_data.WORDS)) if draw.random() < noise else team
        for team in columns["team"]
    ]
    columns["body"] = [text + ending for text in columns["body"]]
    return own_data.write_task(folder, columns=columns, **keys)


def settings_of(path, out, **changes):
    return Settings(
        **{
            "task": path,
            "model": "tiny",
            "max_epochs": 4,
            "budget": "6m",
            "out": str(out),
            **changes,
        }
    ).resolve()


def run(settings):
    controller.Search(settings, 0.0).run()
