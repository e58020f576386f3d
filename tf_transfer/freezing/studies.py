"""The study of a task: the search of its learning rate, then the trials."""

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any, TYPE_CHECKING

from absl import logging

from tf_transfer.config import settings as settings_lib
from tf_transfer.data import glue
from tf_transfer.freezing import operating
from tf_transfer.models import loading
from tf_transfer.own import table_source, task_file
from tf_transfer.sweeps import estimate, execute, grid
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import quote_command
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.freezing.experiment import Settings

SEARCH_FRACTION = 0.1  # of the training set, held out for the search alone
# What the study sets in each of its runs, or reads itself.
OWN_TO_A_RUN = (
    *("out", "cache_dir", "rerun", "describe", "dry_run", "trial", "tasks"),
    *("lr", "trainable_layers", "seed"),
)


def tasks_of(settings: "Settings") -> list[str]:
    """The tasks of the study."""
    if settings.tasks == "all":
        return list(glue.TASKS)
    if not settings.tasks:
        return [settings.task]
    names = settings.tasks.split(",")
    for name in names:
        is_known = name in glue.TASKS or task_file.is_task_file(name)
        if not is_known or names.count(name) > 1:
            raise UserError(
                f"--tasks={settings.tasks}: give `all`, or some of "
                f"{', '.join(glue.TASKS)} and task files, each once."
            )
    return names


def rates_of(settings: "Settings") -> list[float]:
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


def numbers_of_frozen_blocks(settings: "Settings", blocks: int) -> list[int]:
    """The numbers N of frozen blocks that are studied, 0 apart.

    Args:
        blocks: L, the number of the encoder's blocks.
    """
    if blocks < 1:
        raise UserError(
            f"--model={settings.model}: has no blocks that could be frozen."
        )
    if not settings.frozen_blocks:
        return list(range(-(-blocks // 2), blocks + 1))
    numbers: set[int] = set()
    for word in settings.frozen_blocks.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", word.strip())
        if not ends or int(ends[2] or ends[1]) > blocks:
            raise UserError(
                f"--frozen_blocks={settings.frozen_blocks}: give numbers and "
                f"ranges from 0 to {blocks}, which is all that this encoder "
                f"has, such as {blocks // 2}-{blocks}."
            )
        numbers |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(numbers - {0})


class Study:
    """The runs of one task and encoder: the search of the rate, then trials.

    Args:
        settings: resolved.
        pool: pool of the workers that do the runs: `sweeps.work.Pool`.

    Attributes:
        runs: the runs so far, those of the search included.
    """

    def __init__(self, settings: "Settings", pool: Any) -> None:
        self.settings = settings
        self.pool = pool
        self.runs: list[Any] = []
        if settings.own_data:
            task = settings.own_task
            # Reports what is wrong with the table before all else.
            _ = table_source.TableSource(
                task, settings.split_seed, settings.out
            ).task
            if not task.test:
                raise UserError(
                    f"{task.path}: has no test, and a study compares test "
                    "scores. Add test, a file or a fraction such as 0.1."
                )
        shape = loading.read_shape(settings.model, settings.keep_blocks)
        self.blocks = shape.blocks
        self.frozen = numbers_of_frozen_blocks(settings, self.blocks)

    def run(self) -> None:
        """Fits the probe, searches the rate, and trains."""
        self._fit_probe()
        self._do(self.plan())

    def plan(self) -> list[Planned]:
        """The trials, and the runs that search their rate, unless it is given.

        The rate is the one whose runs are best on validation where everything
        trains.
        """
        settings = self.settings
        rates = [settings.lr] if settings.lr else rates_of(settings)
        layers = sorted(self.blocks - frozen for frozen in self.frozen)
        axes = {
            "trainable_layers": [operating.ALL, *reversed(layers)],
            "lr": rates,
            "seed": list(range(settings.trials)),
        }
        if settings.lr:
            return self._expand({"axes": axes})
        validates = settings.own_data and settings.own_task.validation
        search = {
            **axes,
            "trainable_layers": [operating.ALL],
            "seed": list(range(settings.search_trials)),
            "validation_fraction": [0.0 if validates else SEARCH_FRACTION],
        }
        return self._expand({"axes": axes, "best_of": "lr", "search": search})

    def _fit_probe(self) -> None:
        """Fits and prints the probe; the study continues if that fails."""
        try:
            [result] = self._do(self._expand({}, features="frozen"))
        except UserError as error:
            logging.warning("No probe: %s", error)
            return
        score = 100 * result["test"][result["metric"]]
        print(
            f"{result['task']}: the probe, a regression on the frozen encoder, "
            f"scores {score:.1f} ({result['metric']}, test)."
        )

    def _expand(self, content: Record, **changes: Any) -> list[Planned]:
        """The runs of a grid with the study's settings, partly changed."""
        run = dataclasses.replace(self.settings, trial=True, **changes)
        given = {
            **settings_lib.given_flags(self.settings, OWN_TO_A_RUN),
            "max_epochs": run.max_epochs,
            "trial": True,
            **changes,
        }
        given = {
            name: value
            for name, value in given.items()
            if not run.is_probe or run.reads(name)
        }
        content = {"experiment": "freezing", "flags": given, **content}
        out, cache_dir = self.settings.out, self.settings.cache_dir
        return grid.expand("freezing", content, out, cache_dir)

    def _do(self, runs: list[Planned]) -> list[Record]:
        """Does the missing runs; returns the results of all that are done."""
        states = execute.run_completely(
            runs, self.settings.out, self.pool, self.settings.retry_failed
        )
        self.runs += states.runs
        results = map(states.result, states.runs)
        return [result for result in results if result is not None]


def format_report(
    settings: "Settings", runs: Sequence[Any], names: Sequence[str]
) -> str:
    """The report's tables on some runs, as text.

    Args:
        settings: settings of the study.
        runs: runs of one or several studies.
        names: names of the tables.
    """
    from tf_transfer.freezing import tables
    from tf_transfer.reports import reading, study as lib, summary

    records = []
    # With a validation file, a run of the search may also be a trial.
    for path in dict.fromkeys(run.directory.path for run in runs):
        try:
            records.append(
                reading.read_run(path, os.path.relpath(path, settings.out))
            )
        except reading.LeftOut as reason:
            raise UserError(
                f"{path}: {reason}. Remove it, and give the same command."
            ) from None
    made = summary.summarize(records, [], settings.out)
    qualities = operating.parse_qualities(settings.quality)
    level = settings.interval or operating.LEVEL
    return "\n".join(
        f"{table.caption}\n\n{table.frame.to_string(index=False)}\n"
        for study in lib.collect(made)
        for table in tables.list_tables(study, qualities, level)
        if table.name in names  # the search has none
    )


def run_studies(settings: "Settings") -> None:
    """Studies each task, and prints its tables as soon as it is done."""
    runs: list[Planned] = []
    tasks = tasks_of(settings)
    if settings.dry_run:
        for task in tasks:
            of_task = dataclasses.replace(settings, task=task, tasks="")
            runs += Study(of_task, None).plan()
        run_states, jobs = RunStates(settings.out, runs), settings.jobs or 1
        print(estimate.describe_costs(run_states, jobs, settings.flops))
        return
    with execute.open_pool(jobs=settings.jobs) as pool:
        for task in tasks:
            study = Study(
                dataclasses.replace(settings, task=task, tasks=""), pool
            )
            study.run()
            runs += study.runs
            tables = ("operating_points", "layers")
            print(f"\n{format_report(settings, study.runs, tables)}")
    if len(tasks) > 1:
        print(format_report(settings, runs, ("operating_points",)))
    print(
        "All tables, the figure and the paper's claims: "
        + quote_command("python", "-m", "tf_transfer.report", settings.out)
    )
