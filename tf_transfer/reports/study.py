"""The studies of a report: runs that may be compared.

An experiment's module `tables` may have

    list_tables(study), list_figures(study): the paper's own
    name_approach(approach, settings): what trains, as its paper calls it
    ensembles(records, predictions): see `summary.summarize`
"""

import dataclasses
import functools
import importlib
import importlib.util
import itertools
from collections.abc import Mapping, Sequence
from types import ModuleType

import pandas as pd

from tf_transfer.comparison import decisions
from tf_transfer.comparison.run_record import Settings
from tf_transfer.config.experiments import FOLDERS
from tf_transfer.reports import (
    approaches as approaches_lib,
    claims,
    contrast,
    run_frame as runs_lib,
    run_groups,
    verdicts as verdicts_lib,
)
from tf_transfer.reports.summary import Runs
from tf_transfer.reports.verdicts import Verdict
from tf_transfer.utils import formatting
from tf_transfer.utils.json_files import Record

VARIED_BY_SEARCHES = ("max_epochs", "refit", "select")


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs that may be compared.

    Attributes:
        experiment: Such as `glue`.
        name: `A`, the largest of the experiment, `B`, ...
        runs: See `run_frame.runs_frame`; with `text`, the task in words, and
            `trains`, the approach in words.
        paper: Its claims, or None.
        published: Other figures of the paper, `published.json`; or {}.
        verdicts: On the paper's claims.
        margin: The largest loss in points that the reader accepts.
        distinct: Settings by which it differs from the experiment's other
            studies of its encoder, with values; empty of the only one.
    """

    experiment: str
    name: str
    runs: pd.DataFrame
    paper: claims.Paper | None = None
    published: Record = dataclasses.field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    margin: float = decisions.MARGIN
    distinct: str = ""

    @functools.cached_property
    def groups(self) -> dict[str, list[run_groups.Group]]:
        """The groups of its runs by task."""
        return run_groups.split_tasks(self.runs)

    @functools.cached_property
    def approaches(self) -> list[approaches_lib.Approach]:
        """See `approaches.list_approaches`."""
        return approaches_lib.list_approaches(
            self.runs, of_paper=self.paper is not None
        )

    @functools.cached_property
    def rows(self) -> list[decisions.Row]:
        """See `approaches.make_rows`."""
        return approaches_lib.make_rows(self.approaches)

    @property
    def model(self) -> str:
        """The value of `--model`; empty if all runs are baselines."""
        return runs_lib.find_model(self.runs)

    @property
    def blocks(self) -> int:
        """Blocks of its encoder."""
        return int(self.runs.blocks.max())

    @property
    def title(self) -> str:
        """Such as `glue: minilm, 6 blocks (max_epochs=9)`."""
        title = f"{self.experiment}: {self.model}"
        if self.blocks:
            title += f", {formatting.count(self.blocks, 'block')}"
        if self.distinct:
            title += f" ({self.distinct})"
        return title

    @functools.cached_property
    def differences(self) -> list[str]:
        """The differences of its runs from the paper, a clause each."""
        if self.paper is None:
            return []
        return claims.list_differences(self.runs, self.paper)

    @property
    def compares(self) -> bool:
        """Whether it compares rows or judges claims."""
        is_judged = any(verdict.study for verdict in self.verdicts)
        is_compared = any(row.difference.is_known for row in self.rows)
        # The TF-IDF baseline is compared with an encoder.
        return is_judged or is_compared or self.runs.baseline.nunique() == 2


@functools.cache
def module_of(experiment: str) -> ModuleType | None:
    """The module of an experiment's tables, or None."""
    name = f"tf_transfer.{experiment}.tables"
    if experiment in FOLDERS and importlib.util.find_spec(name):
        return importlib.import_module(name)
    return None


def collect(
    summary: Runs,
    folder: str = "experiments",
    margin: float = decisions.MARGIN,
) -> list[Study]:
    """The studies of a summary, by experiment, the largest first.

    Args:
        summary: See `summary.summarize`.
        folder: With the papers' claims and figures.
        margin: See `Study`.
    """
    experiments, tests = [], []
    by_experiment = run_groups.group_by(
        summary["runs"], lambda run: run.experiment
    )
    for experiment, records in sorted(by_experiment.items()):
        path = claims.find_file(folder, experiment)
        paper = claims.read_paper(path) if path else None
        varied = paper.varied if paper else VARIED_BY_SEARCHES
        frame = runs_lib.runs_frame(records, varied)
        name_approach = getattr(module_of(experiment), "name_approach", None)
        if name_approach is not None:
            names = map(name_approach, frame.approach, frame.settings)
            frame = frame.assign(approach=[*names])
        paper_tests = contrast.test_claims(frame, paper) if paper else []
        experiments.append((experiment, frame, paper, len(paper_tests)))
        tests += paper_tests
    # Claims on runs that differ from the paper's are one family per report.
    verdicts = iter(verdicts_lib.conclude(tests))
    studies = []
    for experiment, frame, paper, count in experiments:
        judged = [*itertools.islice(verdicts, count)]
        named = dict(runs_lib.studies(frame))
        distinct = _describe_differences(named)
        for name, members in named.items():
            encoder = runs_lib.find_model(members)
            studies.append(
                Study(
                    experiment,
                    name,
                    approaches_lib.label_runs(members),
                    paper,
                    claims.read_published(folder, experiment),
                    [
                        verdict
                        for verdict in judged
                        if verdict.study in (name, "")
                        and verdict.encoder == encoder
                    ],
                    margin,
                    distinct[name],
                )
            )
    return studies


def _describe_differences(
    studies: Mapping[str, pd.DataFrame],
) -> dict[str, str]:
    """The settings by which studies of an encoder differ, by the study's name.

    These are settings that all of them have. Studies that differ in none of
    these have their letter, too.
    """
    named = {}
    by_model = run_groups.group_by(
        studies.items(), lambda item: runs_lib.find_model(item[1])
    )
    for members in by_model.values():
        shared = {name: runs.shared.iloc[0] for name, runs in members}
        texts = _describe_settings(list(shared.values()))
        for name, text in zip(shared, texts):
            if len(shared) > 1 and (not text or texts.count(text) > 1):
                text = ", ".join(filter(None, [text, f"study {name}"]))
            named[name] = text
    return named


def _describe_settings(shared: Sequence[Settings]) -> list[str]:
    """The settings of each study by which it differs from the others."""
    common = set.intersection(*map(set, shared))
    differences = approaches_lib.describe_differences(
        [{n: s[n] for n in shared[0] if n in common} for s in shared], ", {}={}"
    )
    return [text.removeprefix(", ") for text in differences]
