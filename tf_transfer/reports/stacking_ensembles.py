"""The ensemble of the paper's three models, out of the runs of `stacking`.

It is made from stored predictions when runs are read, so that a report can be
made again from its summary.
"""

import collections
import dataclasses
import json

from tf_transfer.data import ensembles
from tf_transfer.data import metrics
from tf_transfer.reports import compare
from tf_transfer.reports import reading
from tf_transfer.reports import stacking_runs as runs
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Table
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
WAYS = {"mean": "mean of probabilities", "vote": "majority vote"}


# === What a summary keeps of predictions ===


def joined(records, predictions):
    """The paper's ensemble of three, of each seed that has all of them.

    Args:
        records: of all runs, prepared or not.
        predictions: `reading.Predictions`.

    Returns:
        (list of dicts, list of (path, reason)): `members` (paths, in the order
        of `MEMBERS`), `seed`, `mean` and `vote` (their metrics); and what may
        not be joined.
    """
    found, refused = [], []
    for trio in _trios(records):
        outputs = [predictions.logits(record) for record in trio]
        if any(output is None for output in outputs):
            continue
        members = [member(*pair) for pair in zip(trio, outputs)]
        try:
            together = ensembles.join(members)
        except UserError as error:
            refused.append((trio[-1]["path"], f"is in no ensemble: {error}"))
            continue
        labels, names = members[0].labels, _measured(trio[0])
        found.append(
            {
                "members": [record["path"] for record in trio],
                "seed": trio[0]["seed"],
                "mean": metrics.measure(
                    names, labels, ensembles.mean(together)
                ),
                "vote": metrics.measure(
                    names, labels, ensembles.vote(together)
                ),
            }
        )
    return found, refused


def member(record, output):
    """A run as an `ensembles.Member`.

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


def _measured(record):
    return [name for name in runs.SHOWN["text"] if name in record["metrics"]]


def _trios(records):
    """Records of the three members that differ in nothing else, as lists.

    All train everything at the same rate, for as long; both heads are stacked
    alike.
    """
    bases, stacks = {}, collections.defaultdict(dict)
    for record in runs.prepared(records):
        pair = record["way"]["head"], record["way"]["adaptation"]
        if record["task"] != "text" or pair not in MEMBERS:
            continue
        shared = [
            reading.study_of(record),
            record["key"]["data_identity"],
            record["seed"],
            record["lr"],
        ]
        base = json.dumps(shared, sort_keys=True)
        if pair == runs.BASE:
            bases[base] = record
            continue
        first = [record["way"][name] for name in runs.FIRST_PHASE]
        how = json.dumps(
            [*first, record["cached"], record["key"].get("cache_dtype")]
        )
        stacks[base, how][pair] = record
    for (base, _), stacked in stacks.items():
        trio = [{runs.BASE: bases.get(base), **stacked}.get(p) for p in MEMBERS]
        if None not in trio:
            yield trio


# === The ensemble against its members, in a report ===


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Runs of the paper's three models, joined seed by seed.

    Attributes:
        members: a list each of `MEMBERS` of records, a seed each.
        joined: what the summary says of each seed.
        rates: those of the stacked members.
        timed: whether the times of all runs may be compared.
    """

    members: list
    joined: list
    rates: str
    timed: bool

    def values(self, how, metric):
        """Scores of each seed in points; `how`: `mean` or `vote`."""
        found = [seed[how] for seed in self.joined]
        return [100 * seed[metric] for seed in found if metric in seed]

    def member_values(self, number, metric):
        """Scores of a member's runs in points."""
        return [100 * run["metrics"][metric] for run in self.members[number]]

    def seconds(self, numbers):
        """`Mean` of the time that some members take together, or None."""
        if not self.timed:
            return None
        seeds = zip(*(self.members[number] for number in numbers))
        return statistics.mean_of(
            [sum(map(studies.seconds_of, seed)) for seed in seeds]
        )


def of(dataset, summary):
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
            groups[runs.rates(owners[seed["members"][-1]][0])].append(seed)
    found = [
        _ensemble(seeds, rates, owners, timed)
        for rates, seeds in groups.items()
    ]
    return sorted(found, key=lambda one: (-len(one.joined), one.rates))


def _ensemble(seeds, rates, owners, timed):
    paths = [seed["members"] for seed in seeds]
    members = [[owners[path][1] for path in of_one] for of_one in zip(*paths)]
    is_timed = timed.issuperset(path for trio in paths for path in trio)
    return Ensemble(members, seeds, rates, is_timed)


def parts(name, dataset, joined, known):
    """A table an ensemble: its members, and both ways of joining them."""
    names, found = runs.names_of(dataset), []
    for number, ensemble in enumerate(joined, 1):
        rows = _rows_of_ensemble(ensemble, names)
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
        found.append(
            Table(f"ensemble_{name}_{number}", caption, columns, tuple(rows))
        )
    return found


def _rows_of_ensemble(ensemble, names):
    count = str(len(ensemble.joined))
    members = [ensemble.member_values(n, "accuracy") for n in range(3)]
    best = max(members, key=lambda scores: statistics.mean_of(scores).mean)
    rows = []
    for number, pair in enumerate(MEMBERS):
        scores = [ensemble.member_values(number, metric) for metric in names]
        gain = ""
        if number:
            gain = compare.difference(members[number], members[0]).text
        rows.append(
            (
                runs.named(*pair),
                count,
                *_spreads(scores),
                gain,
                "",
                spread(ensemble.seconds([number]), 1),
            )
        )
    for how, words in WAYS.items():
        scores = [ensemble.values(how, metric) for metric in names]
        accuracies = ensemble.values(how, "accuracy")
        gains = [
            compare.difference(accuracies, other).text
            for other in (members[0], best)
        ]
        rows.append(
            (
                words,
                count,
                *_spreads(scores),
                *gains,
                spread(ensemble.seconds(range(3)), 1),
            )
        )
    return rows


def _spreads(lists):
    return [spread(statistics.mean_of(values)) for values in lists]
