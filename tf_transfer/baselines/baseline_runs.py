"""A baseline as a run like any other: fitted, scored and recorded."""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, Self, TYPE_CHECKING, TypeVar

import numpy as np

from tf_transfer.config.settings import Settings
from tf_transfer.data import error_analysis, metrics, splits
from tf_transfer.data.task import Examples, Sentences, Task, Texts
from tf_transfer.training import tensorboard
from tf_transfer.training.checkpoint import Arrays
from tf_transfer.training.results import Outcome
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.training import records

Inputs = TypeVar("Inputs")
Read = TypeVar("Read", contravariant=True)


class Baseline(Protocol[Read]):
    """A model that is fitted in place of a network."""

    @property
    def chosen(self) -> Record:
        """The settings that a cross-validation chose, by name."""

    @property
    def parameters(self) -> int:
        """The number of fitted numbers."""

    def fit(self, inputs: Read, /) -> Self:
        """Learns from the inputs of the training texts.

        Raises:
            UserError: Nothing can be learned from them.
        """

    def logits(self, inputs: Read, /) -> np.ndarray:
        """Floats [examples or words, units]."""


class RecordedDevices(Protocol):
    """The devices that a run records; see `strategy.Devices`."""

    @property
    def names(self) -> list[str]:
        """The devices of the replicas."""

    @property
    def replicas(self) -> int:
        """The number of replicas."""


@dataclasses.dataclass(frozen=True)
class Cpu:
    """The devices of a baseline that scikit-learn fits."""

    names: list[str] = dataclasses.field(
        default_factory=lambda: ["/device:CPU:0"]
    )
    replicas: int = 1


@dataclasses.dataclass(frozen=True)
class Fold(Generic[Inputs]):
    """A fold of a run; a run without cross-validation has one.

    Attributes:
        texts: Its texts. In one of several folds, they are tested alone.
        inputs: What the baseline reads of them; see `splits.flatten`.
    """

    texts: Texts
    inputs: Mapping[str, Inputs]


@dataclasses.dataclass(frozen=True)
class ScoredFold:
    """The records of a fold.

    Attributes:
        texts: Its texts by split.
        scores: By `validation` and `test`, the metrics.
        predictions: The arrays of `predictions.npz`.
        warnings: Sentences on its labels.
        train_seconds, eval_seconds: Of fitting and of scoring.
    """

    texts: dict[str, Examples | Sentences]
    scores: dict[str, dict[str, float]]
    predictions: Arrays
    warnings: list[str]
    train_seconds: float
    eval_seconds: float


def of_texts(texts: Texts) -> Fold[Examples | Sentences]:
    """A fold whose baseline reads the texts themselves."""
    return Fold(texts, splits.flatten(texts))


def score_folds(
    task: Task,
    baseline: Baseline[Inputs],
    folds: Iterable[Fold[Inputs]],
    input_seconds: float = 0.0,
    may_score_nothing: bool = False,
) -> Iterator[ScoredFold]:
    """Fits and scores a baseline in every fold.

    Args:
        task: The task.
        baseline: Fitted again in each fold.
        folds: See `Fold`.
        input_seconds: Of making all inputs. They count as training, of the
            first fold.
        may_score_nothing: Whether texts may be for training alone.

    Yields:
        What is recorded of a fold, while the baseline is fitted to it.

    Raises:
        UserError: No example is left to score.
    """
    for fold in folds:
        is_scored = bool(fold.texts["validation"] or fold.texts["test"])
        if not (is_scored or may_score_nothing):
            raise UserError(splits.NOTHING_SCORED)
        began = time.monotonic()
        baseline.fit(fold.inputs["train"])
        fitted = time.monotonic()
        scores, arrays = _score(task, baseline, fold)
        yield ScoredFold(
            splits.flatten(fold.texts),
            scores,
            arrays,
            splits.find_warnings(task, fold.texts),
            fitted - began + input_seconds,
            time.monotonic() - fitted,
        )
        input_seconds = 0.0


def run(
    settings: Settings,
    directory: "records.RunDirectory",
    task: Task,
    baseline: Baseline[Inputs],
    folds: Iterable[Fold[Inputs]],
    seed: int,
    devices: RecordedDevices = Cpu(),
    input_seconds: float = 0.0,
    may_score_nothing: bool = False,
) -> Record:
    """Fits, scores and records a baseline; its scores are means over folds.

    Args:
        settings: Resolved, of an experiment with such features.
        directory: The run directory.
        task: See `score_folds`.
        baseline: See `score_folds`.
        folds: See `score_folds`.
        seed: The seed that the result records.
        devices: Where it is computed.
        input_seconds: See `score_folds`.
        may_score_nothing: See `score_folds`.

    Returns:
        The content of `result.json`; all other files are written.
    """
    scored: list[ScoredFold] = []
    lines: list[Record] = []
    for fold in score_folds(
        task, baseline, folds, input_seconds, may_score_nothing
    ):
        if not scored:
            directory.begin(
                settings,
                devices,
                {"classifier": baseline.parameters},
                {name: len(texts) for name, texts in fold.texts.items()},
                {"tasks": {task.name: task.record}, "chosen": baseline.chosen},
            )
        scored.append(fold)
        lines.append(_make_line(scored))
    predictions = scored[0].predictions
    if len(scored) > 1:
        predictions = _join_predictions(scored)
    else:
        texts = {name: (task, some) for name, some in scored[0].texts.items()}
        directory.write_errors(
            error_analysis.describe_splits(texts, predictions)
        )
    directory.write_epochs(lines)
    directory.write_predictions(predictions)
    test = _mean_scores(scored, "test")
    stop_reason = "one held-out set"
    if len(scored) > 1:
        stop_reason = f"mean of {len(scored)} folds"
    outcome: Outcome = {
        "validation": _mean_scores(scored, "validation"),
        "test": test,
        "test_last": test,
        "best_epoch": None,
        "epochs_run": len(scored),
        "stop_reason": stop_reason,
        "phases": [],
        "train_seconds": lines[-1]["elapsed_seconds"],
        "seconds_per_epoch": float(
            np.mean([fold.train_seconds for fold in scored])
        ),
        "trace_seconds": 0.0,
        "prefix_seconds": None,
        "prefix_build_seconds": None,
        "prefix_engine": None,
        "trainable_parameters": baseline.parameters,
        "total_parameters": baseline.parameters,
    }
    _write_events(directory.path, settings, task, outcome, lines)
    return {
        "task": task.name,
        "metric": task.metric,
        "approach": settings.approach,
        "trainable_layers": None,
        "lr": None,
        "batch_size": None,
        "seed": seed,
        **outcome,
        # Each once, in their order.
        "warnings": [
            *dict.fromkeys(w for fold in scored for w in fold.warnings)
        ],
    }


def _make_line(scored: list[ScoredFold]) -> Record:
    """The line of `epochs.jsonl` on the last fold so far."""
    fold = scored[-1]
    return {
        "epoch": len(scored),
        "phase": 1,
        "phase_epoch": len(scored),
        "task": None,
        "train_loss": None,
        "validation": fold.scores.get("validation"),
        "test": fold.scores.get("test"),
        "train_seconds": fold.train_seconds,
        "eval_seconds": fold.eval_seconds,
        "trace_seconds": 0.0,
        "elapsed_seconds": sum(fold.train_seconds for fold in scored),
        "examples_per_second": len(fold.texts["train"])
        / max(fold.train_seconds, 1e-9),
        "peak_memory_bytes": machine.own_memory(),
    }


def _score(
    task: Task, baseline: Baseline[Inputs], fold: Fold[Inputs]
) -> tuple[dict[str, dict[str, float]], Arrays]:
    """The scores of validation and test, and the predictions."""
    scores: dict[str, dict[str, float]] = {}
    arrays: Arrays = {}
    for kind in ("validation", "test"):
        for name, texts in fold.texts[kind].items():
            split = splits.join_names(kind, name)
            labels, starts = texts.targets(task)
            logits = baseline.logits(fold.inputs[split])
            measured = metrics.measure_task(task, labels, logits, starts)
            scores.setdefault(kind, {}).update(
                (splits.join_names(name, metric), score)
                for metric, score in measured.items()
            )
            arrays |= {
                f"{split}_ids": texts.ids,
                f"{split}_labels": labels,
                f"{split}_logits": logits,
            }
            if starts is not None:
                arrays[f"{split}_starts"] = starts
            if texts.groups is not None:
                arrays[f"{split}_groups"] = texts.groups
    return scores, arrays


def _join_predictions(scored: list[ScoredFold]) -> Arrays:
    """The predictions of all folds, in the order of the tested rows."""
    joined = {
        name: np.concatenate([fold.predictions[name] for fold in scored])
        for name in scored[0].predictions
    }
    order = joined["test_ids"].argsort()
    return {name: array[order] for name, array in joined.items()}


def _mean_scores(
    scored: list[ScoredFold], kind: str
) -> dict[str, float] | None:
    if kind not in scored[0].scores:
        return None
    return {
        metric: float(np.mean([fold.scores[kind][metric] for fold in scored]))
        for metric in scored[0].scores[kind]
    }


def _write_events(
    folder: str,
    settings: Settings,
    task: Task,
    outcome: Outcome,
    lines: list[Record],
) -> None:
    events = tensorboard.RunEvents(folder)
    events.start(0, {"approach": settings.approach, "task": task.name})
    for line in lines:
        for kind in ("validation", "test"):
            for metric, score in (line[kind] or {}).items():
                events.scalar(f"{kind}/{metric}", score, line["epoch"])
    events.log_outcome(outcome, task.metric, len(lines))
    events.close()
