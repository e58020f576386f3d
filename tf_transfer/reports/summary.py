"""The summary of a folder of runs: all that a report is made from, as JSON.

It is small enough to be kept with a document, so that the document can be made
again, and seen to be stale, without the runs.
"""

import dataclasses
import json
import time

from tf_transfer.data import cs224n
from tf_transfer.reports import compare
from tf_transfer.reports import reading
from tf_transfer.reports import sections
from tf_transfer.reports import stacking_ensembles
from tf_transfer.reports import stacking_runs
from tf_transfer.reports import statistics
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

VERSION = 2
COMPARED = ("glue",)  # modules whose reports test differences of predictions


def make(root, progress=lambda items, **options: items):
    """The summary of the runs below a folder.

    Args:
        progress: wraps an iterable in a progress bar.

    Returns:
        A dict: `runs` (records), `left_out`, `datasets` (what the majority
        scores; of several tasks at once, `majorities` on validation; of
        several metrics, `majorities` on test), `paired` (bootstraps against
        fine-tuning), `ensembles` (see `stacking_ensembles.joined`), `made`.

    Raises:
        UserError: no such folder, or no run in it that is whole.
    """
    found, left_out = reading.read(root)
    if not found:
        why = "".join(f"\n  {path}: {reason}" for path, reason in left_out[:20])
        raise UserError(f"{root}: holds no finished run.{why}")
    return of(found, left_out, root, progress)


def of(found, left_out, root, progress=lambda items, **options: items):
    """The summary of some records; see `make`.

    Args:
        found: the records, whose paths start from `root`.
        left_out: (path, reason) of what is not among them.
    """
    predictions = reading.Predictions(root)
    datasets, paired = {}, {}
    work = [
        (module, study, dataset)
        for module, _, of_module in sections.each(found)
        for study in of_module
        for dataset in study.datasets
    ]
    bar = progress(work, desc="comparing", unit=" tasks")
    for module, study, dataset in bar:
        facts = FACTS.get(module, _facts)
        datasets[compare.dataset_id(study, dataset)] = facts(
            dataset, predictions
        )
        if module in COMPARED:
            paired |= _paired(study, dataset, predictions)
    stacked = [record for record in found if record["module"] == "stacking"]
    ensembles, refused = stacking_ensembles.joined(stacked, predictions)
    left_out = left_out + refused
    left_out += [
        (path, "has damaged predictions: no bootstrap or ensemble has it")
        for path in sorted(predictions.damaged)
    ]
    return {
        "version": VERSION,
        "made": {
            "on": time.strftime("%Y-%m-%d"),
            "machine": _machine(found),
            "commits": sorted({r["commit"] for r in found if r["commit"]}),
            "versions": _versions(found),
        },
        "runs": found,
        "left_out": left_out,
        "datasets": datasets,
        "paired": paired,
        "ensembles": ensembles,
    }


def as_text(summary):
    """A summary as `read` takes it: a run a line, small, and apt to compare."""

    def dumped(value):
        return json.dumps(value, separators=(",", ":"))

    lines = []
    for name, value in summary.items():
        body = dumped(value)
        if name == "runs":
            body = "[\n" + ",\n".join(map(dumped, value)) + "\n]"
        lines.append(f"{dumped(name)}:{body}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(path):
    """A stored summary.

    Raises:
        UserError: it is none.
    """
    try:
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
        if summary["version"] != VERSION:
            raise UserError(
                f"{path}: is a summary of another version of tf_transfer. "
                "Make it again from its runs."
            )
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{path}: is no summary. Give a folder of runs, or the "
            "summary.json of a report."
        ) from None
    return summary


def _versions(found):
    """Each package's versions over the runs, as one string."""
    named = {}
    for record in found:
        for package, version in record["versions"].items():
            named.setdefault(package, set()).add(version or "none")
    return {name: ", ".join(sorted(seen)) for name, seen in named.items()}


def _machine(found):
    """The machines of the runs, in words."""
    named = {
        f"{', '.join(c['devices'])} ({c['processor'] or 'unknown processor'}), "
        f"{c['threads']} threads, {c['concurrent_runs']} at a time"
        for c in (record["company"] for record in found)
    }
    return "; ".join(sorted(named))


def _facts(dataset, predictions):
    for cell in dataset.cells.values():
        for record in cell.records:
            test = predictions.test(record)
            if test is not None:
                found = {
                    "majority": reading.majority(dataset.metric, test[1]),
                    "test": len(test[1]),
                }
                other = predictions.test(record, "mismatched_")
                if other is not None:
                    found["mismatched_majority"] = reading.majority(
                        dataset.metric, other[1]
                    )
                return found
    return {}


def _facts_of_several(dataset, predictions):
    """What each task's commonest answer scores, and all of them together."""
    for cell in dataset.cells.values():
        for record in cell.records:
            labels = predictions.validation_labels(record, cs224n.TASKS)
            if labels is not None:
                found = {
                    f"{name}_{task.metric}": reading.majority(
                        task.metric, labels[name]
                    )
                    for name, task in cs224n.TASKS.items()
                }
                return {
                    "majorities": {**found, "overall": cs224n.overall(found)}
                }
    return {}


FACTS = {"multitask": _facts_of_several, "stacking": stacking_runs.facts}


def _paired(study, dataset, predictions):
    """Bootstraps of every approach at its better rate against fine-tuning."""
    base = dataset.base
    if base is None or dataset.metric not in statistics.SCORES:
        return {}
    theirs = _outputs(base, predictions)
    if theirs is None:
        return {}
    ids, labels, outputs = theirs
    reference = statistics.resampled(dataset.metric, labels, outputs)
    found = {}
    for way in dataset.ways():
        cell = dataset.best(way)
        mine = _outputs(cell, predictions)
        if cell is base or mine is None or mine[0] != ids:
            continue
        scores = statistics.resampled(dataset.metric, *mine[1:])
        pair = statistics.paired(scores, reference)
        found[compare.pair_id(study, cell, base)] = dataclasses.asdict(pair)
    return found


def _outputs(cell, predictions):
    """(ids, labels, outputs of each seed) of a cell, or None."""
    tests = [predictions.test(record) for record in cell.records]
    if None in tests:
        return None
    ids = {test[0].tobytes() for test in tests}
    if len(ids) > 1:
        return None
    return ids, tests[0][1], [test[2] for test in tests]


# === The short table on the screen ===

COLUMNS = (
    "task",
    "approach",
    "lr",
    "batch",
    "seed",
    "metric",
    "validation",
    "test",
    "epochs",
    "s/epoch",
    "trained",
    "share",
)


def screen_table(found):
    """The records as aligned text, sorted by task and share trained."""
    ordered = sorted(
        found,
        key=lambda r: (
            r["task"],
            -r["trainable_parameters"],
            r["lr"],
            r["seed"],
        ),
    )
    return formatting.aligned([COLUMNS, *map(_screen_row, ordered)])


def _screen_row(record):
    def score(split):
        return f"{record[split]:.4f}" if record[split] is not None else "-"

    seconds = record["seconds_per_epoch"]
    trained = record["trainable_parameters"]
    cached = " cached" if record["cached"] else ""
    return (
        record["task"],
        record["approach"] + cached,
        f"{record['lr']:g}" if record["lr"] else "-",
        str(record["key"].get("batch_size", "-")),
        str(record["seed"]),
        record["metric"],
        score("validation"),
        score("test"),
        str(record["epochs_run"]),
        f"{seconds:.1f}" if seconds else "-",
        f"{trained:,}",
        f"{trained / record['total_parameters']:.1%}",
    )
