"""An experiment's tables as data: reads `tables.toml` and fills it with runs.

The file lies beside `claims.toml`. Each entry of it is a table:

    [[table]]
    name = "scores_{part}"
    caption = "{task}: {metric} on test, mean ± standard deviation"
    of = "task"
    rows = "groups"
    columns = [
        ["trains", "trains"],
        ["score", "score", "spread 1"],
        ["pooling", "setting:pooling"],
    ]

`of` says which runs it is of (`PARTS`), `rows` what its rows are (`ROWS`). A
column has a title, a measure (`MEASURES`, `setting:NAME` or `metric:NAME`) and
a format (`FORMATS`), with digits after the point. A measure with several named
values makes a column of each; its title has `{}` in place of the name. An
experiment's module may know more of each; see `fill_tables`.
"""

import dataclasses
import tomllib
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import brief
from tf_transfer.reports import claims
from tf_transfer.reports import measures
from tf_transfer.reports import overview
from tf_transfer.reports import sides
from tf_transfer.reports import verdicts
from tf_transfer.reports import wording
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table
from tf_transfer.utils.errors import UserError

DID_NOT_TRAIN = (
    "`Did not train`: half of the runs or more score as the majority baseline "
    "does, or give one answer only."
)
PREFIXES = ("setting", "metric")  # of measures that name one


@dataclasses.dataclass(frozen=True)
class Part:
    """Runs that a table is of.

    Attributes:
        study: theirs.
        runs: see `frames.runs_frame`; with `text` and `trains`, unless the
            experiment's module divides a study itself.
        name: `{part}` of a table's name and caption, or "".
        words: what else these have in braces.
    """

    study: Study
    runs: pd.DataFrame
    name: str = ""
    words: Mapping[str, object] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Line:
    """What a row of a table is made from.

    Attributes:
        part: of the table.
        runs: what is measured; without any, `values` has all that is known.
        row: of the overview, or None.
        values: measures that need no looking up, by name.
    """

    part: Part
    runs: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    row: overview.Row | None = None
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def settings(self) -> claims.Group:
        """The settings of its first run."""
        return self.runs.settings.iloc[0]


Measure = Callable[[Line], Any]


@dataclasses.dataclass(frozen=True)
class Layout:
    """An entry of `tables.toml`.

    Attributes:
        name, caption: with `{part}` and other words of a `Part`.
        columns: titles, measures and formats.
        of, rows: see `PARTS` and `ROWS`.
        optional: titles of columns that are left out where they are empty;
            `*` stands for all.
        varying: titles of columns that are left out where all their cells are
            the same.
        open: whether the page shows it unfolded.
        where: the file and the entry, for messages.
    """

    name: str
    caption: str
    columns: Sequence[Sequence[str]]
    of: str = "study"
    rows: str = "overview"
    optional: Collection[str] = ()
    varying: Collection[str] = ()
    open: bool = False
    where: str = ""


# === What is known ===


def seconds(runs: pd.DataFrame) -> list[float]:
    """Training times that may be compared with others."""
    return wording.known(runs[runs.timed].seconds)


def count_examples(runs: pd.DataFrame) -> int:
    """How many examples the first of some runs was trained on."""
    return int(runs.sizes.iloc[0].get("train", 0))


def describe_cache(settings: claims.Group) -> str:
    """Whether and how the frozen blocks are cached, in words."""
    if settings.get("frozen_prefix") != "cached":
        return ""
    dtype = settings.get("cache_dtype", "float16")
    return "cached" if dtype == "float16" else f"cached as {dtype}"


def describe_failure(runs: pd.DataFrame) -> str:
    """`did not train`, or nothing."""
    return brief.FAILED if verdicts.did_not_train(runs) else ""


def _of_row(name: str) -> Measure:
    """An attribute of the overview's row, or else of the first run."""
    return lambda line: (
        getattr(line.row, name, "") if line.row else line.runs[name].iloc[0]
    )


def _of_runs(name: str) -> Measure:
    """A column of the runs, see `frames.runs_frame`."""
    return lambda line: line.runs[name]


MEASURES: dict[str, Measure] = {
    **{
        name: _of_row(name)
        for name in ("trains", "approach", "lr", "trained", "majority", "note")
        + ("gain", "kept", "share", "epoch_share")
    },
    **{
        name: _of_runs(name)
        for name in ("score", "validation", "seconds_per_epoch", "memory")
        + ("epochs_run", "trainable_parameters", "total_parameters")
    },
    "task": lambda line: line.row.task if line.row else line.runs.text.iloc[0],
    "score_interval": lambda line: line.row and line.row.score,
    "n": lambda line: len(line.runs),
    "examples": lambda line: count_examples(line.runs),
    "seconds": lambda line: seconds(line.runs),
    "epochs": lambda line: (
        wording.number(line.runs.epochs_run.mean(), 1)
        + " (limit)" * bool(line.row and brief.is_cut_off(line.row))
    ),
    "prefix_seconds": lambda line: [
        record["prefix_build_seconds"]
        for record in line.runs[line.runs.cached].record
    ],
    "failed": lambda line: describe_failure(line.runs),
}
# Of a value or, but for the first two, the mean of several.
FORMATS: dict[str, Callable[[Any, int], Any]] = {
    "text": lambda value, digits: value,
    "spread": wording.spread,
    "change": lambda values, digits: wording.spread(values, digits, "+"),
    "interval": wording.ranged,
    "number": lambda value, digits: wording.number(_mean(value), digits),
    "count": lambda value, digits: _form(_mean(value), ",.0f"),
    "rate": lambda value, digits: _form(_mean(value), "g"),
}


def _mean(value: Any) -> float:
    return wording.mean(np.atleast_1d(np.asarray(value, float)))


def _form(value: float, form: str) -> str:
    return "" if pd.isna(value) else format(value, form)


def label_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with `text`, the name of their task, and `trains`, in words.

    What trains most comes first. Of runs that are not timed, times are nan.

    Args:
        runs: of a study, see `frames.runs_frame`.
    """
    runs = runs.copy()
    runs["text"] = overview.name_texts(runs)  # as the overview calls them
    runs["trains"] = [
        overview.name_approach(approach, cached)
        for approach, cached in zip(runs.approach, runs.cached)
    ]
    for _, alike in runs.groupby(["text", "trains"]):
        words = overview.tell_apart(
            [
                {n: s[n] for n in overview.NAMED if n in s}
                for s in alike.settings
            ]
        )
        runs.loc[alike.index, "trains"] += words
    runs.loc[~runs.timed, "seconds"] = np.nan
    return runs.sort_values(
        ["text", "cached", "trainable_parameters", "trains", "lr"],
        ascending=[True, True, False, True, True],
        kind="stable",
    )


def divide_by_task(study: Study) -> list[Part]:
    """A part for each task; of several files of one, for each of these."""
    return [
        Part(
            study,
            runs,
            str(text),
            {"task": text, "metric": runs.metric.iloc[0]},
        )
        for text, runs in label_runs(study.runs).groupby("text", sort=False)
    ]


def list_groups(part: Part) -> list[Line]:
    """A line for each group of runs that differ by seed alone."""
    return [
        Line(part, group) for _, group in part.runs.groupby("group", sort=False)
    ]


def list_rows(part: Part) -> list[Line]:
    """A line for each row of the overview."""
    return [
        Line(part, row.runs, row)
        for row in part.study.rows
        if part.name in ("", row.task)
    ]


PARTS: dict[str, Callable[[Study], Iterable[Part]]] = {
    "study": lambda study: [Part(study, label_runs(study.runs))],
    "task": divide_by_task,
}
ROWS: dict[str, Callable[[Part], Iterable[Line]]] = {
    "overview": list_rows,
    "groups": list_groups,
}


# === Reading ===


def read(
    path: str, rows: Collection[str] = ROWS, parts: Collection[str] = PARTS
) -> list[Layout]:
    """The tables in a file.

    Args:
        path: of a `tables.toml`.
        rows, parts: names that are known.

    Raises:
        UserError: the file or an entry of it is wrong; the message names the
            table and the column, and what is known.
    """
    try:
        with open(path, "rb") as file:
            entries = tomllib.load(file)["table"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise UserError(f"{path}: no tables can be read: {error}.") from None
    layouts = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}: table {entry.get('name', number)}"
        try:
            layout = Layout(**entry, where=where)
        except TypeError as error:
            raise UserError(f"{where}: {error}.") from None
        _check(f"{where}: rows", layout.rows, rows)
        _check(f"{where}: of", layout.of, parts)
        for column in layout.columns:
            at = f"{where}, column {' '.join(column[:1])}"
            if len(column) not in (2, 3):
                raise UserError(f"{at}: give a title, a measure and a format.")
            _check(f"{at}: format", _split(column)[2], FORMATS)
        layouts.append(layout)
    return layouts


def _split(column: Sequence[str]) -> tuple[str, str, str, int]:
    """Title, measure, format and digits of a column."""
    title, measure, form = [*column, "text"][:3]
    name, _, digits = form.partition(" ")
    return title, measure, name, int(digits or 2)


def _check(where: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise UserError(
            f"{where}: {name!r} is not known. Known are {', '.join(known)}."
        )


# === Filling ===


def fill_tables(
    study: Study,
    measures: Mapping[str, Measure] | None = None,
    rows: Mapping[str, Callable[[Part], Iterable[Line]]] | None = None,
    parts: Mapping[str, Callable[[Study], Iterable[Part]]] | None = None,
) -> list[Table]:
    """The tables of a study that have rows; none without a `tables.toml`.

    Args:
        study: its experiment names the file.
        measures, rows, parts: what its module knows besides `MEASURES`,
            `ROWS` and `PARTS`, by name.

    Raises:
        UserError: see `read`.
    """
    path = claims.find_file(study.folder, study.experiment, "tables.toml")
    if path is None:
        return []
    measures = {**MEASURES, **(measures or {})}
    rows, parts = {**ROWS, **(rows or {})}, {**PARTS, **(parts or {})}
    layouts = read(path, rows, parts)
    divided = {name: [*parts[name](study)] for name in {x.of for x in layouts}}
    return [
        _fill(layout, part, lines, measures)
        for layout in layouts
        for part in divided[layout.of]
        if (lines := [*rows[layout.rows](part)])
    ]


def _fill(
    layout: Layout,
    part: Part,
    lines: Sequence[Line],
    known: Mapping[str, Measure],
) -> Table:
    words = {"part": part.name, **part.words}
    for title, measure, *_ in layout.columns:
        if measure.partition(":")[0] not in PREFIXES:
            names = {**known, **lines[0].values}
            _check(f"{layout.where}, column {title}: measure", measure, names)
    columns = [
        pd.DataFrame([_make_cells(column, line, known) for line in lines])
        for column in layout.columns
    ]
    frame = pd.concat(columns, axis=1).fillna("")
    is_all = "*" in layout.optional
    left_out = [
        name
        for name in frame
        if ((is_all or name in layout.optional) and (frame[name] == "").all())
        or (name in layout.varying and frame[name].nunique() <= 1)
    ]
    try:
        name, caption = (
            text.format(**words) for text in (layout.name, layout.caption)
        )
    except KeyError as error:
        raise UserError(
            f"{layout.where}: has no word {error}. Known are "
            f"{', '.join(words)}."
        ) from None
    return Table(name, caption, frame.drop(columns=left_out), layout.open)


def _make_cells(
    column: Sequence[str], line: Line, known: Mapping[str, Measure]
) -> dict[str, Any]:
    """The cells of a column, or of several, in a row; by title."""
    title, measure, form, digits = _split(column)
    value = look_up(measure, line, known)
    values = value if isinstance(value, Mapping) else {"": value}
    return {
        title.format(key): (
            one
            if one is None or isinstance(one, str)
            else FORMATS[form](one, digits)
        )
        for key, one in values.items()
    }


def look_up(
    measure: str, line: Line, known: Mapping[str, Measure] = MEASURES
) -> Any:
    """A measure of a line: a value, one for each run, or several by name."""
    if measure in line.values or line.runs.empty:
        return line.values.get(measure, "")
    kind, _, name = measure.partition(":")
    if kind == "setting":
        return claims.plain(line.settings.get(name, ""))
    if kind == "metric":
        return measures.measure_runs(name, line.runs)
    return known[measure](line)


# === Published rows, and notes ===


def find_published(
    runs: pd.DataFrame, paper: claims.Paper | None, row: claims.Group
) -> pd.DataFrame:
    """The runs at exactly the settings of a published row.

    They are the paper's in all that the row does not name, and on its encoder
    and data; see `claims.list_differences`.

    Args:
        runs: on one task.
        paper: theirs.
        row: settings by which it differs from the paper's usual ones.
    """
    if paper is None:
        return runs.iloc[:0]
    found = sides.select(runs, row)
    names = set[str]().union(*found.settings) - set(row)
    usual = {n: v for n, v in paper.settings.items() if n in names}
    found = sides.select(found, usual)
    if claims.list_differences(found, paper, row):
        return runs.iloc[:0]
    return found


def explain_tables(study: Study) -> list[str]:
    """Why times are blank and what `did not train` means, a sentence each."""
    said = []
    if count := int((~study.runs.timed).sum()):
        were = "1 run was" if count == 1 else f"{count} runs were"
        said.append(
            f"{were} timed in another environment (machine since its start, "
            "devices, threads, runs side by side, traced or warm) than most: "
            "the scores count, the times are left blank. The time of an epoch "
            "counts where only tracing differs, which is in a run's first "
            "epoch."
        )
    groups = study.runs.groupby("group", sort=False)
    if any(describe_failure(group) for _, group in groups):
        said.append(DID_NOT_TRAIN)
    return said
