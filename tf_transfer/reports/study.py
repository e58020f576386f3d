"""The content of one study, before it is put on a page.

Each experiment may have a module of its name in the folder `papers` with

    MEASURES, ROWS, PARTS, METRICS: what its `tables.toml` may name, and
    NOTES: what a reader must know; see `tables`
    figures(study) -> figures in addition to the first one
    name_approach(approach, settings) -> what is trained, as its paper calls it
    label_runs(study, runs) -> `Study.labelled` with columns of its own
    describe_study(study, rows) -> the sentences at the top, in place of those
        on what to train

An experiment without a module has the overview, its claims, all its runs and
the tables that its `tables.toml` describes; see `tables`.
"""

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pandas as pd

from tf_transfer.reports import claims, frames, infer, overview, verdicts
from tf_transfer.reports.options import Options
from tf_transfer.reports.reading import Record


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
        name: of its files, without the ending.
        caption: a sentence or two.
        render: returns the content of a file by its ending, `png` or `svg`.
    """

    name: str
    caption: str
    render: Callable[[str], bytes]

    @functools.cached_property
    def svg(self) -> bytes:
        """The picture as the page has it."""
        return self.render("svg")


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs that may be compared, and what the report knows beside them.

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
    verdicts: Sequence[infer.Verdict]
    all_runs: pd.DataFrame
    summary: dict[str, Any]
    options: Options = Options()
    distinct: str = ""
    folder: str = "experiments"

    @functools.cached_property
    def epochs(self) -> pd.DataFrame:
        """See `frames.epochs_frame`."""
        return frames.epochs_frame(self.runs)

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
        """What `--model` said; nothing, if all runs are baselines."""
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
            blocks = "block" if self.blocks == 1 else "blocks"
            title += f", {self.blocks} {blocks}"
        return f"{title} ({self.distinct})" if self.distinct else title

    @property
    def differences(self) -> list[str]:
        """What of its runs is not as in the paper, a clause each."""
        if self.paper is None:
            return []
        return claims.list_differences(self.runs, self.paper)


def module_of(experiment: str) -> ModuleType | None:
    """The module of an experiment in the folder `papers`, or None."""
    name = f"tf_transfer.reports.papers.{experiment}"
    if experiment.isidentifier() and importlib.util.find_spec(name):
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
    studies = []
    by_experiment: dict[str, list[Record]] = {}
    for record in summary["runs"]:
        by_experiment.setdefault(record["experiment"], []).append(record)
    for experiment, records in sorted(by_experiment.items()):
        path = claims.find_file(folder, experiment)
        paper = claims.read(path) if path else None
        runs = frames.runs_frame(records, paper.varied if paper else ())
        name_approach = getattr(module_of(experiment), "name_approach", None)
        if name_approach is not None:
            names = map(name_approach, runs.approach, runs.settings)
            runs = runs.assign(approach=[*names])
        judged = verdicts.judge(runs, paper) if paper else []
        named = [*frames.studies(runs)]
        distinct = _describe_differences([members for _, members in named])
        studies += [
            Study(
                experiment,
                name,
                members,
                paper,
                claims.read_published(folder, experiment),
                [v for v in judged if v.study in (name, "")],
                runs,
                summary,
                options,
                words if len(named) > 1 else "",
                folder,
            )
            for (name, members), words in zip(named, distinct)
        ]
    return _conclude_local(studies)


def _describe_differences(studies: Sequence[pd.DataFrame]) -> list[str]:
    """The settings by which studies differ, of those that all have."""
    shared = [members.shared.iloc[0] for members in studies]
    common = [n for n in shared[0] if all(n in s for s in shared)]
    differences = overview.describe_differences(
        [{n: s[n] for n in common if n != "model"} for s in shared], ", {}={}"
    )
    letters = map(frames.letters_of, range(len(shared)))
    return [
        settings.removeprefix(", ") or f"study {letter}"
        for settings, letter in zip(differences, letters)
    ]


def _conclude_local(studies: Sequence[Study]) -> list[Study]:
    """The studies, their local verdicts corrected as one family."""
    together = [v for study in studies for v in study.verdicts]
    concluded = dict(zip(map(id, together), verdicts.conclude_local(together)))
    return [
        dataclasses.replace(
            study, verdicts=[concluded[id(v)] for v in study.verdicts]
        )
        for study in studies
    ]
