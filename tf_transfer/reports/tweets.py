"""Tables and figures of "Task-Specific Training", from runs of `tweets`.

The paper tests sparse baselines in ten folds, and encoders ten times on one
held-out set. Baselines that were tested on that set (`--folds=0`) stand beside
the encoders. Any table of texts and labels may stand in place of the paper's.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

import pandas as pd

from tf_transfer.reports import claims, measures, plots, tables, wording
from tf_transfer.reports.study import Figure, Study

NAMES = {"fine_tuning": "unfrozen", "last_2": "last two blocks"}
F1 = {"f1": "F1", "f1_macro": "macro F1"}  # of two labels, and of many
PAPERS_F1 = "f1_hart"
MOST_BOXES = 8


def notes(study: Study) -> list[str]:
    """What to know of the times, of failed runs, and of the paper's F1."""
    has_paper_texts = study.paper is not None and any(
        task in study.paper.sizes
        and not claims.list_size_differences(
            members.sizes, study.paper.sizes[task]
        )
        for (task, _), members in study.runs.groupby(["task", "data_identity"])
    )
    notes = {
        "The paper's F1 of its encoders is no F1 of one label, and two rows of "
        "its table 2 are exchanged: published figures stand beside the runs "
        "that they come from, the standard F1 of the same runs in "
        "brackets.": has_paper_texts,
    }
    return tables.explain_tables(study) + tables.select_notes(notes)


# === Names ===


def name_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs, with what is trained as the paper calls it."""
    return runs.assign(approach=[*map(_name, runs.approach, runs.settings)])


def _name(approach: str, settings: claims.Settings) -> str:
    is_frozen = settings.get("pooler") == "frozen"
    loaded = settings.get("load_blocks", "all")
    blocks = "nothing" if loaded == "none" else f"blocks {loaded}"
    if approach.startswith("probe"):
        return "the probe (ours)"
    if "features" in settings:
        return approach + " of raw words" * (
            settings["preprocessing"] == "none"
        )
    if approach == "last_0":
        return "frozen" if is_frozen else "pooler trained"
    return (
        NAMES.get(approach, approach.replace("_", " "))
        + f", {blocks} loaded" * (loaded != "all")
        + ", pooler frozen" * is_frozen
    )


# === Data sets ===


def _divide(study: Study) -> Iterator[tables.Part]:
    """Runs on held-out texts, then those in folds, by their texts.

    They are named after their texts, so that each file has its own name. The
    most trained groups come first, baselines last.
    """
    caches = map(tables.describe_cache, study.runs.settings)
    runs = study.runs.assign(
        label=[*map(tables.join, study.runs.approach, caches)],
        rate=study.runs.lr.map("{:g}".format).where(~study.runs.baseline, ""),
        trained=-study.runs.trainable_parameters.where(~study.runs.baseline, 0),
        examples=[-sizes.get("train", 0) for sizes in study.runs.sizes],
        in_folds=[bool(record["folds"]) for record in study.runs.record],
    ).sort_values(
        ["baseline", "trained", "approach", "examples", "lr", "cached"]
    )
    for in_folds, kind in runs.groupby("in_folds"):
        by_texts = [m for _, m in kind.groupby(["task", "data_identity"])]
        by_texts.sort(key=len, reverse=True)
        for number, members in enumerate(by_texts, 1):
            first, majority = members.iloc[0], members.majority.max()
            texts = (
                f"{len(first.record['folds'])} folds"
                if in_folds
                else f"{first.sizes.get('test', 0):,} held-out texts"
            )
            shared = [
                name
                for name in F1
                if all(name in metrics for metrics in members.metrics)
            ]
            yield tables.Part(
                study,
                members,
                f"{study.name}_{first.task}" + f"_{number}" * (number > 1),
                {
                    "title": f"{first.task}, {texts}",
                    "majority": wording.number(majority, 1) or "not known",
                    "in_folds": in_folds,
                    "metrics": {name: F1[name] for name in shared[:1]},
                },
            )


PARTS: dict[str, Callable[[Study], list[tables.Part]]] = {
    "folds": lambda s: [p for p in _divide(s) if p.words["in_folds"]],
    "held_out": lambda s: [p for p in _divide(s) if not p.words["in_folds"]],
    # The encoders of each data set, by their number of training examples.
    "sizes": lambda study: [
        dataclasses.replace(
            part, runs=runs, words={**part.words, "size": -size}
        )
        for part in PARTS["held_out"](study)
        for size, runs in part.runs[~part.runs.baseline].groupby("examples")
    ],
}


# === Tables ===


def _measure_accuracies(group: pd.DataFrame) -> list[float]:
    """Accuracies of a group's trials in points."""
    return wording.known(measures.measure_runs("accuracy", group))


def _list_groups(part: tables.Part) -> Iterator[tables.Line]:
    """Each group with its published row, and what half a point costs."""
    published = {
        group: row
        for row in part.study.published.get("rows", ())
        for group in tables.find_published(
            part.runs, part.study.paper, row["settings"]
        ).group
    }
    baselines = part.runs[part.runs.baseline]
    best = baselines.groupby("examples").score.max()
    for line in tables.list_groups(part):
        first = line.runs.iloc[0]
        values: dict[str, object] = {} if published else {"papers_f1": ""}
        if row := published.get(first.group):
            standard = f" ({row['f1']:.1f})" if "printed_as" in row else ""
            values["published_accuracy"] = f"{row['printed_accuracy']:.1f}"
            values["published_f1"] = f"{row['printed_f1']:.1f}{standard}"
        times = tables.seconds(line.runs)
        if first.examples in best and times and not first.baseline:
            gained = line.runs.score.mean() - best[first.examples]
            price = wording.mean(times) / (2 * gained) if gained > 0 else 0
            values["price"] = f"{price:.1f}" if price else "never"
        yield dataclasses.replace(line, values=values)


def _pivot(
    runs: pd.DataFrame, index: pd.Series, names: Iterable[str]
) -> pd.DataFrame:
    """Lists of accuracies by an index, which rises, and a name, as they come.

    Args:
        runs: see `_divide`.
        index, names: of each run.
    """
    columns = pd.Series([*names], runs.index)
    lists = runs.groupby([index, columns]).apply(_measure_accuracies)
    wide = lists.unstack()[columns.unique()]
    return wide.map(lambda scores: scores if isinstance(scores, list) else [])


def _list_rates(part: tables.Part) -> list[tables.Line]:
    """Accuracies by rate and what trains, where these are a grid."""
    grid = _pivot(part.runs, part.runs.lr, part.runs.label)
    is_grid = ((grid.map(len) > 0).sum() > 1).sum() > 1
    return [
        tables.Line(part, values={"lr": lr, "scores": dict(scores)})
        for lr, scores in grid.iterrows()
        if is_grid
    ]


def _find_sizes(part: tables.Part) -> pd.DataFrame:
    """Accuracies by examples, of each rate and what trains with several."""
    curves = _pivot(
        part.runs,
        -part.runs.examples,
        map(tables.join, part.runs.label, part.runs.rate),
    )
    return curves.loc[:, (curves.map(len) > 0).sum() > 1]


def _show_extremes(line: tables.Line) -> str:
    scores = _measure_accuracies(line.runs)
    return f"{min(scores):.1f} to {max(scores):.1f}" if scores[1:] else ""


MEASURES: dict[str, tables.Measure] = {
    "trains": lambda line: tables.join(
        line.runs.label.iloc[0], tables.describe_failure(line.runs)
    ),
    "lr": lambda line: line.runs.rate.iloc[0],
    "papers_f1": lambda line: measures.measure_runs(PAPERS_F1, line.runs),
    "extremes": _show_extremes,
    "price": lambda line: "",
    "published_accuracy": lambda line: "",
    "published_f1": lambda line: "",
}
ROWS = {
    "groups": _list_groups,
    "rates": _list_rates,
    "sizes": lambda part: [
        tables.Line(part, values={"examples": size, "scores": dict(scores)})
        for size, scores in _find_sizes(part).iterrows()
        if any(scores)
    ],
    "curves": lambda part: [
        tables.Line(
            part,
            values={"label": label, "curve": dict(scores[scores.map(bool)])},
        )
        for label, scores in _find_sizes(part).items()
    ],
}


# === Figures ===


def figures(study: Study) -> list[Figure]:
    """Boxes of folds and of trials, the paper's figures."""
    return [
        _draw_boxes(part, boxes)
        for part in _divide(study)
        if (boxes := _choose_boxes(part))
    ]


def _choose_boxes(part: tables.Part) -> dict[str, tables.Line]:
    """Groups of several values; of many groups, those at the paper's rate."""
    lines = [
        line
        for line in tables.list_groups(part)
        if len(_measure_accuracies(line.runs)) > 1
        and not tables.describe_failure(line.runs)
    ]
    if len(lines) > MOST_BOXES:
        rate = part.study.paper and part.study.paper.settings["lr"]
        fewest = min(line.runs.examples.iloc[0] for line in lines)  # negative
        lines = [x for x in lines if x.runs.examples.iloc[0] == fewest]
        lines = [x for x in lines if x.runs.lr.iloc[0] == rate] or lines
    return {
        tables.join(
            line.runs.label.iloc[0],
            line.runs.rate.iloc[0],
            f"{size:,} examples"
            if (size := line.settings.get("max_train_examples"))
            else "",
        ): line
        for line in lines[:MOST_BOXES]
    }


def _draw_boxes(part: tables.Part, boxes: Mapping[str, tables.Line]) -> Figure:
    """Box plots: a panel for each metric, a box for each group."""
    over, number = ("folds", 1) if part.words["in_folds"] else ("trials", 2)
    titles = {"accuracy": "accuracy", **part.words["metrics"]}
    figure, axes = plots.make_panels(len(titles), 1.2 + 0.45 * len(boxes))
    for axis, (metric, title) in zip(axes, titles.items()):
        axis.boxplot(
            [
                wording.known(measures.measure_runs(metric, line.runs))
                for line in boxes.values()
            ],
            orientation="horizontal",
            tick_labels=[*boxes] if axis is axes[0] else [""] * len(boxes),
            widths=0.55,
            medianprops={"color": plots.APPROACH_COLOURS["last_4"]},
        )
        axis.invert_yaxis()
        plots.add_frame(axis, "", f"{title}, points")
    return plots.finish(
        figure,
        {},
        f"{over}_{part.name}",
        f"{part.words['title']}: accuracy and F1 over {over}, as in the "
        f"paper's figure {number}" + ", but for its F1" * (number == 2),
    )
