"""What one approach costs and gives against another, out of their cells."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study

BUDGETS = (0.25, 0.5, 0.75, 1.0)  # of the longest run


def time_saved(cell: Cell, base: Cell) -> float | None:
    """Percent of the base's time to the stopping point, or None."""
    if not (cell.seconds and base.seconds and base.seconds.mean > 0):
        return None
    return 100 * (1 - cell.seconds.mean / base.seconds.mean)


def epoch_share(cell: Cell, base: Cell) -> float | None:
    """Percent that an epoch takes of the base's, or None."""
    return share(cell.seconds_per_epoch, base.seconds_per_epoch)


def share(
    mean: statistics.Mean | None, whole: statistics.Mean | None
) -> float | None:
    """Percent that one `Mean` is of another, or None."""
    if not (mean and whole and whole.mean > 0):
        return None
    return 100 * mean.mean / whole.mean


def lower_by(cell: Cell, other: Cell) -> float | None:
    """Percent by which a score is below another, or None."""
    if not (cell.score and other.score and other.score.mean):
        return None
    return 100 * (1 - cell.score.mean / other.score.mean)


def is_significant(
    test: statistics.Welch | None, paired: dict[str, float] | None
) -> bool | None:
    """Whether every test that could be made says so; None if none could."""
    verdicts = [test.p < statistics.LEVEL] if test else []
    if paired:
        verdicts.append(paired["p"] < statistics.LEVEL)
    return all(verdicts) if verdicts else None


@dataclasses.dataclass(frozen=True)
class Average:
    """`Mean`s over tasks: percent of time saved, points of score lost.

    Attributes:
        tasks: names of the tasks that have both approaches.
        seeds: the fewest runs of one approach on one task.
        saved, lost: None where there is no such task.
    """

    tasks: tuple[str, ...]
    seeds: int
    saved: statistics.Mean | None
    lost: statistics.Mean | None

    @property
    def count(self) -> int:
        """Over how many tasks."""
        return len(self.tasks)


def average(
    datasets: Iterable[Dataset], size: str, variant: studies.Variant
) -> Average:
    """`Average` over the data sets of a size with a variant and fine-tuning."""
    tasks, saved, lost, seeds = [], [], [], []
    for dataset in datasets:
        cell, base = dataset.best(variant), dataset.base
        if dataset.size != size or cell is None or base is None:
            continue
        if not (cell.score and base.score):
            continue
        tasks.append(dataset.name)
        lost.append(base.score.mean - cell.score.mean)
        saved.append(time_saved(cell, base))
        seeds.append(min(cell.score.n, base.score.n))
    return Average(
        tuple(tasks),
        min(seeds, default=0),
        statistics.mean_of(saved),
        statistics.mean_of(lost),
    )


def quarters(dataset: Dataset) -> list[float]:
    """Quarters of the longest run of a data set, in seconds."""
    longest = max(
        (
            studies.seconds_of(record)
            for cell in dataset.cells.values()
            for record in cell.timed
        ),
        default=0,
    )
    return [share * longest for share in BUDGETS] if longest else []


def pareto_front(dataset: Dataset) -> list[Cell]:
    """The cells that no other one surpasses in both score and time."""
    cells, points = [], []
    for cell in dataset.best_cells():
        seconds, score = cell.seconds, cell.score
        if seconds and score:
            cells.append(cell)
            points.append((seconds.mean, score.mean))
    chosen = statistics.pareto(points)
    return [cell for cell, is_on_front in zip(cells, chosen) if is_on_front]


# === Differences beside the paper's ===


@dataclasses.dataclass(frozen=True)
class Difference:
    """By how many points the first mean score is above the second.

    Attributes:
        mean: difference of the means.
        test: `statistics.Welch` over seeds, or None where it says nothing.
    """

    mean: float
    test: statistics.Welch | None

    @property
    def text(self) -> str:
        """`+0.30 (-1.00 to +1.60)`, with the interval where it is known."""
        text = f"{self.mean:+z.2f}"
        if self.test is not None:
            text += f" ({self.test.low:+.2f} to {self.test.high:+.2f})"
        return text


def difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """`Difference` of two lists of scores in points, neither of them empty."""
    means = [statistics.mean_of(scores) for scores in (first, second)]
    if means[0] is None or means[1] is None:
        raise ValueError("there is no difference without scores")
    return Difference(
        means[0].mean - means[1].mean, statistics.welch(first, second)
    )


def verdict(theirs: float, ours: Difference) -> str:
    """Whether our difference has the sign of the paper's, in words.

    Args:
        theirs: in points; 0 where the paper sees no difference.
        ours: `Difference`.
    """
    if ours.test is None:  # one run does not show how another would come out
        if not theirs:
            return "too few seeds"
        word = "agrees" if theirs * ours.mean > 0 else "differs"
        return f"{word}, too few seeds to be sure"
    if ours.test.low <= 0 <= ours.test.high:
        return "within noise" if theirs else "agrees"
    return "agrees" if theirs * ours.mean > 0 else "differs"


# === Keys of a summary ===


def dataset_id(study: Study, dataset: Dataset) -> str:
    """The key of what a summary knows of a study's texts.

    Studies can divide and cut the same files otherwise.
    """
    return f"{study.experiment}|{study.name}|{dataset.task}|{dataset.identity}"


def facts_of(
    summary: dict[str, Any], study: Study, dataset: Dataset
) -> dict[str, Any]:
    """What the summary knows of the texts that a study tests on."""
    return summary["datasets"].get(dataset_id(study, dataset), {})


def pair_id(study: Study, cell: Cell, base: Cell) -> str:
    """The key of a comparison of predictions in a summary."""
    return f"{study.name}|{cell.id}|{base.id}"
