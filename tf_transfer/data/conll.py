"""CoNLL-2003: English sentences whose words are tagged with named entities.

One word per line: the word first, the tag of its entity last, columns separated
by blanks; an empty line behind each sentence. `eng.train` trains, `eng.testa`
validates, `eng.testb` tests. TFDS has the same. The files exist in IOB1 and in
IOB2; see `tagged`.
"""

import numpy as np

from tf_transfer.data import entities, tagged
from tf_transfer.data.corpora import FolderSource, TfdsRow, TfdsSource
from tf_transfer.data.task import Sentences, Source, Task

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


TFDS_URL = "https://data.deepai.org/conll2003.zip"
TFDS_NAMES = {"testa": "dev", "testb": "test"}


def open_source(data: str, cache_folder: str = "") -> Source:
    """CoNLL-2003 from a folder of its files, or from TFDS.

    Args:
        data: `tfds` or a folder.
        cache_folder: Not read: there is no wheel.

    Raises:
        UserError: A file is missing.
    """
    if data == "tfds":
        return TfdsSource(
            TASK,
            "conll2003",
            "give --data=FOLDER with eng.train, eng.testa and eng.testb",
            TFDS_URL,
            TFDS_NAMES,
            _convert,
        )
    return FolderSource(
        TASK,
        data,
        "eng.{}",
        "Give as --data a folder with eng.train, eng.testa, eng.testb, or "
        "`tfds`.",
        "conll2003",
        SPLITS,
        lambda path, split: read_sentences(path),
    )


def read_sentences(path: str) -> Sentences:
    """Reads the sentences of a file.

    Raises:
        UserError: A row is invalid; the message has file and line.
    """
    table = tagged.read_table(path, "words", "tags")
    words, tags = table.lists("words"), table.lists("tags")
    tagged.check_types(table, tags, TYPES)
    return Sentences(np.arange(len(words)), words, tags)


def _convert(rows: list[TfdsRow], split: str) -> Sentences:
    """The rows of the TFDS release, whose tags are numbered as `TAGS`."""
    # An empty sentence stands behind the last one of each file.
    ids = [number for number, row in enumerate(rows) if len(row["ner"])]
    tags = [[TAGS[tag] for tag in rows[n]["ner"]] for n in ids]
    return Sentences(
        np.asarray(ids, np.int64),
        [[word.decode("utf-8") for word in rows[n]["tokens"]] for n in ids],
        tagged.to_iob2(
            tags,
            lambda row, n: f"--data=tfds, {split}, sentence {row}, word {n}",
            TAGS,
        ),
    )
