"""Freeze, split and cache keras-hub text classifiers in your own Keras code.

A BERT or RoBERTa classifier whose lower blocks are frozen computes the same
hidden states in every epoch. Here they are computed once and stored:

    prefix, suffix = keras_classifier.split(classifier, trainable_layers=2)
    features = keras_classifier.cache_features(prefix, dataset, "cache")
    suffix.compile(keras.optimizers.AdamW(1e-3), loss, metrics=["accuracy"])
    suffix.fit(features, epochs=3)

`prefix` and `suffix` are the classifier's own layers, so that this trains the
classifier: `classifier.predict(texts)` uses the new weights. What is computed:

    hidden states = block cut (... block 1 (embeddings (ids)))    prefix
    logits = head (block L (... block cut + 1 (hidden states)))   suffix

with cut = L - trainable_layers. Dropout is off in the prefix.
"""

import dataclasses
import errno
import inspect
import os
from collections.abc import Callable
from typing import Any

import keras
import keras_nlp
import numpy as np
import tensorflow as tf

from tf_transfer.data import batches, tokens as tokens_lib
from tf_transfer.feature_cache import (
    cache as cache_lib,
    prefix as prefix_lib,
    store as store_lib,
)
from tf_transfer.models import encoder as encoder_lib, freezing
from tf_transfer.training import strategy

BACKBONES = (keras_nlp.models.BertBackbone, keras_nlp.models.RobertaBackbone)
# Their heads read the state of the first token alone; a subclass may read more.
CLS_CLASSIFIERS = (
    keras_nlp.models.BertTextClassifier,
    keras_nlp.models.RobertaTextClassifier,
)
# Cached batches are padded to a multiple of it: XLA compiles for each length.
LENGTH_STEP = 32
SEGMENT = 2**24  # above any token id: see `KerasEncoder`
# Its thread may sleep for a minute, and holds up the end of an iterator.
WITHOUT_AUTOTUNING = tf.data.Options()
WITHOUT_AUTOTUNING.autotune.enabled = False


class FrozenPrefix(keras.Model):
    """The frozen bottom of a classifier: always in inference mode.

    Takes the classifier's preprocessed inputs, each int32 [batch, length], and
    returns a dict of `hidden_states`, float [batch, length, hidden], and
    `padding_mask`, int32 [batch, length]. Made by `split`.

    Attributes:
        encoder: the classifier's layers as `FeatureCache` runs them.
        stored: which of its states `FeatureCache` stores.
        preprocess: function of (texts, y, sample_weight) to (inputs, y,
            sample_weight), or None if the classifier has no preprocessor.
    """

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Runs the frozen layers without dropout, whatever `training` is."""
        return super().call(inputs, training=False, mask=mask)


class NoTokenizer:
    """In place of an encoder's tokenizer: the dataset has token ids."""

    special = tokens_lib.SpecialTokens(0, 0, 0, ())


class KerasEncoder(encoder_lib.Encoder):
    """A backbone as `FeatureCache` runs it, by Keras' own layers.

    The cache knows segments 0 and 1, one behind the other, and a dataset may
    have any. So an id here is token id + `SEGMENT` * segment id.
    """

    def embed(
        self, ids: tf.Tensor, segments: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """See `Encoder.embed`; `segments` is not read."""
        return super().embed(ids % SEGMENT, ids // SEGMENT, training)

    def run_blocks(
        self,
        x: tf.Tensor,
        mask: tf.Tensor,
        first: int,
        last: int,
        training: bool,
        cls_only: bool = False,
    ) -> tf.Tensor:
        """See `Encoder.run_blocks`; `cls_only` is not read."""
        for block in self.blocks[first - 1 : last]:
            x = block(x, padding_mask=mask, training=training)
        return x

    def hash_code(self) -> str:
        """See `Encoder.hash_code`; covers this class too."""
        return super().hash_code() + inspect.getsource(KerasEncoder)


# === Freezing ===


def freeze_all_but_last(classifier: keras.Model, k: int | str) -> None:
    """Freezes embeddings and all blocks but the last k, layer by layer.

    The last k blocks, the pooler and the head train; so does everything with
    "all". Layers that were frozen before are set again. Keras notices a change
    of `trainable` only when a model is compiled: compile it afterwards.

    Example:
        >>> keras_classifier.freeze_all_but_last(classifier, 2)
        >>> classifier.compile(keras.optimizers.AdamW(1e-3), loss)
        >>> classifier.fit(dataset, epochs=3)

    Args:
        classifier: a keras-hub text classifier, or a functional model that
            calls a BERT or RoBERTa backbone as one of its layers.
        k: number of blocks from 0 to L, or "all".

    Raises:
        TypeError, ValueError: an argument that does not fit.
    """
    backbone = _find_backbone(classifier)
    blocks = backbone.transformer_layers
    if k == "all":
        trainable = backbone.layers
    else:
        _check_count("k", k, len(blocks), ' or "all"')
        trainable = [
            *blocks[len(blocks) - int(k) :],
            getattr(backbone, "pooled_dense", None),
        ]
    # The models first: a frozen parent would win over its layers.
    freezing.set_trainable(classifier, True)
    for layer in backbone.layers:
        freezing.set_trainable(layer, layer in trainable)


# === Splitting ===


def split(
    classifier: keras.Model, trainable_layers: int
) -> tuple[FrozenPrefix, keras.Model]:
    """Freezes all but the last blocks, and splits a classifier above them.

    Both models share the classifier's layers: training the suffix trains the
    classifier. They can be split off again, at the same or another block.

    Example:
        >>> prefix, suffix = keras_classifier.split(classifier, 2)
        >>> suffix(prefix(classifier.preprocessor(texts)))  # its logits

    Args:
        classifier: see `freeze_all_but_last`.
        trainable_layers: int from 0 to L. How many blocks are above the cut.

    Returns:
        prefix: `FrozenPrefix`: inputs to a dict of `hidden_states`, float
            [batch, length, hidden], and `padding_mask`, int32 [batch, length].
        suffix: functional Keras model of that dict to the classifier's
            output, [batch, classes]. It is not compiled.

    Raises:
        TypeError, ValueError: an argument that does not fit.
    """
    backbone = _find_backbone(classifier)
    blocks = backbone.transformer_layers
    _check_count("trainable_layers", trainable_layers, len(blocks))
    freeze_all_but_last(classifier, trainable_layers)

    cut = len(blocks) - trainable_layers
    top = blocks[cut - 1] if cut else backbone.embeddings_dropout
    boundary = {
        "hidden_states": top.output,
        "padding_mask": backbone.input["padding_mask"],
    }
    prefix = FrozenPrefix(backbone.input, boundary, name="frozen_prefix")
    tokenizer: Any = NoTokenizer()
    prefix.encoder = KerasEncoder(backbone, tokenizer)
    reads_cls = not trainable_layers and type(classifier) in CLS_CLASSIFIERS
    prefix.stored = prefix_lib.FrozenPrefix(
        cut, "cls" if reads_cls else "tokens", "float16"
    )
    prefix.preprocess = getattr(classifier, "preprocessor", None) and (
        classifier.preprocess_samples
    )

    # First the classifier with its backbone's layers in place of the backbone;
    # then what is above the boundary, on inputs with its names.
    outputs = _call_again(
        classifier,
        backbone.input,
        lambda layer, *args, **kwargs: (
            backbone.output if layer is backbone else layer(*args, **kwargs)
        ),
    )
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in boundary.items()
    }
    outputs = _call_again(
        keras.Model([*boundary.values()], outputs), [*inputs.values()]
    )
    return prefix, keras.Model(inputs, outputs, name="suffix")


def _find_backbone(classifier: keras.Model) -> Any:
    """The backbone of a classifier, checked."""
    backbones = [
        layer
        for layer in getattr(classifier, "layers", [])
        if isinstance(layer, BACKBONES)
    ]
    if len(backbones) != 1:
        raise TypeError(
            "classifier: expected a Keras model: a keras-hub BERT or RoBERTa "
            "text classifier, or a functional model that calls a BertBackbone "
            "or RobertaBackbone once, as in `backbone(backbone.input)`; got "
            f"{type(classifier).__name__} with {len(backbones)} such layers"
        )
    [backbone] = backbones
    inputs = getattr(classifier, "input", None)
    if not isinstance(inputs, dict) or set(inputs) != set(backbone.input):
        raise ValueError(
            "classifier: its inputs must be those of its backbone, a dict of "
            f"{', '.join(sorted(backbone.input))}: build it on `backbone.input`"
        )
    return backbone


def _check_count(
    argument: str, value: Any, blocks: int, or_all: str = ""
) -> None:
    """Checks a number of blocks; `or_all` ends what messages allow."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{argument}: expected an int{or_all}, got {value!r}"
            + (
                ": where the embeddings train, there is no frozen prefix"
                if value == "all"
                else ""
            )
        )
    if not 0 <= value <= blocks:
        raise ValueError(
            f"{argument}={value}: this backbone has {blocks} blocks; give 0 "
            f"to {blocks}{or_all}"
        )


def _call_again(
    model: keras.Model,
    inputs: Any,
    call_function: Callable | None = None,
) -> Any:
    """Calls the layers of a functional model again, on other inputs.

    Args:
        model: its layers are shared, not copied.
        inputs: symbolic tensors in the structure of `model.input`.
        call_function: function of (layer, *args, **kwargs) that calls one.

    Returns:
        Symbolic tensors in the structure of `model.output`.
    """
    # A new model has no loss and optimizer, which would be copied too.
    return keras.models.clone_model(
        keras.Model(model.input, model.output),
        input_tensors=inputs,
        clone_function=lambda layer: layer,
        call_function=call_function,
    ).output


# === Caching ===


def cache_features(
    prefix: FrozenPrefix,
    dataset: tf.data.Dataset,
    cache_dir: str | os.PathLike,
    dtype: str = "float16",
    shuffle: bool = False,
    seed: int | None = None,
    limit_gb: float | None = None,
) -> tf.data.Dataset:
    """Runs the prefix once over a dataset, and stores its output.

    Only the hidden states of real tokens are stored, not those of padding. With
    `trainable_layers=0` a keras-hub classifier's head reads the first token
    alone, and only its state is stored. Their key is a hash of the prefix
    (weights, configuration, versions of Keras and TensorFlow) and of each
    example's tokens. States that are stored already, from this dataset or
    another one, are read from disk, and the prefix does not run for them.

    The dataset is iterated once, here. Its labels are held in memory; the
    states are mapped from the file.

    Example:
        >>> texts = tf.data.Dataset.from_tensor_slices((texts, labels))
        >>> features = keras_classifier.cache_features(
        ...     prefix, texts.batch(16), "cache", shuffle=True, seed=0
        ... )
        >>> suffix.fit(features, epochs=3)

    Args:
        prefix: from `split`.
        dataset: finite and batched; yields (x, y) or (x, y, sample_weight)
            with x a dict of the prefix's inputs, int [batch, length], padded
            at the end; or, where the classifier has a preprocessor, x what
            that takes: texts, string [batch], or a tuple of them.
        cache_dir: folder, made if there is none.
        dtype: `float16`, `bfloat16` or `float32`: to which the states are
            rounded, below every block too. They take 2, 2 or 4 bytes x hidden
            size x tokens on disk.
        shuffle: whether every epoch draws new batches from all examples, with
            the size of the dataset's first batch. If not, the batches are the
            dataset's, in their order.
        seed: seed of the shuffling.
        limit_gb: maximum size of the folder in GB; None for half of the free
            disk, 50 GB at most. The states of other prefixes make room, the
            least recently used first, unless a dataset still reads them.

    Returns:
        Dataset of (features, y) or (features, y, sample_weight). Features are
        a dict of `hidden_states`, `dtype` [batch, length, hidden], zero on
        padding, and `padding_mask`, int32 [batch, length], padded to the next
        multiple of 32 tokens; or of length 1, the first token.

    Raises:
        TypeError, ValueError: an argument is invalid; a state is too large for
            `dtype`; or not all states fit the limit. Those that fit stay.
        OSError: the disk is full or read-only. What was stored so far stays.
    """
    if not isinstance(prefix, FrozenPrefix):
        raise TypeError(
            "prefix: expected the first of the two models that `split` "
            f"returns, got {type(prefix).__name__}"
        )
    if dtype not in store_lib.BYTES:
        raise ValueError(
            f"dtype={dtype!r}: give one of {', '.join(store_lib.BYTES)}"
        )
    encoder = prefix.encoder
    texts, targets, sizes = _read(
        _preprocess(prefix, dataset), encoder.max_positions
    )
    cache = cache_lib.FeatureCache(
        encoder,
        strategy.single_device(),
        cache_lib.CacheOptions(
            os.path.join(os.fspath(cache_dir), "keras_classifier"),
            encoder.backbone.name,
            encoder.backbone.dtype_policy.name,
            limit_gb=limit_gb,
        ),
    )
    try:
        splits, _ = cache.attach(
            dataclasses.replace(prefix.stored, dtype=dtype),
            {"dataset": texts},
            needs_all=True,
        )
    except cache_lib.NotStored as error:
        cache.close()
        if error.__cause__:
            raise OSError(
                errno.ENOSPC, f"cache_dir: {error.__cause__}"
            ) from error
        raise ValueError(f"{error.option}: {error.problem}") from error
    features = _read_batches(splits["dataset"], targets, sizes, shuffle, seed)
    features.cache_in_use = cache  # its entry is in use like the dataset
    return features


def _preprocess(
    prefix: FrozenPrefix, dataset: tf.data.Dataset
) -> tf.data.Dataset:
    """A checked dataset of the prefix's inputs."""
    element = getattr(dataset, "element_spec", None)
    if not isinstance(element, tuple) or len(element) not in (2, 3):
        raise TypeError(
            "dataset: expected a tf.data.Dataset of (x, y) or (x, y, "
            f"sample_weight), got {element or type(dataset).__name__}"
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError("dataset: repeats without end; repeat the features")
    leaves = tf.nest.flatten(element[0])
    is_text = all(leaf.dtype == tf.string for leaf in leaves)
    if any(leaf.shape.rank == (0 if is_text else 1) for leaf in leaves):
        raise ValueError("dataset: not batched; give dataset.batch(16)")
    if is_text:
        if prefix.preprocess is None:
            raise TypeError(
                "dataset: yields texts, but the classifier has no "
                "preprocessor; map the texts to token ids first"
            )
        dataset = dataset.map(
            prefix.preprocess, num_parallel_calls=tf.data.AUTOTUNE
        )
    inputs = dataset.element_spec[0]
    if not isinstance(inputs, dict) or set(prefix.input) - set(inputs):
        raise ValueError(
            "dataset: x must be a dict of "
            f"{', '.join(sorted(prefix.input))}, got {inputs}"
        )
    return dataset.with_options(WITHOUT_AUTOTUNING)


def _read(
    dataset: tf.data.Dataset, max_positions: int
) -> tuple[batches.EncodedSplit, tuple, list[int]]:
    """Iterates over a dataset once.

    Returns:
        The texts without padding; (y,) or (y, sample_weight), arrays
        [examples, ...]; and the number of examples of each batch.
    """
    ids, lengths, targets = [], [], []
    for inputs, *target in dataset.as_numpy_iterator():
        mask = inputs["padding_mask"] != 0
        length = mask.sum(axis=1, dtype=np.int32)
        if (mask[:, 1:] > mask[:, :-1]).any() or not length.all():
            raise ValueError(
                "dataset: padding_mask must be 1 on the tokens of a text, at "
                "least one, and 0 on the padding behind them"
            )
        ids.append(
            (inputs["token_ids"] + SEGMENT * inputs.get("segment_ids", 0))[mask]
        )
        lengths.append(length)
        targets.append(tuple(target))
    if not lengths:
        raise ValueError("dataset: is empty")
    counts = np.concatenate(lengths)
    if counts.max() > max_positions:
        raise ValueError(
            f"dataset: a text has {counts.max()} tokens; this backbone takes "
            f"at most {max_positions}"
        )
    return (
        batches.EncodedSplit(
            tokens_lib.Tokens(
                np.concatenate(ids).astype(np.int32),
                np.cumsum(counts, dtype=np.int64) - counts,
                counts,
                counts,
            ),
            np.zeros(len(counts)),
            np.arange(len(counts)),
        ),
        tf.nest.map_structure(lambda *x: np.concatenate(x), *targets),
        [len(length) for length in lengths],
    )


def _read_batches(
    texts: batches.EncodedSplit,
    targets: tuple,
    sizes: list[int],
    shuffle: bool,
    seed: int | None,
) -> tf.data.Dataset:
    """The dataset that reads the states of its batches from the cache."""
    states: Any = texts.states
    step = 1 if states.is_pooled else LENGTH_STEP
    stored = np.where(states.is_pooled, 1, texts.tokens.lengths)
    with tf.device("CPU:0"):
        starts, lengths, targets = tf.nest.map_structure(
            tf.constant, (states.starts, stored.astype(np.int64), targets)
        )

    def gather(examples: tf.Tensor) -> tuple:
        start = tf.gather(starts, examples)
        length = tf.gather(lengths, examples)
        longest = -(-tf.reduce_max(length) // step) * step
        vectors = tf.gather(
            states.tensor, tf.ragged.range(start, start + length)
        )
        return (
            {
                "hidden_states": vectors.to_tensor(  # 0 on padding
                    shape=[-1, longest, vectors.shape[-1]]
                ),
                "padding_mask": tf.sequence_mask(length, longest, tf.int32),
            },
            *tf.nest.map_structure(
                lambda values: tf.gather(values, examples), targets
            ),
        )

    order = tf.data.Dataset.range(len(texts))
    if shuffle:
        order = order.shuffle(len(texts), seed=seed).batch(sizes[0])
    else:
        order = tf.data.Dataset.from_tensor_slices(
            tf.RaggedTensor.from_row_lengths(tf.range(len(texts)), sizes)
        )
    return (
        order.map(gather, num_parallel_calls=2, deterministic=True)
        .prefetch(4)
        .with_options(WITHOUT_AUTOTUNING)
    )
