"""A task, its examples, and the source that reads them.

Every data set has a module of its own in this package, with its tasks (`Task`)
and a `Source` that reads them.
"""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Sequence

import numpy as np

from tf_transfer.data import entities
from tf_transfer.utils.formatting import cut
from tf_transfer.utils.json_files import Record

# The texts of a task by `train`, `validation` and `test`, then by split name.
Texts = dict[str, dict[str, "Examples | Sentences"]]
SCORE_RANGE = (0.0, 5.0)  # of STS-B
# The answer is one of the classes; any number of the labels; a number; or a tag
# for each word.
KINDS = ("classes", "labels", "score", "entities")
TWO_CLASSES = ("f1", "precision", "recall")  # of the last label
SEPARATOR = ";"  # between labels that are written
# The metrics of each kind: the headline, and others that are reported.
REPORTED = {
    "classes": ("accuracy", "f1_macro"),
    "labels": ("f1_micro", "f1_macro", "exact_match"),
    "score": ("spearman", "pearson"),
    "entities": ("f1", "accuracy"),
}
ALLOWED = {
    **REPORTED,
    "classes": (
        "accuracy",
        "f1_macro",
        "matthews",
        "f1",
        "precision",
        "recall",
    ),
    "score": ("spearman", "pearson", "spearman_no_ties"),
    "entities": ("f1", "precision", "recall", "accuracy", "token_f1"),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """One labelled task on a text or a pair of texts.

    Attributes:
        name: The value of `--task`.
        folder: Its folder in the official GLUE download.
        texts: Names of its one or two text columns.
        label: Name of its label column.
        labels: Its labels as the files have them, in the order of their ids;
            `None` for a score.
        metric: The metric that selects, stops and ranks.
        tfds_texts: The text columns in TFDS, where they differ.
        also: Metrics reported in addition to `metric`.
        header: Column names where the files have no header line.
        development: The official development files, the headline one first.
        skip_broken: Whether the official files are known to hold broken
            rows, which are then counted and left out.
        kind: One of `KINDS`.
        validation: The split that validates; empty where a part of the
            training set does.
        score_range: The lowest and highest possible score; None if unknown.
        score_scale: Mean and standard deviation of the training scores, in
            which the network answers and the loss is measured; None where
            scores are taken as they are.
        loss_head: The output for two classes: `sigmoid`, of one unit; or
            `softmax`, of two.
        separator: The text between the labels of a cell; empty for none.
    """

    name: str
    folder: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...] | None
    metric: str
    tfds_texts: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    development: tuple[str, ...] = ("dev",)
    skip_broken: bool = False
    kind: str = "classes"
    validation: str = ""
    score_range: tuple[float, float] | None = None
    score_scale: tuple[float, float] | None = None
    loss_head: str = "sigmoid"
    separator: str = ""

    def __post_init__(self) -> None:
        """Without labels it is a score."""
        if self.labels is None:
            object.__setattr__(self, "kind", "score")

    @property
    def head_name(self) -> str:
        """The name of its head's layer, in letters that TensorFlow's have."""
        plain = re.sub(
            r"[^\w.-]", lambda m: f"u{ord(m[0]):x}", self.name, flags=re.ASCII
        )
        return f"head_{plain}"

    @property
    def units(self) -> int:
        """Output units: one for a score or a sigmoid, else one per label."""
        if self.labels is None:
            return 1
        is_binary = len(self.labels) == 2 and self.kind == "classes"
        is_sigmoid = is_binary and self.loss_head == "sigmoid"
        return 1 if is_sigmoid else len(self.labels)

    def scored_by(self, metric: str) -> "Task":
        """The same task with another of its metrics as the headline."""
        others = tuple(other for other in self.metrics if other != metric)
        return dataclasses.replace(self, metric=metric, also=others)

    def scaled(self) -> "Task":
        """The same task, its scores in units of their standard deviation.

        Scores of a known range are assumed to be uniform over it: their
        standard deviation is its width by the root of 12. Other scores keep
        their scale. A new output layer then begins near the middle of the
        scores, which a few weights would take epochs to reach.
        """
        if self.score_range is None or self.score_scale is not None:
            return self
        low, high = self.score_range
        scale = (low + high) / 2, (high - low) / math.sqrt(12)
        return dataclasses.replace(self, score_scale=scale)

    @property
    def is_tagging(self) -> bool:
        """Whether it labels words, not texts."""
        return self.kind == "entities"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that is reported, the headline first."""
        return (self.metric, *self.also)

    @property
    def title(self) -> str:
        """The metric, and the label that it is of if it is one label's."""
        if (
            self.kind == "classes"
            and self.metric in TWO_CLASSES
            and self.labels
        ):
            return f"{self.metric} of {cut(self.labels[-1])!r}"
        return self.metric

    @property
    def record(self) -> Record:
        """The entry of `config.json`: enough to predict with."""
        return {
            "texts": list(self.texts),
            "labels": self.labels,
            "kind": self.kind,
            "metric": self.metric,
            "score_range": self.score_range,
            "score_scale": self.score_scale,
            "loss_head": self.loss_head,
            "separator": self.separator,
        }


def find_metric_problem(kind: str, metric: str) -> str:
    """The problem of a metric for a kind of task; empty if there is none."""
    if not metric or metric in ALLOWED[kind]:
        return ""
    return (
        f"{cut(metric)!r} does not score {kind}. Give one of "
        f"{', '.join(ALLOWED[kind])}."
    )


def choose_metrics(kind: str, metric: str, labels: int) -> tuple[str, ...]:
    """The metrics of a task, the headline first.

    Args:
        kind: One of `KINDS`.
        metric: The headline; empty for the kind's own.
        labels: The number of labels.
    """
    others = REPORTED[kind]
    if kind == "classes" and labels == 2:
        others = (*others, "f1")
    return tuple(dict.fromkeys(filter(None, (metric, *others))))


@dataclasses.dataclass
class Examples:
    """Labelled texts, in the order of their source.

    Attributes:
        ids: int64 [examples]. Row number in the source's split.
        texts: One or two columns, each a text an example.
        labels: int64 or float [examples]; int64 [examples, labels] of 0 and
            1, where a text may have several; `None` where they are hidden.
        groups: int64 [examples]. Examples of one number, such as those of one
            author, are not independent; None if all are.
    """

    ids: np.ndarray
    texts: list[list[str]]
    labels: np.ndarray | None
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def targets(self, task: Task) -> tuple[np.ndarray, np.ndarray | None]:
        """The labels of the texts, and None; see `Sentences.targets`."""
        assert self.labels is not None  # hidden ones are not scored
        return self.labels, None

    def take(self, rows: np.ndarray) -> "Examples":
        """The examples at `rows`."""
        return Examples(
            self.ids[rows],
            [[column[row] for row in rows] for column in self.texts],
            None if self.labels is None else self.labels[rows],
            None if self.groups is None else self.groups[rows],
        )


@dataclasses.dataclass
class Sentences:
    """Sentences whose words are tagged, in the order of their source.

    Attributes:
        ids: int64 [sentences]. Row number in the source's split.
        words: The words of each sentence.
        tags: The tags of each sentence, in IOB2.
        groups: int64 [sentences]; see `Examples`.
    """

    ids: np.ndarray
    words: list[list[str]]
    tags: list[list[str]]
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labels(self) -> np.ndarray:
        """int64 [sentences] of zeros: a sentence has no class."""
        return np.zeros(len(self), np.int64)

    @property
    def texts(self) -> list[list[str]]:
        """The sentences as texts: one column."""
        return [[" ".join(words) for words in self.words]]

    def targets(self, task: Task) -> tuple[np.ndarray, np.ndarray | None]:
        """The tags as numbers, int64 [words], and each sentence's first word.

        Args:
            task: The task, whose labels are the tags.
        """
        tagged = entities.encode(self.tags, task.labels or ())
        return tagged.ids, tagged.starts

    def take(self, rows: np.ndarray) -> "Sentences":
        """The sentences at `rows`."""
        return Sentences(
            self.ids[rows],
            [self.words[row] for row in rows],
            [self.tags[row] for row in rows],
            None if self.groups is None else self.groups[rows],
        )


def concatenate(parts: Sequence[Examples | Sentences]) -> Examples | Sentences:
    """Several `Examples`, or `Sentences`, one behind the other.

    They get new ids, since theirs belong to different splits.
    """
    first, ids = parts[0], np.arange(sum(map(len, parts)))
    groups = None
    if first.groups is not None:
        groups = np.concatenate([part.groups for part in parts])
    if isinstance(first, Sentences):
        sentences = [part for part in parts if isinstance(part, Sentences)]
        return Sentences(
            ids,
            [words for part in sentences for words in part.words],
            [tags for part in sentences for tags in part.tags],
            groups,
        )
    columns = [[*itertools.chain(*c)] for c in zip(*(p.texts for p in parts))]
    labels = np.concatenate([part.labels for part in parts])
    return Examples(ids, columns, labels, groups)


class Source:
    """Reads the splits of one task: the base class of all data sets.

    A data set computes `task` and `identity`, or sets them.
    """

    @functools.cached_property
    def task(self) -> Task:
        """The task of the texts."""
        raise NotImplementedError

    @functools.cached_property
    def identity(self) -> str:
        """The data in a run's key: a release, or a hash of the content."""
        raise NotImplementedError

    def read(self, split: str) -> Examples | Sentences:
        """The texts of a split."""
        raise NotImplementedError

    def group(self, rows: np.ndarray) -> np.ndarray | None:
        """Numbers of training rows; rows of one number are never split apart.

        None, unless the data set groups equal texts: `Examples.groups` do.

        Args:
            rows: int [rows]. Their ids.
        """
        return None

    def locate(self, split: str, ids: np.ndarray) -> list[tuple[str, int]]:
        """The file and the line of texts.

        A source without files has an empty name, and the id of the text.

        Args:
            split: The split that `read` returned the texts for.
            ids: int64 [texts]. Their ids.
        """
        return [("", int(number)) for number in ids]

    def find_problems(self) -> list[str]:
        """The likely problems of its columns, as sentences."""
        return []

    def drop_texts(self) -> None:
        """Releases the texts that it has read."""
