"""The content of one study, before it is put on a page.

Each experiment may have a module of its name in the folder `papers` with

    MEASURES, ROWS, PARTS, METRICS: what its `tables.toml` may name; see
        `tables`
    figures(study) -> figures in addition to the first one
    name_approach(approach, settings) -> what is trained, as its paper calls it
    label_runs(study, runs) -> `Study.labelled` with columns of its own

An experiment without a module has the overview, its claims, all its runs and
the tables that its `tables.toml` describes; see `tables`.
"""

import dataclasses
import functools
import importlib
import importlib.util
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pandas as pd

from tf_transfer.config.experiments import FOLDERS
from tf_transfer.reports import (
    claims,
    contrast,
    frames,
    groups as groups_lib,
    overview,
    wording,
)
from tf_transfer.reports.options import Options


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as it is shown.

    Attributes:
        name: of its CSV file.
        caption: what it shows, in which units.
        frame: cells as text or numbers; nan and None are shown empty.
        open: whether the page shows it unfolded.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    open: bool = False


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture.

    Attributes:
        name: of its files, without the extension.
        caption: a sentence or two.
        render: returns the content of a file by its extension, `png` or `svg`.
    """

    name: str
    caption: str
    render: Callable[[str], bytes]

    @functools.cached_property
    def svg(self) -> bytes:
        """The picture as the page has it."""
        return self.render("svg")

    @functools.cached_property
    def png(self) -> bytes:
        """The picture as a document and a folder have it."""
        return self.render("png")


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs that may be compared, and what else the report knows.

    Attributes:
        experiment: such as `glue`.
        name: `A`, the largest of the experiment, `B`, ...
        runs: see `frames.runs_frame`.
        paper: its claims, or None.
        published: other figures of the paper, `published.json`; or {}.
        verdicts: on the paper's claims.
        all_runs: of the experiment, other studies included.
        summary: what the runs were read into.
        options: what the reader asks for.
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
    options: Options = Options()
    distinct: str = ""
    folder: str = "experiments"

    @functools.cached_property
    def declared(self) -> tuple[str, dict[str, Any]]:
        """The path of the paper's `tables.toml`, and its content; or empty.

        Raises:
            UserError: it cannot be read.
        """
        path = claims.find_file(self.folder, self.experiment, "tables.toml")
        return (path, claims.read_content(path)) if path else ("", {})

    @functools.cached_property
    def labelled(self) -> pd.DataFrame:
        """See `overview.label_runs`; with columns of the experiment's own."""
        runs = overview.label_runs(self.runs)
        own = getattr(module_of(self.experiment), "label_runs", None)
        return runs if own is None else own(self, runs)

    @functools.cached_property
    def rows(self) -> list[overview.Row]:
        """See `overview.make_rows`."""
        return overview.make_rows(self.runs)

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
            title += f", {wording.count(self.blocks, 'block')}"
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
    for name in (
        f"tf_transfer.{experiment}.tables",
        f"tf_transfer.reports.papers.{experiment}",
    ):
        if importlib.util.find_spec(name):
            return importlib.import_module(name)
    return None


def collect(
    summary: dict[str, Any],
    folder: str = "experiments",
    options: Options = Options(),
) -> list[Study]:
    """The studies of a summary, by experiment, the largest first.

    Args:
        summary: see `summary.summarize`.
        folder: with the papers' claims and figures.
        options: what the reader asks for.
    """
    by_experiment = groups_lib.group_by(
        summary["runs"], lambda r: r["experiment"]
    )
    found = {}
    tests: list[contrast.Test] = []
    for experiment, records in sorted(by_experiment.items()):
        path = claims.find_file(folder, experiment)
        paper = claims.read(path) if path else None
        runs = frames.runs_frame(records, paper.varied if paper else ())
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
        named = dict(frames.studies(runs))
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
                options,
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
    differences = overview.describe_differences(
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
