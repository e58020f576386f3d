"""A report card of a task's data, before anything is trained."""

import itertools
import re
import shlex
import unicodedata
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tf_transfer.data import (
    entities,
    languages,
    splits as splits_lib,
    texts as texts_lib,
)
from tf_transfer.data.task import Examples, Sentences, Task, Texts
from tf_transfer.utils import formatting

MULTILINGUAL = "distilbert-base-multilingual-cased"  # see README
SHOWN = 20  # labels with a line of their own
QUANTILES = (50, 90, 99, 100)
BALANCE = 10  # the largest usual ratio of the most frequent label to the rarest
MAJORITY = 0.7  # the largest usual share of the most frequent class
FEW = 5  # training texts; a label with fewer is hardly learned
SHORTEST = 2  # letters that two spellings of a label have in common
MOST_NUMBERS = 10  # classes that are numbers; more may be a score
MISSING = ("na", "n/a", "nan", "null")  # labels that no row should have
MAY_BE_MISSING = (
    *(*MISSING, "none", "-", "?"),
    *("unknown", "unlabeled", "unlabelled", "missing", "undefined", "empty"),
    *("no label", "not labeled", "not labelled", "not available", "tbd"),
)


def describe_data(
    task: Task,
    examples: Texts,
    lengths: Sequence[int] | np.ndarray = (),
    max_length: int = 0,
    unknown: tuple[float, int] = (0.0, 0),
    read_languages: Collection[str] | None = None,
) -> str:
    """Sizes, labels, lengths, duplicates, and the majority baseline.

    Args:
        task: The task.
        examples: See `RunData.read`.
        lengths: Tokens of each training text before it is cut, special tokens
            included; empty if there is no tokenizer.
        max_length: The longest text in tokens.
        unknown: The share of unknown tokens among those of the training texts,
            and the number of these texts with unknown tokens.
        read_languages: See `find_problems`.
    """
    splits = splits_lib.flatten(examples)
    names = ["", *splits]
    sizes = ["examples", *(f"{len(some):,}" for some in splits.values())]
    lines = [
        f"task {task.name}: {task.kind}, {task.title}",
        formatting.aligned([names, sizes, *_label_rows(task, splits)]),
    ]
    scored = splits.get("test", splits.get("validation"))
    if scored is not None and task.kind in ("classes", "labels"):
        assert scored.labels is not None
        from tf_transfer.data import metrics  # takes seconds to import

        score = 100 * metrics.majority(task.metric, scored.labels)
        lines.append(f"majority baseline: {task.metric} {score:.1f}")
    lines += find_problems(task, splits, read_languages)
    if len(lengths):
        lines.append(_describe_lengths(np.asarray(lengths), max_length))
        share, texts = unknown
        lines.append(
            f"tokens that the encoder's vocabulary lacks: {share:.2%}, in "
            f"{texts:,} texts"
        )
    return "\n".join(lines)


def find_problems(
    task: Task,
    splits: Mapping[str, Examples | Sentences],
    read_languages: Collection[str] | None = None,
) -> list[str]:
    """The likely problems of labels and texts, as sentences.

    Args:
        task: The task.
        splits: The examples by split; see `splits.flatten`. `train` is one.
        read_languages: The languages that the encoder reads; None if they are
            not known.
    """
    problems = find_label_problems(task, splits["train"])
    if read_languages:
        texts = [" ".join(row) for row in zip(*splits["train"].texts)]
        language = languages.find_unread(texts, read_languages)
        if language:
            known = formatting.join_words(sorted(read_languages))
            problems.append(
                f"the texts are {language}, and the encoder reads {known}. "
                f"Give --model=FOLDER with an encoder that reads {language}, "
                f"such as {MULTILINGUAL}; README has the commands."
            )
    for split, count in count_shared(splits).items():
        if count:
            problems.append(
                f"{count:,} of the {len(splits[split]):,} texts of {split} are "
                "also in the training set. --duplicates=group (`duplicates = "
                '"group"` in a task file) keeps equal texts in one split.'
            )
    return problems


def count_shared(splits: Mapping[str, Examples | Sentences]) -> dict[str, int]:
    """The number of examples of each split with a text of the training set.

    Args:
        splits: See `splits.flatten`.
    """
    training_texts = set(_normalize(splits["train"]))
    shared = {}
    for name, some in splits.items():
        if name != "train":
            shared[name] = sum(
                text in training_texts for text in _normalize(some)
            )
    return shared


def _normalize(examples: Examples | Sentences) -> list[str]:
    return [*map(texts_lib.normalize, zip(*examples.texts))]


def find_label_problems(task: Task, train: Examples | Sentences) -> list[str]:
    """The likely problems of the labels of training texts, as sentences.

    Args:
        task: The task.
        train: The training examples.
    """
    if task.kind == "score":
        return []
    counts = dict(zip(_names(task), _count_labels(task, train).tolist()))
    if task.is_tagging:
        return _find_alike(counts, "entities")
    problems = [
        f"{_quote(name)} ({counts[name]:,} texts) may stand for a missing "
        f"label. If so, --ignore_labels={shlex.quote(name)} (`ignore_labels` "
        "in a task file) leaves these rows out."
        for name in _find_missing([*counts])
    ]
    problems += _find_alike(counts, "texts")
    few = [name for name, count in counts.items() if count < FEW]
    if few:
        names = ", ".join(map(_quote, few[:SHOWN]))
        problems.append(
            f"labels with fewer than {FEW} training texts ({len(few)}): "
            f"{names}."
        )
    figures = [n.removeprefix("-").replace(".", "", 1) for n in counts]
    if len(counts) > MOST_NUMBERS and all(map(str.isdecimal, figures)):
        problems.append(
            f"the {len(counts)} labels are numbers. Is this a score? "
            "--kind=score (`kind` in a task file) learns their order."
        )
    if task.kind == "labels":
        return problems
    most = max(counts, key=counts.__getitem__)
    share = counts[most] / max(len(train), 1)
    if share > MAJORITY:
        advice = "--class_weights=balanced gives all labels equal weight."
        if task.metric == "accuracy":
            advice = f"Prefer the metric f1_macro; {advice}"
        problems.append(
            f"{share:.0%} of the training texts are {_quote(most)}. {advice}"
        )
    groups = texts_lib.group_texts([*zip(*train.texts)])
    labels, _ = train.targets(task)
    repeated, several = texts_lib.count_duplicates(groups, labels)
    if repeated:
        problems.append(
            f"training texts that repeat another: {repeated:,}; texts with "
            f"several labels: {several:,}."
        )
    return problems


def _find_missing(labels: Sequence[str]) -> list[str]:
    """The labels that may stand for none: words, and -1 next to 0, 1, 2, ..."""
    words = [re.sub(r"[\s_-]+", " ", name).strip() for name in labels]
    found = [
        name
        for name, word in zip(labels, words)
        if (word.lower() or "-") in MAY_BE_MISSING
    ]
    if "0" in labels and all(re.fullmatch("-?[0-9]+", name) for name in labels):
        found += [name for name in labels if name.startswith("-")]
    return found


def _find_alike(counts: dict[str, int], unit: str) -> list[str]:
    """Pairs of labels that may be one, as sentences."""
    by_count = sorted(counts, key=lambda name: -counts[name])
    folded = {}
    for name in counts:
        words = texts_lib.normalize(name).casefold().split()
        folded[name] = "".join(words)
    problems = []
    for common, rare in itertools.combinations(by_count, 2):
        is_one = folded[rare] == folded[common]
        if counts[rare] * BALANCE <= counts[common]:  # perhaps a typing error
            is_one = is_one or _are_near(rare, common)
        if is_one:
            problems.append(
                f"{_quote(rare)} ({counts[rare]:,} {unit}) and "
                f"{_quote(common)} ({counts[common]:,}) may be one label. "
                "If so, spell both the same way."
            )
    return problems


def _quote(name: str) -> str:
    """A name in quotes; what would look like another name is escaped."""
    if not name.isprintable():
        return formatting.cut(name)  # which quotes it
    if not unicodedata.is_normalized("NFC", name):
        return ascii(formatting.cut(name))
    return repr(formatting.cut(name))


def _are_near(one: str, other: str) -> bool:
    """Whether two names differ by one letter."""
    short, long = sorted((one, other), key=len)
    step = 1 + len(short) - len(long)  # 0 of a letter that one lacks
    if step not in (0, 1) or len(long) <= SHORTEST:
        return False
    for n, letter in enumerate(long):
        is_same = long[:n] == short[:n] and long[n + 1 :] == short[n + step :]
        if is_same and (letter + short[n : n + step]).isalpha():
            return True
    return False


def _label_rows(
    task: Task, splits: Mapping[str, Examples | Sentences]
) -> list[list[str]]:
    """A row per label: how often it occurs in each split."""
    if task.kind == "score":
        columns = [some.targets(task)[0] for some in splits.values()]
        return [
            ["lowest", *(f"{np.min(scores):.2f}" for scores in columns)],
            ["mean", *(f"{np.mean(scores):.2f}" for scores in columns)],
            ["highest", *(f"{np.max(scores):.2f}" for scores in columns)],
        ]
    names = _names(task)
    counts = [_count_labels(task, some) for some in splits.values()]
    rows = []
    for number, name in enumerate(names[:SHOWN]):
        rows.append(
            [f"label {name}", *(f"{some[number]:,}" for some in counts)]
        )
    if len(names) > SHOWN:
        rest = [f"{some[SHOWN:].sum():,}" for some in counts]
        rows.append([f"{len(names) - SHOWN} more labels", *rest])
    return rows


def _names(task: Task) -> Sequence[str]:
    if task.is_tagging:
        return entities.types_of(task.labels or ())
    return task.labels or ()


def _count_labels(task: Task, some: Examples | Sentences) -> np.ndarray:
    """int64 [labels]. How often each label occurs."""
    labels, _ = some.targets(task)
    counts: np.ndarray
    if task.kind == "labels":
        counts = labels.sum(axis=0)
        return counts
    counts = np.bincount(labels, minlength=len(task.labels or ()))
    return counts[1::2] if task.is_tagging else counts  # of entities, B- tags


def _describe_lengths(lengths: np.ndarray, max_length: int) -> str:
    """Quantiles of lengths, and the share that is cut."""
    quantiles = ", ".join(
        f"{q} % up to {int(np.percentile(lengths, q))}" for q in QUANTILES
    )
    cut = lengths > max_length
    lost = np.maximum(lengths - max_length, 0).sum() / lengths.sum()
    return (
        f"tokens of a text: {quantiles}; at --max_length={max_length} "
        f"{100 * cut.mean():.1f} % of the texts and {100 * lost:.1f} % of the "
        "tokens are cut"
    )
