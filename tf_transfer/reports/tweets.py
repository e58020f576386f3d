"""Tables and figures of "Task-Specific Training", from runs of `tweets`.

Sparse baselines and encoders are studies of their own: the paper tests the
ones in ten folds, the others ten times on one held-out set. Baselines that were
tested on that set (`--folds=0`) stand in the encoders' tables, too.
"""

import itertools
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import figures
from tf_transfer.reports import statistics
from tf_transfer.reports.compare import facts_of
from tf_transfer.reports.document import footnotes
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.options import Options
from tf_transfer.reports.reading import Record
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
from tf_transfer.reports.studies import Variant
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import points
from tf_transfer.reports.words import spread

SPARSE = ("tfidf", "count", "hash")
NAMES = {"fine_tuning": "unfrozen", "last_2": "last two blocks"}
METRICS = {  # of two labels, and what the tables call them
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
MOST_TESTED = 8  # cells that t-tests and boxes are shown of
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


def is_sparse(record: Record) -> bool:
    """Whether a run has no encoder."""
    return "features" in record["key"]


def prepare(records: Iterable[Record]) -> list[Record]:
    """Records as these tables tell them apart.

    What differs between the paper's rows becomes the approach and, without
    the number of examples, `trains`; that number becomes `size`, 0 for all.
    """
    prepared = []
    for record in records:
        key = dict(record["key"])
        size, approach = key.pop("max_train_examples"), record["approach"]
        if is_sparse(record):
            key["features"] = "sparse"
        else:
            approach = _name(approach, key.pop("pooler", "trained"))
        changes = {"key": key, "size": size, "trains": approach}
        if size:  # a cell of its own
            approach += f", {size:,} examples"
        prepared.append({**record, **changes, "approach": approach})
    return prepared


def _name(approach: str, pooler: str) -> str:
    if approach == "last_0":
        return "frozen" if pooler == "frozen" else "pooler trained"
    name = NAMES.get(approach, approach.replace("_", " "))
    return name + (", pooler frozen" if pooler == "frozen" else "")


def comparable_groups(studies: Iterable[Study]) -> list[list[Study]]:
    """Studies whose settings may be compared: with an encoder, and without."""
    sparse: list[Study] = []
    encoders: list[Study] = []
    for study in studies:
        group = sparse if is_sparse(study.records[0]) else encoders
        group.append(study)
    return [sparse, encoders]


def title(study: Study) -> str:
    """What the report calls a study."""
    if is_sparse(study.records[0]):
        folds = study.settings["folds"]
        test = f"{folds} folds" if folds else "one held-out set"
        return f"tweets: sparse features, {test}"
    return f"tweets: {study.model}"


def sections(
    study: Study,
    summary: dict[str, Any],
    published: dict[str, Any],
    options: Options = Options(),
) -> list[Part]:
    """The parts of a report on one study; see `reports.glue.sections`."""
    del options
    if is_sparse(study.records[0]):
        return [
            part
            for dataset in study.datasets
            for part in _sparse(study, dataset, published)
        ]
    parts: list[Part] = []
    for dataset in study.datasets:
        cells = [
            cell for cell in _ordered(dataset) if not cell.records[0]["size"]
        ]
        known = facts_of(summary, study, dataset)
        parts += [
            *_encoders(study, dataset, cells, known, summary, published),
            *_tests(study, dataset, cells, published),
            *_rates(study, dataset),
            *_sizes(study, dataset, summary),
        ]
    notes = [*filter(None, [published.get("source")]), *FOOTNOTES]
    return [*parts, *footnotes(notes + notes_on_model(study.model))]


def _ordered(dataset: Dataset) -> list[Cell]:
    """A data set's cells, the most trained first."""
    return sorted(
        dataset.cells.values(),
        key=lambda cell: (
            -cell.trained_parameters,
            cell.lr,
            cell.cached,
            cell.approach,
        ),
    )


def _cell_name(cell: Cell) -> str:
    """A cell in words: `last two blocks, cached, 5e-05`."""
    cached = ["cached"] if cell.cached else []
    return ", ".join([cell.records[0]["trains"], *cached, f"{cell.lr:g}"])


def _is_the_papers(record: Record) -> bool:
    """Whether these are the paper's tweets, as far as their number tells."""
    sizes = (record["sizes"]["train"], record["sizes"]["test"])
    return sizes == PAPER_SIZES and record["lr"] in (0, PAPER_LR)


def _metrics_of(record: Record) -> list[str]:
    return [name for name in METRICS if name in record["metrics"]]


# === Sparse features: table 1, figure 1 ===


def _sparse(
    study: Study, dataset: Dataset, published: dict[str, Any]
) -> list[Part]:
    first = dataset.records[0]
    names = _metrics_of(first)
    theirs = {}
    if study.settings["folds"] and _is_the_papers(first):
        theirs = published.get("sparse", {})
    rows, boxes = [], {}
    cells = [c for c in dataset.cells.values() if c.approach in SPARSE]
    for cell in sorted(cells, key=lambda c: SPARSE.index(c.approach)):
        record = cell.records[0]
        folds = {
            name: [100 * fold[name] for fold in record["folds"]]
            for name in names
        }
        boxes[cell.approach] = folds
        known = theirs.get(cell.approach)
        rows.append(
            (
                cell.approach,
                *(spread(statistics.mean_of(folds[n])) for n in names),
                f"{record['seconds']:.1f}",
                f"{cell.trained_parameters:,}",
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
        *(METRICS[n] for n in names),
        "time, s",
        "parameters",
        "published accuracy",
        "published F1",
    )
    name = f"sparse_{study.name}_{dataset.name}"
    parts: list[Part] = [Table(name, caption, columns, rows)]
    if study.settings["folds"] and boxes:
        parts.append(
            figures.box_plots(
                name,
                "Accuracy and F1 over the folds, as the paper's figure 1",
                _two_panels(boxes),
            )
        )
    return parts


def _two_panels(
    boxes: dict[str, dict[str, list[float]]],
) -> dict[str, dict[str, list[float]]]:
    """Accuracy and an F1, each with its values by label."""
    metrics = {name for values in boxes.values() for name in values}
    second = "f1" if "f1" in metrics else "f1_macro"
    return {
        METRICS[metric]: {label: v[metric] for label, v in boxes.items()}
        for metric in ("accuracy", second)
    }


# === Encoders: table 2, figure 2 ===


def _encoders(
    study: Study,
    dataset: Dataset,
    cells: Sequence[Cell],
    known: dict[str, Any],
    summary: dict[str, Any],
    published: dict[str, Any],
) -> list[Part]:
    if not cells:
        return []
    names = _metrics_of(cells[0].records[0])
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
        if _is_the_papers(cell.records[0]):
            theirs = published.get("bert", {}).get(cell.approach)
        accuracies = sorted(cell.values("accuracy"))
        rows.append(
            (
                _cell_name(cell),
                cell.n,
                *(spread(cell.metric(n)) for n in names),
                f"{accuracies[0]:.1f} to {accuracies[-1]:.1f}",
                spread(cell.seconds, 1),
                _seconds_for_half_point(cell, best),
                f"{cell.trained_parameters:,}",
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
    score = "not known" if majority is None else points(100 * majority)
    caption = (
        f"{dataset.name}: test scores in points on {known.get('test', '?')} "
        f"held-out texts, mean and deviation over trials; the majority's "
        f"accuracy is {score}. `s for half a point`: over the best baseline "
        "tested on the same texts. Published F1: the paper's, and the standard "
        "one of the same runs"
    )
    columns = (
        "trains, lr",
        "trials",
        *(METRICS[n] for n in names),
        "accuracies",
        "time, s",
        "s for half a point",
        "trained parameters",
        "published accuracy",
        "published F1",
    )
    name = f"encoders_{study.name}_{dataset.name}"
    boxes = {
        _cell_name(cell): {n: cell.values(n) for n in names}
        for cell in _compared(cells)
    }
    return [
        Heading(3, f"Frozen and trained, {dataset.name}"),
        Table(name, caption, columns, rows),
        figures.box_plots(
            name,
            "Accuracy and F1 over the trials, as the paper's figure 2",
            _two_panels(boxes),
        ),
    ]


def _baseline_name(record: Record) -> str:
    raw = record["key"]["preprocessing"] == "none"
    return f"{record['approach']}, logistic regression" + (
        " on raw words" if raw else ""
    )


def _held_out_baselines(
    dataset: Dataset, summary: dict[str, Any]
) -> list[Record]:
    """Sparse runs that were tested on the same held-out set."""
    baselines = [
        record
        for record in summary["runs"]
        if record["experiment"] == "tweets"
        and is_sparse(record)
        and not record["key"]["folds"]
        and record["key"]["data_identity"] == dataset.identity
    ]
    return sorted(baselines, key=lambda r: SPARSE.index(r["approach"]))


def _compared(cells: Sequence[Cell]) -> Sequence[Cell]:
    """All cells, or, of too many, those at the paper's rate."""
    if len(cells) <= MOST_TESTED:
        return cells
    at_rate = [cell for cell in cells if cell.lr == PAPER_LR]
    return at_rate or cells[:MOST_TESTED]


def _seconds_for_half_point(cell: Cell, best: float | None) -> str:
    """Seconds for each half point of accuracy above the best baseline."""
    accuracy, seconds = cell.metric("accuracy"), cell.seconds
    if best is None or seconds is None or accuracy is None:
        return ""
    gained = accuracy.mean - 100 * best
    return f"{seconds.mean / (2 * gained):.1f}" if gained > 0 else "never"


def _tests(
    study: Study,
    dataset: Dataset,
    cells: Sequence[Cell],
    published: dict[str, Any],
) -> list[Part]:
    """Welch's t-tests of accuracy between all that was trained."""
    rows = []
    pairs = itertools.combinations(reversed(_compared(cells)), 2)
    for first, second in pairs:
        test = statistics.welch(
            first.values("accuracy"), second.values("accuracy")
        )
        if test is None:
            continue
        theirs = None
        if _is_the_papers(first.records[0]):
            theirs = published.get("tests", {}).get(
                f"{first.approach}, {second.approach}"
            )
        rows.append(
            (
                _cell_name(first),
                _cell_name(second),
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
            ("first", "second", "t", "df", "p", "published"),
            rows,
        )
    ]


# === The grid that the paper names as future work; training-set sizes ===


def _rates(study: Study, dataset: Dataset) -> list[Part]:
    """Accuracy by rate and what trains, for each number of examples."""
    by_size: dict[int, list[Cell]] = {}
    for cell in _ordered(dataset):
        by_size.setdefault(cell.records[0]["size"], []).append(cell)
    parts: list[Part] = []
    for size, cells in sorted(by_size.items()):
        scores: dict[Variant, dict[float, statistics.Mean | None]] = {}
        for cell in cells:
            scores.setdefault(cell.variant, {})[cell.lr] = cell.score
        if sum(len(rates) > 1 for rates in scores.values()) < 2:
            continue  # no grid
        trains = {cell.variant: cell.records[0]["trains"] for cell in cells}
        columns = [trains[v] + (", cached" if v[1] else "") for v in scores]
        rows = [
            (f"{lr:g}", *(spread(rates.get(lr)) for rates in scores.values()))
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
                rows,
            )
        )
    heading = Heading(4, "Learning rates and trained blocks")
    return [heading, *parts] if parts else []


def _sizes(
    study: Study, dataset: Dataset, summary: dict[str, Any]
) -> list[Part]:
    """Learning curves over the number of training examples."""
    curves: dict[str, dict[int, statistics.Mean | None]] = {}
    for cell in _ordered(dataset):
        record = cell.records[0]
        size = record["size"] or record["sizes"]["train"]
        curves.setdefault(_cell_name(cell), {})[size] = cell.score
    for record in _held_out_baselines(dataset, summary):
        curve = curves.setdefault(_baseline_name(record), {})
        score = statistics.mean_of([100 * record["test"]])
        curve[record["sizes"]["train"]] = score
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
        Table(name, caption, ("examples", *curves), rows),
        figures.scores_by_size(name, caption, curves),
    ]
