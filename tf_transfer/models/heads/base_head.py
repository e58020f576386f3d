"""What the heads of "To Tune or Not To Tune?" (arXiv 1907.05338) share.

The paper: "we top BERT with a more complex network structure, using Kaiming
initialization", and "We apply a dropout trick on all layers and set the
dropout probability as 0.1".

Kaiming initialisation is that of He et al. (1502.01852): every kernel,
recurrent ones included, is drawn from a normal distribution with variance
2 / fan_in, truncated at two standard deviations, as Keras does. Biases start
at 0, those of an LSTM's forget gate at 1. Dropout follows the encoder's states
and every layer but the last.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf


class Head(keras.layers.Layer):
    """A head on an encoder: float32 logits.

    A subclass creates all its layers in its constructor, by the `build_`
    methods: each kernel's seed follows from the order of creation. It sets
    `pooling` and `texts_per_example` on the class, since they are read before
    a head is built.

    Args:
        units: Output units.
        hidden: Width of the encoder's states.
        dropout: Rate after the encoder's states and every layer but the last.
        seed: Of the initial weights; the seed of each kernel derives from it.
        dtype: Policy in which all but the logits is computed.
        jit_compile: Whether the head will run inside XLA. XLA has no cuDNN,
            so that LSTMs on a GPU then do without it.
        **kwargs: Of `keras.layers.Layer`, such as `name`.

    Attributes:
        pooling: What it reads of a text: `tokens`, the states of all tokens
            and their mask; `cls`, [CLS] through the encoder's pooler; or
            `cls_state`, [CLS] as the last block leaves it.
        further_inputs: Names of what else it is called with: `embedded`, the
            encoder's embeddings; `ids` and `mask`, of the tokens.
        texts_per_example: 2 where the encoder runs each text of a pair by
            itself, else 1. A batch then holds the first texts of all its
            examples, followed by the second ones.
    """

    pooling: str = "tokens"
    further_inputs: tuple[str, ...] = ()
    texts_per_example: int = 1

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        jit_compile: bool = False,
        **kwargs: Any,
    ) -> None:
        # The layers inside cast what they read; norms and sums stay float32.
        super().__init__(dtype=dtype, autocast=False, **kwargs)
        self.units = units
        self.hidden = hidden
        self._seed = seed
        self._initializers = 0
        self._use_cudnn = False if jit_compile else "auto"
        # One layer serves everywhere: each call draws a new mask.
        self.dropout = keras.layers.Dropout(
            dropout, dtype=self.dtype_policy, name="dropout"
        )
        self.built = True

    # === Building ===

    def next_initializer(self) -> keras.initializers.Initializer:
        """Kaiming initialisation with the next derived seed."""
        self._initializers += 1
        sequence = np.random.SeedSequence([self._seed, self._initializers])
        return keras.initializers.HeNormal(int(sequence.generate_state(1)[0]))

    def build_layer(
        self, layer: keras.layers.Layer, width: int
    ) -> keras.layers.Layer:
        """Builds a layer that reads vectors of `width`, and returns it."""
        with keras.name_scope(self.name):
            layer.build((None, None, width))
        return layer

    def build_dense(
        self, width: int, units: int, name: str, **kwargs: Any
    ) -> keras.layers.Dense:
        """A dense layer that reads vectors of `width`.

        Args:
            width: Of the vectors.
            units: Output units.
            name: Of the layer; part of the names of its weights.
            **kwargs: Of `keras.layers.Dense`.
        """
        kwargs.setdefault("dtype", self.dtype_policy)
        layer = keras.layers.Dense(
            units,
            kernel_initializer=self.next_initializer(),
            name=name,
            **kwargs,
        )
        return self.build_layer(layer, width)

    def build_logits(self, width: int) -> keras.layers.Dense:
        """The last layer: half-precision logits would coarsen the loss."""
        return self.build_dense(width, self.units, "logits", dtype="float32")

    def build_bilstm(
        self, width: int, units: int, name: str, return_sequences: bool = True
    ) -> keras.layers.Bidirectional:
        """A bidirectional LSTM.

        Its two directions start at the first and at the last token of a text.
        It skips padding, where it returns zeros.

        Args:
            width: Of the vectors that it reads.
            units: Of each direction.
            name: Of the layer; part of the names of its weights.
            return_sequences: Whether it returns the states of all tokens,
                float [batch, length, 2 * units], or only the last state of
                each direction, float [batch, 2 * units].
        """

        def build_lstm(name: str, **kwargs: Any) -> keras.layers.LSTM:
            return keras.layers.LSTM(
                units,
                kernel_initializer=self.next_initializer(),
                recurrent_initializer=self.next_initializer(),
                return_sequences=return_sequences,
                use_cudnn=self._use_cudnn,
                dtype=self.dtype_policy,
                name=name,
                **kwargs,
            )

        # From a single layer, Keras would give both directions equal seeds.
        layer = keras.layers.Bidirectional(
            build_lstm("lstm"),
            backward_layer=build_lstm("backward_lstm", go_backwards=True),
            dtype=self.dtype_policy,
            name=name,
        )
        return self.build_layer(layer, width)


def max_pool(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Maximum over the tokens that are not padding.

    Args:
        x: float [batch, length, width].
        mask: bool [batch, length].

    Returns:
        float [batch, width].
    """
    real = tf.where(mask[:, :, None], x, x.dtype.min)
    return tf.reduce_max(real, axis=1)
