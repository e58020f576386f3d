"""Figures of `stacking`: heads first, then everything."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from tf_transfer.reports import document
from tf_transfer.reports import figures
from tf_transfer.reports.studies import Cell

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

# Of a phase: its name, the epoch whose weights it ends with, and the scores
# after each of its epochs by split.
Phase = tuple[str, int, dict[str, list[float]]]


def scores_over_phases(
    name: str,
    caption: str,
    panels: Mapping[str, tuple[str, Sequence[Phase]]],
) -> document.Figure:
    """Scores on training sample and validation, epoch by epoch.

    A line separates the phases; a ring is around the epoch that a phase ends
    with, and a thin line leads from it to the next phase.

    Args:
        name, caption: see `document.Figure`.
        panels: what the scores are, and the `Phase`s, by title.
    """
    figure, axes = figures.make_panels(len(panels))
    handles: figures.Handles = {}
    for axis, (title, (metric, phases)) in zip(axes, panels.items()):
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
        figures.use_whole_numbers(axis)
        axis.margins(y=0.12)
        figures.add_frame(axis, f"{metric}, points", "epochs", title, pad=16)
    return figures.finish(figure, handles, name, caption)


def _draw_phase(
    axis: Axes,
    epochs: Sequence[int],
    scores: dict[str, list[float]],
    previous: tuple[int, dict[str, float]] | None,
) -> figures.Handles:
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


def adaptations_against_time(
    name: str,
    caption: str,
    panels: Mapping[str, tuple[str, Sequence[tuple[str, str, Cell]]]],
) -> document.Figure:
    """Test score against training time, epoch by epoch, to the end.

    Adaptations have colours and heads markers, which are hollow where the
    prefix is cached.

    Args:
        name, caption: see `document.Figure`.
        panels: what the scores are, and (adaptation, head, cell) of each
            curve, by title.
    """
    figure, axes = figures.make_panels(len(panels), height=3.6)
    lines, marks = {}, {}
    markers: dict[str, str] = {}
    for axis, (title, (metric, curves)) in zip(axes, panels.items()):
        for adaptation, head, cell in curves:
            line_colour = ADAPTATION_COLOURS[adaptation]
            marker = markers.setdefault(
                head, HEAD_MARKERS[len(markers) % len(HEAD_MARKERS)]
            )
            _draw_course(axis, cell, line_colour, marker)
            mode = ", cached" if cell.cached else ""
            lines[adaptation + mode] = axis.plot(
                [], [], color=line_colour, linestyle="--" if mode else "-"
            )[0]
            marks[head] = axis.plot(
                [], [], color="#555555", marker=marker, linestyle="none"
            )[0]
        axis.set_xlim(left=0)
        xlabel = "training time, the whole prefix included, s"
        figures.add_frame(axis, f"{metric} on test, points", xlabel, title)
    return figures.finish(figure, {**lines, **marks}, name, caption)


def _draw_course(axis: Axes, cell: Cell, line_colour: str, marker: str) -> None:
    """A dot for each epoch, and a large mark at the end."""
    seconds, scores, _ = figures.learning_curve(cell)
    axis.plot(
        seconds,
        scores,
        color=line_colour,
        linewidth=1,
        alpha=0.55,
        marker=".",
        markersize=4,
        linestyle="--" if cell.cached else "-",
    )
    figures.draw_final(
        axis,
        cell,
        color=line_colour,
        marker=marker,
        markersize=7,
        capsize=2,
        markerfacecolor="white" if cell.cached else line_colour,
        linestyle="none",
    )
