"""Tables and figure of "What Would Elsa Do?", from runs of `freezing`.

The printed tables are lost; published scores are computed from the authors'
trials: those of the search of the rate for the full models of table 5, and the
later ones for all else. Means are taken twice: plainly, and as the authors did,
who leave out trials at 0 or not above 0.9 of the best. An encoder that is none
of the paper's is shown next to its BERT-base.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from tf_transfer.comparison.estimates import Ranged
from tf_transfer.freezing import curves as curves_lib, operating
from tf_transfer.freezing.curves import Curve, Curves, Published, TITLES
from tf_transfer.freezing.operating import (
    ALL,
    authors_mean,
    plain_mean,
    Trials,
)
from tf_transfer.reports import figures, run_groups, tables
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table
from tf_transfer.utils import formatting
from tf_transfer.utils.json_files import Record

# The tasks on which the paper has all encoders.
SHARED = ("CoLA", "SST-2", "MRPC", "STS-B")
SIZES = ("base", "large")  # the figure has one above the other
QUALITY = 0.9  # of the paper's operating points
OUTLIER = "CoLA"  # which the paper's number of blocks leaves out
AUTHORS = "authors' averaging"
DOTTED: figures.Style = {"linestyle": ":", "marker": ""}
FAMILIES: dict[str, figures.Style] = {
    "BERT": {**DOTTED, "color": "#000000"},
    "RoBERTa": {**DOTTED, "color": "#D55E00"},
}
UNKNOWN = (math.nan,) * 5


# === The paper's tables ===


def table_4(parts: Mapping[str, int], published: Record) -> pd.DataFrame:
    """Millions of parameters by component, and shares.

    Args:
        parts: Parameters of each component of the encoder at hand.
        published: Those of the paper's encoders.
    """
    blocks = [n for name, n in parts.items() if name.startswith("block ")]
    counts = pd.DataFrame(published).set_index("columns")
    ours = [parts["embeddings"], blocks[0], sum(blocks), parts.get("pooler", 0)]
    counts["here"] = [*ours, sum(ours) - blocks[0]]
    shares = (100 * counts / counts.loc["total"]).map("{:.1f}".format)
    millions = (counts / 1e6).map("{:.2f}".format)
    return (millions + " (" + shares + " %)").reset_index(names="parameters")


def table_of_layers(curves: Curves, published: Published) -> pd.DataFrame:
    """Scores at every number of trained blocks, published or run."""
    rows = []
    for key, (trials, _) in curves.items():
        means = published.get(key.task, {})
        numbers = {*means, *trials} - {ALL}
        for tuned in (ALL, *sorted(numbers, reverse=True)):
            mean, plain, deviation, count, _ = means.get(tuned, UNKNOWN)
            theirs = tables.number(plain)
            if deviation:
                theirs += f" ± {deviation:.2f}"
            here = trials.get(tuned, ())
            authors = tables.number(authors_mean(here)) if here else ""
            row = {
                **key._asdict(),
                "tuned": tuned,
                **tables.pair("score", theirs, tables.spread(here)),
                **tables.pair(AUTHORS, tables.number(mean), authors),
                **tables.pair("trials", tables.whole(count), len(here) or ""),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def table_5(
    layers: pd.DataFrame, searched: Record, unit: float
) -> pd.DataFrame:
    """Full models, and their rates; published ones that were not run, too.

    Args:
        layers: See `table_of_layers`.
        searched: By task, what the authors' search of the rate found.
        unit: Of its rates.
    """
    full = layers[layers.tuned == ALL].rename(columns={"lr": "lr, here"})
    others = [task for task in searched if task not in {*full.task}]
    full = pd.concat([full, pd.DataFrame({"task": others})]).fillna("")
    full.insert(1, "lr, published", "")
    cells = [
        _show_searched(searched[task], unit) if task in searched else {}
        for task in full.task
    ]
    for title in ("lr", "score", AUTHORS, "trials"):
        full[f"{title}, published"] = [row.get(title, "") for row in cells]
    return full.drop(columns=["runs", "tuned"]).drop_duplicates()


def _show_searched(best: Record, unit: float) -> dict[str, str]:
    """Published cells of table 5; the averaging may have a rate of its own."""
    authors = tables.number(best["authors_mean"])
    if best["authors_rate"] != best["rate"]:
        authors += f" at {tables.rate(unit * best['authors_rate'])}"
    if best["kept"] < best["trials"]:
        authors += f" ({best['kept']} of {best['trials']})"
    return {
        "lr": tables.rate(unit * best["rate"]),
        "score": f"{best['mean']:.2f} ± {best['deviation']:.2f}",
        AUTHORS: authors,
        "trials": tables.whole(best["trials"]),
    }


def tables_6_to_9(layers: pd.DataFrame, points: Sequence[int]) -> pd.DataFrame:
    """All, enough and none of the blocks trained, by the authors' averaging.

    Args:
        layers: See `table_of_layers`; the first curve of each task counts.
        points: Numbers of blocks that are enough, the paper's and ours.
    """
    tuned = [ALL, *sorted({*points, 0}, reverse=True)]
    cells = layers.drop_duplicates(["task", "tuned"]).set_index("tuned")
    columns = {}
    for task, scores in cells.groupby("task", sort=False):
        for kind in ("published", "here"):
            means = scores[f"{AUTHORS}, {kind}"]
            columns[f"{task}, {kind}"] = means.reindex(tuned, fill_value="")
    return pd.DataFrame(columns).reset_index(names="tuned")


def find_enough(curves: Sequence[Trials]) -> int | None:
    """The fewest blocks that keep 90 % on each of some tasks.

    Returns:
        None if there are no tasks, or one keeps 90 % with no number of blocks.
    """
    points = [
        operating.operating_point(trials, QUALITY, authors_mean)
        for trials in curves
    ]
    known = [point for point in points if point is not None]
    return max(known) if known and len(known) == len(points) else None


def name_enough(curves: Curves, published: Published) -> str:
    """The blocks that are enough on our tasks except CoLA, and published ones.

    Full models that are no base to compare with do not count. Their tasks are
    named.

    Args:
        curves: See `curves.list_curves`.
        published: See `Published`.
    """
    text = "not known"
    counted = list_counted(curves)
    if counted:
        ours = _name_blocks(find_enough([*counted.values()]))
        text = f"{ours} on {formatting.join_words([*counted])}"
        means = [curves_lib.take_means(published, task) for task in counted]
        if all(ALL in one for one in means):
            theirs = _name_blocks(find_enough(means))
            text += f" (published on these: {theirs})"
    left_out = {key.task: None for key, (_, mark) in curves.items() if mark}
    if left_out:
        text += (
            f"; without {', '.join(left_out)}, whose full model is "
            f"{run_groups.FAILED}"
        )
    return text


def list_counted(curves: Curves) -> dict[str, Trials]:
    """The trials that decide what is enough, by task.

    The first curve of each task counts, of those with a base to compare with.
    """
    counted: dict[str, Trials] = {}
    for key, (trials, mark) in curves.items():
        if key.task != OUTLIER and not mark:
            counted.setdefault(key.task, trials)
    return counted


def table_of_shares(
    curves: Curves, scores: Mapping[str, Published]
) -> pd.DataFrame:
    """What is left of the full score if no block trains, in percent.

    Args:
        curves: See `curves.list_curves`; the first of each task counts.
        scores: See `curves.read_published`.
    """
    first = {key.task: curve for key, curve in [*curves.items()][::-1]}
    rows, marks = [], []
    for task in SHARED:
        trials, mark = first.get(task, Curve({}, ""))
        published = [
            operating.keep_share(curves_lib.take_means(means, task))
            for means in scores.values()
        ]
        here = math.nan if mark else operating.keep_share(trials)
        rows.append([*published, tables.mean(published), here])
        marks.append(mark)
    columns = [*scores, "mean, published", "here"]
    frame = pd.DataFrame(rows, [*SHARED], columns)
    frame.loc["mean"] = frame.mean(skipna=False)
    shown = frame.map(lambda share: tables.number(share, 1))
    marks.append(max(marks))
    shown["here"] = [mark or share for mark, share in zip(marks, shown["here"])]
    return shown.reset_index(names="task")


# === Ours ===


def table_of_points(
    curves: Curves,
    published: Published,
    majorities: Mapping[str, float],
) -> pd.DataFrame:
    """The fewest trained blocks that keep a share of the full score.

    The interval is by the plain mean, and needs two trials.

    Args:
        curves: See `curves.list_curves`.
        published: See `Published`.
        majorities: Scores of the majority baseline in points, by task.
    """
    rows = []
    for key, (trials, mark) in curves.items():
        full = plain_mean(trials[ALL])
        means = curves_lib.take_means(published, key.task)
        for quality in operating.QUALITIES:
            point = operating.operating_point(trials, quality)
            authors = operating.operating_point(trials, quality, authors_mean)
            row = {**key._asdict(), "quality": f"≥ {100 * quality:.4g} %"}
            if majorities.get(key.task, 0) >= quality * full:
                row["quality"] += "*"
            theirs = interval = ""
            if means:
                published_point = operating.operating_point(means, quality)
                theirs = _name_blocks(published_point)
            if min(map(len, trials.values())) > 1:
                ends = operating.interval(trials, quality)
                interval = " to ".join(map(_name_blocks, ends))
            row |= tables.pair("tuned", theirs, mark or _name_blocks(point))
            row[f"here, {AUTHORS}"] = mark or _name_blocks(authors)
            row["interval"] = mark or interval
            rows.append(row)
    return pd.DataFrame(rows)


def _name_blocks(blocks: int | None) -> str:
    return "never" if blocks is None else str(blocks)


# === The page ===


def list_tables(study: Study) -> list[Table]:
    """The paper's tables 4 to 9, then ours; none of a search."""
    published = study.published
    curves = curves_lib.list_curves(study.runs)
    if not curves:
        return []
    encoder = curves_lib.name_encoder(study)
    scores = curves_lib.read_published(study)
    tasks = study.runs.task.replace(TITLES)
    majorities = study.runs.majority.groupby(tasks).max()
    enough = published["operating_points"]["trained_blocks"][encoder]
    ours = find_enough([*list_counted(curves).values()])
    points = [enough] if ours is None else [enough, ours]
    layers = table_of_layers(curves, scores[encoder])
    source = (
        f"Published: {encoder}, from the authors' later trials; the printed "
        "digits are lost. Their averaging: see table 5. Empty: not run"
    )
    return [
        Table(
            "table_4",
            "Table 4: millions of parameters, and shares. Published: exact "
            f"from the architectures. Here: {study.model}",
            table_4(study.runs.record.iloc[0].parts, published["parameters"]),
        ),
        Table(
            "table_5",
            "Table 5: test scores of full models in points, mean ± standard "
            f"deviation over trials. Published: {encoder}, the best rate of "
            "the authors' search. Their averaging leaves out trials at 0 or "
            "not above 0.9 of the best. In its cells: the rate that is best "
            "by it, where that is another, and the trials that it keeps, "
            "where these are not all",
            table_5(
                layers,
                published["full_models"][encoder],
                published["rates"]["unit"],
            ),
        ),
        Table(
            "tables_6_to_9",
            "Tables 6 to 9: test scores with all, enough and no blocks tuned. "
            "Enough keep 90 % on every task except CoLA: published "
            f"{enough}, here {name_enough(curves, scores[encoder])}. {source}",
            tables_6_to_9(layers, points),
        ),
        Table(
            "nothing_trained",
            "Percentage of the full model's score with pooler and head alone "
            "trained, on the tasks that the paper has for all encoders. The "
            f"paper's mean: {published['nothing_trained_share']}; the tasks "
            "and trials of its mean are not known. Published: the authors' "
            "later trials, by their averaging, as here. Empty: not run",
            table_of_shares(curves, scores),
        ),
        Table(
            "operating_points",
            "Fewest tuned blocks whose mean keeps a share of the full score. "
            f"The interval holds {100 * operating.LEVEL:g} % of resampled "
            f"trials. *: the majority baseline keeps it. {source}",
            table_of_points(curves, scores[encoder], majorities),
        ),
        Table(
            "layers",
            "Points of the figure: test scores at each number of tuned blocks, "
            f"mean ± standard deviation over trials. {source}",
            layers,
        ),
    ]


def list_figures(study: Study) -> list[Figure]:
    """The paper's figure; none of a search."""
    curves = curves_lib.list_curves(study.runs)
    scores = curves_lib.read_published(study)
    of_size = curves_lib.name_encoder(study).split("-")[1]
    panels = []
    for task, size in itertools.product({key.task: 0 for key in curves}, SIZES):
        drawn = {}
        for name, style in FAMILIES.items():
            encoder = f"{name.lower()}-{size}"
            if means := curves_lib.take_means(scores[encoder], task):
                theirs = figures.Curve(_relate(means), style)
                drawn[f"published, {name}"] = theirs
        for key, (trials, mark) in curves.items():
            if (key.task, of_size, mark) == (task, size, ""):
                colour = figures.colour_of(key.runs)
                ours = figures.Curve(_relate(trials), {"color": colour})
                drawn[f"here, {key.runs}"] = ours
        if drawn:
            is_known = task in TITLES.values()
            title = f"{task}, {size}" if is_known else task
            panels.append(figures.Panel(title, drawn, "relative score, points"))
    if not panels:
        return []
    return [
        figures.draw_panels(
            "figure",
            "The paper's figure: test score less that of the full model "
            "against the number of tuned blocks, mean and standard deviation "
            "over trials. Base encoders are above large ones. Here: "
            f"{study.model}; none of a full model that is not shown to be "
            "above the majority baseline. Dotted: the authors' later trials "
            "by their averaging",
            panels,
            "tuned blocks",
            dress=_show_frozen_blocks,
        )
    ]


def _relate(trials: Trials) -> list[figures.Point]:
    """Score less the mean of the full model, by number of blocks."""
    full = plain_mean(trials[ALL])
    return [
        (Ranged(float(n)), tables.deviation(score - full for score in scores))
        for n, scores in trials.items()
        if n != ALL
    ]


def _show_frozen_blocks(axis: Axes) -> None:
    """More frozen blocks to the right, as in the paper."""
    figures.use_whole_numbers(axis)
    axis.invert_xaxis()
