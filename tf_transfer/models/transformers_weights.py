"""The weights of an encoder by the names that `transformers` gives them."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import safetensors
from absl import logging

from tf_transfer.models import model_files
from tf_transfer.models.blocks.layers import (
    Block,
    block_layers,
    PredictionHead,
)
from tf_transfer.models.encoder import Encoder, make_pooler
from tf_transfer.models.methods.base_method import TRANSFORMERS_NAMES
from tf_transfer.models.transformers_folder import Config
from tf_transfer.models.transformers_types import ModelType
from tf_transfer.utils.errors import UserError

WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"
PROJECTION = "embeddings_project"
POOLER, POOLER_NORM = "pooler.dense", "pooler.norm"


def name_layers(
    encoder: Encoder,
) -> Iterator[tuple[str, keras.layers.Layer]]:
    """Yields dense layers and layer normalisations, by BERT's names.

    A dense layer has `.weight` [outputs, inputs] and `.bias` there. The pooler
    is not one of them.
    """
    yield "embeddings.LayerNorm", encoder.backbone.embeddings_layer_norm
    if encoder.projection is not None:
        yield PROJECTION, encoder.projection
    if encoder.positions is not None:
        yield from encoder.positions.norms.items()
    for number, block in enumerate(encoder.blocks):
        layers = block_layers(block)
        here = f"encoder.layer.{number}"
        for name, theirs in TRANSFORMERS_NAMES.items():
            yield f"{here}.{theirs}", getattr(layers, name)
        if layers.attention_norm is not None:
            yield f"{here}.attention.output.LayerNorm", layers.attention_norm
        yield f"{here}.output.LayerNorm", layers.feedforward_norm
        if isinstance(block, Block) and block.final_norm is not None:
            yield "final_norm", block.final_norm


def name_pooler(encoder: Encoder) -> dict[str, keras.layers.Layer]:
    """The layers of the pooler, by BERT's names."""
    pooler = encoder.pooler
    if isinstance(pooler, PredictionHead):
        return {POOLER: pooler.dense, POOLER_NORM: pooler.norm}
    return {POOLER: pooler}


def tables(encoder: Encoder) -> dict[str, keras.Variable]:
    """The tables that are there, without RoBERTa's one segment."""
    found = {WORDS: encoder.token_table}
    if encoder.position_table is not None:
        found[POSITIONS] = encoder.position_table
    if encoder.segment_table is not None:
        found[SEGMENTS] = encoder.segment_table
    if encoder.positions is not None:
        found |= encoder.positions.tables
    return found


def load(encoder: Encoder, folder: str, config: Config, seed: int) -> None:
    """Reads the weights of an encoder; see `model_files.find_weights`.

    The names may have a prefix, such as `bert.`, and layer normalisations the
    older `gamma` and `beta`. Without a pooler in the files, as after training
    on masked words, a new one is drawn.

    Args:
        encoder: The encoder.
        folder: The folder.
        config: Its `config.json`.
        seed: Of a new pooler.

    Raises:
        UserError: A weight is missing, or has another shape.
    """
    with _Weights(folder, config.type) as weights:
        variables = tables(encoder)
        for name, variable in variables.items():
            array = weights.read_array(name)
            if name == POSITIONS:
                array = array[config.first_position :]
                if SEGMENTS not in variables and weights.has(SEGMENTS):
                    # transformers adds this one vector to every token. It is
                    # zero as published, but not after tuning. Every token has
                    # a position.
                    array = array + weights.read_array(SEGMENTS)[:1]
            weights.assign(variable, name, array)
        layers = [*name_layers(encoder)]
        if weights.has_pooler:
            layers += name_pooler(encoder).items()
        else:
            if encoder.family == "bert":
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
                if variable is None:
                    continue
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
            words, _ = self._type.rename(WORDS)
            if name.endswith(words):
                self._prefix = name.removesuffix(words)
        return self

    def __exit__(self, *error: BaseException | None) -> None:
        self._files.close()

    @property
    def has_pooler(self) -> bool:
        return self._type.has_pooler and self.has(f"{POOLER}.weight")

    def has(self, name: str) -> bool:
        return self._find(self._type.rename(name)[0]) is not None

    def read_array(self, name: str) -> np.ndarray:
        """A weight by BERT's name, float32."""
        name, third = self._type.rename(name)
        found = self._find(name)
        if found is None:
            raise UserError(
                f"--model={self._folder}: the weights have no {name}. Is the "
                "folder complete?"
            )
        array: np.ndarray = self._by_name[found].get_tensor(found)
        if third is not None:
            array = np.split(array, 3)[third]
        return array.astype(np.float32)

    def _find(self, name: str) -> str | None:
        """The name in the file; what a classifier has above has no prefix."""
        for found in (self._prefix + name, name):
            if found in self._by_name:
                return found
        return None

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
