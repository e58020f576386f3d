"""The content of one study, before it is put on a page.

A paper's folder has a module `tables` with

    list_tables(study), list_figures(study): the paper's own, filled with runs
    name_approach(approach, settings): what is trained, as the paper calls it
"""

import dataclasses
import functools
import importlib
import importlib.util
import itertools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import pandas as pd

from tf_transfer.config.experiments import FOLDERS
from tf_transfer.reports import (
    advice,
    claims,
    contrast,
    groups as groups_lib,
    runs as runs_lib,
)
from tf_transfer.utils import formatting


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs that may be compared, and what else the report knows.

    Attributes:
        experiment: such as `glue`.
        name: `A`, the largest of the experiment, `B`, ...
        runs: see `runs.runs_frame`.
        paper: its claims, or None.
        published: other figures of the paper, `published.json`; or {}.
        verdicts: on the paper's claims.
        all_runs: of the experiment, other studies included.
        summary: what the runs were read into.
        margin: largest loss in points that is accepted for a cheaper approach.
        distinct: settings by which it differs from the experiment's other
            studies, with values; empty of the only one.
        folder: with the experiments' claims and tables.
    """

    experiment: str
    name: str
    runs: pd.DataFrame
    paper: claims.Paper | None
    published: dict[str, Any]
    verdicts: Sequence[contrast.Verdict]
    all_runs: pd.DataFrame
    summary: dict[str, Any]
    margin: float = advice.MARGIN
    distinct: str = ""
    folder: str = "experiments"

    @functools.cached_property
    def approaches(self) -> list[advice.Approach]:
        """See `advice.list_approaches`."""
        return advice.list_approaches(self.runs)

    @functools.cached_property
    def rows(self) -> list[advice.Row]:
        """See `advice.make_rows`."""
        return advice.make_rows(self.approaches)

    @property
    def model(self) -> str:
        """The value of `--model`; empty if all runs are baselines."""
        return str(self.runs.model.max())

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
        """What of its runs is not as in the paper, a clause each."""
        paper = self.paper
        return claims.list_differences(self.runs, paper) if paper else []


@functools.cache
def module_of(experiment: str) -> ModuleType | None:
    """The module of an experiment's tables, or None."""
    if experiment not in FOLDERS:
        return None
    name = f"tf_transfer.{experiment}.tables"
    return (
        importlib.import_module(name)
        if importlib.util.find_spec(name)
        else None
    )


def collect(
    summary: dict[str, Any],
    folder: str = "experiments",
    margin: float = advice.MARGIN,
) -> list[Study]:
    """The studies of a summary, by experiment, the largest first.

    Args:
        summary: see `summary.summarize`.
        folder: with the papers' claims and figures.
        margin: see `Study.margin`.
    """
    by_experiment = groups_lib.group_by(
        summary["runs"], lambda r: r["experiment"]
    )
    found = {}
    tests: list[contrast.Test] = []
    for experiment, records in sorted(by_experiment.items()):
        path = claims.find_file(folder, experiment)
        paper = claims.read(path) if path else None
        runs = runs_lib.runs_frame(records, paper.varied if paper else ())
        name_approach = getattr(module_of(experiment), "name_approach", None)
        if name_approach is not None:
            names = map(name_approach, runs.approach, runs.settings)
            runs = runs.assign(approach=[*names])
        of_paper = contrast.test_claims(runs, paper) if paper else []
        found[experiment] = paper, runs, len(of_paper)
        tests += of_paper
    # What is not comparable is one family of all papers.
    verdicts = iter(contrast.conclude(tests))
    studies = []
    for experiment, (paper, runs, count) in found.items():
        judged = [*itertools.islice(verdicts, count)]
        named = dict(runs_lib.studies(runs))
        distinct = _describe_differences(named)
        published = claims.read_published(folder, experiment)
        studies += [
            Study(
                experiment,
                name,
                members,
                paper,
                published,
                [v for v in judged if v.study in (name, "")],
                runs,
                summary,
                margin,
                distinct[name],
                folder,
            )
            for name, members in named.items()
        ]
    return studies


def _describe_differences(
    studies: Mapping[str, pd.DataFrame],
) -> dict[str, str]:
    """The settings by which studies differ, of those that all have; by name.

    Studies that differ in none of these have their letter, too.
    """
    shared = [members.shared.iloc[0] for members in studies.values()]
    common = set.intersection(*map(set, shared)) - {"model"}
    differences = advice.describe_differences(
        [{n: s[n] for n in shared[0] if n in common} for s in shared], ", {}={}"
    )
    if len(studies) == 1:
        return dict.fromkeys(studies, "")
    texts = [text.removeprefix(", ") for text in differences]
    return {
        name: text
        if text and texts.count(text) == 1
        else ", ".join(filter(None, [text, f"study {name}"]))
        for name, text in zip(studies, texts)
    }
