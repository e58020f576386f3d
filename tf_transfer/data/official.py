"""Sizes of published data sets, which give the cost of a sweep beforehand."""

import os
from collections.abc import Iterable

import numpy as np

from tf_transfer.data.task import Examples, Source, Task

# By task: its text columns, and the examples that train, validate (0: a part of
# the former does) and are tested.
SIZES = {
    "cola": (1, 8551, 0, 1043),
    "sst2": (1, 67_349, 0, 872),
    "mrpc": (2, 3668, 0, 408),
    "stsb": (2, 5749, 0, 1500),
    "qqp": (2, 363_846, 0, 40_430),
    "mnli": (2, 392_702, 0, 9815 + 9832),
    "qnli": (2, 104_743, 0, 5463),
    "rte": (2, 2490, 0, 277),
    "wnli": (2, 635, 0, 71),
    "sentiment": (1, 8544, 1101, 0),
    "paraphrase": (2, 141_506, 20_215, 0),
    "similarity": (2, 6041, 864, 0),
    "ner": (1, 14_041, 3250, 3453),
    "yahoo": (1, 280_000, 0, 12_000),
    "text": (1, 280_000, 0, 12_000),
    "pairs": (2, 363_846, 0, 40_430),
    "tweets": (1, 6851, 0, 762),
}
# GLUE's sets that stand for the CS224N project's.
NEAREST = {"sentiment": "sst2", "paraphrase": "qqp", "similarity": "stsb"}
# Values of `--data` that stand for other texts.
OTHER_TEXTS = ("sample", "rotten_tomatoes")


class OfficialSource(Source):
    """As many empty examples as a task has.

    Args:
        name: Of the task.
        size: One of `SIZES`.
    """

    def __init__(self, name: str, size: tuple[int, int, int, int]) -> None:
        texts, train, validation, test = size
        self.task = Task(
            name,
            "",
            ("text",) * texts,
            "label",
            ("0", "1"),
            "accuracy",
            kind="entities" if name == "ner" else "classes",
            validation="validation" if validation else "",
            development=("test",) if test else (),
        )
        self._sizes = {"train": train, "validation": validation, "test": test}

    def read(self, split: str) -> Examples:
        """The examples of a split; all have label 0."""
        rows = np.arange(self._sizes[split])
        return Examples(rows, [], np.zeros_like(rows))


def open_sources(names: Iterable[str], data: str) -> dict[str, Source]:
    """Stand-ins for the sources of tasks, by name; nothing is opened.

    Empty if the texts are not those of published data sets.

    Args:
        names: Of the tasks.
        data: `--data`. The folder of a task of GLUE has that task's size.
    """
    if data in OTHER_TEXTS or os.path.isfile(data):
        return {}
    folder = os.path.basename(os.path.normpath(data)).lower()
    sources: dict[str, Source] = {}
    for name in names:
        official = NEAREST.get(name, name) if data == "tfds" else name
        if folder in SIZES:
            official = folder
        if official not in SIZES:
            return {}
        sources[name] = OfficialSource(name, SIZES[official])
    return sources
