"""The best training for your texts, within the time you have.

    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=30m
    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=1h \\
        --max_loss=1

It reports what to train and at what rate, the loss compared with training
everything, and whether the encoder beats the TF-IDF baseline: ten lines on the
screen, and OUT/search.html. The trained model is there.

Every run is a run of `tf_transfer.train`, at a constant rate for 1, 2, 4, ...
epochs, so that it can be continued. The next run is the one with the highest
expected gain per second (tf_transfer/searches/planner.py). Its seconds are
estimated from operations, feature caches included, and corrected as measured.
In the end the best run is trained again with a rate that falls to zero, and the
best of the first three approaches with other seeds. Decisions use validation
scores alone: the test is scored once, at the end, for the answer.

--budget is the time from the command's start to its answer. Ctrl-C gives the
answer so far; the same command with a larger budget continues.
"""

import contextlib
import dataclasses
import gc
import io
import os
import re
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.config.fields import LARGEST_INT, Reader, setting
from tf_transfer.config.settings import given_flags, pick
from tf_transfer.data import task_file
from tf_transfer.models import loading, methods
from tf_transfer.searches import costs, space
from tf_transfer.searches.history import Clock, History
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
from tf_transfer.searches.space import Approach, Choice
from tf_transfer.sweeps import estimate, execute
from tf_transfer.sweeps.grid import expand, Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import formatting, machine
from tf_transfer.utils.errors import Interrupted, UserError

OBJECTIVES = ("score", "seconds_at_prediction", "parameters")
# Share of the budget that scoring the test may take: else it is not scored.
TEST_SHARE = 0.15
PROBE_NAME = "probe"
# Share of the time left that the probe may take: else it is left out.
PROBE_SHARE = 0.6
LEAST_SECONDS = 1.0  # with fewer seconds left, a search repeats its answer
FEWEST_VALIDATING = 20  # texts: fewer distinguish no scores
VARIED = {  # from a flag with several values to the setting of a run
    "poolings": "pooling",
    "lengths": "max_length",
    "batch_sizes": "batch_size",
    "methods": "method",
    "depths": "keep_blocks",
}


@dataclasses.dataclass(frozen=True)
class Settings(
    train.Settings,
    defaults={"max_epochs": 16, "refit": True, "out": ""},
    help={
        "max_epochs": "Largest number of epochs of a run.",
        "refit": "In the end, where the time allows, train the answer once "
        "more on training and validation texts together, for as many updates.",
        "out": "Root of the run directories. Unset: searches/TASK.",
    },
    changes={"out": {"may_be_empty": True}},
):
    """The settings of `tf_transfer.train`, and those of the search itself."""

    budget: str = setting(
        "",
        "Time from the start to the answer, such as 90s, 30m, 2h or 1h30m.",
        read_by=Reader.STUDY,
    )
    approaches: str = setting(
        "",
        "Values of a run's --trainable_layers to try, such as 0,1,2,all. "
        "Unset: 0, 1, 2, 4, ... and all.",
        read_by=Reader.STUDY,
    )
    methods: str = setting(
        "",
        "Also vary --method, such as full,lora.",
        read_by=Reader.STUDY,
    )
    poolings: str = setting(
        "",
        "Also vary --pooling, such as cls,mean.",
        read_by=Reader.STUDY,
    )
    lengths: str = setting(
        "",
        "Also vary --max_length, such as 64,128.",
        read_by=Reader.STUDY,
    )
    batch_sizes: str = setting(
        "",
        "Also vary --batch_size, such as 16,32.",
        read_by=Reader.STUDY,
    )
    depths: str = setting(
        "",
        "Also vary --keep_blocks, such as 0,3. Unset: all blocks, and with "
        "--objective=seconds_at_prediction half of them as well.",
        read_by=Reader.STUDY,
    )
    objective: str = setting(
        "score",
        "The goal, among approaches within --max_loss of the best: `score`, "
        "the highest score, or with --max_loss the cheapest to train; "
        "`seconds_at_prediction`, the fastest to predict; `parameters`, the "
        "fewest trained parameters.",
        choices=OBJECTIVES,
        read_by=Reader.STUDY,
    )
    max_loss: float = setting(
        None,
        "Points of validation that the answer may lose against the best. "
        "Unset: none for `score`, 1 for the others.",
        at_least=0,
        read_by=Reader.STUDY,
    )
    jobs: int = setting(
        None,
        "Number of runs at the same time. Unset: one, or one on each GPU.",
        at_least=1,
        read_by=Reader.STUDY,
    )
    engine: str = setting(
        "local",
        "Workers run on this machine (`local`), or on the nodes of a Ray "
        "cluster (`ray`), which all see --out.",
        choices=("local", "ray"),
        read_by=Reader.STUDY,
    )
    ray_address: str = setting(
        "",
        "Address of the Ray cluster of --engine=ray, HOST:PORT. Unset, or "
        "`auto`: the cluster of this machine.",
        read_by=Reader.STUDY,
    )

    @property
    def reader(self) -> Reader:
        """A search reads the settings of a run and its own."""
        return Reader.STUDY

    def unread(self) -> list[str]:
        """The options of methods that no run has; what a search decides."""
        unread = set(super().unread())
        for method in split_values("methods", self.methods):
            run = dataclasses.replace(self, method=method, methods="")
            unread &= set(run.unread())
        return [*unread, *SEARCHED]

    def defaults(self) -> dict[str, Any]:
        """The defaults of a run, and the root of the run directories."""
        values = super().defaults()
        file = self.task if task_file.is_task_file(self.task) else self.data
        # A missing file is an error when it is read.
        if not self.out and (not self.is_own or os.path.isfile(file)):
            values["out"] = os.path.join("searches", self.task_name)
        return values

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check()
        parse_budget(self.budget)
        if self.strategy == "multi_worker":
            raise UserError(
                "--strategy=multi_worker: a search works on one machine. Leave "
                "it out; --jobs does several runs at the same time."
            )
        for flag in VARIED:
            split_values(flag, getattr(self, flag))
        for word in split_values("approaches", self.approaches):
            if not re.fullmatch(r"all|head|0|[1-9][0-9]{0,3}", word):
                raise UserError(
                    f"--approaches={self.approaches}: give numbers of last "
                    "blocks, `all` and `head`, such as 0,1,2,all."
                )
        execute.check_engine(self.engine, self.ray_address)

    @property
    def seconds(self) -> float:
        """Seconds of the budget."""
        return parse_budget(self.budget)

    @property
    def loss(self) -> float:
        """Points of validation that the answer may lose."""
        if self.max_loss is not None:
            return self.max_loss
        return 0.0 if self.objective == "score" else 1.0


# Settings of a run that a search decides itself, or has no use for.
SEARCHED = [
    field.name
    for field in dataclasses.fields(Settings)
    if field.metadata["searched"]
]


def parse_budget(text: str) -> float:
    """Seconds of a budget such as `90s`, `30m`, `2h` or `1h30m`.

    Raises:
        UserError: it is no such time, or has no unit.
    """
    if not text:
        raise UserError(
            "--budget: give the time that you have, such as 90s, 30m or 2h."
        )
    short = formatting.cut(text)
    number = r"(\d+(?:\.\d+)?)"
    if re.fullmatch(number, text):
        raise UserError(
            f"--budget={short}: seconds, minutes or hours? Give --budget="
            f"{short}s, {short}m or {short}h."
        )
    match = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s)?", text)
    counts = match.groups(default="0") if match else ()
    seconds = sum(float(n) * unit for n, unit in zip(counts, (3600, 60, 1)))
    if not seconds:
        raise UserError(
            f"--budget={short}: give seconds, minutes or hours, such as 90s, "
            "30m, 2h or 1h30m."
        )
    if seconds > LARGEST_INT:
        raise UserError(f"--budget={short}: is more than a lifetime.")
    return seconds


def split_values(flag: str, text: str) -> list[str]:
    """The values of a flag that takes several.

    Raises:
        UserError: a value is empty, or is given twice.
    """
    values = text.split(",") if text else []
    if len(set(values)) < len(values) or "" in values:
        raise UserError(
            f"--{flag}={formatting.cut(text)}: give values with commas "
            "between, each once."
        )
    return values


# === The runs of a search ===


def list_approaches(settings: Settings, blocks: int) -> list[Approach]:
    """The approaches of a search.

    Args:
        settings: resolved.
        blocks: of the encoder.

    Raises:
        UserError: more blocks than there are, or a value that a run refuses.
    """
    layers = split_values("approaches", settings.approaches)
    if any(word.isdigit() and int(word) > blocks for word in layers):
        raise UserError(
            f"--approaches={settings.approaches}: this encoder has {blocks} "
            f"blocks. Give 0 to {blocks}, and `all`."
        )
    varied = {
        name: values
        for flag, name in VARIED.items()
        if (values := split_values(flag, getattr(settings, flag)))
    }
    if settings.objective == "seconds_at_prediction" and blocks > 1:
        varied.setdefault("keep_blocks", ["0", str(blocks // 2)])
    if settings.method != "full":
        varied.setdefault("method", [settings.method])

    def usual_rate(word: str, others: Mapping[str, str]) -> float | None:
        kept = int(others.get("keep_blocks", 0)) or blocks
        method = others.get("method", "full")
        is_idle = method != "full" and word in ("0", "head")  # acts in blocks
        if is_idle or (word.isdigit() and int(word) > kept):
            return None
        return methods.load(method).lr or train.RATES.of(word)

    approaches = space.make_space(
        layers or space.numbers_of_blocks(blocks),
        blocks,
        usual_rate,
        varied,
        {
            field.name: str(field.default)
            for field in dataclasses.fields(train.Settings)
        },
    )
    if not approaches:
        raise UserError(
            f"--method={settings.method}: acts in the blocks that train. Give "
            "--approaches such as 1,2,all."
        )
    return approaches


class Plan:
    """Makes the runs of a planner's actions.

    Args:
        settings: resolved.
        approaches: of the search.
    """

    def __init__(self, settings: Settings, approaches: list[Approach]) -> None:
        self._settings = settings
        self._approaches = {a.name: a for a in approaches}
        self._given = given_flags(
            settings, (*SEARCHED, "refit", "out", "max_epochs")
        )

    def __call__(
        self,
        action: Action,
        seconds: float | None,
        score_test: bool = False,
        refit: bool = False,
    ) -> Planned:
        """The run of an action.

        Args:
            action: of the planner.
            seconds: that it may take; a run with a falling rate is never cut.
            score_test: whether to score the test texts.
            refit: whether to train on the validation texts as well.
        """
        choice = action.choice
        approach = self._approaches[choice.approach]
        flags = dict(approach.flags)
        method = flags.get("method", self._settings.method)
        run = dataclasses.replace(self._settings, method=method)
        values: dict[str, Any] = {
            **{n: v for n, v in self._given.items() if run.reads(n)},
            **flags,
            "lr": f"{approach.rates[choice.rate]:g}",
            "max_epochs": choice.linear_epochs or action.epochs,
            "baseline": False,
            "score_test": score_test,
        }
        also = self._also_cached(flags["trainable_layers"])
        if also:
            values["also_cache"] = also
        if refit:
            values |= {"refit": True, "max_epochs": action.epochs}
        if choice.seed:
            values["seed"] = choice.seed
        if not choice.linear_epochs:
            values |= {"schedule": "constant", "warmup_fraction": 0}
            if seconds is not None:
                values["max_seconds"] = f"{seconds:.1f}"
        return self._expand(values)

    def _also_cached(self, layers: str) -> str:
        """Approaches whose caches are made on the way to that of a run.

        Args:
            layers: `--trainable_layers` of the run.
        """
        if layers == "all" or self._settings.frozen_prefix != "cached":
            return ""
        trained = -1 if layers == "head" else int(layers)
        words = {
            dict(a.flags)["trainable_layers"] for a in self._approaches.values()
        }
        numbers = sorted(int(word) for word in words if word.isdigit())
        return ",".join(str(n) for n in numbers if n > trained)

    def baseline(self, features: str) -> Planned:
        """The run of a baseline: no weight of the encoder trains."""
        run = pick(train.Settings, self._settings, features=features)
        kept = {n: v for n, v in self._given.items() if run.reads(n)}
        return self._expand({**kept, "features": features})

    def _expand(self, values: Mapping[str, Any]) -> Planned:
        [run] = expand(
            "search",
            {"experiment": "train", "flags": values},
            self._settings.out,
        )
        return run


def estimate_costs(
    approaches: list[Approach], plan: Plan
) -> dict[str, costs.Prior]:
    """The costs of approaches, from operations, texts and this machine's speed.

    The costs of the probe are among them, as `probe`.

    Raises:
        UserError: the encoder cannot be loaded.
    """
    estimator = estimate.Estimator()
    needs = estimator.estimate(plan.baseline("frozen"))
    priors = {PROBE_NAME: prior_of(needs)}
    for approach in approaches:
        run = plan(Action(Choice(approach.name, approach.usual), 1, 0.0), None)
        priors[approach.name] = prior_of(estimator.estimate(run))
    return priors


def prior_of(needs: estimate.Estimate) -> costs.Prior:
    """The costs of an approach, from the estimate of a run of one epoch."""
    return costs.Prior(
        max(needs.seconds - estimate.RUN_SECONDS, 1e-3),
        needs.build_seconds,
        " ".join(str(entry) for entry in needs.builds),
        " ".join(str(entry[:-1]) for entry in needs.builds),
        needs.predict_seconds,
        needs.updates,
    )


def check_validation(settings: Settings, validation: Mapping[str, Any]) -> int:
    """The number of validation texts.

    Args:
        settings: of the search.
        validation: by split name; see `tasks.read_splits`.

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


# === The search ===


class Search:
    """A search, from its settings to its answer.

    Args:
        settings: resolved.
        began: when the command began, by `time.monotonic`.

    Raises:
        UserError: the task, the data or `--out` cannot be used. Nothing was
            written.
    """

    def __init__(self, settings: Settings, began: float) -> None:
        from tf_transfer.reports import answer as reports  # loads scipy

        self.settings = settings
        experiment = train.Train(pick(train.Settings, settings, refit=False))
        if not experiment.reads_without_tensorflow:
            command_line.import_tensorflow()
        texts = experiment.examples[experiment.task.name]
        self.validating = check_validation(settings, texts["validation"])
        self.training = len(texts["train"][""])
        self.testing = sum(map(len, texts["test"].values()))
        experiment.forget()
        self.history = History(settings.out, self._key(experiment))
        record = self.history.record
        # Without time that is left the answer is given once more.
        self.end = settings.seconds - answer_seconds(settings.seconds)
        self.is_over = record.spent >= self.end - LEAST_SECONDS
        self.clock = Clock(began, self.history)
        if record.blocks is None:
            command_line.import_tensorflow()  # without its notices
            record.blocks = loading.count_blocks(
                settings.model, settings.cache_folder, settings.keep_blocks
            )
        self.space = list_approaches(settings, record.blocks)
        self.plan = Plan(settings, self.space)
        for approach in self.space:  # a run takes every combination
            self.plan(Action(approach.choices[0], 1, 0.0), None)
        self.baselines = {reports.PROBE: self.plan.baseline("frozen")}
        if self.training <= train.MOST_FOR_BASELINE:
            name = reports.name_baseline("tfidf", experiment.task.is_tagging)
            tfidf = {name: self.plan.baseline("tfidf")}
            self.baselines = tfidf | self.baselines
        self.planner: Planner | None = None
        self.refit: Planned | None = None
        self.runs: dict[Choice, Planned] = {}

    def _key(self, experiment: train.Train) -> dict[str, Any]:
        settings = experiment.settings
        varied = [
            n for flag, n in VARIED.items() if getattr(self.settings, flag)
        ]
        left_out = {*SEARCHED, *varied, "max_epochs"}
        hashed = settings.hashed().items()
        return {
            **{name: value for name, value in hashed if name not in left_out},
            "frozen_prefix": settings.frozen_prefix,
            "cache_dtype": settings.cache_dtype,
            **experiment.identities,
        }

    def run(self) -> None:
        """Searches until the budget is over, or nothing is worth trying."""
        from tf_transfer.searches import page  # loads pandas and scipy

        settings = self.settings
        run_states = RunStates(settings.out, [])
        first = self.plan(Action(self.space[0].choices[0], 1, 0.0), None)
        with execute.lock(run_states.folder):
            try:
                with execute.open_pool(
                    [first],
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
                print("Stopped: the answer so far.", flush=True)
            finally:
                self.clock.stop()
            page.give(self)

    def _work(self, runner: Runner) -> None:
        settings = self.settings
        runner.backups.restore_all()
        self._fit_baselines(runner)
        planner = self.planner = self._make_planner()
        runner.recall(planner)
        if not self.is_over:
            runner.reserved = self._seconds_for_test(planner)
            asked = [settings.seconds, settings.max_epochs, *planner.space]
            if self.history.record.ended != asked:
                runner.do_all(planner)
                self.history.record.ended = asked
        self._score_answer(runner, planner)

    def _fit_baselines(self, runner: Runner) -> None:
        """Fits the baselines, as far as there is time for them."""
        *tfidf, probe = self.baselines.values()
        for run in tfidf:
            if not self.is_over and run.directory.result() is None:
                runner.do_alone(run, on_start=self._count_costs)
        self._count_costs()
        prior = self.history.record.priors[PROBE_NAME]
        seconds = prior.epoch_seconds + prior.build_seconds
        is_short = seconds <= PROBE_SHARE * runner.left
        if not self.is_over and is_short and probe.directory.result() is None:
            runner.do_alone(probe)

    def _count_costs(self) -> None:
        """Estimates the costs that no earlier start has estimated."""
        record = self.history.record
        unknown = [a for a in self.space if a.name not in record.priors]
        if unknown or PROBE_NAME not in record.priors:
            self.clock.start()
            command_line.import_tensorflow()
            from tf_transfer.training import strategy

            strategy.share_gpus()  # workers need them
            with contextlib.redirect_stdout(io.StringIO()):  # printed before
                known = estimate_costs(unknown, self.plan)
            # Made anew, as the clock's thread may read the other.
            record.priors = {**record.priors, **known}
            gc.collect()

    def _make_planner(self) -> Planner:
        """A planner that knows the baselines, and how fast the probe ran."""
        settings, floor, pass_seconds = self.settings, 0.0, None
        for name, run in self.baselines.items():
            result = run.directory.result()
            if result is not None:
                metric = result["metric"]
                score = 100 * result["validation"][metric]
                floor = max(floor, score)
                pass_seconds = result["prefix_build_seconds"]  # of the probe
                say(f"Validation {metric} of {name}: {score:.1f}")
        priors = self.history.record.priors
        slowness = costs.slowness(
            pass_seconds, priors[PROBE_NAME].build_seconds
        )
        return Planner(
            self.space,
            costs.Costs(
                {a.name: priors[a.name].times(slowness) for a in self.space}
            ),
            Options(
                settings.seconds,
                settings.max_epochs,
                train.usual_epochs(self.training, settings.batch_size),
            ),
            noise_of(self.validating),
            floor,
        )

    def _seconds_for_test(self, planner: Planner) -> float:
        """Seconds that scoring the test takes at most.

        The encoder runs over texts that it has not seen. 0 where there are
        none, or it would take too long.
        """
        priors = planner.costs.priors.values()
        validating = max(prior.predict_seconds for prior in priors)
        seconds = MARGIN_UNMEASURED * (
            validating * self.testing / self.validating
        )
        seconds += costs.FIRST_RUN_SECONDS
        is_short = seconds <= TEST_SHARE * self.settings.seconds
        return seconds if self.testing and is_short else 0.0

    def _score_answer(self, runner: Runner, planner: Planner) -> None:
        """Scores the answer on the test, once: a refit, or what was chosen."""
        from tf_transfer.searches import answer

        rows = answer.rank_approaches(self)
        if not rows or not planner.beats_floor(rows[0].setting):
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
            is_missing = refit.directory.result() is None
            if runner.reserved and is_missing and seconds <= runner.left:
                runner.do_alone(refit)
        if answer.is_better_refit(row, refit):
            self.refit = refit
        elif runner.reserved:
            action = Action(row.choice, row.record["epochs_run"], 0.0)
            runner.reserved = 0.0
            runner.extend_alone(self.plan(action, None, score_test=True))


def main() -> None:
    """Reads the flags; searches, and prints the answer."""
    began = time.monotonic() - machine.process_seconds()
    settings = command_line.from_flags(Settings).resolve()
    Search(settings, began).run()


if __name__ == "__main__":
    command_line.start(main, Settings)
