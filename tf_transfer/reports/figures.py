"""Figures of a report: the same colour for an approach everywhere.

The colours are Okabe and Ito's, told apart by all common kinds of sight.
"""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tf_transfer.reports import document
from tf_transfer.reports import studies

COLOURS = {
    "fine_tuning": "#000000",
    "last_1": "#E69F00",
    "last_2": "#56B4E9",
    "last_3": "#009E73",
    "last_4": "#D55E00",
    "last_0": "#CC79A7",
}
OTHERS = ("#0072B2", "#8C6D31", "#7F7F7F", "#5D3A9B", "#A6761D")
TURN_COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442")
MARKERS = {"fine_tuning": "o", "last_1": "s", "last_2": "^", "last_3": "D"}
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
MOST_MARKED = 100  # points of a line that markers do not hide
DPI = 130


def colour(way):
    """The colour of an approach, cached or live."""
    approach = way[0].split(",")[0]
    if approach in COLOURS:
        return COLOURS[approach]
    return OTHERS[sum(approach.encode()) % len(OTHERS)]


def _style(way):
    return {
        "color": colour(way),
        "linestyle": "--" if way[1] else "-",
        "marker": MARKERS.get(way[0], "v"),
        "markerfacecolor": "white" if way[1] else colour(way),
        "markersize": 5,
    }


def _panels(count, height=3.3):
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        squeeze=False,
        layout="constrained",
        figsize=(7.2 if columns == 1 else 10.5, height * rows + 0.6),
    )
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return figure, list(axes.flat[:count])


def _figure(datasets, name, caption, time, draw):
    """A `document.Figure` with a panel a data set.

    Args:
        time: label of the time axis.
        draw: function (axis, way, cell) that draws a cell and returns what
            its legend shows, or None; called for each way at its better rate.
    """
    figure, axes = _panels(len(datasets))
    handles = {}
    for axis, dataset in zip(axes, datasets):
        for way in dataset.ways():
            drawn = draw(axis, way, dataset.best(way))
            if drawn is not None:
                handles[studies.way_name(way)] = drawn
        axis.set_title(dataset.name, fontsize=11)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylabel(f"{dataset.metric} on test, points")
        axis.set_xlabel(time)
        axis.set_xlim(left=0)
    return _written(figure, handles, name, caption)


def _written(figure, handles, name, caption):
    if handles:
        entry = max(1.8, 0.7 + 0.075 * max(map(len, handles)))  # inches
        columns = max(1, int(figure.get_figwidth() // entry))
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(len(handles), columns),
            frameon=False,
        )
    pictures = {}
    for kind in ("png", "svg"):
        buffer = io.BytesIO()
        # Without a date, the same numbers give the same file.
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        with matplotlib.rc_context({"svg.hashsalt": name}):
            figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
        pictures[kind] = buffer.getvalue()
    plt.close(figure)
    return document.Figure(name, caption, **pictures)


def curve(cell):
    """(seconds, scores, deviations) after each epoch that all seeds ran."""
    epochs = min(len(record["epochs"]) for record in cell.timed)
    points = [cell.at_epoch(number) for number in range(1, epochs + 1)]
    return (
        [seconds.mean for _, seconds in points],
        [score.mean for score, _ in points],
        [score.deviation or 0.0 for score, _ in points],
    )


def score_against_time(study, datasets):
    """Wang's figures 3 to 6: a panel a task, a curve an approach, or None."""
    datasets = [d for d in datasets if any(c.timed for c in d.cells.values())]
    if not datasets:
        return None

    def draw(axis, way, cell):
        if not cell.timed or cell.score is None:
            return None
        seconds, scores, spread = curve(cell)
        [line] = axis.plot(seconds, scores, **_style(way))
        axis.fill_between(
            seconds,
            [s - d for s, d in zip(scores, spread)],
            [s + d for s, d in zip(scores, spread)],
            color=colour(way),
            alpha=0.15,
            linewidth=0,
        )
        return line

    return _figure(
        datasets,
        f"score_against_time_{study.name}",
        "Test score after each epoch against training time; bands are one "
        "standard deviation over seeds",
        "training time, s",
        draw,
    )


def fronts(study, datasets, on_front):
    """Final score against time to the stopping point, or None.

    Args:
        on_front: function from a data set to the cells on its front.
    """
    datasets = [d for d in datasets if on_front(d)]
    if not datasets:
        return None
    lined = set()

    def draw(axis, way, cell):
        if cell.seconds is None or cell.score is None:
            return None
        if axis not in lined:
            lined.add(axis)
            front = sorted(
                (other.seconds.mean, other.score.mean)
                for other in on_front(cell.dataset)
            )
            axis.step(
                *zip(*front),
                where="post",
                color="#888888",
                linewidth=1,
                zorder=0,
            )
        return axis.errorbar(
            cell.seconds.mean,
            cell.score.mean,
            xerr=cell.seconds.deviation,
            yerr=cell.score.deviation,
            capsize=3,
            elinewidth=1,
            **{**_style(way), "linestyle": "none"},
        )

    return _figure(
        datasets,
        f"pareto_{study.name}",
        "Test score against time to the stopping point; the line joins what "
        "nothing else beats in both; bars are one standard deviation",
        "time to the stopping point, s",
        draw,
    )


def relative_scores(study, curves):
    """Score less that of training everything, against frozen blocks, or None.

    Args:
        curves: dict from (name of a data set, mode: `live`, `cached` or
            `published`) to (frozen, score) pairs.
    """
    if not curves:
        return None
    figure, [axis] = _panels(1, height=3.8)
    palette = (*COLOURS.values(), *OTHERS)
    names = list(dict.fromkeys(name for name, _ in curves))
    lines = {"live": "-", "cached": "--", "published": ":"}
    handles = {}
    for (name, mode), points in curves.items():
        [line] = axis.plot(
            *zip(*sorted(points)),
            linestyle=lines[mode],
            marker="" if mode == "published" else "o",
            markersize=4,
            color=palette[names.index(name) % len(palette)],
        )
        handles[name + ("" if mode == "live" else f", {mode}")] = line
    axis.axhline(0, color="#888888", linewidth=1, zorder=0)
    axis.set_xlabel(f"frozen blocks of {study.blocks}")
    axis.set_ylabel("score less that of training all, points")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.xaxis.get_major_locator().set_params(integer=True)
    return _written(
        figure,
        handles,
        f"relative_scores_{study.name}",
        "Relative score against the number of frozen blocks, mean over trials",
    )


def boxes(name, caption, panels):
    """Box plots: a panel a metric, a box for each list of values.

    Args:
        panels: dict from a metric to a dict from a label to values.
    """
    labels = max((len(boxes) for boxes in panels.values()), default=1)
    figure, axes = _panels(len(panels), height=1.2 + 0.45 * labels)
    for axis, (metric, values) in zip(axes, panels.items()):
        axis.boxplot(
            list(values.values()),
            orientation="horizontal",
            tick_labels=list(values),
            widths=0.55,
            medianprops={"color": COLOURS["last_4"]},
        )
        axis.invert_yaxis()
        axis.set_xlabel(f"{metric}, points")
        axis.grid(alpha=0.25, axis="x")
        axis.spines[["top", "right"]].set_visible(False)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    return _written(figure, {}, name, caption)


def by_size(name, caption, curves):
    """Scores against the number of training examples, with deviations.

    Args:
        curves: dict from a label to a dict from a size to a
            `statistics.Mean`.
    """
    figure, [axis] = _panels(1, height=3.6)
    palette = (*COLOURS.values(), *OTHERS)
    handles = {}
    for number, (label, curve) in enumerate(curves.items()):
        sizes = sorted(curve)
        handles[label] = axis.errorbar(
            sizes,
            [curve[size].mean for size in sizes],
            yerr=[curve[size].deviation or 0.0 for size in sizes],
            capsize=3,
            elinewidth=1,
            marker="o",
            markersize=4,
            color=palette[number % len(palette)],
        )
    axis.set_xscale("log")
    axis.set_xlabel("training examples")
    axis.set_ylabel("test score, points")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    return _written(figure, handles, name, caption)


def heat_map(name, caption, rows, columns, unit):
    """Numbers on colours: blue above 0, red below.

    Args:
        rows: dict from a label to values, one a column; None is unknown.
        columns: labels.
        unit: what the colours stand for.
    """
    figure, axis = plt.subplots(
        layout="constrained",
        figsize=(2.2 + 1.5 * len(columns), 0.8 + 0.8 * len(rows)),
    )
    known = [abs(v) for row in rows.values() for v in row if v is not None]
    most = 1.25 * max(known, default=0.0) or 1.0  # the darkest look black
    numbers = [
        [float("nan") if value is None else value for value in row]
        for row in rows.values()
    ]
    picture = axis.imshow(
        numbers, cmap="RdBu", vmin=-most, vmax=most, aspect="auto"
    )
    for place, row in enumerate(rows.values()):
        for column, value in enumerate(row):
            if value is not None:
                axis.text(
                    column,
                    place,
                    f"{value:+z.2f}",
                    ha="center",
                    va="center",
                    color="white" if abs(value) > 0.55 * most else "black",
                )
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    figure.colorbar(picture, label=unit)
    return _written(figure, {}, name, caption)


def over_turns(name, caption, turns, scores):
    """Scores after each turn of an epoch, a panel each over one time axis.

    Args:
        turns: whose turn it was, one after the other.
        scores: dict from a label to the scores after each turn.
    """
    figure, axes = plt.subplots(
        len(scores),
        1,
        sharex=True,
        squeeze=False,
        layout="constrained",
        figsize=(9.0, 1.8 * len(scores) + 0.9),
    )
    an_epoch = len(set(turns))
    ends = [number / an_epoch for number in range(1, len(turns) + 1)]
    colours = dict(zip(sorted(set(turns)), TURN_COLOURS))
    handles = {}
    for axis, (label, values) in zip(axes[:, 0], scores.items()):
        for end, turn in zip(ends, turns):
            handles[f"turn of {turn}"] = axis.axvspan(
                end - 1 / an_epoch,
                end,
                color=colours[turn],
                alpha=0.3,
                linewidth=0,
            )
        axis.plot(
            ends,
            values,
            color="black",
            marker="o",
            clip_on=False,
            markersize=3.5 if len(turns) <= MOST_MARKED else 0,
        )
        axis.set_ylabel(f"{label},\npoints")
        axis.set_xlim(0, ends[-1])
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("epochs")
    axes[-1, 0].xaxis.get_major_locator().set_params(integer=True)
    return _written(figure, handles, name, caption)


# === Heads first, then everything ===


def over_phases(name, caption, panels):
    """Scores on training sample and validation, epoch by epoch.

    A line parts the phases; a ring is around the epoch that a phase ends with,
    and a thin line leads from it to the next phase.

    Args:
        panels: dict from a title to (what the scores are, phases): of each
            phase its name, its kept epoch, and for `training sample` and
            `validation` the scores after each of its epochs.
    """
    figure, axes = _panels(len(panels))
    handles = {}
    for axis, (title, (metric, phases)) in zip(axes, panels.items()):
        done, before = 0, None
        for number, (phase, kept, scores) in enumerate(phases, 1):
            is_last = number == len(phases)
            epochs = [done + n for n in range(1, len(scores["validation"]) + 1)]
            handles |= _draw_phase(axis, epochs, scores, before)
            before = (
                epochs[kept - 1],
                {s: scores[s][kept - 1] for s in SPLIT_STYLES},
            )
            handles["kept epoch"] = _ring(axis, *before)
            axis.text(
                done + 0.06 if is_last else epochs[-1] - 0.06,
                1.01,
                phase,
                transform=axis.get_xaxis_transform(),
                fontsize=8,
                va="bottom",
                ha="left" if is_last else "right",
                color="#555555",
            )
            done = epochs[-1]
            if not is_last:
                axis.axvline(done, color="#888888", linewidth=1, linestyle=":")
        axis.set_xlim(0, done + 0.3)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.margins(y=0.12)
        _finish(axis, title, f"{metric}, points", "epochs", pad=16)
    return _written(figure, handles, name, caption)


def _draw_phase(axis, epochs, scores, before):
    """Both curves of a phase, and how they come from the one before."""
    handles = {}
    for split, (colour, marker) in SPLIT_STYLES.items():
        [handles[split]] = axis.plot(
            epochs, scores[split], color=colour, marker=marker, markersize=5
        )
        if before:
            epoch, left = before
            axis.plot(
                [epoch, epochs[0]],
                [left[split], scores[split][0]],
                color=colour,
                linewidth=0.8,
                linestyle=(0, (2, 2)),
            )
    return handles


def _ring(axis, epoch, scores):
    return axis.plot(
        epoch,
        scores["validation"],
        marker="o",
        markersize=12,
        markerfacecolor="none",
        color="#009E73",
        linestyle="none",
    )[0]


def _finish(axis, title, what, over, pad=6):
    """Title, labels and what is around a panel."""
    axis.set_title(title, fontsize=11, pad=pad)
    axis.set_ylabel(what)
    axis.set_xlabel(over)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def courses(name, caption, panels):
    """Test score against training time, epoch by epoch, to the end.

    A colour an adaptation, a marker a head; hollow where the prefix is cached.

    Args:
        panels: dict from a title to (what the scores are, list of
            (adaptation, head, `studies.Cell`)).
    """
    figure, axes = _panels(len(panels), height=3.6)
    lines, marks, markers = {}, {}, {}
    for axis, (title, (metric, found)) in zip(axes, panels.items()):
        for adaptation, head, cell in found:
            colour = ADAPTATION_COLOURS[adaptation]
            marker = markers.setdefault(
                head, HEAD_MARKERS[len(markers) % len(HEAD_MARKERS)]
            )
            _draw_course(axis, cell, colour, marker)
            mode = ", cached" if cell.cached else ""
            lines[adaptation + mode] = axis.plot(
                [], [], color=colour, linestyle="--" if mode else "-"
            )[0]
            marks[head] = axis.plot(
                [], [], color="#555555", marker=marker, linestyle="none"
            )[0]
        axis.set_xlim(left=0)
        over = "training time, the whole prefix included, s"
        _finish(axis, title, f"{metric} on test, points", over)
    return _written(figure, {**lines, **marks}, name, caption)


def _draw_course(axis, cell, colour, marker):
    """A dot an epoch, and a large mark at the end."""
    seconds, scores, _ = curve(cell)
    axis.plot(
        seconds,
        scores,
        color=colour,
        linewidth=1,
        alpha=0.55,
        marker=".",
        markersize=4,
        linestyle="--" if cell.cached else "-",
    )
    axis.errorbar(
        cell.seconds.mean,
        cell.score.mean,
        xerr=cell.seconds.deviation,
        yerr=cell.score.deviation,
        color=colour,
        marker=marker,
        markersize=7,
        capsize=2,
        elinewidth=1,
        markerfacecolor="white" if cell.cached else colour,
        linestyle="none",
    )
