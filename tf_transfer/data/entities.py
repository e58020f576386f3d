"""Named entities in tagged words, and their scores as conlleval counts them.

Tags are IOB2: `B-PER` begins a person, `I-PER` goes on with it, `O` is outside.
Here they are numbers: 0 is O, type t (from 0 on) begins with 1 + 2 t and goes
on with 2 + 2 t. All sentences of a split stand in one array, one behind the
other, so that NumPy counts a test set in milliseconds.
"""

import dataclasses
import itertools

import numpy as np


def tag_names(types):
    """The tags of some types of entity, by their ids."""
    return ("O", *(f"{part}-{name}" for name in types for part in "BI"))


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


def encode(tags, names):
    """Tags as numbers.

    Args:
        tags: list of sentences, each a list of str.
        names: `tag_names`.

    Returns:
        `Tagged`.

    Raises:
        KeyError: a tag is none of the names.
    """
    place = {name: number for number, name in enumerate(names)}
    lengths = np.fromiter(map(len, tags), np.int64, len(tags))
    words = itertools.chain.from_iterable(tags)
    return Tagged(
        np.fromiter((place[tag] for tag in words), np.int64, lengths.sum()),
        np.cumsum(lengths) - lengths,
    )


def decode(tagged, names):
    """Tags as words: what `encode` turned into numbers."""
    flat = [names[number] for number in tagged.ids.tolist()]
    ends = [*tagged.starts[1:].tolist(), len(flat)]
    return [flat[a:b] for a, b in zip(tagged.starts.tolist(), ends)]


# === Entities ===


def stretch_starts(tagged):
    """First words of the longest stretches of one type.

    An entity is such a stretch, or a part of one: in IOB2 each begins with B-.

    Returns:
        int64 [stretches].
    """
    kinds = _kinds(tagged)
    return np.flatnonzero((kinds > 0) & _is_new(tagged, kinds))


def spans(tagged):
    """The entities of a split, of badly formed sequences, too.

    As in conlleval an entity begins with B-, and with an I- that goes on with
    none of its type: behind O, behind another type, or first in its sentence.

    Returns:
        int64 [entities, 3]: first word, first word behind it, type.
    """
    kinds = _kinds(tagged)
    is_border = _is_new(tagged, kinds) | (tagged.ids % 2 == 1)
    firsts = np.flatnonzero(is_border & (kinds > 0))
    borders = np.append(np.flatnonzero(is_border), len(kinds))
    ends = borders[np.searchsorted(borders, firsts, side="right")]
    return np.stack([firsts, ends, kinds[firsts] - 1], axis=1)


def _kinds(tagged):
    """Each word's type, from 1 on; 0 outside of entities."""
    return (tagged.ids + 1) // 2


def _is_new(tagged, kinds):
    """Whether a word is of another type than the one before, or has none."""
    found = np.ones(len(kinds), bool)
    found[1:] = kinds[1:] != kinds[:-1]
    found[tagged.starts[tagged.starts < len(kinds)]] = True
    return found


# === Scores ===


def score(expected, predicted, types):
    """How well entities were found; all are fractions, 0 where undefined.

    An entity is found if its first word, its last and its type are right.

    Args:
        expected, predicted: `Tagged` of the same sentences.
        types: names of the types.

    Returns:
        Dict of floats: `precision`, `recall` and `f1` over all entities, the
        same of each type, such as `f1_PER`; `accuracy`, the part of words
        whose tag is right, and `token_f1`, F1 over words as if each one with
        a tag but O were an entity of its own.
    """
    if not np.array_equal(expected.starts, predicted.starts) or len(
        expected.ids
    ) != len(predicted.ids):
        raise ValueError("expected and predicted are not the same sentences")
    count = len(types)
    keys = [_keys(tagged, count) for tagged in (expected, predicted)]
    both = np.intersect1d(*keys, assume_unique=True)
    counts = np.stack(
        [np.bincount(key % count, minlength=count) for key in (both, *keys)]
    )  # [hits, expected, predicted; types]
    result = _rates(*counts.sum(axis=1))
    for name, numbers in zip(types, counts.T):
        rates = _rates(*numbers)
        result.update({f"{key}_{name}": rates[key] for key in rates})
    return {**result, **_word_scores(expected.ids, predicted.ids)}


def measure(expected, predicted, types):
    """`score` of lists of sentences, each a list of tags."""
    names = tag_names(types)
    return score(encode(expected, names), encode(predicted, names), types)


def _keys(tagged, types):
    """A number for each entity; two that are the same share it."""
    first, end, kind = spans(tagged).T
    return (first * (len(tagged.ids) + 1) + end) * types + kind


def _rates(hits, expected, predicted):
    """Precision, recall and F1 of three counts."""
    return {
        "precision": float(hits / max(predicted, 1)),
        "recall": float(hits / max(expected, 1)),
        "f1": float(2 * hits / max(expected + predicted, 1)),
    }


def _word_scores(expected, predicted):
    is_right = expected == predicted
    hits = np.sum(is_right & (expected > 0))
    rates = _rates(hits, np.sum(expected > 0), np.sum(predicted > 0))
    return {
        "accuracy": float(is_right.sum() / max(len(is_right), 1)),
        "token_f1": rates["f1"],
    }
