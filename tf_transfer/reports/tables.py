"""An experiment's tables and figures as data: `tables.toml`, filled with runs.

The file is next to `claims.toml`. Each `[[table]]` or `[[figure]]` of it names

    of: a name of `PARTS`, or a list of columns of the runs: there is a table
        or a panel for each part, or for each combination of their values
    only: values of columns that the runs have
    rows: a name of `ROWS`, or a list of columns: a row for each combination
    name, caption: texts with words in braces: `{part}`, `{number}` of the
        part, and columns and settings of its first run

A column of a table is a list of its title, a measure (`MEASURES`, a column of
the runs, `setting:NAME` or `metric:NAME`), a format (`FORMATS`, with digits
after the point), and what the caption says where it is shown; the last two may
be missing. A measure with several named values makes a column of each; its
title has `{}` in place of the name.

    [[table]]
    name = "scores_{part}"
    caption = "{task}: {metric} on test, mean ± standard deviation"
    of = "task"
    rows = "groups"
    columns = [["trains", "trains"], ["score", "score", "spread 1"]]

    [[figure]]
    name = "pooling"
    caption = "Score against the time of training"
    x = "seconds"
    y = "score"
    xlabel = "seconds"
    colour = "setting:pooling"

An experiment's module may have `MEASURES`, `ROWS` and `PARTS` of its own, which
come before those here, and `METRICS`, the titles of metrics by task. The
arguments of `_fill` and `_draw` are all the keys.
"""

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    brief,
    choose,
    claims,
    measures,
    overview,
    plots,
    study as study_lib,
    verdicts,
    wording,
)
from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class Part:
    """Runs that a table or a panel is of.

    Attributes:
        study: theirs.
        runs: see `study.Study.labelled`.
        name: `{part}` of a table's name and caption, or "".
        words: what else these have in braces.
    """

    study: study_lib.Study
    runs: pd.DataFrame
    name: str = ""
    words: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def metrics(self) -> dict[str, str]:
        """Titles of the metrics that all runs have, by name."""
        module = study_lib.module_of(self.study.experiment)
        titles = getattr(module, "METRICS", {}).get(self.runs.task.iloc[0], {})
        shared = set.intersection(*map(set, self.runs.metrics))
        own = {n: n.replace("_", " ") for n in self.runs.metrics.iloc[0]}
        return {n: t for n, t in (titles or own).items() if n in shared}


@dataclasses.dataclass(frozen=True)
class Line:
    """What a row of a table, or a point or curve of a figure, is made from.

    Attributes:
        part: of the table or panel.
        runs: what is measured; without any, `values` has all that is known.
        row: of the overview, or None.
        base: the runs that these are compared with, or none.
        values: measures that are known already, by name; of a curve, `style`
            too, see `plots.Curve`.
    """

    part: Part
    runs: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    row: overview.Row | None = None
    base: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def settings(self) -> claims.Settings:
        """The settings of its first run."""
        return self.runs.settings.iloc[0]


Measure = Callable[[Line], Any]
Look = Callable[[str, str, Line], Any]  # for messages; a measure; its line


# === What is known ===


def seconds(runs: pd.DataFrame) -> list[float]:
    """Training times that may be compared with others."""
    return wording.known(runs[runs.timed].seconds)


def describe_cache(settings: claims.Settings) -> str:
    """Whether and how the frozen blocks are cached, in words."""
    if settings.get("frozen_prefix") != "cached":
        return ""
    dtype = settings.get("cache_dtype", "float16")
    return "cached" if dtype == "float16" else f"cached as {dtype}"


def describe_failure(runs: pd.DataFrame) -> str:
    """`not shown to be above the majority baseline`, or nothing."""
    return brief.FAILED if verdicts.did_not_train(runs) else ""


def join(*words: str, mark: str = ", ") -> str:
    """Words with a mark between them; empty ones are left out."""
    return mark.join(filter(None, words))


def compare(runs: pd.DataFrame, base: pd.DataFrame) -> str:
    """The difference of scores; nothing between a group and itself."""
    if base.empty or base.index.equals(runs.index):
        return ""
    return wording.difference(runs.score, base.score)


def _of_row(name: str) -> Measure:
    """An attribute of the overview's row, or else of the first run."""
    return lambda line: getattr(line.row or line.runs.iloc[0], name, "")


def _of_run(name: str) -> Measure:
    """A column of the first run."""
    return lambda line: line.runs[name].iloc[0]


def _describe_epochs(line: Line) -> str:
    """The mean number of epochs; whether the limit ended runs."""
    epochs = wording.number(line.runs.epochs_run.mean(), 1)
    if line.row and measures.is_cut_off(line.runs):
        epochs += " (limit)"
    return epochs


MEASURES: dict[str, Measure] = {
    **{
        name: _of_row(name)
        for name in "trains trained note gain kept share epoch_share".split()
    },
    **{
        name: operator.attrgetter(f"runs.{name}")
        for name in ("score", "validation", "seconds_per_epoch", "memory")
        + ("epochs_run", "trainable_parameters", "total_parameters")
    },
    "task": lambda line: line.row.task if line.row else line.runs.text.iloc[0],
    "score_interval": lambda line: line.row.score if line.row else "",
    "scores": lambda line: {
        title: measures.measure_runs(name, line.runs)
        for name, title in line.part.metrics.items()
    },
    "against": lambda line: compare(line.runs, line.base),
    "n": lambda line: len(line.runs),
    "examples": lambda line: int(line.runs.sizes.iloc[0].get("train", 0)),
    "seconds": lambda line: seconds(line.runs),
    "epochs": _describe_epochs,
    "prefix_seconds": lambda line: [
        record["prefix_build_seconds"]
        for record in line.runs[line.runs.cached].record
    ],
}
# Each shows one value or several. `spread` and `change` need several, one for
# each run, `interval` an `overview.Ranged`; the others show a mean of several.
FORMATS: dict[str, Callable[[Any, int], Any]] = {
    "text": lambda value, digits: value,
    "spread": wording.spread,
    "change": lambda values, digits: wording.spread(values, digits, "+"),
    "interval": wording.ranged,
    "number": lambda value, digits: wording.number(_mean(value), digits),
    "count": lambda value, digits: wording.whole(_mean(value)),
    "rate": lambda value, digits: wording.rate(_mean(value)),
}


def _mean(value: Any) -> float:
    return wording.mean(np.atleast_1d(np.asarray(value, float)))


def divide_runs(
    study: study_lib.Study,
    columns: Sequence[str] = ("text",),
    only: Mapping[str, Any] | None = None,
) -> list[Part]:
    """A part for each combination of values of some columns, in their order.

    Args:
        study: theirs.
        columns: of `labelled`; the first one names the parts.
        only: values that the runs have.
    """
    runs = study.labelled
    for name, value in (only or {}).items():
        runs = runs[runs[name] == value]
    groups = runs.groupby([*columns], sort=False, observed=True)
    return [
        Part(study, members, str(key[0]), {"number": number})
        for number, (key, members) in enumerate(groups, 1)
    ]


def list_groups(part: Part, columns: Sequence[str] = ("group",)) -> list[Line]:
    """A line for each group of runs that differ by seed alone.

    Args:
        part: theirs.
        columns: there is a line for each combination of their values.
    """
    groups = part.runs.groupby([*columns], sort=False, observed=True)
    return [Line(part, members) for _, members in groups]


def list_rows(part: Part) -> list[Line]:
    """A line for each row of the overview."""
    return [
        Line(part, row.runs, row)
        for row in part.study.rows
        if part.name in ("", row.task)
    ]


def describe_majority(part: Part) -> Line:
    """The majority baseline: of words, `O` for all; see the measure `scores`.

    Its name is a value of the measure `name_or_failure`.
    """
    known = part.runs.record.iloc[0]["majorities"]
    scores = {
        title: [100 * known[name]]
        for name, title in part.metrics.items()
        if name in known
    }
    name = "the majority baseline"
    return Line(part, values={"name_or_failure": name, "scores": scores})


PARTS: dict[str, Callable[[study_lib.Study], Iterable[Part]]] = {
    "study": lambda study: [Part(study, study.labelled)],
    "task": divide_runs,
    "published": lambda study: [
        Part(study, study.labelled, words=table)
        for table in study.published.get("tables", ())
    ],
}
ROWS: dict[str, Callable[[Part], Iterable[Line]]] = {
    "overview": list_rows,
    "groups": list_groups,
    "groups_and_majority": lambda part: [
        *list_groups(part),
        describe_majority(part),
    ],
}


# === Reading ===


def fill_tables(
    study: study_lib.Study, kind: str = "table"
) -> list[study_lib.Table]:
    """The tables of a study that have rows; none without a `tables.toml`.

    Args:
        study: theirs.
        kind: of the entries; a `headline` replaces the overview in a document,
            which has each table of the kind `document`, too.

    Raises:
        UserError: the file is wrong; the message names the table and the
            column, and what is known.
    """
    return _make(study, kind, _fill)


def draw_figures(
    study: study_lib.Study, kind: str = "figure"
) -> list[study_lib.Figure]:
    """The figures of a study that show something; see `fill_tables`.

    Args:
        study: theirs.
        kind: of the entries; `first_figure` stands at the top of the page.
    """
    return _make(study, kind, _draw)


def _make(
    study: study_lib.Study, kind: str, make: Callable[..., Iterable[Any]]
) -> list[Any]:
    """The tables or figures of each entry of a kind, in their order."""
    path, content = study.declared
    entries = content.get(kind, [])
    made: list[Any] = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}: {kind} {entry.get('name', number)}"
        try:
            inspect.signature(make).bind(study, where, **entry)
        except TypeError as error:
            raise UserError(f"{where}: {error}.") from None
        made += make(study, where, **entry)
    return made


def _list_known(study: study_lib.Study, kind: str) -> dict[str, Any]:
    """`MEASURES`, `ROWS` or `PARTS`, with those of the module."""
    own = vars(study_lib.module_of(study.experiment) or object)
    return {**globals()[kind], **own.get(kind, {})}


def _find(where: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise UserError(
            f"{where}: {name!r} is not known. Known are {', '.join(known)}."
        )
    return known[name]


def _list_lines(
    study: study_lib.Study,
    where: str,
    of: str | Sequence[str],
    rows: str | Sequence[str],
    only: Mapping[str, Any] | None = None,
) -> Iterable[tuple[Part, list[Line], Look]]:
    """Yields each part that has rows, these, and how to look up a measure."""
    columns = dict.fromkeys(study.labelled)
    for name in (*(() if isinstance(of, str) else of), *(only or ())):
        _find(f"{where}: of", name, columns)
    for name in () if isinstance(rows, str) else rows:
        _find(f"{where}: rows", name, columns)
    parts = (
        _find(f"{where}: of", of, _list_known(study, "PARTS"))(study)
        if isinstance(of, str)
        else divide_runs(study, of, only)
    )
    make_lines = (
        _find(f"{where}: rows", rows, _list_known(study, "ROWS"))
        if isinstance(rows, str)
        else functools.partial(list_groups, columns=rows)
    )
    for part in parts:
        if lines := [*make_lines(part)]:
            names = {n for x in lines for n in (*x.values, *x.part.words)}
            known = {
                **dict.fromkeys(names, lambda line: ""),
                **{name: _of_run(name) for name in study.labelled},
                **_list_known(study, "MEASURES"),
            }
            yield part, lines, functools.partial(_look_up, known)


def _word(where: str, text: str, part: Part) -> str:
    """A text with its words in braces filled in."""
    first = part.runs.iloc[0]
    words = {
        **first.settings,
        **first,
        "metric": part.metrics.get(first.metric, first.metric),
        "part": part.name,
        "study": part.study.name,
        **part.words,
    }
    try:
        return text.format(**words)
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{where}: has no word {error}. Known are {', '.join(words)}."
        ) from None


# === Tables ===


def _fill(
    study: study_lib.Study,
    where: str,
    name: str,
    caption: str,
    columns: Sequence[Sequence[str]],
    of: str | Sequence[str] = "study",
    only: Mapping[str, Any] | None = None,
    rows: str | Sequence[str] = "overview",
    optional: Sequence[str] = (),
    open: bool = False,
) -> Iterable[study_lib.Table]:
    """The tables of an entry, one for each part that has rows.

    Args:
        study: theirs.
        where: the file and the entry, for messages.
        name, caption, columns, of, only, rows: see the module.
        optional: titles of columns that are left out where they are empty;
            `*` means all.
        open: whether the page shows the table unfolded.
    """
    for part, lines, look_up in _list_lines(study, where, of, rows, only):
        frames = [
            pd.DataFrame(
                [_make_cells(where, column, line, look_up) for line in lines]
            )
            for column in columns
        ]
        frame = pd.concat(frames, axis=1).fillna("")
        dropped = [
            title
            for title in frame
            if {title, "*"} & {*optional} and (frame[title] == "").all()
        ]
        frame = frame.drop(columns=dropped)
        sentences = [
            f"`{column[0]}`: {column[3]}"
            for column in columns
            if column[0] in frame and column[3:]
        ]
        yield study_lib.Table(
            _word(where, name, part),
            ". ".join([_word(where, caption, part), *sentences]),
            frame,
            open,
        )


def _make_cells(
    where: str, column: Sequence[str], line: Line, look_up: Look
) -> dict[str, Any]:
    """The cells of a column, or of several, in a row; by title."""
    title, measure, form = [*column, "text", "text"][:3]
    where = f"{where}, column {title}"
    form, _, digits = str(form).partition(" ")
    if not (
        2 <= len(column) <= 4
        and all(isinstance(text, str) for text in column)
        and (digits or "2").isdigit()
    ):
        raise UserError(
            f"{where}: give texts for a title, a measure and a format, such as "
            "spread 2."
        )
    show = _find(f"{where}: format", form, FORMATS)
    value = look_up(where, measure, line)
    values = value if isinstance(value, Mapping) else {"": value}
    try:
        return {
            title.format(key): (
                one
                if one is None or isinstance(one, str)
                else show(one, int(digits or 2))
            )
            for key, one in values.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"{where}: {measure} is nothing to show as {form}."
        ) from error


def _look_up(
    known: Mapping[str, Measure], where: str, measure: str, line: Line
) -> Any:
    """A measure of a line: a value, one for each run, or several by name.

    It is "" where neither the line's values nor its runs have it.

    Raises:
        UserError: it is not known; the message begins with `where`.
    """
    kind, _, name = measure.partition(":")
    own: dict[str, Measure] = {
        "setting": lambda line: claims.plain(line.settings.get(name, "")),
        "metric": lambda line: measures.measure_runs(name, line.runs),
    }
    make = own.get(kind) or _find(f"{where}: measure", measure, known)
    values = {**line.part.words, **line.values}
    if measure in values or line.runs.empty:
        return values.get(measure, "")
    return make(line)


# === Figures ===


def _draw(
    study: study_lib.Study,
    where: str,
    name: str,
    caption: str,
    y: str,
    xlabel: str,
    x: str = "",
    ylabel: str = "{metric} on test, points",
    title: str = "{part}",
    of: str | Sequence[str] = "task",
    only: Mapping[str, Any] | None = None,
    rows: str | Sequence[str] = "overview",
    levels: Mapping[str, float] | None = None,
    label: str = "trains",
    colour: str = "",
    marker: str = "",
    style: Mapping[str, Any] | None = None,
    has_band: bool = False,
    xscale: str = "",
    height: float = 3.3,
) -> Iterable[study_lib.Figure]:
    """The figure of an entry, with a panel for each part that has rows.

    A part's words may have `bounds`, where vertical lines are.

    Args:
        study: of the figure.
        where: the file and the entry, for messages.
        name, caption, of, only, rows: see the module; the words are those of
            the first part.
        x, y: measures of a point; of several values, their mean and standard
            deviation. A y with named values is a whole curve by x.
        xlabel, ylabel, title: of each panel, texts as the caption.
        label: measure that names a curve: rows of one name are one curve.
        colour, marker: measures that decide the look of a curve; the label if
            not given. Where they differ the legend shows both.
        levels: horizontal lines, by label.
        style: of all curves, see `plots.Curve`.
        has_band: see `plots.Curve`.
        xscale: `log`, `whole` (numbers alone) or `zero` (begins there).
        height: of a panel, in inches.
    """
    colours: dict[str, str] = {}
    markers: dict[str, str] = {}
    panels = []
    parts = [*_list_lines(study, where, of, rows, only)]
    for part, lines, look_up in parts:
        at = functools.partial(look_up, where)
        curves: dict[str, plots.Curve] = {}
        for line in lines:
            points = _list_points(at, x, y, line)
            if not points:
                continue
            text, shade, shape = (
                str(claims.plain(at(key or label, line)))
                for key in (label, colour, marker)
            )
            colours.setdefault(shade, plots.colour_of(shade, len(colours)))
            markers.setdefault(shape, plots.MARKERS[len(markers) % 8])
            is_cached = any(line.runs.get("cached", ()))
            look = {
                "color": colours[shade],
                "marker": markers[shape],
                "linestyle": "--" if is_cached else "-",
                "markerfacecolor": "white" if is_cached else colours[shade],
                **(style or {}),
                **line.values.get("style", {}),
            }
            curve = curves.setdefault(text, plots.Curve([], look, has_band))
            curve.points.extend(points)
        if curves:
            panels.append(
                plots.Panel(
                    _word(where, title, part),
                    curves,
                    _word(where, ylabel, part),
                    levels or {},
                    part.words.get("bounds", ()),
                )
            )
    looks = {
        **{n: plots.make_handle(c, linewidth=4) for n, c in colours.items()},
        **{
            n: plots.make_handle(marker=m, linestyle="none")
            for n, m in markers.items()
        },
    }
    if panels:
        yield plots.draw_panels(
            _word(where, name, parts[0][0]),
            _word(where, caption, parts[0][0]),
            panels,
            _word(where, xlabel, parts[0][0]),
            height,
            _find(f"{where}: xscale", xscale, plots.SCALES),
            looks if marker != colour else None,
        )


def _list_points(
    at: Callable[[str, Line], Any], x: str, y: str, line: Line
) -> list[plots.Point]:
    """The known points of a row: of a curve where y has named values, or one.

    Args:
        at: looks up a measure.
        x, y, line: see `_draw`.
    """
    value = at(y, line)
    is_curve = isinstance(value, Mapping)
    pairs = value.items() if is_curve else [(at(x, line), value)]
    points = [(_summarize(cost), _summarize(score)) for cost, score in pairs]
    return [point for point in points if all(v.is_known for v in point)]


def _summarize(value: Any) -> overview.Ranged:
    """A value with its interval; of several, the mean and the deviation."""
    if isinstance(value, overview.Ranged):
        return value
    return wording.deviation(np.atleast_1d(np.asarray(value, float)))


# === Published rows ===


def find_published(
    runs: pd.DataFrame, paper: claims.Paper | None, row: claims.Settings
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
    chosen = choose.select(runs, row)
    names = set[str]().union(*chosen.settings) - set(row)
    usual = {n: v for n, v in paper.settings.items() if n in names}
    chosen = choose.select(chosen, usual)
    differs = claims.list_differences(chosen, paper, row)
    return runs.iloc[:0] if differs else chosen
