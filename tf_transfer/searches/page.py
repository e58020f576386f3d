"""The answer of a search in words: ten lines on the screen, and a page.

The words are in `reports/templates/search.txt.jinja`, the page in
`search.html.jinja` next to it: one HTML file that needs no other.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    answer as reports,
    depth,
    page as reports_page,
    plots,
)
from tf_transfer.reports.study import Figure, Table
from tf_transfer.searches import answer
from tf_transfer.searches.answer import Row
from tf_transfer.searches.history import Step
from tf_transfer.searches.planner import Planner
from tf_transfer.searches.space import Choice, count_epochs, EVERYTHING
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils import files, formatting

FILE = "search.html"
OBJECTIVES = {
    "score": "the cheapest",
    "seconds_at_prediction": "the fastest to predict",
    "parameters": "the fewest trained parameters",
}
# Flags of a run that its command does without.
LEFT_OUT = (
    "--max_seconds=",
    "--max_epochs=",
    "--baseline=",
    "--score_test=",
    "--also_cache=",
)


def give(search: Any) -> None:
    """Prints the answer, and writes the page.

    Args:
        search: a `searches.search.Search` that is over for now.
    """
    rows, planner = answer.rank_approaches(search), search.planner
    task, history = search.settings.task_name, search.history
    profile = search.baselines[reports.PROBE].directory.profile()
    lines = write_lines(search, rows, profile)
    page = reports_page.make_environment(escapes=True).get_template(
        "search.html.jinja"
    )
    text = page.render(
        title=f"{task}: what to train",
        lines=lines,
        figures=[
            planner and draw_progress(planner, history.record.steps),
            depth.draw({task: profile} if profile else {}),
        ],
        tables=[_list_approaches(planner, rows), _list_runs(planner)]
        if planner
        else [],
        most_shown=reports_page.MOST_SHOWN,
    )
    path = os.path.join(search.settings.out, FILE)
    os.makedirs(history.folder, exist_ok=True)
    files.write_atomically(path, text.encode())
    # A report reads the answer here.
    files.write_json(
        os.path.join(history.folder, "answer.json"), {"lines": lines}
    )
    print("\n" + "\n".join([*lines, f"The whole answer: {path}"]))


# === Lines ===


def write_lines(
    search: Any, rows: Sequence[Row], profile: dict[str, Any] | None
) -> list[str]:
    """The answer, a sentence or more per line.

    Args:
        search: see `give`.
        rows: see `answer.rank_approaches`.
        profile: the depth profile of the probe, if there is one.
    """
    validated = {
        name: scored
        for name, run in search.baselines.items()
        if (scored := reports.open_scored(run.directory.path, "validation"))
    }
    if rows:
        values = _describe_answer(search, rows, validated)
    else:
        values = {
            "shortage": search.planner and answer.least_budget(search),
            "baselines": {
                name: reports.open_scored(scored.path) or scored
                for name, scored in validated.items()
            },
        }
    environment = reports_page.make_environment(escapes=False)
    environment.filters |= {
        "approach": describe_approach,
        "duration": _duration,
        "epochs": count_epochs,
    }
    text = environment.get_template("search.txt.jinja").render(
        values,
        search=search,
        planner=search.planner,
        settings=search.settings,
        rows=rows,
        profile=reports.describe_profile(profile) if profile else "",
        interval_of=reports.score_interval,
    )
    paragraphs = re.split(r"\n\s*\n", text)
    lines = [re.sub(r"\s*\n\s*", " ", p).strip() for p in paragraphs]
    return [line for line in lines if line]


def _describe_answer(
    search: Any, rows: Sequence[Row], validated: Mapping[str, reports.Scored]
) -> dict[str, Any]:
    """The values of the template for an answer, and for the other approaches.

    Args:
        search: see `give`.
        rows: see `answer.rank_approaches`; not empty.
        validated: the finished baselines, on validation.
    """
    planner, refit = search.planner, search.refit
    model = refit or rows[0].run
    epochs = (
        refit.settings.max_epochs if refit else rows[0].record["epochs_run"]
    )
    recommended = ""
    if validated and not planner.beats_floor(rows[0].setting):
        recommended = max(validated, key=lambda name: validated[name].score)
        model, epochs = search.baselines[recommended], None
    scored = reports.open_scored(model.directory.path)
    assert scored is not None
    top = [
        reports.open_scored(row.run.directory.path, "validation")
        for row in rows[:2]
    ]
    best = planner.best_of_approaches()[0].choice
    leads = {
        name: answer.compare(
            scored, reports.open_scored(baseline.path, scored.kind)
        )
        for name, baseline in validated.items()
    }
    everything = next((r for r in rows if is_everything(r.name)), None)
    total = sum(row.seconds for row in rows)
    share = everything.seconds / total if everything and total else 0.0
    return {
        "scored": scored,
        "recommended": recommended,
        "validated": validated.get(recommended),
        "is_probe": recommended == reports.PROBE,
        "best": next(row for row in rows if row.setting.choice == best),
        "objective": OBJECTIVES[search.settings.objective],
        "leads": {name: lead for name, lead in leads.items() if lead},
        "majority": reports.majority(scored),
        "everything": everything,
        "share": f" in {share:.0%} of the time" if share else "",
        "untrained": next(filter(is_everything, planner.space), None),
        "lead_over_next": answer.compare(*top) if len(top) == 2 else None,
        "next_action": next(
            iter(planner.explorations(search.settings.seconds)), None
        ),
        "tried": {choice.approach for choice in search.runs},
        "again": command_of(model, epochs),
        "texts": " ".join(
            ["--text=..."] * len(model.experiment.data.task.texts)
        ),
    }


def describe_approach(name: str) -> str:
    """An approach in words."""
    base, _, options = name.partition(", ")
    number = base.removeprefix("last_")
    words = {
        EVERYTHING: "everything",
        "head": "the output layer alone",
        "last_0": "the head alone",
        "last_1": "the last block",
    }.get(base, f"the last {number} blocks")
    return f"{words} ({options})" if options else words


def is_everything(name: str) -> bool:
    """Whether an approach trains every weight."""
    base, _, options = name.partition(", ")
    return base == EVERYTHING and not re.search("method=|keep_blocks=", options)


def command_of(run: Planned, epochs: int | None) -> str:
    """The command that trains a run, and finds it.

    Args:
        run: of the answer.
        epochs: that it has; None of a baseline.
    """
    words = [word for word in run.words if not word.startswith(LEFT_OUT)]
    if epochs is not None:
        words.append(f"--max_epochs={epochs}")
    return shlex.join(["python", "-m", run.experiment.command_module, *words])


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 180 else formatting.duration(seconds)


# === The page ===


def draw_progress(planner: Planner, steps: Sequence[Step]) -> Figure | None:
    """Best score against time, a line per approach; None without runs."""
    points = pd.DataFrame(
        [
            (step.choice.approach, step.ended, max(curve))
            for step in steps
            if (curve := planner.curves.get(step.choice, ())[: step.epochs])
        ],
        columns=["approach", "seconds", "score"],
    )
    if points.empty:
        return None
    figure, [axis] = plots.make_panels(1)
    end = points["seconds"].max()
    unit, name = (60.0, "minutes") if end > 180 else (1.0, "seconds")
    handles: plots.Handles = {}
    for approach, line in points.groupby("approach", sort=False):
        best = line["score"].cummax()
        [handles[approach]] = axis.step(
            np.divide([*line["seconds"], end], unit),
            [*best, best.iloc[-1]],
            where="post",
            color=plots.colour_of(approach),
            linewidth=1.6,
            marker=".",
            markevery=slice(len(line)),
        )
    plots.add_frame(axis, "best on validation, points", f"{name} of the search")
    return plots.finish(
        figure,
        handles,
        "progress",
        "The best score on validation so far, by approach, against the time "
        "of the whole search. A dot is a run, or more epochs of one.",
    )


def _list_approaches(planner: Planner, rows: Sequence[Row]) -> Table:
    lines = []
    for row in rows:
        setting, path = row.setting, row.run.directory.path
        scored = reports.open_scored(path)
        interval = ""
        if row.interval:
            low, high = row.interval
            interval = f" ({low:.1f} to {high:.1f} {row.basis})"
        seconds = planner.costs.epoch_seconds(row.name)
        lines.append(
            {
                "trains": describe_approach(row.name),
                "rate": row.rate,
                "epochs": setting.epochs,
                "schedule": _schedule(setting.choice),
                "seeds": len(setting.scores),
                "validation": f"{row.score:.2f}{interval}",
                "test": round(scored.score, 2)
                if scored is not None and scored.kind == "test"
                else None,
                "an epoch, s": round(seconds, 2),
                "of the search, s": round(row.seconds),
                "trained parameters": row.record["trainable_parameters"],
                "run": path,
            }
        )
    return Table(
        "approaches",
        "The best setting of each approach, the answer first. Scores in "
        "points; intervals of 95 %, over seeds where there are three, else "
        "over texts",
        pd.DataFrame(lines),
    )


def _list_runs(planner: Planner) -> Table:
    lines = [
        {
            "trains": describe_approach(choice.approach),
            "rate": f"{planner.rate_of(choice):g}",
            "schedule": _schedule(choice),
            "seed": choice.seed,
            "epochs": len(curve),
            "validation, by epoch": ", ".join(f"{s:.1f}" for s in curve),
        }
        for choice, curve in sorted(planner.curves.items())
    ]
    caption = "All runs, and their scores on validation"
    return Table("runs", caption, pd.DataFrame(lines))


def _schedule(choice: Choice) -> str:
    return "falling" if choice.linear_epochs else "constant"
