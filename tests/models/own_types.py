"""Small encoders of the types whose blocks are ours, without transformers."""

import importlib
import json

import tensorflow as tf

from tf_transfer.models import tiny, transformers_folder
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.heads import pooled
from tf_transfer.models.network import Network

SHAPE = {
    "vocab_size": len(tiny.vocabulary()),
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "mpnet": {},
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": "p2c|c2p",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_act": "gelu",
    },
    "modernbert": {"local_attention": 8, "norm_bias": False, "pad_token_id": 0},
}


def make(name, folder, **values):
    """An encoder of random weights whose `config.json` is in a folder."""
    config = {"model_type": name, **SHAPE, **CONFIGS[name], **values}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    read = transformers_folder.read_config(str(folder))
    module = importlib.import_module(
        f"tf_transfer.models.blocks.{read.type.blocks}"
    )
    made = Encoder(module.build(read, 0.0, "float32"), tiny.tokenizer())
    weights = [weight for layer in made.layers for weight in layer.weights]
    for number, weight in enumerate(weights):
        noise = tf.random.stateless_normal(weight.shape, [number, 3])
        weight.assign(weight + 0.3 * noise)
    return made


def network_of(encoder, classes=1):
    head = pooled.PooledHead(
        classes, encoder.hidden, "cls", 0.0, 0, "float32", name="head_mine"
    )
    return Network(encoder, {"mine": head})
