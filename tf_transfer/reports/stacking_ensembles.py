"""The ensemble of 1907.05338's three models, out of the runs of `stacking`.

It is joined from stored predictions when runs are read, and becomes a record
like that of a run: its head is `ensemble`, its adaptation how it is joined. So
it is in a summary, in tables, and can be a side of a claim.
"""

import collections
import json
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from tf_transfer.data import ensembles
from tf_transfer.data import metrics
from tf_transfer.reports.predictions import Arrays
from tf_transfer.reports.predictions import Predictions
from tf_transfer.reports.reading import Record
from tf_transfer.utils.errors import UserError

# Members, head and adaptation: BERT alone, + DenseNet, + Highway LSTM.
BASE = ("dense", "finetune_only")
STACKED = (
    ("densenet", "stack_and_finetune"),
    ("highway", "stack_and_finetune"),
)
HEAD = "ensemble"
METHODS = {"mean": "mean of probabilities", "vote": "majority vote"}
# Of heads: how large they are, and what the dense one reads. An ensemble is of
# heads that are as usual.
USUAL_SIZES = {
    "inner_units": 0,
    "lstm_units": 256,
    "lstm_layers": 1,
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
# Settings that say which examples train, validate and test.
SPLITTING = ("split_seed", "validation_fraction", "max_train_examples")
# What a model that is not stacked does not have, or has otherwise.
OF_STACKED = (
    *("head", "adaptation", "head_lr", "phase_one_epochs", "phase_one_gap"),
    *("frozen_prefix", "cache_dtype"),
)


def join_predictions(
    records: Iterable[Record], predictions: Predictions
) -> tuple[list[Record], list[tuple[str, str]]]:
    """The paper's ensemble of three, of each seed that has all of them.

    Args:
        records: of runs of any experiment.
        predictions: theirs.

    Returns:
        A record for each ensemble and each of `METHODS`; and (path, reason) of
        what may not be joined.
    """
    joined: list[Record] = []
    refused = []
    for trio in find_trios(records):
        try:
            tested = join_outputs(trio, predictions, "test")
            validated = join_outputs(trio, predictions, "validation")
        except UserError as error:
            refused.append((trio[-1]["path"], f"is in no ensemble: {error}"))
            continue
        if tested is None or validated is None:
            continue
        names = [n for n in trio[0]["metrics"] if n in metrics.METRICS]
        headline = trio[0]["metric"]
        for method in METHODS:
            outputs, labels = tested[0][method], tested[1]
            scores = metrics.measure(names, labels, outputs)
            one_answer = len(np.unique(metrics.decide(outputs))) == 1
            outputs, labels = validated[0][method], validated[1]
            [validation] = metrics.measure([headline], labels, outputs).values()
            joined.append(
                make_record(trio, method, scores, one_answer, validation)
            )
    return joined, refused


def join_outputs(
    trio: Sequence[Record], predictions: Predictions, kind: str
) -> tuple[dict[str, np.ndarray], np.ndarray] | None:
    """What each of `METHODS` makes of a split, and its labels.

    Args:
        trio: the members' records.
        predictions: theirs.
        kind: `test` or `validation`.

    Returns:
        None where a member has no such predictions.

    Raises:
        UserError: the members may not be joined.
    """
    read = [predictions.logits(record, kind=kind) for record in trio]
    outputs = [output for output in read if output is not None]
    if len(outputs) < len(trio):
        return None
    members = [make_member(*pair) for pair in zip(trio, outputs)]
    together = ensembles.join(members)
    joined = {name: getattr(ensembles, name)(together) for name in METHODS}
    return joined, members[0].labels


def make_member(record: Record, output: Arrays) -> ensembles.Member:
    """A run as a member of an ensemble.

    Args:
        record: see `reading`.
        output: its ids, labels and logits.
    """
    key = record["key"]
    return ensembles.Member(
        record["path"],
        f"{record['task']} {key['data_identity']}",
        {name: key.get(name) for name in SPLITTING},
        *output,
    )


def find_trios(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records of the three members that differ in nothing else.

    All train everything at the same rate, for as many epochs; both heads are
    stacked alike. All heads are as usual.
    """
    bases: dict[str, Record] = {}
    stacks: dict[tuple[str, str], dict[tuple[str, str], Record]] = (
        collections.defaultdict(dict)
    )
    for record in records:
        if record["experiment"] != "stacking" or record["task"] != "text":
            continue
        key = record["key"]
        if any(key.get(n, usual) != usual for n, usual in USUAL.items()):
            continue
        own = {*OF_STACKED, *USUAL}
        shared = {n: v for n, v in key.items() if n not in own}
        shared["max_epochs"] = record["max_epochs"]
        base = json.dumps(shared, sort_keys=True)
        model = (key["head"], key["adaptation"])
        if model == BASE:
            bases[base] = record
        elif model in STACKED:
            stacked_as = json.dumps([key.get(name) for name in OF_STACKED[2:]])
            stacks[base, stacked_as][model] = record
    for (base, _), stacked in stacks.items():
        if base in bases and len(stacked) == len(STACKED):
            yield [bases[base], *(stacked[model] for model in STACKED)]


def make_record(
    members: Sequence[Record],
    method: str,
    scores: Mapping[str, float],
    one_answer: bool,
    validation: float,
) -> Record:
    """The record of an ensemble: its cost is that of all members together.

    Args:
        members: their records, the one that is not stacked first.
        method: one of `METHODS`.
        scores: its metrics on the test set.
        one_answer: whether it gives all examples the same answer.
        validation: its headline metric on what validates.
    """
    base, stacked = members[0], members[-1]
    paid = [m["prefix_seconds"] for m in members if m["cached"]]
    builds = [m["prefix_build_seconds"] for m in members if m["cached"]]
    environments = [member["timing_environment"] for member in members]
    known = [m["memory"] for m in members if m["memory"] is not None]
    return {
        **base,
        "path": f"{method} of " + " + ".join(m["path"] for m in members),
        "members": [member["path"] for member in members],
        "key": {**stacked["key"], "head": HEAD, "adaptation": method},
        "approach": f"{method}_{HEAD}",
        "cached": bool(paid),
        "timing_environment": {
            **environments[0],
            "mixed": any(
                environment["mixed"] or environment != environments[0]
                for environment in environments
            ),
        },
        "epochs": [],
        "phases": [],
        "curve": [],
        "passes": [],
        "validation": validation,
        "test": scores[base["metric"]],
        "metrics": dict(scores),
        "one_answer": one_answer,
        "epochs_run": sum(member["epochs_run"] for member in members),
        "best_epoch": None,
        "stop_reason": None,
        "seconds": sum(member["seconds"] for member in members),
        "seconds_per_epoch": None,
        # Members share a cached prefix.
        "prefix_seconds": sum(paid) if paid else None,
        "prefix_build_seconds": max(builds) if builds else None,
        "trainable_parameters": sum(m["trainable_parameters"] for m in members),
        "total_parameters": sum(m["total_parameters"] for m in members),
        # Of a warm worker's runs, the first one's alone is known.
        "memory": max(known) if len(known) == len(members) else None,
    }
