"""The tables of "To Tune or Not To Tune?", from runs of `stacking`.

The paper's tables are lost, only differences survive. So its rows stand here as
head and adaptation, ours alone, and its differences beside ours. Where several
rates were tried, the one that is best on validation stands for a row.
"""

import os
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import compare
from tf_transfer.reports import stacking_costs
from tf_transfer.reports import stacking_ensembles
from tf_transfer.reports import stacking_runs as runs
from tf_transfer.reports.document import footnotes
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.options import Options
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
from tf_transfer.reports.words import not_as_in_the_paper
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import notes_on_times
from tf_transfer.reports.words import spread

ALIKE = 0.01  # sizes that differ by less count other versions of the same data
SPLITS = ("train", "validation", "test")
NO_VERDICT = " So there is no verdict on Quora's pairs."
SAMPLE = "`sample` is a few examples to run with: no verdict on its scores."

prepare = runs.prepare
facts = runs.facts
ensembles = stacking_ensembles.join_predictions


def sections(
    study: Study,
    summary: dict[str, Any],
    published: dict[str, Any],
    options: Options = Options(),
) -> list[Part]:
    """The parts of a report on one study; see `reports.glue.sections`."""
    del options
    parts: list[Part] = []
    notes = [*filter(None, [published.get("source")])]
    notes += published.get("footnotes", ())
    for dataset in study.datasets:
        name = f"{study.name}_{dataset.name}"
        known = compare.facts_of(summary, study, dataset)
        joined = stacking_ensembles.ensembles_of(dataset, summary)
        parts += [
            Heading(3, dataset.name),
            _scores(name, dataset, known, published),
            *_claims(name, dataset, joined, study.model, published),
            *stacking_ensembles.tabulate(name, dataset, joined, known),
            *_types(name, dataset),
            *stacking_costs.tabulate(name, dataset),
        ]
        notes += _notes_on_differences(study, dataset, published)
    pictures = stacking_costs.draw(study)
    if pictures:
        parts += [Heading(3, "Phases and costs"), *pictures]
    has_pairs = any(dataset.task == "pairs" for dataset in study.datasets)
    no_verdict = NO_VERDICT if has_pairs else ""
    notes += [note + no_verdict for note in notes_on_model(study.model)]
    if any(dataset.data == "sample" for dataset in study.datasets):
        notes.append(SAMPLE)
    notes += notes_on_times(study)
    return [*parts, *footnotes(notes)]


# === Tables 2 to 4 ===


def _scores(
    name: str,
    dataset: Dataset,
    known: dict[str, Any],
    published: dict[str, Any],
) -> Table:
    """Every head in every adaptation, and the majority class."""
    names = runs.metrics_of(dataset)
    cells = runs.ordered(dataset)
    base = runs.best(cells, runs.BASE)
    rows = [
        (
            *runs.identify(cell),
            cell.n,
            *(spread(cell.metric(metric)) for metric in names),
            _against(cell, base, dataset.metric),
        )
        for cell in cells
    ]
    if "majorities" in known:
        majorities = runs.majorities(known, names)
        rows.append(("the majority class", "", "", "", *majorities, ""))
    columns = (
        "head",
        "adaptation",
        "rates and epochs",
        "n",
        *names.values(),
        f"{names[dataset.metric]} against finetune-only",
    )
    title = published.get("tables", {}).get(dataset.task, dataset.name)
    data = os.path.basename(dataset.data.rstrip("/"))  # of no machine's folders
    caption = (
        f"{title}. Here: `{data}`, {known.get('test', '?')} test "
        f"{'words' if dataset.task == 'ner' else 'examples'}, in points, mean "
        "and deviation over n seeds; differences with a 95 % interval over "
        "seeds (Welch's), against finetune-only at its better rate"
    )
    return Table(f"scores_{name}", caption, columns, rows)


def _against(cell: Cell, base: Cell | None, metric: str) -> str:
    if base is None or cell is base:
        return ""
    return compare.difference(cell.values(metric), base.values(metric)).text


# === The paper's differences ===


def _claims(
    name: str,
    dataset: Dataset,
    joined: Sequence[stacking_ensembles.Ensemble],
    model: str,
    published: dict[str, Any],
) -> list[Part]:
    """Of each of the paper's differences, whether ours has the same sign."""
    lines = []
    cells = list(dataset.cells.values())
    for known in published.get("claims", ()):
        if known["task"] != dataset.task:
            continue
        theirs, ours, word = known["difference"], "", "not run"
        first, second = (
            _scores_of(known[key], known["metric"], cells, joined)
            for key in ("one", "other")
        )
        if first and second:
            difference = compare.difference(first, second)
            ours, word = difference.text, compare.verdict(theirs, difference)
            if not _may_judge(dataset, model):
                word = "no verdict"
        names = [_compared_name(known[key]) for key in ("one", "other")]
        lines.append(
            (
                " against ".join(names),
                runs.METRICS[dataset.task][known["metric"]],
                known.get("said", f"{theirs:+g}"),
                ours,
                word,
            )
        )
    if not lines:
        return []
    caption = (
        f"{dataset.name}: the differences that the paper's text names, in "
        "points, and ours. `within noise`: the interval has both signs. `no "
        "verdict`: see the footnotes"
    )
    columns = ("comparison", "metric", "paper", "ours", "sign")
    return [Table(f"signs_{name}", caption, columns, lines)]


def _scores_of(
    model: Sequence[str],
    metric: str,
    cells: Sequence[Cell],
    joined: Sequence[stacking_ensembles.Ensemble],
) -> list[float] | None:
    """The scores in points of a model or ensemble, or None without runs.

    Args:
        model: head and adaptation, or `ensemble` and its method.
        metric: such as `accuracy`.
        cells: of the data set.
        joined: its ensembles.
    """
    kind, how = model
    if kind == "ensemble":
        return joined[0].values(how, metric) if joined else None
    cell = runs.best(cells, (kind, how))
    return cell.values(metric) if cell else None


def _compared_name(model: Sequence[str]) -> str:
    kind, how = model
    if kind == "ensemble":
        return f"ensemble, {stacking_ensembles.METHODS[how]}"
    return runs.model_name((kind, how))


def _may_judge(dataset: Dataset, model: str) -> bool:
    """An encoder that was tuned on these pairs says nothing, nor a sample."""
    is_known = dataset.task == "pairs" and notes_on_model(model)
    return dataset.data != "sample" and not is_known


# === Entities by type ===


def _types(name: str, dataset: Dataset) -> list[Part]:
    """Precision, recall and F1 of each type, for each head's best."""
    if dataset.task != "ner":
        return []
    by_head: dict[str, list[Cell]] = {}
    for cell in runs.ordered(dataset):
        by_head.setdefault(runs.model_of(cell)[0], []).append(cell)
    rows = []
    for cells in by_head.values():
        best = runs.best(cells)
        if best is None:
            continue
        metrics = best.records[0]["metrics"]
        for kind in (m[3:] for m in metrics if m.startswith("f1_")):
            means = (
                best.metric(f"{rate}_{kind}")
                for rate in ("precision", "recall", "f1")
            )
            rows.append((runs.cell_name(best), kind, *map(spread, means)))
    caption = (
        f"{dataset.name}: entities by type on test, in points, each head in "
        "the adaptation that is best on validation"
    )
    columns = ("head, adaptation", "type", "precision", "recall", "F1")
    return [Table(f"types_{name}", caption, columns, rows)]


# === What to know when reading ===


def _notes_on_differences(
    study: Study, dataset: Dataset, published: dict[str, Any]
) -> list[str]:
    """Sentences on what of these runs is not as in the paper."""
    if not published:
        return []
    cells = dataset.cells.values()
    rates = {runs.recipe_of(cell)["head_lr"] for cell in cells} - {None}
    model = published["model"][dataset.task]
    theirs = {**published["settings"], "model": model}
    ours = {**study.settings, "model": study.model}
    if rates and theirs["head_lr"] not in rates:
        ours["head_lr"] = " or ".join(f"{rate:g}" for rate in sorted(rates))
    size = published["examples"][dataset.task]
    here = sum(dataset.sizes.get(split, 0) for split in SPLITS)
    if abs(here - size) > ALIKE * size:
        ours["number of examples"], theirs["number of examples"] = here, size
    return [
        note.replace("paper:", f"paper, {dataset.name}:")
        for note in not_as_in_the_paper(ours, theirs)
    ]
