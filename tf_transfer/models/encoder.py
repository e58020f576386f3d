"""BERT and RoBERTa of keras-nlp behind one interface.

    embeddings -> block 1 ... block L -> pooler

The layers are keras-nlp's own; what is ours is that they are run one by one
(`blocks`), so that a run may stop at a cut, and that both families look alike:
keras-nlp's RoBERTa has no pooler, so it gets a new one, a dense tanh layer, as
in the classifier that the authors of "What Would Elsa Do?" used.

BERT's own tokeniser strips accents where it lowers case; keras-nlp's does not
unless told to, so it is told to.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import itertools

import keras
import keras_nlp
import tensorflow as tf

from tf_transfer.data.tokens import Special
from tf_transfer.models import blocks


class Encoder:
    """One encoder and its tokeniser.

    Attributes:
        family: `bert` or `roberta`.
        blocks: list of the L transformer blocks, bottom first.
        hidden: int. Width of the hidden states.
        longest: int. Most tokens that have a position.
        special: `tokens.Special`.
        embedding_layers: what runs below the first block.
        pooler: dense tanh layer on [CLS].
    """

    def __init__(self, backbone, tokenizer, seed=0):
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.blocks = list(backbone.transformer_layers)
        self.hidden = backbone.hidden_dim
        self.longest = backbone.max_sequence_length
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
        self.special = Special(
            tokenizer.start_token_id,
            tokenizer.end_token_id,
            tokenizer.pad_token_id,
            between,
        )
        self._tokenize = tf.function(
            lambda texts: tokenizer.tokenize(texts),
            input_signature=[tf.TensorSpec([None], tf.string)],
        )

    @property
    def layers(self):
        """Every layer that holds weights or dropout."""
        return [*self.embedding_layers, *self.blocks, self.pooler]

    @property
    def compute_dtype(self):
        """In which the blocks compute."""
        return self.blocks[0].compute_dtype

    def tokenize(self, texts):
        """Ids of each text, without special tokens.

        Args:
            texts: list of str.

        Returns:
            List of int32 arrays.
        """
        ragged = self._tokenize(tf.constant(texts, tf.string))
        values, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        return [values[a:b] for a, b in itertools.pairwise(splits)]

    def embed(self, ids, segments, training):
        """Hidden states below block 1.

        Args:
            ids, segments: int32 [batch, length].
            training: bool. Whether dropout is active.

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

    def run_blocks(self, x, mask, first, last, training, first_only=False):
        """Runs blocks `first` to `last`, counted from 1, both included.

        Args:
            x: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding.
            first_only: whether [CLS] is all that is read of the top block,
                L: then that block computes nothing else, which is about a
                sixth of its work. Says nothing to the blocks below.

        Returns:
            float [batch, length, hidden]; length 1 with `first_only`, if
            block L is among them.
        """
        top = len(self.blocks)
        for number in range(first, last + 1):
            x = blocks.run(
                self.blocks[number - 1],
                x,
                mask,
                training,
                first_only and number == top,
            )
        return x

    def __call__(self, ids, segments, mask, training, first_only=False):
        """Hidden states above the last block, as `run_blocks` gives them."""
        x = self.embed(ids, segments, training)
        return self.run_blocks(
            x, mask, 1, len(self.blocks), training, first_only
        )
