"""The answer of a search in words: ten lines on the screen, and a page.

The words are in `reports/templates/search.txt.jinja`, the page in
`search.html.jinja` next to it: one HTML file that needs no other.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tf_transfer.reports import (
    answer as reports,
    depth,
    error_tables,
    learning_curve,
    page as reports_page,
    plots,
    wording,
)
from tf_transfer.reports.errors import describe_confusions
from tf_transfer.reports.study import Figure, Table
from tf_transfer.searches import answer
from tf_transfer.searches.answer import Row
from tf_transfer.searches.history import Step
from tf_transfer.searches.planner import Planner
from tf_transfer.searches.space import Choice, EVERYTHING
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils import files, formatting

FILE = "search.html"
OBJECTIVES = {
    "score": "the cheapest",
    "seconds_at_prediction": "the fastest to predict",
    "parameters": "the fewest trained parameters",
}
COMMANDS = ("Train it again", "To predict")
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
    settings, history = search.settings, search.history
    profile = search.baselines[reports.PROBE].directory.profile()
    baselines = {
        name: scored
        for name, run in search.baselines.items()
        if (scored := reports.open_scored(run.directory.path, "validation"))
    }
    values = _describe_answer(search, rows, baselines)
    lines = write_lines(search, rows, profile, values)
    levels = {name: scored.score for name, scored in baselines.items()}
    text = (
        reports_page.make_environment(escapes=True)
        .get_template("search.html.jinja")
        .render(
            values,
            title=f"{settings.task_name}: what to train",
            lines=[x for x in lines if x.partition(":")[0] not in COMMANDS],
            progress=planner
            and draw_progress(planner, history.record.steps, levels),
            profile=depth.draw(
                {settings.task_name: profile} if profile else {}
            ),
            tables=[
                _list_approaches(planner, rows, values),
                _list_runs(planner),
            ]
            if rows
            else [],
            most_shown=reports_page.MOST_SHOWN,
        )
    )
    path = os.path.join(settings.out, FILE)
    os.makedirs(history.folder, exist_ok=True)
    files.write_atomically(path, text.encode())
    # A report reads the answer here.
    files.write_json(
        os.path.join(history.folder, "answer.json"), {"lines": lines}
    )
    print("\n" + "\n".join([*lines, f"The whole answer: {path}"]))


# === Lines ===


def write_lines(
    search: Any,
    rows: Sequence[Row],
    profile: dict[str, Any] | None,
    values: dict[str, Any],
) -> list[str]:
    """The answer, a sentence or more per line.

    Args:
        search: see `give`.
        rows: see `answer.rank_approaches`.
        profile: the depth profile of the probe, if there is one.
        values: see `_describe_answer`.
    """
    environment = reports_page.make_environment(escapes=False)
    environment.filters |= {
        "approach": describe_approach,
        "duration": _duration,
        "counted": wording.count,
    }
    text = environment.get_template("search.txt.jinja").render(
        values,
        search=search,
        planner=search.planner,
        settings=search.settings,
        rows=rows,
        profile=reports.describe_profile(profile) if profile else "",
        curve=_describe_curve(search),
        interval_of=reports.score_interval,
    )
    paragraphs = re.split(r"\n\s*\n", text)
    lines = [re.sub(r"\s*\n\s*", " ", p).strip() for p in paragraphs]
    return [line for line in lines if line]


def _describe_curve(search: Any) -> str:
    """The learning curve of the probe; "" without one."""
    runs = {**search.smaller_probes, search.training: search.probe}
    scored = {
        count: one
        for count, run in runs.items()
        if (one := reports.open_scored(run.directory.path, "validation"))
    }
    if len(scored) < 2 or search.training not in scored:
        return ""
    return learning_curve.describe(scored, "The probe's learning curve")


def _describe_answer(
    search: Any, rows: Sequence[Row], baselines: Mapping[str, reports.Scored]
) -> dict[str, Any]:
    """The values of the templates.

    Args:
        search: see `give`.
        rows: see `answer.rank_approaches`.
        baselines: those that are finished, on validation.
    """
    planner, refit = search.planner, search.refit
    if not rows:
        return {
            "shortage": planner and answer.least_budget(search),
            "baselines": {
                name: reports.open_scored(scored.path) or scored
                for name, scored in baselines.items()
            },
            "commands": {},
            "errors": [],
        }
    model = refit or rows[0].run
    recommended = ""
    if baselines and not planner.beats_floor(rows[0].setting):
        recommended = max(baselines, key=lambda name: baselines[name].score)
        model = search.baselines[recommended]
    scored = reports.open_scored(model.directory.path)
    assert scored is not None
    top = [
        one
        for row in rows[:2]
        if (one := reports.open_scored(row.run.directory.path, "validation"))
    ]
    best = planner.best_of_approaches()[0].choice
    others = {
        name: other
        for name, baseline in baselines.items()
        if (other := reports.open_scored(baseline.path, scored.kind))
    }
    everything = next((r for r in rows if is_everything(r.name)), None)
    total = sum(row.seconds for row in rows)
    share = everything.seconds / total if everything and total else 0.0
    errors = model.directory.errors()
    tested = {
        one.path: reports.format_score(one)
        for one in (scored, *others.values())
        if one.kind == "test"
    }
    if model is refit:  # in the table, the selected run stands for it
        tested[rows[0].run.directory.path] = tested.get(scored.path, "")
    epochs = None if recommended else scored.record["epochs_run"]
    commands = [command_of(model, epochs)]
    if not recommended or recommended == reports.PROBE:
        texts = ["--text=..."] * len(model.experiment.data.task.texts)
        words = ["-m", "tf_transfer.predict", f"--run={scored.path}", *texts]
        commands.append(shlex.join(["python", *words]))
    return {
        "scored": scored,
        "recommended": recommended,
        "baselines": baselines,
        "is_probe": recommended == reports.PROBE,
        "best": next(row for row in rows if row.setting.choice == best),
        "objective": OBJECTIVES[search.settings.objective],
        "leads": {
            name: answer.compare(scored, other)
            for name, other in others.items()
        },
        "tested": tested,
        "majority": reports.majority(scored),
        "everything": everything,
        "share": f" in {share:.0%} of the time" if share else "",
        "untrained": next(filter(is_everything, planner.space), None),
        "lead_over_next": answer.compare(*top) if len(top) == 2 else None,
        "next_action": next(
            iter(planner.explorations(search.settings.seconds)), None
        ),
        "tried": {choice.approach for choice in search.runs},
        "commands": dict(zip(COMMANDS, commands)),
        "confusions": describe_confusions(errors.get(scored.kind, {})),
        "errors": [*error_tables.tabulate(errors, "The answer")],
    }


def describe_approach(name: str) -> str:
    """An approach in words."""
    base, _, options = name.partition(", ")
    words = {
        EVERYTHING: "everything",
        "head": "the output layer alone",
        "last_0": "the head alone",
        "last_1": "the last block",
    }.get(base, f"the last {base.removeprefix('last_')} blocks")
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


def draw_progress(
    planner: Planner, steps: Sequence[Step], levels: Mapping[str, float]
) -> Figure | None:
    """Best score against time, a line per approach; None without runs.

    Args:
        planner: has the scores.
        steps: of the search.
        levels: scores of the baselines, which are horizontal lines.
    """
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
    end = points["seconds"].max()
    unit, name = (60.0, "minutes") if end > 180 else (1.0, "seconds")
    points["best"] = points.groupby("approach")["score"].cummax()
    curves = {
        describe_approach(approach): plots.Curve(
            [
                (plots.Ranged(seconds / unit), plots.Ranged(best))
                for seconds, best in zip(
                    [*line["seconds"], end], [*line["best"], line["best"].max()]
                )
            ],
            {
                "color": plots.colour_of(approach),
                "drawstyle": "steps-post",
                "linewidth": 1.6,
                "marker": ".",
                "markevery": slice(len(line)),
            },
        )
        for approach, line in points.groupby("approach", sort=False)
    }
    for (baseline, score), line_style in zip(levels.items(), ("--", ":")):
        curves[baseline] = plots.Curve(
            [(plots.Ranged(x), plots.Ranged(score)) for x in (0.0, end / unit)],
            {"color": plots.GREY, "linestyle": line_style, "marker": ""},
        )
    return plots.draw_panels(
        "progress",
        "The best score on validation so far, by approach, against the time "
        "of the search. A dot is a run, or more epochs of one.",
        [plots.Panel("", curves, "best on validation, points")],
        f"{name} of the search",
    )


def _list_approaches(
    planner: Planner, rows: Sequence[Row], values: Mapping[str, Any]
) -> Table:
    """The approaches and the baselines; the answer is the first row.

    Args:
        planner: has the costs.
        rows: see `answer.rank_approaches`.
        values: see `_describe_answer`.
    """
    lines = [
        {
            "trains": describe_approach(row.name),
            "validation": reports.show_score(row.score, row.interval),
            "test": values["tested"].get(row.run.directory.path),
            "seeds": len(row.setting.scores),
            "rate": row.rate,
            "epochs": row.setting.epochs,
            "schedule": _schedule(row.choice),
            "an epoch, s": round(planner.costs.epoch_seconds(row.name), 2),
            "of the search, s": round(row.seconds),
            "trained parameters": row.record["trainable_parameters"],
            "run": row.run.directory.path,
        }
        for row in rows
    ]
    lines += [
        {
            "trains": name,
            "validation": reports.show_score(
                run.score, reports.score_interval(run)
            ),
            "test": values["tested"].get(run.path),
            "run": run.path,
        }
        for name, run in values["baselines"].items()
    ]
    if values["majority"] is not None:
        majority = {values["scored"].kind: f"{values['majority']:.1f}"}
        lines.append({"trains": reports.MAJORITY, **majority})
    lines.sort(key=lambda line: line["trains"] != values["recommended"])
    return Table(
        "approaches",
        "The best setting of each approach, and the baselines; the answer is "
        "the first row. Scores in points; intervals of 95 %, over seeds where "
        "there are three, else over texts",
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
    return Table(
        "runs",
        "All runs, and their scores on validation",
        pd.DataFrame(lines),
    )


def _schedule(choice: Choice) -> str:
    return "falling" if choice.linear_epochs else "constant"
