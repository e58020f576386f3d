"""The tokenizer of a model folder of `transformers`.

`TOKENIZER_CONFIG`, `TOP_KEYS`, `TOKENIZER` and `SPECIAL_TOKENS` list every key
of `tokenizer_config.json`, `tokenizer.json` and `special_tokens_map.json`; see
`transformers_folder`. The tokenizer's kind does not depend on the model's type:
a BERT may have RoBERTa's.
"""

import base64
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
from tf_transfer.models.transformers_folder import (
    ANY,
    check_keys,
    Config,
    Keys,
    read_keys,
    refuse,
)
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

# Names of the special tokens, and their usual values by kind.
SPECIAL_TOKENS = {
    "WordPiece": {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    },
    "BPE": {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    },
}
SPECIAL_TOKENS["Unigram"] = SPECIAL_TOKENS["BPE"]
MORE_TOKENS = ("additional_special_tokens", "extra_special_tokens")
NAMED_TOKENS: Keys = dict.fromkeys([*SPECIAL_TOKENS["BPE"], *MORE_TOKENS], ANY)
# The kind of tokenizer of each class: the `type` of `model` in tokenizer.json.
CLASSES = {
    "BertTokenizer": "WordPiece",
    "DistilBertTokenizer": "WordPiece",
    "ElectraTokenizer": "WordPiece",
    "RobertaTokenizer": "BPE",
    "XLMRobertaTokenizer": "Unigram",
    "CamembertTokenizer": "Unigram",
}
# Classes that take everything from `tokenizer.json`.
GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
TOKENIZER_CONFIG: Keys = {
    **NAMED_TOKENS,
    "tokenizer_class": ANY,  # one of `CLASSES`
    "added_tokens_decoder": ANY,
    "do_lower_case": (True, False),
    "strip_accents": (True, False),
    "tokenize_chinese_chars": (True, False),
    "add_prefix_space": (True, False),
    "do_basic_tokenize": (True,),
    "never_split": ([],),
    "wordpieces_prefix": ("##",),
    "clean_text": (True,),
    "split_special_tokens": (False,),
    "sp_model_kwargs": ({},),
    # Of cutting and padding, which `tokens.pack` and the batches do; of
    # decoding; and of how the files are found.
    **dict.fromkeys(
        "model_max_length max_len max_length stride truncation "
        "truncation_side truncation_strategy padding padding_side "
        "pad_to_multiple_of pad_token_type_id pad_token_id "
        "clean_up_tokenization_spaces trim_offsets errors model_input_names "
        "special_tokens_map_file tokenizer_file vocab_file merges_file "
        "name_or_path _name_or_path backend is_local local_files_only "
        "use_fast from_slow processor_class return_tensors verbose "
        "model_type transformers_version unk_id".split(),
        ANY,
    ),
}
SETTINGS_FILES = {
    "special_tokens_map.json": NAMED_TOKENS,
    "tokenizer_config.json": TOKENIZER_CONFIG,
}
# Sections of `tokenizer.json` that have a part in the ids.
SECTIONS = ("normalizer", "pre_tokenizer", "model")
TOP_KEYS = dict.fromkeys(
    (
        *SECTIONS,
        # These two are checked apart; the others are of cutting and padding,
        # of decoding, and of the file.
        "added_tokens",
        "post_processor",
        "version",
        "truncation",
        "padding",
        "decoder",
    ),
    ANY,
)
# The fields of the sections, by kind; see `_unpack`.
TOKENIZER: dict[str, Keys] = {
    "WordPiece": {
        "normalizer.type": ("BertNormalizer",),
        "normalizer.clean_text": (True,),
        "normalizer.handle_chinese_chars": (True, False),
        "normalizer.strip_accents": (True, False),
        "normalizer.lowercase": (True, False),
        "pre_tokenizer.type": ("BertPreTokenizer",),
        "model.type": ("WordPiece",),
        "model.unk_token": ANY,
        "model.continuing_subword_prefix": ("##",),
        "model.max_input_chars_per_word": ANY,
        "model.vocab": ANY,
    },
    "BPE": {
        "pre_tokenizer.type": ("ByteLevel",),
        "pre_tokenizer.add_prefix_space": (True, False),
        "pre_tokenizer.trim_offsets": ANY,
        "pre_tokenizer.use_regex": (True,),
        "model.type": ("BPE",),
        "model.unk_token": ANY,
        "model.continuing_subword_prefix": ("",),
        "model.end_of_word_suffix": ("",),
        "model.fuse_unk": ANY,
        "model.byte_fallback": (False,),
        "model.ignore_merges": (False,),
        "model.vocab": ANY,
        "model.merges": ANY,
    },
    # Spaces at the end and repeated ones count for nothing either way.
    "Unigram": {
        "normalizer.type": (
            "Precompiled",
            "Precompiled, Strip, Replace",
            "Strip, Replace",
        ),
        "normalizer.precompiled_charsmap": ANY,
        "normalizer.strip_left": ANY,
        "normalizer.strip_right": ANY,
        "normalizer.pattern": ({"Regex": " {2,}"},),
        "normalizer.content": (" ", "▁"),
        "pre_tokenizer.type": ("Metaspace", "WhitespaceSplit, Metaspace"),
        "pre_tokenizer.replacement": ("▁",),
        "pre_tokenizer.str_rep": ("▁",),
        "pre_tokenizer.prepend_scheme": ("always",),
        "pre_tokenizer.add_prefix_space": (True,),
        "pre_tokenizer.split": (True,),
        "model.type": ("Unigram",),
        "model.unk_id": ANY,
        "model.byte_fallback": (False,),
        "model.vocab": ANY,
    },
}
# What each kind needs; the rest has defaults.
NEEDED = {
    "WordPiece": ("normalizer.type", "pre_tokenizer.type", "model.vocab"),
    "BPE": ("pre_tokenizer.type", "model.vocab"),
    "Unigram": ("pre_tokenizer.type", "model.vocab"),
}
# Keys of `tokenizer_config.json` that have precedence over these fields.
FIELD_OF_KEY = {
    "do_lower_case": "normalizer.lowercase",
    "strip_accents": "normalizer.strip_accents",
    "tokenize_chinese_chars": "normalizer.handle_chinese_chars",
    "add_prefix_space": "pre_tokenizer.add_prefix_space",
}
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
        },
    ),
    "Unigram": (
        SentencePieces,
        {
            "model.scores": "scores",
            "model.charsmap": "charsmap",
            "model.source": "source",
        },
    ),
}
PAIR_SHAPES = {"WordPiece": ".A.A.", "BPE": ".A..A.", "Unigram": ".A..A."}
POST_PROCESSORS = ("BertProcessing", "RobertaProcessing", "TemplateProcessing")
SENTENCE_PIECES = "sentencepiece.bpe.model"


def read_tokenizer(folder: str, config: Config) -> Tokenizer:
    """Makes the tokeniser that the files of a folder describe.

    `tokenizer.json` has the vocabulary, or `vocab.txt`, or `vocab.json` and
    `merges.txt`, or `sentencepiece.bpe.model`. `tokenizer_config.json` has
    precedence for how WordPiece's texts are normalised, as in transformers;
    where neither file has a setting, it is that of the uncased BERT.

    Raises:
        UserError: a key or value is not known here, or a file is missing.
    """
    settings: Record = {}
    for name, keys in SETTINGS_FILES.items():
        if os.path.exists(os.path.join(folder, name)):
            settings |= read_keys(folder, name, keys)
    title = settings.get("tokenizer_class") or config.type.tokenizer
    kind = CLASSES.get(title.removesuffix("Fast"))
    content: Record = {}
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        content = read_keys(folder, "tokenizer.json", TOP_KEYS)
    if title in GENERIC_CLASSES:
        _find(folder, "tokenizer.json")
        settings = {k: v for k, v in settings.items() if k in NAMED_TOKENS}
        kind = content["model"].get("type", CLASSES[config.type.tokenizer])
    if kind not in TOKENIZER:
        raise refuse(folder, "tokenizer_config.json", "tokenizer_class", title)

    if content:
        fields, added = _read_tokenizer_json(folder, content, kind)
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
    return _make_tokenizer(folder, config, kind, settings, fields, added)


def _make_tokenizer(
    folder: str,
    config: Config,
    kind: str,
    settings: Record,
    fields: Record,
    added: Mapping[int, AddedToken],
) -> Tokenizer:
    """Makes a tokeniser of what the files of a folder have.

    Args:
        folder, config: see `read_tokenizer`.
        kind: one of `TOKENIZERS`.
        settings: the keys of `SETTINGS_FILES`.
        fields: those of `TOKENIZER` and `TOKENIZERS`.
        added: the added tokens by id.

    Raises:
        UserError: the vocabulary does not fit the encoder.
    """
    ids: dict[str, int] = {**fields["model.vocab"]}
    tokens = {}
    for number, one in added.items():
        ids[one.content] = number
        tokens[one.content] = one
    names = {}
    for name, usual in SPECIAL_TOKENS[kind].items():
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
    is_bert = kind == "WordPiece"
    between = (end,) if is_bert else (end, end)
    has_one_segment = is_bert and config.segments == 1
    make, arguments = TOKENIZERS[kind]
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
        folder: see `read_tokenizer`.
        ids: of the tokens.
        names: the special tokens, by their names in the files.
        size: of the table of embeddings.
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
    folder: str, content: Record, kind: str
) -> tuple[Record, dict[int, AddedToken]]:
    """The fields of `tokenizer.json` by section, and added tokens by id."""
    name = "tokenizer.json"
    fields: Record = {}
    for section in SECTIONS:
        for field, value in _unpack(content.get(section, {})).items():
            if value is not None:
                fields[f"{section}.{field}"] = value
    check_keys(folder, name, fields, TOKENIZER[kind])
    for needed in NEEDED[kind]:
        if needed not in fields:
            raise refuse(folder, name, needed.split(".")[0], None)
    _check_post_processor(folder, content.get("post_processor", {}), kind)
    merges = []
    for pair in fields.get("model.merges", ()):
        merges.append(pair if isinstance(pair, str) else " ".join(pair))
    fields["model.merges"] = merges
    if kind == "Unigram":
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


def _check_post_processor(folder: str, processor: Record, kind: str) -> None:
    """Raises `UserError` unless special tokens go where the kind has them."""
    name = processor.get("type", POST_PROCESSORS[0])
    is_usual = name in POST_PROCESSORS
    if name == "TemplateProcessing":
        single, pair = _shape(processor, "single"), _shape(processor, "pair")
        is_usual = single == ".A." and pair == PAIR_SHAPES[kind]
    if not is_usual:
        raise refuse(folder, "tokenizer.json", "post_processor", name)


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
        UserError: there is none.
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
