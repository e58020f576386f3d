"""The types of `transformers` that are read, and how they differ from BERT.

`TYPES` has a row for each `model_type`. Where a type's blocks are not BERT's,
the row names the module of `blocks` that builds and runs them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transfer.models.cost import BERT_KIND, BlockKind
from tf_transfer.utils.json_files import Record


@dataclasses.dataclass(frozen=True)
class Classifier:
    """A type's classifier in transformers.

    Attributes:
        architecture: Its class.
        prefix: Of the encoder's weights.
        pooler: Name of the dense layer on [CLS].
        output: Name of the output layer.
        config: Keys of `config.json` by which it reads [CLS].
    """

    architecture: str
    prefix: str
    pooler: str = "classifier.dense"
    output: str = "classifier.out_proj"
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ModelType:
    """A type of encoder, by its differences from BERT.

    Attributes:
        tokenizer: The tokenizer's class where the folder names none.
        has_segments: Whether the texts of a pair have embeddings of their own.
        has_pooler: Whether a pretrained pooler is used.
        has_position_table: Whether the embeddings have positions.
        begins_behind_pad: Whether a text's first position is the one behind
            `pad_token_id`. Else it is 0.
        keys: BERT's names of keys of `config.json`, by its own.
        weights: Its own parts of weights' names, by BERT's. `/n` at the end of
            one is the n-th third of its rows.
        classifier: What an export is; None where it is a BERT or a RoBERTa.
        blocks: The module of `blocks` with its `build` and `run`; empty where
            keras-hub has its layers.
        config: The values of keys of `config.json` that only this type has, or
            of which it allows fewer; None for any.
        defaults: Values of keys that the file does not have.
        kind: What its blocks compute, to count it.
    """

    tokenizer: str
    has_segments: bool = False
    has_pooler: bool = False
    has_position_table: bool = True
    begins_behind_pad: bool = False
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    weights: Mapping[str, str] = dataclasses.field(default_factory=dict)
    classifier: Classifier | None = None
    blocks: str = ""
    config: Mapping[str, Sequence[Any] | None] = dataclasses.field(
        default_factory=dict
    )
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    kind: BlockKind = BERT_KIND

    def rename(self, name: str) -> tuple[str, int | None]:
        """The type's own name of a weight.

        Args:
            name: BERT's.

        Returns:
            The name, and which third of its rows it is, or None for all.
        """
        for bert, other in self.weights.items():
            name = name.replace(bert, other)
        stem, slash, end = name.partition("/")
        if not slash:
            return name, None
        third, _, last = end.partition(".")
        return f"{stem}.{last}", int(third)

    def first_position(self, config: Record) -> int:
        """The position of the first token in the table of positions.

        Args:
            config: The content of `config.json`.
        """
        if not self.begins_behind_pad:
            return 0
        pad = config.get("pad_token_id")
        return 1 + (pad if isinstance(pad, int) else 1)


TYPES = {
    "bert": ModelType(
        "BertTokenizer",
        has_segments=True,
        has_pooler=True,
        classifier=Classifier(
            "BertForSequenceClassification",
            "bert",
            "bert.pooler.dense",
            "classifier",
        ),
    ),
    "camembert": ModelType("CamembertTokenizer", begins_behind_pad=True),
    "distilbert": ModelType(
        "DistilBertTokenizer",
        keys={
            "dim": "hidden_size",
            "n_layers": "num_hidden_layers",
            "n_heads": "num_attention_heads",
            "hidden_dim": "intermediate_size",
            "activation": "hidden_act",
        },
        weights={  # replaced in this order
            "encoder.layer": "transformer.layer",
            "attention.self.query": "attention.q_lin",
            "attention.self.key": "attention.k_lin",
            "attention.self.value": "attention.v_lin",
            "attention.output.dense": "attention.out_lin",
            "attention.output.LayerNorm": "sa_layer_norm",
            "intermediate.dense": "ffn.lin1",
            "output.dense": "ffn.lin2",
            "output.LayerNorm": "output_layer_norm",
        },
    ),
    "deberta-v2": ModelType(
        "DebertaV2Tokenizer",
        has_position_table=False,
        weights={
            "attention.self.query": "attention.self.query_proj",
            "attention.self.key": "attention.self.key_proj",
            "attention.self.value": "attention.self.value_proj",
        },
        classifier=Classifier(
            "DebertaV2ForSequenceClassification",
            "deberta",
            "pooler.dense",
            "classifier",
        ),
        blocks="deberta",
        config={
            "relative_attention": (True,),
            "share_att_key": (True,),
            "norm_rel_ebd": ("layer_norm",),
            "pos_att_type": (
                ["p2c", "c2p"],
                ["c2p", "p2c"],
                "p2c|c2p",
                "c2p|p2c",
            ),
            "position_biased_input": (False,),
            "type_vocab_size": (0,),
            "conv_kernel_size": (0,),
            **dict.fromkeys(
                "position_buckets max_relative_positions pooler_hidden_size "
                # Of what is not there, or of a head.
                "conv_act conv_groups pooler_dropout legacy".split()
            ),
        },
        defaults={
            "relative_attention": False,
            "share_att_key": False,
            "norm_rel_ebd": "none",
            "pos_att_type": "none",
            "position_biased_input": True,
            "position_buckets": -1,
            "max_relative_positions": -1,
            "pooler_hidden_act": "gelu",
            "layer_norm_eps": 1e-7,
        },
        kind=BlockKind(computes_keys=True, position_products=2),
    ),
    "electra": ModelType("ElectraTokenizer", has_segments=True),
    "modernbert": ModelType(
        "ModernBertTokenizer",
        has_pooler=True,
        has_position_table=False,
        kind=BlockKind(is_gated=True, is_norm_first=True, computes_keys=True),
        keys={
            "hidden_activation": "hidden_act",
            "norm_eps": "layer_norm_eps",
        },
        weights={  # replaced in this order
            "embeddings.word_embeddings": "embeddings.tok_embeddings",
            "embeddings.LayerNorm": "embeddings.norm",
            "encoder.layer": "layers",
            "attention.self.query": "attn.Wqkv/0",
            "attention.self.key": "attn.Wqkv/1",
            "attention.self.value": "attn.Wqkv/2",
            "attention.output.dense": "attn.Wo",
            "attention.output.LayerNorm": "attn_norm",
            "intermediate.dense": "mlp.Wi",
            "output.dense": "mlp.Wo",
            "output.LayerNorm": "mlp_norm",
            "pooler": "head",
        },
        classifier=Classifier(
            "ModernBertForSequenceClassification",
            "model",
            "head.dense",
            "classifier",
            {"classifier_pooling": "cls"},
        ),
        blocks="modern",
        config={
            "attention_bias": (False,),
            "mlp_bias": (False,),
            "norm_bias": (False,),
            "classifier_bias": (False,),
            **dict.fromkeys(
                "layer_types global_attn_every_n_layers local_attention "
                "rope_parameters global_rope_theta local_rope_theta norm_eps "
                # Of dropout, of a head, or of how torch runs it.
                "embedding_dropout mlp_dropout classifier_pooling decoder_bias "
                "deterministic_flash_attn sparse_prediction reference_compile "
                "sparse_pred_ignore_index repad_logits_with_grad "
                "initializer_cutoff_factor".split()
            ),
        },
        defaults={
            "norm_eps": 1e-5,
            "global_attn_every_n_layers": 3,
            "local_attention": 128,
            "classifier_activation": "gelu",
        },
    ),
    "mpnet": ModelType(
        "MPNetTokenizer",
        begins_behind_pad=True,
        weights={
            "attention.self.query": "attention.attn.q",
            "attention.self.key": "attention.attn.k",
            "attention.self.value": "attention.attn.v",
            "attention.output.dense": "attention.attn.o",
            "attention.output.LayerNorm": "attention.LayerNorm",
        },
        classifier=Classifier("MPNetForSequenceClassification", "mpnet"),
        blocks="mpnet",
        config={
            # transformers always has these, whatever the file says.
            "relative_attention_num_buckets": (32,),
            "pad_token_id": (1,),
        },
    ),
    "roberta": ModelType(
        "RobertaTokenizer",
        begins_behind_pad=True,
        classifier=Classifier("RobertaForSequenceClassification", "roberta"),
    ),
    "xlm-roberta": ModelType("XLMRobertaTokenizer", begins_behind_pad=True),
}


def rename_keys(config: Record) -> Record:
    """The content of `config.json` under BERT's names.

    Where the file has both, the type's own name counts.
    """
    keys = TYPES[config["model_type"]].keys
    own = {keys[key]: value for key, value in config.items() if key in keys}
    others = {key: v for key, v in config.items() if key not in keys}
    return {**others, **own}
