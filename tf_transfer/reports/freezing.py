"""The tables and figure of "What Would Elsa Do?", from runs of `freezing`.

The tables of quality and cost are in `freezing_tables`; here is what stands
around them: the search, the encoder's parameters, the figure, and what became
of the paper's claims.
"""

import itertools

from tf_transfer.reports import figures
from tf_transfer.reports import freezing_tables
from tf_transfer.reports import operating
from tf_transfer.reports import studies
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.options import Options
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import spread


def sections(study, summary, published, options=Options()):
    """The parts of a report on one study; see `reports.glue.sections`."""
    if study.settings["validation_fraction"]:
        return _search(study)
    rows = freezing_tables.rows_of(study, summary, published)
    return [
        *_parameters(study, published),
        *freezing_tables.results(study, rows, options),
        *_curves(study, rows),
        *_claims(study, rows, published),
        *_footnotes(study, published),
    ]


def _search(study):
    """The search of the rate."""
    rows = []
    for dataset in study.datasets:
        cells = dataset.rates((studies.BASE, False))
        best = dataset.best((studies.BASE, False))
        rows += [
            (
                dataset.name,
                f"{cell.lr:g}",
                spread(cell.validation),
                str(len(cell.records)),
                "best" if cell is best else "",
            )
            for cell in cells
        ]
    caption = "The search: validation scores of training everything, in points"
    columns = ("task", "lr", "validation", "trials", "")
    return [
        Heading(3, "Learning rates"),
        Table(f"search_{study.name}", caption, columns, rows),
    ]


# === Tables ===


def _parameters(study, published):
    """The paper's table 4, of the encoder at hand."""
    record = study.records[0]
    parts = record["parts"]
    blocks = [n for name, n in parts.items() if name.startswith("block ")]
    encoder = {
        "embeddings": parts["embeddings"],
        "each block": blocks[0],
        "all blocks": sum(blocks),
        "pooler": parts.get("pooler", 0),
    }
    total = sum(encoder.values()) - blocks[0]
    theirs = published.get("parameters", {}).get(
        freezing_tables.PUBLISHED_NAMES.get(study.model)
    )
    rows = [
        (
            name,
            f"{count:,}",
            percent(100 * count / total),
            f"{theirs[number]:,}" if theirs else "",
        )
        for number, (name, count) in enumerate(
            [*encoder.items(), ("total", total)]
        )
    ]
    caption = f"Parameters of {study.model}, {study.blocks} blocks"
    columns = ("part", "parameters", "share", "the paper's architecture")
    table = Table(f"parameters_{study.name}", caption, columns, rows)
    return [Heading(3, "Where the parameters are"), table]


# === Figure, verdicts, footnotes ===


def _curves(study, rows):
    """Relative score against frozen blocks, the paper's figure."""
    curves = {}
    for row in rows:
        trials = {
            row.mode: row.trials,
            "published": {k: [known[0]] for k, known in row.published.items()},
        }
        for mode, scores in trials.items():
            curve = [
                (
                    study.blocks - int(blocks),
                    operating.plain_mean(values)
                    - operating.plain_mean(scores[operating.ALL]),
                )
                for blocks, values in scores.items()
                if blocks != operating.ALL
            ]
            if curve:
                curves[row.name, mode] = curve
    figure = figures.relative_scores(study, curves)
    if figure is None:
        return []
    return [Heading(3, "Relative score"), figure]


def _claims(study, rows, published):
    """What became of the paper's claims, and what the cache saves."""
    items = []
    for mode in ("live", "cached"):
        mine = [row for row in rows if row.mode == mode]
        # The paper leaves CoLA out.
        judged = [row for row in mine if row.task != "cola"]
        if judged:
            items += [
                _fourth(judged, mode, study.blocks, published),
                f"Training everything is worse than freezing, {mode}: "
                f"{', '.join(_better(judged)) or 'nowhere'}.",
            ]
        items += _nothing_trained(mine, mode, published)
    items += _saved(rows)
    if not items:
        return []
    return [Heading(3, "The paper's claims"), Items(tuple(items))]


def _fourth(rows, mode, blocks, published):
    """Whether a fourth of the blocks is enough."""
    fourth = -(-blocks // 4)
    said, verdicts = [], []
    for row in rows:
        point = operating.operating_point(row.trials, 0.9)
        name = f"{row.name} {'never' if point is None else point}"
        said.append(name + ("*" if row.majority_passes(0.9) else ""))
        if not row.majority_passes(0.9):
            verdicts.append(_is_enough(row, point, fourth))
    verdict = "is not decided"
    if "no" in verdicts:
        verdict = "does not hold"
    elif verdicts and "open" not in verdicts:
        verdict = "holds"
    theirs = published.get("operating_points", {}).get("trained_blocks", {})
    own = ", ".join(f"{name} {count}" for name, count in theirs.items())
    return (
        f"A fourth of the blocks ({fourth} of {blocks}, rounded up) for 90 %, "
        f"CoLA left out, {mode}: **{verdict}** ({', '.join(said)})"
        + (f"; the paper's own: {own}" if own else "")
        + ". *: the majority class alone passes, so it counts for nothing."
    )


def _is_enough(row, point, blocks):
    """`yes`, `no`, or `open` where the numbers that tell were not tried."""
    if point is None:
        return "no"
    if point <= blocks:
        return "yes"
    untried = operating.untried_below(row.trials, point)
    return "open" if point - untried <= blocks else "no"


def _better(rows):
    """Where freezing scores above training everything."""
    return [
        f"{row.name} with {blocks} trained"
        for row in rows
        for blocks, scores in row.trials.items()
        if blocks != operating.ALL and operating.plain_mean(scores) > row.full
    ]


def _nothing_trained(rows, mode, published):
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


def _saved(rows):
    """What the frozen runs of a task took cached, against live."""
    for live, cached in itertools.permutations(rows, 2):
        if (live.name, live.lr, live.mode, cached.mode) != (
            cached.name,
            cached.lr,
            "live",
            "cached",
        ):
            continue
        both = [
            blocks
            for blocks, cell in live.cells.items()
            if blocks in cached.cells
            and blocks != operating.ALL
            and len(cell.timed) == len(cached.cells[blocks].timed)
        ]
        before, after = (
            [r for blocks in both for r in row.cells[blocks].timed]
            for row in (live, cached)
        )
        if not after:
            continue
        seconds = sum(record["seconds"] for record in before)
        # Each cut goes on from a shallower one, so that the deepest one's
        # building holds all of them, whoever paid for it.
        mine = sum(r["seconds"] - r["prefix_seconds"] for r in after) + max(
            r["prefix_build_seconds"] for r in after
        )
        numbers = ", ".join(map(str, sorted(both)))
        yield (
            f"{live.name}, the {len(after)} runs with {numbers} trained "
            f"blocks: {seconds:.0f} s live, {mine:.0f} s cached with the "
            f"building of the cache, {percent(100 * mine / seconds)} of it."
        )


def _footnotes(study, published):
    notes = list(filter(None, [published.get("source")]))
    notes.append(
        "Where the paper is silent, and what we chose: the docstring of "
        "tf_transfer/freezing.py."
    )
    notes += notes_on_model(study.model)
    return [Text("Footnotes:"), Items(tuple(notes), numbered=True)]
