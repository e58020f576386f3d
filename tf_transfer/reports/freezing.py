"""The tables and figure of "What Would Elsa Do?", from runs of `freezing`.

The tables of quality and cost are in `freezing_tables`; here is what stands
around them: the search, the encoder's parameters, the figure, and what became
of the paper's claims.
"""

import itertools
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import figures
from tf_transfer.reports import freezing_tables
from tf_transfer.reports import operating
from tf_transfer.reports import studies
from tf_transfer.reports.document import footnotes
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.freezing_tables import Row
from tf_transfer.reports.options import Options
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import spread


def sections(
    study: studies.Study,
    summary: dict[str, Any],
    published: dict[str, Any],
    options: Options = Options(),
) -> list[Part]:
    """The parts of a report on one study; see `reports.glue.sections`."""
    if study.settings["validation_fraction"]:
        return _search(study)
    rows = freezing_tables.rows_of(study, summary, published)
    notes = [*filter(None, [published.get("source")])]
    notes.append(
        "Where the paper is silent, and what we chose: the docstring of "
        "tf_transfer/freezing.py."
    )
    return [
        *_parameters(study, published),
        *freezing_tables.results(study, rows, options),
        *_curves(study, rows),
        *_claims(study, rows, published),
        *footnotes(notes + notes_on_model(study.model)),
    ]


def _search(study: studies.Study) -> list[Part]:
    """The search of the rate."""
    rows = []
    for dataset in study.datasets:
        best = dataset.base
        rows += [
            (
                dataset.name,
                f"{cell.lr:g}",
                spread(cell.validation),
                cell.n,
                "best" if cell is best else "",
            )
            for cell in dataset.cells_by_rate((studies.BASE, False))
        ]
    caption = "The search: validation scores of training everything, in points"
    columns = ("task", "lr", "validation", "trials", "")
    return [
        Heading(3, "Learning rates"),
        Table(f"search_{study.name}", caption, columns, rows),
    ]


# === Tables ===


def _parameters(study: studies.Study, published: dict[str, Any]) -> list[Part]:
    """The paper's table 4, of the encoder at hand."""
    parts = study.records[0]["parts"]
    blocks = [n for name, n in parts.items() if name.startswith("block ")]
    counts = {
        "embeddings": parts["embeddings"],
        "each block": blocks[0],
        "all blocks": sum(blocks),
        "pooler": parts.get("pooler", 0),
    }
    counts["total"] = sum(counts.values()) - blocks[0]
    theirs = published.get("parameters", {}).get(
        freezing_tables.PUBLISHED_NAMES.get(study.model)
    )
    rows = [
        (
            name,
            f"{count:,}",
            percent(100 * count / counts["total"]),
            f"{theirs[index]:,}" if theirs else "",
        )
        for index, (name, count) in enumerate(counts.items())
    ]
    caption = f"Parameters of {study.model}, {study.blocks} blocks"
    columns = ("part", "parameters", "share", "the paper's architecture")
    table = Table(f"parameters_{study.name}", caption, columns, rows)
    return [Heading(3, "Where the parameters are"), table]


# === Figure and verdicts ===


def _curves(study: studies.Study, rows: Sequence[Row]) -> list[Part]:
    """Relative score against frozen blocks, the paper's figure."""
    curves = {}
    for row in rows:
        modes = {row.mode: row.trials, "published": row.published_trials}
        for mode, trials in modes.items():
            curve = [
                (
                    study.blocks - blocks,
                    operating.plain_mean(scores)
                    - operating.plain_mean(trials[operating.ALL]),
                )
                for blocks, scores in trials.items()
                if isinstance(blocks, int)
            ]
            if curve:
                curves[row.name, mode] = curve
    figure = figures.relative_scores(study, curves)
    return [Heading(3, "Relative score"), figure] if figure else []


def _claims(
    study: studies.Study, rows: Sequence[Row], published: dict[str, Any]
) -> list[Part]:
    """What became of the paper's claims, and what the cache saves."""
    items = []
    for mode in ("live", "cached"):
        of_mode = [row for row in rows if row.mode == mode]
        # The paper leaves CoLA out.
        judged = [row for row in of_mode if row.task != "cola"]
        if judged:
            items += [
                _judge_fourth(judged, mode, study.blocks, published),
                f"Training everything is worse than freezing, {mode}: "
                f"{', '.join(_better_than_all(judged)) or 'nowhere'}.",
            ]
        items += _nothing_trained(of_mode, mode, published)
    items += _time_saved(rows)
    if not items:
        return []
    return [Heading(3, "The paper's claims"), Items(tuple(items))]


def _judge_fourth(
    rows: Sequence[Row], mode: str, blocks: int, published: dict[str, Any]
) -> str:
    """Whether a fourth of the blocks is enough."""
    fourth = -(-blocks // 4)
    points, answers = [], []
    for row in rows:
        point = operating.operating_point(row.trials, 0.9)
        name = f"{row.name} {'never' if point is None else point}"
        points.append(name + ("*" if row.majority_passes(0.9) else ""))
        if not row.majority_passes(0.9):
            answers.append(_is_enough(row, point, fourth))
    verdict = "is not decided"
    if "no" in answers:
        verdict = "does not hold"
    elif answers and "open" not in answers:
        verdict = "holds"
    theirs = published.get("operating_points", {}).get("trained_blocks", {})
    known = ", ".join(f"{name} {count}" for name, count in theirs.items())
    return (
        f"A fourth of the blocks ({fourth} of {blocks}, rounded up) for 90 %, "
        f"CoLA left out, {mode}: **{verdict}** ({', '.join(points)})"
        + (f"; the paper's own: {known}" if known else "")
        + ". *: the majority class alone passes, so it counts for nothing."
    )


def _is_enough(row: Row, point: int | None, blocks: int) -> str:
    """`yes`, `no`, or `open` where the deciding numbers were not tried."""
    if point is None:
        return "no"
    if point <= blocks:
        return "yes"
    untried = operating.untried_below(row.trials, point)
    return "open" if point - untried <= blocks else "no"


def _better_than_all(rows: Sequence[Row]) -> list[str]:
    """Where freezing scores above training everything."""
    return [
        f"{row.name} with {blocks} trained"
        for row in rows
        for blocks, scores in row.trials.items()
        if blocks != operating.ALL and operating.plain_mean(scores) > row.full
    ]


def _nothing_trained(
    rows: Sequence[Row], mode: str, published: dict[str, Any]
) -> Iterator[str]:
    """What is left with nothing but pooler and head trained."""
    shares = [
        100 * operating.plain_mean(row.trials[0]) / row.full
        for row in rows
        if 0 in row.trials and row.full > 0
    ]
    if shares:
        theirs = published.get("nothing_trained_share")
        yield (
            "With nothing but pooler and head trained, "
            f"{percent(sum(shares) / len(shares))} of the full score are left, "
            f"{mode}, mean of {len(shares)} tasks"
            + (f" (paper: {theirs} %)." if theirs else ".")
        )


def _time_saved(rows: Sequence[Row]) -> Iterator[str]:
    """What the frozen runs of a task took cached, against live."""
    for live, cached in itertools.permutations(rows, 2):
        if live.cached or not cached.cached:
            continue
        if (live.name, live.lr) != (cached.name, cached.lr):
            continue
        both = [
            blocks
            for blocks, cell in live.cells.items()
            if isinstance(blocks, int)
            and blocks in cached.cells
            and len(cell.timed) == len(cached.cells[blocks].timed)
        ]
        before, after = (
            [r for blocks in both for r in row.cells[blocks].timed]
            for row in (live, cached)
        )
        if not after:
            continue
        live_seconds = sum(record["seconds"] for record in before)
        # Each cut goes on from a shallower one, so that building the deepest
        # one takes in all of them, whichever run paid for it.
        cached_seconds = sum(
            r["seconds"] - r["prefix_seconds"] for r in after
        ) + max(r["prefix_build_seconds"] for r in after)
        numbers = ", ".join(map(str, sorted(both)))
        yield (
            f"{live.name}, the {len(after)} runs with {numbers} trained "
            f"blocks: {live_seconds:.0f} s live, {cached_seconds:.0f} s cached "
            "with the building of the cache, "
            f"{percent(100 * cached_seconds / live_seconds)} of it."
        )
