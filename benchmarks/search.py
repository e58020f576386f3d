"""How good a search is for its time: replayed from the records of a full grid.

    python -m benchmarks.search --runs=runs/search
    python -m benchmarks.search

The grids of experiments/search/ are run once, as ground truth, each by
tf_transfer.sweep with --out=runs/search. `--runs` puts their curves, and what
their approaches were to cost by counting operations, into records.json beside
them. Then budgets of a 20th, a 10th and a 4th of a grid's time are replayed
from there, with ten seeds each, by the contestants of `search_replay`. Nothing
is trained, since a rerun would only repeat the grid's numbers. Regret is what
the answer scores below the grid's best, both chosen on validation.
"""

import glob
import json
import os
import statistics
from collections.abc import Sequence

from absl import app
from absl import flags

from benchmarks import search_records
from benchmarks import search_replay
from benchmarks.search_replay import Record
from benchmarks.search_replay import SHARES
from tf_transfer.config import command_line
from tf_transfer.reports import plots
from tf_transfer.reports.study import Figure
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

FOLDER = "experiments/search"
GENERATED = ("records.json",)


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string(
        "runs",
        "",
        "Collect the records of these runs first, where the data is.",
    )
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")
    flags.DEFINE_string("out", FOLDER, "Where grids, records and results are.")
    flags.DEFINE_integer(
        "seeds", search_replay.SEEDS, "Replays of each budget.", 1
    )


def make_table(rows: Sequence[Record]) -> str:
    """Mean regret of each contestant, as Markdown; in brackets the worst."""
    names = list(search_replay.CONTESTANTS)
    heads = ["task", "of the grid's time", "budget, s"]
    heads += [f"{name}: regret; on test" for name in names]
    heads += ["search: of its budget"]
    lines = [heads, ["---"] * len(heads)]
    for task, share in dict.fromkeys((r["task"], r["share"]) for r in rows):
        by_name = {
            row["contestant"]: row
            for row in rows
            if (row["task"], row["share"]) == (task, share)
        }
        ours = by_name["search"]
        lines.append(
            [task, share, f"{ours['budget']:.0f}"]
            + [
                f"{_mean_and_worst(by_name[n]['validation'])}; "
                f"{statistics.fmean(by_name[n]['test']):.2f}"
                for n in names
            ]
            + [f"{max(ours['used']):.0%} at most"]
        )
    for share in SHARES:
        means = [
            statistics.fmean(
                statistics.fmean(row["validation"])
                for row in rows
                if row["share"] == share and row["contestant"] == name
            )
            for name in names
        ]
        lines.append(
            ["**mean**", share, ""] + [f"**{m:.2f}**" for m in means] + [""]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mean_and_worst(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f} ({max(values):.2f})"


def draw(rows: Sequence[Record]) -> Figure:
    """Regret against time, within the longest of the budgets, by task."""
    longest = list(SHARES)[-1]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, axes = plots.make_panels(len(tasks))
    handles: plots.Handles = {}
    for axis, task in zip(axes, tasks):
        for number, name in enumerate(search_replay.CONTESTANTS):
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
                times, row["curve"], color=plots.PALETTE[number]
            )
        axis.set_yscale("symlog", linthresh=0.5)
        axis.set_ylim(bottom=0)
        plots.add_frame(axis, "regret, points", "% of the grid's time", task)
    return plots.finish(
        figure,
        handles,
        "search_regret",
        "Regret on validation against time, the mean over the replays.",
    )


def main(argv: list[str]) -> None:
    """Collects where asked, replays, and writes table and figure."""
    del argv
    values = flags.FLAGS
    path = os.path.join(values.out, "records.json")
    if values.runs:
        grids = sorted(
            name
            for name in glob.glob(os.path.join(values.out, "*.json"))
            if os.path.basename(name) not in GENERATED
        )
        records = search_records.collect(grids, values.runs, values.cache_dir)
        if not records:
            raise UserError(f"--runs={values.runs}: no task is finished there.")
        files.write_json(path, records)
    try:
        with open(path, encoding="utf-8") as file:
            records = json.load(file)
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file. Run the grids beside it, and give --runs."
        ) from None
    rows = search_replay.replay(records, values.seeds)
    figure = draw(rows)
    text = "\n\n".join(
        [
            "# A search against the whole grid",
            "Generated by `python -m benchmarks.search`, replayed from the "
            f"grid's records: {values.seeds} seeds a budget; mean regret in "
            "points of validation, in brackets the worst seed's, then that on "
            "test.",
            make_table(rows),
            f"![{figure.caption}]({figure.name}.png)\n",
        ]
    )
    files.write_atomically(
        os.path.join(values.out, "results.md"), text.encode()
    )
    image = os.path.join(values.out, f"{figure.name}.png")
    files.write_atomically(image, figure.render("png"))
    print(text)


if __name__ == "__main__":
    define_flags()
    app.run(lambda argv: command_line.guarded(lambda: main(argv)))
