"""Tables and figures of "Finetune minBERT", from runs of `multitask`.

A row of the paper's is filled by the runs at exactly its settings, on its
encoder and data, and by no others; a table without such runs is not shown.
Everything that was run has a table of its own. For runs that train their tasks
in turn, what a pass over one task does to the scores of the others is shown,
too; see `measures.mean_change`.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from tf_transfer.reports import claims, frames, measures, plots, tables, wording
from tf_transfer.reports.study import Figure, Study

SCORES = {  # metrics, and what the tables call them
    "overall": "overall",
    "sentiment_accuracy": "SST",
    "paraphrase_accuracy": "Quora",
    "similarity_pearson": "STS r",
}
TRAINS = {
    "head": "output layers",
    "all": "everything",
    "head_then_all": "output layers, then everything",
}
READS = {
    "cls": "[CLS]",
    "cls_state": "[CLS] without the pooler",
    "mean": "mean",
    "cls_for_sentiment": "[CLS] for sentiment",
}
COMBINES = {
    "in_turn": "in turn",
    "sum": "sum of losses",
    "pcgrad": "PCGrad",
    "sampled": "sampled",
}
THIN = {"color": "#000000", "marker": "", "linewidth": 1}
ORDER = "paraphrase,similarity,sentiment"
# How the tasks are combined: of recipes that differ in these alone, one table.
COMBINATION = (
    "combine",
    "head_combine",
    "idle_heads",
    "loss_weights",
    "order",
    "alpha",
    "last_alpha",
)
USUAL = {
    "combine": "in_turn",
    "head_combine": "in_turn",
    "loss_weights": "",
    "order": ORDER,
}
METRICS = {  # of the paper's tasks
    "sentiment": "sentiment_accuracy",
    "paraphrase": "paraphrase_accuracy",
    "similarity": "similarity_pearson",
}
LABELS = dict(zip(METRICS, ("SST accuracy", "Quora accuracy", "STS r")))


# === Words for a recipe ===


def name_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs, with their recipe as approach; the rate is left out."""
    return runs.assign(approach=runs.settings.map(_kind))


def recipe(settings: claims.Settings) -> str:
    """All that tells a group from others: `everything; mean; lr 1e-05; ...`."""
    return tables.join(
        _kind(settings),
        _amount(settings),
        tables.describe_cache(settings),
        mark="; ",
    )


def _kind(settings: claims.Settings) -> str:
    """What trains, and how: `everything; mean; decay 0.95`."""
    pairs, decay = settings["pairs"], settings["layer_decay"]
    in_turn = settings["combine"] == "in_turn"
    is_usual = in_turn and not settings["loss_weights"]
    return tables.join(
        TRAINS.get(settings["train"], str(settings["train"])),
        READS.get(settings["pooling"], str(settings["pooling"])),
        f"pairs {pairs}" * (pairs != "sbert"),
        f"decay {decay:g}" * (decay != 1),
        _combination(settings) * (not is_usual),
        "idle heads still" * (in_turn and settings["idle_heads"] == "still"),
        mark="; ",
    )


def _combination(settings: claims.Settings) -> str:
    """How the tasks' losses are combined."""
    combine, before = (
        COMBINES.get(settings[name], str(settings[name]))
        for name in ("combine", "head_combine")
    )
    first, last = (
        claims.plain(settings.get(name)) for name in ("alpha", "last_alpha")
    )
    sizes = f" by size^{first}" + f" to size^{last}" * (last != first)
    heads = (
        " in both phases" if before == combine else f", output layers {before}"
    )
    is_apart = settings["head_combine"] != "in_turn"
    return (
        combine
        + sizes * (first is not None)
        + f", weights {settings['loss_weights']}"
        * bool(settings["loss_weights"])
        + heads * (is_apart and settings["train"] == "head_then_all")
    )


def _order(settings: claims.Settings) -> str:
    """The order of the tasks, where it is not the usual one."""
    order = settings["order"]
    return f"order {order.replace(',', ', ')}" * (order != ORDER)


def _amount(settings: claims.Settings) -> str:
    """At what rate and for how long: `lr 1e-05 after 0.001; 20 epochs`."""
    has_two = settings["train"] == "head_then_all"
    epochs, before = settings["max_epochs"], settings.get("head_epochs")
    return tables.join(
        f"lr {settings['lr']:g}"
        + f" after {claims.plain(settings.get('head_lr'))}" * has_two,
        wording.count(epochs, "epoch")
        + f" after {before}" * (has_two and before != epochs),
        _order(settings),
        mark="; ",
    )


# === Rows of tables ===


def _divide(study: Study) -> Iterator[tables.Part]:
    """Runs by their files, the best group first."""
    for number, (_, runs) in enumerate(
        study.runs.groupby("data_identity", sort=False), 1
    ):
        means = runs.groupby("group").score.transform("mean")
        ordered = runs.assign(mean=-means).sort_values(
            ["mean", "group", "seed"], kind="stable"
        )
        own = {
            name: name.replace("_", " ")
            for name in ("overall", *ordered.record.iloc[0]["metrics"])
        }
        is_papers = ordered.task.iloc[0] == "cs224n"
        yield tables.Part(
            study,
            ordered,
            study.name + f"_{number}" * (number > 1),
            {"metrics": SCORES if is_papers else own},
        )


def _divide_by_table(study: Study) -> list[tables.Part]:
    """All runs on the same files for each of the paper's tables."""
    return [
        dataclasses.replace(part, words=table)
        for part in _divide(study)
        for table in study.published.get("tables", ())
    ]


def _divide_by_recipe(study: Study) -> Iterator[tables.Part]:
    """Runs that differ in how the tasks are combined, where any do."""
    for part in _divide(study):
        rest = part.runs.settings.map(
            lambda s: frames.dump(
                {n: v for n, v in s.items() if n not in COMBINATION}
            )
        )
        several = part.runs.groupby(rest).group.transform("nunique") > 1
        alike = part.runs[several].groupby(rest, sort=False)
        for number, (_, runs) in enumerate(alike, 1):
            first = _list_combinations(dataclasses.replace(part, runs=runs))[0]
            yield tables.Part(
                study,
                runs,
                f"{part.name}_{number}",
                {
                    **part.words,
                    "recipe": recipe({**first.settings, **USUAL}),
                },
            )


def _list_published(part: tables.Part) -> list[tables.Line]:
    """The rows of the paper's table, ours beside its figures, if any is run."""
    rows = [
        (
            row,
            tables.find_published(part.runs, part.study.paper, row["settings"]),
        )
        for row in part.words["rows"]
    ]
    return [
        tables.Line(
            part,
            values={
                "name": row["name"],
                "runs": len(ours) or "",
                "figures": {
                    name: value
                    for (metric, title), figure in zip(
                        SCORES.items(), row["figures"]
                    )
                    for name, value in (
                        (
                            title,
                            wording.spread(measures.measure_runs(metric, ours)),
                        ),
                        (f"{title}, paper", round(100 * figure, 1)),
                    )
                },
            },
        )
        for row, ours in rows
        if any(len(ours) for _, ours in rows)
    ]


def _list_combinations(part: tables.Part) -> list[tables.Line]:
    """Recipes in the order of `COMBINES`, each against the first."""
    names = [*COMBINES]
    first, *others = sorted(
        tables.list_groups(part),
        key=lambda line: (
            [*names, line.settings["combine"]].index(line.settings["combine"]),
            line.settings["order"] != ORDER,
            line.settings["loss_weights"],
        ),
    )
    return [
        first,
        *(
            dataclasses.replace(line, values={"first": first.runs.score})
            for line in others
        ),
    ]


def _measure_changes(
    group: pd.DataFrame, trained: str
) -> dict[str, list[float]]:
    """Mean changes of each task's score in passes over one, of each run."""
    return {
        LABELS[task]: wording.known(
            measures.measure_runs(f"{measures.PASS}{trained}:{metric}", group)
        )
        for task, metric in METRICS.items()
    }


def _list_passes(part: tables.Part) -> list[tables.Line]:
    """A line for each group on the paper's tasks and each task passed over."""
    ours = part.runs[part.runs.task == "cs224n"]
    return [
        dataclasses.replace(line, values={"pass": trained, "changes": changes})
        for line in tables.list_groups(dataclasses.replace(part, runs=ours))
        for trained in METRICS
        if (changes := _measure_changes(line.runs, trained))[LABELS[trained]]
    ]


def _choose_passes(study: Study) -> Iterator[tables.Part]:
    """On the same files, the group with passes that has most runs.

    Of several, the one with the fewest passes.
    """
    for part in _divide(study):
        runs = max(
            (line.runs for line in _list_passes(part)),
            key=lambda runs: (len(runs), -len(runs.record.iloc[0]["passes"])),
            default=None,
        )
        if runs is not None:
            first = runs.sort_values("seed").iloc[0]
            yield tables.Part(
                study,
                runs,
                part.name,
                {
                    "data": part.name,
                    "recipe": recipe(first.settings),
                    "seed": first.seed,
                    "passes": first.record["passes"],
                },
            )


def _divide_by_task(study: Study) -> list[tables.Part]:
    """A panel for each task's score after every pass of the first seed."""
    return [
        dataclasses.replace(
            part, name=LABELS[task], words={**part.words, "task": task}
        )
        for part in _choose_passes(study)
        for task in METRICS
    ]


def _list_scores(part: tables.Part) -> list[tables.Line]:
    """The scores after passes over each task, and a line that joins all."""
    passes = part.words["passes"]
    metric = METRICS[part.words["task"]]
    per_epoch = len({line["task"] for line in passes})
    scores = [
        (line["task"], number / per_epoch, 100 * line["validation"][metric])
        for number, line in enumerate(passes, 1)
    ]
    return [
        tables.Line(
            part,
            values={
                "pass": f"pass over {task}" if task else "_all",
                "curve": {
                    x: y for trained, x, y in scores if task in ("", trained)
                },
                "style": {"linestyle": "none"} if task else THIN,
            },
        )
        for task in ("", *METRICS)
    ]


def _time_last_phase(line: tables.Line) -> list[float]:
    """Seconds of an epoch of the last, expensive phase."""
    phases = line.runs.record[line.runs.timed].str["phases"]
    return [p[-1]["seconds"] / p[-1]["epochs"] for p in phases if p]


MEASURES: dict[str, tables.Measure] = {
    "name_or_failure": lambda line: tables.join(
        _kind(line.settings),
        tables.describe_cache(line.settings),
        tables.describe_failure(line.runs),
        mark="; ",
    ),
    "amount": lambda line: _amount(line.settings),
    "recipe": lambda line: recipe(line.settings),
    "against_first": lambda line: wording.difference(
        line.runs.score, line.values.get("first", ())
    ),
    "last_phase": _time_last_phase,
    "combination": lambda line: tables.join(
        _combination(line.settings), _order(line.settings)
    ),
    # Of a warm worker's runs, that of the first is known.
    "gigabytes": lambda line: line.runs.memory.max() / 1e9,
}
ROWS = {
    "published": _list_published,
    "combinations": _list_combinations,
    "passes": _list_passes,
    "passes_of_a_run": _list_scores,
}
PARTS = {
    "data": _divide,
    "published": _divide_by_table,
    "combinations": _divide_by_recipe,
    "passes": _divide_by_task,
}


def notes(study: Study) -> list[str]:
    """What to know of the tables and of the times."""
    shown = [*map(_list_published, _divide_by_table(study))]
    notes = {
        "No runs here have the settings, the data and the encoder of a row of "
        "the paper's: its tables are not shown.": bool(study.published)
        and not any(shown),
    }
    return tables.explain_tables(study) + tables.select_notes(notes)


# === Figures ===


def figures(study: Study) -> list[Figure]:
    """What a pass over one task does to the others, as a heat map."""
    return [_draw_heat_map(part) for part in _choose_passes(study)]


def _draw_heat_map(part: tables.Part) -> Figure:
    """Numbers on colours: blue above 0, red below."""
    numbers = np.array(
        [
            [*map(wording.mean, _measure_changes(part.runs, trained).values())]
            for trained in METRICS
        ]
    )
    figure, [axis] = plots.make_panels(1)
    size = len(METRICS)
    figure.set_size_inches(2.2 + 1.5 * size, 0.8 + 0.8 * size)
    most = 1.25 * np.nanmax(np.abs(numbers)) or 1.0  # the darkest look black
    picture = axis.imshow(
        numbers, cmap="RdBu", vmin=-most, vmax=most, aspect="auto"
    )
    for (y, x), value in np.ndenumerate(numbers):
        axis.text(
            x,
            y,
            wording.number(value, 2, "+"),
            ha="center",
            va="center",
            color="white" if abs(value) > 0.55 * most else "black",
        )
    axis.set_xticks(range(size), list(LABELS.values()))
    axis.set_yticks(range(size), [f"a pass over\n{task}" for task in METRICS])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    figure.colorbar(picture, label="change, points")
    return plots.finish(
        figure,
        {},
        f"forgetting_{part.name}",
        "Change of each task's score on dev during a pass over one task, mean "
        f"in points: {part.words['recipe']}",
    )
