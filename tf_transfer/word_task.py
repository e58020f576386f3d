"""Entities: sentences of tagged words, from a corpus to splits and scores."""

import numpy as np

from tf_transfer.data import conll
from tf_transfer.data import entities
from tf_transfer.data import subsets
from tf_transfer.data import word_pieces

SPLITS = {"train": "train", "validation": "testa", "test": "testb"}


def read_splits(settings, source, encoder):
    """Splits by name, and with them `sample`, a fixed part of `train`."""
    parts = {name: source.read(split) for name, split in SPLITS.items()}
    chosen = subsets.subset(
        np.zeros(len(parts["train"]), np.int64),
        settings.max_train_examples,
        settings.split_seed,
    )
    parts["train"] = parts["train"].take(chosen)
    parts["sample"] = parts["train"].take(
        subsets.sample(
            len(parts["train"]), len(parts["validation"]), settings.split_seed
        )
    )
    return {
        name: encode(sentences, encoder, settings.max_length, name)
        for name, sentences in parts.items()
    }


def encode(sentences, encoder, max_length, name):
    """A `batches.Split` of `conll.Sentences`."""
    from tf_transfer.data import batches

    found = word_pieces.encode(
        encoder.tokenize,
        encoder.special,
        word_pieces.unknown_id(encoder.tokenizer),
        sentences.words,
        max_length,
        spaced=encoder.family == "roberta",
        name=name,
    )
    tagged = entities.encode(sentences.tags, conll.TAGS)
    return batches.Split(
        found.tokens,
        word_pieces.spread(found, tagged.ids),
        sentences.ids[found.sentences],
        word_starts=found.starts,
    )


def measure(part, logits, prefix):
    """Entity scores of a split's words.

    Args:
        part: `batches.Split`.
        logits: float32 [words, tags].
        prefix: before the names of the metrics.
    """
    found = entities.score(
        entities.Tagged(part.targets, part.word_starts),
        entities.Tagged(logits.argmax(axis=1), part.word_starts),
        conll.TYPES,
    )
    first = ("f1", "accuracy")  # what a line on the terminal has room for
    return {
        prefix + name: found[name] for name in dict.fromkeys((*first, *found))
    }
