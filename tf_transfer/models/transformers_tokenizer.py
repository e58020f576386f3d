"""The tokenizer of a model folder of `transformers`.

`tokenizer_keys` lists what is known of its files.
"""

import base64
import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping

from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models import sentence_pieces
from tf_transfer.models.sentence_pieces import SentencePieces
from tf_transfer.models.tokenizer import (
    AddedToken,
    BytePairs,
    Tokenizer,
    WordPieces,
)
from tf_transfer.models.tokenizer_keys import (
    CLASSES,
    FIELD_OF_KEY,
    GENERIC_CLASSES,
    MORE_TOKENS,
    NAMED_TOKENS,
    NEEDED,
    OF_KIND,
    PAIR,
    POST_PROCESSORS,
    SECTIONS,
    SETTINGS_FILES,
    TOKENIZER,
    TokenizerClass,
    TOP_KEYS,
    WIDE_PAIR,
)
from tf_transfer.models.transformers_folder import (
    check_keys,
    Config,
    read_keys,
    refuse,
)
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

# The class of each kind, and which of its arguments a field is.
TOKENIZERS: dict[str, tuple[Callable[..., Tokenizer], dict[str, str]]] = {
    "WordPiece": (
        WordPieces,
        {
            "normalizer.lowercase": "lowercase",
            "normalizer.strip_accents": "strip_accents",
            "normalizer.handle_chinese_chars": "splits_chinese",
            "model.max_input_chars_per_word": "longest",
        },
    ),
    "BPE": (
        BytePairs,
        {
            "model.merges": "merges",
            "pre_tokenizer.add_prefix_space": "adds_space",
            "normalizer.type": "form",
        },
    ),
    "Unigram": (
        SentencePieces,
        {
            "model.scores": "scores",
            "model.charsmap": "charsmap",
            "model.source": "source",
            "normalizer.type": "steps",
        },
    ),
}
SENTENCE_PIECES = "sentencepiece.bpe.model"


def read_tokenizer(folder: str, config: Config) -> Tokenizer:
    """Makes the tokeniser that the files of a folder describe.

    `tokenizer.json` has the vocabulary, or `vocab.txt`, or `vocab.json` and
    `merges.txt`, or `sentencepiece.bpe.model`. `tokenizer_config.json` has
    precedence for how WordPiece's texts are normalised, as in transformers;
    where neither file has a setting, it is that of the uncased BERT.

    Raises:
        UserError: A key or value is not known here, or a file is missing.
    """
    settings: Record = {}
    for name, keys in SETTINGS_FILES.items():
        if os.path.exists(os.path.join(folder, name)):
            settings |= read_keys(folder, name, keys)
    title = settings.get("tokenizer_class") or config.type.tokenizer
    cls = CLASSES.get(title.removesuffix("Fast"))
    content: Record = {}
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        content = read_keys(folder, "tokenizer.json", TOP_KEYS)
    if title in GENERIC_CLASSES:
        _find(folder, "tokenizer.json")
        settings = {k: v for k, v in settings.items() if k in NAMED_TOKENS}
        cls = _find_generic(content, CLASSES[config.type.tokenizer])
    if cls is None:
        raise refuse(folder, "tokenizer_config.json", "tokenizer_class", title)
    kind = cls.kind

    if content:
        fields, added = _read_tokenizer_json(folder, content, cls)
    else:
        fields = VOCABULARY_READERS[kind](folder, title)
        added = _read_added(folder, settings)
    if kind == "Unigram":
        name = "tokenizer.json" if content else SENTENCE_PIECES
        file = files.read_bytes(os.path.join(folder, name))
        fields["model.source"] = (title, name, file)
    for key, field in FIELD_OF_KEY.items():
        if key in settings and field in TOKENIZER[kind]:
            value, allowed = {key: settings[key]}, TOKENIZER[kind][field]
            check_keys(folder, "tokenizer_config.json", value, {key: allowed})
            fields[field] = settings[key]
    tokenizer = _make_tokenizer(folder, config, cls, settings, fields, added)
    if cls.kind == "BPE" and title in GENERIC_CLASSES:
        name = "tokenizer.json"
        file = files.read_bytes(os.path.join(folder, name))
        tokenizer.source = (title, name, file)
    return tokenizer


def _find_generic(
    content: Record, usual: TokenizerClass
) -> TokenizerClass | None:
    """The class of a tokenizer by `tokenizer.json`; None if it is not known.

    Args:
        content: Of the file.
        usual: The class of the model's own tokenizer.
    """
    kind = content["model"].get("type", usual.kind)
    if kind not in OF_KIND:
        return None
    cls = usual if kind == usual.kind else OF_KIND[kind]
    pair = _find_pair(content.get("post_processor", {})) or cls.pair
    return dataclasses.replace(cls, pair=pair)


def _make_tokenizer(
    folder: str,
    config: Config,
    cls: TokenizerClass,
    settings: Record,
    fields: Record,
    added: Mapping[int, AddedToken],
) -> Tokenizer:
    """Makes a tokeniser of what the files of a folder have.

    Args:
        folder: See `read_tokenizer`.
        config: See `read_tokenizer`.
        cls: Of the tokenizer.
        settings: The keys of `SETTINGS_FILES`.
        fields: Those of `TOKENIZER` and `TOKENIZERS`.
        added: The added tokens by id.

    Raises:
        UserError: The vocabulary does not fit the encoder.
    """
    ids: dict[str, int] = {**fields["model.vocab"]}
    tokens = {}
    for number, one in added.items():
        ids[one.content] = number
        tokens[one.content] = one
    names = {}
    for name, usual in cls.tokens.items():
        names[name] = _content(settings.get(name, usual))
    _check_ids(folder, ids, names, config.sizes["vocabulary_size"])
    special = [*names.values()]
    for name in MORE_TOKENS:
        more = settings.get(name) or ()
        if isinstance(more, Mapping):
            more = more.values()
        special += map(_content, more)
    for token in special:
        if token in ids:
            tokens.setdefault(token, AddedToken(token))
    vocabulary = [""] * (max(ids.values()) + 1)
    for token, number in ids.items():
        vocabulary[number] = token

    start, end = ids[names["cls_token"]], ids[names["sep_token"]]
    pad, unknown = ids[names["pad_token"]], ids[names["unk_token"]]
    between = (end,) if cls.pair == PAIR else (end, end)
    has_one_segment = cls.kind == "WordPiece" and config.segments == 1
    make, arguments = TOKENIZERS[cls.kind]
    return make(
        vocabulary=vocabulary,
        special=SpecialTokens(start, end, pad, between, has_one_segment),
        unknown=unknown,
        added=tuple(tokens.values()),
        **{arguments[f]: v for f, v in fields.items() if f in arguments},
    )


def _check_ids(
    folder: str, ids: Mapping[str, int], names: Mapping[str, str], size: int
) -> None:
    """Raises `UserError` where a vocabulary does not fit the encoder.

    Args:
        folder: See `read_tokenizer`.
        ids: Of the tokens.
        names: The special tokens, by their names in the files.
        size: Of the table of embeddings.
    """
    for name in ("cls_token", "sep_token", "pad_token", "unk_token"):
        if names[name] not in ids:
            raise UserError(
                f"--model={folder}: the vocabulary has no {names[name]}, which "
                f"is its {name}. Is the folder complete?"
            )
    count = max(ids.values()) + 1
    if count > size:
        raise UserError(
            f"--model={folder}: the tokenizer has {count:,} tokens, and "
            f"config.json has a smaller vocab_size: {size:,}. Is the folder "
            "complete?"
        )


def _read_tokenizer_json(
    folder: str, content: Record, cls: TokenizerClass
) -> tuple[Record, dict[int, AddedToken]]:
    """The fields of `tokenizer.json` by section, and added tokens by id."""
    name = "tokenizer.json"
    fields: Record = {}
    for section in SECTIONS:
        for field, value in _unpack(content.get(section, {})).items():
            if value is not None:
                fields[f"{section}.{field}"] = value
    check_keys(folder, name, fields, TOKENIZER[cls.kind])
    for needed in NEEDED[cls.kind]:
        if needed not in fields:
            raise refuse(folder, name, needed.split(".")[0], None)
    processor = content.get("post_processor", {})
    if processor and _find_pair(processor) != cls.pair:
        kind = processor.get("type")
        raise refuse(folder, name, "post_processor", kind)
    merges = []
    for pair in fields.get("model.merges", ()):
        merges.append(pair if isinstance(pair, str) else " ".join(pair))
    fields["model.merges"] = merges
    if cls.kind == "Unigram":
        charsmap = fields.get("normalizer.precompiled_charsmap", "")
        fields |= _number_pieces(
            fields["model.vocab"], base64.b64decode(charsmap)
        )
    added = {}
    for token in content.get("added_tokens", ()):
        added[token["id"]] = _make_added(folder, token)
    return fields, added


def _unpack(section: Record) -> Record:
    """The fields of a section; those of a sequence's members are joined."""
    if section.get("type") != "Sequence":
        return {**section}
    fields: Record = {}
    types = []
    for member in section.get("normalizers") or section["pretokenizers"]:
        fields |= member
        types.append(member["type"])
    return fields | {"type": ", ".join(types)}


def _number_pieces(
    pieces: Iterable[tuple[str, float]], charsmap: bytes
) -> Record:
    """The fields of SentencePiece's tokens; of equal ones the first's id."""
    ids: dict[str, int] = {}
    scores = []
    for number, (piece, score) in enumerate(pieces):
        ids.setdefault(piece, number)
        scores.append(score)
    return {
        "model.vocab": ids,
        "model.scores": scores,
        "model.charsmap": charsmap,
    }


def _find_pair(processor: Record) -> str:
    """How a post-processor packs a pair; empty where that is not known."""
    kind = processor.get("type", "")
    if kind != "TemplateProcessing":
        return POST_PROCESSORS.get(kind, "")
    pair = _shape(processor, "pair")
    is_usual = _shape(processor, "single") == ".A."
    return pair if is_usual and pair in (PAIR, WIDE_PAIR) else ""


def _shape(processor: Record, name: str) -> str:
    """A template: `A` where it has a text, and a dot where a special token."""
    shape = ""
    for item in processor.get(name, ()):
        shape += "A" if "Sequence" in item else "."
    return shape


def _read_added(folder: str, settings: Record) -> dict[int, AddedToken]:
    """Added tokens of a folder without `tokenizer.json`, by id."""
    added = {}
    path = os.path.join(folder, "added_tokens.json")
    if "added_tokens_decoder" in settings:
        for number, token in settings["added_tokens_decoder"].items():
            added[int(number)] = _make_added(folder, token)
    elif os.path.exists(path):
        for content, number in json_files.read(path, dict[str, int]).items():
            added[number] = AddedToken(content, is_normalized=True)
    return added


def _make_added(folder: str, token: Record) -> AddedToken:
    content = token["content"]
    if token.get("single_word"):
        raise refuse(folder, f"added token {content}", "single_word", True)
    is_special = token.get("special", False)
    return AddedToken(
        content,
        token.get("normalized", not is_special),
        token.get("lstrip", False),
        token.get("rstrip", False),
    )


# === Older files: ids of tokens, and what makes tokens ===


def _read_vocab_txt(folder: str, title: str) -> Record:
    lines = _read_lines(folder, "vocab.txt")
    return {"model.vocab": {token: n for n, token in enumerate(lines)}}


def _read_merges(folder: str, title: str) -> Record:
    lines = _read_lines(folder, "merges.txt")
    merges = [x for x in lines if x and not x.startswith("#version")]
    ids = json_files.read(_find(folder, "vocab.json"), dict[str, int])
    return {"model.vocab": ids, "model.merges": merges}


def _read_sentence_pieces(folder: str, title: str) -> Record:
    content = files.read_bytes(_find(folder, SENTENCE_PIECES))
    pieces, charsmap = sentence_pieces.read_model(
        content, title.removesuffix("Fast")
    )
    return _number_pieces(pieces, charsmap)


# By kind: functions of the folder and the class of transformers.
VOCABULARY_READERS = {
    "WordPiece": _read_vocab_txt,
    "BPE": _read_merges,
    "Unigram": _read_sentence_pieces,
}


def _read_lines(folder: str, name: str) -> list[str]:
    text = files.read_bytes(_find(folder, name)).decode()
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _find(folder: str, name: str) -> str:
    """The path of a file.

    Raises:
        UserError: There is none.
    """
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        raise UserError(
            f"--model={folder}: has no {name}, which its tokenizer needs. Save "
            "the folder by save_pretrained of transformers, model and "
            "tokenizer."
        )
    return path


def _content(token: str | Record) -> str:
    """The text of a token that has attributes, or has none."""
    return token if isinstance(token, str) else str(token["content"])
