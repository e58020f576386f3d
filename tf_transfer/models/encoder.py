"""BERT and RoBERTa of keras-nlp behind one interface.

    embeddings -> block 1 ... block L -> pooler

The layers are keras-nlp's own. They are run one by one here (`blocks.bert`), so
a run can stop at a cut. Both families have one interface: keras-nlp's RoBERTa
has no pooler, so it gets a new one, a dense tanh layer, as in the classifier
that the authors of "What Would Elsa Do?" used. `tokenizer` makes the ids.

An encoder without segments, such as DistilBERT's, has RoBERTa's layers; an
ELECTRA whose embeddings are narrower than its blocks has a projection. Types
that keras-nlp does not have, such as MPNet, have layers of our own
(`backbone`).
"""

import functools
import hashlib
import importlib.metadata
import inspect
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras
import keras_hub
import tensorflow as tf

from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models import (
    activations,
    backbone as backbone_lib,
    blocks,
    keras_private,
)
from tf_transfer.models.activations import ACTIVATIONS
from tf_transfer.models.backbone import Backbone
from tf_transfer.models.blocks import bert
from tf_transfer.models.blocks.arithmetic import (
    normalise,
    Positions,
    Run,
    Shared,
)
from tf_transfer.models.blocks.layers import block_layers
from tf_transfer.models.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tf_transfer.models.methods.added import AddedWeights


class Encoder:
    """One encoder and its tokeniser.

    Args:
        backbone: `keras_hub.models.BertBackbone`, `ElectraBackbone` or
            `RobertaBackbone`, or `backbone.Backbone`.
        tokenizer: The tokeniser that the encoder was trained with.
        seed: Of the pooler's initial weights, where the family has none.

    Attributes:
        family: `bert`, which has segments; `roberta`, which has none; or the
            `model_type` of an encoder that keras-hub does not have.
        activation: Of the blocks; one of `activations.ACTIVATIONS`.
        blocks: The L transformer blocks, bottom first.
        run_block: Computes one of them.
        hidden: Width of the hidden states.
        max_positions: Most tokens that a text may have.
        special: Ids of the special tokens.
        embedding_layers: What runs below the first block.
        token_table, position_table, segment_table: Their weights; None where
            the family has no such table.
        positions: What the blocks share, or None.
        projection: Dense layer from the width of the embeddings to that of
            the blocks; None where they are equal.
        pooler: Layer on [CLS] below a classifier, such as a dense tanh layer.
        added: What a method adds to blocks, by number; see `methods.added`.
    """

    backbone: keras_hub.models.Backbone | Backbone
    tokenizer: Tokenizer
    family: str
    blocks: list[keras.layers.Layer]
    hidden: int
    max_positions: int
    special: SpecialTokens
    embedding_layers: list[keras.layers.Layer]
    token_table: keras.Variable
    position_table: keras.Variable | None = None
    segment_table: keras.Variable | None = None
    projection: keras.layers.Layer | None
    pooler: keras.layers.Layer

    def __init__(
        self,
        backbone: keras_hub.models.Backbone | Backbone,
        tokenizer: Tokenizer,
        seed: int = 0,
    ) -> None:
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.blocks = list(backbone.transformer_layers)
        self.run_block: Run = bert.run
        self.added: dict[int, AddedWeights] = {}
        self.hidden = backbone.hidden_dim
        self.max_positions = backbone.max_sequence_length
        self.special = tokenizer.special
        self.positions: Positions | None = None
        if isinstance(backbone, Backbone):
            self._use_own_layers(backbone, seed)
        elif isinstance(backbone, keras_hub.models.RobertaBackbone):
            self._take_roberta(backbone, seed)
        else:
            self._take_bert(backbone)
        self.embedding_layers += [
            backbone.embeddings_layer_norm,
            backbone.embeddings_dropout,
        ]
        self.projection = getattr(backbone, "embeddings_projection", None)
        if self.projection is not None:
            self.embedding_layers.append(self.projection)
        self._set_activation(self.activation)

    def _take_bert(self, backbone: keras_hub.models.Backbone) -> None:
        """The layers of keras-hub's BERT or ELECTRA."""
        self.family = "bert"
        self.activation = "gelu_new"
        self.pooler = backbone.pooled_dense
        self.embedding_layers = [
            backbone.token_embedding,
            backbone.position_embedding,
            backbone.segment_embedding,
        ]
        self.token_table = backbone.token_embedding.embeddings
        positions = backbone.position_embedding.position_embeddings
        self.position_table = positions
        self.segment_table = backbone.segment_embedding.embeddings

    def _take_roberta(
        self, backbone: keras_hub.models.Backbone, seed: int
    ) -> None:
        """The layers of keras-hub's RoBERTa."""
        self.family = "roberta"
        self.activation = "gelu"
        self.pooler = make_pooler(backbone, seed)
        tables = backbone.embeddings
        self.embedding_layers = [tables]
        self.token_table = tables.token_embedding.embeddings
        self.position_table = tables.position_embedding.position_embeddings

    def _use_own_layers(self, backbone: Backbone, seed: int) -> None:
        """The layers of a type that keras-hub does not have."""
        self.family = backbone.model_type
        self.activation = backbone.shape.activation
        self.pooler = backbone.make_pooler(seed)
        self.run_block = backbone.run
        self.positions = backbone.positions
        tables = [backbone.token_embedding, backbone.position_embedding]
        layers = [*tables, backbone.positions]
        self.embedding_layers = [one for one in layers if one is not None]
        self.token_table = backbone.token_embedding.embeddings
        if backbone.position_embedding is not None:
            self.position_table = backbone.position_embedding.embeddings

    def set_arithmetic(self, activation: str, epsilon: float) -> None:
        """Replaces the activation of the blocks, and LayerNorm's epsilon.

        Args:
            activation: One of `activations.ACTIVATIONS`.
            epsilon: Of every layer normalisation.
        """
        self._set_activation(activation)
        self.backbone.embeddings_layer_norm.epsilon = epsilon
        for block in self.blocks:
            layers = block_layers(block)
            for norm in (layers.attention_norm, layers.feedforward_norm):
                if norm is not None:
                    norm.epsilon = epsilon

    def _set_activation(self, activation: str) -> None:
        self.activation = activation
        for block in self.blocks:
            layers = block_layers(block)
            layers.inner.activation = ACTIVATIONS[activation]

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """Every layer that holds weights or dropout."""
        return [*self.embedding_layers, *self.blocks, self.pooler]

    @property
    def compute_dtype(self) -> str:
        """In which the blocks compute."""
        return str(self.pooler.compute_dtype)

    def embed(
        self,
        ids: tf.Tensor,
        segments: tf.Tensor,
        training: bool,
        dtype: str = "",
    ) -> tf.Tensor:
        """Hidden states below block 1.

        Args:
            ids: int32 [batch, length]. The tokens.
            segments: int32 [batch, length]. The segment of each.
            training: Whether dropout is active.
            dtype: Of the arithmetic, here and in the blocks that go on from
                it; "" for `compute_dtype`.

        Returns:
            `dtype` [batch, length, hidden].
        """
        dtype = dtype or self.compute_dtype
        x = tf.cast(tf.gather(self.token_table.value, ids), dtype)
        if self.position_table is not None:
            positions = self.position_table.value[: tf.shape(ids)[1]]
            x += tf.cast(positions, dtype)
        if self.segment_table is not None:
            rows = tf.gather(self.segment_table.value, segments)
            x += tf.cast(rows, dtype)
        x = normalise(self.backbone.embeddings_layer_norm, x, training)
        if training:
            x = self.backbone.embeddings_dropout(x, training=True)
        if self.projection is not None:
            kernel = tf.cast(self.projection.kernel.value, dtype)
            x = tf.matmul(x, kernel)
            x += tf.cast(self.projection.bias.value, dtype)
        return x

    def run_blocks(
        self,
        x: tf.Tensor,
        mask: tf.Tensor,
        first: int,
        last: int,
        training: bool,
        cls_only: bool = False,
        collect: Callable[[tf.Tensor], None] | None = None,
    ) -> tf.Tensor:
        """Runs blocks `first` to `last`, counted from 1, both included.

        Args:
            x: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding.
            first: The first block that runs.
            last: The last; no block runs where it is below `first`.
            training: Whether dropout is active.
            cls_only: Whether [CLS] is all that is read of the top block, L:
                then that block computes nothing else, which is about a
                twentieth of its products. It has no effect on the blocks
                below.
            collect: Called with the states above each block that is run.

        Returns:
            float [batch, length, hidden]; length 1 with `cls_only`, if block
            L is among them.
        """
        top = len(self.blocks)
        shared: Shared = ()
        if self.positions is not None and first <= last:
            shared = self.positions.share(x, training)
        for number in range(first, last + 1):
            x = self.run_block(
                self.blocks[number - 1],
                x,
                mask,
                training,
                cls_only and number == top,
                self.added.get(number),
                shared,
            )
            if collect is not None:
                collect(x)
        return x

    def __call__(
        self,
        ids: tf.Tensor,
        segments: tf.Tensor,
        mask: tf.Tensor,
        training: bool,
        cls_only: bool = False,
    ) -> tf.Tensor:
        """Hidden states above the last block, as `run_blocks` gives them."""
        x = self.embed(ids, segments, training)
        return self.run_blocks(x, mask, 1, len(self.blocks), training, cls_only)

    def hash_code(self) -> str:
        """A hash of the code that computes hidden states, Keras included.

        Stored states are of use only to the code that computed them.
        """
        return _hash_code()


def make_pooler(
    backbone: keras_hub.models.Backbone, seed: int
) -> keras.layers.Dense:
    """A pooler of initial weights, for a model that comes without one."""
    pooler = keras.layers.Dense(
        backbone.hidden_dim,
        activation="tanh",
        kernel_initializer=keras.initializers.TruncatedNormal(
            stddev=0.02, seed=seed
        ),
        dtype=backbone.dtype_policy,
        name="pooled_dense",
    )
    pooler.build((None, backbone.hidden_dim))
    return pooler


@functools.lru_cache
def _hash_code() -> str:
    digest = hashlib.sha256()
    for path in _code_files():
        digest.update(path.read_bytes())
    for package in ("keras", "keras-hub"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()


def _code_files() -> list[pathlib.Path]:
    """The files that say what hidden states are."""
    folder = pathlib.Path(blocks.__file__).parent
    own = sys.modules[__name__]
    others = (activations, backbone_lib, keras_private, own)
    paths = [inspect.getfile(module) for module in others]
    return [*sorted(folder.glob("*.py")), *map(pathlib.Path, paths)]
