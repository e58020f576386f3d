"""The tables and figure of "What Would Elsa Do?", from runs of `freezing`.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. Live and cached runs are
studies of their own.
"""

import re

from tf_transfer.reports import figures
from tf_transfer.reports import operating
from tf_transfer.reports import studies
from tf_transfer.reports.compare import dataset_id
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import points
from tf_transfer.reports.words import spread

QUALITIES = (0.9, 0.95)
PUBLISHED_NAMES = {
    "bert_base_en_uncased": "bert-base", "roberta_base_en": "roberta-base",
    "bert_large_en_uncased": "bert-large", "roberta_large_en": "roberta-large",
}  # fmt: skip
PUBLISHED_TASKS = {
    "cola": "CoLA", "sst2": "SST-2", "mrpc": "MRPC", "stsb": "STS-B",
    "qqp": "QQP", "mnli": "MNLI", "qnli": "QNLI", "rte": "RTE",
}  # fmt: skip


def sections(study, summary, published, budgets=()):
    """The parts of a report on one study; see `reports.glue.sections`."""
    del budgets
    if study.settings["validation_fraction"]:
        return _search(study)
    return [
        *_parameters(study, published),
        *(
            part
            for dataset in study.datasets
            for cached in (False, True)
            for part in _dataset(study, dataset, cached, summary, published)
        ),
        *_curves(study),
        *_verdicts(study, summary),
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
                dataset.name, f"{cell.lr:g}", spread(cell.validation),
                str(len(cell.records)), "best" if cell is best else "",
            )
            for cell in cells
        ]  # fmt: skip
    caption = "The search: validation scores of training everything, in points"
    columns = ("task", "lr", "validation", "trials", "")
    return [
        Heading(3, "Learning rates"),
        Table(f"search_{study.name}", caption, columns, rows),
    ]


def trials_of(dataset, cached):
    """Trials by number of trained blocks, with their cells; `all` included.

    Returns:
        Dict from `all` or a number to `studies.Cell`, by falling number; {}
        where nothing was frozen in this mode, or `all` is missing.
    """
    found = {}
    for way in dataset.ways():
        number = re.fullmatch(r"last_(\d+)", way[0])
        if number and way[1] == cached:
            found[int(number[1])] = dataset.best(way)
    if not found or dataset.base is None:
        return {}
    ordered = dict(sorted(found.items(), reverse=True))
    return {operating.ALL: dataset.base, **ordered}


def scores_of(cells):
    """The trials' scores in points, by number of trained blocks."""
    return {blocks: cell.scores for blocks, cell in cells.items()}


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
    theirs = published.get("parameters", {}).get(_published_name(study))
    rows = [
        (
            name, f"{count:,}", percent(100 * count / total),
            f"{theirs[number]:,}" if theirs else "",
        )
        for number, (name, count) in enumerate(
            [*encoder.items(), ("total", total)]
        )
    ]  # fmt: skip
    caption = f"Parameters of {study.model}, {study.blocks} blocks"
    columns = ("part", "parameters", "share", "the paper's architecture")
    table = Table(f"parameters_{study.name}", caption, columns, rows)
    return [Heading(3, "Where the parameters are"), table]


def _published_name(study):
    return PUBLISHED_NAMES.get(study.model)


def _dataset(study, dataset, cached, summary, published):
    """Quality at every number of frozen blocks, and the operating points."""
    cells = trials_of(dataset, cached)
    if not cells:
        return []
    trials = scores_of(cells)
    full = operating.plain_mean(trials[operating.ALL])
    known = summary["datasets"].get(dataset_id(dataset), {})
    majority = known.get("majority")
    theirs = (
        published.get("scores", {})
        .get(_published_name(study), {})
        .get(PUBLISHED_TASKS.get(dataset.task), {})
    )
    rows = []
    for blocks, cell in cells.items():
        mine = operating.plain_mean(trials[blocks])
        is_all = blocks == operating.ALL
        memory = max(record["memory"] for record in cell.records)
        rows.append(
            (
                "0" if is_all else str(study.blocks - blocks),
                str(blocks), spread(cell.score), str(len(cell.records)),
                points(operating.authors_mean(trials[blocks])),
                points(mine - full),
                percent(100 * mine / full) if full > 0 else "",
                points(theirs[str(blocks)][0]) if str(blocks) in theirs else "",
                spread(cell.seconds_per_epoch, 1), spread(cell.seconds, 1),
                f"{memory / 1e9:.2f}",
                f"{cell.records[0]['trainable_parameters']:,}",
            )
        )  # fmt: skip
    mode = "cached" if cached else "live"
    name = f"{dataset.name}, frozen blocks {mode}"
    caption = (
        f"{name}: {dataset.metric} in points; the majority scores "
        f"{points(None if majority is None else 100 * majority)}"
    )
    columns = (
        "frozen", "trained", "score", "trials", "authors' averaging",
        "relative score", "of all", "published", "s an epoch", "time, s",
        "memory, GB", "trained parameters",
    )  # fmt: skip
    return [
        Heading(3, name),
        Table(f"freezing_{study.name}_{dataset.name}_{mode}", caption,
              columns, rows),
        Items(tuple(_points(dataset, trials, majority, study.blocks))),
    ]  # fmt: skip


def _points(dataset, trials, majority, blocks):
    """A sentence for each quality: how many trained blocks keep it."""
    full = operating.plain_mean(trials[operating.ALL])
    for quality in QUALITIES:
        point = operating.operating_point(trials, quality)
        authors = operating.operating_point(
            trials, quality, operating.authors_mean
        )
        said = f"{quality:.0%} of all: {_trained(point, blocks)}"
        if authors != point:
            said += f" (authors' averaging: {_trained(authors, blocks)})"
        if min(map(len, trials.values())) > 1:
            found = operating.interval(trials, quality)
            ends = [
                "never" if end is None else str(end)
                for end in (found.low, found.high)
            ]
            said += f"; 95 % of resampled trials from {ends[0]} to {ends[1]}"
        if majority is not None and 100 * majority > quality * full:
            said += (
                "; **the majority class alone passes**, so this says nothing"
            )
        yield said + "."


def _trained(point, blocks):
    if point is None:
        return "no number of frozen blocks keeps it"
    return f"{point} of {blocks} trained blocks are enough"


# === Figure, verdicts, footnotes ===


def _curves(study):
    """Relative score against frozen blocks, the paper's figure."""
    curves = {}
    for dataset in study.datasets:
        for cached in (False, True):
            cells = trials_of(dataset, cached)
            if cells:
                trials = scores_of(cells)
                full = operating.plain_mean(trials.pop(operating.ALL))
                curves[dataset.name, cached] = [
                    (study.blocks - blocks, operating.plain_mean(t) - full)
                    for blocks, t in trials.items()
                ]
    figure = figures.relative_scores(study, curves)
    if figure is None:
        return []
    return [Heading(3, "Relative score"), figure]


def _verdicts(study, summary):
    """Whether a fourth is enough, and where freezing beats training all."""
    items = []
    quarter = -(-study.blocks // 4)
    for cached in (False, True):
        enough, better = {}, []
        for dataset in study.datasets:
            trials = scores_of(trials_of(dataset, cached))
            if not trials or dataset.task == "cola":
                continue  # the paper leaves CoLA out
            enough[dataset.name] = operating.operating_point(trials, 0.9)
            full = operating.plain_mean(trials.pop(operating.ALL))
            better += [
                f"{dataset.name} with {blocks} trained"
                for blocks, scores in trials.items()
                if operating.plain_mean(scores) > full
            ]
        if not enough:
            continue
        mode = "cached" if cached else "live"
        holds = all(p is not None and p <= quarter for p in enough.values())
        said = ", ".join(
            f"{name} {'never' if point is None else point}"
            for name, point in enough.items()
        )
        items.append(
            f"A fourth of the blocks ({quarter} of {study.blocks}) for 90 %, "
            f"{mode}: **{'holds' if holds else 'does not hold'}** ({said})."
        )
        items.append(
            f"Training everything is worse than freezing, {mode}: "
            + (", ".join(better) if better else "nowhere")
            + "."
        )
    if not items:
        return []
    return [Heading(3, "The paper's claims"), Items(tuple(items))]


def _footnotes(study, published):
    notes = list(filter(None, [published.get("source")]))
    notes.append(
        "Where the paper is silent, and what we chose: the docstring of "
        "tf_transfer/freezing.py."
    )
    if study.model == "minilm":
        notes.append(
            "`minilm` is a means to run, not evidence on everything: it was "
            "tuned on a billion pairs before, Quora duplicates, SNLI and "
            "MultiNLI among them."
        )
    return [Text("Footnotes:"), Items(tuple(notes), numbered=True)]
