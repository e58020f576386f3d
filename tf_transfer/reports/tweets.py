"""Tables and figures of "Task-Specific Training", from runs of `tweets`.

The paper tests sparse baselines in ten folds, and encoders ten times on one
held-out set. Baselines that were tested on that set (`--folds=0`) stand beside
the encoders. Any table of texts and labels may stand in place of the paper's.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import pandas as pd

from tf_transfer.reports import claims
from tf_transfer.reports import measures
from tf_transfer.reports import plots
from tf_transfer.reports import tables
from tf_transfer.reports import wording
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study

NAMES = {"fine_tuning": "unfrozen", "last_2": "last two blocks"}
F1 = {"f1": "F1", "f1_macro": "macro F1"}  # of two labels, and of many
PAPERS_F1 = "f1_hart"
MOST_BOXES = 8


def notes(study: Study) -> list[str]:
    """What to know of the times, of failed runs, and of the paper's F1."""
    said = tables.explain_tables(study)
    by_texts = study.runs.groupby(["task", "data_identity"])
    if study.paper and any(
        task in study.paper.sizes
        and not claims.unlike_sizes(members.sizes, study.paper.sizes[task])
        for (task, _), members in by_texts
    ):
        said.append(
            "The paper's F1 of its encoders is no F1 of one label, and two "
            "rows of its table 2 are exchanged: published figures stand beside "
            "the runs that they come from, the standard F1 of the same runs in "
            "brackets."
        )
    return said


# === Names ===


def name_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs, with what is trained as the paper calls it."""
    return runs.assign(
        approach=[
            _name(approach, settings)
            for approach, settings in zip(runs.approach, runs.settings)
        ]
    )


def _name(approach: str, settings: claims.Group) -> str:
    if approach.startswith("probe"):
        return "the probe (ours)"
    if "features" in settings:
        raw = settings["preprocessing"] == "none"
        return f"{approach} of raw words" if raw else approach
    is_frozen = settings.get("pooler") == "frozen"
    if approach == "last_0":
        return "frozen" if is_frozen else "pooler trained"
    loaded = settings.get("load_blocks", "all")
    blocks = "nothing" if loaded == "none" else f"blocks {loaded}"
    return (
        NAMES.get(approach, approach.replace("_", " "))
        + f", {blocks} loaded" * (loaded != "all")
        + ", pooler frozen" * is_frozen
    )


def _describe(group: pd.DataFrame, *words: str) -> str:
    """A group in words, without rate and examples: `unfrozen, cached`."""
    first = group.iloc[0]
    cache = tables.describe_cache(first.settings)
    return ", ".join(filter(None, [first.approach, cache, *words]))


def _name_rate(group: pd.DataFrame) -> str:
    return "" if group.baseline.iloc[0] else f"{group.lr.iloc[0]:g}"


# === Data sets ===


def _divide(study: Study) -> Iterator[tables.Part]:
    """Runs on held-out texts, then those in folds, by their texts.

    They are named so that files can be told apart. The most trained groups
    come first, baselines last.
    """
    runs = study.runs
    ordered = runs.assign(
        trained=-runs.trainable_parameters.where(~runs.baseline, 0),
        examples=runs.sizes.map(lambda sizes: -sizes.get("train", 0)),
    ).sort_values(
        ["baseline", "trained", "approach", "examples", "lr", "cached"]
    )
    in_folds = ordered.record.map(lambda r: bool(r["folds"])).astype(bool)
    for kind in (ordered[~in_folds], ordered[in_folds]):
        of_kind = [m for _, m in kind.groupby(["task", "data_identity"])]
        of_kind.sort(key=len, reverse=True)
        for number, members in enumerate(of_kind, 1):
            task, majority = members.task.iloc[0], members.majority.max()
            folds = members.record.iloc[0]["folds"]
            tested = members.sizes.iloc[0].get("test", 0)
            held_out = f"{tested:,} held-out texts"
            yield tables.Part(
                study,
                members,
                f"{study.name}_{task}" + f"_{number}" * (number > 1),
                {
                    "title": f"{task}, "
                    + (f"{len(folds)} folds" if folds else held_out),
                    "majority": wording.number(majority, 1) or "not known",
                    "in_folds": bool(folds),
                },
            )


def _divide_by_size(study: Study) -> Iterator[tables.Part]:
    """The encoders of each data set, by their number of training examples."""
    for part in PARTS["held_out"](study):
        encoders = part.runs[~part.runs.baseline]
        for size, runs in encoders.groupby(-encoders.examples, sort=True):
            words = {**part.words, "size": size}
            yield dataclasses.replace(part, runs=runs, words=words)


PARTS: dict[str, Callable[[Study], list[tables.Part]]] = {
    "folds": lambda s: [p for p in _divide(s) if p.words["in_folds"]],
    "held_out": lambda s: [p for p in _divide(s) if not p.words["in_folds"]],
    "sizes": lambda s: [*_divide_by_size(s)],
}


# === Tables ===


def _measure_accuracies(group: pd.DataFrame) -> list[float]:
    """Accuracies of a group's trials in points."""
    return wording.known(measures.measure_runs("accuracy", group))


def _measure_f1(
    part: tables.Part, group: pd.DataFrame
) -> dict[str, measures.Values]:
    """The F1 that all runs of a part have, of a label or macro, by title."""
    shared = [n for n in F1 if all(n in found for found in part.runs.metrics)]
    return {F1[n]: measures.measure_runs(n, group) for n in shared[:1]}


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
    best = baselines.groupby(-baselines.examples).score.max()
    for line in tables.list_groups(part):
        values: dict[str, object] = {"papers_f1": ""} if not published else {}
        if row := published.get(line.runs.group.iloc[0]):
            standard = f" ({row['f1']:.1f})" if "printed_as" in row else ""
            values["published_accuracy"] = f"{row['printed_accuracy']:.1f}"
            values["published_f1"] = f"{row['printed_f1']:.1f}{standard}"
        times = tables.seconds(line.runs)
        size = tables.count_examples(line.runs)
        if size in best and times and not line.runs.baseline.iloc[0]:
            gained = line.runs.score.mean() - best[size]
            price = wording.mean(times) / (2 * gained) if gained > 0 else 0
            values["price"] = f"{price:.1f}" if price else "never"
        yield dataclasses.replace(line, values=values)


def _pivot(
    part: tables.Part,
    index: Callable[[pd.DataFrame], float],
    column: Callable[[pd.DataFrame], str],
) -> pd.DataFrame:
    """Lists of accuracies by a group's index and column, in their order."""
    rows = [
        (index(line.runs), column(line.runs), _measure_accuracies(line.runs))
        for line in tables.list_groups(part)
    ]
    columns = list(dict.fromkeys(row[1] for row in rows))
    table = pd.DataFrame(rows, columns=["index", "column", "scores"])
    table = table.groupby(["index", "column"]).scores.sum()  # joins lists
    wide = table.unstack("column")[columns]
    return wide.map(lambda scores: scores if isinstance(scores, list) else [])


def _list_rates(part: tables.Part) -> list[tables.Line]:
    """Accuracies by rate and what trains, where these are a grid."""
    grid = _pivot(part, lambda group: group.lr.iloc[0], _describe)
    is_grid = ((grid.map(len) > 0).sum() > 1).sum() > 1
    return [
        tables.Line(part, values={"lr": lr, "scores": dict(scores)})
        for lr, scores in grid.iterrows()
        if is_grid
    ]


def _list_sizes(part: tables.Part) -> list[tables.Line]:
    """Accuracies by examples, of each rate and what trains with several."""
    curves = _pivot(
        part,
        tables.count_examples,
        lambda group: _describe(group, _name_rate(group)),
    )
    curves = curves.loc[:, (curves.map(len) > 0).sum() > 1]
    return [
        tables.Line(part, values={"examples": size, "scores": dict(scores)})
        for size, scores in curves.iterrows()
        if any(scores)
    ]


def _list_curves(part: tables.Part) -> list[tables.Line]:
    """Accuracies by the number of examples, of each rate and what trains."""
    lines = [line.values for line in _list_sizes(part)]
    return [
        tables.Line(
            part,
            values={
                "label": label,
                "curve": {
                    values["examples"]: values["scores"][label]
                    for values in lines
                    if values["scores"][label]
                },
            },
        )
        for label in (lines[0]["scores"] if lines else ())
    ]


def _show_extremes(line: tables.Line) -> str:
    scores = _measure_accuracies(line.runs)
    return f"{min(scores):.1f} to {max(scores):.1f}" if scores[1:] else ""


MEASURES: dict[str, tables.Measure] = {
    "trains": lambda line: _describe(
        line.runs, tables.describe_failure(line.runs)
    ),
    "lr": lambda line: _name_rate(line.runs),
    "f1": lambda line: _measure_f1(line.part, line.runs),
    "papers_f1": lambda line: measures.measure_runs(PAPERS_F1, line.runs),
    "extremes": _show_extremes,
    "price": lambda line: "",
    "published_accuracy": lambda line: "",
    "published_f1": lambda line: "",
}
ROWS = {
    "groups": _list_groups,
    "rates": _list_rates,
    "sizes": _list_sizes,
    "curves": _list_curves,
}


# === Figures ===


def figures(study: Study) -> list[Figure]:
    """Boxes of folds and of trials, the paper's figures."""
    pictures = []
    for part in _divide(study):
        title, in_folds = part.words["title"], part.words["in_folds"]
        over, number = ("folds", 1) if in_folds else ("trials", 2)
        if groups := _choose_boxes(part):
            pictures.append(
                _draw_boxes(
                    f"{over}_{part.name}",
                    f"{title}: accuracy and F1 over {over}, as in the paper's "
                    f"figure {number}" + ", but for its F1" * (not in_folds),
                    [
                        {"accuracy": _measure_accuracies(group)}
                        | _measure_f1(part, group)
                        for group in groups.values()
                    ],
                    [*groups],
                )
            )
    return pictures


def _choose_boxes(part: tables.Part) -> dict[str, pd.DataFrame]:
    """Groups of several values; of many groups, those at the paper's rate."""
    groups = [
        line.runs
        for line in tables.list_groups(part)
        if len(_measure_accuracies(line.runs)) > 1
        and not tables.describe_failure(line.runs)
    ]
    if len(groups) > MOST_BOXES:
        paper = part.study.paper
        rate = paper.settings["lr"] if paper else None
        largest = max(map(tables.count_examples, groups))
        groups = [g for g in groups if tables.count_examples(g) == largest]
        groups = [g for g in groups if g.lr.iloc[0] == rate] or groups
    labelled = {}
    for group in groups[:MOST_BOXES]:
        size = group.settings.iloc[0].get("max_train_examples")
        examples = f"{size:,} examples" if size else ""
        labelled[_describe(group, _name_rate(group), examples)] = group
    return labelled


def _draw_boxes(
    name: str,
    caption: str,
    boxes: Sequence[Mapping[str, measures.Values]],
    labels: Sequence[str],
) -> Figure:
    """Box plots: a panel for each metric, a box for each list of values."""
    figure, axes = plots.make_panels(
        len(boxes[0]), 1.2 + 0.45 * len(labels), has_names=True
    )
    for axis, metric in zip(axes, boxes[0]):
        axis.boxplot(
            [wording.known(box[metric]) for box in boxes],
            orientation="horizontal",
            tick_labels=labels if axis is axes[0] else [""] * len(labels),
            widths=0.55,
            medianprops={"color": plots.APPROACH_COLOURS["last_4"]},
        )
        axis.invert_yaxis()
        plots.add_frame(axis, "", f"{metric}, points")
    return plots.finish(figure, {}, name, caption)
