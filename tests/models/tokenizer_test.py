"""Ids are those of the published tokenisers, on texts that are hard to read."""

import csv
import itertools
import json
import os
import subprocess
import sys
import types
import unicodedata

import pytest
import tensorflow as tf

from tests import conftest
from tests.models import published
from tests.support import odd_texts
from tf_transfer.models import transformers_tokenizer, transformers_types
from tf_transfer.models.tokenizer import AddedToken

ENGLISH = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "title", "film", "a"]


def assert_same(texts, ours, theirs):
    different = [
        text
        for text, one, other in zip(texts, ours, theirs, strict=True)
        if list(one) != list(other)
    ]
    assert not different


def batched(texts, size):
    return [texts[n : n + size] for n in range(0, len(texts), size)]


# === The stored ids ===


@pytest.fixture(scope="module")
def stored():
    """Vocabulary and merges of RoBERTa, and rows of a text and its ids."""
    lines = published.IDS.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_stored_ids_of_bert(stored, case):
    _, *rows = stored
    texts = [row["text"] for row in rows]
    assert len(texts) > 200
    tokenizer = published.word_pieces(
        published.spell(texts), **published.CASES[case]
    )
    rows = [row for row in rows if is_in_fast_tables(row["text"])]
    texts = [row["text"] for row in rows]
    assert_same(texts, tokenizer.encode(texts), [row[case] for row in rows])


@pytest.mark.slow  # keras-hub joins bytes pair by pair
def test_stored_ids_of_roberta(stored):
    head, *rows = stored
    texts = [row["text"] for row in rows]
    tokenizer = published.byte_pairs(head["vocabulary"], head["merges"])
    assert_same(
        texts, tokenizer.encode(texts), [row["roberta"] for row in rows]
    )


# === transformers ===


def is_in_fast_tables(text):
    """Whether transformers' fast tokenizer lower-cases a text as BERT does.

    It does not know that a capital sigma at the end of a word is a final one.
    """
    return "Σ" not in text


@pytest.fixture(scope="module")
def lines():
    """The odd texts, and lines of the data sets where they are at hand."""
    texts = odd_texts.make()
    path = os.path.join(conftest.SHARED, "tweets", "train.csv")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            rows = itertools.islice(csv.DictReader(file), 1000)
            texts += [row["text"] for row in rows]
    for name in ("CoLA", "RTE", "STS-B"):
        path = os.path.join(conftest.SHARED, "glue", name, "dev.tsv")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                texts += [line.strip() for line in itertools.islice(file, 300)]
    return texts


@pytest.fixture(scope="module")
def vocabulary(lines):
    return published.spell(lines)


@pytest.mark.parametrize("case", published.CASES)
def test_ids_equal_those_of_transformers(lines, vocabulary, case):
    pytest.importorskip("transformers")
    settings = published.CASES[case]
    ours = published.word_pieces(vocabulary, **settings)
    theirs = published.their_word_pieces(vocabulary, **settings)
    texts = [text for text in lines if is_in_fast_tables(text)]
    assert len(texts) > 1200
    assert_same(texts, ours.encode(texts), published.encode(theirs, texts))


@pytest.mark.parametrize("case", published.CASES)
def test_ids_equal_those_of_transformers_in_python(
    lines, vocabulary, case, tmp_path
):
    """Its older tokenizer composes accents first, which BERT's does not."""
    pytest.importorskip("transformers")
    from transformers.models.bert import tokenization_bert_legacy

    path = tmp_path / "vocab.txt"
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{token}\n" for token in vocabulary)
    settings = published.CASES[case]
    theirs = tokenization_bert_legacy.BertTokenizerLegacy(str(path), **settings)
    texts = [t for t in lines if unicodedata.is_normalized("NFC", t)]
    assert len(texts) > 1000
    ours = published.word_pieces(vocabulary, **settings)
    assert_same(texts, ours.encode(texts), published.encode(theirs, texts))


@pytest.mark.slow  # keras-hub joins bytes pair by pair
def test_ids_of_roberta_equal_those_of_transformers(lines):
    pytest.importorskip("transformers")
    vocabulary, merges = published.train_byte_pairs(lines)
    ours = published.byte_pairs(vocabulary, merges)
    theirs = published.their_byte_pairs(vocabulary, merges)
    ids = [row for few in batched(lines, 100) for row in ours.encode(few)]
    assert_same(lines, ids, published.encode(theirs, lines))


# === SentencePiece ===


@pytest.fixture(scope="module")
def sentence_pieces(tmp_path_factory):
    """A folder with a model of SentencePiece."""
    folder = tmp_path_factory.mktemp("pieces")
    content = published.train_sentence_pieces()
    (folder / transformers_tokenizer.SENTENCE_PIECES).write_bytes(content)
    return folder


def read_tokenizer(folder, model_type):
    config = types.SimpleNamespace(
        type=transformers_types.TYPES[model_type],
        sizes={"vocabulary_size": 10**6},
    )
    return transformers_tokenizer.read_tokenizer(str(folder), config)


def is_read_alike(text):
    """Whether transformers normalises a text as SentencePiece does.

    It leaves letters apart whose parts have more than five bytes. Two ways to
    cut `iii`, also of numerals, have one score.
    """
    is_composed = unicodedata.is_normalized("NFC", text)
    return is_composed and not any(x in text for x in ("ﾞ", "Ⅲ", "ⅲ", "iii"))


@pytest.mark.parametrize(
    "model_type, shift", [("xlm-roberta", 1), ("camembert", 4)]
)
def test_ids_of_sentence_piece_itself(sentence_pieces, model_type, shift):
    import sentencepiece

    ours = read_tokenizer(sentence_pieces, model_type)
    theirs = sentencepiece.SentencePieceProcessor(
        model_file=str(sentence_pieces / transformers_tokenizer.SENTENCE_PIECES)
    )
    texts = [
        text
        for text in map(published.replace_surrogates, odd_texts.make())
        if not any(token in text for token in (*published.ROBERTA, *"\x85Ⅲⅲ"))
    ]
    assert len(texts) > 1200
    expected = [
        [number + shift if number else ours.unknown for number in row]
        for row in theirs.encode(texts)
    ]
    assert_same(texts, ours.encode(texts), expected)


@pytest.mark.parametrize("model_type", ["xlm-roberta", "camembert"])
@pytest.mark.parametrize("is_saved", [False, True])
def test_ids_of_sentence_piece_equal_those_of_transformers(
    lines, sentence_pieces, model_type, is_saved, tmp_path
):
    transformers = pytest.importorskip("transformers")
    name = transformers_types.TYPES[model_type].tokenizer
    theirs = getattr(transformers, name).from_pretrained(sentence_pieces)
    folder = sentence_pieces
    if is_saved:  # as tokenizer.json, and with a token more
        folder = tmp_path
        theirs.add_tokens(["schön"])
        theirs.save_pretrained(folder)
    ours = read_tokenizer(folder, model_type)
    texts = [text for text in lines if is_read_alike(text)]
    assert len(texts) > 1000
    assert_same(texts, ours.encode(texts), published.encode(theirs, texts))
    special = [ours.special.start, *ours.special.between, ours.special.end]
    a, b = (published.encode(theirs, [text])[0] for text in ("film", "Ωm"))
    assert theirs("film", "Ωm")["input_ids"] == [
        special[0],
        *a,
        *special[1:3],
        *b,
        special[3],
    ]


# === One by one ===


@pytest.fixture(scope="module")
def english():
    return published.word_pieces(ENGLISH, do_lower_case=True)


def read(tokenizer, text):
    [ids] = tokenizer.encode([text])
    return [tokenizer.vocabulary[number] for number in ids]


@pytest.mark.parametrize("space", odd_texts.SPACES)
def test_every_white_space_ends_a_word(english, space):
    removed = unicodedata.category(space) == "Cc" and space not in "\t\n\r"
    expected = ["[UNK]"] if removed else ["film", "title"]
    assert read(english, f"film{space}title") == expected


@pytest.mark.parametrize("dropped", ["\0", "\ufffd", "\u200b", "\u00ad"])
def test_what_bert_drops_joins_the_letters_around_it(english, dropped):
    assert read(english, f"fi{dropped}lm title") == ["film", "title"]


def test_halves_of_a_pair_are_left_out(english):
    assert read(english, "fi\ud83dlm") == ["film"]


def test_special_tokens_are_found_in_texts(english):
    found = ["film", "[SEP]", "title", "[MASK]", "a"]
    assert read(english, "film[SEP] title [MASK]a") == found
    assert read(english, "[sep]") == ["[UNK]"] * 3


def test_no_texts_have_no_ids(english):
    assert english.encode([]) == []
    assert [len(ids) for ids in english.encode(["", " ", "\0"])] == [0, 0, 0]


def test_added_tokens_are_found_inside_of_words():
    words = [*ENGLISH, "Raw", "COVID", "covid"]
    tokenizer = published.word_pieces(words, do_lower_case=True)
    added = [AddedToken("Raw"), AddedToken("COVID", is_normalized=True)]
    tokenizer = type(tokenizer)(words, tokenizer.special, 1, added)
    assert read(tokenizer, "aRawa raw") == ["a", "Raw", "a", "[UNK]"]
    assert read(tokenizer, "aCovida covid") == ["a", "COVID", "a", "COVID"]


def test_an_added_token_takes_the_space_around_it():
    words = [*published.ROBERTA, "a", "Ġ", "Ġa"]
    both = AddedToken("<mask>", takes_left=True, takes_right=True)
    tokenizer = published.byte_pairs(words, ["Ġ a"])
    tokenizer = type(tokenizer)(words, ["Ġ a"], tokenizer.special, 3, [both])
    tokenizer.EAGER_CALLS = 1  # its program takes seconds
    assert read(tokenizer, "a  <mask>\u00a0a a") == ["a", "<mask>", "a", "Ġa"]


@pytest.mark.slow  # traces and saves a model
def test_a_graph_gives_the_same_ids(english, sentence_pieces):
    words = [*ENGLISH, "schön", "Straße"]
    added = [AddedToken("Straße"), AddedToken("schön", is_normalized=True)]
    texts = list(map(published.replace_surrogates, odd_texts.make()))
    for tokenizer in (
        type(english)(words, english.special, 1, [*english.added, *added]),
        read_tokenizer(sentence_pieces, "xlm-roberta"),
    ):
        inside = tf.function(tokenizer, autograph=False)(tf.constant(texts))
        expected = [row.tolist() for row in tokenizer.encode(texts)]
        assert inside.to_list() == expected


def test_many_calls_have_the_ids_of_the_first(english):
    texts = ["film\u00a0title", "[SEP]", ""]
    tokenizer = type(english)(ENGLISH, english.special, 1, english.added)
    tokenizer.EAGER_CALLS = 1
    for _ in range(3):
        ids = [row.tolist() for row in tokenizer.encode(texts)]
        assert ids == [[6, 5], [3], []]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["tr_TR.UTF-8", "lt_LT.UTF-8"])
def test_ids_do_not_depend_on_the_language_of_the_machine(language):
    """ICU lower-cases an I to a dotless one in Turkish."""
    code = """
from tests import conftest
from tests.models import published
for accents in (None, False):
    words = [*published.BERT, "title", "i", "##\u0307", "ì", "##s"]
    tokenizer = published.word_pieces(
        words, do_lower_case=True, strip_accents=accents
    )
    print(*(ids.tolist() for ids in tokenizer.encode(["TITLE", "İs", "Ìs"])))
"""
    output = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "LC_ALL": name, "LANG": name},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in (language, "C.UTF-8")
    ]
    assert output[0] == output[1]
    assert output[1].startswith("[5] ")
