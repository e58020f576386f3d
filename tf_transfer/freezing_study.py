"""The study of `freezing`: what it tries, trains and tells.

It reads no flags; its settings are `freezing.FreezingSettings`, resolved.
"""

import dataclasses
import functools
import os
import re

from tf_transfer.config import settings as settings_lib
from tf_transfer.data import tasks as tasks_lib
from tf_transfer.reports import operating
from tf_transfer.utils.errors import UserError

SEARCH_SHARE = 0.1  # of the training set, held out for the search of the rate


# === What is asked of it ===


def check(settings):
    """Raises `UserError`, naming the flag, for what cannot be studied."""
    for name in ("trials", "search_trials", "jobs"):
        settings_lib.at_least(settings, name, 1)
    rates_of(settings)
    tasks_of(settings)
    operating.parse_qualities(settings.quality)
    _check_interval(settings)


def _check_interval(settings):
    level = settings.interval
    if level is None:
        return
    if not 0 < level < 1:
        raise UserError(
            f"--interval={level:g}: give a share between 0 and 1, such as 0.95."
        )
    if settings.trials < 2:
        raise UserError(
            f"--trials={settings.trials}: the interval that --interval="
            f"{level:g} asks for needs two trials of each number of blocks: "
            "give --trials=2 or more, or leave --interval out."
        )


def tasks_of(settings):
    """The tasks of the study."""
    if settings.tasks == "all":
        return list(tasks_lib.GLUE)
    found = settings.tasks.split(",") if settings.tasks else [settings.task]
    for name in found:
        if name not in tasks_lib.GLUE or found.count(name) > 1:
            raise UserError(
                f"--tasks={settings.tasks}: give `all`, or some of "
                f"{', '.join(tasks_lib.GLUE)}, each once."
            )
    return found


def rates_of(settings):
    """The rates of the search."""
    try:
        rates = [float(word) for word in settings.rates.split(",")]
    except ValueError:
        rates = [0.0]
    if not all(0 < rate < 1 for rate in rates) or len(set(rates)) < len(rates):
        raise UserError(
            f"--rates={settings.rates}: give rates such as 1e-5,2e-5, each "
            "once."
        )
    return rates


def frozen_of(settings, blocks):
    """The numbers N of frozen blocks that are studied, 0 apart.

    Args:
        blocks: L, how many the encoder has.
    """
    if blocks < 1:
        raise UserError(
            f"--model={settings.model}: has no blocks that could be frozen."
        )
    if not settings.frozen_blocks:
        return list(range(-(-blocks // 2), blocks + 1))
    found = set()
    for word in settings.frozen_blocks.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        if not ends or int(ends[2] or ends[1]) > blocks:
            raise UserError(
                f"--frozen_blocks={settings.frozen_blocks}: give numbers and "
                f"ranges from 0 to {blocks}, which is all that this encoder "
                f"has, such as {blocks // 2}-{blocks}."
            )
        found |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(found - {0})


# === What it trains ===


class Study:
    """The runs of one task and encoder; see `freezing`.

    Args:
        settings: `FreezingSettings`, resolved.

    Attributes:
        runs: the `grid.Planned` of what it has trained, the search's included.
    """

    def __init__(self, settings):
        from tf_transfer.models import loading

        self.settings = settings
        self.runs = []
        self.blocks = loading.count_blocks(
            settings.model, settings.cache_folder
        )
        self.frozen = frozen_of(settings, self.blocks)

    def run(self):
        """Searches and trains."""
        rate = self.settings.lr or self.best_rate()
        layers = sorted(self.blocks - frozen for frozen in self.frozen)
        if self.settings.search == "all":
            self.train(rate, [operating.ALL, *reversed(layers)])
        else:
            self.bisect(rate, layers)

    def best_rate(self):
        """The rate whose trials are best on validation, training all."""
        settings = self.settings
        results = self._sweep(
            {
                "lr": rates_of(settings),
                "seed": list(range(settings.search_trials)),
            },
            validation_fraction=SEARCH_SHARE,
        )
        scores = {}
        for point, result in results:
            score = result["validation"][result["metric"]]
            scores.setdefault(float(point["lr"]), []).append(score)
        return max(scores, key=lambda rate: operating.plain_mean(scores[rate]))

    def train(self, rate, layers):
        """Test scores of the trials, by number of trained blocks."""
        results = self._sweep(
            {
                "trainable_layers": layers,
                "seed": list(range(self.settings.trials)),
            },
            lr=rate,
        )
        found = {}
        for point, result in results:
            blocks = point["trainable_layers"]
            blocks = blocks if blocks == operating.ALL else int(blocks)
            found.setdefault(blocks, []).append(
                result["test"][result["metric"]]
            )
        return found

    def bisect(self, rate, layers):
        """Trains with few numbers of blocks: those that tell each quality."""
        trials = self.train(rate, [operating.ALL])

        def keeps(quality, blocks):
            if blocks not in trials:
                trials.update(self.train(rate, [blocks]))
            full, mine = trials[operating.ALL], trials[blocks]
            return operating.plain_mean(mine) > quality * operating.plain_mean(
                full
            )

        for quality in operating.parse_qualities(self.settings.quality):
            operating.bisect(layers, functools.partial(keeps, quality))

    def _sweep(self, axes, **changes):
        """Does what is missing of a grid; returns (axes, result) of each."""
        from tf_transfer.sweeps import all_of
        from tf_transfer.sweeps import grid

        given = {**given_flags(self.settings), "trial": True, **changes}
        given = {n: value for n, value in given.items() if n not in axes}
        runs = grid.expand(
            "freezing",
            {"module": "freezing", "flags": given, "axes": axes},
            self.settings.out,
            self.settings.cache_dir,
        )
        results = all_of.finish(runs, self.settings)
        self.runs += runs
        return [(run.axes, result) for run, result in zip(runs, results)]


STUDY_ONLY = (
    "out",
    "cache_dir",
    "rerun",
    "describe",
    "trial",
    "tasks",
    "rates",
    "search_trials",
    "trials",
    "frozen_blocks",
    "search",
    "quality",
    "interval",
    "jobs",
    "retry_failed",
)


def given_flags(settings):
    """The flags that a trial takes over from the study."""
    own = (*STUDY_ONLY, "lr", "trainable_layers", "seed", "max_epochs")
    found = settings_lib.given(settings, own)
    return {**found, "max_epochs": settings.max_epochs}


def told(settings, runs, show):
    """What some runs have found, as the report would tell it, as text.

    Args:
        show: `results` or `operating_points` of `reports.freezing_tables`.
    """
    from tf_transfer.reports import document
    from tf_transfer.reports import freezing_tables
    from tf_transfer.reports import options
    from tf_transfer.reports import reading
    from tf_transfer.reports import sections
    from tf_transfer.reports import summary

    found = []
    for run in runs:
        path = run.directory.path
        try:
            found.append(
                reading.read_run(path, os.path.relpath(path, settings.out))
            )
        except reading.LeftOut as reason:
            raise UserError(
                f"{path}: {reason}. Remove it, and give the same command."
            ) from None
    made = summary.of(found, [], settings.out)
    asked = options.Options(
        qualities=operating.parse_qualities(settings.quality),
        level=settings.interval or operating.LEVEL,
    )
    published = options.read_published("experiments", "freezing")
    parts = []
    [(_, _, studies)] = sections.each(found)  # of one module's runs
    for study in studies:
        if not study.settings["validation_fraction"]:
            rows = freezing_tables.rows_of(study, made, published)
            parts += show(study, rows, asked)
    return document.plain(parts)


def study(settings):
    """The whole study of each task; tells of each as soon as it is done."""
    from tf_transfer.reports import freezing_tables

    runs = []
    tasks = tasks_of(settings)
    for task in tasks:
        one = Study(dataclasses.replace(settings, task=task, tasks=""))
        one.run()
        runs += one.runs
        print(f"\n{told(settings, one.runs, freezing_tables.results)}")
    if len(tasks) > 1:
        print(told(settings, runs, freezing_tables.operating_points))
    print(
        "All tables, the figure and the paper's claims: python -m "
        f"tf_transfer.report {settings.out}"
    )
