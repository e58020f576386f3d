"""The private attributes of Keras and keras-hub that this package relies on.

Checked with Keras 3.15.1 and keras-hub 0.32.0. No other module touches an
attribute of theirs that begins with an underscore, or replaces a method. A
release that changes one makes `tests/models/keras_private_test.py` fail, and
`PrivateAttributeError` says which.
"""

import dataclasses
import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import keras_hub
import tensorflow as tf

CHECKED = "Keras 3.15.1 and keras-hub 0.32.0"


class PrivateAttributeError(Exception):
    """A private attribute is gone from the installed release."""


def _get(owner: Any, name: str) -> Any:
    if not hasattr(owner, name):
        keras_version, hub_version = map(
            importlib.metadata.version, ("keras", "keras-hub")
        )
        raise PrivateAttributeError(
            f"{type(owner).__name__} has no `{name}` in Keras {keras_version} "
            f"and keras-hub {hub_version}. This package was checked with "
            f"{CHECKED}: install those, or adapt models/keras_private.py."
        )
    return getattr(owner, name)


@dataclasses.dataclass(frozen=True)
class BlockLayers:
    """The layers of a `keras_hub.layers.TransformerEncoder`.

    Attributes:
        query, key, value: `EinsumDense`, kernel [hidden, heads, size] and
            bias [heads, size].
        attention_output: `EinsumDense`, kernel [heads, size, hidden] and bias
            [hidden].
        weights_dropout: Of attention weights; None where the rate is 0.
        attention_dropout, attention_norm: Behind the attention; the second is
            None in no block of keras-hub.
        inner, outer: `Dense`, hidden to intermediate and back.
        feedforward_dropout, feedforward_norm: Behind the feed-forward layers.
    """

    query: keras.layers.Layer
    key: keras.layers.Layer
    value: keras.layers.Layer
    attention_output: keras.layers.Layer
    weights_dropout: keras.layers.Layer | None
    attention_dropout: keras.layers.Layer
    attention_norm: keras.layers.Layer | None
    inner: keras.layers.Layer
    outer: keras.layers.Layer
    feedforward_dropout: keras.layers.Layer
    feedforward_norm: keras.layers.Layer


def block_layers(block: keras.layers.Layer) -> BlockLayers:
    """The layers of a transformer block that is built.

    Raises:
        PrivateAttributeError: The installed keras-hub has other names.
    """
    attention = _get(block, "_self_attention_layer")
    return BlockLayers(
        query=attention.query_dense,
        key=attention.key_dense,
        value=attention.value_dense,
        attention_output=attention.output_dense,
        weights_dropout=(
            _get(attention, "_dropout_layer") if attention.dropout > 0 else None
        ),
        attention_dropout=_get(block, "_self_attention_dropout"),
        attention_norm=_get(block, "_self_attention_layer_norm"),
        inner=_get(block, "_feedforward_intermediate_dense"),
        outer=_get(block, "_feedforward_output_dense"),
        feedforward_dropout=_get(block, "_feedforward_dropout"),
        feedforward_norm=_get(block, "_feedforward_layer_norm"),
    )


def flatten(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """A layer and every layer inside it, each once.

    Raises:
        PrivateAttributeError: The installed Keras has another name for it.
    """
    return list(_get(layer, "_flatten_layers")())


def replace_dropout(
    layers: Iterable[keras.layers.Layer], next_seed: Callable[..., tf.Tensor]
) -> None:
    """Makes every dropout layer draw its masks from other seeds.

    `keras.layers.Dropout` also draws them in another way: see `_drop`.

    Args:
        layers: The layers that hold, or are, dropout layers.
        next_seed: Called in place of `SeedGenerator.next`, with its argument
            `ordered`; returns an integer tensor [2].
    """
    for layer in layers:
        for inner in flatten(layer):
            generator = getattr(inner, "seed_generator", None)
            if not isinstance(generator, keras.random.SeedGenerator):
                continue
            generator.next = next_seed
            is_plain = type(inner) is keras.layers.Dropout
            if is_plain and inner.noise_shape is None:
                inner.call = functools.partial(_drop, inner.rate, next_seed)


def _drop(
    rate: float,
    next_seed: Callable[..., tf.Tensor],
    inputs: tf.Tensor,
    training: bool = False,
) -> tf.Tensor:
    """Dropout that decides each value by 16 random bits.

    TensorFlow's spends 32 bits on each value, and random bits are most of its
    time on a CPU. In bfloat16 it draws 7 bits: a rate of 0.1 drops 13 of 128
    values. Here the rate is rounded down to a multiple of 2^-16, in every
    precision; values that stay are scaled by the rounded rate.

    Args:
        rate: The share of values that become 0, in [0, 1).
        next_seed: See `replace_dropout`.
        inputs: float, of any shape.
        training: Whether dropout is active.
    """
    if not training:
        return inputs
    size = tf.size(inputs)
    words = tf.random.stateless_uniform(
        [(size + 1) // 2], next_seed(), None, None, tf.uint32
    )
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:size]
    bits = tf.reshape(bits, tf.shape(inputs))
    dropped = int(rate * 2**16)
    scaled = inputs * (2**16 / (2**16 - dropped))
    return tf.where(bits >= dropped, scaled, tf.zeros([], inputs.dtype))


def byte_pairs(
    vocabulary: Sequence[str], merges: Sequence[str], whole: Sequence[str]
) -> Any:
    """keras-hub's byte-pair tokeniser, for `merge_bytes`.

    Args:
        vocabulary: The tokens, by id.
        merges: The pairs of tokens that are joined.
        whole: Tokens that are not cut into bytes.
    """
    ids = {token: number for number, token in enumerate(vocabulary)}
    return keras_hub.tokenizers.BytePairTokenizer(
        ids, merges, unsplittable_tokens=list(whole)
    )


def merge_bytes(tokenizer: Any, words: tf.Tensor) -> tf.RaggedTensor:
    """Joins the bytes of words to tokens, with no further split of words.

    Args:
        tokenizer: What `byte_pairs` returned.
        words: String [words].

    Returns:
        int32 [words, (tokens)]; -1 for bytes that are not in the vocabulary.
    """
    cache, merge = (
        tokenizer.cache,
        _get(tokenizer, "_bpe_merge_and_update_cache_tf"),
    )
    merged = cache.lookup(words)
    is_new = merged == ""

    def merge_new() -> tf.Tensor:
        merge(tf.boolean_mask(words, is_new))
        return cache.lookup(words)

    merged = tf.cond(tf.reduce_any(is_new), merge_new, lambda: merged)
    return tokenizer.token_to_id_map.lookup(tf.strings.split(merged, sep=" "))
