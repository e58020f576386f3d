"""Tables and figures of "What Would Elsa Do?", from runs of `freezing`.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. A curve is a `Part` with one
task and metric at one rate, its frozen blocks live or cached; see
`list_curves`.
"""

import collections
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from tf_transfer.reports import (
    choose,
    claims,
    operating,
    tables,
    wording,
)
from tf_transfer.reports.study import Study

PUBLISHED_NAMES = {
    "bert_base_en_uncased": "bert-base",
    "roberta_base_en": "roberta-base",
    "bert_large_en_uncased": "bert-large",
    "roberta_large_en": "roberta-large",
}
PUBLISHED_TASKS = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "mnli, mismatched": "MNLI-MM",
    "qnli": "QNLI",
    "rte": "RTE",
}
MISMATCHED = "mismatched_accuracy"
SWEEP_UNIT = 1e-5  # of the rates of the authors' sweep
NEVER = "never"  # no number of trained blocks is enough
COMMON, LEFT_OUT = "all but CoLA", "cola"
DOTTED = {"color": "#000000", "linestyle": ":", "marker": ""}
DOTS = {  # every trial in a figure
    "linestyle": "none",
    "marker": "o",
    "markersize": 3,
    "alpha": 0.5,
    "markeredgewidth": 0,
    "markerfacecolor": None,
}
ALL = operating.ALL
Blocks = int | str | None  # a number of trained blocks, `all`, or no number


# === Curves ===


def label_runs(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with columns of their own.

    `number`: of trained blocks, or `all`, as text; `mode`: live or how it is
    cached; `untrained`: what a full model leaves out; `is_search`: a run that
    validates, where all train everything; `best`: the rate that does so best;
    `published_sweep`: the authors' own score at its rate, or nan.
    """
    is_full = (runs.approach == "fine_tuning") & ~runs.cached
    runs = runs.assign(
        number=runs.approach.str.extract(r"^last_(\d+)$")[0].mask(is_full, ALL),
        mode=runs.settings.map(tables.describe_cache).replace("", "live"),
        untrained=runs.settings.map(lambda s: str(s.get("untrained", ""))),
        is_search=runs.validation.notna() & is_full.all(),
    )
    sweeps = {
        text: _find_sweep(study, members)
        for text, members in runs.groupby("text")
    }
    runs["published_sweep"] = [
        sweeps[text].get(str(round(lr / SWEEP_UNIT)), math.nan)
        for text, lr in zip(runs.text, runs.lr)
    ]
    validation = runs.groupby(["text", "untrained", "lr"]).validation
    means = validation.transform("mean")
    best = means.groupby([runs.text, runs.untrained]).transform("max")
    return runs.assign(
        best=(means == best).map({True: "best", False: ""})
    ).sort_values(["text", "untrained"], kind="stable")


def list_curves(study: Study) -> list[tables.Part]:
    """The curves of a study: of a task one for each rate, mode and `untrained`.

    MNLI has two, if both its development sets were scored. A rate is chosen by
    the search, on validation. These runs have none: to choose among theirs
    would be to look at the test. What full models leave untrained is another
    curve, with the same frozen runs: these do not read it.

    Returns:
        Runs of each by `all` and by falling number of trained blocks. Its words
        are those of captions and tables, and `trials`, scores in points by
        number of trained blocks; `majority` in points or nan; `theirs`,
        published scores by number of trained blocks, {} where the runs are not
        at the paper's settings, encoder and data, or are the authors' own.
    """
    curves = []
    for _, runs in study.labelled.groupby(["text", "lr"], sort=False):
        frozen = runs[runs.number.str.isdigit().eq(True)].sort_values(
            "number", key=pd.to_numeric, ascending=False, kind="stable"
        )
        for (_, full), (_, members) in itertools.product(
            runs[runs.number == ALL].groupby("untrained"),
            frozen.groupby(["cached", "mode"]),
        ):
            curves.append(pd.concat([full, members]))
    rates = {(runs.task.iloc[0], runs.lr.iloc[0]) for runs in curves}
    counts = collections.Counter(task for task, _ in rates)
    parts = [
        _make_curve(study, runs, suffix, counts[runs.task.iloc[0]] > 1)
        for runs in curves
        for suffix in ("", ", mismatched")
        if not suffix or all(MISMATCHED in known for known in runs.metrics)
    ]
    return sorted(parts, key=lambda curve: (curve.words["task"], curve.name))


def _make_curve(
    study: Study, runs: pd.DataFrame, suffix: str, has_rates: bool
) -> tables.Part:
    """A curve with its words.

    Args:
        study: theirs.
        runs: by `all` and by falling number of trained blocks.
        suffix: `, mismatched` for the second development set of MNLI.
        has_rates: whether the task has curves at several rates.
    """
    first, mode = runs.iloc[0], runs["mode"].iloc[-1]
    metric = MISMATCHED if suffix else first.metric
    scores = runs.metrics.str[metric] if suffix else runs.score
    by_number = scores.groupby(runs.number, sort=False).agg(list).items()
    label, but, baseline = mode, "", ""
    if has_rates:
        label += f", lr {first.lr:g}"
    if first.untrained:
        label += f", untrained {first.untrained}"
        but = f". Untrained where everything else trains: {first.untrained}"
    majority = 100 * first.record["majorities"].get(metric, math.nan)
    if not math.isnan(majority):
        baseline = f"The majority baseline scores {majority:.2f}. "
    published = _find_published(study, runs)
    title = PUBLISHED_TASKS.get(first.task + suffix, "")
    return tables.Part(
        study,
        runs,
        first.text + suffix,
        {
            "task": first.task,
            "name": first.text + suffix,
            "metric": metric,
            "mode": mode,
            "label": label,
            "untrained": first.untrained,
            "but": but,
            "file": re.sub("[, ]+", "_", f"{first.text}{suffix}, {label}"),
            "trials": {n if n == ALL else int(n): v for n, v in by_number},
            "majority": majority,
            "baseline": baseline,
            "theirs": published.get("scores", {}).get(title, {}),
            "rate": wording.rate(first.lr),
            "published_rate": wording.rate(
                SWEEP_UNIT * published.get("rates", {}).get(title, math.nan)
            ),
        },
    )


def _find_published(
    study: Study, runs: pd.DataFrame, ignored: claims.Settings | None = None
) -> dict[str, dict[str, Any]]:
    """The authors' figures of an encoder by kind and task.

    Args:
        study: theirs.
        runs: figures are compared with these alone, at the authors' settings.
        ignored: settings that may be others.
    """
    first = runs.iloc[0]
    if (
        study.paper is None
        or "recorded_by" in first.settings
        or claims.list_differences(runs, study.paper, ignored)
    ):
        return {}
    return {
        kind: study.published.get(kind, {}).get(
            PUBLISHED_NAMES.get(first.model, ""), {}
        )
        for kind in ("scores", "rates", "rate_sweep")
    }


def _find_sweep(study: Study, runs: pd.DataFrame) -> dict[str, float]:
    """The authors' own scores by rate, in units of `SWEEP_UNIT`; or {}.

    They held out nothing, and nobody knows what their full models left
    untrained.

    Args:
        study: theirs.
        runs: on one task.
    """
    ignored = dict.fromkeys(("validation_fraction", "untrained"))
    sweeps = _find_published(study, runs, ignored).get("rate_sweep", {})
    return sweeps.get(PUBLISHED_TASKS.get(runs.task.iloc[0], ""), {})


# === Tables ===


def _describe_blocks(
    curve: tables.Part,
    label: str,
    blocks: Blocks,
    authors: Blocks,
    **others: str,
) -> tables.Line:
    """Score and cost at a number of trained blocks.

    Args:
        curve: see `list_curves`.
        label: what the number is.
        blocks: by the plain mean.
        authors: by the authors' averaging.
        **others: measures that are known besides.
    """
    trials, runs = curve.words["trials"], curve.runs
    theirs = _compare(trials, authors, operating.authors_mean)
    values = {
        "quality": label,
        "frozen": 0 if blocks == ALL else runs.blocks.iloc[0] - (blocks or 0),
        "trained": _name_blocks(blocks),
        "published": _show_published(curve, blocks),
        "authors_trained": _name_blocks(authors),
        **{f"authors_{name}": value for name, value in theirs.items()},
        **_compare(trials, blocks, operating.plain_mean),
        "score": trials.get(blocks, ""),
        **others,
    }
    return tables.Line(curve, runs[runs.number == str(blocks)], values=values)


def _name_blocks(blocks: Blocks) -> str:
    return NEVER if blocks is None else str(blocks)


def _compare(
    trials: operating.Trials, blocks: Blocks, mean: operating.Mean
) -> dict[str, Any]:
    """A mean score, and how it stands against that of training everything."""
    if blocks is None:
        return {}
    here, full = mean(trials[blocks]), mean(trials[ALL])
    share = f"{100 * here / full:.1f}" if full > 0 else ""
    return {"score": here, "relative": here - full, "share": share}


def _show_published(curve: tables.Part, blocks: Blocks) -> str:
    """The authors' mean and deviation at a number of trained blocks."""
    known = curve.words["theirs"].get(str(blocks), ())[:3:2]
    return " ± ".join(f"{value:.2f}" for value in known if value is not None)


def _list_points(part: tables.Part) -> Iterator[tables.Line]:
    """All, enough, none trained; with what each costs."""
    options, curves = part.study.options, list_curves(part.study)
    for curve in curves:
        *_, fewest = curve.words["trials"]
        none = f"{fewest or 'none'} trained"
        yield _describe_blocks(curve, "all", ALL, ALL)
        for quality in options.qualities:
            yield _find_point(curve, quality, options.level)
        yield _describe_blocks(curve, none, fewest, fewest)
    # Only where each task has one curve, so that it is clear which is meant.
    kinds = choose.group_by(
        (curve for curve in curves if curve.words["task"] != LEFT_OUT),
        lambda curve: (curve.words["mode"], curve.words["untrained"]),
    )
    for curves in kinds.values():
        if 1 < len({curve.name for curve in curves}) == len(curves):
            for quality in options.qualities:
                yield _find_common_point(curves, quality)


def _find_points(curve: tables.Part, quality: float) -> list[int | None]:
    """The operating points by the plain mean, by the authors' and in theirs."""
    trials, published = curve.words["trials"], curve.words["theirs"]
    theirs = {n if n == ALL else int(n): [v[0]] for n, v in published.items()}
    return [
        operating.operating_point(trials, quality),
        operating.operating_point(trials, quality, operating.authors_mean),
        operating.operating_point(theirs, quality) if theirs else None,
    ]


def _name_quality(curves: Sequence[tables.Part], quality: float) -> str:
    """`≥ 90 %`, with a star where the majority baseline alone passes."""
    passes = any(
        curve.words["majority"]
        >= quality * operating.plain_mean(curve.words["trials"][ALL])
        for curve in curves
    )
    name = f"≥ {100 * quality:.4g} %"
    return f"{name}*" if passes else name


def _find_point(
    curve: tables.Part, quality: float, level: float
) -> tables.Line:
    """An operating point's line."""
    trials = curve.words["trials"]
    point, authors, theirs = _find_points(curve, quality)
    published = _show_published(curve, theirs)
    if published and theirs != point:
        published += f" with {theirs}"
    below = operating.list_untried(trials, point) if point else ()
    has_several = min(map(len, trials.values())) > 1
    ends = operating.interval(trials, quality, level) if has_several else ()
    return _describe_blocks(
        curve,
        _name_quality([curve], quality),
        point,
        authors,
        published=published,
        untried=", ".join(map(str, below)),
        interval=" to ".join(map(_name_blocks, ends)),
    )


def _find_common_point(
    curves: Sequence[tables.Part], quality: float
) -> tables.Line:
    """The fewest blocks that are enough on every task but CoLA."""
    plain, authors, theirs = (
        NEVER if None in points else str(max(points))
        for points in zip(*(_find_points(curve, quality) for curve in curves))
    )
    published = ""
    if all(curve.words["theirs"] for curve in curves):
        published = f"with {theirs}"
    return tables.Line(
        curves[0],
        values={
            "name": COMMON,
            "quality": _name_quality(curves, quality),
            "trained": plain,
            "authors_trained": authors,
            "published": published,
            **dict.fromkeys(("rate", "published_rate", "majority"), ""),
        },
    )


def _list_parameters(part: tables.Part) -> list[tables.Line]:
    """The paper's table 4, of the encoder at hand."""
    known = part.runs.record.iloc[0]["parts"]
    blocks = [n for name, n in known.items() if name.startswith("block ")]
    embeddings, pooler = known["embeddings"], known.get("pooler", 0)
    counts = {
        "embeddings": embeddings,
        "each block": blocks[0],
        "all blocks": sum(blocks),
        "pooler": pooler,
        "total": embeddings + sum(blocks) + pooler,
    }
    theirs = part.study.published.get("parameters", {}).get(
        PUBLISHED_NAMES.get(part.study.model), itertools.repeat("")
    )
    return [
        tables.Line(
            part,
            values={
                "part": name,
                "parameters": count,
                "share": 100 * count / counts["total"],
                "published": published,
            },
        )
        for (name, count), published in zip(counts.items(), theirs)
    ]


# === Figures ===


def _measure_curve(curve: tables.Part) -> dict[float, Any]:
    """Score less that of training everything, by frozen blocks, rising."""
    blocks, trials = curve.runs.blocks.iloc[0], curve.words["trials"]
    return {
        blocks - number: wording.subtract(scores, trials[ALL])
        for number, scores in trials.items()
        if number != ALL
    }


def published_curve(curve: tables.Part) -> dict[int, float]:
    """Relative score by frozen blocks, by the authors' averaging."""
    known = curve.words["theirs"]
    tried = sorted((n for n in known if n != ALL), key=int, reverse=True)
    blocks = curve.runs.blocks.iloc[0]
    return {blocks - int(n): known[n][0] - known[ALL][0] for n in tried}


def _list_curves(part: tables.Part) -> Iterator[tables.Line]:
    """The curves of a task and the scores of all trials; the published one."""
    curves = [c for c in list_curves(part.study) if c.name == part.name]
    for curve in curves:
        label, trials = curve.words["label"], curve.words["trials"]
        full = operating.plain_mean(trials[ALL])
        dots = {
            part.study.blocks - number - 0.15 - 0.01 * trial: score - full
            for number, scores in trials.items()
            for trial, score in enumerate(scores)
            if number != ALL
        }
        for name, shown, style in (
            (label, _measure_curve(curve), {}),
            (f"_{label}", dots, DOTS),
        ):
            values = {"label": name, "colour": label}
            values |= {"curve": shown, "style": style}
            yield tables.Line(curve, curve.runs, values=values)
    values = dict.fromkeys(("label", "colour"), "published")
    values |= {"curve": published_curve(curves[0]), "style": DOTTED}
    yield tables.Line(curves[0], values=values)


def _list_study(study: Study) -> list[tables.Part]:
    """The study as one part; none if its runs are a search."""
    if study.labelled.is_search.any():
        return []
    words = {"level": f"{100 * study.options.level:g}"}
    return [tables.Part(study, study.labelled, words=words)]


MEASURES: dict[str, tables.Measure] = {
    **dict.fromkeys(
        ("interval", "untried", "published", "relative", "share")
        + ("authors_score", "authors_relative"),
        lambda line: "",
    ),
    "epoch_share": lambda line: (
        100
        * line.runs.seconds_per_epoch.mean()
        / line.part.runs[line.part.runs.number == ALL].seconds_per_epoch.mean()
    ),
    "gigabytes": lambda line: line.runs.memory.mean() / 1e9,
}
ROWS = {
    "points": _list_points,
    # Quality and cost at every number of frozen blocks.
    "blocks": lambda curve: [
        _describe_blocks(curve, "", blocks, blocks)
        for blocks in curve.words["trials"]
    ],
    "parameters": _list_parameters,
    "curves": _list_curves,
}
PARTS = {
    "study": _list_study,
    "curves": list_curves,
    "tasks": lambda study: [
        tables.Part(study, study.runs, name)
        for name in dict.fromkeys(curve.name for curve in list_curves(study))
    ],
}
