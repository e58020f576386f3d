"""Tables and figures of "Task-Specific Training", from runs of `tweets`.

Sparse baselines and encoders are studies of their own: the paper tests the
ones in ten folds, the others ten times on one held-out set. Baselines that were
tested on that set (`--folds=0`) stand in the encoders' tables, too.
"""

import itertools

from tf_transfer.reports import figures
from tf_transfer.reports import statistics
from tf_transfer.reports.compare import facts_of
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.options import Options
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import points
from tf_transfer.reports.words import spread

SPARSE = ("tfidf", "count", "hash")
NAMES = {"fine_tuning": "unfrozen", "last_2": "last two blocks"}
SHOWN = {  # metrics of two labels, and what the tables call them
    "accuracy": "accuracy",
    "f1": "F1",
    "f1_other": "F1 of the other label",
    "f1_macro": "macro F1",
    "f1_hart": "the paper's F1",
    "precision": "precision",
    "recall": "recall",
}
# Of the paper's tweets: what is trained on and tested, and at what rate.
PAPER_SIZES = (6851, 762)
PAPER_LR = 5e-5
MOST_TESTED = 8  # ways of training that t-tests and boxes are shown of
FOOTNOTES = (
    "The paper's F1 for BERT is no F1 of one label. Its author's runs store "
    "the probability of `not disaster`; his script inverts it for accuracy and "
    "recall, not for precision, so that the printed figure is the harmonic "
    "mean of the recall of disasters and of the precision of non-disasters. "
    "Both are shown; the standard F1 of his runs stands in brackets.",
    "Two rows of the paper's table 2 are exchanged: the figures printed as "
    "`Unfrozen` are those of the runs with two blocks trained, and the other "
    "way round. His t-tests use the right runs. Published figures stand here "
    "beside the runs that they come from.",
    "Where the paper is silent, and what we chose: the docstring of "
    "tf_transfer/tweets.py.",
)


def is_sparse(record):
    """Whether a run has no encoder."""
    return "features" in record["key"]


def prepared(records):
    """Records as these tables tell them apart.

    What differs between the paper's rows becomes the approach and, without
    the number of examples, `trains`; that number becomes `size`, 0 for all.
    """
    found = []
    for record in records:
        key = dict(record["key"])
        size, approach = key.pop("max_train_examples"), record["approach"]
        if is_sparse(record):
            key["features"] = "sparse"
        else:
            approach = _name(record["approach"], key.pop("pooler", "trained"))
        told = {"key": key, "size": size, "trains": approach}
        if size:  # a cell of its own
            approach += f", {size:,} examples"
        found.append({**record, **told, "approach": approach})
    return found


def _name(approach, pooler):
    if approach == "last_0":
        return "frozen" if pooler == "frozen" else "pooler trained"
    name = NAMES.get(approach, approach.replace("_", " "))
    return name + (", pooler frozen" if pooler == "frozen" else "")


def alike(found):
    """Studies that may be told apart by their settings, as lists."""
    sparse = [study for study in found if is_sparse(study.records[0])]
    return [sparse, [study for study in found if study not in sparse]]


def title(study):
    """What a study is called."""
    if is_sparse(study.records[0]):
        folds = study.settings["folds"]
        how = f"{folds} folds" if folds else "one held-out set"
        return f"tweets: sparse features, {how}"
    return f"tweets: {study.model}"


def sections(study, summary, published, options=Options()):
    """The parts of a report on one study; see `reports.glue.sections`."""
    del options
    if is_sparse(study.records[0]):
        return _sparse(study, published)
    parts = []
    for dataset in study.datasets:
        cells = [
            cell
            for cell in _ordered(dataset.cells.values())
            if not cell.records[0]["size"]
        ]
        known = facts_of(summary, study, dataset)
        parts += [
            *_encoders(study, dataset, cells, known, summary, published),
            *_tests(study, dataset, cells, published),
            *_rates(study, dataset),
            *_sizes(study, dataset, summary),
        ]
    return [*parts, *_footnotes(study, published)]


def _ordered(cells):
    """The most trained first."""
    return sorted(
        cells,
        key=lambda cell: (
            -cell.records[0]["trainable_parameters"],
            cell.lr,
            cell.cached,
            cell.approach,
        ),
    )


def _called(cell):
    """A cell in words: `last two blocks, cached, 5e-05`."""
    trains = cell.records[0]["trains"]
    return ", ".join(
        [trains, *(["cached"] if cell.cached else []), f"{cell.lr:g}"]
    )


def _values(cell, metric):
    return [100 * record["metrics"][metric] for record in cell.records]


def _is_the_paper_s(record):
    """Whether these are the paper's tweets, as far as their number tells."""
    sizes = (record["sizes"]["train"], record["sizes"]["test"])
    return sizes == PAPER_SIZES and record["lr"] in (0, PAPER_LR)


def _metrics(record):
    return [name for name in SHOWN if name in record["metrics"]]


# === Sparse features: table 1, figure 1 ===


def _sparse(study, published):
    parts = []
    for dataset in study.datasets:
        record = dataset.cells[next(iter(dataset.cells))].records[0]
        names = _metrics(record)
        theirs = {}
        if study.settings["folds"] and _is_the_paper_s(record):
            theirs = published.get("sparse", {})
        rows, boxes = [], {}
        cells = [c for c in dataset.cells.values() if c.approach in SPARSE]
        for cell in sorted(cells, key=lambda c: SPARSE.index(c.approach)):
            one = cell.records[0]
            folds = {
                name: [100 * fold[name] for fold in one["folds"]]
                for name in names
            }
            boxes[cell.approach] = folds
            known = theirs.get(cell.approach)
            rows.append(
                (
                    cell.approach,
                    *(spread(statistics.mean_of(folds[n])) for n in names),
                    f"{one['seconds']:.1f}",
                    f"{one['trainable_parameters']:,}",
                    f"{known[0]:.1f}" if known else "",
                    f"{known[1]:.1f}" if known else "",
                )
            )
        caption = (
            f"{dataset.name}: logistic regression, in points; mean and "
            "deviation over folds"
        )
        columns = (
            "features",
            *(SHOWN[n] for n in names),
            "time, s",
            "parameters",
            "published accuracy",
            "published F1",
        )
        name = f"sparse_{study.name}_{dataset.name}"
        parts.append(Table(name, caption, columns, tuple(rows)))
        if study.settings["folds"] and boxes:
            parts.append(
                figures.boxes(
                    name,
                    "Accuracy and F1 over the folds, as the paper's figure 1",
                    _two_panels(boxes),
                )
            )
    return parts


def _two_panels(boxes):
    """Accuracy and an F1, each a dict from label to values."""
    metrics = {name for values in boxes.values() for name in values}
    second = "f1" if "f1" in metrics else "f1_macro"
    return {
        SHOWN[metric]: {label: v[metric] for label, v in boxes.items()}
        for metric in ("accuracy", second)
    }


# === Encoders: table 2, figure 2 ===


def _encoders(study, dataset, cells, known, summary, published):
    if not cells:
        return []
    names = _metrics(cells[0].records[0])
    baselines = [
        record
        for record in _held_out_baselines(dataset, summary)
        if not record["key"]["max_train_examples"]
    ]
    best = max(
        (record["metrics"]["accuracy"] for record in baselines), default=None
    )
    rows = []
    for cell in cells:
        theirs = None
        if _is_the_paper_s(cell.records[0]):
            theirs = published.get("bert", {}).get(cell.approach)
        accuracies = sorted(_values(cell, "accuracy"))
        rows.append(
            (
                _called(cell),
                str(len(cell.records)),
                *(spread(statistics.mean_of(_values(cell, n))) for n in names),
                f"{accuracies[0]:.1f} to {accuracies[-1]:.1f}",
                spread(cell.seconds, 1),
                _half_point(cell, best),
                f"{cell.records[0]['trainable_parameters']:,}",
                f"{theirs[0]:.1f}" if theirs else "",
                f"{theirs[1]:.1f} ({theirs[5]:.2f})" if theirs else "",
            )
        )
    for record in baselines:
        rows.append(
            (
                _baseline_name(record),
                "1",
                *(points(100 * record["metrics"][n]) for n in names),
                "",
                f"{record['seconds']:.1f}",
                "",
                f"{record['trainable_parameters']:,}",
                "",
                "",
            )
        )
    majority = known.get("majority")
    said = "not known" if majority is None else points(100 * majority)
    caption = (
        f"{dataset.name}: test scores in points on {known.get('test', '?')} "
        f"held-out texts, mean and deviation over trials; the majority's "
        f"accuracy is {said}. `s for half a point`: over the best baseline "
        "tested on the same texts. Published F1: the paper's, and the standard "
        "one of the same runs"
    )
    columns = (
        "trains, lr",
        "trials",
        *(SHOWN[n] for n in names),
        "accuracies",
        "time, s",
        "s for half a point",
        "trained parameters",
        "published accuracy",
        "published F1",
    )
    name = f"encoders_{study.name}_{dataset.name}"
    boxes = {
        _called(cell): {n: _values(cell, n) for n in names}
        for cell in _compared(cells)
    }
    return [
        Heading(3, f"Frozen and trained, {dataset.name}"),
        Table(name, caption, columns, tuple(rows)),
        figures.boxes(
            name,
            "Accuracy and F1 over the trials, as the paper's figure 2",
            _two_panels(boxes),
        ),
    ]


def _baseline_name(record):
    raw = record["key"]["preprocessing"] == "none"
    return f"{record['approach']}, logistic regression" + (
        " on raw words" if raw else ""
    )


def _held_out_baselines(dataset, summary):
    """Sparse runs that were tested on the same held-out set."""
    found = [
        record
        for record in summary["runs"]
        if record["module"] == "tweets"
        and is_sparse(record)
        and not record["key"]["folds"]
        and record["key"]["data_identity"] == dataset.identity
    ]
    return sorted(found, key=lambda r: SPARSE.index(r["approach"]))


def _compared(cells):
    """All ways of training, or those at the paper's rate of too many."""
    if len(cells) <= MOST_TESTED:
        return cells
    return [cell for cell in cells if cell.lr == PAPER_LR] or cells[
        :MOST_TESTED
    ]


def _half_point(cell, best):
    """Seconds for each half point of accuracy above the best baseline."""
    if best is None or cell.seconds is None:
        return ""
    gained = statistics.mean_of(_values(cell, "accuracy")).mean - 100 * best
    return f"{cell.seconds.mean / (2 * gained):.1f}" if gained > 0 else "never"


def _tests(study, dataset, cells, published):
    """Welch's t-tests of accuracy between all that was trained."""
    rows = []
    compared = reversed(_compared(cells))
    for one, other in itertools.combinations(compared, 2):
        test = statistics.welch(
            _values(one, "accuracy"), _values(other, "accuracy")
        )
        if test is None:
            continue
        theirs = None
        if _is_the_paper_s(one.records[0]):
            theirs = published.get("tests", {}).get(
                f"{one.approach}, {other.approach}"
            )
        rows.append(
            (
                _called(one),
                _called(other),
                f"{test.t:.2f}",
                f"{test.degrees:.1f}",
                f"{test.p:.3f}",
                "t = {}, df = {}, p = {}".format(*theirs) if theirs else "",
            )
        )
    if not rows:
        return []
    return [
        Table(
            f"tests_{study.name}_{dataset.name}",
            "Welch's t-tests of accuracy over trials",
            ("one", "other", "t", "df", "p", "published"),
            tuple(rows),
        )
    ]


# === The grid that the paper names as future work; training-set sizes ===


def _rates(study, dataset):
    """Accuracy by rate and what trains, a table a number of examples."""
    groups = {}
    for cell in _ordered(dataset.cells.values()):
        groups.setdefault(cell.records[0]["size"], []).append(cell)
    parts = []
    for size, cells in sorted(groups.items()):
        ways = {}
        for cell in cells:
            ways.setdefault(cell.way, {})[cell.lr] = cell.score
        if sum(len(rates) > 1 for rates in ways.values()) < 2:
            continue  # no grid
        named = [cell.records[0]["trains"] for cell in cells]
        names = dict(zip((cell.way for cell in cells), named))
        columns = [names[w] + (", cached" if w[1] else "") for w in ways]
        rows = [
            (f"{lr:g}", *(spread(rates.get(lr)) for rates in ways.values()))
            for lr in sorted({cell.lr for cell in cells})
        ]
        name = f"{size}_{study.name}" if size else study.name
        examples = f"{size:,} training examples" if size else "all examples"
        parts.append(
            Table(
                f"rates_{name}_{dataset.name}",
                f"Test accuracy in points after training on {examples}, mean "
                "and deviation over trials",
                ("lr", *columns),
                tuple(rows),
            )
        )
    heading = Heading(4, "Learning rates and trained blocks")
    return [heading, *parts] if parts else []


def _sizes(study, dataset, summary):
    """Learning curves over the number of training examples."""
    curves = {}
    for cell in _ordered(dataset.cells.values()):
        record = cell.records[0]
        size = record["size"] or record["sizes"]["train"]
        curves.setdefault(_called(cell), {})[size] = cell.score
    for record in _held_out_baselines(dataset, summary):
        name = _baseline_name(record)
        curves.setdefault(name, {})[record["sizes"]["train"]] = (
            statistics.mean_of([100 * record["test"]])
        )
    curves = {name: c for name, c in curves.items() if len(c) > 1}
    if not curves:
        return []
    sizes = sorted({size for curve in curves.values() for size in curve})
    rows = [
        (f"{size:,}", *(spread(c.get(size)) for c in curves.values()))
        for size in sizes
    ]
    name = f"sizes_{study.name}_{dataset.name}"
    caption = "Test accuracy in points by the number of training examples"
    return [
        Heading(4, "Training-set sizes"),
        Table(name, caption, ("examples", *curves), tuple(rows)),
        figures.by_size(name, caption, curves),
    ]


def _footnotes(study, published):
    notes = [*filter(None, [published.get("source")]), *FOOTNOTES]
    notes += notes_on_model(study.model)
    return [Text("Footnotes:"), Items(tuple(notes), numbered=True)]
