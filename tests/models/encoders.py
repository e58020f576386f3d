"""Tiny encoders of both families, and what runs through them."""

import functools

import keras
import keras_hub
import numpy as np

from tf_transfer.data import batches, tokens
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.models import encoder, loading, tokenizer

PAIRS = [
    ["The dog was not in the house.", "A man", "good film", "why?"],
    [
        "All the children saw it.",
        "is at home with two cats and 1 dog",
        "a great, poor, very long day",
        "water",
    ],
]


def bert():
    return loading.load("tiny", "", dropout=0.1)


@functools.cache
def roberta_tokenizer():
    """With a vocabulary of all bytes, and of a few pairs."""
    # By GPT-2's names: bytes without a look have the letters from Ā on.
    letters = [chr(byte) for byte in range(256) if chr(byte).isprintable()]
    letters.remove(" ")
    letters += [chr(number) for number in range(256, 256 + 256 - len(letters))]
    pairs = ["t h", "th e", "Ġ the", "o g", "d og", "Ġ dog"]
    words = ["<s>", "<pad>", "</s>", "<unk>", *letters]
    words += [*(pair.replace(" ", "") for pair in pairs), "<mask>"]
    special = tokens.SpecialTokens(0, 2, 1, (2, 2))
    added = [tokenizer.AddedToken(word) for word in (*words[:4], words[-1])]
    made = tokenizer.BytePairs(words, pairs, special, 3, added)
    made.EAGER_CALLS = 50  # its program takes longer than these few texts
    return made


def roberta(seed=0):
    """Two blocks of random weights."""
    backbone = keras_hub.models.RobertaBackbone(
        vocabulary_size=len(roberta_tokenizer().vocabulary),
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        dropout=0.1,
        max_sequence_length=64,
    )
    randomise(backbone)
    return encoder.Encoder(backbone, roberta_tokenizer(), seed)


def randomise(backbone):
    """Draws every weight, so that each one matters to the states."""
    draw = keras.random.SeedGenerator(8)
    for weight in backbone.weights:
        noise = keras.random.normal(weight.shape, stddev=0.2, seed=draw)
        weight.assign(weight + noise)


FAMILIES = {"bert": bert, "roberta": roberta}


@functools.cache
def shared(family):
    """An encoder of a family that all tests share: leave it as it is."""
    return FAMILIES[family]()


def spell(encoder, texts):
    """Ids of letters, where the tokeniser would take seconds to trace."""
    if encoder.family == "bert":
        return encoder.tokenizer.encode(texts)
    ids = {word: n for n, word in enumerate(roberta_tokenizer().vocabulary)}
    return [
        np.array([ids.get(c, 3) for c in text.replace(" ", "Ġ")], np.int32)
        for text in texts
    ]


def batch_of(encoder, texts, length=40, tokenize=None):
    """One batch of texts or pairs of up to 40 tokens, padded to a length.

    Args:
        encoder: whose ids.
        texts: one column or two.
        length: of the batch, in tokens.
        tokenize: from texts to ids; `spell`, unless given.
    """
    tokenize = tokenize or functools.partial(spell, encoder)
    encoded = tokens.encode(tokenize, encoder.special, texts, 40)
    rows = np.arange(len(encoded))
    plan = batches.BatchPlan(
        rows[None], np.array([len(rows)]), np.array([length], np.int32)
    )
    split = EncodedSplit(encoded, np.zeros(len(rows)), rows)
    [batch] = batches.pipeline(split, plan, encoder.special.pad)
    return batch


def states(encoder, batch, training=False):
    """Hidden states above the last block."""
    return encoder(
        batch["ids"], batch["segments"], batch["mask"], training
    ).numpy()
