"""Entities and their scores, by hand and beside the `seqeval` package."""

import time
import warnings

import numpy as np
import pytest
from seqeval.metrics import sequence_labeling as peer

from tf_transfer.data import entities

TYPES = ("PER", "ORG", "LOC", "MISC")
NAMES = entities.tag_names(TYPES)


def spans(*sentences):
    """[(first word, word behind the last, type)] of sentences as strings."""
    tagged = entities.encode([s.split() for s in sentences], NAMES)
    return [
        (first, end, TYPES[kind])
        for first, end, kind in entities.find_entities(tagged).tolist()
    ]


def score(expected, predicted):
    """The scores of lists of sentences, each a list of tags."""
    tagged = (entities.encode(tags, NAMES) for tags in (expected, predicted))
    return entities.score(*tagged, TYPES)


def random_sentences(rng, sentences, chances):
    """Lists of tags, drawn without a thought to what may follow what."""
    return [
        rng.choice(NAMES, rng.integers(1, 12), p=chances).tolist()
        for _ in range(sentences)
    ]


def changed(rng, sentences, share):
    """The same sentences with a share of their tags drawn anew."""
    return [
        [rng.choice(NAMES) if rng.random() < share else tag for tag in tags]
        for tags in sentences
    ]


# === Tags as numbers ===


def test_tags_become_numbers_and_again_tags():
    tags = [["O", "B-PER"], [], ["I-MISC"]]
    tagged = entities.encode(tags, NAMES)
    assert tagged.ids.tolist() == [0, 1, 8]
    assert tagged.starts.tolist() == [0, 2, 2]
    assert entities.decode(tagged, NAMES) == tags
    assert entities.decode(entities.encode([], NAMES), NAMES) == []


def test_a_tag_that_is_none_is_no_number():
    with pytest.raises(KeyError, match="B-GPE"):
        entities.encode([["B-GPE"]], NAMES)


# === Entities ===


def test_an_entity_continues_while_its_tags_do():
    assert spans("O B-PER I-PER O B-LOC") == [(1, 3, "PER"), (4, 5, "LOC")]


def test_b_begins_an_entity_behind_another_of_its_type():
    assert spans("B-PER B-PER I-PER") == [(0, 1, "PER"), (1, 3, "PER")]


@pytest.mark.parametrize(
    "tags, expected",
    [
        ("O I-PER I-PER", [(1, 3, "PER")]),
        ("I-PER O", [(0, 1, "PER")]),
        ("B-ORG I-PER I-PER", [(0, 1, "ORG"), (1, 3, "PER")]),
        ("I-ORG B-ORG", [(0, 1, "ORG"), (1, 2, "ORG")]),
    ],
)
def test_an_i_that_continues_nothing_begins_an_entity(tags, expected):
    assert spans(tags) == expected


def test_no_entity_continues_in_the_next_sentence():
    assert spans("O B-PER", "", "I-PER O") == [(1, 2, "PER"), (2, 3, "PER")]


def test_stretches_are_of_one_type_whatever_begins_in_them():
    tagged = entities.encode(
        [["B-PER", "B-PER", "I-ORG", "O"], ["I-ORG", "I-ORG"]], NAMES
    )
    assert entities.find_stretches(tagged).tolist() == [0, 2, 4]


def test_where_there_are_no_words_there_is_no_entity():
    assert spans() == [] == spans("", "O O")


# === Scores by hand ===


def test_an_entity_counts_only_complete_and_with_its_type():
    expected = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O"]]
    predicted = [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "B-LOC"]]
    found = score(expected, predicted)
    # Of 3 entities 1 is among the 4 that were said, the place.
    assert found["recall"] == pytest.approx(1 / 3)
    assert found["precision"] == pytest.approx(1 / 4)
    assert found["f1"] == pytest.approx(2 / 7)
    assert found["recall_LOC"] == 1.0
    assert found["precision_LOC"] == pytest.approx(1 / 3)
    assert found["f1_PER"] == found["f1_ORG"] == found["f1_MISC"] == 0.0
    # Words: B-PER, O and B-LOC are right; two of them are tagged, of 4 and 4.
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["token_f1"] == pytest.approx(2 / 4)


def test_a_badly_formed_prediction_of_the_right_words_is_right():
    found = score([["B-PER", "I-PER"]], [["I-PER"] * 2])
    assert found["f1"] == 1.0 and found["accuracy"] == 0.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tags", [[], [[]], [["O", "O"]]])
def test_no_score_is_nan(tags):
    found = score(tags, tags)
    assert len(found) == 3 * 5 + 2
    assert np.isfinite(list(found.values())).all()


def test_other_sentences_are_refused():
    with pytest.raises(ValueError, match="not the same sentences"):
        score([["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="not the same sentences"):
        score([["O", "O"]], [["O"]])


# === Beside seqeval ===


def by_seqeval(expected, predicted):
    """The same scores as it gives them, of the types that occur."""
    names = ("precision", "recall", "f1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of divisions by zero
        total, each = (
            peer.precision_recall_fscore_support(
                expected, predicted, average=average
            )
            for average in ("micro", None)
        )
    result = dict(zip(names, total))
    both = peer.get_entities(expected) + peer.get_entities(predicted)
    types = sorted({kind for kind, _, _ in both})
    for name, values in zip(names, each):
        result.update({f"{name}_{t}": v for t, v in zip(types, values)})
    result["accuracy"] = peer.accuracy_score(expected, predicted)
    return result


@pytest.mark.parametrize("inside", [0.02, 0.06, 0.1])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_scores_are_those_of_seqeval(inside, share):
    """Of well and badly formed tags, many and few, right and wrong."""
    rng = np.random.default_rng([int(100 * inside), int(10 * share)])
    chances = np.array([0, *[inside] * 8])
    chances[0] = 1 - chances.sum()
    for sentences in (1, 2, 5, 40) * 8:
        expected = random_sentences(rng, sentences, chances)
        predicted = changed(rng, expected, share)
        found = score(expected, predicted)
        theirs = by_seqeval(expected, predicted)
        assert len(theirs) >= 4
        for name, value in theirs.items():
            assert found[name] == pytest.approx(value, abs=1e-12), name


def test_entities_are_those_of_seqeval():
    rng = np.random.default_rng(1)
    chances = np.array([0.36, *[0.08] * 8])
    for tags in random_sentences(rng, 200, chances):
        found = spans(" ".join(tags))
        theirs = peer.get_entities(tags)  # with the last word, not behind it
        assert found == [(a, b + 1, kind) for kind, a, b in theirs]


# === Time ===


def test_a_split_of_the_size_of_testb_is_counted_at_once():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 27, 3500)
    starts = np.cumsum(sizes) - sizes
    tagged = [
        entities.Tagged(rng.integers(0, 9, sizes.sum()), starts)
        for _ in range(2)
    ]
    began = time.process_time()
    entities.score(*tagged, TYPES)
    assert time.process_time() - began < 0.5  # it takes 0.01 s
