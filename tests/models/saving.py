"""Writes encoders as keras-nlp and as `transformers` write them."""

import json
import os

import keras
import numpy as np
import safetensors.numpy

from tf_transfer.models import exports, keras_private


def as_keras(encoder, folder):
    """Writes what keras-nlp writes: a preset."""
    encoder.backbone.save_to_preset(folder)
    exports.keras_tokenizer(encoder.tokenizer).save_to_preset(folder)


def as_hugging_face(encoder, folder):
    """Writes a BERT, ELECTRA or RoBERTa as `transformers` does."""
    backbone = encoder.backbone
    is_bert = encoder.family == "bert"
    os.makedirs(folder)
    width = backbone.token_embedding.output_dim if is_bert else encoder.hidden
    is_electra = encoder.projection is not None
    config = {
        "model_type": "electra" if is_electra else encoder.family,
        "vocab_size": len(encoder.tokenizer.vocabulary),
        "embedding_size": width,
        "num_hidden_layers": backbone.num_layers,
        "num_attention_heads": backbone.num_heads,
        "hidden_size": backbone.hidden_dim,
        "intermediate_size": backbone.intermediate_dim,
        # RoBERTa's positions begin at 2.
        "max_position_embeddings": encoder.max_positions
        + (0 if is_bert else 2),
        "hidden_dropout_prob": 0.1,
        "hidden_act": encoder.activation,
        "layer_norm_eps": backbone.embeddings_layer_norm.epsilon,
    }
    tokenizer = encoder.tokenizer
    files = {"config.json": json.dumps(config)}
    if is_bert:
        files["tokenizer_config.json"] = json.dumps({"do_lower_case": True})
        files["vocab.txt"] = "\n".join(tokenizer.vocabulary)
    else:
        files["vocab.json"] = json.dumps(
            {token: n for n, token in enumerate(tokenizer.vocabulary)}
        )
        files["merges.txt"] = "\n".join(tokenizer.merges)
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(content)
    safetensors.numpy.save_file(
        {
            f"{encoder.family}.{name}": array
            for name, array in hugging_face_arrays(encoder)
        },
        os.path.join(folder, "model.safetensors"),
        metadata={"format": "pt"},
    )


def embedding_arrays(encoder):
    """The tables below the first LayerNorm, by name."""
    backbone = encoder.backbone
    yield "word_embeddings", backbone.token_embedding.embeddings.numpy()
    if encoder.family == "bert":
        positions = backbone.position_embedding.position_embeddings.numpy()
        types = backbone.segment_embedding.embeddings.numpy()
    else:
        # Two rows that no token uses; and one type, part of every position.
        types = np.linspace(-1, 1, encoder.hidden, dtype=np.float32)[None]
        table = backbone.embeddings.position_embedding.position_embeddings
        positions = np.pad(table.numpy() - types, ((2, 0), (0, 0)))
    yield "position_embeddings", positions
    yield "token_type_embeddings", types


def hugging_face_arrays(encoder):
    """An encoder's weights by the names, and in the shapes, of PyTorch."""
    backbone = encoder.backbone
    for name, array in embedding_arrays(encoder):
        yield f"embeddings.{name}.weight", array
    for name, layer in hugging_face_layers(encoder):
        if isinstance(layer, keras.layers.LayerNormalization):
            weight, bias = layer.gamma.numpy(), layer.beta.numpy()
        else:
            weight, bias = layer.kernel.numpy(), layer.bias.numpy()
            inputs = backbone.hidden_dim
            if name == "embeddings_project":
                inputs = weight.shape[0]
            if name.endswith(".output.dense") and "attention" not in name:
                inputs = backbone.intermediate_dim
            weight = np.ascontiguousarray(weight.reshape(inputs, -1).T)
        yield f"{name}.weight", weight
        yield f"{name}.bias", bias.ravel()


def hugging_face_layers(encoder):
    yield "embeddings.LayerNorm", encoder.backbone.embeddings_layer_norm
    if encoder.projection is not None:
        yield "embeddings_project", encoder.projection
    for number, block in enumerate(encoder.blocks):
        layers = keras_private.block_layers(block)
        for name, layer in {
            "attention.self.query": layers.query,
            "attention.self.key": layers.key,
            "attention.self.value": layers.value,
            "attention.output.dense": layers.attention_output,
            "attention.output.LayerNorm": layers.attention_norm,
            "intermediate.dense": layers.inner,
            "output.dense": layers.outer,
            "output.LayerNorm": layers.feedforward_norm,
        }.items():
            yield f"encoder.layer.{number}.{name}", layer
    if encoder.family == "bert":
        yield "pooler.dense", encoder.pooler
