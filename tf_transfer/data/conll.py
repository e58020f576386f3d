"""CoNLL-2003: English sentences whose words are tagged with named entities.

A line a word: the word first, the tag of its entity last, columns parted by
blanks; an empty line behind each sentence. `eng.train` trains, `eng.testa`
validates, `eng.testb` tests. TFDS has the same.

The files go round in two schemes. In IOB2 every entity begins with B-; in IOB1
with I-, and B- only parts it from another of its type right before it. A file
may be in either; what is read is IOB2.
"""

import dataclasses
import hashlib
import os
import re

import numpy as np
from absl import logging

from tf_transfer.data import entities
from tf_transfer.data import releases
from tf_transfer.data import sources
from tf_transfer.data import tasks
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

TYPES = ("PER", "ORG", "LOC", "MISC")
TAGS = entities.tag_names(TYPES)
TASK = tasks.Task("ner", "conll2003", ("words",), "tags", TAGS, "f1", "", ())
SPLITS = ("train", "testa", "testb")

_BLANKS = re.compile(r"[ \t]+")


@dataclasses.dataclass
class Sentences:
    """The sentences of a split, in the order of their source.

    Attributes:
        ids: int64 [sentences]. Row number in the source's split.
        words: list of lists of str.
        tags: list of lists of str, of `TAGS`, in IOB2.
    """

    ids: np.ndarray
    words: list
    tags: list

    def __len__(self):
        return len(self.ids)

    def take(self, rows):
        """The sentences at `rows`."""
        return Sentences(
            self.ids[rows],
            [self.words[row] for row in rows],
            [self.tags[row] for row in rows],
        )


class Corpus:
    """CoNLL-2003 from a folder of its files, or from TFDS.

    Args:
        data: `tfds` or a folder.

    Attributes:
        task: `tasks.Task`, whose labels are those of words.
        identity: str. What stands in a run's key: a release, or a hash of
            the content.

    Raises:
        UserError: a file is not there.
    """

    task = TASK

    def __init__(self, data):
        self._place = _Tfds() if data == "tfds" else _Folder(data)
        self.identity = self._place.identity

    def read(self, split):
        """`Sentences` of one of `SPLITS`."""
        return self._place.read(split)


# === A folder of the official files ===


class _Folder:
    def __init__(self, folder):
        self.folder = folder
        digest = hashlib.sha256()
        for split in SPLITS:
            digest.update(bytes.fromhex(files.sha256(self._path(split))))
        self.identity = f"conll2003 sha256:{digest.hexdigest()}"

    def _path(self, split):
        path = os.path.join(self.folder, f"eng.{split}")
        if not os.path.isfile(path):
            raise UserError(
                f"{path}: no such file. Give as --data a folder with "
                + ", ".join(f"eng.{name}" for name in SPLITS)
                + ", or `tfds`."
            )
        return path

    def read(self, split):
        return read(self._path(split))


def read(path):
    """The `Sentences` of a file.

    Raises:
        UserError: naming the file, the line and what to do.
    """
    words, tags, places = [], [], []
    for rows in _sentences(path, 2):
        for number, cells in rows:
            if cells[-1] not in TAGS:
                raise UserError(
                    f"{path}, line {number}: {cells[-1]!r} is no tag. The last "
                    "column is O, or B- or I- and one of "
                    + ", ".join(TYPES)
                    + "."
                )
            places.append(number)
        words.append([cells[0] for _, cells in rows])
        tags.append([cells[-1] for _, cells in rows])
    tags = _in_iob2(tags, path, lambda word: f"line {places[word]}")
    return Sentences(np.arange(len(words)), words, tags)


def read_words(path):
    """The words of a file whose tags, where it has any, are not read.

    Returns:
        (list of sentences, each a list of str; list of each word's line,
        counted from 0).

    Raises:
        UserError: naming the file and the line.
    """
    found = list(_sentences(path, 1))
    words = [[cells[0] for _, cells in rows] for rows in found]
    return words, [number - 1 for rows in found for number, _ in rows]


def _sentences(path, least):
    """Yields sentences, each a list of (number of the line, cells).

    Args:
        least: fewest columns.

    Raises:
        UserError: there are none, or fewer columns, or not as many everywhere.
    """
    rows, width, first = [], None, 0
    for number, line in enumerate([*sources.read_lines(path), ""], 1):
        cells = _BLANKS.split(line.strip(" \t"))
        if cells[0] in ("", "-DOCSTART-"):
            if rows:
                yield rows
            rows = []
            continue
        if width is None:
            width, first = len(cells), number
        if len(cells) != width or width < least:
            raise UserError(
                f"{path}, line {number}: has {len(cells)} columns, "
                + (f"line {first} {width}" if width >= least else "needs 2")
                + ". Give a word and its tags, parted by blanks, and an empty "
                "line behind each sentence."
            )
        rows.append((number, cells))
    if width is None:
        raise UserError(f"{path}: holds no sentences.")


# === Schemes ===


def _in_iob2(tags, source, place_of):
    """The same entities in IOB2, from either scheme.

    What tells them apart: the first tag of a stretch of one type is B- in
    IOB2 and I- in IOB1, always. If both occur, the file is what most of its
    stretches say, and the first of the others is wrong.

    Args:
        tags: list of lists of str, of `TAGS`.
        source: what the tags come from.
        place_of: function from the number of a word to where it stands there.

    Raises:
        UserError: naming a line of each scheme.
    """
    tagged = entities.encode(tags, TAGS)
    firsts = entities.stretch_starts(tagged)
    is_inside = tagged.ids[firsts] % 2 == 0
    if not is_inside.any():
        return tags
    if not is_inside.all():
        said = _mixed(tagged.ids, firsts, is_inside, place_of)
        raise UserError(f"{source}, {said}")
    logging.warning(
        "%s: its tags are IOB1, where entities begin with I-, as in %s. They "
        "are read as IOB2.",
        source,
        place_of(firsts[0]),
    )
    tagged.ids[firsts] -= 1  # from I- to B-
    return entities.decode(tagged, TAGS)


def _mixed(ids, firsts, is_inside, place_of):
    """What to say of stretches of both schemes."""
    is_iob1 = 2 * is_inside.sum() > len(firsts)
    wrong = is_inside != is_iob1
    word, other = firsts[wrong][0], firsts[~wrong][0]
    scheme, part = ("IOB1", "I") if is_iob1 else ("IOB2", "B")
    tag = TAGS[ids[word]]
    return (
        f"{place_of(word)}: begins an entity with {tag}, but {place_of(other)} "
        f"with {TAGS[ids[other]]}, as do {(~wrong).sum()} of the {len(firsts)} "
        f"that tell: the tags are {scheme}, which has {part}{tag[1:]} here. "
        "Mend the tag, or the one before it."
    )


# === TensorFlow Datasets ===


TFDS_URL = "https://data.deepai.org/conll2003.zip"
TFDS_NAMES = {"train": "train", "testa": "dev", "testb": "test"}


class _Tfds:
    def __init__(self):
        self.release = releases.Release(
            "conll2003",
            "give --data=FOLDER with eng.train, eng.testa and eng.testb",
        )
        self.identity = self.release.identity

    def read(self, split):
        rows = self.release.read(TFDS_NAMES[split], TFDS_URL)
        names = self.release.builder.info.features["ner"].feature.names
        # An empty one stands behind the last sentence of each file.
        kept = [number for number, row in enumerate(rows) if len(row["ner"])]
        tags = [[names[tag] for tag in rows[n]["ner"]] for n in kept]
        return Sentences(
            np.asarray(kept, np.int64),
            [
                [word.decode("utf-8") for word in rows[n]["tokens"]]
                for n in kept
            ],
            _in_iob2(tags, f"--data=tfds, {split}", lambda n: f"word {n}"),
        )
