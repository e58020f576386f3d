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
        encoder.tokenizer.encode,
        encoder.special,
        encoder.tokenizer.unknown,
        sentences,
        64,
        spaced=encoder.family == "roberta",
    )


def test_words_are_cut_as_the_text_is_that_they_make(encoder):
    texts = ["The dog was not in the house.", "A man , the dog", "do g . the"]
    pieces = encode(encoder, [text.split() for text in texts])
    encode_texts = encoder.tokenizer.encode
    expected = tokens.encode(encode_texts, encoder.special, [texts], 64)
    assert pieces.tokens.flat.tolist() == expected.flat.tolist()
    assert pieces.tokens.starts.tolist() == expected.starts.tolist()


def test_a_word_without_pieces_has_the_family_s_unknown_token(encoder):
    unknown = encoder.tokenizer.unknown
    name = {"bert": "[UNK]", "roberta": "<unk>"}[encoder.family]
    assert unknown == encoder.tokenizer.vocabulary.index(name)
    if encoder.family == "bert":  # of bytes, any character has a piece
        words = ["the", "\u0085", "\u200b\u200b", "dog"]
        the, dog = map(encoder.tokenizer.vocabulary.index, ("the", "dog"))
        start, end = encoder.special.start, encoder.special.end
        pieces = encode(encoder, [words])
        assert pieces.tokens.flat.tolist() == [
            *(start, the, unknown, unknown, dog, end)
        ]
