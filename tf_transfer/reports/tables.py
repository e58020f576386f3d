"""An experiment's tables and figures as data: `tables.toml`, filled with runs.

The file is next to `claims.toml`. Each `[[table]]` or `[[figure]]` of it names

    of: a name of `PARTS`, or a list of columns of the runs: there is a table
        or a panel for each part, or for each combination of their values
    only: values of columns that the runs have
    rows: a name of `ROWS`, or a list of columns: a row for each combination
    name, caption: texts with words in braces: `{part}`, `{number}` of the
        part, and columns and settings of its first run

A column of a table is a list of its title, a measure (`MEASURES`, a column of
the runs, `setting:NAME` or `metric:NAME`) and a format (`FORMATS`, with digits
after the point), which may be missing. A measure with several named values
makes a column of each; its title has `{}` in place of the name. A column that
is empty in all rows is left out.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    claims,
    contrast,
    groups as groups_lib,
    measures,
    overview,
    plots,
    study as study_lib,
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
        titles = getattr(module, "METRICS", {}).get(self.runs.task.iloc[0])
        if titles is None:
            names = self.runs.metrics.iloc[0]
            titles = {name: name.replace("_", " ") for name in names}
        shared = set.intersection(*map(set, self.runs.metrics))
        return {name: titles[name] for name in titles if name in shared}


@dataclasses.dataclass(frozen=True)
class Line:
    """What a row of a table, or a point or curve of a figure, is made from.

    Attributes:
        part: of the table or panel.
        runs: what is measured; without any, `values` has all that is known.
        row: of the overview, or None.
        base: the runs that these are compared with, or none.
        values: measures that are known already, by name; of a curve of a
            figure, `style` too, see `plots.Curve`.
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
    return contrast.FAILED if groups_lib.did_not_train(runs) else ""


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


def _of_runs(name: str) -> Measure:
    """A column of all runs."""
    return lambda line: line.runs[name]


def _of_run(name: str) -> Measure:
    """A column of the first run."""
    return lambda line: line.runs[name].iloc[0]


def _name_task(line: Line) -> str:
    return line.row.task if line.row else line.runs.text.iloc[0]


def _measure_scores(line: Line) -> dict[str, list[float]]:
    """All metrics of the part, by title."""
    scores = {}
    for name, title in line.part.metrics.items():
        scores[title] = measures.measure_runs(name, line.runs)
    return scores


def _describe_epochs(line: Line) -> str:
    """The mean number of epochs; whether the limit ended runs."""
    epochs = wording.number(line.runs.epochs_run.mean(), 1)
    if line.row and measures.is_cut_off(line.runs):
        epochs += " (limit)"
    return epochs


def list_prefix_seconds(line: Line) -> list[float | None]:
    """What building the cache took, of each run that used one."""
    records = line.runs.record[line.runs.cached]
    return [record["prefix_build_seconds"] for record in records]


MEASURES: dict[str, Measure] = {
    "task": _name_task,
    "trains": _of_row("trains"),
    "trained": _of_row("trained"),
    "gain": _of_row("gain"),
    "share": _of_row("share"),
    "epoch_share": _of_row("epoch_share"),
    "score_interval": lambda line: line.row.score if line.row else "",
    "score": _of_runs("score"),
    "validation": _of_runs("validation"),
    "seconds_per_epoch": _of_runs("seconds_per_epoch"),
    "trainable_parameters": _of_runs("trainable_parameters"),
    "scores": _measure_scores,
    "against": lambda line: compare(line.runs, line.base),
    "n": lambda line: len(line.runs),
    "examples": lambda line: int(line.runs.sizes.iloc[0].get("train", 0)),
    "seconds": lambda line: seconds(line.runs),
    "epochs": _describe_epochs,
    "prefix_seconds": list_prefix_seconds,
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
    parts = []
    for number, (key, members) in enumerate(groups, 1):
        parts.append(Part(study, members, str(key[0]), {"number": number}))
    return parts


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
    scores = {}
    for name, title in part.metrics.items():
        if name in known:
            scores[title] = [100 * known[name]]
    name = "the majority baseline"
    return Line(part, values={"name_or_failure": name, "scores": scores})


def list_groups_and_majority(part: Part) -> list[Line]:
    """A line for each group, and one for the majority baseline."""
    return [*list_groups(part), describe_majority(part)]


def _take_study(study: study_lib.Study) -> list[Part]:
    return [Part(study, study.labelled)]


def _list_published(study: study_lib.Study) -> list[Part]:
    """A part for each published table, whose words are its content."""
    parts = []
    for table in study.published.get("tables", ()):
        parts.append(Part(study, study.labelled, words=table))
    return parts


PARTS: dict[str, Callable[[study_lib.Study], Iterable[Part]]] = {
    "study": _take_study,
    "task": divide_runs,
    "published": _list_published,
}
ROWS: dict[str, Callable[[Part], Iterable[Line]]] = {
    "overview": list_rows,
    "groups": list_groups,
    "groups_and_majority": list_groups_and_majority,
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
    only: Mapping[str, Any] | None,
) -> Iterable[tuple[Part, list[Line]]]:
    """Yields each part that has rows, and these."""
    columns = dict.fromkeys(study.labelled)
    for name in only or ():
        _find(f"{where}: only", name, columns)
    if isinstance(of, str):
        parts = _find(f"{where}: of", of, _list_known(study, "PARTS"))(study)
    else:
        for name in of:
            _find(f"{where}: of", name, columns)
        parts = divide_runs(study, of, only)
    if isinstance(rows, str):
        make = _find(f"{where}: rows", rows, _list_known(study, "ROWS"))
    else:
        for name in rows:
            _find(f"{where}: rows", name, columns)
        make = functools.partial(list_groups, columns=rows)
    for part in parts:
        lines = [*make(part)]
        if lines:
            yield part, lines


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
) -> Iterable[study_lib.Table]:
    """The tables of an entry, one for each part that has rows.

    Args:
        study: theirs.
        where: the file and the entry, for messages.
        name, caption, columns, of, only, rows: see the module.
    """
    for part, lines in _list_lines(study, where, of, rows, only):
        frames = []
        for column in columns:
            cells = [_make_cells(where, column, line) for line in lines]
            frames.append(pd.DataFrame(cells))
        frame = pd.concat(frames, axis=1).fillna("")
        empty = [title for title in frame if (frame[title] == "").all()]
        yield study_lib.Table(
            _word(where, name, part),
            _word(where, caption, part),
            frame.drop(columns=empty),
        )


def _make_cells(
    where: str, column: Sequence[str], line: Line
) -> dict[str, Any]:
    """The cells of a column, or of several, in a row; by title."""
    title, measure, form = [*column, "text", "text"][:3]
    where = f"{where}, column {title}"
    form, _, digits = str(form).partition(" ")
    digits = digits or "2"
    has_texts = all(isinstance(text, str) for text in column)
    if len(column) not in (2, 3) or not has_texts or not digits.isdigit():
        raise UserError(
            f"{where}: give texts for a title, a measure and a format, such as "
            "spread 2."
        )
    show = _find(f"{where}: format", form, FORMATS)
    value = _look_up(where, measure, line)
    values = value if isinstance(value, Mapping) else {"": value}
    cells = {}
    for key, one in values.items():
        if one is not None and not isinstance(one, str):
            try:
                one = show(one, int(digits))
            except (AttributeError, TypeError, ValueError) as error:
                raise UserError(
                    f"{where}: {measure} is nothing to show as {form}."
                ) from error
        cells[title.format(key)] = one
    return cells


def _look_up(where: str, measure: str, line: Line) -> Any:
    """A measure of a line: a value, one for each run, or several by name.

    It is "" where neither the line's values nor its runs have it.

    Raises:
        UserError: it is not known; the message begins with `where`.
    """
    for values in (line.values, line.part.words):
        if measure in values:
            return values[measure]
    kind, _, name = measure.partition(":")
    if kind not in ("setting", "metric"):
        study = line.part.study
        known = {column: _of_run(column) for column in study.labelled}
        known.update(_list_known(study, "MEASURES"))
        make = _find(f"{where}: measure", measure, known)
    if line.runs.empty:
        return ""
    if kind == "setting":
        return claims.plain(line.settings.get(name, ""))
    if kind == "metric":
        return measures.measure_runs(name, line.runs)
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
    of: str | Sequence[str] = "task",
    only: Mapping[str, Any] | None = None,
    rows: str | Sequence[str] = "overview",
    label: str = "trains",
    colour: str = "",
    xscale: str = "",
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
        xlabel, ylabel: of each panel, texts as the caption.
        label: measure that names a curve: rows of one name are one curve.
        colour: measure that decides the look of a curve; the label if not
            given.
        xscale: `log`, `whole` (numbers alone) or `zero` (begins there).
    """
    scale = _find(f"{where}: xscale", xscale, plots.SCALES)
    looks: dict[str, dict[str, Any]] = {}
    panels = []
    parts = [*_list_lines(study, where, of, rows, only)]
    for part, lines in parts:
        curves: dict[str, plots.Curve] = {}
        for line in lines:
            points = _list_points(where, x, y, line)
            if points:
                text = str(claims.plain(_look_up(where, label, line)))
                shade = text
                if colour:
                    shade = str(claims.plain(_look_up(where, colour, line)))
                if shade not in looks:
                    looks[shade] = _choose_look(shade, len(looks))
                style = _style_line(looks[shade], line)
                curve = curves.setdefault(text, plots.Curve([], style))
                curve.points.extend(points)
        if curves:
            unit = _word(where, ylabel, part)
            bounds = part.words.get("bounds", ())
            panels.append(plots.Panel(part.name, curves, unit, bounds))
    if panels:
        first, _ = parts[0]
        yield plots.draw_panels(
            _word(where, name, first),
            _word(where, caption, first),
            panels,
            _word(where, xlabel, first),
            dress=scale,
        )


def _choose_look(shade: str, number: int) -> dict[str, Any]:
    """The colour and the marker of curves.

    Args:
        shade: what they have in common.
        number: how many others there are.
    """
    return {
        "color": plots.colour_of(shade, number),
        "marker": plots.MARKERS[number % len(plots.MARKERS)],
    }


def _style_line(look: Mapping[str, Any], line: Line) -> dict[str, Any]:
    """The style of a curve: dashed and hollow if its runs are cached."""
    style = {**look, "linestyle": "-"}
    if any(line.runs.get("cached", ())):
        style.update(linestyle="--", markerfacecolor="white")
    style.update(line.values.get("style", {}))
    return style


def _list_points(where: str, x: str, y: str, line: Line) -> list[plots.Point]:
    """The known points of a row: of a curve where y has named values, or one.

    Args:
        where: for messages.
        x, y, line: see `_draw`.
    """
    value = _look_up(where, y, line)
    if isinstance(value, Mapping):
        curve = [*value.items()]
    else:
        curve = [(_look_up(where, x, line), value)]
    points = []
    for cost, score in curve:
        point = _summarize(cost), _summarize(score)
        if point[0].is_known and point[1].is_known:
            points.append(point)
    return points


def _summarize(value: Any) -> overview.Ranged:
    """A value with its interval; of several, the mean and the deviation."""
    if isinstance(value, overview.Ranged):
        return value
    return wording.deviation(np.atleast_1d(np.asarray(value, float)))


# === Published rows ===


def find_runs(
    study: study_lib.Study, task: str, wanted: claims.Settings
) -> pd.DataFrame:
    """The runs of one row of a paper's table, of a study on one task.

    They are chosen by the rule of claims: settings that the row does not name
    are the paper's where the study has these.

    Args:
        study: theirs.
        task: as in the column `task`.
        wanted: settings of the row.

    Returns:
        Runs that differ by seed alone; none if there is no such group.
    """
    runs = study.runs[study.runs.task == task]
    if study.paper is None or runs.empty:
        return runs.iloc[:0]
    try:
        [chosen] = groups_lib.find_groups(
            groups_lib.list_groups(runs), study.paper, [wanted]
        )
    except groups_lib.NotFound:
        return runs.iloc[:0]
    return chosen.runs


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
    chosen = groups_lib.select_runs(runs, row)
    names = set[str]().union(*chosen.settings) - set(row)
    usual = {n: v for n, v in paper.settings.items() if n in names}
    chosen = groups_lib.select_runs(chosen, usual)
    differs = claims.list_differences(chosen, paper, row)
    return runs.iloc[:0] if differs else chosen
