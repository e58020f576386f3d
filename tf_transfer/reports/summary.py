"""The summary of a folder of runs: all that a report is made from, as JSON.

It is small enough to be kept with a document, so that the document can be made
again, and seen to be stale, without the runs.
"""

import collections
import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from typing import TypedDict

import msgspec

from tf_transfer.comparison.run_record import RunRecord
from tf_transfer.reports import reading
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

VERSION = 7
MOST_REASONS = 20  # that a message names
MOST_BYTES = 1 << 30  # of a file; a run takes up to 10 kB


class Origin(TypedDict):
    """When, where and by which code some runs were made."""

    on: str
    machine: str
    commits: list[str]
    versions: dict[str, str]


class Runs(TypedDict):
    """The runs from which studies are collected."""

    runs: list[RunRecord]


class Summary(Runs):
    """The content of `summary.json`."""

    version: int
    made: Origin
    searches: list[reading.Search]
    left_out: reading.Reasons


_dump = json.JSONEncoder(separators=(",", ":")).encode


def summarize_folder(root: str) -> Summary:
    """The summary of the runs below a folder; see `summarize`.

    Raises:
        UserError: No such folder, or no complete run in it.
    """
    runs, left_out = reading.read_runs(root)
    searches, damaged = reading.read_searches(root)
    left_out += damaged
    if not (runs or searches):
        raise UserError(_describe_unfinished(root, left_out))
    return summarize(runs, left_out, root, searches)


def _describe_unfinished(root: str, left_out: reading.Reasons) -> str:
    """The message on a folder without a finished run: how many have failed."""
    failed = reading.list_failed(root)
    counts = [
        f"{number} {what}"
        for number, what in (
            (len(failed), "failed"),
            (len(left_out), "left out"),
        )
        if number
    ]
    lines = [
        f"{root}: holds no finished run{': ' if counts else ''}"
        f"{', '.join(counts)}. Give the --out of your runs."
    ]
    lines += [f"  failed: {line}" for line in failed[:MOST_REASONS]]
    lines += [f"  {path}: {why}" for path, why in left_out[:MOST_REASONS]]
    return "\n".join(lines)


def summarize(
    runs: Sequence[RunRecord],
    left_out: Iterable[tuple[str, str]],
    root: str,
    searches: Iterable[reading.Search] = (),
) -> Summary:
    """The summary of some records.

    Args:
        runs: Their records, whose paths start from `root`.
        left_out: (path, reason) of other runs.
        root: Folder of the runs.
        searches: See `reading.read_searches`.

    Returns:
        `runs` (records, with `majorities` and `one_answer`; those that an
        experiment's `ensembles` joins of several runs come last), `searches`,
        `left_out`, `made` (when, where and by which code).
    """
    from tf_transfer.comparison import predictions as lib
    from tf_transfer.reports import study  # loads pandas

    predictions = lib.Predictions(root)
    runs = [predictions.describe_record(run) for run in runs]
    ensembles: list[RunRecord] = []
    left_out = list(left_out)
    for experiment in sorted({run.experiment for run in runs}):
        join = getattr(study.module_of(experiment), "ensembles", None)
        if join is not None:
            members = [run for run in runs if run.experiment == experiment]
            joined, refused = join(members, predictions)
            ensembles += joined
            left_out += refused
    left_out += [
        (path, "has damaged predictions: they are not read")
        for path in sorted(predictions.damaged)
    ]
    return {
        "version": VERSION,
        "made": _describe(runs, time.strftime("%Y-%m-%d")),
        "runs": runs + ensembles,
        "searches": [*searches],
        "left_out": left_out,
    }


def merge(summaries: Sequence[Summary]) -> Summary:
    """Several summaries as one, such as those of several machines.

    `reading.select_runs` decides which runs count. The ensembles are those of
    each summary; none joins runs of two summaries.
    """
    if len(summaries) == 1:
        return summaries[0]
    found: list[RunRecord] = []
    named: dict[str, str] = {}  # reasons, by path
    searches: dict[str, reading.Search] = {}  # by path
    for summary in summaries:
        found += summary["runs"]
        named |= dict(summary["left_out"])
        searches |= {s["path"]: s for s in summary["searches"]}
    runs, others = reading.select_runs(found)
    named |= dict(others)
    for run in runs:  # another summary may have left it out
        named.pop(run.path, None)
    return {
        "version": VERSION,
        "made": _describe(runs, max(s["made"]["on"] for s in summaries)),
        "runs": runs,
        "searches": [*searches.values()],
        "left_out": [*named.items()],
    }


def _describe(runs: Sequence[RunRecord], day: str) -> Origin:
    """When, where and by which code some runs were made."""
    versions = collections.defaultdict(set)
    for run in runs:
        for package, version in run.versions.items():
            versions[package].add(version or "none")
    return {
        "on": day,
        "machine": _describe_machines(runs),
        "commits": sorted({run.commit for run in runs if run.commit}),
        "versions": {n: ", ".join(sorted(v)) for n, v in versions.items()},
    }


def describe_origin(summary: Summary) -> str:
    """When, where and by which code the runs were made, as a sentence."""
    made = summary["made"]
    packages = ", ".join(
        f"{name} {made['versions'][name]}"
        for name in ("tensorflow", "keras", "keras-hub")
        if name in made["versions"]
    )
    commits = ", ".join(commit[:10] for commit in made["commits"])
    # The runs of an ensemble are counted already.
    runs = [run for run in summary["runs"] if not run.members]
    if not runs:  # a search alone
        return f"Reported on {made['on']}."
    hours = sum(run.seconds or 0 for run in runs) / 3600
    memory = max(run.memory or 0 for run in runs)
    origin = f"{formatting.count(len(runs), 'run')}, {hours:.1f} h of training"
    if memory:
        origin += f", up to {formatting.size(memory)} of memory"
    origin += (
        f"; reported on {made['on']}. Machine: {made['machine']}. {packages}."
    )
    return f"{origin} Commit {commits}." if commits else origin


def to_json(summary: Summary) -> str:
    """A summary for `read_summary`: small, and with a line for each run.

    Its first line has a hash of all others. Values that most runs share are
    written once, as `defaults`; the line of a run has the others.
    """
    runs: list[Record] = [msgspec.to_builtins(r) for r in summary["runs"]]
    defaults = _find_defaults(runs)
    settings = _find_defaults([run["key"] for run in runs])
    lines = []
    for run in runs:
        rest = _leave_out(defaults, run)
        rest["key"] = _leave_out(settings, run["key"])
        lines.append(_dump({"path": run["path"], **rest}))
    shared = _dump({**defaults, "key": settings})
    text = (
        f'"version":{_dump(summary["version"])},\n'
        f'"made":{_dump(summary["made"])},\n'
        f'"defaults":{shared},\n'
        '"runs":[\n' + ",\n".join(lines) + "\n],\n"
        f'"searches":{_dump(summary["searches"])},\n'
        f'"left_out":{_dump(summary["left_out"])}\n}}\n'
    )
    return f'{{\n"sha256":"{_hash(text)}",\n{text}'


def _find_defaults(records: Sequence[Record]) -> Record:
    """The values that more than half of the records share."""
    counts = collections.Counter(
        (field, _dump(value))
        for record in records
        for field, value in record.items()
    )
    return {
        field: json.loads(value)
        for (field, value), count in sorted(counts.items())
        if count > len(records) / 2
    }


def _leave_out(defaults: Record, record: Record) -> Record:
    """A record without its default values; 1 is not 1.0 or True.

    `without` names the defaults that it does not have.
    """
    lacking = sorted(defaults.keys() - record.keys())
    left = {
        field: value
        for field, value in sorted(record.items())
        if field not in defaults or _dump(value) != _dump(defaults[field])
    }
    return {**left, "without": lacking} if lacking else left


def _fill(defaults: Record, record: Record) -> Record:
    """Reverses `_leave_out`."""
    lacking = {"without", *record.get("without", ())}
    whole = {**defaults, **record}
    return {n: v for n, v in whole.items() if n not in lacking}


def _read_record(defaults: Record, run: Record) -> RunRecord:
    key = _fill(defaults["key"], run["key"])
    whole = {**_fill(defaults, run), "key": key}
    return msgspec.convert(whole, RunRecord)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_summary(path: str) -> Summary:
    """A stored summary.

    Raises:
        UserError: The file is not a summary, or one of another version.
    """
    try:
        content = files.read_bytes(path, MOST_BYTES).decode()
        summary = json.loads(content)
        if summary["version"] != VERSION:
            raise UserError(
                f"{path}: is a summary of another version of tf_transfer. "
                "Make it again from its runs."
            )
        begin, _, text = content.partition(",\n")
        if summary.pop("sha256") != _hash(text) or begin.count("\n") != 1:
            raise UserError(
                f"{path}: is damaged (its lines are not as they were "
                "written). Make it again from its runs."
            )
        defaults = summary.pop("defaults")
        summary["runs"] = [
            _read_record(defaults, run) for run in summary["runs"]
        ]
        restored: Summary = summary
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(
            f"{path}: is not a summary. Give a folder of runs, or the "
            "summary.json of a report."
        ) from None
    return restored


def _describe_machines(runs: Iterable[RunRecord]) -> str:
    """The machines of the runs, in words."""
    machines = set()
    for environment in (run.timing_environment for run in runs):
        if environment.devices:
            machines.add(
                f"{', '.join(environment.devices)} "
                f"({environment.processor or 'unknown processor'}), "
                f"{environment.threads} threads, "
                f"{environment.concurrent_runs} at a time"
            )
    return "; ".join(sorted(machines)) or "not recorded"
