"""What stacking costs, and how it goes: the part that the paper does not show.

Times are those of training; of a cached prefix the whole build counts, though
runs after the first one find it made.
"""

from tf_transfer.reports import compare
from tf_transfer.reports import figures
from tf_transfer.reports import stacking_runs as runs
from tf_transfer.reports import statistics
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import spread
from tf_transfer.training.progress import SAMPLE

PHASES = {"head": "head alone", "all": "everything"}


# === In numbers ===


def costs(name, dataset):
    """Times of all cells by phase, and whether stacking first costs less."""
    cells = runs.ordered(dataset.cells.values())
    base = runs.best(cells, runs.BASE)
    rows = [
        (
            runs.head_of(cell),
            runs.adaptation_of(cell),
            runs.rates(cell),
            str(len(cell.timed)),
            spread(cell.seconds, 1),
            percent(_share(cell, base)),
            spread(cell.mean("prefix_build_seconds", timed=True), 1),
            *(spread(_of_phase(cell, phase), 1) for phase in PHASES),
            f"{cell.records[0]['trainable_parameters']:,}",
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
        Table(f"costs_{name}", caption, columns, tuple(rows)),
        *_does_it_cost_less(cells, base),
    ]


def _of_phase(cell, trains):
    """`Mean` of the seconds of the phases that train so, or None."""
    found = []
    for record in cell.timed:
        seconds = [
            phase["seconds"]
            for phase in record["phases"]
            if phase["trainable_layers"] == trains
        ]
        found.append(sum(seconds) if seconds else None)
    return statistics.mean_of(found)


def _share(cell, base):
    saved = compare.time_saved(cell, base) if base else None
    return None if saved is None else 100 - saved


def _does_it_cost_less(cells, base):
    """A sentence for each head that was stacked first, live and cached."""
    if base is None or not (base.seconds and base.score):
        return []
    stacked = [
        cell
        for cell in chosen(cells)
        if runs.pair_of(cell)[1] == "stack_and_finetune"
    ]
    said = [_said(cell, base) for cell in stacked]
    if not said:
        return []
    return [
        Text(
            "Does stacking first also cost less? Finetune-only at its better "
            f"rate scores {spread(base.score)} in {base.seconds.mean:.1f} s."
        ),
        Items(tuple(said)),
    ]


def _said(cell, base):
    gain = compare.difference(cell.scores, base.scores).text
    share = _share(cell, base)
    word = "less" if share < 100 else "more"
    seconds = reaches(cell, base.score.mean)
    end = "after no epoch does it score as much"
    if seconds is not None:
        end = (
            f"it scores as much after {seconds:.1f} s, "
            f"{percent(100 * seconds / base.seconds.mean)}"
        )
    name = runs.named(*runs.pair_of(cell))
    return (
        f"{name} ({runs.rates(cell)}): {cell.seconds.mean:.1f} s, "
        f"{percent(share)} of that time, so {word}, for {gain} points; {end}."
    )


def reaches(cell, score):
    """Seconds to the first epoch with so high a mean test score, or None."""
    found = zip(*figures.curve(cell)[:2])
    return next((s for s, reached in found if reached >= score), None)


def chosen(cells):
    """Each head and adaptation at its better rate, live and cached apart."""
    groups = {}
    for cell in cells:
        if cell.timed and cell.score is not None:
            groups.setdefault((runs.pair_of(cell), cell.cached), []).append(
                cell
            )
    return [runs.best(group) for group in groups.values()]


# === In figures ===


def pictures(study):
    """Phase curves of a run a task, and score against time."""
    curves, panels = {}, {}
    for dataset in study.datasets:
        cells = runs.ordered(dataset.cells.values())
        record = representative(cells)
        if record is not None:
            curves[_titled(dataset, record)] = ("accuracy", _phases(record))
        found = [
            (runs.adaptation_of(cell), runs.head_of(cell), cell)
            for cell in chosen(cells)
        ]
        if len(found) > 1:  # one is beside nothing
            label = runs.SHOWN[dataset.task][dataset.metric]
            panels[dataset.name] = (label, found)
    parts = []
    if curves:
        parts.append(
            figures.over_phases(
                f"phases_{study.name}",
                "Accuracy on a sample of the training set and on validation "
                "after each epoch of both phases, one run a task; the dotted "
                "line is the point of change, the ring the epoch that a phase "
                "ends with",
                curves,
            )
        )
    if panels:
        parts.append(
            figures.courses(
                f"costs_{study.name}",
                "Test score against training time, each head and adaptation at "
                "its better rate: a dot an epoch, the large mark the end; bars "
                "are one standard deviation; hollow: the prefix is cached",
                panels,
            )
        )
    return parts


def representative(cells):
    """The first run of the stack-and-finetune cell with most runs, or None.

    Of several, one with a big head; of those the best on validation.
    """

    def rank(cell):
        is_big = runs.pair_of(cell)[0] != "dense"
        return len(cell.records), is_big, cell.validation.mean

    cell = max(
        (
            cell
            for cell in cells
            if runs.pair_of(cell)[1] == "stack_and_finetune"
            and cell.records[0]["curve"]
        ),
        key=rank,
        default=None,
    )
    return cell and min(cell.records, key=lambda record: record["seed"])


def _titled(dataset, record):
    head = runs.HEADS.get(record["way"]["head"], record["way"]["head"])
    return f"{dataset.name}: {head}, seed {record['seed']}"


def _phases(record):
    """What `figures.over_phases` asks for."""
    found = []
    for number, phase in enumerate(record["phases"], 1):
        points = [p for p in record["curve"] if p["phase"] == number]
        scores = {
            "training sample": [100 * p[f"{SAMPLE}accuracy"] for p in points],
            "validation": [100 * p["accuracy"] for p in points],
        }
        name = f"{PHASES[phase['trainable_layers']]}, {phase['lr']:g}"
        found.append((name, _kept(record, number), scores))
    return found


def _kept(record, number):
    """Whose epoch's weights a phase ended with, counted within it."""
    *before, phase = record["phases"][:number]
    if "kept_epoch" in phase:  # a rule chose it
        return phase["kept_epoch"]
    is_last = number == len(record["phases"])
    if not is_last or record["key"]["select"] == "last":
        return phase["epochs"]
    return record["best_epoch"] - sum(p["epochs"] for p in before)
