"""How good a search is for its time: replayed from the records of a full grid.

    python -m benchmarks.search --runs=runs/search
    python -m benchmarks.search --baselines=runs/baselines
    python -m benchmarks.search --document=docs/search.md

The grids of experiments/search/ are run once, as ground truth, each by
tf_transfer.sweep with --out=runs/search. `--runs` puts their curves, and what
their approaches were to cost by counting operations, into records.json next to
them. `--baselines` fits the baselines of the recorded tasks again and puts
their scores into the file. Then budgets of a 20th, a 10th and a 4th of a grid's
time are replayed from there, with ten seeds each, by `search_contestants`.
Nothing is trained, since a rerun would only repeat the grid's numbers. Regret
is what the answer scores below the grid's best, both chosen on validation.
"""

import glob
import json
import os
import statistics
from collections.abc import Sequence

import matplotlib.ticker
import numpy as np
from absl import flags

from benchmarks import (
    documents,
    search_records,
    search_replay,
)
from benchmarks.search_contestants import CONTESTANTS
from benchmarks.search_replay import SHARES
from benchmarks.search_world import Record
from tf_transfer.config import command_line
from tf_transfer.reports import figures
from tf_transfer.reports.figures import Figure
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

FOLDER = "experiments/search"
GENERATED = ("records.json",)
MARK = "search"
RESAMPLES = 10_000
TICKS = (0.5, 1, 2, 5, 10, 20, 50)  # of regret


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string(
        "runs",
        "",
        "Collect the records of these runs first, where the data is.",
    )
    flags.DEFINE_string(
        "baselines",
        "",
        "Fit the recorded tasks' baselines again, below this folder, where the "
        "data is.",
    )
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")
    flags.DEFINE_string("out", FOLDER, "Where grids, records and figure are.")
    flags.DEFINE_string(
        "document", "", "Puts table and figure into this Markdown file."
    )
    flags.DEFINE_integer(
        "seeds", search_replay.SEEDS, "Replays of each budget.", 1
    )


def make_table(rows: Sequence[Record]) -> str:
    """Mean regret of each contestant, as Markdown.

    In brackets the worst seed's; of means over tasks their interval.
    """
    names = list(CONTESTANTS)
    heads = ["task", "budget", *names, "search took at most"]
    lines = [heads, ["---"] * len(heads)]
    for task, share in dict.fromkeys((r["task"], r["share"]) for r in rows):
        by_name = {
            row["contestant"]: row
            for row in rows
            if (row["task"], row["share"]) == (task, share)
        }
        ours = by_name["search"]
        regrets = [_mean_and_worst(by_name[n]["validation"]) for n in names]
        lines.append(
            [
                task,
                f"{share}, {ours['budget']:.0f} s",
                *regrets,
                f"{max(ours['used']):.0%}",
            ]
        )
    for kind in ("validation", "test"):
        for share in SHARES:
            means = [
                _mean_over_tasks(
                    [
                        statistics.fmean(row[kind])
                        for row in rows
                        if (row["share"], row["contestant"]) == (share, name)
                    ]
                )
                for name in names
            ]
            lines.append([f"**mean, {kind}**", share, *means, ""])
    return documents.as_markdown(lines)


def _mean_over_tasks(values: Sequence[float]) -> str:
    """The mean, and its 95 % interval over tasks drawn with replacement."""
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return f"{statistics.fmean(values):.2f} ({low:.2f} to {high:.2f})"


def _mean_and_worst(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f} ({max(values):.2f})"


def draw(rows: Sequence[Record]) -> Figure:
    """Regret against time, within the longest of the budgets, by task."""
    longest = list(SHARES)[-1]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, axes = figures.make_panels(len(tasks))
    handles: figures.Handles = {}
    for axis, task in zip(axes, tasks):
        for number, name in enumerate(CONTESTANTS):
            [row] = [
                row
                for row in rows
                if row["task"] == task
                and row["contestant"] == name
                and row["share"] == longest
            ]
            times = [
                100 * SHARES[longest] * part / search_replay.CURVE_POINTS
                for part in range(1, search_replay.CURVE_POINTS + 1)
            ]
            [handles[name]] = axis.plot(
                times, row["curve"], color=figures.PALETTE[number]
            )
        axis.set_yscale("symlog", linthresh=0.5, linscale=0.4)
        most = max(1.0, *axis.get_ylim())
        axis.set_yticks([0, *(t for t in TICKS if t <= most)], minor=False)
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axis.set_ylim(0, most)
        figures.add_frame(axis, "regret, points", "% of the grid's time", task)
    return figures.finish(
        figure,
        handles,
        "search_regret",
        "Regret on validation against time, the mean over the replays.",
    )


def main(argv: list[str]) -> None:
    """Collects where asked, replays, prints the table, draws the figure."""
    del argv
    values = flags.FLAGS
    path = os.path.join(values.out, "records.json")
    grids = sorted(
        name
        for name in glob.glob(os.path.join(values.out, "*.json"))
        if os.path.basename(name) not in GENERATED
    )
    records = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            records = json.load(file)
    if values.runs:
        new = search_records.collect(grids, values.runs, values.cache_dir)
        if not new:
            raise UserError(f"--runs={values.runs}: no task is finished there.")
        records |= new
        files.write_json(path, records)
    if values.baselines:
        search_records.refit_baselines(
            grids, values.baselines, values.cache_dir, records
        )
        files.write_json(path, records)
    if not records:
        raise UserError(
            f"{path}: no such file. Run the grids next to it, and give --runs."
        )
    rows = search_replay.replay(records, values.seeds)
    figure = draw(rows)
    image = os.path.join(values.out, f"{figure.name}.png")
    files.write_atomically(image, figure.render("png"))
    table = make_table(rows)
    print(table)
    if values.document:
        folder = os.path.dirname(values.document) or "."
        picture = f"![{figure.caption}]({os.path.relpath(image, folder)})"
        documents.fill(values.document, MARK, f"{table}\n\n{picture}")


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
