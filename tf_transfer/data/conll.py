"""CoNLL-2003: English sentences whose words are tagged with named entities.

One word per line: the word first, the tag of its entity last, columns separated
by blanks; an empty line behind each sentence. `eng.train` trains, `eng.testa`
validates, `eng.testb` tests. TFDS has the same. The files exist in IOB1 and in
IOB2; see `tagged`.
"""

import numpy as np

from tf_transfer.data import entities, releases, tagged
from tf_transfer.data.folder import FolderSource
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


def open_source(name: str, data: str, cache_folder: str = "") -> Source:
    """CoNLL-2003 from a folder of its files, or from TFDS.

    Args:
        name: The name of the task, which is the only one.
        data: `tfds` or a folder.
        cache_folder: Not read: there is no wheel.

    Raises:
        UserError: A file is missing.
    """
    del name, cache_folder
    return TfdsCorpus() if data == "tfds" else FolderCorpus(data)


class FolderCorpus(FolderSource):
    """The official files in a folder."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            TASK,
            folder,
            "eng.{}",
            "Give as --data a folder with eng.train, eng.testa, eng.testb, or "
            "`tfds`.",
            "conll2003",
            SPLITS,
        )

    def read(self, split: str) -> Sentences:
        """The sentences of one of `SPLITS`."""
        return read(self.find_file(split))


def read(path: str) -> Sentences:
    """Reads the sentences of a file.

    Raises:
        UserError: With the file, the line and what to do.
    """
    table = tagged.read(path, "words", "tags")
    words, tags = table.columns.values()
    tagged.check_types(table, tags, TYPES)
    return Sentences(np.arange(len(words)), words, tags)


# === TensorFlow Datasets ===


TFDS_URL = "https://data.deepai.org/conll2003.zip"
TFDS_NAMES = {"train": "train", "testa": "dev", "testb": "test"}


class TfdsCorpus(Source):
    """The release of TFDS."""

    task = TASK

    def __init__(self) -> None:
        self._release = releases.Release(
            "conll2003",
            "give --data=FOLDER with eng.train, eng.testa and eng.testb",
        )
        self.identity = self._release.identity

    def read(self, split: str) -> Sentences:
        """The sentences of one of `SPLITS`."""
        rows = self._release.read(TFDS_NAMES[split], TFDS_URL)
        names = self._release.builder.info.features["ner"].feature.names
        # An empty one stands behind the last sentence of each file.
        ids = [number for number, row in enumerate(rows) if len(row["ner"])]
        tags = [[names[tag] for tag in rows[n]["ner"]] for n in ids]
        return Sentences(
            np.asarray(ids, np.int64),
            [[word.decode("utf-8") for word in rows[n]["tokens"]] for n in ids],
            tagged.to_iob2(
                tags, f"--data=tfds, {split}", lambda n: f"word {n}", TAGS
            ),
        )
