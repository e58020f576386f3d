"""Figures of `stacking`: heads first, then everything."""

import dataclasses
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import matplotlib.ticker
import pandas as pd
from matplotlib.axes import Axes

from tf_transfer.reports import frames
from tf_transfer.reports import plots
from tf_transfer.reports import study
from tf_transfer.reports.reading import Record
from tf_transfer.training.progress import SAMPLE

ADAPTATION_COLOURS = {
    "finetune-only": "#000000",
    "stack-only": "#E69F00",
    "stack-and-finetune": "#0072B2",
    "joint": "#CC79A7",
}
HEAD_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SPLIT_STYLES = {  # of curves on both
    "training sample": ("#E69F00", "s"),
    "validation": ("#0072B2", "o"),
}
GAP_STYLES = (  # of no gap, and then of others
    ("#0072B2", "o"),
    ("#E69F00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
)
PHASES = {"head": "head alone", "all": "everything"}

# Of a phase: its name, the epoch whose weights it ends with, and the accuracies
# in points after each of its epochs by split.
Phase = tuple[str, int, dict[str, list[float]]]
# What a curve shows: its adaptation, its head, and the runs of a group.
Course = tuple[str, str, pd.DataFrame]


@dataclasses.dataclass(frozen=True)
class Lengths:
    """What a panel of `scores_over_phase_one` shows.

    Attributes:
        metric: what the scores are.
        points: by gap (-1: none), mean epochs of the first phase and the test
            scores in points of its runs.
        base: mean score of finetune-only, or None.
    """

    metric: str
    points: Mapping[float, Sequence[tuple[float, Sequence[float]]]]
    base: float | None


def phases_of(record: Record) -> list[Phase]:
    """The phases of a run, for `scores_over_phases`."""
    phases = []
    for number, phase in enumerate(record["phases"], 1):
        points = [p for p in record["curve"] if p["phase"] == number]
        scores = {
            "training sample": [100 * p[f"{SAMPLE}_accuracy"] for p in points],
            "validation": [100 * p["accuracy"] for p in points],
        }
        name = f"{PHASES[phase['trainable_layers']]}, {phase['lr']:g}"
        phases.append((name, kept_epoch(record, number), scores))
    return phases


def kept_epoch(record: Record, number: int) -> int:
    """The epoch whose weights a phase ended with, counted within it."""
    phases: list[dict[str, Any]] = record["phases"][:number]
    *before, phase = phases
    if "kept_epoch" in phase:  # a rule chose it
        return phase["kept_epoch"]
    is_last = number == len(record["phases"])
    if not is_last or record["key"]["select"] == "last":
        return phase["epochs"]
    return record["best_epoch"] - sum(p["epochs"] for p in before)


def scores_over_phases(
    name: str, caption: str, panels: Mapping[str, Sequence[Phase]]
) -> study.Figure:
    """Accuracy on training sample and validation, epoch by epoch.

    A line separates the phases; a ring is around the epoch that a phase ends
    with, and a thin line leads from it to the next phase.

    Args:
        name, caption: see `study.Figure`.
        panels: phases by title.
    """
    figure, axes = plots.make_panels(len(panels))
    handles: plots.Handles = {}
    for axis, (title, phases) in zip(axes, panels.items()):
        last_epoch, previous = 0, None
        for number, (phase, kept, scores) in enumerate(phases, 1):
            is_last = number == len(phases)
            count = len(scores["validation"])
            epochs = [last_epoch + n for n in range(1, count + 1)]
            handles |= _draw_phase(axis, epochs, scores, previous)
            previous = (
                epochs[kept - 1],
                {split: scores[split][kept - 1] for split in SPLIT_STYLES},
            )
            handles["kept epoch"] = _draw_ring(axis, *previous)
            axis.text(
                last_epoch + 0.06 if is_last else epochs[-1] - 0.06,
                1.01,
                phase,
                transform=axis.get_xaxis_transform(),
                fontsize=8,
                va="bottom",
                ha="left" if is_last else "right",
                color="#555555",
            )
            last_epoch = epochs[-1]
            if not is_last:
                axis.axvline(
                    last_epoch, color="#888888", linewidth=1, linestyle=":"
                )
        axis.set_xlim(0, last_epoch + 0.3)
        plots.use_whole_numbers(axis)
        axis.margins(y=0.12)
        plots.add_frame(axis, "accuracy, points", "epochs", title, pad=16)
    return plots.finish(figure, handles, name, caption)


def _draw_phase(
    axis: Axes,
    epochs: Sequence[int],
    scores: dict[str, list[float]],
    previous: tuple[int, dict[str, float]] | None,
) -> plots.Handles:
    """Both curves of a phase, and how they come from the one before.

    Args:
        axis: the panel.
        epochs: of the phase.
        scores: after each of them, by split.
        previous: the epoch that the phase before ended with, and its scores.
    """
    handles = {}
    for split, (split_colour, marker) in SPLIT_STYLES.items():
        [handles[split]] = axis.plot(
            epochs,
            scores[split],
            color=split_colour,
            marker=marker,
            markersize=5,
        )
        if previous:
            epoch, kept_scores = previous
            axis.plot(
                [epoch, epochs[0]],
                [kept_scores[split], scores[split][0]],
                color=split_colour,
                linewidth=0.8,
                linestyle=(0, (2, 2)),
            )
    return handles


def _draw_ring(axis: Axes, epoch: int, scores: dict[str, float]) -> Any:
    return axis.plot(
        epoch,
        scores["validation"],
        marker="o",
        markersize=12,
        markerfacecolor="none",
        color="#009E73",
        linestyle="none",
    )[0]


def scores_over_phase_one(
    name: str, caption: str, panels: Mapping[str, Lengths]
) -> study.Figure:
    """Test score in the end against the epochs of the first phase.

    A line joins the runs whose first phase had as many epochs as were asked
    for; marks by themselves are runs that left it by a gap.

    Args:
        name, caption: see `study.Figure`.
        panels: by title.
    """
    figure, axes = plots.make_panels(len(panels), height=3.6)
    handles: plots.Handles = {}
    gaps = sorted({gap for shown in panels.values() for gap in shown.points})
    for axis, (title, shown) in zip(axes, panels.items()):
        for gap, points in shown.points.items():
            colour, marker = GAP_STYLES[gaps.index(gap) % len(GAP_STYLES)]
            ordered = sorted(points, key=lambda point: point[0])
            label = "no gap" if gap < 0 else f"gap {gap:g}"
            handles[label] = axis.errorbar(
                [epochs for epochs, _ in ordered],
                [statistics.fmean(scores) for _, scores in ordered],
                yerr=[
                    statistics.stdev(scores) if len(scores) > 1 else 0.0
                    for _, scores in ordered
                ],
                color=colour,
                marker=marker,
                markersize=6,
                capsize=2,
                linewidth=1,
                linestyle="-" if gap < 0 else "none",
            )
        if shown.base is not None:
            handles["finetune-only"] = axis.axhline(
                shown.base, color="#000000", linewidth=1, linestyle=":"
            )
        _number_epochs(axis, [x for x, _ in shown.points.get(-1.0, ())])
        axis.margins(x=0.08, y=0.12)
        xlabel = "epochs of the first phase"
        plots.add_frame(axis, f"{shown.metric} on test, points", xlabel, title)
    return plots.finish(figure, handles, name, caption)


def _number_epochs(axis: Axes, epochs: Sequence[float]) -> None:
    """A logarithmic axis whose ticks are these epochs."""
    axis.set_xscale("log")
    axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    if epochs:
        axis.set_xticks(epochs, [f"{number:g}" for number in epochs])


def scores_against_time(
    name: str,
    caption: str,
    panels: Mapping[str, tuple[str, Sequence[Course]]],
) -> study.Figure:
    """Test score against training time, epoch by epoch, to the end.

    Adaptations have colours and heads markers, which are hollow where the
    prefix is cached.

    Args:
        name, caption: see `study.Figure`.
        panels: what the scores are, and the curves, by title.
    """
    figure, axes = plots.make_panels(len(panels), height=3.6)
    lines: plots.Handles = {}
    marks: plots.Handles = {}
    markers: dict[str, str] = {}
    for axis, (title, (metric, courses)) in zip(axes, panels.items()):
        for adaptation, head, group in courses:
            colour = ADAPTATION_COLOURS.get(adaptation, plots.OTHERS[2])
            marker = markers.setdefault(
                head, HEAD_MARKERS[len(markers) % len(HEAD_MARKERS)]
            )
            cached = bool(group.cached.iloc[0])
            _draw_course(axis, group, colour, marker, cached)
            lines[adaptation + (", cached" if cached else "")] = axis.plot(
                [], [], color=colour, linestyle="--" if cached else "-"
            )[0]
            marks[head] = axis.plot(
                [], [], color="#555555", marker=marker, linestyle="none"
            )[0]
        axis.set_xlim(left=0)
        xlabel = "training time, the whole prefix included, s"
        plots.add_frame(axis, f"{metric} on test, points", xlabel, title)
    return plots.finish(figure, {**lines, **marks}, name, caption)


def _draw_course(
    axis: Axes, group: pd.DataFrame, colour: str, marker: str, cached: bool
) -> None:
    """A dot for each epoch, and a large mark at the end."""
    epochs = frames.epochs_frame(group)
    means = epochs.groupby("epoch")[["seconds", "test"]].mean()
    axis.plot(
        means.seconds,
        means.test,
        color=colour,
        linewidth=1,
        alpha=0.55,
        marker=".",
        markersize=4,
        linestyle="--" if cached else "-",
    )
    axis.errorbar(
        group.seconds.mean(),
        group.score.mean(),
        xerr=group.seconds.std() if len(group) > 1 else None,
        yerr=group.score.std() if len(group) > 1 else None,
        color=colour,
        marker=marker,
        markersize=7,
        capsize=2,
        markerfacecolor="white" if cached else colour,
        linestyle="none",
    )
