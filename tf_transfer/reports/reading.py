"""Reads run directories into run records: all that a report uses of a run.

Incomplete directories are left out, with the reason.
"""

import contextlib
import datetime
import json
import os
import pathlib
import re
from collections.abc import Iterable
from typing import TypedDict

import msgspec

from tf_transfer.comparison.run_record import (
    CONDITIONS,
    Environment,
    Epoch,
    Pass,
    RunRecord,
    Setting,
    Settings,
)
from tf_transfer.config import settings as settings_lib
from tf_transfer.training import record_types, records, run_paths
from tf_transfer.utils import json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_command
from tf_transfer.utils.json_files import Record

# The keys of `config.json` that a report reads, apart from `CONDITIONS`.
ReportedKey = TypedDict("ReportedKey", {"module": str, "data_identity": str})
ReportedSettings = TypedDict(
    "ReportedSettings", {"max_epochs": int | None, "model": str, "data": str}
)
Reported = TypedDict(
    "Reported",
    {
        "key": ReportedKey,
        "settings": ReportedSettings,
        "parts": dict[str, int],
        "split_sizes": dict[str, int],
        "versions": dict[str, str | None],
        "git_commit": str | None,
        "starts": list[record_types.Start],
    },
)
# Settings that describe every run of an encoder. A run's own key lacks those
# that it does not read, and usual values.
DESCRIBING = (
    *("method", "layer_decay", "pairs", "select", "loss_head", "load_blocks"),
    *("pooler_dropout", "drop_last", "idle_heads", "reads_embeddings"),
    *("targets", "short_batches", "head_init"),
)

Failure = TypedDict("Failure", {"command": list[str], "reason": str})
# The answer of a search; `path` is of its folder.
Search = TypedDict(
    "Search",
    {
        "path": str,
        "lines": list[str],
        "table": list[dict[str, str]],
    },
)
Reasons = list[tuple[str, str]]  # path, and why it is left out
UNTESTED = (
    "has no test score, which other seeds of its settings have; the same "
    "command without --score_test=false scores it"
)


class LeftOut(Exception):
    """The reason for which a directory is not in the report."""


def read_runs(root: str) -> tuple[list[RunRecord], Reasons]:
    """The records below a folder, and what is left out.

    The runs of a search with an answer are not read: see `read_searches`.

    Returns:
        The records, and (path, reason) of the others, both by path.

    Raises:
        UserError: No such folder.
    """
    if not os.path.isdir(root):
        raise UserError(f"{root}: no such folder. Give the --out of your runs.")
    found: list[RunRecord] = []
    left_out: Reasons = []
    errors: list[OSError] = []
    for folder, folders, files in os.walk(root, onerror=errors.append):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        if "train" in folders and _read_answer(folder) is not None:
            folders.remove("train")  # the answer compares these
        if {"config.json", "result.json"}.isdisjoint(files):
            continue
        folders.clear()
        path = os.path.relpath(folder, root)
        try:
            found.append(read_run(folder, path))
        except LeftOut as reason:
            left_out.append((path, str(reason)))
    for error in errors:
        path = os.path.relpath(error.filename or root, root)
        left_out.append((path, f"cannot be read: {error.strerror}"))
    runs, others = select_runs(found)
    return runs, sorted(left_out + others)


def list_failed(root: str) -> list[str]:
    """Command and reason of each failed run of the sweeps below a folder."""
    lines = []
    for path in sorted(pathlib.Path(root).rglob(".sweep/failed/*.json")):
        with contextlib.suppress(OSError, UserError):
            record = json_files.read(str(path), Failure)
            command = quote_command(*record["command"])
            lines.append(f"{command}: {record['reason']}")
    return lines


def select_runs(
    records: Iterable[RunRecord],
) -> tuple[list[RunRecord], Reasons]:
    """The runs that a report compares, and (path, reason) of the others.

    Of equal runs the first counts. Where seeds of some settings have test
    scores, other seeds without are left out: a group has scores of one split.
    """
    runs: dict[str, RunRecord] = {}
    left_out = []
    for record in records:
        first = runs.setdefault(_identify(record), record).path
        if first != record.path:
            left_out.append((record.path, f"is the same run as {first}"))
    tested = {_settings_of(run) for run in runs.values() if run.split == "test"}
    shown = []
    by_outcome: dict[str, str] = {}  # the path of the first run
    for run in runs.values():
        first = by_outcome.setdefault(_outcome_of(run), run.path)
        if first != run.path:
            reason = f"has the predictions of {first}, and another seed: "
            left_out.append((run.path, f"{reason}it is a copy"))
        elif run.test is None and _settings_of(run) in tested:
            left_out.append((run.path, UNTESTED))
        else:
            shown.append(run)
    return shown, left_out


def read_searches(root: str) -> tuple[list[Search], Reasons]:
    """The searches below a folder that have an answer.

    Returns:
        `path` (`root` included), and `lines` and `table` of the answer of each,
        and (path, reason) of the others, both by path.
    """
    searches: list[Search] = []
    left_out = []
    for file in sorted(pathlib.Path(root).rglob(run_paths.ANSWER)):
        path = os.path.relpath(file.parent.parent, root)
        name = os.path.normpath(os.path.join(pathlib.Path(root).name, path))
        answer = _read_answer(str(file.parent.parent))
        if answer is None:
            left_out.append((path, "has a search whose answer is damaged"))
        else:
            searches.append(
                {
                    "path": name,
                    "lines": answer["lines"],
                    "table": answer["table"],
                }
            )
    return searches, left_out


def _read_answer(folder: str) -> record_types.Answer | None:
    """The answer of a search; None without one, or if it is damaged."""
    try:
        path = os.path.join(folder, run_paths.ANSWER)
        return json_files.read(path, record_types.Answer)
    except (json_files.Damaged, OSError):
        return None


def _outcome_of(run: RunRecord) -> str:
    """Equal for runs that differ by seed at most, and predict the same.

    No two seeds train to the same scores after each epoch and to the same
    predictions to the last bit: a copied directory would count as a seed.
    """
    if not run.trains or not run.predictions:
        return run.path
    scores = [(epoch.validation, epoch.test) for epoch in run.epochs]
    return f"{_settings_of(run)} {run.predictions} {scores}"


def _settings_of(run: RunRecord) -> str:
    """Equal for runs that differ by seed alone."""
    settings = {n: v for n, v in run.key.items() if n != "seed"}
    return json.dumps([settings, run.max_epochs], sort_keys=True)


def _identify(run: RunRecord) -> str:
    """Equal for two records of the same run or ensemble."""
    # The key may lack --max_epochs, which makes another run.
    identity = [run.key, run.max_epochs, run.members]
    return json.dumps(identity, sort_keys=True)


def read_run(folder: str, path: str) -> RunRecord:
    """The record of one run directory.

    Args:
        folder: The run directory.
        path: Its name in the record.

    Raises:
        LeftOut: The run is damaged, not finished, or has a retired setting.
    """
    for name in ("config.json", "result.json", *records.HASHED):
        file = os.path.join(folder, name)
        if os.path.exists(file) and not os.path.isfile(file):
            raise LeftOut(f"{name}: is no file")  # a pipe would never end
    directory = records.RunDirectory(folder, None)
    try:
        config = directory.config(Reported)
        if config is None:
            raise LeftOut("has no config.json")
        if retired := settings_lib.find_retired(config["settings"]):
            raise LeftOut(f"was trained with {retired}, which is retired")
        directory.key = config["key"]  # of the run that the result belongs to
        result = directory.result()
        if result is None:
            raise LeftOut("is not finished")
        epochs = directory.epochs()
        optional = {"depth_profile.json", "errors.json"} & {*result["sha256"]}
        for name in ("config.json", "epochs.jsonl", *optional):
            directory.check_file(name, result)
        profile = directory.profile()
    except FileNotFoundError:
        raise LeftOut("has no epochs.jsonl") from None
    except OSError as error:
        raise LeftOut(f"cannot be read: {error.strerror}") from None
    except json_files.Damaged as error:
        reason = str(error).splitlines()[0].removesuffix(".")
        reason = reason.removeprefix(folder + os.sep)
        raise LeftOut(reason) from None
    _check_content(config, result, epochs)
    record = _make_record(config, result, epochs, path)
    if "depth_profile.json" in optional:
        record = msgspec.structs.replace(record, profile=profile)
    return record


def _check_content(
    config: Record,
    result: Record,
    epochs: list[Record],
) -> None:
    """Raises `LeftOut` for what your own experiment might get wrong."""
    for field, name in (
        ("task", result["task"]),
        ("key.module", config["key"]["module"]),
    ):
        if not re.fullmatch(settings_lib.NAME, name):
            raise LeftOut(f"{field}: {cut(name)} is no name of a folder")
    if not epochs:
        raise LeftOut("epochs.jsonl: is empty")
    phases = len(result.get("phases", ()))
    for line in epochs:
        if line.get("task") and not 1 <= line["phase"] <= phases:
            raise LeftOut(f"epochs.jsonl: phase: there is no {line['phase']}")
    scored = [("epochs.jsonl", line) for line in _last_lines_of_epochs(epochs)]
    for where, line in [("result.json", result), *scored]:
        scores = [line[split] for split in ("validation", "test")]
        if not any(scores) and config["settings"].get("refit"):
            raise LeftOut("is a refit without a test, which has no scores")
        if not any(scores):
            raise LeftOut(f"{where}: has no scores")
        metric = result["metric"]
        if any(split and metric not in split for split in scores):
            raise LeftOut(f"{where}: has no {metric} among its scores")


def complete_key(key: Settings, settings: Settings) -> dict[str, Setting]:
    """The key of an encoder's run, with all that describes the run.

    Args:
        key: The key, as `config.json` has it.
        settings: The settings, as `config.json` has them.
    """
    described = {n: settings[n] for n in DESCRIBING if n in settings}
    return {**described, **key}


def _make_record(
    config: Record,
    result: Record,
    epochs: list[Record],
    path: str,
) -> RunRecord:
    """The record, without what `Predictions.describe_record` completes."""
    key, metric, settings = config["key"], result["metric"], config["settings"]
    blocks = sum(part.startswith("block ") for part in config["parts"])
    if blocks:
        key = complete_key(key, settings)
    starts = config["starts"]
    # Without it, the seconds of a run contain those of tracing.
    trace_seconds = result.get("trace_seconds")
    is_timed = trace_seconds is not None
    folds = None
    # A baseline has a line for each fold, or one for its held-out set.
    if not result["best_epoch"] and result["test"] and len(epochs) > 1:
        folds = [line["test"] for line in epochs]
    memory = max(line["peak_memory_bytes"] or 0 for line in epochs)
    return RunRecord(
        path=path,
        experiment=key["module"],
        task=result["task"],
        data=_find_source(settings, result["task"]),
        model=settings["model"],
        blocks=blocks,
        parts=config["parts"],
        metric=metric,
        approach=result["approach"],
        cached=result["prefix_seconds"] is not None,
        lr=float(result["lr"] or 0),  # none without an encoder
        seed=result["seed"],
        max_epochs=settings["max_epochs"],
        key=key,
        sizes=config["split_sizes"],
        timing_environment=_describe_environment(config),
        commit=config["git_commit"],
        versions=config["versions"],
        epochs=[
            Epoch(
                _take(line["validation"], metric),
                _take(line["test"], metric),
                line["elapsed_seconds"] if is_timed else None,
            )
            for line in _last_lines_of_epochs(epochs)
        ],
        passes=_list_passes(result, epochs),
        folds=folds,
        validation=_take(result["validation"], metric),
        test=_take(result["test"], metric),
        metrics=result["test"] or result["validation"],
        majorities={},
        one_answer=False,
        epochs_run=result["epochs_run"],
        stop_reason=result["stop_reason"],
        seconds=result["train_seconds"] if is_timed else None,
        seconds_per_epoch=result["seconds_per_epoch"],
        trace_seconds=trace_seconds,
        prefix_seconds=result["prefix_seconds"],
        prefix_build_seconds=result["prefix_build_seconds"],
        memory=memory or None,
        trainable_parameters=result["trainable_parameters"],
        total_parameters=result["total_parameters"],
        started=_seconds_at(starts[0].get("started")) if starts else None,
        warnings=result.get("warnings", []),
        predictions=result["sha256"].get("predictions.npz", "")[:16],
    )


def _take(scores: dict[str, float] | None, metric: str) -> float | None:
    return scores[metric] if scores else None


def _describe_environment(config: Record) -> Environment:
    # A start that lacks what another one has was in another environment.
    conditions = [
        [start.get(name) for name in CONDITIONS] for start in config["starts"]
    ]
    return Environment(
        **{name: config.get(name) for name in CONDITIONS},
        mixed=any(one != conditions[-1] for one in conditions),
    )


def _find_source(settings: Record, task: str) -> str:
    """The data as a command names it: a task file, a table or a data set.

    Args:
        settings: Of the run.
        task: The name of its task, which is not that of a task file.
    """
    given = settings.get("task") or task
    return settings["data"] if given == task else given


def _list_passes(result: Record, epochs: Iterable[Record]) -> list[Pass]:
    """Task and validation scores of each pass over one of several tasks.

    Passes of the head alone, which may be hundreds, are in no table.
    """
    passes = []
    for line in epochs:
        if line.get("task"):
            phase = result["phases"][line["phase"] - 1]
            if phase["trainable_layers"] != "head":
                passes.append(Pass(line["task"], line["validation"]))
    return passes


def _seconds_at(text: str | None) -> float | None:
    """A time as `config.json` has it, in seconds; None if it has none."""
    try:
        return datetime.datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None


def _last_lines_of_epochs(
    lines: Iterable[Record],
) -> list[Record]:
    """The line of each epoch; the last, where there is one for each task.

    Only after the last task's pass may an epoch be selected.
    """
    return [*{line["epoch"]: line for line in lines}.values()]
