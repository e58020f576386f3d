"""The tokenisers of transformers, and a file of ids that they gave.

`python -m tests.models.published` writes the file again; it needs the extra
`peers`.
"""

import io
import json
import pathlib
import unicodedata

import pytest

from tests.support import odd_texts
from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models.tokenizer import AddedToken, BytePairs, WordPieces

IDS = pathlib.Path(__file__).with_name("published_ids.jsonl")
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
CASES = {
    "uncased": {"do_lower_case": True},
    "cased": {"do_lower_case": False},
    "uncased with accents": {"do_lower_case": True, "strip_accents": False},
    "cased without accents": {"do_lower_case": False, "strip_accents": True},
    "no CJK": {"do_lower_case": True, "tokenize_chinese_chars": False},
}


def texts_of_the_file():
    """A few hundred of the odd texts."""
    short = [text for text in odd_texts.make() if len(text) < 40]
    return [*odd_texts.SENTENCES, *short[len(odd_texts.SENTENCES) :: 3]]


def replace_surrogates(text):
    """Without halves of pairs, which transformers refuses."""
    return text.encode("utf-8", "ignore").decode()


def spell(texts):
    """A vocabulary of every character, so that each one shows in the ids."""
    texts = map(replace_surrogates, texts)
    characters = {
        character
        for text in texts
        for composed in (text, unicodedata.normalize("NFD", text))
        for form in (composed, composed.lower())
        for character in form
    }
    characters = sorted(c for c in characters if c.isprintable())
    return [*BERT, *characters, *(f"##{c}" for c in characters)]


def word_pieces(vocabulary, **settings):
    """Ours, with transformers' names of settings."""
    return WordPieces(
        vocabulary,
        SpecialTokens(2, 3, 0, (3,)),
        1,
        [AddedToken(token) for token in BERT],
        settings["do_lower_case"],
        settings.get("strip_accents"),
        settings.get("tokenize_chinese_chars", True),
    )


def byte_pairs(vocabulary, merges):
    """Ours."""
    added = [AddedToken(token) for token in ROBERTA]
    return BytePairs(
        vocabulary, merges, SpecialTokens(0, 2, 1, (2, 2)), 3, added
    )


def their_byte_pairs(vocabulary, merges):
    transformers = pytest.importorskip("transformers")

    return transformers.RobertaTokenizer(
        vocab={token: number for number, token in enumerate(vocabulary)},
        merges=[tuple(merge.split(" ")) for merge in merges],
    )


def their_word_pieces(vocabulary, **settings):
    transformers = pytest.importorskip("transformers")

    ids = {token: number for number, token in enumerate(vocabulary)}
    return transformers.BertTokenizer(vocab=ids, **settings)


def train_byte_pairs(texts):
    """A small vocabulary and its merges."""
    import tokenizers

    trainer = tokenizers.ByteLevelBPETokenizer()
    trainer.train_from_iterator(
        map(replace_surrogates, texts),
        vocab_size=600,
        special_tokens=ROBERTA,
        show_progress=False,
    )
    model = json.loads(trainer.to_str())["model"]
    merges = [" ".join(pair) for pair in model["merges"]]
    return sorted(model["vocab"], key=model["vocab"].get), merges


def train_sentence_pieces():
    """The content of a small model's file; its table is SentencePiece's."""
    import sentencepiece

    texts = [" ".join(odd_texts.WORDS)] * 3 + odd_texts.SENTENCES[:5] * 5
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=out,
        vocab_size=600,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return out.getvalue()


def encode(tokenizer, texts):
    """Ids by transformers."""
    texts = list(map(replace_surrogates, texts))
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def main():
    texts = texts_of_the_file()
    characters = spell(texts)
    vocabulary, merges = train_byte_pairs(texts)
    ids = {
        name: encode(their_word_pieces(characters, **CASES[name]), texts)
        for name in ("uncased", "cased")
    }
    ids["roberta"] = encode(their_byte_pairs(vocabulary, merges), texts)
    content = {"vocabulary": vocabulary, "merges": merges}
    lines = [json.dumps(content, ensure_ascii=False)]
    for number, text in enumerate(texts):
        row = {name: column[number] for name, column in ids.items()}
        lines.append(json.dumps({"text": text, **row}))
    IDS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
