"""The layers of an encoder of a type that keras-hub does not have."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from tf_transfer.models.blocks import layers as layers_lib
from tf_transfer.models.blocks.arithmetic import Positions, Run
from tf_transfer.models.blocks.layers import Block, BlockShape
from tf_transfer.models.transformers_folder import Config
from tf_transfer.utils.json_files import Record


@dataclasses.dataclass
class Backbone:
    """Embeddings and blocks, with the attributes of keras-hub's backbones.

    Attributes:
        run: Computes a block.
        model_type: Of the folder that the encoder comes from.
        config: Its `config.json`.
        shape: Of a block.
        vocabulary_size, max_sequence_length: Rows of the tables.
        settings: What shapes the states besides `shape` and the weights.
        token_embedding: The table of tokens.
        position_embedding: The table of positions; None where only blocks
            know them.
        embeddings_layer_norm, embeddings_dropout: Below the first block.
        positions: What all blocks share, or None.
        transformer_layers: The blocks, bottom first.
        make_pooler: Makes the layer of [CLS] below a classifier, from a seed.
    """

    run: Run
    model_type: str
    config: Record
    shape: BlockShape
    vocabulary_size: int
    max_sequence_length: int
    settings: Mapping[str, object]
    token_embedding: keras.layers.Layer
    position_embedding: keras.layers.Layer | None
    embeddings_layer_norm: keras.layers.Layer
    embeddings_dropout: keras.layers.Layer
    positions: Positions | None
    transformer_layers: Sequence[Block]
    make_pooler: Callable[[int], keras.layers.Layer]

    @property
    def hidden_dim(self) -> int:
        """Width of the hidden states."""
        return self.shape.hidden

    def get_config(self) -> Record:
        """What shapes the states besides the weights."""
        shape = dataclasses.asdict(self.shape)
        return {**shape, **self.settings}


def build(
    config: Config,
    run: Run,
    shape: BlockShape,
    precision: str,
    make_block: Callable[[int], Block],
    make_pooler: Callable[[int], keras.layers.Layer],
    positions: Positions | None = None,
    has_position_table: bool = False,
    settings: Mapping[str, object] | None = None,
) -> Backbone:
    """Builds the layers of an encoder.

    Args:
        config: Of the folder.
        run: See `Backbone`.
        shape: See `Backbone`.
        make_pooler: See `Backbone`.
        positions: See `Backbone`.
        settings: See `Backbone`.
        precision: Keras dtype policy.
        make_block: Makes a block by its number, from 1.
        has_position_table: Whether the embeddings have positions.
    """
    sizes = config.sizes
    words, length = sizes["vocabulary_size"], sizes["max_sequence_length"]
    table = None
    if has_position_table:
        table = _build_table(length, shape.hidden, "position_embedding")
    return Backbone(
        run=run,
        model_type=config.content["model_type"],
        config=config.content,
        shape=shape,
        vocabulary_size=words,
        max_sequence_length=length,
        settings=settings or {},
        token_embedding=_build_table(words, shape.hidden, "token_embedding"),
        position_embedding=table,
        embeddings_layer_norm=layers_lib.build_norm(
            shape, "embeddings_layer_norm", precision
        ),
        embeddings_dropout=keras.layers.Dropout(
            shape.dropout, dtype=precision, name="embeddings_dropout"
        ),
        positions=positions,
        transformer_layers=[
            make_block(number) for number in range(1, sizes["num_layers"] + 1)
        ],
        make_pooler=make_pooler,
    )


def _build_table(rows: int, width: int, name: str) -> keras.layers.Layer:
    layer = keras.layers.Embedding(rows, width, dtype="float32", name=name)
    layer.build(None)
    return layer


def dense_pooler(
    shape: BlockShape,
    precision: str,
    activation: Callable[[tf.Tensor], tf.Tensor],
) -> Callable[[int], keras.layers.Layer]:
    """Makes a dense layer on [CLS], of initial weights, from a seed."""

    def make(seed: int) -> keras.layers.Layer:
        layer = keras.layers.Dense(
            shape.hidden,
            activation=activation,
            kernel_initializer=keras.initializers.TruncatedNormal(
                stddev=0.02, seed=seed
            ),
            dtype=precision,
            name="pooled_dense",
        )
        layer.build((None, shape.hidden))
        return layer

    return make
