"""`--model=tiny`: a BERT of random weights, to try commands and to test.

Three blocks of width 32 and a vocabulary of letters and common short words,
so that any English text has ids. It is not pretrained: its scores mean nothing.
"""

import functools
import string
from typing import TYPE_CHECKING

from tf_transfer.data.tokens import SpecialTokens

if TYPE_CHECKING:
    import keras_hub

    from tf_transfer.models.tokenizer import WordPieces

BLOCKS = 3
HIDDEN = 32
HEADS = 2
SEED = 20  # its weights are part of its identity, not of a run's seed

WORDS = """
the a an of to in and is are was were it this that not no very good bad great
poor film book day man woman child they he she we you i with for on at by from
as but or if do does did what who how when where why all some one two more most
never always house dog cat car water time year
""".split()


def vocabulary() -> list[str]:
    """The words and letters that `tiny` knows, ids by position."""
    letters = string.ascii_lowercase + string.digits
    return [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *(letter for letter in letters if letter not in WORDS),
        *(f"##{letter}" for letter in letters),
        *string.punctuation,
        *WORDS,
    ]


@functools.cache
def tokenizer() -> "WordPieces":
    """One for all encoders of a process: it takes longest to trace."""
    from tf_transfer.models.tokenizer import AddedToken, WordPieces

    words = vocabulary()
    pad, unknown, start, end = range(4)
    return WordPieces(
        words,
        SpecialTokens(start, end, pad, (end,)),
        unknown,
        [AddedToken(word) for word in words[:5]],
    )


def build(
    dropout: float, dtype: str = "float32"
) -> tuple["keras_hub.models.BertBackbone", "WordPieces"]:
    """Builds backbone and tokeniser.

    Args:
        dropout: Rate in every layer.
        dtype: Keras dtype policy.
    """
    import keras
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(vocabulary()),
        num_layers=BLOCKS,
        num_heads=HEADS,
        hidden_dim=HIDDEN,
        intermediate_dim=2 * HIDDEN,
        dropout=dropout,
        max_sequence_length=512,
        dtype=dtype,
    )
    seeds = keras.random.SeedGenerator(SEED)
    for weight in backbone.weights:
        name = weight.path.rsplit("/", 1)[-1]
        if name not in ("gamma", "beta", "bias"):
            weight.assign(
                keras.random.truncated_normal(
                    weight.shape, stddev=0.1, seed=seeds, dtype="float32"
                )
            )
    return backbone, tokenizer()
