"""Yahoo Answers: questions and their best answers, some of their ten classes.

Its own files, `train.csv` and `test.csv`, have no header: the number of the
class, the question's title, the rest of the question (often empty), the best
answer. Line breaks are written as a backslash and an n.
"""

import hashlib
import os

import numpy as np

from tf_transfer.data import sources
from tf_transfer.data import tables
from tf_transfer.data import tasks
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

CLASSES = (
    "Society & Culture",
    "Science & Mathematics",
    "Health",
    "Education & Reference",
    "Computers & Internet",
    "Sports",
    "Business & Finance",
    "Entertainment & Music",
    "Family & Relationships",
    "Politics & Government",
)
CELLS = ("class", "question title", "question content", "best answer")


class Answers(sources.OneTask):
    """The examples of some classes.

    Args:
        folder: where the files are.
        classes: str. Numbers from 1 on or names, separated by commas; the
            first one is label 0.

    Attributes:
        labels: tuple of str. The names of the chosen classes.
        task: `tasks.Task`, to tell them apart.
        identity: str. Tells the files, and what is read of them.

    Raises:
        UserError: no such file, or no such class.
    """

    def __init__(self, folder, classes):
        self.folder = folder
        digest = hashlib.sha256()
        for split in ("train", "test"):
            digest.update(bytes.fromhex(files.sha256(self._path(split))))
        names = self._names()
        self._numbers = choose(classes, names)
        self.labels = tuple(names[number - 1] for number in self._numbers)
        also = "f1" if len(self.labels) == 2 else "f1_macro"
        self.task = tasks.Task(
            "text",
            "",
            ("answer",),
            "class",
            self.labels,
            "accuracy",
            "",
            (),
            also=(also,),
            development=("test",),
        )
        chosen = ",".join(map(str, self._numbers))
        self.identity = f"yahoo {chosen} sha256:{digest.hexdigest()}"

    def _path(self, split):
        path = os.path.join(self.folder, f"{split}.csv")
        if not os.path.isfile(path):
            raise UserError(
                f"{path}: no such file. Give as --data the folder with "
                "train.csv and test.csv of Yahoo Answers."
            )
        return path

    def _names(self):
        """The names of all classes, of `classes.txt` where there is one."""
        path = os.path.join(self.folder, "classes.txt")
        if not os.path.isfile(path):
            return CLASSES
        found = tuple(map(str.strip, sources.read_lines(path)))
        if len(found) != len(CLASSES) or len(set(found)) != len(CLASSES):
            raise UserError(
                f"{path}: does not hold {len(CLASSES)} different names, one a "
                "line. Mend it, or remove it: then the published ones hold."
            )
        return found

    def read(self, split):
        """`sources.Examples` of `train` or `test`."""
        return read(self._path(split), self._numbers)


def choose(classes, names=CLASSES):
    """Numbers of the classes that a flag names, in its order.

    Raises:
        UserError: one is none of the ten, or they are not several.
    """
    places = {}
    for number, name in enumerate(names, 1):
        places[str(number)] = places[name.lower()] = number
    words = [word.strip() for word in classes.split(",")]
    for word in words:
        if word.lower() not in places:
            raise UserError(
                f"--classes={classes}: {word!r} is no class. Give numbers from "
                f"1 to {len(names)}, or names: {', '.join(names)}."
            )
    found = [places[word.lower()] for word in words]
    if len(found) < 2 or len(set(found)) < len(found):
        raise UserError(
            f"--classes={classes}: give at least two classes, each one once."
        )
    return found


def read(path, numbers):
    """The examples of some classes; one text of title, question and answer.

    Args:
        numbers: classes, from 1 on; the first one is label 0.

    Raises:
        UserError: naming the file, the line and what to do.
    """
    label_of = {str(number): label for label, number in enumerate(numbers)}
    ids, texts, labels = [], [], []
    for row, (line, (word, *parts)) in enumerate(_rows(path)):
        if word not in label_of:
            continue
        # To an encoder a line break is a space.
        text = " ".join(" ".join(parts).replace(r"\n", " ").split())
        if not text:
            raise UserError(f"{path}, line {line}: is empty. Remove the row.")
        ids.append(row)
        texts.append(text)
        labels.append(label_of[word])
    missing = [n for n in numbers if label_of[str(n)] not in labels]
    if missing:
        raise UserError(
            f"{path}: has no example of class {missing[0]}. Give other "
            "--classes, or the whole file."
        )
    return sources.Examples(
        np.asarray(ids, np.int64), [texts], np.asarray(labels, np.int64)
    )


def _rows(path):
    """Yields (line number, cells) of every row, of other classes, too."""
    known = {str(number) for number in range(1, len(CLASSES) + 1)}
    for line, cells in tables.read_lines(path):
        if len(cells) != len(CELLS):
            raise UserError(
                f"{path}, line {line}: has {len(cells)} cells, needs "
                f"{len(CELLS)}: {', '.join(CELLS)}. Mend the line, or its "
                "quotes."
            )
        if cells[0] not in known:
            raise UserError(
                f"{path}, line {line}: {cells[0]!r} is no class from 1 to "
                f"{len(known)}. Mend the line; a header is not wanted."
            )
        yield line, cells
