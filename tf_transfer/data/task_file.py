"""A task of one's own: what a TOML file, or a few flags, say of it.

    name = "tickets"
    texts = ["subject", "body"]        # one column, or two: a pair
    label = "team"
    kind = "classes"                   # classes, labels, score or entities
    train = "train.parquet"            # one file, several, or a pattern
    validation = "validation.parquet"  # or a fraction of train
    test = 0.1                         # or files; absent: no test

Only `texts`, `label` and `train` are needed. File names are relative to the
task file. The files are read by `table_source`; see `KEYS` for every key.
"""

import dataclasses
import functools
import glob
import os
import re
import tomllib
from typing import Any

from tf_transfer.data import metrics_of_kinds
from tf_transfer.data import tables
from tf_transfer.data.task import KINDS
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

ENDING = ".toml"
SEPARATOR = ";"
NAME = r"(?!\.{1,2}$)[\w.-]{1,100}"  # of a folder
# Every key of a task file, and what it says.
KEYS = {
    "name": "what folders and tables call the task",
    "texts": "the column of the texts, or two: a pair",
    "label": "the column of the labels; or of several labels, one column of 0 "
    "and 1 for each",
    "labels": "the labels in a fixed order",
    "kind": "classes, labels (several at once), score or entities",
    "metric": "what selects, stops and ranks",
    "train": "files that train: one, a list, or a pattern such as train*.csv",
    "validation": "files that validate, or a fraction of train",
    "test": "files that test, a fraction of train, or {ids = FILE}",
    "id": "the column that a file of ids speaks of",
    "duplicates": "keep or group: the same texts on one side of a split",
    "separator": "what stands between the labels of a cell",
    "encoding": "of CSV and TSV",
}
CHOICES = {"kind": KINDS, "duplicates": ("keep", "group")}


@dataclasses.dataclass(frozen=True)
class Part:
    """What trains, validates or tests: files, a fraction, or rows by id.

    Attributes:
        paths: The files.
        fraction: Of the training files; 0 where it is not one.
        ids: File with ids of rows of the training files.
    """

    paths: tuple[str, ...] = ()
    fraction: float = 0.0
    ids: str = ""

    def __bool__(self) -> bool:
        return bool(self.paths or self.fraction or self.ids)


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """A task of one's own, its files not yet read.

    Attributes:
        path: The task file, or the table; for messages.
        name: What folders and tables call it.
        texts: The columns of the texts.
        label: The columns of the labels: one, or one for each label.
        kind: One of `KINDS`.
        metric: What selects, stops and ranks; empty for the kind's own.
        train, validation, test: Where each comes from.
        labels: The labels in their order; None to find them.
        id: See `KEYS`; as is the rest.
    """

    path: str
    name: str
    texts: tuple[str, ...]
    label: tuple[str, ...]
    train: Part
    validation: Part = Part()
    test: Part = Part()
    kind: str = "classes"
    metric: str = ""
    labels: tuple[str, ...] | None = None
    id: str = "id"
    duplicates: str = "keep"
    separator: str = SEPARATOR
    encoding: str = "utf-8"


def is_task_file(name: str) -> bool:
    """Whether `--task` names a task file, by its ending."""
    return name.endswith(ENDING)


def read(path: str) -> TaskFile:
    """Reads a task file.

    Raises:
        UserError: With the line and what to do.
    """
    if not os.path.isfile(path):
        raise UserError(f"--task={path}: no such file. Give a task file.")
    return _read(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(64)
def _read(path: str, changed: int) -> TaskFile:
    del changed  # but it is in the cache's key
    with open(path, "rb") as file:
        content = file.read()
    try:
        text = content.decode("utf-8-sig")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: is not UTF-8.") from None
    except RecursionError:
        raise UserError(f"{path}: is nested too deep for a task.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(_describe_syntax(path, text, str(error))) from None
    return _Checker(path, text, values).make()


def _describe_syntax(path: str, text: str, error: str) -> str:
    """tomllib's message with its line first."""
    place = re.search(r"\(at line (\d+), column \d+\)", error)
    line = int(place[1]) if place else text.count("\n") + 1
    reason = error.split(" (at ")[0].lower()
    return (
        f"{path}, line {line}: is not TOML ({reason}). Texts stand in quotes, "
        'such as label = "team".'
    )


class _Checker:
    """Checks the values of a task file, each with its line."""

    def __init__(self, path: str, text: str, values: dict[str, Any]) -> None:
        self.path = path
        self.values = values
        self._lines = text.splitlines()

    def make(self) -> TaskFile:
        """The task that the file describes."""
        for key in self.values:
            if key not in KEYS:
                self.fail(key, f"is no key. There are: {', '.join(KEYS)}.")
        kind = self.choice("kind") or "classes"
        name = self.text("name") or _stem(self.path)
        if not re.fullmatch(NAME, name):
            self.fail(
                "name", "give letters, digits, -, _ and . alone, up to 100."
            )
        is_tagged = kind == "entities"
        task = TaskFile(
            self.path,
            name,
            self.names("texts") or (("words",) if is_tagged else ()),
            self.names("label") or (("tags",) if is_tagged else ()),
            self.part("train"),
            self.part("validation"),
            self.part("test"),
            kind,
            self.text("metric"),
            self.names("labels") or None,
            self.text("id") or "id",
            self.choice("duplicates") or "keep",
            self.text("separator") or SEPARATOR,
            self.text("encoding") or "utf-8",
        )
        self.check(task)
        return task

    def check(self, task: TaskFile) -> None:
        """Raises `UserError` for what does not go together."""
        for key, given in (("texts", task.texts), ("label", task.label)):
            if not given:
                self.fail(key, f"is missing: {KEYS[key]}.")
        if not task.train.paths:
            self.fail("train", f"is missing: {KEYS['train']}.")
        if len(task.texts) > (1 if task.kind == "entities" else 2):
            self.fail("texts", "give one column, or two for a pair.")
        if len(task.label) > 1 and task.kind != "labels":
            self.fail("label", 'several columns go with kind = "labels" alone.')
        for key in ("validation", "test"):
            if task.kind == "entities" and getattr(task, key).ids:
                self.fail(key, "sentences have no ids. Give a file.")
        if task.labels and task.kind == "score":
            self.fail("labels", "a score has none. Leave it out.")
        problem = metrics_of_kinds.find_problem(task.kind, task.metric)
        if problem:
            self.fail("metric", problem)
        seen: dict[str, str] = {}
        for key in ("train", "validation", "test"):
            for path in getattr(task, key).paths:
                if os.path.realpath(path) in seen:
                    self.fail(
                        key,
                        f"{path} is in {seen[os.path.realpath(path)]}, too.",
                    )
                seen[os.path.realpath(path)] = key
        fractions = task.validation.fraction + task.test.fraction
        if fractions >= 1:
            self.fail("test", "with validation, leaves nothing to train on.")

    # === Values ===

    def text(self, key: str) -> str:
        """A text; empty where there is none."""
        value = self.values.get(key, "")
        if not isinstance(value, str) or (key in self.values and not value):
            self.fail(key, "give a text in quotes.")
        return value

    def choice(self, key: str) -> str:
        """One of `CHOICES`; empty where there is none."""
        value = self.text(key)
        if value and value not in CHOICES[key]:
            self.fail(
                key, f"{cut(value)!r} is not one of {', '.join(CHOICES[key])}."
            )
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """A text, or a list of different ones."""
        value = self.values.get(key, [])
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(
            isinstance(name, str) and name for name in names
        ):
            self.fail(key, 'give a text, or a list such as ["a", "b"].')
        if len(set(names)) < len(names):
            self.fail(key, "has a name twice.")
        return tuple(names)

    def part(self, key: str) -> Part:
        """Files, a fraction, or ids."""
        value = self.values.get(key)
        if value is None:
            return Part()
        if isinstance(value, float | int) and not isinstance(value, bool):
            if key == "train":
                self.fail(key, "give files, in quotes.")
            if not 0 < value < 1:
                self.fail(key, "give a fraction between 0 and 1, or files.")
            return Part(fraction=float(value))
        if isinstance(value, dict) and key != "train":
            if set(value) != {"ids"} or not isinstance(value["ids"], str):
                self.fail(key, 'give { ids = "FILE" }, with an id a line.')
            return Part(ids=self.find(key, value["ids"])[0])
        return Part(
            paths=tuple(
                path
                for name in self.names(key)
                for path in self.find(key, name)
            )
        )

    def find(self, key: str, name: str) -> list[str]:
        """The files of a name or pattern, beside the task file."""
        path = os.path.join(os.path.dirname(self.path), name)
        if os.path.isfile(path):
            return [path]
        found = sorted(glob.glob(path)) if glob.has_magic(name) else []
        if not found:
            self.fail(key, f"{cut(name)}: no such file.")
        return found

    def fail(self, key: str, reason: str) -> None:
        """Raises `UserError` with the line of a key."""
        pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
        found = [
            number
            for number, line in enumerate(self._lines, 1)
            if pattern.match(line.removeprefix("["))
        ]
        line = f", line {found[0]}" if found else ""
        raise UserError(f"{self.path}{line}: {cut(key)}: {reason}")


def _stem(path: str) -> str:
    """The name of a file as that of a task."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return re.sub(r"[^\w.-]", "_", stem)


# === From flags ===


def is_table(data: str) -> bool:
    """Whether `--data` names one table: it is a file, or ends like one."""
    return os.path.isfile(data) or data.lower().endswith(tables.EXTENSIONS)


def from_flags(
    data: str,
    name: str = "",
    text_column: str = "",
    label_column: str = "",
    kind: str = "classes",
    metric: str = "",
    test_fraction: float = 0.1,
    duplicates: str = "keep",
    encoding: str = "utf-8",
) -> TaskFile:
    """A task of one table, of which a part is tested.

    Raises:
        UserError: Naming the flag.
    """
    if not os.path.isfile(data):
        raise UserError(
            f"--data={data}: no such file. Give a CSV, TSV, JSON lines or "
            "Parquet file, or a task file as --task."
        )
    texts = tuple(filter(None, text_column.split(",")))
    for flag, names in (("text", texts), ("label", label_column)):
        if not names and kind != "entities":
            raise UserError(
                f"--data={data}: is a table: name its columns as "
                "--text_column and --label_column"
                f" (--{flag}_column is missing)."
            )
    if len(texts) > 2:
        raise UserError(
            f"--text_column={text_column}: give one column, or two with a "
            "comma between for a pair."
        )
    problem = metrics_of_kinds.find_problem(kind, metric)
    if problem:
        raise UserError(f"--metric={metric}: {problem}")
    return TaskFile(
        data,
        name or _stem(data),
        texts or ("words",),
        (label_column or "tags",),
        Part(paths=(data,)),
        test=Part(fraction=test_fraction),
        kind=kind,
        metric=metric,
        duplicates=duplicates,
        encoding=encoding,
    )
