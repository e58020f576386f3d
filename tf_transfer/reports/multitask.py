"""The tables of "Finetune minBERT", from runs of `multitask`.

A row of the paper's is met by the runs that train as it says. Its rate and
epochs are asked for in proportion, so that a study on a small machine, which
has other ones, can stand beside the paper's: usual are those of most runs (the
least of several); where the paper takes twice its usual rate, or five times its
usual epochs, a run here must do so, too. Runs of the output layers alone have a
usual of their own. Each row says at what rate and for how long ours trained.
"""

import dataclasses
import math

from tf_transfer.reports import forgetting
from tf_transfer.reports import multitask_ways
from tf_transfer.reports import studies
from tf_transfer.reports.compare import facts_of
from tf_transfer.reports.compare import verdict
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.multitask_ways import amount
from tf_transfer.reports.multitask_ways import difference
from tf_transfer.reports.multitask_ways import SCORES
from tf_transfer.reports.multitask_ways import scores
from tf_transfer.reports.multitask_ways import usual_here
from tf_transfer.reports.multitask_ways import way_of
from tf_transfer.reports.options import Options
from tf_transfer.reports.words import not_as_in_the_paper
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import notes_on_times
from tf_transfer.reports.words import points
from tf_transfer.reports.words import spread

ALIKE = 0.01  # sizes that differ by less count header lines and the like
NO_VERDICT = (
    " So there is no verdict on mean against [CLS], and none on Quora's own "
    "figure, which is a third of overall."
)

prepared = multitask_ways.prepared


def sections(study, summary, published, options=Options()):
    """The parts of a report on one study; see `reports.glue.sections`."""
    del options
    parts, differing = [], []
    for dataset in study.datasets:
        if len(study.datasets) > 1:
            parts.append(Heading(3, dataset.name))
        name = f"{study.name}_{dataset.name}"
        cells = list(dataset.cells.values())
        rows = rows_of(cells, published)
        known = facts_of(summary, study, dataset)
        best = rows["3.2"].cell if rows else None  # of 20 epochs
        parts += [
            *_tables(name, cells, rows, known, published),
            *_comparisons(name, study.model, rows, published),
            *multitask_ways.all_ways(name, cells),
            *multitask_ways.combined(name, cells),
            *forgetting.parts(name, cells, best),
        ]
        differing += _differing(study, dataset, cells, published)
    return [*parts, *_footnotes(study, published, differing)]


# === The paper's rows ===


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of one of the paper's tables.

    Attributes:
        figures: the paper's, in points, in the order of `SCORES`.
        cell: `studies.Cell` of the runs that meet it, or None.
    """

    name: str
    figures: tuple
    cell: studies.Cell | None


def rows_of(cells, published):
    """Dict from `3.2`, a table and a line of it, to its `Row`."""
    usual, found = published.get("usual"), {}
    for table in published.get("tables", ()):
        for line, row in enumerate(table["rows"], 1):
            wanted = {**usual, **table["settings"], **row["settings"]}
            found[f"{table['number']}.{line}"] = Row(
                row["name"],
                tuple(100 * figure for figure in row["figures"]),
                _meeting(cells, wanted, usual),
            )
    return found


def _meeting(cells, wanted, usual):
    """The cell that meets a row, or None.

    Of several, one that takes the tasks in the row's order comes first; then
    the one with most runs, then a live one.
    """
    here = usual_here(cells, wanted["train"])
    return max(
        (cell for cell in cells if _meets(way_of(cell), here, wanted, usual)),
        key=lambda cell: (
            way_of(cell)["order"] == wanted["order"],
            len(cell.records),
            not cell.cached,
        ),
        default=None,
    )


def _meets(way, here, wanted, usual):
    """Whether a way is a row's, at its multiple of rate and epochs."""
    same = ("train", "pooling", "layer_decay", "combine")
    if any(way[name] != wanted[name] for name in same):
        return False
    if way["pairs"] != "sbert" or way["loss_weights"]:
        return False
    return all(
        math.isclose(
            way[name] / here[name], wanted[name] / usual[name], rel_tol=1e-3
        )
        for name in here
    )


# === Tables 2 to 8 ===


def _tables(name, cells, rows, known, published):
    """The paper's tables, ours beside them, and what the majority scores.

    A table of which no row was run is named alone.
    """
    if not rows:
        return []
    parts = [
        Heading(3, "The paper's tables"),
        Text(_how_rows_are_met(cells, published["usual"])),
    ]
    columns = ("", "here", "n", *_paired(SCORES.values(), _papers()), "time, s")
    unmet = []
    for table in published["tables"]:
        number = table["number"]
        here = [
            rows[f"{number}.{place}"]
            for place in range(1, len(table["rows"]) + 1)
        ]
        if not any(row.cell for row in here):
            unmet.append(f"table {number}, {table['caption']}")
            continue
        lines = [_line(row) for row in here]
        if "majorities" in known:
            majorities = [points(100 * known["majorities"][n]) for n in SCORES]
            filled = _paired(majorities, [""] * len(SCORES))
            lines.append(("the majority class", "", "", *filled, ""))
        caption = (
            f"Table {number}: {table['caption']}. In points, mean and "
            "deviation over n seeds"
        )
        parts.append(
            Table(f"table_{number}_{name}", caption, columns, tuple(lines))
        )
    if unmet:
        parts.append(Text(f"No run here is a row of: {'; '.join(unmet)}."))
    return parts


def _papers():
    return [f"{name}, paper" for name in SCORES.values()]


def _paired(ours, theirs):
    """One of ours, one of theirs, and so on."""
    return [cell for pair in zip(ours, theirs) for cell in pair]


def _line(row):
    theirs = [f"{figure:.1f}" for figure in row.figures]
    if row.cell is None:
        return (row.name, "not run", "", *_paired([""] * 4, theirs), "")
    here = amount(way_of(row.cell)) + ("; cached" if row.cell.cached else "")
    return (
        row.name,
        here,
        str(len(row.cell.records)),
        *_paired(scores(row.cell), theirs),
        spread(row.cell.seconds, 1),
    )


def _how_rows_are_met(cells, usual):
    here = usual_here(cells, "all")
    said = "`here` says at what rate and for how long ours trained."
    if here:
        said += (
            f" Most runs here train everything at {here['lr']:g} for "
            f"{here['epochs']} epochs. They stand for the paper's "
            f"{usual['lr']:g} and {usual['epochs']}; runs at twice this rate, "
            "or for five times as many epochs, stand for its "
            f"{2 * usual['lr']:g} and {5 * usual['epochs']}."
        )
    return said


# === The paper's comparisons ===


def _comparisons(name, model, rows, published):
    """Of each of the paper's comparisons, whether ours has the same sign."""
    lines, unmet = [], []
    for known in published.get("comparisons", ()):
        one, other = (rows[place] for place in known["rows"])
        if not (one.cell and other.cell):
            unmet.append(known["claim"])
            continue
        theirs = round(one.figures[0] - other.figures[0], 1)
        found = difference(one.cell, other.cell)
        word = verdict(theirs, found)
        if known.get("on_pooling") and notes_on_model(model):
            word = "no verdict"
        places = " - ".join(known["rows"])
        lines.append(
            (known["claim"], places, f"{theirs:+.1f}", found.text, word)
        )
    parts = []
    if lines:
        caption = (
            "Differences in overall, in points, ours with a 95 % interval over "
            "seeds (Welch's). `within noise`: the interval has both signs. `no "
            "verdict`: see the footnote on the encoder"
        )
        columns = ("one against the other", "rows", "paper", "ours", "sign")
        parts += [
            Heading(3, "The paper's comparisons"),
            Table(f"signs_{name}", caption, columns, tuple(lines)),
        ]
        if unmet:
            parts.append(Text(f"Not compared here: {'; '.join(unmet)}."))
    return parts


# === What to know when reading ===


def _differing(study, dataset, cells, published):
    """Sentences on what of these runs is not as in the paper."""
    if not published:
        return []
    usual = published["usual"]
    ours, theirs = {**study.settings, "model": study.model}, {}
    theirs |= published["settings"]
    for train, words in (("all", ""), ("head", ", output layers alone")):
        here = usual_here(cells, train)
        ours |= {f"{name}{words}": value for name, value in here.items()}
    theirs |= {
        "lr": usual["lr"],
        "epochs": usual["epochs"],
        "lr, output layers alone": published["head_lr"],
        "epochs, output layers alone": usual["epochs"],
    }
    for name, size in published["sizes"].items():
        if abs(dataset.sizes.get(name, 0) - size) > ALIKE * size:
            words = f"examples, {name.replace('_', ' ')}"
            ours[words], theirs[words] = dataset.sizes.get(name), size
    return not_as_in_the_paper(ours, theirs)


def _footnotes(study, published, differing):
    notes = [*filter(None, [published.get("source")])]
    notes += [*published.get("footnotes", ()), *differing]
    notes += [note + NO_VERDICT for note in notes_on_model(study.model)]
    notes += notes_on_times(study)
    return [Text("Footnotes:"), Items(tuple(notes), numbered=True)]
