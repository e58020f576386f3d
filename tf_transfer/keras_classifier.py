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
import hashlib
import json
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import keras_nlp
import numpy as np
import tensorflow as tf
import tqdm

from tf_transfer.feature_cache import rows as rows_lib
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.models import freezing

BACKBONES = (keras_nlp.models.BertBackbone, keras_nlp.models.RobertaBackbone)
# Their heads read the state of the first token alone.
CLS_CLASSIFIERS = (
    keras_nlp.models.BertTextClassifier,
    keras_nlp.models.RobertaTextClassifier,
)
BATCH_TOKENS = 16384  # of a batch that the prefix is run on, padding included
# Cached batches are padded to a multiple of it: XLA compiles for each length.
LENGTH_STEP = 32


class FrozenPrefix(keras.Model):
    """The frozen bottom of a classifier: always in inference mode.

    Takes the classifier's preprocessed inputs, each int32 [batch, length], and
    returns a dict of `hidden_states`, float [batch, length, hidden], and
    `padding_mask`, int32 [batch, length]. Made by `split`.

    Attributes:
        preprocess: function of (texts, y, sample_weight) to (inputs, y,
            sample_weight), or None where the classifier has no preprocessor.
        cls_only: whether what is above reads the first token's state alone.
    """

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        preprocess: Callable | None = None,
        cls_only: bool = False,
    ):
        super().__init__(inputs=inputs, outputs=outputs, name="frozen_prefix")
        self.preprocess = preprocess
        self.cls_only = cls_only

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Runs the frozen layers without dropout, whatever `training` is."""
        return super().call(inputs, training=False, mask=mask)


# === Freezing ===


def freeze_all_but_last(classifier: keras.Model, k: int | str) -> None:
    """Freezes embeddings and all blocks but the last k, layer by layer.

    The last k blocks, the pooler and the head train; so does everything with
    "all". Layers that were frozen before are set anew. Keras notices a change
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
    _check_count("k", k, len(blocks), all_allowed=True)
    trainable = list(blocks if k == "all" else blocks[len(blocks) - int(k) :])
    if isinstance(backbone, keras_nlp.models.BertBackbone):
        trainable.append(backbone.pooled_dense)
    # The models first: a frozen parent would win over its layers.
    freezing.set_trainable(classifier, True)
    for layer in backbone.layers:
        freezing.set_trainable(
            layer, k == "all" or any(layer is other for other in trainable)
        )


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
        suffix: functional Keras model of that dict to what the classifier
            puts out, [batch, classes]. It is not compiled.

    Raises:
        TypeError, ValueError: an argument that does not fit.
    """
    backbone = _find_backbone(classifier)
    blocks = backbone.transformer_layers
    _check_count("trainable_layers", trainable_layers, len(blocks))
    freeze_all_but_last(classifier, trainable_layers)

    cut = len(blocks) - trainable_layers
    top_of_prefix = blocks[cut - 1] if cut else backbone.embeddings_dropout
    inputs = _new_inputs(classifier.input)
    states = []

    def call_inside_backbone(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if layer is backbone:
            return _call_again(backbone, args[0], call_inside_backbone)
        outputs = layer(*args, **kwargs)
        if layer is top_of_prefix:
            states.append(outputs)
        return outputs

    outputs = _call_again(classifier, inputs, call_inside_backbone)
    boundary = {
        "hidden_states": states[0],
        "padding_mask": inputs["padding_mask"],
    }
    preprocess = None
    if getattr(classifier, "preprocessor", None) is not None:
        preprocess = classifier.preprocess_samples
    # A subclass may read what it likes.
    cls_only = not trainable_layers and type(classifier) in CLS_CLASSIFIERS
    prefix = FrozenPrefix(inputs, boundary, preprocess, cls_only)
    # The layers above the boundary, on inputs that bear its names.
    above = keras.Model(list(boundary.values()), outputs)
    inputs = _new_inputs(boundary)
    outputs = _call_again(above, list(inputs.values()))
    return prefix, keras.Model(inputs, outputs, name="suffix")


def _find_backbone(classifier: keras.Model) -> Any:
    """The backbone of a classifier, checked."""
    if not isinstance(classifier, keras.Model):
        raise TypeError(
            "classifier: expected a Keras model, got "
            f"{type(classifier).__name__}"
        )
    backbones = [
        layer
        for layer in getattr(classifier, "layers", [])
        if isinstance(layer, BACKBONES)
    ]
    if len(backbones) != 1:
        raise TypeError(
            "classifier: expected a keras-hub BERT or RoBERTa text classifier, "
            "or a functional model in which a BertBackbone or RobertaBackbone "
            "is called once, as in `backbone(backbone.input)`; got "
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
    argument: str, value: Any, blocks: int, all_allowed: bool = False
) -> None:
    """Checks a number of blocks."""
    if all_allowed and value == "all":
        return
    or_all = ' or "all"' if all_allowed else ""
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


def _new_inputs(tensors: dict[str, Any]) -> dict[str, Any]:
    """Inputs of the shapes, dtypes and names of a dict of tensors."""
    return {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in tensors.items()
    }


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


@dataclasses.dataclass
class _Examples:
    """What a dataset yields, without padding, one example after the other.

    Attributes:
        inputs: dict of int32 [tokens of all examples].
        lengths: int64 [examples]. Tokens of each.
        stored: int64 [examples]. How many of their states are stored.
        targets: (y,) or (y, sample_weight), arrays of [examples, ...].
        batch_sizes: int64 [batches]. Examples of each batch.
    """

    inputs: dict[str, np.ndarray]
    lengths: np.ndarray
    stored: np.ndarray
    targets: tuple
    batch_sizes: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """int64 [examples]. Each one's first token."""
        return np.cumsum(self.lengths) - self.lengths

    def hashes(self) -> list[bytes]:
        """What the examples are known by in the store: 16 bytes each."""
        found = []
        for start, length in zip(self.starts.tolist(), self.lengths.tolist()):
            digest = hashlib.blake2b(digest_size=16)
            for name in sorted(self.inputs):
                tokens = self.inputs[name][start : start + length]
                digest.update(tokens.tobytes())
            found.append(digest.digest())
        return found

    def pad(self, examples: np.ndarray) -> dict[str, np.ndarray]:
        """Inputs of some examples, int32 [examples, longest of them]."""
        lengths = self.lengths[examples, None]
        position = np.arange(lengths.max())
        mask = position < lengths
        index = np.where(mask, self.starts[examples, None] + position, 0)
        padded = {
            name: np.where(mask, flat[index], 0)
            for name, flat in self.inputs.items()
        }
        return {**padded, "padding_mask": mask.astype(np.int32)}


def cache_features(
    prefix: FrozenPrefix,
    dataset: tf.data.Dataset,
    cache_dir: str | os.PathLike,
    dtype: str = "float16",
    shuffle: bool = False,
    seed: int | None = None,
    limit_gb: float | None = None,
) -> tf.data.Dataset:
    """Runs the prefix once over a dataset, and stores what it puts out.

    Stored are the hidden states of real tokens, not of padding, under a hash
    of the prefix (weights, configuration, versions of Keras) and of each
    example's tokens; of a keras-hub classifier with `trainable_layers=0` that
    of the first token, which is all that its head reads. Whatever is there
    already, from this dataset or another one, is read from disk, and the prefix
    does not run for it.

    The dataset is iterated once, here; its labels are held in memory, and the
    states are mapped from the file as they are needed.

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
            rounded. 2, 2 or 4 bytes x hidden size x tokens on disk.
        shuffle: whether batches are drawn anew from all examples in every
            epoch, each of the size of the dataset's first batch. If not, the
            batches are the dataset's, in their order.
        seed: of the shuffling.
        limit_gb: what the folder may take, in GB; None: half of the free disk,
            50 GB at most. The states of other prefixes make room, the least
            recently used first, unless a dataset still reads them.

    Returns:
        Dataset of (features, y) or (features, y, sample_weight). Features are
        a dict of `hidden_states`, `dtype` [batch, length, hidden], zero on
        padding, and `padding_mask`, int32 [batch, length], padded to the next
        multiple of 32 tokens; or of length 1, the first token.

    Raises:
        TypeError, ValueError: an argument that does not fit; states that are
            too large for `dtype` or, together, for the limit.
        OSError: the disk is full. What was stored so far stays.
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
    examples = _read(_preprocess(prefix, dataset), prefix)
    store = store_lib.Store(
        os.path.join(os.fspath(cache_dir), "keras_classifier")
    )
    entry = store.open(_key(prefix, dtype), prefix.name)
    try:
        indices = _fill(store, entry, prefix, examples, dtype, limit_gb)
        features = _read_batches(entry, examples, indices, dtype, shuffle, seed)
    except store_lib.DiskFull as error:
        entry.close()
        raise OSError(
            errno.ENOSPC, "cache_dir: the disk is full", str(cache_dir)
        ) from error
    except BaseException:
        entry.close()
        raise
    features.entry = entry  # in use as long as the dataset
    return features


def _key(prefix: FrozenPrefix, dtype: str) -> dict[str, Any]:
    """Everything that shapes what the prefix puts out for an example."""
    digest = hashlib.sha256()
    for layer in prefix.layers:
        config = json.dumps(layer.get_config(), sort_keys=True, default=str)
        digest.update(f"{type(layer).__name__} {config}".encode())
    for weight in prefix.weights:
        values = np.ascontiguousarray(keras.ops.convert_to_numpy(weight))
        digest.update(f"{values.dtype} {values.shape}".encode())
        digest.update(values.tobytes())
    return {
        "prefix": digest.hexdigest(),
        "versions": [keras.__version__, keras_nlp.__version__],
        "dtype": dtype,
        "cls_only": prefix.cls_only,
        "hidden": int(prefix.output["hidden_states"].shape[-1]),
    }


def _preprocess(
    prefix: FrozenPrefix, dataset: tf.data.Dataset
) -> tf.data.Dataset:
    """A checked dataset of the prefix's inputs."""
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"dataset: expected a tf.data.Dataset, got {type(dataset).__name__}"
        )
    element = dataset.element_spec
    if not isinstance(element, tuple) or len(element) not in (2, 3):
        raise TypeError(
            "dataset: expected one of (x, y) or (x, y, sample_weight), got "
            f"{element}"
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
    return dataset


def _read(dataset: tf.data.Dataset, prefix: FrozenPrefix) -> _Examples:
    """Iterates over a dataset once."""
    names = [name for name in prefix.input if name != "padding_mask"]
    flat: dict[str, list[np.ndarray]] = {name: [] for name in names}
    lengths, targets = [], []
    for inputs, *target in _without_autotuning(dataset):
        mask = np.asarray(inputs["padding_mask"]) != 0
        lengths.append(mask.sum(axis=1, dtype=np.int64))
        position = np.arange(mask.shape[1])
        if (mask != (position < lengths[-1][:, None])).any() or (
            lengths[-1] == 0
        ).any():
            raise ValueError(
                "dataset: padding_mask must be 1 on the tokens of a text, at "
                "least one, and 0 on the padding behind them"
            )
        for name in names:
            values = np.asarray(inputs[name], np.int32)
            flat[name].append(values[mask])
        targets.append(tf.nest.map_structure(np.asarray, tuple(target)))
    if not lengths:
        raise ValueError("dataset: is empty")
    tokens = np.concatenate(lengths)
    return _Examples(
        {name: np.concatenate(arrays) for name, arrays in flat.items()},
        tokens,
        np.minimum(tokens, 1) if prefix.cls_only else tokens,
        tf.nest.map_structure(lambda *x: np.concatenate(x), *targets),
        np.array([len(batch) for batch in lengths]),
    )


def _fill(
    store: store_lib.Store,
    entry: store_lib.Entry,
    prefix: FrozenPrefix,
    examples: _Examples,
    dtype: str,
    limit_gb: float | None,
) -> np.ndarray:
    """Stores the examples that are missing, and returns all their indices."""
    hashes = examples.hashes()
    indices, _ = entry.find_intact(hashes)
    if (indices >= 0).all() and not entry.unreadable:
        return indices
    with entry.build_lock(print):
        entry.load()  # another process may have stored them meanwhile
        indices, _ = entry.find_intact(hashes)
        entry.remove_unreadable()
        missing: dict[bytes, int] = {}
        for example in np.flatnonzero(indices < 0).tolist():
            missing.setdefault(hashes[example], example)
        wanted = np.array([*missing.values()], np.int64)
        size = int(examples.stored[wanted].sum()) * entry.vector_bytes
        room = store.make_room(size, limit_gb, {entry.folder})
        if room < size:
            raise ValueError(
                f"limit_gb: the states of {len(wanted)} examples take "
                f"{size / store_lib.GB:.3g} GB, and there is room for "
                f"{room / store_lib.GB:.3g} in {store.folder}. Raise it, or "
                "give another cache_dir"
            )
        segment = rows_lib.Segment(entry)
        for example, states in _run(prefix, examples, wanted, dtype):
            segment.add(hashes[example], states, 0.0)
        segment.commit()
    return entry.find(hashes)


def _run(
    prefix: FrozenPrefix, examples: _Examples, wanted: np.ndarray, dtype: str
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (example, `dtype` [length, hidden]), the longest first."""
    signature = {
        name: tf.TensorSpec([None, None], tf.int32) for name in prefix.input
    }
    program = tf.function(
        lambda inputs: tf.cast(prefix(inputs)["hidden_states"], dtype),
        input_signature=[signature],
        autograph=False,
    )
    lengths = examples.lengths
    wanted = wanted[np.argsort(-lengths[wanted], kind="stable")]
    with tqdm.tqdm(
        total=int(lengths[wanted].sum()),
        desc="running the frozen blocks once",
        unit=" tokens",
        unit_scale=True,
        leave=False,
        disable=None,
        file=sys.stderr,
    ) as bar:
        begin = 0
        while begin < len(wanted):
            size = max(1, BATCH_TOKENS // lengths[wanted[begin]])
            batch = wanted[begin : begin + size]
            states = program(examples.pad(batch)).numpy()
            for example, values in zip(batch.tolist(), states):
                values = values[: examples.stored[example]]
                if not np.isfinite(values.astype(np.float32)).all():
                    raise ValueError(
                        f"dtype={dtype!r}: the hidden states of example "
                        f"{example} are not finite or too large for it; "
                        "bfloat16 and float32 hold larger ones"
                    )
                yield example, values
            bar.update(int(lengths[batch].sum()))
            begin += size


def _read_batches(
    entry: store_lib.Entry,
    examples: _Examples,
    indices: np.ndarray,
    dtype: str,
    shuffle: bool,
    seed: int | None,
) -> tf.data.Dataset:
    """The dataset that reads the states of its batches from the store."""
    with tf.device("CPU:0"):
        vectors = tf.raw_ops.ImmutableConst(  # mapped: nothing is read yet
            dtype=tf.as_dtype(dtype),
            shape=[entry.num_vectors, entry.hidden],
            memory_region_name=entry.vectors_file,
        )
        starts = tf.constant(entry.starts[indices])
        lengths = tf.constant(examples.stored)
        targets = tf.nest.map_structure(tf.constant, examples.targets)

    step = LENGTH_STEP if examples.stored.max() > 1 else 1

    def gather(batch: tf.Tensor) -> tuple:
        length = tf.gather(lengths, batch)
        longest = -(-tf.reduce_max(length) // step) * step
        mask = tf.sequence_mask(length, longest)
        index = tf.gather(starts, batch)[:, None] + tf.range(longest)
        states = tf.gather(vectors, tf.where(mask, index, 0))
        features = {
            "hidden_states": tf.where(
                mask[:, :, None], states, tf.zeros([], states.dtype)
            ),
            "padding_mask": tf.cast(mask, tf.int32),
        }
        return features, *tf.nest.map_structure(
            lambda values: tf.gather(values, batch), targets
        )

    sizes = examples.batch_sizes
    if shuffle:
        count = len(examples.lengths)
        batches = tf.data.Dataset.range(count).shuffle(count, seed=seed)
        batches = batches.batch(sizes[0])
    else:
        ends = np.cumsum(sizes)
        batches = tf.data.Dataset.from_tensor_slices((ends - sizes, ends))
        batches = batches.map(tf.range)
    return _without_autotuning(
        batches.map(gather, num_parallel_calls=2, deterministic=True).prefetch(
            4
        )
    )


def _without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Without a thread that may sleep for a minute, and holds up the end."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
