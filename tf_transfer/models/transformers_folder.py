"""A model folder of `transformers`: what each key of its files means here.

`CONFIG`, `TOKENIZER_CONFIG`, `TOKENIZER` and `SPECIAL_TOKENS` list every key of
`config.json`, `tokenizer_config.json`, `tokenizer.json` and
`special_tokens_map.json`. A key is used, or it changes nothing here, or only
some of its values do. Any other key, or value, is an error that names it: read
as if it were not there, it would give other states or tokens.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models.encoder import ACTIVATIONS
from tf_transfer.models.tokenizer import (
    AddedToken,
    BytePairs,
    Tokenizer,
    WordPieces,
)
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

ANY = None  # the key is used, or changes nothing, whatever its value is

OTHER_NAMES = {  # of `ACTIVATIONS`
    "gelu_python": "gelu",
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "swish": "silu",
}

# The values that a key may have; None where it may have any.
CONFIG: dict[str, Sequence[Any] | None] = {
    # Used: the family and its sizes, and what a block computes.
    **dict.fromkeys(
        "model_type vocab_size num_hidden_layers num_attention_heads "
        "hidden_size intermediate_size max_position_embeddings "
        "type_vocab_size pad_token_id layer_norm_eps "
        # Replaced by flags of a run, or by the initial weights of a head.
        "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout "
        "initializer_range summary_type "
        # Of a head that is not loaded, of the file, or of how torch runs it.
        "architectures _name_or_path name_or_path transformers_version dtype "
        "torch_dtype id2label label2id num_labels _num_labels problem_type "
        "finetuning_task task_specific_params bos_token_id eos_token_id "
        "sep_token_id cls_token_id decoder_start_token_id tie_word_embeddings "
        "tie_encoder_decoder output_past use_cache gradient_checkpointing "
        "chunk_size_feed_forward output_attentions output_hidden_states "
        "output_scores return_dict return_dict_in_generate torchscript "
        "use_return_dict use_bfloat16 attn_implementation "
        "_attn_implementation _attn_implementation_autoset prefix "
        "tokenizer_class sentence_transformers language "
        # For generating text, which no encoder does.
        "max_length min_length do_sample early_stopping num_beams "
        "num_beam_groups diversity_penalty temperature top_k top_p typical_p "
        "repetition_penalty length_penalty no_repeat_ngram_size "
        "encoder_no_repeat_ngram_size bad_words_ids num_return_sequences "
        "forced_bos_token_id forced_eos_token_id remove_invalid_values "
        "exponential_decay_length_penalty suppress_tokens "
        "begin_suppress_tokens cross_attention_hidden_size "
        # Of TensorFlow's first release of the multilingual BERT.
        "directionality pooler_fc_size pooler_num_attention_heads "
        "pooler_num_fc_layers pooler_size_per_head".split(),
        ANY,
    ),
    "hidden_act": (*ACTIVATIONS, *OTHER_NAMES),
    "pooler_type": ("first_token_transform",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({},),
    "tf_legacy_loss": (True, False),
}
# Names of the special tokens, and their usual values by family.
SPECIAL_TOKENS = {
    "bert": {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    },
    "roberta": {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    },
}
MORE_TOKENS = ("additional_special_tokens", "extra_special_tokens")
NAMED_TOKENS: dict[str, Sequence[Any] | None] = dict.fromkeys(
    [*SPECIAL_TOKENS["roberta"], *MORE_TOKENS], ANY
)
CLASSES = {
    "bert": ("BertTokenizer", "DistilBertTokenizer"),
    "roberta": ("RobertaTokenizer",),
}
# Classes that take everything from `tokenizer.json`.
GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
TOKENIZER_CONFIG: dict[str, Sequence[Any] | None] = {
    **NAMED_TOKENS,
    "tokenizer_class": ANY,  # checked against the family
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
        "model_type transformers_version".split(),
        ANY,
    ),
}
SETTINGS_FILES = {
    "special_tokens_map.json": NAMED_TOKENS,
    "tokenizer_config.json": TOKENIZER_CONFIG,
}
# Sections of `tokenizer.json` that have a part in the ids.
SECTIONS = ("normalizer", "pre_tokenizer", "model")
# Its other keys: the first two are checked apart; the others are of cutting
# and padding, of decoding, and of the file.
OTHER_KEYS = (
    "added_tokens",
    "post_processor",
    "version",
    "truncation",
    "padding",
    "decoder",
)
# The fields of the sections, by family.
TOKENIZER: dict[str, dict[str, Sequence[Any] | None]] = {
    "bert": {
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
    "roberta": {
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
}
# What they need; the rest has defaults.
NEEDED = ("normalizer.type", "pre_tokenizer.type", "model.vocab")
PAIR_SHAPES = {"bert": ".A.A.", "roberta": ".A..A."}  # see `_shape`
POST_PROCESSORS = ("BertProcessing", "RobertaProcessing", "TemplateProcessing")


@dataclasses.dataclass(frozen=True)
class Config:
    """`config.json`.

    Attributes:
        family: `bert` or `roberta`.
        sizes: arguments of keras-hub's backbone.
        activation: one of `encoder.ACTIVATIONS`.
        epsilon: of every layer normalisation.
        first_position: position of the first token in the table.
    """

    family: str
    sizes: dict[str, int]
    activation: str
    epsilon: float
    first_position: int


def read_config(folder: str) -> Config:
    """Reads `config.json`, whose sizes are checked already.

    Raises:
        UserError: a key or value is not known here.
    """
    config = _read(folder, "config.json", CONFIG)
    family = config["model_type"]
    is_bert = family == "bert"
    activation = config.get("hidden_act", "gelu")
    pad = config.get("pad_token_id", 1)
    first = 0 if is_bert else pad + 1
    sizes = {
        "vocabulary_size": config["vocab_size"],
        "num_layers": config["num_hidden_layers"],
        "num_heads": config["num_attention_heads"],
        "hidden_dim": config["hidden_size"],
        "intermediate_dim": config["intermediate_size"],
        "max_sequence_length": config["max_position_embeddings"] - first,
    }
    if is_bert:
        sizes["num_segments"] = config.get("type_vocab_size", 2)
    return Config(
        family,
        sizes,
        OTHER_NAMES.get(activation, activation),
        float(config.get("layer_norm_eps", 1e-12)),
        first,
    )


def read_tokenizer(folder: str, config: Config) -> Tokenizer:
    """Makes the tokeniser that the files of a folder describe.

    `tokenizer.json` has the vocabulary, or `vocab.txt`, or `vocab.json` and
    `merges.txt`. `tokenizer_config.json` has precedence for how BERT's texts
    are normalised, as in transformers; where neither file has a setting, it is
    that of the uncased model.

    Raises:
        UserError: a key or value is not known here, or a file is missing.
    """
    family = config.family
    settings: dict[str, Any] = {}
    for name, keys in SETTINGS_FILES.items():
        if os.path.exists(os.path.join(folder, name)):
            settings |= _read(folder, name, keys)
    kind = settings.get("tokenizer_class") or CLASSES[family][0]
    is_generic = kind in GENERIC_CLASSES
    kind = kind.removesuffix("Fast")
    if not is_generic and kind not in CLASSES[family]:
        raise _refuse(folder, "tokenizer_config.json", "tokenizer_class", kind)

    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        fields, added = _read_tokenizer_json(folder, family)
    elif is_generic:
        raise _miss(folder, "tokenizer.json")
    else:
        fields = _read_vocabulary(folder, family)
        added = _read_added(folder, settings)
    if is_generic:
        settings = {k: v for k, v in settings.items() if k in NAMED_TOKENS}

    ids = {**fields["model.vocab"]}
    tokens = {}
    for number, token in added.items():
        ids[token.content] = number
        tokens[token.content] = token
    names = {}
    for name, usual in SPECIAL_TOKENS[family].items():
        names[name] = _content(settings.get(name, usual))
    _check_ids(folder, ids, names, config.sizes["vocabulary_size"])
    special = [*names.values()]
    for name in MORE_TOKENS:
        more = settings.get(name) or ()
        if isinstance(more, Mapping):
            more = more.values()
        special += map(_content, more)
    for content in special:
        if content in ids:
            tokens.setdefault(content, AddedToken(content))
    vocabulary = [""] * (max(ids.values()) + 1)
    for content, number in ids.items():
        vocabulary[number] = content

    start, end = ids[names["cls_token"]], ids[names["sep_token"]]
    pad, unknown = ids[names["pad_token"]], ids[names["unk_token"]]
    if family == "roberta":
        adds_space = fields.get("pre_tokenizer.add_prefix_space", False)
        return BytePairs(
            vocabulary,
            fields["model.merges"],
            SpecialTokens(start, end, pad, (end, end)),
            unknown,
            tuple(tokens.values()),
            settings.get("add_prefix_space", adds_space),
        )
    lowercase = fields.get("normalizer.lowercase", True)
    strips_accents = fields.get("normalizer.strip_accents")
    splits_chinese = fields.get("normalizer.handle_chinese_chars", True)
    return WordPieces(
        vocabulary,
        SpecialTokens(start, end, pad, (end,)),
        unknown,
        tuple(tokens.values()),
        settings.get("do_lower_case", lowercase),
        settings.get("strip_accents", strips_accents),
        settings.get("tokenize_chinese_chars", splits_chinese),
        fields.get("model.max_input_chars_per_word", 100),
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
    folder: str, family: str
) -> tuple[dict[str, Any], dict[int, AddedToken]]:
    """The fields of `tokenizer.json` by section, and added tokens by id."""
    name, allowed = "tokenizer.json", TOKENIZER[family]
    content = _read(folder, name, dict.fromkeys(SECTIONS + OTHER_KEYS, ANY))
    fields = {}
    for section in SECTIONS:
        for field, value in content.get(section, {}).items():
            if value is not None:
                fields[f"{section}.{field}"] = value
    _check_keys(folder, name, fields, allowed)
    for needed in NEEDED:
        if needed in allowed and needed not in fields:
            raise _refuse(folder, name, needed.split(".")[0], None)
    _check_post_processor(folder, content.get("post_processor", {}), family)
    merges = []
    for pair in fields.get("model.merges", ()):
        merges.append(pair if isinstance(pair, str) else " ".join(pair))
    added = {}
    for token in content.get("added_tokens", ()):
        added[token["id"]] = _make_added(folder, token)
    return {**fields, "model.merges": merges}, added


def _check_post_processor(
    folder: str, processor: Mapping[str, Any], family: str
) -> None:
    """Raises `UserError` unless special tokens go where the family has them."""
    kind = processor.get("type", POST_PROCESSORS[0])
    is_usual = kind in POST_PROCESSORS
    if kind == "TemplateProcessing":
        single, pair = _shape(processor, "single"), _shape(processor, "pair")
        is_usual = single == ".A." and pair == PAIR_SHAPES[family]
    if not is_usual:
        raise _refuse(folder, "tokenizer.json", "post_processor", kind)


def _shape(processor: Mapping[str, Any], name: str) -> str:
    """A template: `A` where it has a text, and a dot where a special token."""
    shape = ""
    for item in processor.get(name, ()):
        shape += "A" if "Sequence" in item else "."
    return shape


def _read_added(
    folder: str, settings: Mapping[str, Any]
) -> dict[int, AddedToken]:
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


def _make_added(folder: str, token: Mapping[str, Any]) -> AddedToken:
    content = token["content"]
    if token.get("single_word"):
        raise _refuse(folder, f"added token {content}", "single_word", True)
    is_special = token.get("special", False)
    return AddedToken(
        content,
        token.get("normalized", not is_special),
        token.get("lstrip", False),
        token.get("rstrip", False),
    )


def _read_vocabulary(folder: str, family: str) -> dict[str, Any]:
    """The fields of the older files: ids of tokens, and RoBERTa's merges."""
    if family == "bert":
        lines = _read_lines(folder, "vocab.txt")
        return {"model.vocab": {token: n for n, token in enumerate(lines)}}
    path = os.path.join(folder, "vocab.json")
    if not os.path.exists(path):
        raise _miss(folder, "vocab.json")
    merges = []
    for line in _read_lines(folder, "merges.txt"):
        if line and not line.startswith("#version"):
            merges.append(line)
    ids = json_files.read(path, dict[str, int])
    return {"model.vocab": ids, "model.merges": merges}


def _read_lines(folder: str, name: str) -> list[str]:
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        raise _miss(folder, name)
    text = files.read_bytes(path).decode().replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")


def _content(token: Any) -> str:
    """The text of a token that has attributes, or has none."""
    return token["content"] if isinstance(token, Mapping) else token


def _read(
    folder: str, name: str, keys: Mapping[str, Sequence[Any] | None]
) -> dict[str, Any]:
    """The keys of a JSON file that are set; see `_check_keys`."""
    content = json_files.read(os.path.join(folder, name), dict[str, Any])
    content = {k: v for k, v in content.items() if v is not None}
    _check_keys(folder, name, content, keys)
    return content


def _check_keys(
    folder: str,
    name: str,
    content: Mapping[str, Any],
    keys: Mapping[str, Sequence[Any] | None],
) -> None:
    """Raises `UserError` for a key, or its value, that is not in the table."""
    for key, value in content.items():
        allowed = keys.get(key, ())
        if allowed is not None and value not in allowed:
            raise _refuse(folder, name, key, value)


def _refuse(folder: str, name: str, key: str, value: Any) -> UserError:
    return UserError(
        f"--model={folder}: {name} has {key}={str(value)[:60]!r}, which is not "
        "known here and may change states or tokens.\nRemove it if it does "
        "not; else give another model."
    )


def _miss(folder: str, name: str) -> UserError:
    return UserError(
        f"--model={folder}: has no {name}, which its tokenizer needs. Save the "
        "folder by save_pretrained of transformers, model and tokenizer."
    )
