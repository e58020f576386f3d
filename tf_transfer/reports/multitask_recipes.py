"""How runs of `multitask` train three tasks at once: names, comparisons.

What differs between such runs beside approach and rate is their recipe, a dict
of settings. Only runs of one recipe are averaged.
"""

import collections
import json
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import compare
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.reading import Record
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.words import gigabytes
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import spread

Recipe = dict[str, Any]

SCORES = {  # metrics, and what the tables call them
    "overall": "overall",
    "sentiment_accuracy": "SST",
    "paraphrase_accuracy": "Quora",
    "similarity_pearson": "STS r",
}
OF_LAST_PHASE = "`s per epoch`: of the last phase, its first epoch included"
TRAINS = {
    "head": "output layers",
    "all": "everything",
    "head_then_all": "output layers, then everything",
}
READS = {
    "cls": "[CLS]",
    "mean": "mean",
    "cls_for_sentiment": "[CLS] for sentiment",
}
COMBINES = {
    "in_turn": "in turn",
    "sum": "sum of losses",
    "pcgrad": "PCGrad",
    "sampled": "sampled",
}
ORDER = "paraphrase,similarity,sentiment"
# What may differ between the runs of a study, and what runs had whose keys do
# not say.
VARIED = (
    "train",
    "pooling",
    "pairs",
    "order",
    "combine",
    "loss_weights",
    "alpha",
    "last_alpha",
    "layer_decay",
    "lr",
    "head_lr",
    "head_epochs",
)
NOT_IN_KEY = {
    **dict.fromkeys(("alpha", "last_alpha", "head_lr", "head_epochs")),
    "layer_decay": 1.0,
    "pairs": "cross",
}


def prepare(records: Iterable[Record]) -> list[Record]:
    """Records as these tables tell them apart.

    What differs between the paper's rows moves from the key to `recipe`, and
    is put into words as the approach. A rate that trains nothing, and a decay
    of it, make no other run.
    """
    prepared: dict[str, Record] = {}
    for record in records:
        key = {**NOT_IN_KEY, **record["key"]}
        key.pop("max_epochs", None)
        recipe = {name: key.pop(name) for name in VARIED}
        recipe["epochs"] = record["max_epochs"]
        if recipe["train"] == "head":
            recipe |= {"head_lr": None, "layer_decay": 1.0}
        changes = {
            "key": key,
            "recipe": recipe,
            "lr": recipe["lr"],
            "max_epochs": None,
            "approach": f"{kind(recipe)}; {amount(recipe)}",
        }
        prepared.setdefault(
            json.dumps([key, recipe], sort_keys=True), {**record, **changes}
        )
    return list(prepared.values())


# === Words for a recipe ===


def kind(recipe: Recipe) -> str:
    """What trains, and how: `everything; mean; decay 0.95`."""
    words = [TRAINS[recipe["train"]], READS[recipe["pooling"]]]
    if recipe["pairs"] != "sbert":
        words.append(f"pairs {recipe['pairs']}")
    if recipe["layer_decay"] != 1:
        words.append(f"decay {recipe['layer_decay']:g}")
    if recipe["combine"] != "in_turn" or recipe["loss_weights"]:
        words.append(combination(recipe))
    return "; ".join(words)


def combination(recipe: Recipe) -> str:
    """How the tasks' losses are combined."""
    name = COMBINES.get(recipe["combine"], str(recipe["combine"]))
    if recipe["alpha"] is not None:
        name += f" by size^{recipe['alpha']:g}"
        if recipe["last_alpha"] != recipe["alpha"]:
            name += f" to size^{recipe['last_alpha']:g}"
    if recipe["loss_weights"]:
        name += f", weights {recipe['loss_weights']}"
    return name


def amount(recipe: Recipe) -> str:
    """At what rate and for how long: `lr 1e-05 after 0.001; 20 epochs`."""
    rate = f"lr {recipe['lr']:g}"
    if recipe["head_lr"]:
        rate += f" after {recipe['head_lr']:g}"
    count = recipe["epochs"]
    epochs = "1 epoch" if count == 1 else f"{count} epochs"
    if recipe["head_epochs"] not in (None, count):
        epochs += f" after {recipe['head_epochs']}"
    return "; ".join([rate, epochs, *_order(recipe)])


def _order(recipe: Recipe) -> list[str]:
    """The order of the tasks, where it is not the usual one."""
    if recipe["order"] == ORDER:
        return []
    return [f"order {recipe['order'].replace(',', ', ')}"]


# === Cells, each of one recipe ===


def recipe_of(cell: Cell) -> Recipe:
    """The recipe of all runs of a cell."""
    return cell.records[0]["recipe"]


def scores(cell: Cell) -> list[str]:
    """The cells of a table below the columns of `SCORES`."""
    return [spread(cell.metric(name)) for name in SCORES]


def last_phase(cell: Cell) -> statistics.Mean | None:
    """`Mean` of the seconds of an epoch of the last, expensive phase."""
    last = [record["phases"][-1] for record in cell.timed if record["phases"]]
    return statistics.mean_of(p["seconds"] / p["epochs"] for p in last)


def difference(cell: Cell, other: Cell) -> compare.Difference:
    """By how much a cell's overall score is above another's."""
    return compare.difference(cell.values("overall"), other.values("overall"))


def usual_here(cells: Iterable[Cell], train: str) -> dict[str, Any]:
    """Rate and epochs of most runs, the least of several, or {}.

    Runs of `head` are taken by themselves, and so are all others.
    """
    recipes = [
        record["recipe"]
        for cell in cells
        for record in cell.records
        if (record["recipe"]["train"] == "head") == (train == "head")
    ]
    return {
        name: _commonest([recipe[name] for recipe in recipes])
        for name in ("lr", "epochs")
        if recipes
    }


def _commonest(values: Sequence[float]) -> float:
    counts = collections.Counter(values)
    return max(counts, key=lambda value: (counts[value], -value))


# === Tables ===


def list_recipes(name: str, cells: Iterable[Cell]) -> list[Part]:
    """Every recipe that was run, the best first."""

    def negative_overall(cell: Cell) -> float:
        mean = cell.metric("overall")
        return -mean.mean if mean else 0.0

    rows = [
        (
            studies.variant_name(cell.variant),
            cell.n,
            *scores(cell),
            spread(cell.seconds, 1),
            spread(last_phase(cell), 1),
            f"{cell.trained_parameters:,}",
        )
        for cell in sorted(cells, key=negative_overall)
    ]
    columns = (
        "trains",
        "n",
        *SCORES.values(),
        "time, s",
        "s per epoch",
        "trained parameters",
    )
    caption = (
        "Dev, in points, mean and deviation over n seeds, the best first. "
        + OF_LAST_PHASE
    )
    return [
        Heading(3, "Everything that was run"),
        Table(f"recipes_{name}", caption, columns, rows),
    ]


def compare_combinations(name: str, cells: Iterable[Cell]) -> list[Part]:
    """Tables of recipes that differ in how the tasks are combined."""
    groups = collections.defaultdict(list)
    for cell in cells:
        recipe = _uncombined(recipe_of(cell))
        groups[kind(recipe), amount(recipe), cell.cached].append(cell)
    parts: list[Part] = []
    for (what, much, cached), group in groups.items():
        if len({combination(recipe_of(cell)) for cell in group}) < 2:
            continue
        group.sort(key=_combination_order)
        columns = (
            "tasks",
            "n",
            *SCORES.values(),
            "against the first",
            "time, s",
            "s per epoch",
            "of the first's",
            "memory, GB",
        )
        parts.append(
            Table(
                f"combined_{name}_{len(parts) + 1}",
                f"{what}; {much}{'; cached' if cached else ''}: dev, in "
                "points. `against the first`: in overall, with a 95 % interval "
                "over seeds. " + OF_LAST_PHASE,
                columns,
                tuple(_make_row(cell, group[0]) for cell in group),
            )
        )
    return [Heading(3, "Combinations of the tasks"), *parts] if parts else []


def _uncombined(recipe: Recipe) -> Recipe:
    """A recipe as if its tasks were trained in turn, in their usual order."""
    usual = {"combine": "in_turn", "loss_weights": "", "order": ORDER}
    return {**recipe, **usual, "alpha": None, "last_alpha": None}


def _combination_order(cell: Cell) -> tuple[int, bool, str]:
    recipe = recipe_of(cell)
    known = list(COMBINES)
    combine = recipe["combine"]
    index = known.index(combine) if combine in known else len(known)
    return index, recipe["order"] != ORDER, recipe["loss_weights"]


def _make_row(cell: Cell, base: Cell) -> tuple[str, ...]:
    """A line: scores, overall against another cell's, cost."""
    recipe, epoch = recipe_of(cell), last_phase(cell)
    return (
        ", ".join([combination(recipe), *_order(recipe)]),
        cell.n,
        *scores(cell),
        "" if cell is base else difference(cell, base).text,
        spread(cell.seconds, 1),
        spread(epoch, 1),
        percent(compare.share(epoch, last_phase(base))),
        gigabytes(cell.memory),
    )
