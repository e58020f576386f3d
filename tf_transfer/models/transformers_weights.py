"""The weights of an encoder by the names that `transformers` gives them."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import safetensors
from absl import logging

from tf_transfer.models import keras_private, model_files
from tf_transfer.models.encoder import Encoder, make_pooler
from tf_transfer.models.methods.base_method import TRANSFORMERS_NAMES
from tf_transfer.models.transformers_folder import Config
from tf_transfer.models.transformers_types import ModelType
from tf_transfer.utils.errors import UserError

WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"
PROJECTION = "embeddings_project"
POOLER = "pooler.dense"


def name_layers(
    encoder: Encoder,
) -> Iterator[tuple[str, keras.layers.Layer]]:
    """Yields dense layers and layer normalisations; the pooler is not one.

    A dense layer has `.weight` [outputs, inputs] and `.bias` there.
    """
    yield "embeddings.LayerNorm", encoder.backbone.embeddings_layer_norm
    if encoder.projection is not None:
        yield PROJECTION, encoder.projection
    for number, block in enumerate(encoder.blocks):
        layers = keras_private.block_layers(block)
        here = f"encoder.layer.{number}"
        for name, theirs in TRANSFORMERS_NAMES.items():
            yield f"{here}.{theirs}", getattr(layers, name)
        yield f"{here}.attention.output.LayerNorm", layers.attention_norm
        yield f"{here}.output.LayerNorm", layers.feedforward_norm


def tables(encoder: Encoder) -> dict[str, keras.Variable]:
    """The embedding tables [rows, width], without RoBERTa's one segment."""
    backbone = encoder.backbone
    if encoder.family == "roberta":
        inner = backbone.embeddings
        return {
            WORDS: inner.token_embedding.embeddings,
            POSITIONS: inner.position_embedding.position_embeddings,
        }
    return {
        WORDS: backbone.token_embedding.embeddings,
        POSITIONS: backbone.position_embedding.position_embeddings,
        SEGMENTS: backbone.segment_embedding.embeddings,
    }


def load(encoder: Encoder, folder: str, config: Config, seed: int) -> None:
    """Reads the weights of an encoder; see `model_files.find_weights`.

    The names may have a prefix, such as `bert.`, and layer normalisations the
    older `gamma` and `beta`. Without a pooler in the files, as after training
    on masked words, a new one is drawn.

    Args:
        encoder: the encoder.
        folder: the folder.
        config: its `config.json`.
        seed: of a new pooler.

    Raises:
        UserError: a weight is missing, or has another shape.
    """
    with _Weights(folder, config.type) as weights:
        variables = tables(encoder)
        positions = weights.read_array(POSITIONS)[config.first_position :]
        if SEGMENTS in variables:
            weights.assign(
                variables[SEGMENTS], SEGMENTS, weights.read_array(SEGMENTS)
            )
        elif weights.has(SEGMENTS):
            # transformers adds this one vector to every token. It is zero as
            # published, but not after tuning. Every token has a position.
            positions = positions + weights.read_array(SEGMENTS)[:1]
        weights.assign(variables[POSITIONS], POSITIONS, positions)
        weights.assign(variables[WORDS], WORDS, weights.read_array(WORDS))
        layers = [*name_layers(encoder)]
        if weights.has_pooler:
            layers.append((POOLER, encoder.pooler))
        else:
            new = make_pooler(encoder.backbone, seed)
            encoder.pooler.set_weights(new.get_weights())
            if config.type.has_pooler:
                logging.warning(
                    "--model=%s: has no pooler. A new one, drawn by --seed, "
                    "takes its place.",
                    folder,
                )
        for name, layer in layers:
            if isinstance(layer, keras.layers.LayerNormalization):
                kernel, bias = layer.gamma, layer.beta
                older = weights.has(f"{name}.gamma")
                ends = ("gamma", "beta") if older else ("weight", "bias")
            else:
                kernel, bias = layer.kernel, layer.bias
                ends = ("weight", "bias")
            for variable, end in zip((kernel, bias), ends):
                array = weights.read_array(f"{name}.{end}")
                if array.ndim == 2:
                    array = array.T.reshape(variable.shape)
                else:
                    array = array.reshape(variable.shape)
                weights.assign(variable, name, array)


def has_pooler(folder: str, model_type: ModelType) -> bool:
    """Whether a folder has a pretrained pooler; reads no weights."""
    with _Weights(folder, model_type) as weights:
        return weights.has_pooler


class _Weights:
    """The weights of a folder, as one mapping by BERT's names."""

    def __init__(self, folder: str, model_type: ModelType) -> None:
        self._folder = folder
        self._type = model_type
        self._files = contextlib.ExitStack()
        self._by_name: dict[str, Any] = {}  # the open file of each weight
        self._prefix = ""

    def __enter__(self) -> "_Weights":
        names, file_of = model_files.find_weights(self._folder)
        for name in names:
            path = os.path.join(self._folder, name)
            file = self._files.enter_context(
                safetensors.safe_open(path, "numpy")
            )
            names_in_file = file.keys()  # no mapping: it has no iterator
            for weight in names_in_file:
                if file_of.get(weight, name) == name:
                    self._by_name[weight] = file
        for name in self._by_name:
            if name.endswith(WORDS):
                self._prefix = name.removesuffix(WORDS)
        return self

    def __exit__(self, *error: BaseException | None) -> None:
        self._files.close()

    @property
    def has_pooler(self) -> bool:
        return self._type.has_pooler and self.has(f"{POOLER}.weight")

    def has(self, name: str) -> bool:
        return self._prefix + self._rename(name) in self._by_name

    def read_array(self, name: str) -> np.ndarray:
        name = self._rename(name)
        if self._prefix + name not in self._by_name:
            raise UserError(
                f"--model={self._folder}: the weights have no {name}. Is the "
                "folder complete?"
            )
        name = self._prefix + name
        array: np.ndarray = self._by_name[name].get_tensor(name)
        return array.astype(np.float32)

    def _rename(self, name: str) -> str:
        for bert, other in self._type.weights.items():
            name = name.replace(bert, other)
        return name

    def assign(
        self, variable: keras.Variable, name: str, array: np.ndarray
    ) -> None:
        if tuple(variable.shape) != array.shape:
            raise UserError(
                f"--model={self._folder}: {name} has the shape {array.shape}, "
                f"and config.json asks for {tuple(variable.shape)}. Is the "
                "folder complete?"
            )
        variable.assign(array)
