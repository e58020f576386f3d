"""The input of `predict`: texts of the command line, and tables.

Needs no TensorFlow.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tf_transfer.data import (
    entities,
    file_formats,
    table_files,
    tagged,
    texts as texts_lib,
)
from tf_transfer.data.columns import (
    BadRow,
    BadRows,
    Cell,
    normalize_cell,
    Table,
)
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.own import label_cells
from tf_transfer.runs.task_settings import RunSettings
from tf_transfer.utils.errors import UserError


class Texts(NamedTuple):
    """Texts to predict for.

    Attributes:
        source: The file, or `--text`.
        columns: The cells of its columns.
        rows: Its rows that can be answered, with labels if a column has them;
            `ids` are their numbers among the cells.
    """

    source: str
    columns: Mapping[str, Sequence[Cell]]
    rows: Examples | Sentences

    def spread(self, name: str, values: Sequence[Cell]) -> list[Cell]:
        """A column of values of `rows`; the cells of `name` in other rows."""
        column = [*self.columns.get(name, [None] * self.size)]
        for row, value in zip(self.rows.ids, values):
            column[row] = value
        return column

    @property
    def size(self) -> int:
        """The number of all rows."""
        return len(next(iter(self.columns.values())))


def read_texts(
    task: Task, settings: RunSettings, texts: Sequence[str]
) -> Texts:
    """Reads one text or pair, or sentences whose words are to be tagged.

    Args:
        task: The task that answers.
        settings: Those of the run.
        texts: The values of `--text`.

    Raises:
        UserError: There are too few or too many texts, or one is empty.
    """
    if task.is_tagging:
        columns = {task.texts[0]: [*texts]}
    elif len(texts) == len(task.texts):
        columns = {name: [text] for name, text in zip(task.texts, texts)}
    else:
        raise UserError(
            f"--text: task {task.name} takes {len(task.texts)} of them, and "
            f"{len(texts)} are given."
        )
    if settings.keyword_column:
        print(
            f"--text: is read without the keyword that a row of --input has "
            f"in its column '{settings.keyword_column}'.",
            file=sys.stderr,
        )
    count = len(columns[task.texts[0]])
    places = [("--text", number + 1) for number in range(count)]
    table = Table("--text", places, columns)
    for name in task.texts:  # each is asked for: none may be empty
        (table.words if task.is_tagging else table.texts)(name)
    return _make_rows(task, settings, table, "")


def read_file(
    task: Task,
    settings: RunSettings,
    path: str,
    encoding: str = "",
    label_column: str = "",
    skip_bad_rows: bool = False,
) -> Texts:
    """Reads a table, without TensorFlow.

    Args:
        task: The task that answers.
        settings: Those of the run.
        path: The file.
        encoding: The encoding of a CSV or TSV; empty for the run's.
        label_column: The column of the labels; empty for none. A file with one
            word per line has them in its last.
        skip_bad_rows: Whether rows that cannot be used are left out.

    Raises:
        UserError: Naming the file, and the line or the column.
    """
    if label_column in task.texts:
        raise UserError(f"--label_column={label_column}: is one of the texts.")
    names = [*task.texts, settings.keyword_column]
    columns: dict[str, str | None] = dict.fromkeys(filter(None, names), "")
    if label_column:
        columns[label_column] = "--label_column"
    if task.is_tagging and label_column:
        table = tagged.read_table(path, task.texts[0], label_column)
        types = entities.types_of(task.labels or ())
        tagged.check_types(table, table.lists(label_column), types)
    elif task.is_tagging and file_formats.is_plain(path):
        table = tagged.read_columns(path, {task.texts[0]: 0})
    else:
        encoding = encoding or settings.encoding
        bad: list[BadRow] = []
        table = table_files.read_table(
            path, columns, encoding, bad_rows=bad, takes_all=True
        )
        if bad and not (skip_bad_rows and len(table)):
            raise BadRows(bad, "--skip_bad_rows leaves them out.")
        if bad:
            print(BadRows(bad, "Left out."), file=sys.stderr)
    if not len(table):
        raise UserError(f"{path}: holds no texts.")
    return _make_rows(task, settings, table, label_column, skip_bad_rows)


def _make_rows(
    task: Task,
    settings: RunSettings,
    table: Table,
    label_column: str,
    skip_bad_rows: bool = False,
) -> Texts:
    """The texts of a table, prepared as those of the run; see `read_file`.

    Rows with empty texts have no answer, or are left out.
    """
    what = "Left out." if skip_bad_rows else "Not answered."
    usable = _find_usable(task, table, what)
    if skip_bad_rows:
        table = usable
    number_of = {place: row for row, place in enumerate(table.places)}
    ids = np.array([number_of[place] for place in usable.places])
    if task.is_tagging:
        name = task.texts[0]
        words = usable.words(name)
        tags = [["O"] * len(sentence) for sentence in words]
        if label_column in usable.columns:
            tags = usable.lists(label_column)
        texts = Texts(table.path, table.columns, Sentences(ids, words, tags))
        columns = {**table.columns, name: texts.spread(name, words)}
        return texts._replace(columns=columns)
    keywords = [""] * len(usable)
    if settings.keyword_column in usable.columns:
        keywords = [
            *map(normalize_cell, usable.columns[settings.keyword_column])
        ]
    prepared = [
        prepare(settings, usable.texts(name), keywords) for name in task.texts
    ]
    labels = None
    if label_column:
        labels = _read_labels(task, usable, label_column)
    return Texts(table.path, table.columns, Examples(ids, prepared, labels))


def prepare(
    settings: RunSettings, texts: Sequence[str], keywords: Sequence[str]
) -> list[str]:
    """Texts as the encoder reads them.

    Args:
        settings: Those of the run.
        texts: The texts as they were found.
        keywords: The keyword of each; empty for none.
    """
    is_cleaned = settings.clean == "basic"
    return [
        texts_lib.make_text(text, keyword, is_cleaned)
        for text, keyword in zip(texts, keywords)
    ]


def _find_usable(task: Task, table: Table, what: str) -> Table:
    """The rows whose texts can be answered; prints the others, and `what`.

    Raises:
        BadRows: There is none.
    """
    bad: list[BadRow] = []
    usable, names = table, [*task.texts]
    while names:
        try:
            read = usable.words if task.is_tagging else usable.texts
            read(names[0])
            names.pop(0)
        except BadRows as error:
            bad += error.rows
            usable = usable.without(error.rows)
            if not len(usable):
                raise BadRows(bad) from None
    if bad:
        print(BadRows(bad, what), file=sys.stderr)
    return usable


def _read_labels(task: Task, table: Table, column: str) -> np.ndarray:
    """The labels in a table; see `Examples`."""
    cells, labels = table.columns[column], task.labels or ()
    if task.kind == "score":
        return np.asarray(table.scores(column))
    if task.kind == "classes":
        return table.label_ids(column, [*map(normalize_cell, cells)], labels)
    read = label_cells.find_label_cells(cells, task.separator, labels).read
    return table.label_sets(column, table.convert(column, read), labels)
