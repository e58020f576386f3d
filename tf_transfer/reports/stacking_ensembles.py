"""The ensemble of the paper's three models, out of the runs of `stacking`.

It is made from stored predictions when runs are read, so that a report can be
made again from its summary.
"""

import collections
import dataclasses
import json
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from tf_transfer.data import ensembles
from tf_transfer.data import metrics
from tf_transfer.reports import compare
from tf_transfer.reports import reading
from tf_transfer.reports import stacking_runs as runs
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.predictions import Arrays
from tf_transfer.reports.predictions import Predictions
from tf_transfer.reports.reading import Record
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.words import spread
from tf_transfer.utils.errors import UserError

# The paper's ensemble: BERT, BERT + DenseNet, BERT + Highway LSTM.
MEMBERS = (
    runs.BASE,
    ("densenet", "stack_and_finetune"),
    ("highway", "stack_and_finetune"),
)
# Settings that say which examples train, validate and test.
SPLITTING = ("split_seed", "validation_fraction", "max_train_examples")
METHODS = {"mean": "mean of probabilities", "vote": "majority vote"}


# === What a summary keeps of predictions ===


def join_predictions(
    records: Sequence[Record], predictions: Predictions
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The paper's ensemble of three, of each seed that has all of them.

    Args:
        records: of a study's runs, prepared.
        predictions: theirs.

    Returns:
        For each ensemble `members` (paths, in the order of `MEMBERS`), `seed`,
        `mean` and `vote` (their metrics); and (path, reason) of what may not
        be joined.
    """
    joined, refused = [], []
    for trio in _find_trios(records):
        read = [predictions.logits(record) for record in trio]
        outputs = [output for output in read if output is not None]
        if len(outputs) < len(trio):
            continue
        members = [make_member(*pair) for pair in zip(trio, outputs)]
        try:
            together = ensembles.join(members)
        except UserError as error:
            refused.append((trio[-1]["path"], f"is in no ensemble: {error}"))
            continue
        labels, first = members[0].labels, trio[0]
        names = [n for n in runs.METRICS["text"] if n in first["metrics"]]
        joined.append(
            {
                "members": [record["path"] for record in trio],
                "seed": first["seed"],
                "mean": metrics.measure(
                    names, labels, ensembles.mean(together)
                ),
                "vote": metrics.measure(
                    names, labels, ensembles.vote(together)
                ),
            }
        )
    return joined, refused


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


def _find_trios(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records of the three members that differ in nothing else.

    All train everything at the same rate, for as long; both heads are stacked
    alike.
    """
    bases: dict[str, Record] = {}
    stacks: dict[tuple[str, str], dict[runs.Model, Record]] = {}
    for record in records:
        recipe = record["recipe"]
        model = recipe["head"], recipe["adaptation"]
        if record["task"] != "text" or model not in MEMBERS:
            continue
        shared = [
            reading.study_settings(record),
            record["key"]["data_identity"],
            record["seed"],
            record["lr"],
        ]
        base = json.dumps(shared, sort_keys=True)
        if model == runs.BASE:
            bases[base] = record
            continue
        first_phase = [recipe[name] for name in runs.FIRST_PHASE]
        stacked_as = json.dumps(
            [*first_phase, record["cached"], record["key"].get("cache_dtype")]
        )
        stacks.setdefault((base, stacked_as), {})[model] = record
    for (base, _), stacked in stacks.items():
        members = {**stacked}
        if base in bases:
            members[runs.BASE] = bases[base]
        if len(members) == len(MEMBERS):
            yield [members[model] for model in MEMBERS]


# === The ensemble against its members, in a report ===


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Runs of the paper's three models, joined seed by seed.

    Attributes:
        members: of each of `MEMBERS` its records, one for each seed.
        joined: what the summary keeps of each seed.
        rates: those of the stacked members.
        timed: whether the times of all runs may be compared.
    """

    members: list[list[Record]]
    joined: list[dict[str, Any]]
    rates: str
    timed: bool

    def values(self, method: str, metric: str) -> list[float]:
        """Scores of each seed in points.

        Args:
            method: one of `METHODS`.
            metric: such as `accuracy`.
        """
        scores = [seed[method] for seed in self.joined]
        return [100 * seed[metric] for seed in scores if metric in seed]

    def member_values(self, index: int, metric: str) -> list[float]:
        """Scores of a member's runs in points."""
        return [100 * run["metrics"][metric] for run in self.members[index]]

    def seconds(self, indices: Iterable[int]) -> statistics.Mean | None:
        """`Mean` of the time that some members take together, or None."""
        if not self.timed:
            return None
        seeds = zip(*(self.members[index] for index in indices))
        return statistics.mean_of(
            [sum(map(studies.seconds_of, seed)) for seed in seeds]
        )


def ensembles_of(dataset: Dataset, summary: dict[str, Any]) -> list[Ensemble]:
    """`Ensemble`s of a data set's runs, the one with most seeds first."""
    owners = {
        record["path"]: (cell, record)
        for cell in dataset.cells.values()
        for record in cell.records
    }
    timed = {r["path"] for c in dataset.cells.values() for r in c.timed}
    groups = collections.defaultdict(list)
    for seed in summary.get("ensembles", ()):
        if all(path in owners for path in seed["members"]):
            cell, _ = owners[seed["members"][-1]]
            groups[runs.rates(cell)].append(seed)
    result = []
    for rates, seeds in groups.items():
        paths = [seed["members"] for seed in seeds]
        members = [
            [owners[path][1] for path in of_one] for of_one in zip(*paths)
        ]
        is_timed = timed.issuperset(path for trio in paths for path in trio)
        result.append(Ensemble(members, seeds, rates, is_timed))
    return sorted(result, key=lambda e: (-len(e.joined), e.rates))


def tabulate(
    name: str,
    dataset: Dataset,
    joined: Iterable[Ensemble],
    known: dict[str, Any],
) -> list[Part]:
    """A table an ensemble: its members, and both methods of joining them."""
    names = runs.metrics_of(dataset)
    tables: list[Part] = []
    for number, ensemble in enumerate(joined, 1):
        rows = _make_rows(ensemble, names)
        if "majorities" in known:
            majorities = runs.majorities(known, names)
            rows.append(("the majority class", "", *majorities, "", "", ""))
        caption = (
            f"{dataset.name}: the ensemble of three models against its members "
            f"({ensemble.rates}), of the same seeds, on test, in points; "
            "differences in accuracy with a 95 % interval over seeds. Its time "
            "is that of all three"
        )
        columns = (
            "",
            "n",
            *names.values(),
            "against finetune-only",
            "against the best member",
            "time, s",
        )
        tables.append(
            Table(f"ensemble_{name}_{number}", caption, columns, rows)
        )
    return tables


def _make_rows(
    ensemble: Ensemble, names: Iterable[str]
) -> list[tuple[str, ...]]:
    n = str(len(ensemble.joined))
    members = [ensemble.member_values(i, "accuracy") for i in range(3)]
    best = max(members, key=_mean)
    rows = []
    for index, model in enumerate(MEMBERS):
        gain = ""
        if index:
            gain = compare.difference(members[index], members[0]).text
        rows.append(
            (
                runs.model_name(model),
                n,
                *_spreads(ensemble.member_values(index, m) for m in names),
                gain,
                "",
                spread(ensemble.seconds([index]), 1),
            )
        )
    for method, words in METHODS.items():
        accuracies = ensemble.values(method, "accuracy")
        gains = [
            compare.difference(accuracies, other).text
            for other in (members[0], best)
        ]
        rows.append(
            (
                words,
                n,
                *_spreads(ensemble.values(method, m) for m in names),
                *gains,
                spread(ensemble.seconds(range(3)), 1),
            )
        )
    return rows


def _mean(scores: list[float]) -> float:
    mean = statistics.mean_of(scores)
    return mean.mean if mean else float("-inf")


def _spreads(lists: Iterable[list[float]]) -> list[str]:
    return [spread(statistics.mean_of(values)) for values in lists]
