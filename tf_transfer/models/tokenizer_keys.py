"""The known keys of the tokenizer's files in a folder of `transformers`.

`TOKENIZER_CONFIG`, `TOP_KEYS`, `TOKENIZER` and `NAMED_TOKENS` list every key of
`tokenizer_config.json`, `tokenizer.json` and `special_tokens_map.json`; see
`transformers_folder`. The tokenizer's kind does not depend on the model's type:
a BERT may have RoBERTa's.
"""

import dataclasses
from collections.abc import Mapping

from tf_transfer.models.transformers_folder import ANY, Keys

# Names of the special tokens, and their usual values.
OF_BERT = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
OF_ROBERTA = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
OF_DEBERTA = {**OF_BERT, "bos_token": "[CLS]", "eos_token": "[SEP]"}
OF_MPNET = {**OF_ROBERTA, "unk_token": "[UNK]"}
MORE_TOKENS = ("additional_special_tokens", "extra_special_tokens")
NAMED_TOKENS: Keys = dict.fromkeys([*OF_ROBERTA, *MORE_TOKENS], ANY)
# How a pair is packed: `A` for a text, and a dot for a special token.
PAIR, WIDE_PAIR = ".A.A.", ".A..A."


@dataclasses.dataclass(frozen=True)
class TokenizerClass:
    """A class of tokenizers of transformers.

    Attributes:
        kind: The `type` of `model` in tokenizer.json.
        tokens: The special tokens, by their names.
        pair: How a pair is packed.
    """

    kind: str
    tokens: Mapping[str, str]
    pair: str


BERT = TokenizerClass("WordPiece", OF_BERT, PAIR)
ROBERTA = TokenizerClass("BPE", OF_ROBERTA, WIDE_PAIR)
XLM_ROBERTA = TokenizerClass("Unigram", OF_ROBERTA, WIDE_PAIR)
CLASSES = {
    "BertTokenizer": BERT,
    "DistilBertTokenizer": BERT,
    "ElectraTokenizer": BERT,
    "DebertaV2Tokenizer": TokenizerClass("Unigram", OF_DEBERTA, PAIR),
    # Not a class of theirs: the folders of this type have a generic one.
    "ModernBertTokenizer": TokenizerClass("BPE", OF_BERT, PAIR),
    "MPNetTokenizer": TokenizerClass("WordPiece", OF_MPNET, WIDE_PAIR),
    "RobertaTokenizer": ROBERTA,
    "XLMRobertaTokenizer": XLM_ROBERTA,
    "CamembertTokenizer": XLM_ROBERTA,
}
# Where a generic class has another kind than the model's own tokenizer.
OF_KIND = {one.kind: one for one in (BERT, ROBERTA, XLM_ROBERTA)}
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
    "split_by_punct": (False,),
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
        "model_type transformers_version unk_id vocab_type".split(),
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
        "normalizer.type": ("NFC",),
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
            "Strip, Precompiled, Replace",
            "Replace, NFC, Strip",
        ),
        "normalizer.precompiled_charsmap": ANY,
        "normalizer.strip_left": ANY,
        "normalizer.strip_right": ANY,
        "normalizer.pattern": (
            {"Regex": " {2,}"},
            {"Regex": r"\s{2,}|[\n\r\t]"},
        ),
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
POST_PROCESSORS = {"BertProcessing": PAIR, "RobertaProcessing": WIDE_PAIR}
