"""What stacking costs, and how it goes: what the paper does not show.

Times are those of training; of a cached prefix the whole build counts, though
runs after the first one find it ready.
"""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import compare
from tf_transfer.reports import figures
from tf_transfer.reports import stacking_figures
from tf_transfer.reports import stacking_runs as runs
from tf_transfer.reports import statistics
from tf_transfer.reports.document import Figure
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.reading import Record
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import spread
from tf_transfer.training.progress import SAMPLE

PHASES = {"head": "head alone", "all": "everything"}


# === In numbers ===


def tabulate(name: str, dataset: Dataset) -> list[Part]:
    """Times of all cells by phase, and whether stacking first costs less."""
    cells = runs.ordered(dataset)
    base = runs.best(cells, runs.BASE)
    rows = [
        (
            *runs.identify(cell),
            str(len(cell.timed)),
            spread(cell.seconds, 1),
            percent(_share(cell, base)),
            spread(cell.mean("prefix_build_seconds", timed=True), 1),
            *(spread(_seconds_of_phase(cell, phase), 1) for phase in PHASES),
            f"{cell.trained_parameters:,}",
        )
        for cell in cells
    ]
    columns = (
        "head",
        "adaptation",
        "rates and epochs",
        "n timed",
        "time, s",
        "of finetune-only's",
        "prefix, s",
        *(f"{phase}, s" for phase in PHASES.values()),
        "trained parameters",
    )
    caption = (
        f"{dataset.name}: seconds of training, in all and by phase, and what "
        "the last phase trains. `prefix`: building the cache, in the time in "
        "all"
    )
    return [
        Table(f"costs_{name}", caption, columns, rows),
        *_compare_costs(cells, base),
    ]


def _seconds_of_phase(cell: Cell, trains: str) -> statistics.Mean | None:
    """`Mean` of the seconds of the phases that train so, or None."""
    sums = []
    for record in cell.timed:
        seconds = [
            phase["seconds"]
            for phase in record["phases"]
            if phase["trainable_layers"] == trains
        ]
        sums.append(sum(seconds) if seconds else None)
    return statistics.mean_of(sums)


def _share(cell: Cell, base: Cell | None) -> float | None:
    """Percent of the base's time to the stopping point, or None."""
    saved = compare.time_saved(cell, base) if base else None
    return None if saved is None else 100 - saved


def _compare_costs(cells: Sequence[Cell], base: Cell | None) -> list[Part]:
    """A sentence for each head that was stacked first, live and cached."""
    if base is None or not (base.seconds and base.score):
        return []
    sentences = [
        _compare_cost(cell, base)
        for cell in best_cells(cells)
        if runs.model_of(cell)[1] == "stack_and_finetune"
    ]
    if not sentences:
        return []
    return [
        Text(
            "Does stacking first also cost less? Finetune-only at its better "
            f"rate scores {spread(base.score)} in {base.seconds.mean:.1f} s."
        ),
        Items(tuple(sentences)),
    ]


def _compare_cost(cell: Cell, base: Cell) -> str:
    seconds, base_seconds, score = cell.seconds, base.seconds, base.score
    share = _share(cell, base)
    if not (seconds and base_seconds and score) or share is None:
        raise ValueError("cells without times are not compared")
    gain = compare.difference(cell.scores, base.scores).text
    word = "less" if share < 100 else "more"
    needed = seconds_to_reach(cell, score.mean)
    end = "after no epoch does it score as much"
    if needed is not None:
        end = (
            f"it scores as much after {needed:.1f} s, "
            f"{percent(100 * needed / base_seconds.mean)}"
        )
    return (
        f"{runs.model_name(runs.model_of(cell))} ({runs.rates(cell)}): "
        f"{seconds.mean:.1f} s, {percent(share)} of that time, so {word}, for "
        f"{gain} points; {end}."
    )


def seconds_to_reach(cell: Cell, score: float) -> float | None:
    """Seconds to the first epoch with so high a mean test score, or None."""
    seconds, scores, _ = figures.learning_curve(cell)
    reached = (s for s, points in zip(seconds, scores) if points >= score)
    return next(reached, None)


def best_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Each head and adaptation at its better rate, live and cached apart."""
    groups: dict[tuple[runs.Model, bool], list[Cell]] = {}
    for cell in cells:
        if cell.timed and cell.score is not None:
            key = (runs.model_of(cell), cell.cached)
            groups.setdefault(key, []).append(cell)
    best = (runs.best(group) for group in groups.values())
    return [cell for cell in best if cell is not None]


# === In figures ===


def draw(study: Study) -> list[Figure]:
    """Phase curves of one run per task, and score against time."""
    curves, panels = {}, {}
    for dataset in study.datasets:
        cells = runs.ordered(dataset)
        record = representative(cells)
        if record is not None:
            head = runs.HEADS.get(
                record["recipe"]["head"], record["recipe"]["head"]
            )
            title = f"{dataset.name}: {head}, seed {record['seed']}"
            curves[title] = ("accuracy", _phases_of(record))
        shown = best_cells(cells)
        if len(shown) > 1:  # a single one has nothing beside it
            label = runs.METRICS[dataset.task][dataset.metric]
            panels[dataset.name] = (
                label,
                [
                    (
                        runs.adaptation_name(runs.model_of(cell)[1]),
                        runs.head_name(cell),
                        cell,
                    )
                    for cell in shown
                ],
            )
    pictures = []
    if curves:
        pictures.append(
            stacking_figures.scores_over_phases(
                f"phases_{study.name}",
                "Accuracy on a sample of the training set and on validation "
                "after each epoch of both phases, one run per task; the dotted "
                "line is the point of change, the ring the epoch that a phase "
                "ends with",
                curves,
            )
        )
    if panels:
        pictures.append(
            stacking_figures.adaptations_against_time(
                f"costs_{study.name}",
                "Test score against training time, each head and adaptation at "
                "its better rate: a dot per epoch, the large mark the end; "
                "bars are one standard deviation; hollow: the prefix is cached",
                panels,
            )
        )
    return pictures


def representative(cells: Iterable[Cell]) -> Record | None:
    """The first run of the stack-and-finetune cell with most runs, or None.

    Of several, one with a big head; of those the best on validation.
    """
    chosen = max(
        (
            cell
            for cell in cells
            if runs.model_of(cell)[1] == "stack_and_finetune"
            and cell.records[0]["curve"]
        ),
        key=lambda cell: (
            len(cell.records),
            runs.model_of(cell)[0] != "dense",
            cell.quality,
        ),
        default=None,
    )
    if chosen is None:
        return None
    return min(chosen.records, key=lambda record: record["seed"])


def _phases_of(record: Record) -> list[stacking_figures.Phase]:
    """What `stacking_figures.scores_over_phases` asks for."""
    phases = []
    for number, phase in enumerate(record["phases"], 1):
        points = [p for p in record["curve"] if p["phase"] == number]
        scores = {
            "training sample": [100 * p[f"{SAMPLE}_accuracy"] for p in points],
            "validation": [100 * p["accuracy"] for p in points],
        }
        name = f"{PHASES[phase['trainable_layers']]}, {phase['lr']:g}"
        phases.append((name, kept_epoch(record, number), scores))
    return phases


def kept_epoch(record: Record, number: int) -> int:
    """The epoch whose weights a phase ended with, counted within it."""
    phases: list[dict[str, Any]] = record["phases"][:number]
    *before, phase = phases
    if "kept_epoch" in phase:  # a rule chose it
        return phase["kept_epoch"]
    is_last = number == len(record["phases"])
    if not is_last or record["key"]["select"] == "last":
        return phase["epochs"]
    return record["best_epoch"] - sum(p["epochs"] for p in before)
