"""The types of `transformers` whose blocks are BERT's, and how they differ.

Every type has BERT's blocks: attention, a sum and a LayerNorm, feed-forward
layers, a sum and a LayerNorm. `TYPES` has a row for each `model_type`.
"""

import dataclasses
from collections.abc import Mapping

from tf_transfer.utils.json_files import Record


@dataclasses.dataclass(frozen=True)
class ModelType:
    """What a type has of BERT's, and what in place of it.

    Attributes:
        tokenizer: the tokenizer's class where the folder names none.
        has_segments: whether the texts of a pair have embeddings of their own.
        has_pooler: whether a pretrained pooler is used.
        begins_behind_pad: whether a text's first position is the one behind
            `pad_token_id`. Else it is 0.
        keys: BERT's names of keys of `config.json`, by its own.
        weights: its own parts of weights' names, by BERT's.
    """

    tokenizer: str
    has_segments: bool = False
    has_pooler: bool = False
    begins_behind_pad: bool = False
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    weights: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def first_position(self, config: Record) -> int:
        """The position of the first token in the table of positions.

        Args:
            config: the content of `config.json`.
        """
        if not self.begins_behind_pad:
            return 0
        pad = config.get("pad_token_id")
        return 1 + (pad if isinstance(pad, int) else 1)


TYPES = {
    "bert": ModelType("BertTokenizer", has_segments=True, has_pooler=True),
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
    "electra": ModelType("ElectraTokenizer", has_segments=True),
    "roberta": ModelType("RobertaTokenizer", begins_behind_pad=True),
    "xlm-roberta": ModelType("XLMRobertaTokenizer", begins_behind_pad=True),
}


def rename_keys(config: Record) -> Record:
    """The content of `config.json` under BERT's names."""
    keys = TYPES[config["model_type"]].keys
    return {keys.get(key, key): value for key, value in config.items()}
