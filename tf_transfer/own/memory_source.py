"""Texts, labels and groups in memory, as an estimator gets them."""

import datetime
import hashlib
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import sklearn.utils

from tf_transfer.data.columns import parse_number
from tf_transfer.data.task import choose_metrics, Examples, Source, Task

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison as Sortable

NAME = "texts"  # of the task, in the folders of its runs
TIMES = (
    *(datetime.date, datetime.time, datetime.timedelta),  # pandas' are such
    *(np.datetime64, np.timedelta64, pd.Period),
)


class MemorySource(Source):
    """Texts and labels in memory, as the source of a run's training set."""

    def __init__(self, task: Task, examples: Examples) -> None:
        self.task, self._examples = task, examples
        labels = np.asarray(examples.labels).tolist()
        content = [task.record, examples.texts, labels]
        if examples.groups is not None:
            content.append(examples.groups.tolist())
        digest = hashlib.sha256(json.dumps(content).encode())
        self.identity = f"memory sha256:{digest.hexdigest()}"

    def read(self, split: str) -> Examples:
        """The texts, which are all of `train`."""
        return self._examples


def make_task(
    columns: int,
    labels: tuple[str, ...] | None,
    score_scale: tuple[float, float] | None = None,
) -> Task:
    """The task of texts in memory.

    Args:
        columns: 1, or 2 of pairs.
        labels: See `Task`.
        score_scale: See `Task`.
    """
    kind = "score" if labels is None else "classes"
    metric, *also = choose_metrics(kind, "", len(labels or ()))
    return Task(
        NAME,
        folder="",
        texts=("text", "text2")[:columns],
        label="label",
        labels=labels,
        metric=metric,
        also=tuple(also),
        development=(),
        score_scale=score_scale,
    )


def read_columns(X: npt.ArrayLike) -> list[list[str]]:
    """The columns of texts: one, or two of pairs.

    Raises:
        ValueError: There is none, or a cell is not a text.
    """
    cells = _read_objects(X)
    if cells.ndim == 0 or not cells.size:
        raise ValueError("X holds no texts. Give a list of texts, or of pairs.")
    columns = cells.reshape(len(cells), -1).T.tolist()
    if len(columns) > 2 or cells.ndim > 2:
        raise ValueError(
            f"X has the shape {cells.shape}. Give [n] texts or [n, 2] pairs."
        )
    for column in columns:
        for row, text in enumerate(column):
            if not isinstance(text, str):
                raise ValueError(f"X, row {row}: {text!r:.60} is not a text.")
    return columns


def read_sentences(X: npt.ArrayLike) -> list[list[str]]:
    """The words of each sentence.

    Raises:
        ValueError: There is no sentence, or one is no list of words.
    """
    cells = _read_objects(X)
    if cells.ndim == 0 or not cells.size:
        raise ValueError("X holds no sentences. Give a list of lists of words.")
    sentences = []
    for row, words in enumerate(cells):
        if not isinstance(words, list | tuple | np.ndarray) or not len(words):
            raise ValueError(
                f"X, row {row}: {words!r:.60} is not a list of words."
            )
        for word in words:
            if not isinstance(word, str) or not word.strip():
                raise ValueError(f"X, row {row}: {word!r:.60} is not a word.")
        sentences.append([*words])
    return sentences


def read_targets(
    texts: list[list[str]], y: npt.ArrayLike
) -> "tuple[list[Sortable], list[Sortable]]":
    """The labels or scores, and the different ones, sorted.

    Args:
        texts: The columns of texts.
        y: [n], or one column of a data frame.

    Raises:
        ValueError: There are none, or more or fewer than texts; one is missing
            or a date; or they have several types.
    """
    if y is None:  # in the words of scikit-learn's check_estimator
        raise ValueError(
            "A fit requires y to be passed, but the target y is None."
        )
    cells = sklearn.utils.column_or_1d(_read_objects(y), warn=True)
    sklearn.utils.check_consistent_length(texts[0], cells)
    missing = np.flatnonzero(pd.isna(cells))
    if len(missing):
        raise ValueError(
            f"y has missing labels, the first in row {missing[0]}."
        )
    for row, cell in enumerate(cells):
        if isinstance(cell, TIMES):
            raise ValueError(
                f"y, row {row}: {cell!r:.60} is a date or a time. Give labels "
                f"as texts, such as '{cell}', or scores as numbers."
            )
    try:
        return cells.tolist(), sorted({*cells})
    except TypeError:
        names = sorted({type(cell).__name__ for cell in cells})
        raise ValueError(
            f"y has labels without an order, of the types {', '.join(names)}. "
            "Give texts alone, or numbers alone."
        ) from None


def read_scores(texts: list[list[str]], y: npt.ArrayLike) -> np.ndarray:
    """float64 [n]. The scores; texts are numbers as in a file.

    Args:
        texts: See `read_targets`.
        y: See `read_targets`.

    Raises:
        ValueError: See `read_targets`; or one is not a finite number.
    """
    cells, _ = read_targets(texts, y)
    for row, cell in enumerate(cells):
        if isinstance(cell, (str, bytes)):  # float() would take 5_0 as 50
            cells[row] = number = parse_number(cell)
            if math.isnan(number):
                raise ValueError(
                    f"y, row {row}: {cell!r:.60} is not a number. Give scores "
                    "as numbers."
                )
    scores: np.ndarray = sklearn.utils.check_array(
        cells, ensure_2d=False, dtype=np.float64, input_name="y"
    )
    return scores


def _read_objects(values: npt.ArrayLike) -> np.ndarray:
    """Values as Python's objects.

    As an array of a type, NumPy would make texts of numbers and of nan, and
    numbers of dates in nanoseconds.
    """
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind in ("m", "M"):
        values = [*pd.Series(np.ravel(values))]
    return np.asarray(values, object)


def number_groups(
    groups: npt.ArrayLike | None, texts: Sequence[Sequence[str]]
) -> np.ndarray | None:
    """int64 [n]. The groups of `fit` as numbers; None without groups."""
    if groups is None:
        return None
    sklearn.utils.check_consistent_length(texts[0], groups)
    values = sklearn.utils.column_or_1d(np.asarray(groups, dtype=object))
    numbers: np.ndarray
    numbers, names = pd.factorize(values)
    if numbers.min() < 0:
        raise ValueError("groups has missing values. Give each text a group.")
    if len(names) < 2:
        raise ValueError(
            f"groups has one value only: {names[0]!r}. Give texts of another, "
            "or no groups."
        )
    return numbers
