"""BERT and RoBERTa of keras-nlp behind one interface.

    embeddings -> block 1 ... block L -> pooler

The layers are keras-nlp's own. They are run one by one here (`blocks`), so a
run can stop at a cut. Both families have one interface: keras-nlp's RoBERTa has
no pooler, so it gets a new one, a dense tanh layer, as in the classifier that
the authors of "What Would Elsa Do?" used.

BERT's own tokeniser strips accents where it lowers case. keras-nlp's does so on
request, which is made here.
"""

import functools
import hashlib
import importlib.metadata
import inspect
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import keras
import keras_nlp
import numpy as np
import tensorflow as tf

from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models import blocks, keras_private


class Encoder:
    """One encoder and its tokeniser.

    Args:
        backbone: `keras_nlp.models.BertBackbone` or `RobertaBackbone`.
        tokenizer: the keras-nlp tokeniser of the same family.
        seed: of the pooler's initial weights, where the family has none.

    Attributes:
        family: `bert` or `roberta`.
        blocks: the L transformer blocks, bottom first.
        hidden: width of the hidden states.
        max_positions: most tokens that a text may have.
        special: ids of the special tokens.
        embedding_layers: what runs below the first block.
        pooler: dense tanh layer on [CLS].
        added: what a method adds to blocks, by number; see `methods.added`.
    """

    backbone: Any
    tokenizer: Any
    family: str
    blocks: list[keras.layers.Layer]
    hidden: int
    max_positions: int
    special: SpecialTokens
    embedding_layers: list[keras.layers.Layer]
    pooler: keras.layers.Layer

    def __init__(self, backbone: Any, tokenizer: Any, seed: int = 0) -> None:
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.blocks = list(backbone.transformer_layers)
        self.added: dict[int, Any] = {}
        self.hidden = backbone.hidden_dim
        self.max_positions = backbone.max_sequence_length
        between: tuple[int, ...]
        if isinstance(backbone, keras_nlp.models.BertBackbone):
            self.family = "bert"
            self.pooler = backbone.pooled_dense
            self.embedding_layers = [
                backbone.token_embedding,
                backbone.position_embedding,
                backbone.segment_embedding,
            ]
            between = (tokenizer.sep_token_id,)
            tokenizer.strip_accents = tokenizer.lowercase
        else:
            self.family = "roberta"
            self.pooler = keras.layers.Dense(
                self.hidden,
                activation="tanh",
                kernel_initializer=keras.initializers.TruncatedNormal(
                    stddev=0.02, seed=seed
                ),
                dtype=backbone.dtype_policy,
                name="pooled_dense",
            )
            self.pooler.build((None, self.hidden))
            self.embedding_layers = [backbone.embeddings]
            between = (tokenizer.end_token_id, tokenizer.end_token_id)
        self.embedding_layers += [
            backbone.embeddings_layer_norm,
            backbone.embeddings_dropout,
        ]
        self.special = SpecialTokens(
            tokenizer.start_token_id,
            tokenizer.end_token_id,
            tokenizer.pad_token_id,
            between,
        )
        self._tokenize = _tokenizing(tokenizer)

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """Every layer that holds weights or dropout."""
        return [*self.embedding_layers, *self.blocks, self.pooler]

    @property
    def compute_dtype(self) -> str:
        """In which the blocks compute."""
        return self.pooler.compute_dtype

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Ids of each text, without special tokens.

        Returns:
            An int32 array for each text.
        """
        ragged = self.tokenize_tensor(tf.constant(texts, tf.string))
        values, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        return [values[a:b] for a, b in itertools.pairwise(splits)]

    def tokenize_tensor(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Ids of each text, without special tokens; in a graph or out of it.

        Args:
            texts: string [batch].

        Returns:
            int32 [batch, (length)].
        """
        # As a graph even where functions run eagerly: there the tokeniser
        # would return lists.
        return self._tokenize.get_concrete_function()(texts)

    def embed(
        self, ids: tf.Tensor, segments: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Hidden states below block 1.

        Args:
            ids, segments: int32 [batch, length].
            training: whether dropout is active.

        Returns:
            float [batch, length, hidden].
        """
        backbone = self.backbone
        if self.family == "bert":
            tokens = backbone.token_embedding(ids)
            x = backbone.embeddings_add(
                (
                    tokens,
                    backbone.position_embedding(tokens),
                    backbone.segment_embedding(segments),
                )
            )
        else:
            x = backbone.embeddings(ids)
        x = backbone.embeddings_layer_norm(x)
        return backbone.embeddings_dropout(x, training=training)

    def run_blocks(
        self,
        x: tf.Tensor,
        mask: tf.Tensor,
        first: int,
        last: int,
        training: bool,
        cls_only: bool = False,
    ) -> tf.Tensor:
        """Runs blocks `first` to `last`, counted from 1, both included.

        Args:
            x: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding.
            first, last: no block runs where `first` is above `last`.
            training: whether dropout is active.
            cls_only: whether [CLS] is all that is read of the top block, L:
                then that block computes nothing else, which is about a
                twentieth of its products. It has no effect on the blocks
                below.

        Returns:
            float [batch, length, hidden]; length 1 with `cls_only`, if block
            L is among them.
        """
        top = len(self.blocks)
        for number in range(first, last + 1):
            x = blocks.run(
                self.blocks[number - 1],
                x,
                mask,
                training,
                cls_only and number == top,
                self.added.get(number),
            )
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


@functools.lru_cache(2)
def _tokenizing(tokenizer: Any) -> Any:
    """The program from texts to ragged ids; traced once for a tokenizer."""
    return tf.function(
        lambda texts: tokenizer.tokenize(texts),
        input_signature=[tf.TensorSpec([None], tf.string)],
        # To look for control flow takes seconds, and there is none that
        # the tokenizers do not convert themselves.
        autograph=False,
    )


@functools.lru_cache
def _hash_code() -> str:
    digest = hashlib.sha256()
    for module in (blocks, keras_private, sys.modules[__name__]):
        digest.update(inspect.getsource(module).encode())
    for package in ("keras", "keras-hub"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()
