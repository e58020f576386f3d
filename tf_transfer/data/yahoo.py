"""Yahoo Answers: questions and their best answers, in some of ten classes.

The files `train.csv` and `test.csv` have no header, and four cells per row: the
number of the class, the question's title, the rest of the question (often
empty), the best answer. A line break is written as a backslash and an n.
"""

from collections.abc import Sequence

import numpy as np

from tf_transfer.data import delimited
from tf_transfer.data.corpora import FolderSource
from tf_transfer.data.task import Examples, Task
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

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
DEFAULT_CLASSES = "1,2"
CELLS = ("class", "question title", "question content", "best answer")
DIALECT = delimited.Dialect(header=CELLS)


def open_source(
    data: str, cache_folder: str = "", classes: str = DEFAULT_CLASSES
) -> FolderSource:
    """The examples of some classes.

    Args:
        data: The folder of the files.
        cache_folder: Not read: there is no wheel.
        classes: Numbers from 1 on or names, separated by commas; the first
            one is label 0.

    Raises:
        UserError: A file is missing, or a class is unknown.
    """
    numbers = choose_classes(classes)
    task = Task(
        "text",
        "",
        ("answer",),
        "class",
        tuple(CLASSES[number - 1] for number in numbers),
        "accuracy",
        also=("f1",) if len(numbers) == 2 else ("f1_macro",),
        development=("test",),
    )
    return FolderSource(
        task,
        data,
        "{}.csv",
        "Give as --data the folder with train.csv and test.csv of Yahoo "
        "Answers.",
        f"yahoo {','.join(map(str, numbers))}",
        ("train", "test"),
        lambda path, split: read_examples(path, numbers),
    )


def choose_classes(classes: str) -> list[int]:
    """The numbers of the classes that `--classes` names, in its order.

    Args:
        classes: Numbers from 1 on or names, separated by commas.

    Raises:
        UserError: A class is not known or named twice, or there is only one.
    """
    number_of = {}
    for number, name in enumerate(CLASSES, 1):
        number_of[str(number)] = number
        number_of[name.lower()] = number
    numbers = []
    for word in classes.split(","):
        word = word.strip()
        if word.lower() not in number_of:
            raise UserError(
                f"--classes={classes}: {cut(word)!r} is not a class. Give "
                f"numbers from 1 to {len(CLASSES)}, or names: "
                f"{', '.join(CLASSES)}."
            )
        numbers.append(number_of[word.lower()])
    if len(numbers) < 2 or len(set(numbers)) < len(numbers):
        raise UserError(
            f"--classes={classes}: give at least two classes, each one once."
        )
    return numbers


def read_examples(path: str, numbers: Sequence[int]) -> Examples:
    """Reads the examples of some classes.

    A text is title, question and answer.

    Args:
        path: The file.
        numbers: Classes, from 1 on; the first one is label 0.

    Raises:
        UserError: A row is invalid; the message has file and line.
    """
    label_of = {str(number): label for label, number in enumerate(numbers)}
    classes = {str(number) for number in range(1, len(CLASSES) + 1)}
    rows = delimited.read_rows(path, dialect=DIALECT)
    next(rows)  # the header
    ids, texts, labels = [], [], []
    for row, (line, (word, *cells)) in enumerate(rows):
        if word not in classes:
            raise UserError(
                f"{path}, line {line}: {cut(word)!r} is not a class from 1 to "
                f"{len(classes)}. Fix the line; the file must have no header."
            )
        if word in label_of:
            # To an encoder a line break is a space.
            text = " ".join(" ".join(cells).replace(r"\n", " ").split())
            if not text:
                raise UserError(
                    f"{path}, line {line}: is empty. Remove the row."
                )
            ids.append(row)
            texts.append(text)
            labels.append(label_of[word])
    missing = {*label_of.values()} - {*labels}
    if missing:
        raise UserError(
            f"{path}: has no example of class {numbers[min(missing)]}. Give "
            "other --classes, or the whole file."
        )
    return Examples(
        np.asarray(ids, np.int64), [texts], np.asarray(labels, np.int64)
    )
