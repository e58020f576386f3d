"""Tokenizers of types whose blocks are ours give the ids of transformers."""

import unicodedata

import pytest

from tests.models import published
from tests.models.their_folders import load
from tests.models.their_types import TYPES
from tests.models.tokenizer_test import assert_same, is_in_fast_tables
from tests.support import odd_texts


def is_settled(text):
    """Whether a text has characters that all releases of Unicode know.

    Of those it also composes as any other release does.
    """
    known = unicodedata.ucd_3_2_0
    return all(known.category(character) != "Cn" for character in text)


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_ids_are_those_of_transformers(name, tmp_path):
    pytest.importorskip("transformers")
    _, tokenizer = TYPES[name](tmp_path / "model")
    ours = load(tmp_path / "model").tokenizer
    texts = [text for text in odd_texts.make() if is_settled(text)]
    if name == "mpnet":
        texts = [text for text in texts if is_in_fast_tables(text)]
    assert len(texts) > 1000
    # A long word takes as many loops over all new words of its call.
    ids = []
    for start in range(0, len(texts), 100):
        ids += ours.encode(texts[start : start + 100])
    assert_same(texts, ids, published.encode(tokenizer, texts))


@pytest.mark.parametrize("name", TYPES)
def test_a_pair_is_packed_as_in_transformers(name, tmp_path):
    pytest.importorskip("transformers")
    from tests.models import encoders

    _, tokenizer = TYPES[name](tmp_path / "model")
    encoder = load(tmp_path / "model")
    pair = [["schön Straße"], ["a film"]]
    theirs = tokenizer(*pair)["input_ids"][0]
    batch = encoders.batch_of(
        encoder, pair, tokenize=encoder.tokenizer.encode, length=40
    )
    assert batch["ids"][0].numpy()[: len(theirs)].tolist() == theirs
    assert int(batch["mask"][0].numpy().sum()) == len(theirs)
