"""The tables of "To Tune or Not To Tune?", from runs of `stacking`.

The paper's tables are lost, only differences survive. So its rows stand here as
head and adaptation, ours alone, and its differences beside ours. Where several
rates were tried, the one that is best on validation stands for a row.
"""

import os

from tf_transfer.reports import compare
from tf_transfer.reports import stacking_costs
from tf_transfer.reports import stacking_ensembles
from tf_transfer.reports import stacking_runs as runs
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.options import Options
from tf_transfer.reports.words import not_as_in_the_paper
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import notes_on_times
from tf_transfer.reports.words import spread

ALIKE = 0.01  # sizes that differ by less count other versions of the same data
PARTS = ("train", "validation", "test")
NO_VERDICT = " So there is no verdict on Quora's pairs."
SAMPLE = "`sample` is a few examples to run with: no verdict on its scores."

prepared = runs.prepared


def sections(study, summary, published, options=Options()):
    """The parts of a report on one study; see `reports.glue.sections`."""
    del options
    parts, differing = [], []
    for dataset in study.datasets:
        name = f"{study.name}_{dataset.name}"
        known = compare.facts_of(summary, study, dataset)
        joined = stacking_ensembles.of(dataset, summary)
        parts += [
            Heading(3, dataset.name),
            _scores(name, dataset, known, published),
            *_claims(name, dataset, joined, study.model, published),
            *stacking_ensembles.parts(name, dataset, joined, known),
            *_types(name, dataset),
            *stacking_costs.costs(name, dataset),
        ]
        differing += _differing(study, dataset, published)
    pictures = stacking_costs.pictures(study)
    if pictures:
        parts += [Heading(3, "Phases and costs"), *pictures]
    return [*parts, *_footnotes(study, published, differing)]


# === Tables 2 to 4 ===


def _scores(name, dataset, known, published):
    """Every head in every adaptation, and the majority class."""
    names = runs.names_of(dataset)
    cells = runs.ordered(dataset.cells.values())
    base = runs.best(cells, runs.BASE)
    rows = [
        (
            runs.head_of(cell),
            runs.adaptation_of(cell),
            runs.rates(cell),
            str(len(cell.records)),
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
    caption = (
        f"{title}. Here: `{_data(dataset)}`, {known.get('test', '?')} test "
        f"{'words' if dataset.task == 'ner' else 'examples'}, in points, mean "
        "and deviation over n seeds; differences with a 95 % interval over "
        "seeds (Welch's), against finetune-only at its better rate"
    )
    return Table(f"scores_{name}", caption, columns, tuple(rows))


def _against(cell, base, metric):
    if base is None or cell is base:
        return ""
    sides = runs.values(cell, metric), runs.values(base, metric)
    return compare.difference(*sides).text


def _data(dataset):
    """What `--data` said, without the folders of a machine."""
    return os.path.basename(dataset.data.rstrip("/"))


# === The paper's differences ===


def _claims(name, dataset, joined, model, published):
    """Of each of the paper's differences, whether ours has the same sign."""
    lines = []
    cells = list(dataset.cells.values())
    for known in published.get("claims", ()):
        if known["task"] != dataset.task:
            continue
        theirs, ours, word = known["difference"], "", "not run"
        sides = [
            _side(known[side], known["metric"], cells, joined)
            for side in ("one", "other")
        ]
        if all(sides):
            found = compare.difference(*sides)
            ours, word = found.text, compare.verdict(theirs, found)
            if not _may_judge(dataset, model):
                word = "no verdict"
        lines.append(
            (
                f"{_side_name(known['one'])} against "
                f"{_side_name(known['other'])}",
                runs.SHOWN[dataset.task][known["metric"]],
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
    columns = ("one against the other", "metric", "paper", "ours", "sign")
    return [Table(f"signs_{name}", caption, columns, tuple(lines))]


def _side(side, metric, cells, joined):
    """The scores of one side in points, or None where it was not run."""
    kind, how = side
    if kind == "ensemble":
        return joined[0].values(how, metric) if joined else None
    cell = runs.best(cells, (kind, how))
    return runs.values(cell, metric) if cell else None


def _side_name(side):
    kind, how = side
    if kind == "ensemble":
        return f"ensemble, {stacking_ensembles.WAYS[how]}"
    return runs.named(kind, how)


def _may_judge(dataset, model):
    """An encoder that was tuned on these pairs says nothing, nor a sample."""
    is_known = dataset.task == "pairs" and notes_on_model(model)
    return dataset.data != "sample" and not is_known


# === Entities by type ===


def _types(name, dataset):
    """Precision, recall and F1 of each type, for each head's best."""
    if dataset.task != "ner":
        return []
    rates, rows = ("precision", "recall", "f1"), []
    cells = runs.ordered(dataset.cells.values())
    for head in dict.fromkeys(runs.pair_of(cell)[0] for cell in cells):
        cell = runs.best([c for c in cells if runs.pair_of(c)[0] == head])
        metrics = cell.records[0]["metrics"]
        for kind in (m[3:] for m in metrics if m.startswith("f1_")):
            means = [cell.metric(f"{rate}_{kind}") for rate in rates]
            rows.append((runs.called(cell), kind, *map(spread, means)))
    caption = (
        f"{dataset.name}: entities by type on test, in points, each head in "
        "the adaptation that is best on validation"
    )
    columns = ("head, adaptation", "type", "precision", "recall", "F1")
    return [Table(f"types_{name}", caption, columns, tuple(rows))]


# === What to know when reading ===


def _differing(study, dataset, published):
    """Sentences on what of these runs is not as in the paper."""
    if not published:
        return []
    cells = dataset.cells.values()
    rates = {runs.way_of(cell)["head_lr"] for cell in cells} - {None}
    theirs = {**published["settings"], "model": published["model"]}
    theirs["model"] = theirs["model"][dataset.task]
    ours = {**study.settings, "model": study.model}
    if rates and theirs["head_lr"] not in rates:
        ours["head_lr"] = " or ".join(f"{rate:g}" for rate in sorted(rates))
    size = published["examples"][dataset.task]
    here = sum(dataset.sizes.get(part, 0) for part in PARTS)
    if abs(here - size) > ALIKE * size:
        ours["number of examples"], theirs["number of examples"] = here, size
    return [
        note.replace("paper:", f"paper, {dataset.name}:")
        for note in not_as_in_the_paper(ours, theirs)
    ]


def _footnotes(study, published, differing):
    notes = [*filter(None, [published.get("source")])]
    notes += [*published.get("footnotes", ()), *differing]
    is_paired = any(dataset.task == "pairs" for dataset in study.datasets)
    verdict = NO_VERDICT if is_paired else ""
    notes += [note + verdict for note in notes_on_model(study.model)]
    if any(dataset.data == "sample" for dataset in study.datasets):
        notes.append(SAMPLE)
    notes += notes_on_times(study)
    return [Text("Footnotes:"), Items(tuple(notes), numbered=True)]
