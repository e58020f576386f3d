"""The summary of a folder of runs: all that a report is made from, as JSON.

It is small enough to be kept with a document, so that the document can be made
again, and seen to be stale, without the runs.
"""

import dataclasses
import json
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.reports import compare
from tf_transfer.reports import reading
from tf_transfer.reports import sections
from tf_transfer.reports import statistics
from tf_transfer.reports.reading import Record
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.reports.predictions import Predictions

VERSION = 2

Summary = dict[str, Any]
Progress = Callable[..., Iterable[Any]]


def no_progress(items: Iterable[Any], **options: Any) -> Iterable[Any]:
    """The items without a progress bar."""
    del options
    return items


def summarize_folder(root: str, progress: Progress = no_progress) -> Summary:
    """The summary of the runs below a folder; see `summarize`.

    Raises:
        UserError: no such folder, or no run in it that is whole.
    """
    runs, left_out = reading.read_runs(root)
    if not runs:
        why = "".join(f"\n  {path}: {reason}" for path, reason in left_out[:20])
        raise UserError(f"{root}: holds no finished run.{why}")
    return summarize(runs, left_out, root, progress)


def summarize(
    runs: Sequence[Record],
    left_out: Iterable[tuple[str, str]],
    root: str,
    progress: Progress = no_progress,
) -> Summary:
    """The summary of some records.

    Args:
        runs: their records, whose paths start from `root`.
        left_out: (path, reason) of what is not among them.
        root: folder of the runs.
        progress: wraps an iterable in a progress bar.

    Returns:
        `runs` (records), `left_out`, `datasets` (what sections keep of each
        data set, such as the majority's score), `paired` (bootstraps against
        fine-tuning), `ensembles` (what sections keep of several runs),
        `made` (when, where and by which code).
    """
    from tf_transfer.reports import predictions as lib  # loads SciPy

    predictions = lib.Predictions(root)
    datasets: dict[str, Any] = {}
    paired: dict[str, dict[str, float]] = {}
    ensembles: list[dict[str, Any]] = []
    left_out = list(left_out)
    groups = list(sections.group_by_experiment(runs))
    work = [
        (section, study, dataset)
        for _, section, studies in groups
        for study in studies
        for dataset in study.datasets
    ]
    for section, study, dataset in progress(
        work, desc="comparing", unit=" tasks"
    ):
        facts = getattr(section, "facts", lib.majority_facts)
        key = compare.dataset_id(study, dataset)
        datasets[key] = facts(dataset, predictions)
        if getattr(section, "IS_PAIRED", False):
            paired |= _compare_predictions(study, dataset, predictions)
    for _, section, studies in groups:
        if hasattr(section, "ensembles"):
            for study in studies:
                joined, refused = section.ensembles(study.records, predictions)
                ensembles += joined
                left_out += refused
    left_out += [
        (path, "has damaged predictions: no bootstrap or ensemble has it")
        for path in sorted(predictions.damaged)
    ]
    return {
        "version": VERSION,
        "made": {
            "on": time.strftime("%Y-%m-%d"),
            "machine": _describe_machines(runs),
            "commits": sorted({r["commit"] for r in runs if r["commit"]}),
            "versions": _join_versions(runs),
        },
        "runs": runs,
        "left_out": left_out,
        "datasets": datasets,
        "paired": paired,
        "ensembles": ensembles,
    }


def to_json(summary: Summary) -> str:
    """A summary as `read` takes it: small, and with a line for each run."""

    def dump(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    lines = []
    for name, value in summary.items():
        body = dump(value)
        if name == "runs":
            body = "[\n" + ",\n".join(map(dump, value)) + "\n]"
        lines.append(f"{dump(name)}:{body}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(path: str) -> Summary:
    """A stored summary.

    Raises:
        UserError: the file is not a summary, or one of another version.
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
            f"{path}: is not a summary. Give a folder of runs, or the "
            "summary.json of a report."
        ) from None
    return summary


def _join_versions(runs: Iterable[Record]) -> dict[str, str]:
    """Each package's versions over the runs, as one string."""
    versions: dict[str, set[str]] = {}
    for record in runs:
        for package, version in record["versions"].items():
            versions.setdefault(package, set()).add(version or "none")
    return {name: ", ".join(sorted(used)) for name, used in versions.items()}


def _describe_machines(runs: Iterable[Record]) -> str:
    """The machines of the runs, in words."""
    machines = {
        f"{', '.join(e['devices'])} ({e['processor'] or 'unknown processor'}), "
        f"{e['threads']} threads, {e['concurrent_runs']} at a time"
        for e in (record["timing_environment"] for record in runs)
    }
    return "; ".join(sorted(machines))


def _compare_predictions(
    study: Study, dataset: Dataset, predictions: "Predictions"
) -> dict[str, dict[str, float]]:
    """Bootstraps of every approach at its better rate against fine-tuning."""
    base = dataset.base
    if base is None or dataset.metric not in statistics.SCORES:
        return {}
    theirs = _read_outputs(base, predictions)
    if theirs is None:
        return {}
    ids, labels, outputs = theirs
    reference = statistics.resampled(dataset.metric, labels, outputs)
    comparisons = {}
    for cell in dataset.best_cells():
        ours = _read_outputs(cell, predictions)
        if cell is base or ours is None or ours[0] != ids:
            continue
        scores = statistics.resampled(dataset.metric, *ours[1:])
        pair = statistics.paired(scores, reference)
        comparisons[compare.pair_id(study, cell, base)] = dataclasses.asdict(
            pair
        )
    return comparisons


def _read_outputs(
    cell: Cell, predictions: "Predictions"
) -> tuple[bytes, np.ndarray, list[np.ndarray]] | None:
    """(ids, labels, outputs of each seed) of a cell's test set, or None."""
    read = [predictions.test(record) for record in cell.records]
    tests = [test for test in read if test is not None]
    ids = {test[0].tobytes() for test in tests}
    if len(tests) < len(read) or len(ids) > 1:
        return None
    return ids.pop(), tests[0][1], [test[2] for test in tests]


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


def format_runs(runs: Iterable[Record]) -> str:
    """The records as aligned text, sorted by task and share trained."""
    ordered = sorted(
        runs,
        key=lambda r: (
            r["task"],
            -r["trainable_parameters"],
            r["lr"],
            r["seed"],
        ),
    )
    return formatting.aligned([COLUMNS, *map(_format_run, ordered)])


def _format_run(record: Record) -> tuple[str, ...]:
    def score(split: str) -> str:
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
