"""A task of one's own as a source like any other: what its files hold.

Rows of the training files that are drawn to validate or to test are stratified
by label, and with `duplicates = "group"` no text is on two sides. A label with
too few rows for that stays with those that train.
"""

import collections
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transfer.data import entities
from tf_transfer.data import heldout
from tf_transfer.data import metrics_of_kinds
from tf_transfer.data import rows as rows_lib
from tf_transfer.data import splits
from tf_transfer.data import tables
from tf_transfer.data import tagged
from tf_transfer.data.rows import Rows
from tf_transfer.data.task import Examples
from tf_transfer.data.task import Sentences
from tf_transfer.data.task import Source
from tf_transfer.data.task import Task
from tf_transfer.data.task_file import Part
from tf_transfer.data.task_file import TaskFile
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

PARTS = ("train", "validation", "test")
# What a column of 0 and 1 may say.
YES_NO = {"0": False, "1": True, "false": False, "true": True}


@dataclasses.dataclass
class Table:
    """The rows of some files, one behind the other.

    Attributes:
        files: The files, without their texts.
        texts: One or two columns, each a text a row.
        labels: What each row is labelled with: a word, several, a number, or
            a tag for each word.
        words: Where words are tagged, those of each row.
    """

    files: list[Any]
    texts: list[list[str]]
    labels: list[Any]
    words: list[list[str]] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.labels)

    def locate(self, row: int, column: str) -> str:
        """Where a cell stands, for messages."""
        for file in self.files:
            if row < len(file):
                return file.locate(row, column)
            row -= len(file)
        raise IndexError(row)


class OwnSource(Source):
    """The texts of a task of one's own.

    Args:
        task_file: What is said of it.
        split_seed: Of the rows that are drawn to validate or to test.

    Attributes:
        name: What the task is called; its files need not be read for it.
        splits: Which of `PARTS` it has.
    """

    def __init__(self, task_file: TaskFile, split_seed: int = 0) -> None:
        self.task_file = task_file
        self.name = task_file.name
        self.splits = [part for part in PARTS if getattr(task_file, part)]
        self._split_seed = split_seed
        self._tables: dict[str, Table] = {}

    @functools.cached_property
    def identity(self) -> str:  # type: ignore[override]
        """A hash of the files' contents, and of how they are read."""
        said = dataclasses.asdict(self.task_file)
        del said["path"], said["name"]
        for part in PARTS:
            paths = said[part]["paths"]
            said[part]["paths"] = [files.sha256(path) for path in paths]
            if said[part]["ids"]:
                said[part]["ids"] = files.sha256(said[part]["ids"])
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
        return f"own sha256:{digest.hexdigest()}"

    @functools.cached_property
    def task(self) -> Task:  # type: ignore[override]
        """The task, with the labels that its training files hold."""
        said = self.task_file
        labels = None if said.kind == "score" else self._labels()
        if (
            said.kind == "classes"
            and said.metric in metrics_of_kinds.TWO_CLASSES
            and len(labels or ()) != 2
        ):
            raise UserError(
                f"{said.path}: metric: {said.metric!r} is of two labels, and "
                f"there are {len(labels or ())}. Give 'f1_macro' or "
                "'accuracy'."
            )
        metric, *also = metrics_of_kinds.choose(
            said.kind, said.metric, len(labels or ())
        )
        return Task(
            said.name,
            "",
            said.texts,
            said.label[0],
            labels,
            metric,
            also=tuple(also),
            development=("test",) if said.test else (),
            kind=said.kind,
            validation="validation" if said.validation else "",
            score_scale=self._scale() if said.kind == "score" else None,
        )

    def read(self, split: str) -> Examples | Sentences:
        """The examples of one of `splits`.

        Raises:
            UserError: With the file, the line and what to do.
        """
        part: Part = getattr(self.task_file, split)
        if part.paths and split != "train":
            table = self._table(split)
            rows = np.arange(len(table))
        else:
            table = self._table("train")
            rows = self._drawn[split]
        known = self.task.labels or ()
        if self.task.is_tagging:
            self._check_types(table, known)
            ids = np.arange(len(table))
            return Sentences(ids, table.words, table.labels).take(rows)
        labels = self._encode(table, {word: n for n, word in enumerate(known)})
        return Examples(np.arange(len(table)), table.texts, labels).take(rows)

    def group(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of rows; with `duplicates = "group"` those of their texts."""
        return self._groups[rows]

    def forget(self) -> None:
        """Lets go of all texts; they are read again where needed."""
        self._tables.clear()

    # === Rows ===

    def _table(self, part: str) -> Table:
        if part not in self._tables:
            self._tables[part] = self._read(getattr(self.task_file, part).paths)
        return self._tables[part]

    def _read(self, paths: Sequence[str]) -> Table:
        said = self.task_file
        if said.kind == "entities":
            return self._read_tagged(paths)
        names = [*said.texts, *said.label]
        if self._by_ids:
            names.append(said.id)
        table = Table([], [[] for _ in said.texts], [])
        for path in paths:
            found = rows_lib.read(path, names, said.encoding)
            if not len(found):
                raise UserError(f"{path}: holds no examples.")
            for column, name in zip(table.texts, said.texts):
                column.extend(
                    rows_lib.text_of(found, row, name)
                    for row in range(len(found))
                )
            table.labels.extend(
                _PARSERS[said.kind](said, found, row)
                for row in range(len(found))
            )
            for name in {*said.texts, *said.label} - {said.id}:
                del found.columns[name]
            table.files.append(found)
        return table

    def _read_tagged(self, paths: Sequence[str]) -> Table:
        said = self.task_file
        table = Table([], [[]], [])
        for path in paths:
            found = tagged.read(path, said.texts[0], said.label[0])
            table.words += found.words
            table.labels += found.tags
            table.texts[0] += [" ".join(words) for words in found.words]
            table.files.append(found)
        return table

    def _check_types(self, table: Table, known: Sequence[str]) -> None:
        """Raises `UserError` for a type of entity that does not train."""
        for file in table.files:
            for sentence, tags in enumerate(file.tags):
                for word, tag in enumerate(tags):
                    if tag not in known:
                        raise UserError(
                            f"{file.locate(sentence, word)}: {cut(tag[2:])!r} "
                            "is not among the types that train: "
                            f"{', '.join(entities.types_of(known))}. Mend the "
                            "tag, or remove the sentence."
                        )

    @property
    def _by_ids(self) -> bool:
        return bool(self.task_file.validation.ids or self.task_file.test.ids)

    # === Labels ===

    def _labels(self) -> tuple[str, ...]:
        """The labels that the training files hold, or that are given."""
        said = self.task_file
        if said.kind == "entities":
            types = said.labels or tagged.types_of(self._table("train").labels)
            if not types:
                raise UserError(
                    f"{said.train.paths[0]}: tags no entity: there is nothing "
                    "to learn."
                )
            return entities.tag_names(types)
        if said.labels:
            return said.labels
        if len(said.label) > 1:
            return said.label
        table = self._table("train")
        where = f"{said.train.paths[0]}, column {cut(said.label[0])!r}"
        words = table.labels
        if said.kind == "labels":
            words = [word for several in words for word in several]
        counts = collections.Counter(words)
        if len(counts) < (1 if said.kind == "labels" else 2):
            raise UserError(
                f"{where}: has {len(counts)} different labels: there is "
                "nothing to learn. Name another column."
            )
        if len(counts) > min(tables.MOST_CLASSES, len(table) / 2):
            raise UserError(
                f"{where}: has {len(counts)} different labels in {len(table)} "
                "rows: these are no classes. Name another column; for numbers, "
                "the kind is score."
            )
        return tables.sort_labels(counts)

    def _scale(self) -> tuple[float, float]:
        """Mean and deviation of the scores that are not held out here.

        Scores may be stars, prices or years: in units of their deviation, one
        learning rate does for all of them.
        """
        scores = np.asarray(self._table("train").labels, np.float64)
        scores = scores[self._drawn["train"]]
        if scores.min() == scores.max():
            raise UserError(
                f"{self.task_file.train.paths[0]}, column "
                f"{cut(self.task_file.label[0])!r}: holds {scores[0]:g} alone: "
                "there is nothing to learn. Name another column."
            )
        return float(scores.mean()), float(scores.std())

    def _encode(self, table: Table, known: dict[str, int]) -> np.ndarray:
        """The labels of all rows as numbers; see `Examples`."""
        said = self.task_file
        if said.kind == "score":
            return np.asarray(table.labels, np.float32)
        if said.kind == "entities":
            return np.zeros(len(table), np.int64)  # sentences have no class

        def number(word: str, row: int) -> int:
            if word not in known:
                raise UserError(
                    f"{table.locate(row, said.label[0])}: {cut(word)!r} is not "
                    "among the labels that train: "
                    f"{', '.join(list(known)[:12])}. Mend the row, or remove "
                    "it."
                )
            return known[word]

        if said.kind == "labels":
            several = np.zeros((len(table), len(known)), np.int64)
            for row, words in enumerate(table.labels):
                for word in words:
                    several[row, number(word, row)] = 1
            return several
        return np.fromiter(
            (number(word, row) for row, word in enumerate(table.labels)),
            np.int64,
            len(table),
        )

    # === What is drawn ===

    @functools.cached_property
    def _groups(self) -> np.ndarray:
        """int64 [rows of train]. Rows of one number are never split apart."""
        table = self._table("train")
        if self.task_file.duplicates == "keep":
            return np.arange(len(table))
        return tables.group_texts([*zip(*table.texts)])

    @functools.cached_property
    def _drawn(self) -> dict[str, np.ndarray]:
        """Rows of the training files by what they do, int64."""
        said = self.task_file
        table = self._table("train")
        known = () if said.kind == "score" else self.task.labels or ()
        labels = self._encode(table, {word: n for n, word in enumerate(known)})
        rest = np.arange(len(table))
        drawn: dict[str, np.ndarray] = {}
        # What ids name is not drawn from.
        parts = sorted(
            ("test", "validation"), key=lambda p: not getattr(said, p).ids
        )
        for part in parts:
            wanted: Part = getattr(said, part)
            if wanted.ids:
                held = self._find_ids(table, part, wanted.ids)
                if not np.isin(self._groups[held], self._groups[rest]).all():
                    raise UserError(
                        f"{said.path}: {part}: {wanted.ids}: has ids of rows "
                        "that test, or of texts like theirs. Leave them out."
                    )
            elif wanted.fraction:
                held = self._draw(labels, rest, wanted.fraction)
            else:
                continue
            drawn[part] = np.sort(held)
            rest = rest[~np.isin(self._groups[rest], self._groups[held])]
        rest = self._leave_out_held(table, rest)
        if not len(rest):
            raise UserError(
                f"{said.path}: leaves no rows to train on. Hold out fewer."
            )
        return {**drawn, "train": rest}

    def _leave_out_held(self, table: Table, rows: np.ndarray) -> np.ndarray:
        """The rows whose texts no file that validates or tests has, too."""
        if self.task_file.duplicates == "keep":
            return rows
        held = {
            tables.normalize(texts)
            for part in ("validation", "test")
            if getattr(self.task_file, part).paths
            for texts in zip(*self._table(part).texts)
        }
        if not held:
            return rows
        texts = [*zip(*table.texts)]
        kept = [r for r in rows if tables.normalize(texts[r]) not in held]
        return np.array(kept, np.int64)

    def _draw(
        self, labels: np.ndarray, rest: np.ndarray, fraction: float
    ) -> np.ndarray:
        """Draws a fraction of the rows that are left, whole groups."""
        _, held = splits.split_train_validation(
            labels[rest], fraction, self._split_seed, self._groups[rest]
        )
        is_held = np.isin(np.arange(len(rest)), held)
        if labels.dtype.kind == "i" and labels.ndim == 1:
            is_held &= np.isin(labels[rest], labels[rest[~is_held]])
        return rest[is_held]

    def _find_ids(self, table: Table, part: str, path: str) -> np.ndarray:
        said = self.task_file
        name = f"{said.path}: {part}: {path}"
        ids = [
            rows_lib.word_of(cell)
            for file in table.files
            for cell in file.columns[said.id]
        ]
        return heldout.find_rows(
            heldout.read_ids(path, name), ids, name, "the table", "`id`"
        )


# === The label of a row ===


def _parse_class(said: TaskFile, rows: Rows, row: int) -> str:
    [column] = said.label
    word = rows_lib.word_of(rows.columns[column][row])
    if not word:
        raise UserError(
            f"{rows.locate(row, column)}: is empty. Remove the row, or name "
            "another column."
        )
    return word


def _parse_score(said: TaskFile, rows: Rows, row: int) -> float:
    [column] = said.label
    cell = rows.columns[column][row]
    try:
        score = float("nan" if isinstance(cell, bool) else cell)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise UserError(
            f"{rows.locate(row, column)}: {cell!r:.60} is no number. Mend the "
            "row, or remove it."
        )
    return score


def _parse_labels(said: TaskFile, rows: Rows, row: int) -> list[str]:
    if len(said.label) == 1:
        cell = rows.columns[said.label[0]][row]
        parts = cell if isinstance(cell, list) else None
        if parts is None:
            parts = rows_lib.word_of(cell).split(said.separator)
        return [word for word in map(rows_lib.word_of, parts) if word]
    words = []
    for column in said.label:
        cell = rows.columns[column][row]
        said_yes = YES_NO.get(rows_lib.word_of(cell).lower())
        if said_yes is None:
            raise UserError(
                f"{rows.locate(row, column)}: {cell!r:.60} is neither 0 nor 1."
            )
        if said_yes:
            words.append(column)
    return words


_PARSERS: dict[str, Callable[[TaskFile, Rows, int], Any]] = {
    "classes": _parse_class,
    "score": _parse_score,
    "labels": _parse_labels,
}
