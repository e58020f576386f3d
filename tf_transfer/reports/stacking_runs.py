"""Runs of `stacking`: told apart, named, ordered.

A run is told from others by its way, a dict: head, adaptation, and the rate and
epochs of each phase. Only runs of one way are averaged.
"""

import numpy as np

from tf_transfer.reports import reading
from tf_transfer.reports.words import points

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
BASE = ("dense", "finetune_only")
FIRST_PHASE = ("head_lr", "phase_one_epochs", "phase_one_gap")
VARIED = ("head", "adaptation", *FIRST_PHASE)
SHOWN = {  # metrics, and what the tables call them
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


def prepared(records):
    """Records as these tables tell them apart.

    What differs between the paper's rows leaves the key for `way`, and is put
    into words as the approach.
    """
    found = []
    for record in records:
        key = dict(record["key"])
        key.pop("max_epochs", None)  # the way tells them
        way = {name: key.pop(name, None) for name in VARIED}
        way |= {"lr": record["lr"], "epochs": record["max_epochs"]}
        key.pop("classes", None)  # the identity of the data tells them
        # Where a gap selects, no epoch of a second phase is to be selected.
        key.setdefault("select", "last")
        approach = f"{way['head']}; {way['adaptation']}; {amount(way)}"
        told = {"key": key, "way": way, "approach": approach}
        found.append({**record, **told, "max_epochs": None})
    return found


# === Words for a way ===


def amount(way):
    """Rate and epochs of each phase: `0.001 for 1, then 2e-05 for 3`."""
    if way["adaptation"] == "stack_and_finetune":
        first = f"{way['head_lr']:g} for {way['phase_one_epochs']}{_gap(way)}"
        return f"{first}, then {way['lr']:g} for {way['epochs']}"
    return f"{way['lr']:g} for {way['epochs']}{_gap(way)}"


def _gap(way):
    gap = way["phase_one_gap"]
    return "" if gap is None or gap < 0 else f" (gap {gap:g})"


def adaptation_name(adaptation):
    """As the paper writes it; `joint` is ours."""
    return adaptation.replace("_", "-")


def named(head, adaptation):
    """A head and its adaptation: `BiLSTM, stack-only`."""
    return f"{HEADS.get(head, head)}, {adaptation_name(adaptation)}"


# === Cells, each of one way ===


def way_of(cell):
    """The way of all runs of a cell."""
    return cell.records[0]["way"]


def pair_of(cell):
    """Head and adaptation of a cell."""
    return way_of(cell)["head"], way_of(cell)["adaptation"]


def head_of(cell):
    """What the tables call its head."""
    head, _ = pair_of(cell)
    return HEADS.get(head, head)


def adaptation_of(cell):
    """What the tables call its adaptation."""
    return adaptation_name(pair_of(cell)[1])


def called(cell):
    """A cell in words, without its rates: `BiLSTM, stack-only, cached`."""
    return named(*pair_of(cell)) + (", cached" if cell.cached else "")


def rates(cell):
    """Rates and epochs, and whether and how the prefix is cached."""
    words = [amount(way_of(cell))]
    if cell.cached:
        dtype = cell.records[0]["key"].get("cache_dtype", "float16")
        words.append("cached" + ("" if dtype == "float16" else f" as {dtype}"))
    return ", ".join(words)


def values(cell, metric):
    """A metric of each run on test, in points."""
    return [
        100 * record["metrics"][metric]
        for record in cell.records
        if metric in record["metrics"]
    ]


def ordered(cells):
    """By head, adaptation and rates, as the tables list them."""
    heads = list(HEADS)

    def place(cell):
        head, adaptation = pair_of(cell)
        return (
            heads.index(head) if head in heads else len(heads),
            head,
            ADAPTATIONS.index(adaptation),
            cell.cached,
            rates(cell),
        )

    return sorted(cells, key=place)


def best(cells, pair=None):
    """The best cell, of a head and adaptation; by validation, then test.

    Where they are as good, the one with most runs, then a live one.
    """

    def quality(cell):
        mean = cell.validation or cell.score
        return mean.mean if mean else float("-inf")

    return max(
        (cell for cell in cells if pair in (None, pair_of(cell))),
        key=lambda cell: (quality(cell), len(cell.records), not cell.cached),
        default=None,
    )


def names_of(dataset):
    """Metrics of a task, and what the tables call them."""
    cells = dataset.cells.values()
    return {
        metric: name
        for metric, name in SHOWN[dataset.task].items()
        if all(metric in r["metrics"] for cell in cells for r in cell.records)
    }


# === What the commonest answer scores ===


def facts(dataset, predictions):
    """What the commonest answer scores on test, and how much was tested.

    Of entities that is the tag O for every word, which finds none.
    """
    for cell in dataset.cells.values():
        for record in cell.records:
            test = predictions.test(record)
            if test is None:
                continue
            labels = test[1]
            known = [n for n in SHOWN[dataset.task] if n in record["metrics"]]
            if dataset.task == "ner":
                scores = dict.fromkeys(known, 0.0)
                scores["accuracy"] = float(np.mean(labels == 0))
            else:
                scores = {n: reading.majority(n, labels) for n in known}
            return {"majorities": scores, "test": len(labels)}
    return {}


def majorities(known, names):
    """What the commonest answer scores: of words, O for all of them."""
    found = known.get("majorities", {})
    return [points(100 * found[n]) if n in found else "" for n in names]
