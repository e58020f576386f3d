"""Words are cut into pieces by the tokenisers of both families."""

import pytest

from tests.models import encoders
from tf_transfer.data import tokens, word_pieces


@pytest.fixture(
    scope="module",
    params=["bert", pytest.param("roberta", marks=pytest.mark.slow)],
)
def encoder(request):
    """An encoder of each family."""
    return encoders.shared(request.param)


def encode(encoder, sentences):
    return word_pieces.encode(
        encoder.tokenize,
        encoder.special,
        word_pieces.unknown_id(encoder.tokenizer),
        sentences,
        64,
        spaced=encoder.family == "roberta",
    )


def test_words_are_cut_as_the_text_is_that_they_make(encoder):
    texts = ["The dog was not in the house.", "A man , the dog", "do g . the"]
    pieces = encode(encoder, [text.split() for text in texts])
    expected = tokens.encode(encoder.tokenize, encoder.special, [texts], 64)
    assert pieces.tokens.flat.tolist() == expected.flat.tolist()
    assert pieces.tokens.starts.tolist() == expected.starts.tolist()


def test_a_word_without_pieces_has_the_family_s_unknown_token(encoder):
    unknown = word_pieces.unknown_id(encoder.tokenizer)
    name = {"bert": "[UNK]", "roberta": "<unk>"}[encoder.family]
    assert unknown == encoder.tokenizer.token_to_id(name)
    if encoder.family == "bert":  # of bytes, any character has a piece
        words = ["the", "\u0085", "\u200b\u200b", "dog"]
        the, dog = map(encoder.tokenizer.token_to_id, ("the", "dog"))
        start, end = encoder.special.start, encoder.special.end
        pieces = encode(encoder, [words])
        assert pieces.tokens.flat.tolist() == [
            *(start, the, unknown, unknown, dog, end)
        ]
