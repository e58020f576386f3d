"""Tables and figures of "What Would Elsa Do?", from runs of `freezing`.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. Beside each stands what it
costs. A curve is a `Part` with one task and metric at one rate, its frozen
blocks live or cached; see `list_curves`.
"""

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tf_transfer.reports import claims
from tf_transfer.reports import operating
from tf_transfer.reports import overview
from tf_transfer.reports import tables
from tf_transfer.reports import wording
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
        The words of each: `task`, `metric`, `lr`, `mode`, `untrained`,
        `blocks` of the encoder; `runs` and `trials`, scores in points, by `all`
        and by falling number of trained blocks; `majority` in points or nan;
        `published` scores by number of trained blocks, {} where the runs are
        not at the paper's settings, encoder and data, or are the authors' own;
        `published_rate`, nan likewise.
    """
    curves: list[tables.Part] = []
    labelled = tables.label_runs(study.runs)
    for (text, lr), members in labelled.groupby(["text", "lr"], sort=False):
        full = _take_full(members)
        for untrained, cached in itertools.product(
            sorted({*full.untrained}), (False, True)
        ):
            runs: dict[int | str, pd.DataFrame] = {
                ALL: full[full.untrained == untrained]
            }
            runs |= _find_frozen(members[members.cached == cached])
            if len(runs) > 1:
                words = {
                    "lr": lr,
                    "mode": "cached" if cached else "live",
                    "untrained": untrained,
                    "but": ". Untrained where everything else trains: "
                    f"{untrained}" * bool(untrained),
                    "runs": runs,
                }
                curves += _make_curves(
                    tables.Part(study, members, str(text), words)
                )
    rates = {(c.words["task"], c.words["lr"]) for c in curves}
    counts = collections.Counter(task for task, _ in rates)
    return [
        dataclasses.replace(
            curve,
            words={
                **curve.words,
                "file": f"{curve.name.replace(', ', '_')}_{curve.words['mode']}"
                + f"_lr_{curve.words['lr']:g}"
                * (counts[curve.words["task"]] > 1)
                + f"_untrained_{curve.words['untrained'].replace(',', '_')}"
                * bool(curve.words["untrained"]),
            },
        )
        for curve in sorted(curves, key=lambda c: (c.words["task"], c.name))
    ]


def _take_full(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that train everything, with what they leave `untrained`."""
    full = runs[(runs.approach == "fine_tuning") & ~runs.cached]
    return full.assign(
        untrained=[str(s.get("untrained", "")) for s in full.settings]
    )


def _find_frozen(runs: pd.DataFrame) -> dict[int | str, pd.DataFrame]:
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


def _make_curves(part: tables.Part) -> Iterator[tables.Part]:
    """The curve of each metric, with scores and what is published."""
    study, runs = part.study, part.words["runs"]
    joined = pd.concat(runs.values())
    first = joined.iloc[0]
    model = PUBLISHED_NAMES.get(str(first.model), "")
    is_papers = (
        study.paper is not None
        and "recorded_by" not in first.settings
        and not claims.list_differences(joined, study.paper)
    )
    published = study.published if is_papers else {}
    rates = published.get("rates", {})
    metrics = {"": str(first.metric), ", mismatched": MISMATCHED}
    if not all(MISMATCHED in known for known in joined.metrics):
        del metrics[", mismatched"]
    for suffix, metric in metrics.items():
        title = PUBLISHED_TASKS.get(first.task + suffix, "")
        steps = rates.get(model, {}).get(title, float("nan"))
        known = first.record["majorities"].get(metric, float("nan"))
        majority = f"The majority baseline scores {100 * known:.2f}. "
        words = {
            "task": str(first.task),
            "metric": metric,
            "blocks": int(first.blocks),
            "trials": {
                blocks: list(
                    members.score
                    if metric == first.metric
                    else members.metrics.str[metric]
                )
                for blocks, members in runs.items()
            },
            "majority": 100 * known,
            "baseline": "" if pd.isna(known) else majority,
            "published": published.get("scores", {})
            .get(model, {})
            .get(title, {}),
            "published_rate": steps * rates.get("unit", 1.0),
        }
        yield dataclasses.replace(
            part, name=part.name + suffix, words={**part.words, **words}
        )


# === Tables ===


def _describe_blocks(
    curve: tables.Part, label: str, blocks: Blocks, authors: Blocks
) -> dict[str, Any]:
    """Score and cost at a number of trained blocks, as values of a line.

    Args:
        curve: see `list_curves`.
        label: what the number is.
        blocks: by the plain mean.
        authors: by the authors' averaging.
    """
    words, trials = curve.words, curve.words["trials"]
    values = {
        **words,
        "name": curve.name,
        "quality": label,
        "rate": wording.rate(words["lr"]),
        "published_rate": wording.rate(words["published_rate"]),
        "trained": _name_blocks(blocks),
        "published": _show_published(curve, blocks),
        "authors_trained": _name_blocks(authors),
        "trials": "",
    }
    if authors is not None:
        mean, full = (operating.authors_mean(trials[n]) for n in (authors, ALL))
        values |= {
            "authors_score": mean,
            "authors_relative": mean - full,
            "authors_share": _share(mean, full),
        }
    if blocks is not None:
        mean, full = (operating.plain_mean(trials[n]) for n in (blocks, ALL))
        runs, base = words["runs"][blocks], words["runs"][ALL]
        values |= {
            "score": trials[blocks],
            "trials": len(trials[blocks]),
            "relative": mean - full,
            "share": _share(mean, full),
            "epoch_share": 100
            * runs.seconds_per_epoch.mean()
            / base.seconds_per_epoch.mean(),
            "gigabytes": runs.memory.mean() / 1e9,
        }
    return values


def _name_blocks(blocks: Blocks) -> str:
    return NEVER if blocks is None else str(blocks)


def _share(score: float, full: float) -> str:
    """A score in percent of that of training everything."""
    return f"{100 * score / full:.1f}" if full > 0 else ""


def _show_published(curve: tables.Part, blocks: Blocks) -> str:
    """The authors' mean and deviation at a number of trained blocks."""
    mean, _, deviation, *_ = curve.words["published"].get(
        str(blocks), [float("nan")] * 3
    )
    after = "" if deviation is None else f" ± {deviation:.2f}"
    return "" if pd.isna(mean) else f"{mean:.2f}{after}"


def _list_blocks(curve: tables.Part) -> list[tables.Line]:
    """Quality and cost at every number of frozen blocks."""
    words = curve.words
    return [
        tables.Line(
            curve,
            words["runs"][blocks],
            values={
                **_describe_blocks(curve, "", blocks, blocks),
                "frozen": 0 if blocks == ALL else words["blocks"] - blocks,
            },
        )
        for blocks in words["trials"]
    ]


def _list_points(part: tables.Part) -> Iterator[tables.Line]:
    """All, enough, none trained; with what each costs."""
    options, curves = part.study.options, list_curves(part.study)
    for curve in curves:
        fewest = min(n for n in curve.words["trials"] if n != ALL)
        none = f"{fewest or 'none'} trained"
        for values in (
            _describe_blocks(curve, "all", ALL, ALL),
            *(_find_point(curve, q, options.level) for q in options.qualities),
            _describe_blocks(curve, none, fewest, fewest),
        ):
            yield tables.Line(curve, values=values)
    # Only where each task has one curve, so that it is clear which is meant.
    alike: dict[tuple[str, str], list[tables.Part]] = {}
    for curve in curves:
        if curve.words["task"] != LEFT_OUT:
            key = curve.words["mode"], curve.words["untrained"]
            alike.setdefault(key, []).append(curve)
    for members in alike.values():
        if 1 < len({curve.name for curve in members}) == len(members):
            for quality in options.qualities:
                yield _find_common_point(members, quality)


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
) -> dict[str, Any]:
    """The values of an operating point's line."""
    trials = curve.words["trials"]
    point, authors, theirs = _find_points(curve, quality)
    label = _name_quality([curve], quality)
    values = _describe_blocks(curve, label, point, authors)
    published = _show_published(curve, theirs)
    other = f" with {theirs}" * bool(published and theirs != point)
    values["published"] = published + other
    if min(map(len, trials.values())) > 1:
        interval = operating.interval(trials, quality, level)
        ends = map(_name_blocks, (interval.low, interval.high))
        values["interval"] = " to ".join(ends)
    untried = operating.untried_below(trials, point) if point else 0
    below = range((point or 0) - untried, point or 0)
    values["untried"] = ", ".join(map(str, below))
    return values


def _find_common_point(
    curves: list[tables.Part], quality: float
) -> tables.Line:
    """The fewest blocks that are enough on every task but CoLA."""
    plain, authors, theirs = (
        NEVER if None in points else str(max(points))
        for points in zip(*(_find_points(curve, quality) for curve in curves))
    )
    is_published = all(curve.words["published"] for curve in curves)
    values = {
        "name": COMMON,
        "mode": curves[0].words["mode"],
        "untrained": curves[0].words["untrained"],
        "quality": _name_quality(curves, quality),
        "trained": plain,
        "authors_trained": authors,
        "published": f"with {theirs}" * is_published,
    }
    return tables.Line(curves[0], values=values)


def _list_parameters(part: tables.Part) -> list[tables.Line]:
    """The paper's table 4, of the encoder at hand."""
    known = part.runs.record.iloc[0]["parts"]
    blocks = [n for name, n in known.items() if name.startswith("block ")]
    counts = {
        "embeddings": known["embeddings"],
        "each block": blocks[0],
        "all blocks": sum(blocks),
        "pooler": known.get("pooler", 0),
    }
    counts["total"] = sum(counts.values()) - blocks[0]
    name = PUBLISHED_NAMES.get(part.study.model)
    theirs = part.study.published.get("parameters", {}).get(name)
    values = zip(counts.items(), theirs or [""] * len(counts))
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
        for (name, count), published in values
    ]


def has_search_alone(study: Study) -> bool:
    """Whether its runs are the search of the rate: they train everything."""
    return bool((study.runs.approach == "fine_tuning").all())


def _list_search(part: tables.Part) -> list[tables.Line]:
    """Validation scores at each rate, beside the authors' own sweep."""
    runs = _take_full(part.runs[part.runs.validation.notna()])
    if not has_search_alone(part.study):
        return []
    groups = runs.groupby(["text", "untrained", "lr"])
    means = groups.validation.mean()
    best = means.groupby(["text", "untrained"]).transform("max") == means
    sweeps = {
        text: _find_sweep(part.study, of_text)
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


def _find_sweep(study: Study, runs: pd.DataFrame) -> dict[str, float]:
    """The authors' means by rate, where runs on a task are at their settings.

    But for what validates: they held out nothing.
    """
    first = runs.iloc[0]
    # What their full models left untrained, nobody knows.
    known = dict.fromkeys(("validation_fraction", "untrained"))
    if study.paper is None or claims.list_differences(runs, study.paper, known):
        return {}
    model = PUBLISHED_NAMES.get(str(first.model), "")
    sweep = study.published.get("rate_sweep", {}).get(model, {})
    return sweep.get(PUBLISHED_TASKS.get(str(first.task), ""), {})


# === Figures ===


def _measure_curve(curve: tables.Part, unit: float = 1.0) -> dict[float, Any]:
    """Score less that of training everything, by frozen blocks, rising."""
    blocks, trials = curve.words["blocks"], curve.words["trials"]
    return {
        (blocks - number) * unit: overview.subtract(scores, trials[ALL])
        for number, scores in trials.items()
        if number != ALL
    }


def published_curve(curve: tables.Part) -> dict[int, float]:
    """Relative score by frozen blocks, by the authors' averaging."""
    published = curve.words["published"]
    return {
        curve.words["blocks"] - int(blocks): known[0] - published[ALL][0]
        for blocks, known in sorted(
            published.items(),
            key=lambda item: str(item[0]).zfill(3),
            reverse=True,
        )
        if blocks != ALL
    }


def _list_curves(part: tables.Part) -> list[tables.Line]:
    """The curves of a task, with the published one."""
    curves = [c for c in list_curves(part.study) if c.name == part.name]
    several = len({curve.words["lr"] for curve in curves}) > 1
    lines = []
    for curve in curves:
        trials, words = curve.words["trials"], curve.words
        full = operating.plain_mean(trials[ALL])
        untrained = f", untrained {words['untrained']}" * bool(
            words["untrained"]
        )
        values = {
            "label": f"{words['mode']}"
            + f", lr {words['lr']:g}" * several
            + untrained,
            "curve": _measure_curve(curve),
            "dots": {
                words["blocks"] - number - 0.15: [s - full for s in scores]
                for number, scores in trials.items()
                if number != ALL
            },
            "level": {"_full": 0.0},
        }
        *_, fewest = words["runs"].values()
        lines.append(tables.Line(curve, fewest, values=values))
    if curves and curves[0].words["published"]:
        style = {"color": "#000000", "linestyle": ":", "marker": ""}
        values = {"label": "published", "curve": published_curve(curves[0])}
        values |= {"dots": {}, "level": {}, "style": style}
        lines.append(tables.Line(curves[0], values=values))
    return lines


def _divide_by_encoder(study: Study) -> list[tables.Part]:
    """A part for each task of all encoders; none of a single encoder.

    Of each encoder its largest study that froze something, with live blocks
    where it has them. Only the first study has them.
    """
    by_model: dict[str, list[tables.Part]] = {}
    for model, members in study.all_runs.groupby("model"):
        for name in members.study.value_counts().index:
            runs = members[members.study == name]
            curves = list_curves(dataclasses.replace(study, runs=runs))
            if curves and model not in by_model:
                live = [c for c in curves if c.words["mode"] == "live"]
                by_model[str(model)] = live or curves
    found = [(m, curve) for m, curves in by_model.items() for curve in curves]
    if len(by_model) < 2 or study.name != "A":
        return []
    return [
        tables.Part(study, study.runs, task, {"curves": found})
        for task in sorted({curve.name for _, curve in found})
    ]


def _list_encoders(part: tables.Part) -> list[tables.Line]:
    return [
        tables.Line(
            curve,
            values={
                "label": model + curve.words["but"].replace(". U", ", u"),
                "model": model,
                "curve": _measure_curve(curve, 100 / curve.words["blocks"]),
                "level": {"_full": 0.0},
            },
        )
        for model, curve in part.words["curves"]
        if curve.name == part.name
    ]


def _divide_by_task(study: Study) -> list[tables.Part]:
    """A part for each task and metric that has a curve."""
    words = {"blocks": study.blocks}
    names = dict.fromkeys(curve.name for curve in list_curves(study))
    return [tables.Part(study, study.runs, name, words) for name in names]


def _take_whole(study: Study) -> list[tables.Part]:
    """The study, where it is not the search alone."""
    words = {
        "model": study.model,
        "blocks": study.blocks,
        "level": f"{100 * study.options.level:g}",
    }
    return (
        []
        if has_search_alone(study)
        else [tables.Part(study, study.runs, "", words)]
    )


MEASURES: dict[str, tables.Measure] = dict.fromkeys(
    ("interval", "untried", "published", "relative", "share", "epoch_share")
    + ("gigabytes", "authors_score", "authors_relative", "authors_share"),
    lambda line: "",
)
ROWS = {
    "search": _list_search,
    "points": _list_points,
    "blocks": _list_blocks,
    "parameters": _list_parameters,
    "curves": _list_curves,
    "encoders": _list_encoders,
}
PARTS = {
    "points": _take_whole,
    "curves": list_curves,
    "tasks": _divide_by_task,
    "encoders": _divide_by_encoder,
}


# === What to know when reading ===


def notes(study: Study) -> list[str]:
    """What a reader must know of these tables, a sentence each."""
    said = []
    recorded_by = study.runs.settings.iloc[0].get("recorded_by")
    if recorded_by:
        said.append(
            f"These runs are records of {recorded_by}, not ours. What they do "
            "not have, such as times and predictions, is empty."
        )
    curves = list_curves(study)
    for curve in curves:
        tried = {*curve.words["trials"]} - {ALL}
        if max(tried) - min(tried) + 1 > len(tried):
            said.append(
                "Between numbers that were not tried we assume that more "
                "trained blocks are never worse."
            )
    return [
        *dict.fromkeys([*said, *_describe_savings(curves)]),
        *tables.explain_tables(study),
        "Where the paper is silent, and what we chose: docs/freezing.md.",
    ]


def _describe_savings(curves: list[tables.Part]) -> Iterator[str]:
    """What the frozen runs of a task took cached, against live."""
    by_mode: dict[tuple[str, ...], dict[str, dict[int, pd.DataFrame]]] = {}
    for curve in curves:
        key = curve.name, curve.words["lr"], curve.words["untrained"]
        by_mode.setdefault(key, {})[curve.words["mode"]] = {
            blocks: runs[runs.seconds.notna()]
            for blocks, runs in curve.words["runs"].items()
            if blocks != ALL
        }
    for (name, *_), modes in by_mode.items():
        live, cached = modes.get("live", {}), modes.get("cached", {})
        both = [n for n in live if 0 < len(live[n]) == len(cached.get(n, ()))]
        if both:
            before = pd.concat([live[n] for n in both])
            after = pd.concat([cached[n] for n in both])
            # Each cut goes on from a shallower one, so that building the
            # deepest one takes in all of them, whichever run paid for it.
            building = [r["prefix_build_seconds"] for r in after.record]
            seconds = (after.seconds - building).sum() + max(building)
            yield (
                f"{name}, the {len(after)} runs with "
                f"{', '.join(map(str, sorted(both)))} trained blocks: "
                f"{before.seconds.sum():.0f} s live, {seconds:.0f} s cached "
                "with the building of the cache, "
                f"{100 * seconds / before.seconds.sum():.1f} % of it."
            )
