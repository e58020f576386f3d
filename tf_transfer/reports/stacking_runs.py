"""Runs of `stacking`: how they are told apart, named and ordered.

What differs between such runs is their recipe, a dict: head, adaptation, and
the rate and epochs of each phase. Only runs of one recipe are averaged.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tf_transfer.reports import predictions as predictions_lib
from tf_transfer.reports.reading import Record
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.words import points

Recipe = dict[str, Any]
Model = tuple[str, str]  # head and adaptation

HEADS = {
    "dense": "two dense layers",
    "bilstm": "BiLSTM",
    "densenet": "DenseNet",
    "highway": "Highway LSTM",
    "bimpm": "BiMPM",
    "bimpm_without_context": "BiMPM without its first BiLSTM",
    "sim_transformer": "Sim-Transformer",
}
ADAPTATIONS = ("finetune_only", "stack_only", "stack_and_finetune", "joint")
BASE: Model = ("dense", "finetune_only")
FIRST_PHASE = ("head_lr", "phase_one_epochs", "phase_one_gap")
VARIED = ("head", "adaptation", *FIRST_PHASE)
METRICS = {  # of each task, and what the tables call them
    "ner": {
        "accuracy": "accuracy",
        "f1": "entity F1",
        "token_f1": "token F1",
        "precision": "precision",
        "recall": "recall",
    },
    "text": {"accuracy": "accuracy", "f1": "F1", "f1_macro": "macro F1"},
    "pairs": {"accuracy": "accuracy", "f1": "F1"},
}


def prepare(records: Iterable[Record]) -> list[Record]:
    """Records as these tables tell them apart.

    What differs between the paper's rows moves from the key to `recipe`, and
    is put into words as the approach.
    """
    prepared = []
    for record in records:
        key = dict(record["key"])
        key.pop("max_epochs", None)  # it is in the recipe
        recipe = {name: key.pop(name, None) for name in VARIED}
        recipe |= {"lr": record["lr"], "epochs": record["max_epochs"]}
        key.pop("classes", None)  # the identity of the data says it
        # Where a gap selects, no epoch of a second phase is to be selected.
        key.setdefault("select", "last")
        changes = {
            "key": key,
            "recipe": recipe,
            "approach": f"{recipe['head']}; {recipe['adaptation']}; "
            f"{amount(recipe)}",
            "max_epochs": None,
        }
        prepared.append({**record, **changes})
    return prepared


# === Words for a recipe ===


def amount(recipe: Recipe) -> str:
    """Rate and epochs of each phase: `0.001 for 1, then 2e-05 for 3`."""
    gap = recipe["phase_one_gap"]
    rule = "" if gap is None or gap < 0 else f" (gap {gap:g})"
    last = f"{recipe['lr']:g} for {recipe['epochs']}"
    if recipe["adaptation"] == "stack_and_finetune":
        first = f"{recipe['head_lr']:g} for {recipe['phase_one_epochs']}{rule}"
        return f"{first}, then {last}"
    return last + rule


def adaptation_name(adaptation: str) -> str:
    """As the paper writes it; `joint` is ours."""
    return adaptation.replace("_", "-")


def model_name(model: Model) -> str:
    """A head and its adaptation: `BiLSTM, stack-only`."""
    head, adaptation = model
    return f"{HEADS.get(head, head)}, {adaptation_name(adaptation)}"


# === Cells, each of one recipe ===


def recipe_of(cell: Cell) -> Recipe:
    """The recipe of all runs of a cell."""
    return cell.records[0]["recipe"]


def model_of(cell: Cell) -> Model:
    """Head and adaptation of a cell."""
    return recipe_of(cell)["head"], recipe_of(cell)["adaptation"]


def head_name(cell: Cell) -> str:
    """What the tables call its head."""
    head, _ = model_of(cell)
    return HEADS.get(head, head)


def cell_name(cell: Cell) -> str:
    """A cell in words, without its rates: `BiLSTM, stack-only, cached`."""
    return model_name(model_of(cell)) + (", cached" if cell.cached else "")


def rates(cell: Cell) -> str:
    """Rates and epochs, and whether and how the prefix is cached."""
    words = [amount(recipe_of(cell))]
    if cell.cached:
        dtype = cell.records[0]["key"].get("cache_dtype", "float16")
        words.append("cached" + ("" if dtype == "float16" else f" as {dtype}"))
    return ", ".join(words)


def identify(cell: Cell) -> tuple[str, str, str]:
    """The cells of a table that name a line: head, adaptation, rates."""
    _, adaptation = model_of(cell)
    return head_name(cell), adaptation_name(adaptation), rates(cell)


def ordered(dataset: Dataset) -> list[Cell]:
    """A data set's cells by head, adaptation and rates."""
    heads = list(HEADS)

    def order(cell: Cell) -> tuple[Any, ...]:
        head, adaptation = model_of(cell)
        return (
            heads.index(head) if head in heads else len(heads),
            head,
            ADAPTATIONS.index(adaptation),
            cell.cached,
            rates(cell),
        )

    return sorted(dataset.cells.values(), key=order)


def best(cells: Iterable[Cell], model: Model | None = None) -> Cell | None:
    """The best cell, of a head and adaptation; by validation, then test.

    Where they are as good, the one with most runs, then a live one.
    """
    return max(
        (cell for cell in cells if model in (None, model_of(cell))),
        key=lambda cell: (cell.quality, len(cell.records), not cell.cached),
        default=None,
    )


def metrics_of(dataset: Dataset) -> dict[str, str]:
    """Metrics that all runs of a data set have, with the tables' names."""
    return {
        metric: name
        for metric, name in METRICS[dataset.task].items()
        if all(metric in record["metrics"] for record in dataset.records)
    }


# === What the commonest answer scores ===


def facts(
    dataset: Dataset, predictions: predictions_lib.Predictions
) -> dict[str, Any]:
    """What the commonest answer scores on test, and the size of the test set.

    Of entities that is the tag O for every word, which finds none.
    """
    for record in dataset.records:
        test = predictions.test(record)
        if test is None:
            continue
        labels = test[1]
        known = [n for n in METRICS[dataset.task] if n in record["metrics"]]
        if dataset.task == "ner":
            scores = dict.fromkeys(known, 0.0)
            scores["accuracy"] = float(np.mean(labels == 0))
        else:
            scores = {n: predictions_lib.majority(n, labels) for n in known}
        return {"majorities": scores, "test": len(labels)}
    return {}


def majorities(known: dict[str, Any], names: Iterable[str]) -> list[str]:
    """What the commonest answer scores: of words, O for all of them."""
    scores = known.get("majorities", {})
    return [points(100 * scores[n]) if n in scores else "" for n in names]
