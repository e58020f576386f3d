"""Tagged sentences: as token ids, and their scores as entities."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transfer.data import entities, word_pieces
from tf_transfer.data.batches import EncodedSplit
from tf_transfer.data.task import Sentences

PRINTED = ("f1", "accuracy")  # first: a line of a run has room for these


def encode_sentences(
    sentences: Sentences,
    tags: Sequence[str],
    encoder: Any,
    max_length: int,
    name: str,
) -> EncodedSplit:
    """Encodes tagged sentences.

    Args:
        sentences: The words and their tags.
        tags: All tags; see `entities.tag_names`.
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
    tagged = entities.encode(sentences.tags, tags)
    return EncodedSplit(
        pieces.tokens,
        word_pieces.label_pieces(pieces, tagged.ids),
        sentences.ids[pieces.sentences],
        word_starts=pieces.word_starts,
    )


def measure_entities(
    split: EncodedSplit,
    logits: np.ndarray,
    tags: Sequence[str],
    first: Sequence[str] = PRINTED,
) -> dict[str, float]:
    """Scores the entities of a split.

    Args:
        split: The words.
        logits: float32 [words, tags].
        tags: All tags; see `entities.tag_names`.
        first: The metrics that come first.

    Returns:
        The metrics of `entities.score`.
    """
    assert split.word_starts is not None
    scores = entities.score(
        entities.Tagged(split.targets, split.word_starts),
        entities.Tagged(logits.argmax(axis=1), split.word_starts),
        entities.types_of(tags),
    )
    return {name: scores[name] for name in dict.fromkeys((*first, *scores))}
