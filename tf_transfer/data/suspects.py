"""Labels that look wrong, by probabilities of models that have not seen them.

The rule is that of confident learning (Northcutt, Jiang and Chuang 2021,
"Confident Learning: Estimating Uncertainty in Dataset Labels"). A class's mean
self-confidence is the mean probability of that class over the texts that it
labels:

    t_j = mean of p(j | x) over the texts x with label j

A label i is suspect where another class j has p(j | x) >= t_j and
p(j | x) > p(i | x). The margin p(j | x) - p(i | x) ranks the suspects.

It is for tasks with classes. The probabilities must come from folds or another
held-out set: a model that was fitted to a wrong label agrees with it.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_transfer.data import file_formats, metrics, table_files
from tf_transfer.data.task import Task
from tf_transfer.utils import files, formatting

FILE = "suspects.csv"
# The least margin of a suspect that a sentence counts. It is ours: below it,
# most labels of docs/guides/errors.md's tasks were right, and their texts hard.
CLEAR_MARGIN = 0.7


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A label that looks wrong.

    Attributes:
        row: The number of its text among those that were given.
        label: The id of the given label.
        answer: The id of the class that is more probable.
        probability: The probability of `answer`.
        margin: How much larger it is than the probability of `label`.
    """

    row: int
    label: int
    answer: int
    probability: float
    margin: float


@dataclasses.dataclass(frozen=True)
class SuspectRow:
    """A suspect as people read it: a row of `suspects.csv`.

    Attributes:
        file: The file of the text; empty if the text is in none.
        line: Its line there; in Parquet and Excel its number.
        text: The text; the texts of a pair with ` | ` between.
        label: The name of the given label.
        answer: The name of the class that is more probable.
        probability: The probability of `answer`.
        margin: How much larger it is than the probability of `label`.
    """

    file: str
    line: int
    text: str
    label: str
    answer: str
    probability: float
    margin: float


def find_suspects(labels: np.ndarray, logits: np.ndarray) -> list[Suspect]:
    """The labels that look wrong, the largest margin first.

    Args:
        labels: int64 [texts]. The given classes.
        logits: float [texts, units], of models that were not fitted to the
            text; one unit for two classes.
    """
    probabilities = metrics.probabilities(logits)
    texts = np.arange(len(labels))
    of_label = probabilities[texts, labels]
    counts = np.bincount(labels, minlength=probabilities.shape[1])
    sums = np.bincount(labels, of_label, minlength=probabilities.shape[1])
    # No text has a class without texts: nothing says how sure is sure.
    self_confidence = np.where(counts, sums / np.maximum(counts, 1), np.inf)
    margins = probabilities - of_label[:, None]
    margins[probabilities < self_confidence] = 0.0
    answers = margins.argmax(axis=1)
    margin = margins[texts, answers]
    ranked = np.argsort(-margin, kind="stable")
    return [
        Suspect(
            int(row),
            int(labels[row]),
            int(answers[row]),
            float(probabilities[row, answers[row]]),
            float(margin[row]),
        )
        for row in ranked[margin[ranked] > 0]
    ]


def name_suspects(
    suspects: Sequence[Suspect],
    task: Task,
    texts: Sequence[Sequence[str]],
    places: Sequence[tuple[str, int]],
) -> list[SuspectRow]:
    """The rows of `suspects.csv`, in the order of the suspects.

    Args:
        suspects: See `find_suspects`.
        task: The task; it has the names of the classes.
        texts: One or two columns, each a text per row.
        places: The file and the line of each text; see `Source.locate`.
    """
    names = task.labels or ()
    return [
        SuspectRow(
            *places[suspect.row],
            " | ".join(column[suspect.row] for column in texts),
            names[suspect.label],
            names[suspect.answer],
            round(suspect.probability, 4),
            round(suspect.margin, 4),
        )
        for suspect in suspects
    ]


def write_csv(path: str, rows: Sequence[SuspectRow]) -> None:
    """Writes `suspects.csv`: a column for each attribute of `SuspectRow`."""
    names = [field.name for field in dataclasses.fields(SuspectRow)]
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    files.write_atomically(path, table_files.write_table(columns, ".csv"))


def describe(rows: Sequence[SuspectRow]) -> str:
    """The sentence of an answer on clear suspects; "" if there is none."""
    count = sum(row.margin >= CLEAR_MARGIN for row in rows)
    if not count:
        return ""
    first = rows[0]
    place = ""
    if first.file:
        place = f"{file_formats.name_row(first.file, first.line)}: "
    verb = "label looks" if count == 1 else "labels look"
    text, label, answer = map(
        formatting.cut, (first.text, first.label, first.answer)
    )
    return (
        f"{count:,} {verb} wrong; the first: {place}{text!r} has the label "
        f"{label!r}, and {answer!r} is more probable "
        f"({first.probability:.0%})."
    )
