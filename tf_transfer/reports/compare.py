"""What one approach costs and gives against another, out of their cells."""

import dataclasses

from tf_transfer.reports import statistics
from tf_transfer.reports import studies

BUDGETS = (0.25, 0.5, 0.75, 1.0)  # of the longest run


def time_saved(cell, base):
    """Percent of the base's time to the stopping point, or None."""
    if not (cell.seconds and base.seconds and base.seconds.mean > 0):
        return None
    return 100 * (1 - cell.seconds.mean / base.seconds.mean)


def epoch_share(cell, base):
    """Percent that an epoch takes of the base's, or None."""
    return share(cell.seconds_per_epoch, base.seconds_per_epoch)


def share(one, other):
    """Percent that one `Mean` is of another, or None."""
    if not (one and other and other.mean > 0):
        return None
    return 100 * one.mean / other.mean


def lower_by(cell, other):
    """Percent by which a score is below another, or None."""
    if not (cell.score and other.score and other.score.mean):
        return None
    return 100 * (1 - cell.score.mean / other.score.mean)


def is_significant(test, paired):
    """Whether every test that could be made says so; None if none could."""
    said = [test.p < statistics.LEVEL] if test else []
    if paired:
        said.append(paired["p"] < statistics.LEVEL)
    return all(said) if said else None


@dataclasses.dataclass(frozen=True)
class Average:
    """`Mean`s over tasks: percent of time saved, points of score lost.

    Attributes:
        tasks: names of the tasks that have both sides.
        seeds: the fewest runs of a side.
    """

    tasks: tuple
    seeds: int
    saved: statistics.Mean | None
    lost: statistics.Mean | None

    @property
    def count(self):
        """Over how many tasks."""
        return len(self.tasks)


def average(datasets, size, way):
    """`Average` over the data sets of a size with this way and fine-tuning."""
    tasks, saved, lost, seeds = [], [], [], []
    for dataset in datasets:
        cell, base = dataset.best(way), dataset.base
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


def quarters(dataset):
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


def on_front(dataset):
    """The cells of a data set that no other beats in score and time."""
    cells = [
        cell
        for cell in map(dataset.best, dataset.ways())
        if cell.seconds and cell.score
    ]
    chosen = statistics.pareto(
        [(cell.seconds.mean, cell.score.mean) for cell in cells]
    )
    return [cell for cell, is_on in zip(cells, chosen) if is_on]


# === Differences beside the paper's ===


@dataclasses.dataclass(frozen=True)
class Difference:
    """By how much one side's mean score is above another's, in points.

    Attributes:
        test: `statistics.Welch` over seeds, or None where it says nothing.
    """

    mean: float
    test: statistics.Welch | None

    @property
    def text(self):
        """`+0.30 (-1.00 to +1.60)`, with what is known of the interval."""
        text = f"{self.mean:+z.2f}"
        if self.test is not None:
            text += f" ({self.test.low:+.2f} to {self.test.high:+.2f})"
        return text


def difference(ones, others):
    """`Difference` of two lists of scores in points, a run each."""
    means = [statistics.mean_of(scores).mean for scores in (ones, others)]
    return Difference(means[0] - means[1], statistics.welch(ones, others))


def verdict(theirs, ours):
    """Whether our difference has the sign of the paper's, in words.

    Args:
        theirs: in points; 0 where the paper sees no difference.
        ours: `Difference`.
    """
    if ours.test is None:  # one run does not tell how another would come out
        if not theirs:
            return "too few seeds"
        word = "agrees" if theirs * ours.mean > 0 else "differs"
        return f"{word}, too few seeds to be sure"
    if ours.test.low <= 0 <= ours.test.high:
        return "within noise" if theirs else "agrees"
    return "agrees" if theirs * ours.mean > 0 else "differs"


# === What a summary calls things ===


def dataset_id(study, dataset):
    """What the summary knows a body of texts by.

    Studies can divide and cut the same files otherwise.
    """
    module = study.settings["module"]
    return f"{module}|{study.name}|{dataset.task}|{dataset.identity}"


def facts_of(summary, study, dataset):
    """What the summary knows of the texts that a study tests on, a dict."""
    return summary["datasets"].get(dataset_id(study, dataset), {})


def pair_id(study, cell, base):
    """What the summary knows a comparison by."""
    return f"{study.name}|{cell.id}|{base.id}"
