"""What the heads of "To Tune or Not To Tune?" (arXiv 1907.05338) share.

The paper: "we top BERT with a more complex network structure, using Kaiming
initialization", and "we apply a dropout trick on all layers and set the
dropout probability as 0.1". Kaiming is He et al.'s: every kernel is drawn from
a normal distribution of variance 2 / (inputs of a unit), truncated at two
deviations, as Keras draws it; recurrent kernels as well. Biases begin at 0,
those of an LSTM's forget gate at 1. Dropout stands behind the encoder's states
and behind every layer but the last.
"""

import keras
import numpy as np
import tensorflow as tf


class Head(keras.layers.Layer):
    """A head on hidden states: float32 logits.

    Args:
        dropout: rate behind the states and every layer but the last.
        seed: of the initial weights; each kernel has a seed of its own that
            is derived from it.
        dtype: policy in which all but the logits is computed.
        jit_compile: whether it is to run inside XLA, which has no cuDNN: then
            the LSTMs on a GPU do without.

    Attributes:
        pooling: what it reads of a text: `tokens`, the states of all of them
            and their mask; or `cls`, [CLS] through the encoder's pooler.
        sides: texts of an example, each run by itself. The first texts of all
            examples stand before the second ones.
    """

    pooling = "tokens"
    sides = 1

    def __init__(self, dropout, seed, dtype, jit_compile=False, **kwargs):
        # Layers inside cast for themselves; norms and sums stay in float32.
        super().__init__(dtype=dtype, autocast=False, **kwargs)
        self._seed = seed
        self._drawn = 0
        self._use_cudnn = False if jit_compile else "auto"
        # Keras makes the masks anew at every call, so one serves all layers.
        self.dropout = keras.layers.Dropout(
            dropout, dtype=self.dtype_policy, name="dropout"
        )
        self.built = True

    # === Building ===

    def kaiming(self):
        """An initializer with the next derived seed."""
        self._drawn += 1
        state = np.random.SeedSequence([self._seed, self._drawn])
        return keras.initializers.HeNormal(int(state.generate_state(1)[0]))

    def add(self, layer, width):
        """Builds a layer that reads vectors of `width`, and returns it."""
        with keras.name_scope(self.name):
            layer.build((None, None, width))
        return layer

    def dense(self, width, units, name, **kwargs):
        """A dense layer that reads vectors of `width`."""
        return self.add(
            keras.layers.Dense(
                units,
                kernel_initializer=self.kaiming(),
                dtype=kwargs.pop("dtype", self.dtype_policy),
                name=name,
                **kwargs,
            ),
            width,
        )

    def logits(self, width, units):
        """The last layer: half-precision logits would coarsen the loss."""
        return self.dense(width, units, "logits", dtype="float32")

    def bidirectional(self, width, units, name, return_sequences=True):
        """A bidirectional LSTM with `units` in each direction.

        It begins at a text's first and last token; padding, where its states
        are 0, is passed over.
        """

        def lstm(name, **kwargs):
            return keras.layers.LSTM(
                units,
                kernel_initializer=self.kaiming(),
                recurrent_initializer=self.kaiming(),
                return_sequences=return_sequences,
                use_cudnn=self._use_cudnn,
                dtype=self.dtype_policy,
                name=name,
                **kwargs,
            )

        # Keras would copy the seeds of a single one into both directions.
        return self.add(
            keras.layers.Bidirectional(
                lstm("lstm"),
                backward_layer=lstm("backward_lstm", go_backwards=True),
                dtype=self.dtype_policy,
                name=name,
            ),
            width,
        )


def max_pool(x, mask):
    """Maximum over the tokens that are not padding.

    Args:
        x: float [batch, length, width].
        mask: bool [batch, length].

    Returns:
        float [batch, width].
    """
    return tf.reduce_max(tf.where(mask[:, :, None], x, x.dtype.min), axis=1)
