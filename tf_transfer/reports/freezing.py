"""Tables and figures of "What Would Elsa Do?", from runs of `freezing`.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. Beside each stands what it
costs. A curve is a `Part` with one task and metric at one rate, its frozen
blocks live or cached; see `list_curves`.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tf_transfer.reports import claims, operating, tables, wording
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
FULL = {"levels": {"_full": 0.0}}  # training everything, in a figure
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
Blocks = (
    int | str | None
)  # a number of trained blocks, `all`, or none is enough


# === Curves ===


def list_curves(study: Study) -> list[tables.Part]:
    """The curves of a study: of a task one for each rate, mode and `untrained`.

    MNLI has two, if both its development sets were scored. A rate is chosen by
    the search, on validation. These runs have none: to choose among theirs
    would be to look at the test. What full models leave untrained is another
    curve, with the same frozen runs: these do not read it.

    Returns:
        The words of each: `task`, `metric`, `lr`, `mode`, `untrained` (`but`
        in a caption), `label`, `file`, `blocks` of the encoder; `runs` and
        `trials`, scores in points, by `all` and by falling number of trained
        blocks; `majority` in points or nan; `published` scores by number of
        trained blocks, {} where the runs are not at the paper's settings,
        encoder and data, or are the authors' own; `published_rate`, nan
        likewise.
    """
    by_blocks: list[dict[Blocks, pd.DataFrame]] = [
        {ALL: full, **frozen}
        for _, members in study.labelled.groupby(["text", "lr"], sort=False)
        for _, full in _take_full(members).groupby("untrained")
        for cached in (False, True)
        if (frozen := _find_frozen(members[members.cached == cached]))
    ]
    rates = {
        (runs[ALL].task.iloc[0], runs[ALL].lr.iloc[0]) for runs in by_blocks
    }
    counts = collections.Counter(task for task, _ in rates)
    curves = [
        c for runs in by_blocks for c in _make_curves(study, runs, counts)
    ]
    return sorted(curves, key=lambda c: (c.words["task"], c.name))


def _take_full(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that train everything, with what they leave `untrained`."""
    full = runs[(runs.approach == "fine_tuning") & ~runs.cached]
    return full.assign(
        untrained=[str(s.get("untrained", "")) for s in full.settings]
    )


def _find_frozen(runs: pd.DataFrame) -> dict[Blocks, pd.DataFrame]:
    """Runs of one mode by falling number of trained blocks."""
    dtypes = runs.settings.map(lambda s: str(s.get("cache_dtype", "")))
    # Seeds in two precisions are not so many seeds: the commonest counts.
    frozen = {
        int(number[1]): members
        for approach, members in runs[dtypes.isin(dtypes.mode()[:1])].groupby(
            "approach"
        )
        if (number := re.fullmatch(r"last_(\d+)", str(approach)))
    }
    return dict(sorted(frozen.items(), reverse=True))


def _make_curves(
    study: Study, runs: dict[Blocks, pd.DataFrame], rates: Mapping[str, int]
) -> Iterator[tables.Part]:
    """The curve of each metric, with scores and what is published.

    Args:
        study: theirs.
        runs: by `all` and by falling number of trained blocks.
        rates: how many each task has.
    """
    joined = pd.concat(runs.values())
    first = joined.iloc[0]
    label = tables.join(
        "cached" if joined.cached.iloc[-1] else "live",
        f"lr {first.lr:g}" * (rates[first.task] > 1),
        f"untrained {first.untrained}" * bool(first.untrained),
    )
    published = _find_published(study, joined)
    has_both = all(MISMATCHED in known for known in joined.metrics)
    both = ("", first.metric), (", mismatched", MISMATCHED)
    for suffix, metric in both[: 1 + has_both]:
        title = PUBLISHED_TASKS.get(first.task + suffix, "")
        known = first.record["majorities"].get(metric, math.nan)
        name = first.text + suffix
        yield tables.Part(
            study,
            joined,
            name,
            {
                "task": first.task,
                "metric": metric,
                "lr": first.lr,
                "mode": label.partition(",")[0],
                "label": label,
                "untrained": first.untrained,
                "but": ". Untrained where everything else trains: "
                f"{first.untrained}" * bool(first.untrained),
                "file": name.replace(", ", "_")
                + re.sub("[, ]+", "_", f", {label}"),
                "blocks": int(first.blocks),
                "runs": runs,
                "trials": {
                    blocks: list(
                        members.score
                        if metric == first.metric
                        else members.metrics.str[metric]
                    )
                    for blocks, members in runs.items()
                },
                "majority": 100 * known,
                "baseline": ""
                if math.isnan(known)
                else f"The majority baseline scores {100 * known:.2f}. ",
                "published": published.get("scores", {}).get(title, {}),
                "published_rate": SWEEP_UNIT
                * published.get("rates", {}).get(title, math.nan),
            },
        )


def _find_published(
    study: Study, runs: pd.DataFrame, ignored: claims.Settings | None = None
) -> dict[str, dict[str, Any]]:
    """The authors' figures of an encoder by kind and task.

    Args:
        study: theirs.
        runs: figures stand beside these alone, at the authors' settings.
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


# === Tables ===


def _describe_blocks(
    curve: tables.Part, label: str, blocks: Blocks, authors: Blocks
) -> tables.Line:
    """Score and cost at a number of trained blocks.

    Args:
        curve: see `list_curves`.
        label: what the number is.
        blocks: by the plain mean.
        authors: by the authors' averaging.
    """
    words, trials = curve.words, curve.words["trials"]
    theirs = _compare(trials, authors, operating.authors_mean)
    values = {
        **words,
        "name": curve.name,
        "quality": label,
        "rate": wording.rate(words["lr"]),
        "published_rate": wording.rate(words["published_rate"]),
        "frozen": 0 if blocks == ALL else words["blocks"] - (blocks or 0),
        "trained": _name_blocks(blocks),
        "published": _show_published(curve, blocks),
        "authors_trained": _name_blocks(authors),
        **{f"authors_{name}": value for name, value in theirs.items()},
        **_compare(trials, blocks, operating.plain_mean),
        "score": trials.get(blocks, ""),
    }
    return tables.Line(
        curve, words["runs"].get(blocks, curve.runs.iloc[:0]), values=values
    )


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
    known = curve.words["published"].get(str(blocks), ())[:3:2]
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
    kinds = [(c.words["mode"], c.words["untrained"]) for c in curves]
    for kind in dict.fromkeys(kinds):
        alike = [
            curve
            for curve, its_kind in zip(curves, kinds)
            if its_kind == kind and curve.words["task"] != LEFT_OUT
        ]
        if 1 < len({curve.name for curve in alike}) == len(alike):
            for quality in options.qualities:
                yield _find_common_point(alike, quality)


def _find_points(curve: tables.Part, quality: float) -> list[int | None]:
    """The operating points by the plain mean, by the authors' and in theirs."""
    trials, published = curve.words["trials"], curve.words["published"]
    theirs = {n if n == ALL else int(n): [v[0]] for n, v in published.items()}
    return [
        operating.operating_point(trials, quality),
        operating.operating_point(trials, quality, operating.authors_mean),
        operating.operating_point(theirs, quality) if theirs else None,
    ]


def _name_quality(curves: list[tables.Part], quality: float) -> str:
    """`> 90 %`, with a star where the majority baseline alone passes."""
    passes = any(
        curve.words["majority"]
        > quality * operating.plain_mean(curve.words["trials"][ALL])
        for curve in curves
    )
    return f"> {100 * quality:.4g} %" + "*" * passes


def _find_point(
    curve: tables.Part, quality: float, level: float
) -> tables.Line:
    """An operating point's line."""
    trials = curve.words["trials"]
    point, authors, theirs = _find_points(curve, quality)
    line = _describe_blocks(
        curve, _name_quality([curve], quality), point, authors
    )
    published = _show_published(curve, theirs)
    other = f" with {theirs}" * bool(published and theirs != point)
    below = operating.list_untried(trials, point) if point else ()
    values = {
        **line.values,
        "published": published + other,
        "untried": ", ".join(map(str, below)),
    }
    if min(map(len, trials.values())) > 1:
        values["interval"] = " to ".join(
            map(_name_blocks, operating.interval(trials, quality, level))
        )
    return dataclasses.replace(line, values=values)


def _find_common_point(
    curves: list[tables.Part], quality: float
) -> tables.Line:
    """The fewest blocks that are enough on every task but CoLA."""
    plain, authors, theirs = (
        NEVER if None in points else str(max(points))
        for points in zip(*(_find_points(curve, quality) for curve in curves))
    )
    return tables.Line(
        curves[0],
        values={
            "name": COMMON,
            "mode": curves[0].words["mode"],
            "untrained": curves[0].words["untrained"],
            "quality": _name_quality(curves, quality),
            "trained": plain,
            "authors_trained": authors,
            "published": f"with {theirs}"
            * all(curve.words["published"] for curve in curves),
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
        PUBLISHED_NAMES.get(part.study.model), [""] * len(counts)
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


def has_search_alone(study: Study) -> bool:
    """Whether its runs are the search of the rate: they train everything."""
    return bool((study.runs.approach == "fine_tuning").all())


def _list_search(part: tables.Part) -> list[tables.Line]:
    """Validation scores at each rate, beside the authors' own sweep."""
    runs = _take_full(part.runs[part.runs.validation.notna()])
    groups = runs.groupby(["text", "untrained", "lr"])
    means = groups.validation.mean()
    best = means.groupby(["text", "untrained"]).transform("max") == means
    # They held out nothing; what their full models left untrained, nobody
    # knows.
    ignored = dict.fromkeys(("validation_fraction", "untrained"))
    sweeps = {
        text: _find_published(part.study, of_text, ignored)
        .get("rate_sweep", {})
        .get(PUBLISHED_TASKS.get(of_text.task.iloc[0], ""), {})
        for text, of_text in runs.groupby("text")
    }
    return [
        tables.Line(
            part,
            group,
            values={
                "untrained": untrained,
                "best": "best" if best[text, untrained, lr] else "",
                "published": sweeps[text].get(str(round(lr / SWEEP_UNIT)), ""),
            },
        )
        for (text, untrained, lr), group in groups
    ]


# === Figures ===


def _measure_curve(curve: tables.Part, unit: float = 1.0) -> dict[float, Any]:
    """Score less that of training everything, by frozen blocks, rising."""
    blocks, trials = curve.words["blocks"], curve.words["trials"]
    return {
        (blocks - number) * unit: wording.subtract(scores, trials[ALL])
        for number, scores in trials.items()
        if number != ALL
    }


def published_curve(curve: tables.Part) -> dict[int, float]:
    """Relative score by frozen blocks, by the authors' averaging."""
    published = curve.words["published"]
    tried = sorted((n for n in published if n != ALL), key=int, reverse=True)
    return {
        curve.words["blocks"] - int(n): published[n][0] - published[ALL][0]
        for n in tried
    }


def _list_curves(part: tables.Part) -> Iterator[tables.Line]:
    """The curves of a task and the scores of all trials; the published one."""
    curves = [c for c in list_curves(part.study) if c.name == part.name]
    for curve in curves:
        words, trials = curve.words, curve.words["trials"]
        full = operating.plain_mean(trials[ALL])
        dots = {
            words["blocks"] - number - 0.15 - 0.01 * trial: score - full
            for number, scores in trials.items()
            for trial, score in enumerate(scores)
            if number != ALL
        }
        *_, fewest = words["runs"].values()
        for label, shown, style in (
            (words["label"], _measure_curve(curve), {}),
            (f"_{words['label']}", dots, DOTS),
        ):
            values = {"label": label, "curve": shown, "style": style}
            yield tables.Line(
                curve, fewest, values={"colour": words["label"], **values}
            )
    for curve in curves[:1]:
        values = {"curve": published_curve(curve), "style": DOTTED}
        values |= dict.fromkeys(("label", "colour"), "published")
        yield tables.Line(curve, values=values)


def _divide_by_encoder(study: Study) -> list[tables.Part]:
    """A part for each task of all encoders; none of a single encoder.

    Of each encoder its largest study that froze something, with live blocks
    where it has them. Only the first study has them.
    """
    curves_of = []
    for model, members in study.all_runs.groupby("model"):
        studies = (
            dataclasses.replace(study, runs=members[members.study == name])
            for name in members.study.value_counts().index
        )
        curves = next(filter(None, map(list_curves, studies)), [])
        live = [c for c in curves if c.words["mode"] == "live"]
        curves_of += [(model, curve) for curve in live or curves]
    is_shown = study.name == "A" and len({model for model, _ in curves_of}) > 1
    return [
        tables.Part(study, study.runs, task, {**FULL, "curves": curves_of})
        for task in sorted({curve.name for _, curve in curves_of})
        if is_shown
    ]


def _divide_by_task(study: Study) -> list[tables.Part]:
    """A part for each task and metric that has a curve."""
    names = dict.fromkeys(curve.name for curve in list_curves(study))
    return [
        tables.Part(study, study.runs, name, {**FULL, "blocks": study.blocks})
        for name in names
    ]


def _take_whole(study: Study) -> tables.Part:
    return tables.Part(
        study,
        study.labelled,
        words={
            "model": study.model,
            "blocks": study.blocks,
            "level": f"{100 * study.options.level:g}",
        },
    )


MEASURES: dict[str, tables.Measure] = {
    **dict.fromkeys(
        ("interval", "untried", "published", "relative", "share")
        + ("authors_score", "authors_relative", "authors_share"),
        lambda line: "",
    ),
    "epoch_share": lambda line: (
        100
        * line.runs.seconds_per_epoch.mean()
        / line.part.words["runs"][ALL].seconds_per_epoch.mean()
    ),
    "gigabytes": lambda line: line.runs.memory.mean() / 1e9,
}
ROWS = {
    "search": _list_search,
    "points": _list_points,
    # Quality and cost at every number of frozen blocks.
    "blocks": lambda curve: [
        _describe_blocks(curve, "", blocks, blocks)
        for blocks in curve.words["trials"]
    ],
    "parameters": _list_parameters,
    "curves": _list_curves,
    "encoders": lambda part: [
        tables.Line(
            curve,
            values={
                "label": model + curve.words["but"].replace(". U", ", u"),
                "model": model,
                "curve": _measure_curve(curve, 100 / curve.words["blocks"]),
            },
        )
        for model, curve in part.words["curves"]
        if curve.name == part.name
    ],
}
PARTS = {
    "search": lambda study: [_take_whole(study)] * has_search_alone(study),
    "points": lambda study: (
        [_take_whole(study)] * (not has_search_alone(study))
    ),
    "curves": list_curves,
    "tasks": _divide_by_task,
    "encoders": _divide_by_encoder,
}


# === What to know when reading ===


def notes(study: Study) -> list[str]:
    """What a reader must know of these tables, a sentence each."""
    curves = list_curves(study)
    tried = [{*curve.words["trials"]} - {ALL} for curve in curves]
    has_holes = any(max(t) - min(t) + 1 > len(t) for t in tried)
    recorded_by = study.runs.settings.iloc[0].get("recorded_by", "")
    notes = {
        f"These runs are records of {recorded_by}, not ours. What they do not "
        "have, such as times and predictions, is empty.": bool(recorded_by),
        "Between numbers that were not tried we assume that more trained "
        "blocks are never worse.": has_holes,
    }
    return [
        *tables.select_notes(notes),
        *_describe_savings(curves),
        *tables.explain_tables(study),
        "Where the paper is silent, and what we chose: docs/freezing.md.",
    ]


def _describe_savings(curves: list[tables.Part]) -> Iterator[str]:
    """What the frozen runs of a task took cached, against live."""
    timed = {
        (c.name, c.words["lr"], c.words["untrained"], c.words["mode"]): {
            blocks: runs[runs.seconds.notna()]
            for blocks, runs in c.words["runs"].items()
            if blocks != ALL
        }
        for c in curves
    }
    for (name, *rest, mode), live in timed.items():
        cached = timed.get((name, *rest, "cached"), {})
        both = [n for n in live if 0 < len(live[n]) == len(cached.get(n, ()))]
        if mode == "live" and both:
            before = sum(live[n].seconds.sum() for n in both)
            after = pd.concat([cached[n] for n in both])
            # Each cut goes on from a shallower one, so that building the
            # deepest one takes in all of them, whichever run paid for it.
            building = [r["prefix_build_seconds"] for r in after.record]
            seconds = (after.seconds - building).sum() + max(building)
            yield (
                f"{name}, the {len(after)} runs with "
                f"{', '.join(map(str, sorted(both)))} trained blocks: "
                f"{before:.0f} s live, {seconds:.0f} s cached with the "
                "building of the cache, "
                f"{100 * seconds / before:.1f} % of it."
            )
