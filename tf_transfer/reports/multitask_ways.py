"""Ways of training three tasks at once: told apart, named, side by side.

A run of `multitask` is told from others by more than what trains and its rate:
by its way, a dict. Only runs of one way are averaged.
"""

import collections
import json

from tf_transfer.config import settings as settings_lib
from tf_transfer.reports import compare
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Table
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import spread

SCORES = {  # metrics, and what the tables call them
    "overall": "overall",
    "sentiment_accuracy": "SST",
    "paraphrase_accuracy": "Quora",
    "similarity_pearson": "STS r",
}
OF_LAST_PHASE = "`s an epoch`: of the last phase, its first epoch included"
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
# not tell.
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
UNSAID = {
    **dict.fromkeys(("alpha", "last_alpha", "head_lr", "head_epochs")),
    **settings_lib.CAME_LATER,
}


def prepared(records):
    """Records as these tables tell them apart.

    What differs between the paper's rows leaves the key for `way`, and is put
    into words as the approach. A rate that trains nothing, and a decay of it,
    tell no runs apart.
    """
    found = {}
    for record in records:
        key = {**UNSAID, **record["key"]}
        key.pop("max_epochs", None)
        way = {name: key.pop(name) for name in VARIED}
        way["epochs"] = record["max_epochs"]
        if way["train"] == "head":
            way |= {"head_lr": None, "layer_decay": 1.0}
        told = {"key": key, "way": way, "lr": way["lr"], "max_epochs": None}
        found.setdefault(
            json.dumps([key, way], sort_keys=True),
            {**record, **told, "approach": f"{kind(way)}; {amount(way)}"},
        )
    return list(found.values())


# === Words for a way ===


def kind(way):
    """What trains, and how: `everything; mean; decay 0.95`."""
    words = [TRAINS[way["train"]], READS[way["pooling"]]]
    if way["pairs"] != "sbert":
        words.append(f"pairs {way['pairs']}")
    if way["layer_decay"] != 1:
        words.append(f"decay {way['layer_decay']:g}")
    if way["combine"] != "in_turn" or way["loss_weights"]:
        words.append(combination(way))
    return "; ".join(words)


def combination(way):
    """How the tasks' losses are brought together."""
    name = COMBINES.get(way["combine"], way["combine"])
    if way["alpha"] is not None:
        name += f" by size^{way['alpha']:g}"
        if way["last_alpha"] != way["alpha"]:
            name += f" to size^{way['last_alpha']:g}"
    if way["loss_weights"]:
        name += f", weights {way['loss_weights']}"
    return name


def amount(way):
    """At what rate and for how long: `lr 1e-05 after 0.001; 20 epochs`."""
    rate = f"lr {way['lr']:g}"
    if way["head_lr"]:
        rate += f" after {way['head_lr']:g}"
    epochs = "1 epoch" if way["epochs"] == 1 else f"{way['epochs']} epochs"
    if way["head_epochs"] not in (None, way["epochs"]):
        epochs += f" after {way['head_epochs']}"
    return "; ".join([rate, epochs, *_order(way)])


def _order(way):
    """The order of the tasks, where it is not the usual one."""
    if way["order"] == ORDER:
        return []
    return [f"order {way['order'].replace(',', ', ')}"]


# === Cells, each of one way ===


def way_of(cell):
    """The way of all runs of a cell."""
    return cell.records[0]["way"]


def overall(cell):
    """Overall of each run, in points."""
    return [100 * record["metrics"]["overall"] for record in cell.records]


def scores(cell):
    """The cells of a table that `SCORES` head."""
    return [spread(cell.metric(name)) for name in SCORES]


def last_phase(cell):
    """`Mean` of the seconds of an epoch of the last phase, the dear one."""
    last = [record["phases"][-1] for record in cell.timed if record["phases"]]
    return statistics.mean_of(p["seconds"] / p["epochs"] for p in last)


def difference(one, other):
    """`compare.Difference` of two cells."""
    return compare.difference(overall(one), overall(other))


def usual_here(cells, train):
    """Rate and epochs of most runs, the least of several, or {}.

    Runs of `head` are taken by themselves, and so are all others.
    """
    ways = [
        record["way"]
        for cell in cells
        for record in cell.records
        if (record["way"]["train"] == "head") == (train == "head")
    ]
    return {
        name: _commonest([way[name] for way in ways])
        for name in ("lr", "epochs")
        if ways
    }


def _commonest(values):
    counts = collections.Counter(values)
    return max(counts, key=lambda value: (counts[value], -value))


# === Tables ===


def all_ways(name, cells):
    """Every way that was run, the best first."""
    ordered = sorted(cells, key=lambda cell: -cell.metric("overall").mean)
    rows = [
        (
            studies.way_name(cell.way),
            str(len(cell.records)),
            *scores(cell),
            spread(cell.seconds, 1),
            spread(last_phase(cell), 1),
            f"{cell.records[0]['trainable_parameters']:,}",
        )
        for cell in ordered
    ]
    columns = (
        "trains",
        "n",
        *SCORES.values(),
        "time, s",
        "s an epoch",
        "trained parameters",
    )
    caption = (
        "Dev, in points, mean and deviation over n seeds, the best first. "
        + OF_LAST_PHASE
    )
    return [
        Heading(3, "Everything that was run"),
        Table(f"ways_{name}", caption, columns, tuple(rows)),
    ]


def combined(name, cells):
    """Ways that differ in how the tasks are combined, a table a group."""
    groups = collections.defaultdict(list)
    for cell in cells:
        alike = kind(_uncombined(cell)), amount(_uncombined(cell))
        groups[(*alike, cell.cached)].append(cell)
    parts = []
    for (what, much, cached), group in groups.items():
        if len({combination(way_of(cell)) for cell in group}) < 2:
            continue
        group.sort(key=_place_of_combination)
        columns = (
            "tasks",
            "n",
            *SCORES.values(),
            "against the first",
            "time, s",
            "s an epoch",
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
                tuple(_gain(cell, group[0]) for cell in group),
            )
        )
    return [Heading(3, "Ways of combining the tasks"), *parts] if parts else []


def _uncombined(cell):
    """Its way as if its tasks were in their usual turn."""
    usual = {"combine": "in_turn", "loss_weights": "", "order": ORDER}
    usual |= {"alpha": None, "last_alpha": None}
    return {**way_of(cell), **usual}


def _place_of_combination(cell):
    way = way_of(cell)
    known = list(COMBINES)
    place = known.index(way["combine"]) if way["combine"] in known else 99
    return place, way["order"] != ORDER, way["loss_weights"]


def _gain(cell, base):
    """A line: scores, overall against another cell's, cost."""
    way, gain, epoch = way_of(cell), "", last_phase(cell)
    if cell is not base:
        gain = difference(cell, base).text
    memory = max(record["memory"] for record in cell.records)
    return (
        ", ".join([combination(way), *_order(way)]),
        str(len(cell.records)),
        *scores(cell),
        gain,
        spread(cell.seconds, 1),
        spread(epoch, 1),
        percent(compare.share(epoch, last_phase(base))),
        f"{memory / 1e9:.2f}",
    )
