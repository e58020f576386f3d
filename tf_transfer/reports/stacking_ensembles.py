"""The ensemble of 1907.05338's three models, out of the runs of `stacking`.

It is joined from stored predictions when runs are read. Its record is like that
of a run: its head is `ensemble`, its adaptation how it is joined. So summaries
and tables have it, and a claim can compare it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tf_transfer.data import metrics
from tf_transfer.reports.predictions import Arrays, Predictions
from tf_transfer.reports.reading import Record

# Members, head and adaptation: BERT alone, + DenseNet, + Highway LSTM.
BASE = ("dense", "finetune_only")
STACKED = (
    ("densenet", "stack_and_finetune"),
    ("highway", "stack_and_finetune"),
)
HEAD = "ensemble"
METHOD = "mean"  # of probabilities
# Defaults of the heads' sizes, and of what the dense head reads. An ensemble
# joins heads with these defaults.
USUAL_SIZES = {
    "inner_units": 0,
    "lstm_units": 256,
    "lstm_layers": 1,
    "reads_embeddings": 0,
    "growth": 64,
    "kernel": 3,
    "perspectives": 5,
    "context_units": 100,
    "aggregation_units": 100,
    "transformer_units": 256,
    "transformer_layers": 1,
    "transformer_heads": 4,
}
USUAL = {**USUAL_SIZES, "pooling": "cls", "pairs": "cross"}
# Settings that a model that is not stacked lacks, or has with other values.
OF_STACKED = (
    *("head", "adaptation", "head_lr", "phase_one_epochs", "phase_one_gap"),
    *("frozen_prefix", "cache_dtype"),
)


Outputs = tuple[np.ndarray, np.ndarray]  # labels, and what is made of logits


def join_predictions(
    records: Iterable[Record], predictions: Predictions
) -> tuple[list[Record], list[tuple[str, str]]]:
    """The paper's ensemble of three, of each seed that has all of them.

    Args:
        records: of runs of `stacking`.
        predictions: theirs.

    Returns:
        A record for each ensemble; and (path, reason) of what may not be
        joined.
    """
    joined: list[Record] = []
    refused = []
    for trio in find_trios(records):
        tested = [predictions.read(record, "test") for record in trio]
        validated = [predictions.read(record, "validation") for record in trio]
        if not all("ids" in arrays for arrays in (*tested, *validated)):
            continue
        problem = _compare_labels(trio, tested)
        problem = problem or _compare_labels(trio, validated)
        if problem:
            refused.append((trio[-1]["path"], f"is in no ensemble: {problem}"))
            continue
        joined.append(make_record(trio, _join(tested), _join(validated)))
    return joined, refused


def _compare_labels(trio: Sequence[Record], members: Sequence[Arrays]) -> str:
    """Names a member with other ids or labels of a split; empty if none has."""
    first = members[0]
    for record, arrays in zip(trio, members):
        for name in ("ids", "labels"):
            if not np.array_equal(first[name], arrays[name]):
                return (
                    f"{record['path']} has other {name} than {trio[0]['path']}."
                )
    return ""


def _join(members: Sequence[Arrays]) -> Outputs:
    """The labels of a split, and the mean of the members' probabilities."""
    probabilities = np.stack(
        [metrics.probabilities(arrays["logits"]) for arrays in members]
    )
    return members[0]["labels"], probabilities.mean(axis=0)


def find_trios(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records of the three members that differ in nothing else.

    All train everything at the same rate, for as many epochs; both heads are
    stacked the same. All heads are as usual.
    """
    by_shared: dict[str, dict[str, dict[tuple[str, str], Record]]] = {}
    for record in records:
        key = {**record["key"], "max_epochs": record["max_epochs"]}
        model = key.get("head"), key.get("adaptation")
        if record["task"] != "text" or model not in (BASE, *STACKED):
            continue
        if any(key.get(name, usual) != usual for name, usual in USUAL.items()):
            continue
        stacked_as = ""
        if model != BASE:
            stacked_as = json.dumps([key.get(name) for name in OF_STACKED[2:]])
        for name in (*OF_STACKED, *USUAL):
            key.pop(name, None)
        shared = json.dumps(key, sort_keys=True)
        groups = by_shared.setdefault(shared, {})
        groups.setdefault(stacked_as, {})[model] = record
    for groups in by_shared.values():
        base = groups.pop("", {}).get(BASE)
        for stacked in groups.values():
            if base is not None and len(stacked) == len(STACKED):
                yield [base, *(stacked[model] for model in STACKED)]


def make_record(
    members: Sequence[Record],
    tested: Outputs,
    validated: Outputs,
) -> Record:
    """The record of an ensemble: its cost is that of all members together.

    Args:
        members: their records, the one that is not stacked first.
        tested, validated: its labels and outputs on the test set, and on what
            validates.
    """
    base, stacked = members[0], members[-1]
    cached = [member for member in members if member["cached"]]
    paid = builds = None
    if cached:  # members share a prefix
        paid = sum(member["prefix_seconds"] for member in cached)
        builds = max(member["prefix_build_seconds"] for member in cached)
    environment = base["timing_environment"]
    mixed = False
    for member in members:
        other = member["timing_environment"]
        mixed = mixed or other["mixed"] or other != environment
    memory = [member["memory"] for member in members]
    names = [name for name in base["metrics"] if name in metrics.METRICS]
    scores = metrics.measure(names, *tested)
    validation = metrics.measure([base["metric"]], *validated)
    answers = np.unique(metrics.decide(tested[1]))
    return {
        **base,
        "path": f"{METHOD} of " + " + ".join(m["path"] for m in members),
        "members": [member["path"] for member in members],
        "key": {**stacked["key"], "head": HEAD, "adaptation": METHOD},
        "approach": f"{METHOD}_{HEAD}",
        "cached": bool(cached),
        "timing_environment": {**environment, "mixed": mixed},
        "epochs": [],
        "phases": [],
        "curve": [],
        "passes": [],
        "validation": validation[base["metric"]],
        "test": scores[base["metric"]],
        "metrics": dict(scores),
        "one_answer": len(answers) == 1,
        "epochs_run": sum(member["epochs_run"] for member in members),
        "best_epoch": None,
        "stop_reason": None,
        "seconds": sum(member["seconds"] for member in members),
        "seconds_per_epoch": None,
        "prefix_seconds": paid,
        "prefix_build_seconds": builds,
        "trainable_parameters": sum(m["trainable_parameters"] for m in members),
        "total_parameters": sum(m["total_parameters"] for m in members),
        # Of a warm worker's runs, the first one's alone is known.
        "memory": None if None in memory else max(memory),
    }
