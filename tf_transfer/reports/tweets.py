"""Tables and figures of "Task-Specific Training", from runs of `tweets`.

The paper tests sparse baselines in ten folds, and encoders ten times on one
held-out set. Baselines that were tested on that set (`--folds=0`) stand beside
the encoders. Any table of texts and labels may stand in place of the paper's.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from tf_transfer.reports import cells
from tf_transfer.reports import claims
from tf_transfer.reports import tweets_figures
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table

NAMES = {"fine_tuning": "unfrozen", "last_2": "last two blocks"}
F1 = {"f1": "F1", "f1_macro": "macro F1"}  # of two labels, and of many
PAPERS_F1 = "f1_hart"
MOST_BOXES = 8


def tables(study: Study) -> list[Table]:
    """Encoders and baselines on held-out texts; in folds; rates; sizes."""
    found: list[Table] = []
    for name, runs in _data_sets(study):
        if _in_folds(runs).all():
            found.append(_tabulate_folds(study, name, runs))
            continue
        found.append(_tabulate_held_out(study, name, runs))
        found += _tabulate_rates(name, runs)
        curves = _curves(runs)
        if len(curves):
            cells_of = curves.map(cells.spread, na_action="ignore").fillna("")
            cells_of.index = cells_of.index.map("{:,}".format)
            found.append(
                Table(
                    f"sizes_{name}",
                    f"{_title(runs)}: test accuracy in points by the number of "
                    "training examples, mean and deviation over trials",
                    cells_of.reset_index(names="examples"),
                )
            )
    return found


def figures(study: Study) -> list[Figure]:
    """Boxes of folds and of trials (the paper's figures), and sizes."""
    pictures = []
    for name, runs in _data_sets(study):
        in_folds = _in_folds(runs).all()
        boxes = _boxes(study, runs)
        if boxes:
            over = "folds" if in_folds else "trials"
            number = 1 if in_folds else 2
            pictures.append(
                tweets_figures.box_plots(
                    f"{over}_{name}",
                    f"{_title(runs)}: accuracy and F1 over {over}, as in the "
                    f"paper's figure {number}"
                    + ("" if in_folds else ", but for its F1"),
                    boxes,
                )
            )
        curves = _curves(runs)
        if len(curves) and not in_folds:
            pictures.append(
                tweets_figures.scores_by_size(
                    f"sizes_{name}",
                    f"{_title(runs)}: test accuracy by the number of training "
                    "examples",
                    curves,
                )
            )
    return pictures


def notes(study: Study) -> list[str]:
    """What to know of the times, of failed runs, and of the paper's F1."""
    said = cells.explain_times(study.runs)
    groups = list(cells.groups_of(study.runs))
    if any(cells.failed(group) for group in groups):
        said.append(cells.DID_NOT_TRAIN)
    if study.paper and cells.is_the_papers(study.runs, study.paper):
        said.append(
            "The paper's F1 of its encoders is no F1 of one label, and two "
            "rows of its table 2 are exchanged: published figures stand beside "
            "the runs that they come from, the standard F1 of the same runs in "
            "brackets."
        )
    return said


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
    name = NAMES.get(approach, approach.replace("_", " "))
    loaded = settings.get("load_blocks", "all")
    if loaded == "none":
        name += ", nothing loaded"
    elif loaded != "all":
        name += f", blocks {loaded} loaded"
    return name + (", pooler frozen" if is_frozen else "")


def _in_folds(runs: pd.DataFrame) -> pd.Series:
    return runs.record.map(lambda record: bool(record["folds"])).astype(bool)


def _data_sets(study: Study) -> Iterator[tuple[str, pd.DataFrame]]:
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
    folded = _in_folds(ordered)
    for kind in (ordered[~folded], ordered[folded]):
        of_kind = [m for _, m in kind.groupby(["task", "data_identity"])]
        of_kind.sort(key=len, reverse=True)
        for number, members in enumerate(of_kind, 1):
            name = f"{study.name}_{members.task.iloc[0]}"
            yield name + (f"_{number}" if number > 1 else ""), members


def _title(runs: pd.DataFrame) -> str:
    """The task and how its texts are tested."""
    tested = runs.sizes.iloc[0].get("test", 0)
    task = runs.task.iloc[0]
    if _in_folds(runs).all():
        folds = len(runs.record.iloc[0]["folds"])
        return f"{task}, {folds} folds"
    return f"{task}, {tested:,} held-out texts"


def _trains(group: pd.DataFrame) -> str:
    """A group in words, without rate and examples: `unfrozen, cached`."""
    first = group.iloc[0]
    settings = first.settings
    words = [first.approach, cells.caching(settings), cells.failed(group)]
    return ", ".join(filter(None, words))


def _f1_of(runs: pd.DataFrame) -> str | None:
    """The F1 that all runs have: of the second label, or macro."""
    return next(
        (name for name in F1 if all(name in found for found in runs.metrics)),
        None,
    )


def _published_rows(
    study: Study, runs: pd.DataFrame
) -> dict[int, dict[str, Any]]:
    """The published row of each group that has one, by the group's number."""
    found = {}
    for row in study.published.get("rows", ()):
        for group in cells.find_row(runs, study.paper, row["settings"]).group:
            found[group] = row
    return found


def _show_published(row: dict[str, Any] | None) -> dict[str, str]:
    if row is None:
        return {"published accuracy": "", "published F1": ""}
    f1 = f"{row['printed_f1']:.1f}"
    if "printed_as" in row:
        f1 += f" ({row['f1']:.1f})"
    return {
        "published accuracy": f"{row['printed_accuracy']:.1f}",
        "published F1": f1,
    }


def _tabulate_folds(study: Study, name: str, runs: pd.DataFrame) -> Table:
    """Table 1: sparse features, over folds."""
    f1, published = _f1_of(runs), _published_rows(study, runs)
    rows = []
    for number, group in runs.groupby("group", sort=False):
        row = {
            "features": _trains(group),
            "examples": f"{cells.examples(group):,}",
            "accuracy": cells.spread(cells.metric(group, "accuracy")),
        }
        if f1:
            row[F1[f1]] = cells.spread(cells.metric(group, f1))
        row["time, s"] = cells.spread(cells.seconds(group), 1)
        if published:
            row |= _show_published(published.get(int(str(number))))
        rows.append(row)
    return Table(
        f"folds_{name}",
        f"{_title(runs)}: logistic regression, in points, mean and deviation "
        "over folds",
        cells.drop_constant(pd.DataFrame(rows), ["examples"]),
    )


def _tabulate_held_out(study: Study, name: str, runs: pd.DataFrame) -> Table:
    """Table 2: every encoder, and baselines tested on the same texts."""
    f1, published = _f1_of(runs), _published_rows(study, runs)
    best = _best_baselines(runs)
    rows = []
    for number, group in runs.groupby("group", sort=False):
        first, scores = group.iloc[0], known_scores(group)
        size = cells.examples(group)
        row = {
            "trains": _trains(group),
            "lr": "" if first.baseline else f"{first.lr:g}",
            "examples": f"{size:,}",
            "n": len(group),
            "accuracy": cells.spread(scores),
        }
        if f1:
            row[F1[f1]] = cells.spread(cells.metric(group, f1))
        if published:
            row["the paper's F1"] = cells.spread(cells.metric(group, PAPERS_F1))
        row["lowest to highest"] = (
            f"{min(scores):.1f} to {max(scores):.1f}" if len(scores) > 1 else ""
        )
        row["time, s"] = cells.spread(cells.seconds(group), 1)
        row["s for half a point"] = (
            "" if first.baseline else _price(group, best.get(size))
        )
        row["trained parameters"] = f"{int(first.trainable_parameters):,}"
        if published:
            row |= _show_published(published.get(int(str(number))))
        rows.append(row)
    majority = runs.majority.max()
    caption = (
        f"{_title(runs)}: scores in points, mean and deviation over n trials; "
        "the commonest label's accuracy is "
        f"{'not known' if pd.isna(majority) else f'{majority:.1f}'}"
    )
    if best:
        caption += (
            ". `s for half a point`: of accuracy, over the best baseline that "
            "was trained and tested on the same texts"
        )
    if published:
        caption += ". Published F1: the paper's, and the standard one"
    table = cells.drop_constant(pd.DataFrame(rows), ["examples"])
    if not best:
        table = table.drop(columns="s for half a point")
    return Table(f"held_out_{name}", caption, table)


def known_scores(group: pd.DataFrame) -> list[float]:
    """Accuracies of a group's trials in points."""
    return cells.known(cells.metric(group, "accuracy"))


def _best_baselines(runs: pd.DataFrame) -> dict[int, float]:
    """The best baseline's accuracy, by the number of training examples."""
    baselines = runs[runs.baseline]
    sizes = baselines.sizes.map(lambda sizes: sizes.get("train", 0))
    return {int(n): v for n, v in baselines.groupby(sizes).score.max().items()}


def _price(group: pd.DataFrame, best: float | None) -> str:
    """Seconds for each half point of accuracy above a baseline's."""
    times = cells.seconds(group)
    if best is None or not times:
        return ""
    gained = group.score.mean() - best
    mean = sum(times) / len(times)
    return f"{mean / (2 * gained):.1f}" if gained > 0 else "never"


def _tabulate_rates(name: str, runs: pd.DataFrame) -> list[Table]:
    """Accuracy by rate and what trains, for each number of examples."""
    encoders = runs[~runs.baseline]
    sizes = encoders.sizes.map(lambda sizes: sizes.get("train", 0))
    found = []
    for size, members in encoders.groupby(sizes):
        grid = _pivot(members, lambda group: group.lr.iloc[0], _trains_only)
        if ((~grid.isna()).sum() > 1).sum() < 2:
            continue  # no grid
        grid = grid.map(cells.spread, na_action="ignore").fillna("")
        grid.index = grid.index.map("{:g}".format)
        found.append(
            Table(
                f"rates_{size}_{name}",
                f"{_title(runs)}: test accuracy in points by learning rate and "
                f"what trains, on {size:,} examples, mean and deviation over "
                "trials",
                grid.reset_index(names="lr"),
            )
        )
    return found


def _trains_only(group: pd.DataFrame) -> str:
    """`_trains`, whether it did train or not."""
    first = group.iloc[0]
    words = [first.approach, cells.caching(first.settings)]
    return ", ".join(filter(None, words))


def _curves(runs: pd.DataFrame) -> pd.DataFrame:
    """Scores by examples (rows) and what trains (columns), as lists."""

    def label(group: pd.DataFrame) -> str:
        first = group.iloc[0]
        if first.baseline:
            return first.approach
        return f"{_trains_only(group)}, {first.lr:g}"

    curves = _pivot(runs, cells.examples, label)
    curves = curves.loc[:, (~curves.isna()).sum() > 1]
    return curves.dropna(how="all") if len(curves.columns) else curves.iloc[:0]


def _pivot(runs: pd.DataFrame, index: Any, column: Any) -> pd.DataFrame:
    """Lists of accuracies by a group's index and column, in their order."""
    rows = [
        (index(group), column(group), known_scores(group))
        for group in cells.groups_of(runs)
    ]
    columns = list(dict.fromkeys(row[1] for row in rows))
    table = pd.DataFrame(rows, columns=["index", "column", "scores"])
    table = table.groupby(["index", "column"]).scores.sum()  # joins lists
    return table.unstack("column")[columns].rename_axis(columns=None)


def _boxes(
    study: Study, runs: pd.DataFrame
) -> dict[str, dict[str, list[float]]]:
    """Accuracy and F1 of groups with several values, by label."""
    groups = [
        group
        for group in cells.groups_of(runs)
        if len(known_scores(group)) > 1 and not cells.failed(group)
    ]
    if len(groups) > MOST_BOXES:
        rate = study.paper.settings["lr"] if study.paper else None
        largest = max(map(cells.examples, groups))
        groups = [g for g in groups if cells.examples(g) == largest]
        groups = [g for g in groups if g.lr.iloc[0] == rate] or groups
    if not groups:
        return {}
    f1 = _f1_of(runs)
    shown = {"accuracy": "accuracy", **({f1: F1[f1]} if f1 else {})}
    return {
        title: {
            _label(group): cells.known(cells.metric(group, name))
            for group in groups[:MOST_BOXES]
        }
        for name, title in shown.items()
    }


def _label(group: pd.DataFrame) -> str:
    first = group.iloc[0]
    words = [_trains(group)]
    if not first.baseline:
        words.append(f"{first.lr:g}")
    size = first.settings.get("max_train_examples")
    return ", ".join(words + ([f"{size:,} examples"] if size else []))
