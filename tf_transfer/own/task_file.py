"""The description of a user's own task: a TOML file, or a few flags.

    name = "tickets"
    texts = ["subject", "body"]        # one column, or two: a pair
    label = "team"
    kind = "classes"                   # classes, labels, score or entities
    train = "train.parquet"            # one file, several, or a pattern
    validation = "validation.parquet"  # or a fraction of train
    test = 0.1                         # or files; absent: no test

Only `texts`, `label` and `train` are needed. File names are relative to the
task file. `KEYS` declares every key; `table_source` reads the data files.
"""

import dataclasses
import glob
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable
from typing import Annotated, Any, Literal, NoReturn

from msgspec import Meta

from tf_transfer.data import file_formats
from tf_transfer.data.columns import Cell, normalize_cell, Table
from tf_transfer.data.task import find_metric_problem, KINDS, SEPARATOR
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_names, split_names
from tf_transfer.utils.json_files import Record

# A key of many parts takes memory by the square of their number.
MOST_BYTES, MOST_PARTS = 1 << 16, 100
ENDING = ".toml"

Text = Annotated[str, Meta(min_length=1)]
Names = Text | list[Text]
Folder = Annotated[str, Meta(pattern=r"^(?!\.{1,2}$)[\w.-]{1,100}\Z")]
Fraction = Annotated[float, Meta(gt=0, lt=1)]
Ids = Annotated[dict[Literal["ids"], Text], Meta(min_length=1)]
SPLITS = ("train", "validation", "test")
NEEDED = ("texts", "label", "train")
# The keys whose values a task has as they are.
PLAIN_KEYS = (
    "kind",
    "metric",
    "id",
    "group",
    "duplicates",
    "separator",
    "encoding",
    "skip_bad_rows",
)
# Every key of a task file: the type of its value, as `msgspec` understands it,
# and what it stands for.
KEYS: dict[str, tuple[Any, str]] = {
    "name": (
        Folder,
        "the task's name in folders and tables: letters, digits, -, _ and . "
        "alone, up to 100",
    ),
    "texts": (Names, "the column of the texts, or two: a pair"),
    "label": (
        Names,
        "the column of the labels; or of several labels, one column of 0 and 1 "
        "for each",
    ),
    "labels": (
        Text | list[str | int | float | bool],
        "the labels in a fixed order",
    ),
    "kind": (
        Literal[KINDS],
        "classes, labels (several at once), score or entities",
    ),
    "metric": (Text, "the metric that selects, stops and ranks"),
    "train": (
        Names,
        "the training files: one, a list, or a pattern such as train*.csv",
    ),
    "validation": (
        Names | Fraction | Ids,
        "the validation files, a fraction of train between 0 and 1, or "
        '{ ids = "FILE" } with one id per line',
    ),
    "test": (
        Names | Fraction | Ids,
        "the test files, a fraction of train between 0 and 1, or "
        '{ ids = "FILE" } with one id per line',
    ),
    "id": (Text, "the column of the ids that a file of ids lists"),
    "group": (
        Text,
        "the column of the author, patient or document of a text: rows of one "
        "go to the same split",
    ),
    "duplicates": (
        Literal["keep", "group"],
        "keep, or group: equal texts go to the same split",
    ),
    "separator": (
        Text,
        "the text between the labels of a cell; found in the cells if absent",
    ),
    "encoding": (Text, "the encoding of CSV and TSV files"),
    "skip_bad_rows": (
        bool,
        "true or false: whether rows that cannot be used are left out",
    ),
    "ignore_labels": (
        Text | list[str | int | float | bool],
        'the labels whose rows are left out, such as [-1, "unknown"]',
    ),
}


@dataclasses.dataclass(frozen=True)
class SplitOrigin:
    """Where a split comes from: files, a fraction, or rows by id.

    Attributes:
        paths: The files.
        fraction: The fraction of the training files, or 0.
        ids: The file with ids of rows of the training files, or "".
    """

    paths: tuple[str, ...] = ()
    fraction: float = 0.0
    ids: str = ""

    def __bool__(self) -> bool:
        return bool(self.paths or self.fraction or self.ids)


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """The description of a user's own task; its data is not yet read.

    Attributes:
        path: The task file, or the table; for messages.
        name: The task's name in folders and tables.
        texts: The columns of the texts.
        label: The columns of the labels: one, or one for each label.
        kind: One of `KINDS`.
        metric: The metric that selects, stops and ranks; empty for the kind's
            own.
        train, validation, test: Where each split comes from.
        labels: The labels in their order; None to take those of the data.
        id, group, duplicates, separator, encoding, skip_bad_rows,
            ignore_labels: See `KEYS`. An empty separator or encoding is that
            of the files' content.
    """

    path: str
    name: str
    texts: tuple[str, ...]
    label: tuple[str, ...]
    train: SplitOrigin
    validation: SplitOrigin = SplitOrigin()
    test: SplitOrigin = SplitOrigin()
    kind: str = "classes"
    metric: str = ""
    labels: tuple[str, ...] | None = None
    id: str | None = "id"
    group: str = ""
    duplicates: str = "keep"
    separator: str = ""
    encoding: str = ""
    skip_bad_rows: bool = False
    ignore_labels: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """A hash of the files' contents, and of how they are read."""
        values = dataclasses.asdict(self)
        del values["path"], values["name"]
        if not values["group"]:
            del values["group"]
        values["encoding"] = values["encoding"] or "utf-8"
        if self.kind != "labels":  # which alone have a separator
            values["separator"] = SEPARATOR
        for key in ("skip_bad_rows", "ignore_labels"):
            if not values[key]:
                del values[key]
        for split in SPLITS:
            values[split]["paths"] = [
                *map(files.sha256, values[split]["paths"])
            ]
            if values[split]["ids"]:
                values[split]["ids"] = files.sha256(values[split]["ids"])
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
        return f"own sha256:{digest.hexdigest()}"

    @property
    def id_column(self) -> str:
        """The column of the ids that files list; empty for line numbers."""
        lists_ids = self.validation.ids or self.test.ids
        return (self.id or "") if lists_ids else ""

    def list_columns(self) -> dict[str, str | None]:
        """The columns that are read, with what the user gives to name each."""
        columns: dict[str, str | None] = {
            **dict.fromkeys(self.texts, self.name_column("texts")),
            **dict.fromkeys(self.label, self.name_column("label")),
        }
        if self.id_column:
            flag = self.name_column("id") if self.id else None
            columns.setdefault(self.id_column, flag)
        if self.group:
            columns.setdefault(self.group, self.name_column("group"))
        return columns

    def make_texts(self, table: Table) -> list[list[str]]:
        """One or two columns of texts, from rows of the files.

        Raises:
            BadRows: Cells are empty, or no texts.
        """
        return [table.texts(column) for column in self.texts]

    @property
    def has_label_cells(self) -> bool:
        """Whether a cell holds several labels."""
        return self.kind == "labels" and len(self.label) == 1

    def name_option(self, flag: str, key: str) -> str:
        """A flag, for messages; or in its place a key or line of the file."""
        return f"`{key}`" if is_task_file(self.path) else flag

    def name_column(self, key: str) -> str:
        """The key of the file, or the flag, that names a column."""
        return self.name_option(f"--{key.removesuffix('s')}_column", key)


def is_task_file(name: str) -> bool:
    """Whether `--task` names a task file, by its extension."""
    return name.endswith(ENDING)


def read_task_file(path: str) -> TaskFile:
    """Reads a task file.

    Raises:
        UserError: The message has the line, the key, and what to do.
    """
    if not os.path.isfile(path):
        raise UserError(f"--task={path}: no such file. Give a task file.")
    content = files.read_bytes(path, MOST_BYTES)
    try:
        text = content.decode("utf-8-sig")
        words = re.split(r"[,=\[\]{}\n]", re.sub("[ \t\"']", "", text))
        if any(word.count(".") > MOST_PARTS for word in words):
            raise UserError(f"{path}: has a key of too many parts.")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: is not UTF-8.") from None
    except RecursionError:
        raise UserError(f"{path}: is nested too deep for a task.") from None
    except tomllib.TOMLDecodeError as error:
        # tomllib's message ends with the place.
        reason, _, place = str(error).partition(" (at ")
        number = re.match(r"line (\d+)", place)
        line = int(number[1]) if number else text.count("\n") + 1
        raise UserError(
            f"{path}, line {line}: is not TOML ({reason.lower()}). Put texts "
            'in quotes, such as label = "team".'
        ) from None
    return _Reader(path, text, values).task()


@dataclasses.dataclass
class _Reader:
    """Makes a task of the values of a task file; errors have the line."""

    path: str
    text: str
    values: Record

    def task(self) -> TaskFile:
        """The task that the file describes."""
        for key, value in self.values.items():
            if key not in KEYS:
                self._fail(key, f"is no key. There are: {', '.join(KEYS)}.")
            declared, meaning = KEYS[key]
            if not json_files.is_valid(value, declared):
                self._fail(
                    key, f"{cut(repr(value))} is not valid. Give {meaning}."
                )
        plain = {key: v for key, v in self.values.items() if key in PLAIN_KEYS}
        texts, label = self._names("texts"), self._names("label")
        convert: Callable[[Cell], str] = normalize_cell  # as those of cells
        if plain.get("kind") == "entities":
            texts, label = texts or ("words",), label or ("tags",)
            convert = str
        task = TaskFile(
            self.path,
            self.values.get("name") or _stem(self.path),
            texts,
            label,
            self._read_origin("train"),
            self._read_origin("validation"),
            self._read_origin("test"),
            labels=self._names("labels", convert) or None,
            ignore_labels=self._names("ignore_labels", convert),
            **plain,
        )
        self._check(task)
        return task

    def _check(self, task: TaskFile) -> None:
        """Raises `UserError` for what is missing or does not go together."""
        for key in NEEDED:
            if not getattr(task, key):
                self._fail(key, f"is missing: {KEYS[key][1]}.")
        is_tagged = task.kind == "entities"
        if len(task.texts) > (1 if is_tagged else 2):
            self._fail("texts", "give one column, or two for a pair.")
        if len(task.label) > 1 and task.kind != "labels":
            self._fail("label", 'several columns need kind = "labels".')
        if task.labels and task.kind == "score":
            self._fail("labels", "a score has none. Leave it out.")
        if task.ignore_labels and is_tagged:
            self._fail("ignore_labels", "tags stay. Leave it out.")
        both = {*task.ignore_labels} & {*(task.labels or ())}
        if both:
            self._fail(
                "ignore_labels", f"{quote_names(sorted(both))} is in labels."
            )
        problem = find_metric_problem(task.kind, task.metric)
        if problem:
            self._fail("metric", problem)
        if task.validation.fraction + task.test.fraction >= 1:
            self._fail("test", "with validation, leaves nothing to train on.")
        key_of_file: dict[str, str] = {}
        for key in SPLITS:
            origin = getattr(task, key)
            if is_tagged and origin.ids:
                self._fail(key, "sentences have no ids. Give a file.")
            for path in origin.paths:
                file = os.path.realpath(path)
                if file in key_of_file:
                    self._fail(key, f"{path} is also in {key_of_file[file]}.")
                key_of_file[file] = key

    def _names(
        self, key: str, convert: Callable[[Cell], str] = str
    ) -> tuple[str, ...]:
        """One text, or several different ones; empty where there are none.

        Args:
            key: The key.
            convert: Makes a text of a value.
        """
        value = self.values.get(key, [])
        values = [value] if isinstance(value, str) else value
        names = tuple(map(convert, values))
        if len(set(names)) < len(names):
            self._fail(key, "has a name twice.")
        return names

    def _read_origin(self, key: str) -> SplitOrigin:
        value = self.values.get(key)
        if isinstance(value, float):
            return SplitOrigin(fraction=value)
        if isinstance(value, dict):
            return SplitOrigin(ids=self._find(key, value["ids"])[0])
        paths: list[str] = []
        for name in self._names(key):
            paths += self._find(key, name)
        return SplitOrigin(tuple(paths))

    def _find(self, key: str, name: str) -> list[str]:
        """The files of a name or pattern, relative to the task file."""
        folder = os.path.dirname(self.path)
        name = os.path.expanduser(name)
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return [path]
        matches = []
        if glob.has_magic(name):
            matches = glob.glob(os.path.join(glob.escape(folder), name))
        paths = sorted(filter(os.path.isfile, matches))
        if not paths:
            self._fail(key, f"{cut(name)}: no such file.")
        return paths

    def _fail(self, key: str, reason: str) -> NoReturn:
        """Raises `UserError` with the line of a key."""
        pattern = rf"""\[?\s*["']?{re.escape(key)}["']?\s*[=.\]]"""
        where = self.path
        for number, line in enumerate(self.text.splitlines(), 1):
            if re.match(pattern, line):
                where += f", line {number}"
                break
        raise UserError(f"{where}: {cut(key)}: {reason}")


def _stem(path: str) -> str:
    """A file's name without extension, as the name of a task."""
    stem, extension = os.path.splitext(os.path.basename(path))
    if extension.lower() in file_formats.UNPACK:
        stem = os.path.splitext(stem)[0]
    return re.sub(r"[^\w.-]", "_", stem)


# === From flags ===


def is_table(data: str) -> bool:
    """Whether `--data` names one table: a file, or a name like a table's."""
    return (
        os.path.isfile(data)
        or file_formats.extension_of(data) in file_formats.EXTENSIONS
    )


def check_table(data: str) -> None:
    """Raises `UserError` if there is no such table."""
    if not os.path.isfile(data):
        raise UserError(
            f"--data={data}: no such file. Give a CSV, TSV, JSON lines, "
            "Parquet or Excel file, or a task file as --task."
        )


def from_flags(
    data: str,
    name: str = "",
    text_column: str = "",
    label_column: str = "",
    kind: str = "classes",
    metric: str = "",
    test_fraction: float = 0.1,
    group: str = "",
    duplicates: str = "keep",
    encoding: str = "",
    skip_bad_rows: bool = False,
    separator: str = "",
    ignore_labels: str = "",
) -> TaskFile:
    """A task of one table, of which a fraction tests.

    Raises:
        UserError: The message names the flag.
    """
    check_table(data)
    texts = tuple(filter(None, split_names(text_column)))
    if kind == "entities":
        texts, label_column = texts or ("words",), label_column or "tags"
    if not texts or not label_column:
        missing = "--label_column" if texts else "--text_column"
        raise UserError(
            f"--data={data}: is a table: name its columns as --text_column and "
            f"--label_column ({missing} is missing)."
        )
    if len(texts) > 2:
        raise UserError(
            f"--text_column={text_column}: give one column, or two with a "
            "comma between for a pair. Put a name that has a comma in double "
            "quotes."
        )
    problem = find_metric_problem(kind, metric)
    if problem:
        raise UserError(f"--metric={metric}: {problem}")
    return TaskFile(
        data,
        name or _stem(data),
        texts,
        (label_column,),
        SplitOrigin(paths=(data,)),
        test=SplitOrigin(fraction=test_fraction),
        kind=kind,
        metric=metric,
        group=group,
        duplicates=duplicates,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        separator=separator,
        ignore_labels=split_labels(ignore_labels),
    )


def split_labels(value: str) -> tuple[str, ...]:
    """The labels that a flag lists, with commas between."""
    return tuple(filter(None, map(normalize_cell, split_names(value))))
