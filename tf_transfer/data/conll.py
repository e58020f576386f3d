"""CoNLL-2003: English sentences whose words are tagged with named entities.

A line a word: the word first, the tag of its entity last, columns separated by
blanks; an empty line behind each sentence. `eng.train` trains, `eng.testa`
validates, `eng.testb` tests. TFDS has the same.

The files exist in two schemes. In IOB2 every entity begins with B-. In IOB1 it
begins with I-, and B- only separates it from another of its type right before
it. A file may be in either; what is read is IOB2.
"""

import os
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
from absl import logging

from tf_transfer.data import entities
from tf_transfer.data import releases
from tf_transfer.data import tsv
from tf_transfer.data.task import Sentences
from tf_transfer.data.task import Source
from tf_transfer.data.task import Task
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

TYPES = ("PER", "ORG", "LOC", "MISC")
TAGS = entities.tag_names(TYPES)
TASK = Task(
    "ner",
    "conll2003",
    ("words",),
    "tags",
    TAGS,
    "f1",
    also=("accuracy",),
    kind="entities",
    development=("testb",),
    validation="testa",
)
SPLITS = ("train", "testa", "testb")

_BLANKS = re.compile(r"[ \t]+")


class Corpus(Source):
    """CoNLL-2003 from a folder of its files, or from TFDS.

    Args:
        data: `tfds` or a folder.

    Attributes:
        task: The task, whose labels are those of words.
        identity: What stands for the data in a run's key: a release, or a
            hash of the content.

    Raises:
        UserError: A file is missing.
    """

    task = TASK

    def __init__(self, data: str) -> None:
        self._reader: _TfdsReader | _FolderReader
        self._reader = _TfdsReader() if data == "tfds" else _FolderReader(data)
        self.identity = self._reader.identity

    def read(self, split: str) -> Sentences:
        """The sentences of one of `SPLITS`."""
        return self._reader.read(split)


# === A folder of the official files ===


class _FolderReader:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        digest = files.combined_sha256(map(self._path, SPLITS))
        self.identity = f"conll2003 sha256:{digest}"

    def _path(self, split: str) -> str:
        path = os.path.join(self._folder, f"eng.{split}")
        if not os.path.isfile(path):
            raise UserError(
                f"{path}: no such file. Give as --data a folder with "
                + ", ".join(f"eng.{name}" for name in SPLITS)
                + ", or `tfds`."
            )
        return path

    def read(self, split: str) -> Sentences:
        return read(self._path(split))


def read(path: str) -> Sentences:
    """Reads the sentences of a file.

    Raises:
        UserError: With the file, the line and what to do.
    """
    words, tags, lines = [], [], []
    for rows in read_rows(path, min_columns=2):
        for number, cells in rows:
            if cells[-1] not in TAGS:
                raise UserError(
                    f"{path}, line {number}: {cut(cells[-1])!r} is not a tag. "
                    "The last column is O, or B- or I- and one of "
                    + ", ".join(TYPES)
                    + "."
                )
            lines.append(number)
        words.append([cells[0] for _, cells in rows])
        tags.append([cells[-1] for _, cells in rows])
    tags = to_iob2(tags, path, lambda word: f"line {lines[word]}")
    return Sentences(np.arange(len(words)), words, tags)


def read_words(path: str) -> tuple[list[list[str]], list[int]]:
    """Reads the words of a file; its tags, if it has any, are ignored.

    Returns:
        The words of each sentence; and the line of each word, from 0 on.

    Raises:
        UserError: With the file and the line.
    """
    sentences = list(read_rows(path, min_columns=1))
    words = [[cells[0] for _, cells in rows] for rows in sentences]
    return words, [number - 1 for rows in sentences for number, _ in rows]


def read_rows(
    path: str, min_columns: int
) -> Iterator[list[tuple[int, list[str]]]]:
    """Yields sentences, each a list of (line number, cells).

    Raises:
        UserError: There are none, or a line has fewer columns, or not as
            many as the others.
    """
    rows: list[tuple[int, list[str]]] = []
    width, first_line = 0, 0
    for number, line in enumerate([*tsv.read_lines(path), ""], 1):
        cells = _BLANKS.split(line.strip(" \t"))
        if cells[0] in ("", "-DOCSTART-"):
            if rows:
                yield rows
            rows = []
            continue
        if not width:
            width, first_line = len(cells), number
        if len(cells) != width or width < min_columns:
            raise UserError(
                f"{path}, line {number}: has {len(cells)} columns, "
                + (
                    f"line {first_line} {width}"
                    if width >= min_columns
                    else "needs 2"
                )
                + ". Give a word and its tags, separated by blanks, and an "
                "empty line behind each sentence."
            )
        rows.append((number, cells))
    if not width:
        raise UserError(f"{path}: holds no sentences.")


# === Schemes ===


def to_iob2(
    tags: list[list[str]],
    source: str,
    locate: Callable[[int], str],
    names: Sequence[str] = TAGS,
) -> list[list[str]]:
    """The same entities in IOB2, from either scheme.

    The first tag of a stretch of one type is always B- in IOB2 and always I-
    in IOB1. If both occur, the scheme is that of most stretches, and the first
    of the others is wrong.

    Args:
        tags: Of `names`, a list a sentence.
        source: Where the tags come from, for messages.
        locate: From the number of a word to its position in the source.
        names: All tags; see `entities.tag_names`.

    Raises:
        UserError: With a line of each scheme.
    """
    tagged = entities.encode(tags, names)
    starts = entities.find_stretches(tagged)
    is_inside = tagged.ids[starts] % 2 == 0
    if not is_inside.any():
        return tags
    if not is_inside.all():
        problem = _describe_mixture(
            tagged.ids, starts, is_inside, locate, names
        )
        raise UserError(f"{source}, {problem}")
    logging.warning(
        "%s: its tags are IOB1, where entities begin with I-, as in %s. They "
        "are read as IOB2.",
        source,
        locate(starts[0]),
    )
    tagged.ids[starts] -= 1  # from I- to B-
    return entities.decode(tagged, names)


def _describe_mixture(
    ids: np.ndarray,
    starts: np.ndarray,
    is_inside: np.ndarray,
    locate: Callable[[int], str],
    names: Sequence[str],
) -> str:
    """The message on stretches of both schemes."""
    is_iob1 = 2 * is_inside.sum() > len(starts)
    wrong = is_inside != is_iob1
    word, other = starts[wrong][0], starts[~wrong][0]
    scheme, prefix = ("IOB1", "I") if is_iob1 else ("IOB2", "B")
    tag = names[ids[word]]
    return (
        f"{locate(word)}: begins an entity with {tag}, but {locate(other)} "
        f"with {names[ids[other]]}, as do {(~wrong).sum()} of the "
        f"{len(starts)} that show the scheme: the tags are {scheme}, which has "
        f"{prefix}{tag[1:]} here. Mend the tag, or the one before it."
    )


# === TensorFlow Datasets ===


TFDS_URL = "https://data.deepai.org/conll2003.zip"
TFDS_NAMES = {"train": "train", "testa": "dev", "testb": "test"}


class _TfdsReader:
    def __init__(self) -> None:
        self._release = releases.Release(
            "conll2003",
            "give --data=FOLDER with eng.train, eng.testa and eng.testb",
        )
        self.identity = self._release.identity

    def read(self, split: str) -> Sentences:
        rows = self._release.read(TFDS_NAMES[split], TFDS_URL)
        names = self._release.builder.info.features["ner"].feature.names
        # An empty one stands behind the last sentence of each file.
        kept = [number for number, row in enumerate(rows) if len(row["ner"])]
        tags = [[names[tag] for tag in rows[n]["ner"]] for n in kept]
        return Sentences(
            np.asarray(kept, np.int64),
            [
                [word.decode("utf-8") for word in rows[n]["tokens"]]
                for n in kept
            ],
            to_iob2(tags, f"--data=tfds, {split}", lambda n: f"word {n}"),
        )
