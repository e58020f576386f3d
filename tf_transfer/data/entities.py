"""Named entities in tagged words, and their scores as conlleval counts them.

Tags are IOB2: `B-PER` begins a person, `I-PER` continues it, `O` is outside.
Here they are numbers: 0 is O, type t (from 0 on) begins with 1 + 2 t and is
continued by 2 + 2 t. All sentences of a split stand in one array, one behind
the other, so that NumPy counts a test set in milliseconds.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np


def tag_names(types: Sequence[str]) -> tuple[str, ...]:
    """The tags of some types of entity, in the order of their ids."""
    return ("O", *(f"{prefix}-{name}" for name in types for prefix in "BI"))


def types_of(tags: Sequence[str]) -> tuple[str, ...]:
    """The types of entity that some tags are of: reverses `tag_names`."""
    return tuple(tag[2:] for tag in tags if tag.startswith("B-"))


# === Tags as numbers ===


@dataclasses.dataclass
class Tagged:
    """The tags of all sentences of a split.

    Attributes:
        ids: int64 [words].
        starts: int64 [sentences]. Each sentence's first word.
    """

    ids: np.ndarray
    starts: np.ndarray


def encode(tags: Sequence[Sequence[str]], names: Sequence[str]) -> Tagged:
    """Turns the tags of sentences into numbers.

    Args:
        tags: The tags of each sentence.
        names: See `tag_names`.

    Raises:
        KeyError: A tag is not among the names.
    """
    numbers = {name: number for number, name in enumerate(names)}
    lengths = np.fromiter(map(len, tags), np.int64, len(tags))
    words = itertools.chain.from_iterable(tags)
    return Tagged(
        np.fromiter((numbers[tag] for tag in words), np.int64, lengths.sum()),
        np.cumsum(lengths) - lengths,
    )


def decode(tagged: Tagged, names: Sequence[str]) -> list[list[str]]:
    """Turns numbers into the tags of sentences: reverses `encode`."""
    flat = [names[number] for number in tagged.ids.tolist()]
    starts = tagged.starts.tolist()
    ends = [*starts[1:], len(flat)]
    return [flat[start:end] for start, end in zip(starts, ends)]


# === Entities ===


def find_stretches(tagged: Tagged) -> np.ndarray:
    """First words of the longest stretches of one type.

    A stretch is one or more entities of its type: in IOB2 each begins with
    B-, in IOB1 the first one does not.

    Returns:
        int64 [stretches].
    """
    types = _types(tagged)
    return np.flatnonzero((types > 0) & _is_new(tagged, types))


def find_entities(tagged: Tagged) -> np.ndarray:
    """The entities of a split, of badly formed sequences, too.

    As in conlleval an entity begins with B-, and with an I- that continues
    nothing: behind O, behind another type, or first in its sentence.

    Returns:
        int64 [entities, 3]: first word, first word behind it, type.
    """
    types = _types(tagged)
    is_border = _is_new(tagged, types) | (tagged.ids % 2 == 1)
    starts = np.flatnonzero(is_border & (types > 0))
    borders = np.append(np.flatnonzero(is_border), len(types))
    ends = borders[np.searchsorted(borders, starts, side="right")]
    return np.stack([starts, ends, types[starts] - 1], axis=1)


def _types(tagged: Tagged) -> np.ndarray:
    """int64 [words]. Each word's type, from 1 on; 0 outside of entities."""
    return (tagged.ids + 1) // 2


def _is_new(tagged: Tagged, types: np.ndarray) -> np.ndarray:
    """Booleans [words]. Where the type changes, or a sentence begins."""
    is_new = np.ones(len(types), bool)
    is_new[1:] = types[1:] != types[:-1]
    is_new[tagged.starts[tagged.starts < len(types)]] = True
    return is_new


# === Scores ===


def score(
    expected: Tagged, predicted: Tagged, types: Sequence[str]
) -> dict[str, float]:
    """Scores predicted entities.

    An entity is right if its first word, its last and its type are.

    Args:
        expected: The true tags.
        predicted: The predicted tags of the same sentences.
        types: Names of the types.

    Returns:
        Fractions, 0 where undefined: `precision`, `recall` and `f1` over all
        entities, the same of each type, such as `f1_PER`; `accuracy`, the
        fraction of words whose tag is right; and `token_f1`, F1 over words as
        if each word with a tag but O were an entity of its own.

    Raises:
        ValueError: They are not of the same sentences.
    """
    counts = count_by_sentence(expected, predicted, types)
    scores = {}
    for name, rates in counts.items():
        right, whole = rates.sum(axis=0)
        scores[name] = float(right / max(whole, 1))
    return scores


def count_by_sentence(
    expected: Tagged, predicted: Tagged, types: Sequence[str]
) -> dict[str, np.ndarray]:
    """Numerators and denominators of the fractions that `score` returns.

    Args:
        expected: See `score`.
        predicted: See `score`.
        types: See `score`.

    Returns:
        int64 [sentences, 2] by the name of the fraction. That of a sample of
        sentences is the quotient of the two sums over them.

    Raises:
        ValueError: They are not of the same sentences.
    """
    is_same = np.array_equal(expected.starts, predicted.starts)
    if not is_same or len(expected.ids) != len(predicted.ids):
        raise ValueError("expected and predicted are not the same sentences")
    expected_keys = _keys(expected, len(types))
    predicted_keys = _keys(predicted, len(types))
    hits = np.intersect1d(expected_keys, predicted_keys, assume_unique=True)
    hit_counts = _count(hits, expected, len(types))
    expected_counts = _count(expected_keys, expected, len(types))
    predicted_counts = _count(predicted_keys, predicted, len(types))
    counts = _rates(
        hit_counts.sum(axis=1),
        expected_counts.sum(axis=1),
        predicted_counts.sum(axis=1),
    )
    for number, name in enumerate(types):
        rates = _rates(
            hit_counts[:, number],
            expected_counts[:, number],
            predicted_counts[:, number],
        )
        for key, rate in rates.items():
            counts[f"{key}_{name}"] = rate
    is_right = expected.ids == predicted.ids
    is_inside = expected.ids > 0
    right = _sum_by_sentence(is_right, expected)
    lengths = _sum_by_sentence(np.ones(len(is_right)), expected)
    counts["accuracy"] = np.stack([right, lengths], axis=1)
    rates = _rates(
        _sum_by_sentence(is_right & is_inside, expected),
        _sum_by_sentence(is_inside, expected),
        _sum_by_sentence(predicted.ids > 0, expected),
    )
    counts["token_f1"] = rates["f1"]
    return counts


def _keys(tagged: Tagged, types: int) -> np.ndarray:
    """int64 [entities]. A number for each; equal entities share it."""
    start, end, kind = find_entities(tagged).T
    keys: np.ndarray = (start * (len(tagged.ids) + 1) + end) * types + kind
    return keys


def _count(keys: np.ndarray, tagged: Tagged, types: int) -> np.ndarray:
    """int64 [sentences, types]. Entities by sentence and type, from `_keys`."""
    kinds = keys % types
    starts = keys // types // (len(tagged.ids) + 1)
    sentences = np.searchsorted(tagged.starts, starts, side="right") - 1
    counts = np.zeros((len(tagged.starts), types), np.int64)
    np.add.at(counts, (sentences, kinds), 1)
    return counts


def _sum_by_sentence(values: np.ndarray, tagged: Tagged) -> np.ndarray:
    """int64 [sentences]. Sums of one value per word."""
    totals = np.append(0, np.cumsum(values, dtype=np.int64))
    ends = np.append(tagged.starts[1:], len(values))
    sums: np.ndarray = totals[ends] - totals[tagged.starts]
    return sums


def _rates(
    hits: np.ndarray, expected: np.ndarray, predicted: np.ndarray
) -> dict[str, np.ndarray]:
    """Precision, recall and F1, as [sentences, 2], of counts by sentence."""
    return {
        "precision": np.stack([hits, predicted], axis=1),
        "recall": np.stack([hits, expected], axis=1),
        "f1": np.stack([2 * hits, expected + predicted], axis=1),
    }
