"""Tables and figures of "What Would Elsa Do?", from runs of `freezing`.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. A curve is a `Part` with one
task and metric at one rate, its frozen blocks live or cached; see
`list_curves`.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tf_transfer.reports import (
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
RATE_UNIT = 1e-5  # of the published rates
NEVER = "never"  # no number of trained blocks is enough
DOTTED = {"color": "#000000", "linestyle": ":", "marker": ""}
ALL = operating.ALL
Blocks = int | str | None  # a number of trained blocks, `all`, or no number


# === Curves ===


def label_runs(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with columns of their own.

    `number`: of trained blocks, or `all`, as text; `mode`: live or how it is
    cached; `untrained`: what a full model leaves out; `is_search`: a run that
    validates, where all train everything; `best`: the rate that does so best.
    """
    is_full = (runs.approach == "fine_tuning") & ~runs.cached
    runs = runs.assign(
        number=runs.approach.str.extract(r"^last_(\d+)$")[0].mask(is_full, ALL),
        mode=runs.settings.map(tables.describe_cache).replace("", "live"),
        untrained=runs.settings.map(lambda s: str(s.get("untrained", ""))),
        is_search=runs.validation.notna() & is_full.all(),
    )
    validation = runs.groupby(["text", "untrained", "lr"]).validation
    means = validation.transform("mean")
    best = means.groupby([runs.text, runs.untrained]).transform("max")
    runs["best"] = (means == best).map({True: "best", False: ""})
    return runs.sort_values(["text", "untrained"], kind="stable")


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
        for _, full in runs[runs.number == ALL].groupby("untrained"):
            for _, members in frozen.groupby(["cached", "mode"]):
                curves.append(pd.concat([full, members]))
    rates: dict[str, set[float]] = {}
    for runs in curves:
        rates.setdefault(runs.task.iloc[0], set()).add(runs.lr.iloc[0])
    parts = []
    for runs in curves:
        has_rates = len(rates[runs.task.iloc[0]]) > 1
        parts.append(_make_curve(study, runs, "", has_rates))
        if all(MISMATCHED in known for known in runs.metrics):
            parts.append(_make_curve(study, runs, ", mismatched", has_rates))
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
    metric, scores = first.metric, runs.score
    if suffix:
        metric, scores = MISMATCHED, runs.metrics.str[MISMATCHED]
    trials: dict[int | str, list[float]] = {}
    for number, members in scores.groupby(runs.number, sort=False):
        trials[ALL if number == ALL else int(number)] = members.to_list()
    label, but, baseline = mode, "", ""
    if has_rates:
        label += f", lr {first.lr:g}"
    if first.untrained:
        label += f", untrained {first.untrained}"
        but = f". Untrained where everything else trains: {first.untrained}"
    majority = 100 * first.record["majorities"].get(metric, math.nan)
    if not math.isnan(majority):
        baseline = f"The majority baseline scores {majority:.2f}. "
    name = first.text + suffix
    title = PUBLISHED_TASKS.get(first.task + suffix, "")
    published_lr = _find_published(study, runs, "rates").get(title, math.nan)
    words = {
        "task": first.task,
        "name": name,
        "metric": metric,
        "mode": mode,
        "label": label,
        "untrained": first.untrained,
        "but": but,
        "file": re.sub("[, ]+", "_", f"{name}, {label}"),
        "trials": trials,
        "majority": majority,
        "baseline": baseline,
        "theirs": _find_published(study, runs, "scores").get(title, {}),
        "rate": wording.rate(first.lr),
        "published_rate": wording.rate(RATE_UNIT * published_lr),
    }
    return tables.Part(study, runs, name, words)


def _find_published(
    study: Study, runs: pd.DataFrame, kind: str
) -> dict[str, Any]:
    """The authors' figures of an encoder, by task.

    Args:
        study: theirs.
        runs: figures are compared with these alone, at the authors' settings.
        kind: of the figures, `scores` or `rates`.
    """
    first, paper = runs.iloc[0], study.paper
    if paper is None or "recorded_by" in first.settings:
        return {}
    if claims.list_differences(runs, paper):
        return {}
    encoder = PUBLISHED_NAMES.get(first.model, "")
    return study.published.get(kind, {}).get(encoder, {})


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
    trained = 0 if blocks is None else blocks
    frozen = 0 if blocks == ALL else runs.blocks.iloc[0] - trained
    values = {
        "quality": label,
        "frozen": frozen,
        "trained": _name_blocks(blocks),
        "published": _show_published(curve, blocks),
        "score": trials.get(blocks, ""),
        "authors_trained": _name_blocks(authors),
    }
    if blocks is not None:
        plain = _compare(trials, blocks, operating.plain_mean)
        _, values["relative"], values["share"] = plain
    if authors is not None:
        theirs = _compare(trials, authors, operating.authors_mean)
        values["authors_score"], values["authors_relative"], _ = theirs
    values.update(others)
    return tables.Line(curve, runs[runs.number == str(blocks)], values=values)


def _name_blocks(blocks: Blocks) -> str:
    return NEVER if blocks is None else str(blocks)


def _compare(
    trials: operating.Trials, blocks: int | str, mean: operating.Mean
) -> tuple[float, float, str]:
    """A mean score, less that of training everything, and in percent of it."""
    here, full = mean(trials[blocks]), mean(trials[ALL])
    share = f"{100 * here / full:.1f}" if full > 0 else ""
    return here, here - full, share


def _show_published(curve: tables.Part, blocks: Blocks) -> str:
    """The authors' mean and deviation at a number of trained blocks."""
    known = curve.words["theirs"].get(str(blocks))
    if known is None:
        return ""
    mean, _, deviation = known[:3]
    return (
        f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"
    )


def _list_points(part: tables.Part) -> Iterator[tables.Line]:
    """All, enough, none trained; with what each costs."""
    options = part.study.options
    for curve in list_curves(part.study):
        *_, fewest = curve.words["trials"]
        none = f"{fewest or 'none'} trained"
        yield _describe_blocks(curve, "all", ALL, ALL)
        for quality in options.qualities:
            yield _find_point(curve, quality, options.level)
        yield _describe_blocks(curve, none, fewest, fewest)


def _name_quality(curve: tables.Part, quality: float) -> str:
    """`≥ 90 %`, with a star where the majority baseline alone passes."""
    full = operating.plain_mean(curve.words["trials"][ALL])
    name = f"≥ {100 * quality:.4g} %"
    return f"{name}*" if curve.words["majority"] >= quality * full else name


def _show_published_point(
    curve: tables.Part, quality: float, point: int | None
) -> str:
    """The authors' score at their point, with its blocks if it is another."""
    theirs: dict[int | str, list[float]] = {}
    for number, known in curve.words["theirs"].items():
        theirs[ALL if number == ALL else int(number)] = [known[0]]
    if not theirs:
        return ""
    found = operating.operating_point(theirs, quality)
    text = _show_published(curve, found)
    return f"{text} with {found}" if text and found != point else text


def _find_point(
    curve: tables.Part, quality: float, level: float
) -> tables.Line:
    """An operating point's line."""
    trials = curve.words["trials"]
    point = operating.operating_point(trials, quality)
    authors = operating.operating_point(trials, quality, operating.authors_mean)
    untried = interval = ""
    if point is not None:
        below = operating.list_untried(trials, point)
        untried = ", ".join(map(str, below))
    if min(map(len, trials.values())) > 1:
        low, high = operating.interval(trials, quality, level)
        interval = f"{_name_blocks(low)} to {_name_blocks(high)}"
    return _describe_blocks(
        curve,
        _name_quality(curve, quality),
        point,
        authors,
        published=_show_published_point(curve, quality, point),
        untried=untried,
        interval=interval,
    )


def _list_blocks(curve: tables.Part) -> Iterator[tables.Line]:
    """Quality and cost at every number of frozen blocks."""
    for blocks in curve.words["trials"]:
        yield _describe_blocks(curve, "", blocks, blocks)


def _list_parameters(part: tables.Part) -> Iterator[tables.Line]:
    """The paper's table 4, of the encoder at hand."""
    known = part.runs.record.iloc[0]["parts"]
    blocks = [n for name, n in known.items() if name.startswith("block ")]
    embeddings, pooler = known["embeddings"], known.get("pooler", 0)
    total = embeddings + sum(blocks) + pooler
    counts = {
        "embeddings": embeddings,
        "each block": blocks[0],
        "all blocks": sum(blocks),
        "pooler": pooler,
        "total": total,
    }
    encoder = PUBLISHED_NAMES.get(part.study.model)
    published = part.study.published.get("parameters", {}).get(encoder)
    for number, (name, count) in enumerate(counts.items()):
        values = {
            "part": name,
            "parameters": count,
            "share": 100 * count / total,
            "published": published[number] if published else "",
        }
        yield tables.Line(part, values=values)


# === Figures ===


def _measure_curve(curve: tables.Part) -> dict[float, Any]:
    """Score less that of training everything, by frozen blocks, rising."""
    blocks, trials = curve.runs.blocks.iloc[0], curve.words["trials"]
    points = {}
    for number, scores in trials.items():
        if number != ALL:
            points[blocks - number] = wording.subtract(scores, trials[ALL])
    return points


def published_curve(curve: tables.Part) -> dict[int, float]:
    """Relative score by frozen blocks, by the authors' averaging."""
    known, blocks = curve.words["theirs"], curve.runs.blocks.iloc[0]
    points = {}
    for number, (mean, *_) in known.items():
        if number != ALL:
            points[blocks - int(number)] = mean - known[ALL][0]
    return dict(sorted(points.items()))


def _list_curves(part: tables.Part) -> Iterator[tables.Line]:
    """The curves of a task, and the published one."""
    curves = [c for c in list_curves(part.study) if c.name == part.name]
    for curve in curves:
        drawn = _measure_curve(curve)
        yield tables.Line(curve, curve.runs, values={"curve": drawn})
    published = published_curve(curves[0])
    look = {"label": "published", "curve": published, "style": DOTTED}
    yield tables.Line(curves[0], values=look)


def _list_study(study: Study) -> list[tables.Part]:
    """The study as one part; none if its runs are a search."""
    if study.labelled.is_search.any():
        return []
    words = {"level": f"{100 * study.options.level:g}"}
    return [tables.Part(study, study.labelled, words=words)]


def _divide_tasks(study: Study) -> list[tables.Part]:
    """A part for each task, and each development set of MNLI."""
    names = dict.fromkeys(curve.name for curve in list_curves(study))
    return [tables.Part(study, study.runs, name) for name in names]


def _compare_epoch(line: tables.Line) -> float:
    """Seconds of an epoch in percent of those of training everything."""
    full = line.part.runs[line.part.runs.number == ALL]
    mine = line.runs.seconds_per_epoch.mean()
    return 100 * mine / full.seconds_per_epoch.mean()


def _know_nothing(line: tables.Line) -> str:
    """Of a line that has no value of a measure."""
    return ""


MEASURES: dict[str, tables.Measure] = {
    "interval": _know_nothing,
    "untried": _know_nothing,
    "relative": _know_nothing,
    "share": _know_nothing,
    "authors_score": _know_nothing,
    "authors_relative": _know_nothing,
    "epoch_share": _compare_epoch,
}
ROWS = {
    "points": _list_points,
    "blocks": _list_blocks,
    "parameters": _list_parameters,
    "curves": _list_curves,
}
PARTS = {"study": _list_study, "curves": list_curves, "tasks": _divide_tasks}
