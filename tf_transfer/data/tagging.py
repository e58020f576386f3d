"""Tagged sentences: from a corpus to encoded splits, and to entity scores."""

from typing import Any

import numpy as np

from tf_transfer.data import conll
from tf_transfer.data import entities
from tf_transfer.data import splits
from tf_transfer.data import word_pieces
from tf_transfer.data.batches import EncodedSplit

SPLITS = {"train": "train", "validation": "testa", "test": "testb"}
PRINTED = ("f1", "accuracy")  # first: a line of a run has room for these


def read_tagged_splits(
    source: conll.Corpus,
    encoder: Any,
    max_length: int,
    max_train_examples: int,
    split_seed: int,
) -> dict[str, EncodedSplit]:
    """Reads and encodes the splits of a corpus.

    Args:
        source: The corpus.
        encoder: Has `tokenize`, `special`, `tokenizer` and `family`.
        max_length: Longest row in tokens.
        max_train_examples: How many sentences train; 0 takes all.
        split_seed: Seed of the subset and of the sample.

    Returns:
        `train`, `validation` and `test`; and `sample`, as many sentences of
        `train` as `validation` has.
    """
    sentences = {name: source.read(split) for name, split in SPLITS.items()}
    subset = splits.choose_subset(
        np.zeros(len(sentences["train"]), np.int64),
        max_train_examples,
        split_seed,
    )
    sentences["train"] = sentences["train"].take(subset)
    sample = splits.draw_sample(
        len(sentences["train"]), len(sentences["validation"]), split_seed
    )
    sentences["sample"] = sentences["train"].take(sample)
    return {
        name: encode_sentences(chosen, encoder, max_length, name)
        for name, chosen in sentences.items()
    }


def encode_sentences(
    sentences: conll.Sentences, encoder: Any, max_length: int, name: str
) -> EncodedSplit:
    """Encodes tagged sentences.

    Args:
        sentences: The words and their tags.
        encoder: Has `tokenize`, `special`, `tokenizer` and `family`.
        max_length: Longest row in tokens.
        name: What a message calls the sentences.
    """
    pieces = word_pieces.encode(
        encoder.tokenize,
        encoder.special,
        word_pieces.unknown_id(encoder.tokenizer),
        sentences.words,
        max_length,
        spaced=encoder.family == "roberta",
        name=name,
    )
    tagged = entities.encode(sentences.tags, conll.TAGS)
    return EncodedSplit(
        pieces.tokens,
        word_pieces.label_pieces(pieces, tagged.ids),
        sentences.ids[pieces.sentences],
        word_starts=pieces.word_starts,
    )


def measure_entities(
    split: EncodedSplit, logits: np.ndarray
) -> dict[str, float]:
    """Scores the entities of a split.

    Args:
        split: The words.
        logits: float32 [words, tags].

    Returns:
        The metrics of `entities.score`, those of `PRINTED` first.
    """
    assert split.word_starts is not None
    scores = entities.score(
        entities.Tagged(split.targets, split.word_starts),
        entities.Tagged(logits.argmax(axis=1), split.word_starts),
        conll.TYPES,
    )
    return {name: scores[name] for name in dict.fromkeys((*PRINTED, *scores))}
