"""The tables of "Finetune minBERT", from runs of `multitask`.

A row of the paper's is filled by the runs that train as it says. Its rate and
epochs are asked for in proportion, so that a study on a small machine, which
has other ones, can stand beside the paper's: usual are those of most runs (the
least of several); where the paper takes twice its usual rate, or five times its
usual epochs, a run here must do so, too. Runs of the output layers alone have a
usual of their own. Each row says at what rate and for how long ours trained.
"""

import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from tf_transfer.data import cs224n
from tf_transfer.reports import forgetting
from tf_transfer.reports import multitask_recipes
from tf_transfer.reports import predictions as predictions_lib
from tf_transfer.reports.compare import facts_of
from tf_transfer.reports.compare import verdict
from tf_transfer.reports.document import footnotes
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.multitask_recipes import amount
from tf_transfer.reports.multitask_recipes import difference
from tf_transfer.reports.multitask_recipes import Recipe
from tf_transfer.reports.multitask_recipes import recipe_of
from tf_transfer.reports.multitask_recipes import SCORES
from tf_transfer.reports.multitask_recipes import scores
from tf_transfer.reports.multitask_recipes import usual_here
from tf_transfer.reports.options import Options
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
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

prepare = multitask_recipes.prepare


def facts(
    dataset: Dataset, predictions: predictions_lib.Predictions
) -> dict[str, Any]:
    """What each task's commonest answer scores, and all of them together."""
    for record in dataset.records:
        labels = predictions.validation_labels(record, cs224n.TASKS)
        if labels is not None:
            majorities = {
                f"{name}_{task.metric}": predictions_lib.majority(
                    task.metric, labels[name]
                )
                for name, task in cs224n.TASKS.items()
            }
            overall = cs224n.overall(majorities)
            return {"majorities": {**majorities, "overall": overall}}
    return {}


def sections(
    study: Study,
    summary: dict[str, Any],
    published: dict[str, Any],
    options: Options = Options(),
) -> list[Part]:
    """The parts of a report on one study; see `reports.glue.sections`."""
    del options
    parts: list[Part] = []
    notes = [*filter(None, [published.get("source")])]
    notes += published.get("footnotes", ())
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
            *multitask_recipes.list_recipes(name, cells),
            *multitask_recipes.compare_combinations(name, cells),
            *forgetting.show_forgetting(name, cells, best),
        ]
        notes += _notes_on_differences(study, dataset, cells, published)
    notes += [note + NO_VERDICT for note in notes_on_model(study.model)]
    notes += notes_on_times(study)
    return [*parts, *footnotes(notes)]


# === The paper's rows ===


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of one of the paper's tables.

    Attributes:
        name: what the paper calls it.
        figures: the paper's, in points, in the order of `SCORES`.
        cell: of the runs that train so, or None.
    """

    name: str
    figures: tuple[float, ...]
    cell: Cell | None


def rows_of(cells: Sequence[Cell], published: dict[str, Any]) -> dict[str, Row]:
    """The paper's `Row`s by table and line, such as `3.2`."""
    rows = {}
    for table in published.get("tables", ()):
        usual = published["usual"]
        for line, row in enumerate(table["rows"], 1):
            wanted = {**usual, **table["settings"], **row["settings"]}
            rows[f"{table['number']}.{line}"] = Row(
                row["name"],
                tuple(100 * figure for figure in row["figures"]),
                _find_cell(cells, wanted, usual),
            )
    return rows


def _find_cell(
    cells: Sequence[Cell], wanted: Recipe, usual: Recipe
) -> Cell | None:
    """The cell that trains as a row says, or None.

    Of several, one that takes the tasks in the row's order comes first; then
    the one with most runs, then a live one.
    """
    here = usual_here(cells, wanted["train"])
    return max(
        (c for c in cells if _is_as_wanted(recipe_of(c), here, wanted, usual)),
        key=lambda cell: (
            recipe_of(cell)["order"] == wanted["order"],
            len(cell.records),
            not cell.cached,
        ),
        default=None,
    )


def _is_as_wanted(
    recipe: Recipe, here: Recipe, wanted: Recipe, usual: Recipe
) -> bool:
    """Whether a recipe is a row's, at its multiple of rate and epochs."""
    same = ("train", "pooling", "layer_decay", "combine")
    if any(recipe[name] != wanted[name] for name in same):
        return False
    if recipe["pairs"] != "sbert" or recipe["loss_weights"]:
        return False
    return all(
        math.isclose(
            recipe[name] / here[name], wanted[name] / usual[name], rel_tol=1e-3
        )
        for name in here
    )


# === Tables 2 to 8 ===


def _tables(
    name: str,
    cells: Sequence[Cell],
    rows: dict[str, Row],
    known: dict[str, Any],
    published: dict[str, Any],
) -> list[Part]:
    """The paper's tables, ours beside them, and what the majority scores.

    A table of which no row was run is only named.
    """
    if not rows:
        return []
    parts: list[Part] = [
        Heading(3, "The paper's tables"),
        Text(_explain_rows(cells, published["usual"])),
    ]
    theirs = [f"{score}, paper" for score in SCORES.values()]
    columns = ("", "here", "n", *_alternate(SCORES.values(), theirs), "time, s")
    not_run = []
    for table in published["tables"]:
        number = table["number"]
        of_table = [
            rows[f"{number}.{line}"]
            for line in range(1, len(table["rows"]) + 1)
        ]
        if not any(row.cell for row in of_table):
            not_run.append(f"table {number}, {table['caption']}")
            continue
        lines = [_make_line(row) for row in of_table]
        if "majorities" in known:
            majorities = [points(100 * known["majorities"][n]) for n in SCORES]
            filled = _alternate(majorities, [""] * len(SCORES))
            lines.append(("the majority class", "", "", *filled, ""))
        caption = (
            f"Table {number}: {table['caption']}. In points, mean and "
            "deviation over n seeds"
        )
        parts.append(Table(f"table_{number}_{name}", caption, columns, lines))
    if not_run:
        parts.append(Text(f"No run here is a row of: {'; '.join(not_run)}."))
    return parts


def _alternate(ours: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """The first of ours, the first of theirs, and so on."""
    return [cell for pair in zip(ours, theirs) for cell in pair]


def _make_line(row: Row) -> tuple[str, ...]:
    theirs = [f"{figure:.1f}" for figure in row.figures]
    if row.cell is None:
        return (row.name, "not run", "", *_alternate([""] * 4, theirs), "")
    here = amount(recipe_of(row.cell)) + ("; cached" if row.cell.cached else "")
    return (
        row.name,
        here,
        row.cell.n,
        *_alternate(scores(row.cell), theirs),
        spread(row.cell.seconds, 1),
    )


def _explain_rows(cells: Sequence[Cell], usual: Recipe) -> str:
    here = usual_here(cells, "all")
    text = "`here` says at what rate and for how long ours trained."
    if here:
        text += (
            f" Most runs here train everything at {here['lr']:g} for "
            f"{here['epochs']} epochs. They stand for the paper's "
            f"{usual['lr']:g} and {usual['epochs']}; runs at twice this rate, "
            "or for five times as many epochs, stand for its "
            f"{2 * usual['lr']:g} and {5 * usual['epochs']}."
        )
    return text


# === The paper's comparisons ===


def _comparisons(
    name: str, model: str, rows: dict[str, Row], published: dict[str, Any]
) -> list[Part]:
    """Of each of the paper's comparisons, whether ours has the same sign."""
    lines, not_run = [], []
    for known in published.get("comparisons", ()):
        first, second = (rows[line] for line in known["rows"])
        if not (first.cell and second.cell):
            not_run.append(known["claim"])
            continue
        theirs = round(first.figures[0] - second.figures[0], 1)
        ours = difference(first.cell, second.cell)
        word = verdict(theirs, ours)
        if known.get("on_pooling") and notes_on_model(model):
            word = "no verdict"
        numbers = " - ".join(known["rows"])
        lines.append(
            (known["claim"], numbers, f"{theirs:+.1f}", ours.text, word)
        )
    if not lines:
        return []
    caption = (
        "Differences in overall, in points, ours with a 95 % interval over "
        "seeds (Welch's). `within noise`: the interval has both signs. `no "
        "verdict`: see the footnote on the encoder"
    )
    columns = ("comparison", "rows", "paper", "ours", "sign")
    parts: list[Part] = [
        Heading(3, "The paper's comparisons"),
        Table(f"signs_{name}", caption, columns, lines),
    ]
    if not_run:
        parts.append(Text(f"Not compared here: {'; '.join(not_run)}."))
    return parts


# === What to know when reading ===


def _notes_on_differences(
    study: Study,
    dataset: Dataset,
    cells: Sequence[Cell],
    published: dict[str, Any],
) -> list[str]:
    """Sentences on what of these runs is not as in the paper."""
    if not published:
        return []
    usual = published["usual"]
    ours = {**study.settings, "model": study.model}
    for train, words in (("all", ""), ("head", ", output layers alone")):
        here = usual_here(cells, train)
        ours |= {f"{name}{words}": value for name, value in here.items()}
    theirs = {
        **published["settings"],
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
