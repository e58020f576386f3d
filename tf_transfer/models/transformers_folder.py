"""The JSON files of a model folder of `transformers`, and its `config.json`.

A table lists every key of a file; `transformers_tokenizer` has those of the
tokenizer's. A key is used, or it changes nothing here, or only some of its
values do. Any other key, or value, is an error that names it: read as if it
were not there, it would give other states or tokens.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transfer.models.activations import ACTIVATIONS
from tf_transfer.models.transformers_types import ModelType, rename_keys, TYPES
from tf_transfer.utils import json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

ANY = None  # the key is used, or changes nothing, whatever its value is

OTHER_NAMES = {  # of `ACTIVATIONS`
    "gelu_python": "gelu",
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "swish": "silu",
}

# The values that each key may have; None where it may have any.
Keys = dict[str, Sequence[Any] | None]
CONFIG: Keys = {
    # Used: the family and its sizes, and what a block computes.
    **dict.fromkeys(
        "model_type vocab_size num_hidden_layers num_attention_heads "
        "hidden_size intermediate_size max_position_embeddings "
        "type_vocab_size pad_token_id layer_norm_eps embedding_size "
        "dim n_layers n_heads hidden_dim "  # of a DistilBERT
        # Replaced by flags of a run, or by the initial weights of a head.
        "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout "
        "initializer_range summary_type summary_use_proj summary_activation "
        "summary_last_dropout dropout attention_dropout qa_dropout "
        "seq_classif_dropout "
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
        "pooler_num_fc_layers pooler_size_per_head "
        # Of a DistilBERT: how the positions that the weights have began.
        "sinusoidal_pos_embds tie_weights_".split(),
        ANY,
    ),
    "hidden_act": (*ACTIVATIONS, *OTHER_NAMES),
    **dict.fromkeys(
        "activation hidden_activation pooler_hidden_act "
        "classifier_activation".split(),
        (*ACTIVATIONS, *OTHER_NAMES),
    ),
    "pooler_type": ("first_token_transform",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({},),
    "tf_legacy_loss": (True, False),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """`config.json`.

    Attributes:
        type: What the folder's `model_type` has in place of BERT's.
        sizes: Arguments that every backbone of keras-hub has.
        segments: Rows of the table of segments.
        embedding_size: Width of the embeddings.
        activation: One of `activations.ACTIVATIONS`.
        epsilon: Of every layer normalisation.
        first_position: Position of the first token in the table.
        content: The file's keys, by the type's own names, and its defaults.
    """

    type: ModelType
    sizes: dict[str, int]
    segments: int
    embedding_size: int
    activation: str
    epsilon: float
    first_position: int
    content: Record

    def cut(self, blocks: int) -> "Config":
        """The configuration of the first blocks alone."""
        content = {**self.content, "num_hidden_layers": blocks}
        if "layer_types" in content:
            content["layer_types"] = content["layer_types"][:blocks]
        sizes = {**self.sizes, "num_layers": blocks}
        return dataclasses.replace(self, sizes=sizes, content=content)


def read_config(folder: str) -> Config:
    """Reads `config.json`, whose sizes are checked already.

    Raises:
        UserError: A key or value is not known here.
    """
    name = json_files.read(os.path.join(folder, "config.json"), Record)
    model_type = TYPES[name["model_type"]]
    keys = {**CONFIG, **model_type.config}
    content = read_keys(folder, "config.json", keys, model_type.defaults)
    config = rename_keys(content)
    segments = config.get("type_vocab_size", 2)
    if model_type.has_segments and segments < 1:
        raise refuse(folder, "config.json", "type_vocab_size", segments)
    activation: str = config.get("hidden_act", "gelu")
    hidden: int = config["hidden_size"]
    first = model_type.first_position(config)
    sizes = {
        "vocabulary_size": config["vocab_size"],
        "num_layers": config["num_hidden_layers"],
        "num_heads": config["num_attention_heads"],
        "hidden_dim": hidden,
        "intermediate_dim": config["intermediate_size"],
        "max_sequence_length": config["max_position_embeddings"] - first,
    }
    return Config(
        model_type,
        sizes,
        segments,
        config.get("embedding_size", hidden),
        find_activation(activation),
        float(config.get("layer_norm_eps", 1e-12)),
        first,
        content,
    )


def find_activation(name: str) -> str:
    """The name in `ACTIVATIONS` for a name in a file."""
    return OTHER_NAMES.get(name, name)


def read_keys(
    folder: str,
    name: str,
    keys: Keys,
    defaults: Mapping[str, Any] | None = None,
) -> Record:
    """The keys of a JSON file, set or by default; see `check_keys`."""
    content = json_files.read(os.path.join(folder, name), Record)
    content = {k: v for k, v in content.items() if v is not None}
    content = {**(defaults or {}), **content}
    check_keys(folder, name, content, keys)
    return content


def check_keys(
    folder: str,
    name: str,
    content: Record,
    keys: Keys,
) -> None:
    """Raises `UserError` for a key, or its value, that is not in the table."""
    for key, value in content.items():
        allowed = keys.get(key, ())
        if allowed is not None and value not in allowed:
            raise refuse(folder, name, key, value)


def refuse(folder: str, name: str, key: str, value: Any) -> UserError:
    """The error for a value of a key that is not known here."""
    return UserError(
        f"--model={folder}: {name} has {key}={str(value)[:60]!r}, which is not "
        "known here and may change states or tokens.\nRemove it if it does "
        "not; else give another model."
    )
