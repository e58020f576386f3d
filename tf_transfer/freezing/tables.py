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
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from tf_transfer.freezing import operating
from tf_transfer.freezing.operating import ALL, authors_mean, plain_mean
from tf_transfer.reports import figures, run_groups, tables
from tf_transfer.reports.claims import Settings
from tf_transfer.reports.estimates import Ranged
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table
from tf_transfer.utils.json_files import Record

ENCODERS = {
    "bert_base_en_uncased": "bert-base",
    "roberta_base_en": "roberta-base",
    "bert_large_en_uncased": "bert-large",
    "roberta_large_en": "roberta-large",
}
TITLES = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "mnli-mm": "MNLI-MM",
    "qnli": "QNLI",
    "rte": "RTE",
    "wnli": "WNLI",
}
QUALITY = 0.9  # of the paper's operating points
OUTLIER = "CoLA"  # which the paper's number of blocks leaves out
MISMATCHED = "mismatched_accuracy"
AUTHORS = "authors' averaging"
DOTTED = {"color": "#000000", "linestyle": ":", "marker": ""}
UNKNOWN = (math.nan,) * 5


class Key(NamedTuple):
    """What the runs of a curve have in common.

    Attributes:
        task: as the paper calls it.
        lr: learning rate.
        runs: whether frozen blocks are live or how they are cached, and what
            the full model leaves untrained.
    """

    task: str
    lr: float
    runs: str


class Curve(NamedTuple):
    """Scores in points by number of trained blocks, and of `all`.

    Attributes:
        trials: the scores.
        mark: of `tables.NOTES`, if the full model is no base to compare with.
    """

    trials: operating.Trials
    mark: str


Curves = Mapping[Key, Curve]
# By task and number of trained blocks: the authors' mean, plain mean, standard
# deviation, number of trials, and of those that their averaging kept.
Published = Mapping[str, Mapping[int | str, Sequence[float]]]


def list_curves(runs: pd.DataFrame) -> Curves:
    """The curves of a study: one for each rate, cache and kind of full model.

    A rate is chosen by the search, on validation. These runs have none: to
    choose among theirs would be to look at the test. MNLI has two curves where
    both its development sets were scored.

    Args:
        runs: of a study; those that train all or the last blocks count.
    """
    runs = runs[runs.approach.str.fullmatch(r"fine_tuning|last_\d+")]
    mismatched = runs[runs.task == "mnli"].assign(
        task="mnli-mm", score=lambda mnli: mnli.metrics.str[MISMATCHED]
    )
    runs = pd.concat([runs, mismatched.dropna(subset="score")])
    order = {task: number for number, task in enumerate(TITLES)}
    runs = runs.sort_values("task", key=lambda t: t.map(order), kind="stable")
    names = runs.approach.replace("fine_tuning", f"last_{ALL}")
    runs = runs.assign(
        tuned=[_number(name.removeprefix("last_")) for name in names],
        variant=[
            _name_variant(*row) for row in zip(runs.approach, runs.settings)
        ],
    )
    curves = {}
    columns = ["task", "data_identity", "lr"]
    for (task, _, lr), group in runs.groupby(columns, sort=False):
        is_full = group.tuned == ALL
        variants = itertools.product(
            group[~is_full].groupby("variant"),
            group[is_full].groupby("variant"),
        )
        for (variant, frozen), (untrained, full) in variants:
            both = pd.concat([full, frozen]).groupby("tuned", sort=False)
            key = Key(TITLES.get(task, task), lr, variant + untrained)
            trials = both.score.agg(list).to_dict()
            curves[key] = Curve(trials, tables.find_mark([full]))
    return curves


def _name_variant(approach: str, settings: Settings) -> str:
    """How frozen blocks ran, or what a full model leaves untrained."""
    if approach != "fine_tuning":
        dtype = settings.get("cache_dtype", "")
        return f"{settings['frozen_prefix']} {dtype}".strip()
    untrained = settings.get("untrained")
    return f", untrained {untrained}" if untrained else ""


def read_published(study: Study) -> tuple[str, Published]:
    """The paper's encoder next to which a study is shown, and its scores."""
    encoder = ENCODERS.get(study.model, "bert-base")
    published = {
        task: {_number(n): means for n, means in cells.items()}
        for task, cells in study.published["scores"][encoder].items()
    }
    return encoder, published


def take_means(published: Published, task: str) -> operating.Trials:
    """The authors' means on a task as if each was one trial; or {}."""
    means = published.get(task, {})
    return {number: [mean] for number, (mean, *_) in means.items()}


def _number(text: str) -> int | str:
    return ALL if text == ALL else int(text)


# === The paper's tables ===


def table_4(parts: Mapping[str, int], published: Record) -> pd.DataFrame:
    """Millions of parameters by component, and shares.

    Args:
        parts: parameters of each component of the encoder at hand.
        published: those of the paper's encoders.
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
    """Full models, and their rates.

    Args:
        layers: see `table_of_layers`.
        searched: by task, what the authors' search of the rate found.
        unit: of its rates.
    """
    full = layers[layers.tuned == ALL].rename(columns={"lr": "lr, here"})
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
        layers: see `table_of_layers`; the first curve of each task counts.
        points: numbers of blocks that are enough, the paper's and ours.
    """
    tuned = [ALL, *sorted({*points, 0}, reverse=True)]
    cells = layers.drop_duplicates(["task", "tuned"]).set_index("tuned")
    columns = {}
    for task, scores in cells.groupby("task", sort=False):
        for kind in ("published", "here"):
            means = scores[f"{AUTHORS}, {kind}"]
            columns[f"{task}, {kind}"] = means.reindex(tuned, fill_value="")
    return pd.DataFrame(columns).reset_index(names="tuned")


def find_enough(curves: Curves) -> int | None:
    """The fewest blocks that keep 90 % on every task except CoLA, or None.

    Full models that are no base to compare with do not count.
    """
    most = 0
    for key, (trials, mark) in curves.items():
        if key.task == OUTLIER or mark:
            continue
        point = operating.operating_point(trials, QUALITY, authors_mean)
        if point is None:
            return None
        most = max(most, point)
    return most


def name_enough(curves: Curves) -> str:
    """What `find_enough` finds, and the tasks that it leaves out."""
    text = _name_blocks(find_enough(curves))
    left_out = {key.task: None for key, (_, mark) in curves.items() if mark}
    if left_out:
        text += f", without {', '.join(left_out)}, whose full model is "
        text += run_groups.FAILED
    return text


# === Ours ===


def table_of_points(
    curves: Curves,
    published: Published,
    majorities: Mapping[str, float],
    qualities: Sequence[float],
    level: float,
) -> pd.DataFrame:
    """The fewest trained blocks that keep a share of the full score.

    Args:
        curves, published: see `list_curves` and `Published`.
        majorities: scores of the majority baseline in points, by task.
        qualities: the shares.
        level: of the interval, by the plain mean; it needs two trials.
    """
    rows = []
    for key, (trials, mark) in curves.items():
        full = plain_mean(trials[ALL])
        means = take_means(published, key.task)
        for quality in qualities:
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
                ends = operating.interval(trials, quality, level)
                interval = " to ".join(map(_name_blocks, ends))
            row |= tables.pair("tuned", theirs, mark or _name_blocks(point))
            row[f"here, {AUTHORS}"] = mark or _name_blocks(authors)
            row["interval"] = mark or interval
            rows.append(row)
    return pd.DataFrame(rows)


def _name_blocks(blocks: int | None) -> str:
    return "never" if blocks is None else str(blocks)


# === The page ===


def list_tables(
    study: Study,
    qualities: Sequence[float] = operating.QUALITIES,
    level: float = operating.LEVEL,
) -> list[Table]:
    """The paper's tables 4 to 9, then ours; none of a search."""
    published = study.published
    curves = list_curves(study.runs)
    if not curves:
        return []
    encoder, scores = read_published(study)
    tasks = study.runs.task.replace(TITLES)
    majorities = study.runs.majority.groupby(tasks).max()
    enough = published["operating_points"]["trained_blocks"][encoder]
    ours = find_enough(curves)
    points = [enough] if ours is None else [enough, ours]
    layers = table_of_layers(curves, scores)
    source = (
        f"Published: {encoder}, from the authors' later trials; the printed "
        "digits are lost. Their averaging: see table 5. Empty: not run"
    )
    return [
        Table(
            "table_4",
            "Table 4: millions of parameters, and shares. Published: exact "
            f"from the architectures. Here: {study.model}",
            table_4(
                study.runs.record.iloc[0]["parts"], published["parameters"]
            ),
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
            f"{enough}, here {name_enough(curves)}. {source}",
            tables_6_to_9(layers, points),
        ),
        Table(
            "operating_points",
            "Fewest tuned blocks whose mean keeps a share of the full score. "
            f"The interval holds {100 * level:g} % of resampled trials. "
            f"*: the majority baseline keeps it. {source}",
            table_of_points(curves, scores, majorities, qualities, level),
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
    encoder, published = read_published(study)
    curves: dict[str, dict[str, figures.Curve]] = {}
    for key, (trials, mark) in list_curves(study.runs).items():
        means = take_means(published, key.task)
        of_task = curves.setdefault(key.task, {})
        if means:
            theirs = figures.Curve(_relate(means), DOTTED)
            of_task[f"published, {encoder}"] = theirs
        if not mark:
            style = {"color": figures.colour_of(key.runs)}
            of_task[key.runs] = figures.Curve(_relate(trials), style)
    label = "relative score, points"
    panels = [figures.Panel(*panel, label) for panel in curves.items()]
    if not panels:
        return []
    return [
        figures.draw_panels(
            "figure",
            "The paper's figure: test score less that of the full model "
            "against the number of tuned blocks, mean and standard deviation "
            "over trials; none of a full model that is not shown to be above "
            "the majority baseline. Dotted: the authors' trials by their "
            "averaging",
            panels,
            "tuned blocks",
            dress=_dress,
        )
    ]


def _relate(trials: operating.Trials) -> list[figures.Point]:
    """Score less the mean of the full model, by number of blocks."""
    full = plain_mean(trials[ALL])
    return [
        (Ranged(float(n)), tables.deviation(score - full for score in scores))
        for n, scores in trials.items()
        if n != ALL
    ]


def _dress(axis: Axes) -> None:
    """More frozen blocks to the right, as in the paper."""
    figures.use_whole_numbers(axis)
    axis.invert_xaxis()
