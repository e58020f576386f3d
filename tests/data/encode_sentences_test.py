"""Tagged sentences: what is encoded, and how predictions are scored."""

import types

import numpy as np
import pytest

from tf_transfer.data import conll, entities, metrics, tokens, word_pieces

ENCODER = types.SimpleNamespace(
    family="bert",
    special=tokens.SpecialTokens(start=1, end=2, pad=0, between=(2,)),
    tokenizer=types.SimpleNamespace(
        unknown=3,
        encode=lambda words: [[4] * (len(word) // 2) for word in words],
    ),
)


def make_sentences(count, seed=0):
    """Sentences of 0 to 29 words of 0 to 9 pieces, with random tags."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 30, count)
    return conll.Sentences(
        np.arange(count) + 100,
        [["x" * n for n in rng.integers(1, 20, size)] for size in sizes],
        [rng.choice(conll.TAGS, size).tolist() for size in sizes],
    )


@pytest.mark.parametrize("max_length", [3, 8, 20, 1000])
def test_an_encoded_split_holds_every_tag_in_order(max_length):
    sentences = make_sentences(50)
    split = word_pieces.encode_sentences(
        sentences, conll.TAGS, ENCODER, max_length, "train"
    )
    assert split.lengths.max() <= max_length
    tagged = entities.encode(sentences.tags, conll.TAGS)
    assert split.targets.tolist() == tagged.ids.tolist()
    assert split.word_starts.tolist() == tagged.starts.tolist()
    assert split.words.sum() == len(tagged.ids)
    # A row is of one sentence, and the rows of a sentence share its id.
    words = np.bincount(split.ids - 100, split.words, minlength=50)
    assert words.tolist() == [len(tags) for tags in sentences.tags]


def test_a_word_mask_chooses_the_words_of_a_padded_batch():
    split = word_pieces.encode_sentences(
        make_sentences(50), conll.TAGS, ENCODER, 12, "train"
    )
    rows = np.random.default_rng(1).permutation(len(split))[:20]
    mask = split.word_mask(rows, 16)
    assert mask.sum(axis=1).tolist() == split.words[rows].tolist()
    ends = np.cumsum(split.words)
    starts = split.tokens.starts
    for row, is_word in zip(rows, mask):
        labels = split.labels[starts[row] + np.flatnonzero(is_word)]
        expected = split.targets[ends[row] - split.words[row] : ends[row]]
        assert labels.tolist() == expected.tolist()


def test_scores_are_those_of_the_highest_logits():
    split = word_pieces.encode_sentences(
        make_sentences(50), conll.TAGS, ENCODER, 12, "test"
    )
    logits = np.eye(len(conll.TAGS), dtype=np.float32)[split.targets]
    scores = metrics.measure_task(
        conll.TASK, split.targets, logits, split.word_starts
    )
    assert list(scores)[:2] == ["f1", "accuracy"]
    assert set(scores.values()) == {1.0}
    logits[0] = 0.0
    logits[0, (split.targets[0] + 1) % len(conll.TAGS)] = 1.0
    scores = metrics.measure_task(
        conll.TASK, split.targets, logits, split.word_starts
    )
    words = len(split.targets)
    assert scores["accuracy"] == pytest.approx((words - 1) / words)
