"""The result of a run: its fields, itself in a line, and what extends it."""

import math
from typing import NotRequired, TypedDict

from tf_transfer.config.settings import Settings
from tf_transfer.utils.json_files import Record

OUT_OF_TIME = "max_seconds"  # the stop reason of a run that had more to do

Scores = dict[str, float] | None  # by metric
PhaseResult = TypedDict(
    "PhaseResult",
    {
        "trainable_layers": str,
        "lr": float,
        "epochs": int,
        "seconds": float,
        "stop_reason": str,
        "kept_epoch": NotRequired[int],  # of the phase
    },
)
# The measurements of a run: scores, times and trained parameters.
Outcome = TypedDict(
    "Outcome",
    {
        "validation": Scores,
        "test": Scores,
        "test_last": Scores,
        "best_epoch": int | None,
        "epochs_run": int,
        "stop_reason": str,
        "phases": list[PhaseResult],
        "train_seconds": float,
        "seconds_per_epoch": float,
        "trace_seconds": float,
        "prefix_seconds": float | None,
        "prefix_build_seconds": float | None,
        "prefix_engine": str | None,
        "checkpoint_bytes": NotRequired[int],  # of a network's
        "trainable_parameters": int,
        "total_parameters": int,
    },
)
# The content of `result.json`.
Result = TypedDict(
    "Result",
    {
        "task": str,
        "metric": str,
        "approach": str,
        "trainable_layers": NotRequired[str | None],
        "lr": float | None,
        "batch_size": int | None,
        "seed": int,
        "validation": Scores,
        "test": Scores,
        "test_last": NotRequired[Scores],
        "best_epoch": int | None,
        "epochs_run": int,
        "stop_reason": str,
        "phases": NotRequired[list[PhaseResult]],
        "train_seconds": float | None,
        "seconds_per_epoch": float | None,
        "trace_seconds": NotRequired[float | None],
        "prefix_seconds": float | None,
        "prefix_build_seconds": float | None,
        "prefix_engine": NotRequired[str | None],
        "seconds_per_text": NotRequired[float],
        "size_on_disk": NotRequired[int],
        "checkpoint_bytes": NotRequired[int | None],
        "trainable_parameters": int | None,
        "total_parameters": int | None,
        "warnings": NotRequired[list[str]],
        "cut_texts": NotRequired[float],  # share of the training texts
        "key_sha256": str,
        "sha256": dict[str, str],
        "result_sha256": str,
    },
)


def summarize(result: Record) -> str:
    """A result in a line."""
    metric = result["metric"]
    kinds = [
        f"{kind} {metric} {result[kind].get(metric, math.nan):.4f}"
        for kind in ("validation", "test")
        if result[kind]
    ]
    if result["best_epoch"] is None:
        when = f"({result['stop_reason']})"
    else:
        when = (
            f"at epoch {result['best_epoch']} of {result['epochs_run']} "
            f"({result['stop_reason']})"
        )
    seconds = result["seconds_per_epoch"]
    return (
        f"{result['task']} {result['approach']}: "
        f"{', '.join(kinds) or 'not scored'} {when}; "
        f"{result['train_seconds']:.1f} s of training"
        + (f", {seconds:.1f} s per epoch" if seconds else "")
        + f"; {result['trainable_parameters']:,} of "
        f"{result['total_parameters']:,} parameters trained"
    )


def describe_extension(settings: Settings, result: Record) -> str:
    """Describes in a line how these settings extend a finished run.

    They may add epochs or score the test; "" if they do neither.
    """
    if adds_epochs(settings, result):
        return f"Extending a finished run to {settings.max_epochs} epochs."
    if settings.score_test and not result.get("scores_test", True):
        return "Scoring the test with the weights of a finished run."
    return ""


def adds_epochs(settings: Settings, result: Record) -> bool:
    """Whether these settings extend a finished run by epochs."""
    had_more_to_do = result["stop_reason"] in ("max_epochs", OUT_OF_TIME)
    phases = result.get("phases")
    if not (had_more_to_do and phases):
        return False
    return settings.max_epochs > int(phases[-1]["epochs"])
