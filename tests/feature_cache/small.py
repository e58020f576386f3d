"""A small encoder, its texts, and a feature cache over them: no run at all."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tf_transfer.data import batches, tokens
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.feature_cache import (
    feature_cache as cache_lib,
    store as store_lib,
)
from tf_transfer.models import freezing, loading, network as network_lib, tiny
from tf_transfer.models.heads import pooled
from tf_transfer.models.prefix import FrozenPrefix

LENGTH = 24
TRAIN, TEST = 24, 10  # texts
# Most of the time of a build goes into tracing: no block, no time.
PREFIX = FrozenPrefix(0, "tokens", "float32")


@functools.cache
def encoder(blocks=2, dropout=0.0, precision="float32"):
    """`tiny` with so many blocks. Shared: leave its weights as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", blocks)
        return loading.load("tiny", "", dropout, precision)


@functools.cache
def split(name, per_example=1):
    """24 `train` or 10 `test` examples of one or two texts, with labels.

    Two test texts are training texts.
    """
    rng = np.random.default_rng([7, len(name), per_example])
    count = {"train": TRAIN, "test": TEST}[name]
    columns = [
        [
            " ".join(rng.choice(tiny.WORDS, rng.integers(2, LENGTH)))
            for _ in range(count)
        ]
        for _ in range(per_example)
    ]
    if name == "test" and per_example == 1:
        columns[0][:2] = ["the dog is in the house", "no"]
    if name == "train" and per_example == 1:
        columns[0][5:7] = ["no", "the dog is in the house"]
    special = encoder().special
    encoded = tokens.concatenate(
        [
            tokens.encode(encoder().tokenizer.encode, special, [column], LENGTH)
            for column in columns
        ]
    )
    labels = rng.integers(0, 2, count)
    return EncodedSplit(
        encoded, labels, 100 + np.arange(count), texts_per_example=per_example
    )


def splits(train=TRAIN):
    """Both splits, or the first training examples and all test examples."""
    return {
        "train": split("train").take(np.arange(train)),
        "test": split("test"),
    }


# === Attaching ===


class OneDevice:
    """What a cache asks of devices, here; records each build.

    Attributes:
        builds: how many texts each pass ran over.
    """

    replicas = 1

    def __init__(self):
        self.builds = []

    def run(self, program, dataset):
        self.builds.append(0)
        for batch in dataset:
            self.builds[-1] += int(np.count_nonzero(batch["weights"]))
            yield [output.numpy() for output in program(batch)]


@dataclasses.dataclass
class Attached:
    """What `attach` returned, and what it did.

    Attributes:
        prefix: as given.
        splits, cost: see `FeatureCache.attach`.
        builds: see `OneDevice`; OpenVINO's passes are not counted.
        engine: see `FeatureCache`.
    """

    prefix: FrozenPrefix
    splits: dict
    cost: cache_lib.BuildCost
    builds: list
    engine: tuple

    @property
    def states(self):
        """For each text of every split its stored vectors, or None."""
        return [
            states for split in self.splits.values() for states in stored(split)
        ]


def attach(
    folder,
    prefix=PREFIX,
    parts=None,
    encoder_used=None,
    is_stopped=lambda: False,
    **options,
):
    """Attaches a prefix to splits, as a run does before it trains."""
    devices = OneDevice()
    options = {"model": "tiny", "precision": "float32", **options}
    cache = cache_lib.FeatureCache(
        encoder_used or encoder(),
        devices,
        cache_lib.CacheOptions(str(folder), **options),
        is_stopped,
    )
    try:
        attached = cache.attach(prefix, parts or splits())
    finally:
        cache.close()
    return Attached(prefix, *attached, devices.builds, cache.engine)


def stored(split):
    """Yields each text's stored vectors, or None."""
    states = split.states
    vectors = np.asarray(states.vectors)
    for row, begin in enumerate(states.starts):
        count = 1
        if not states.is_pooled:
            count = states.num_cls + split.tokens.lengths[row]
        if states.is_stored[row]:
            yield vectors[begin : begin + count].copy()
        else:
            yield None


def assert_same_states(one, other):
    """That two caches gave the same vectors, to the last bit."""
    assert len(one.states) == len(other.states) > 0
    for here, there in zip(one.states, other.states):
        np.testing.assert_array_equal(here, there)


def entries(folder):
    """The entries of a cache, with their rows."""
    found = store_lib.Store(str(folder)).entries()
    for entry in found:
        entry.vectors.load()
    return found


# === Training ===


def network(encoder, pooling="cls", per_example=1):
    """A network of one head, one output unit, without dropout in the head."""
    head = pooled.PooledHead(
        1,
        pooled.pooled_width(pooling, encoder),
        pooling,
        0.0,
        0,
        "float32",
        texts_per_example=per_example,
        name="head",
    )
    return network_lib.Network(encoder, {"head": head})


def logits_of(network, batch, prefix=None, training=False):
    """Logits of a batch, from its states if there is a prefix."""
    if prefix is not None:
        states = prefix.complete(network.encoder, batch)
        batch = {"mask": batch["mask"], "states": states}
    return network.logits("head", batch, training, prefix)


def evaluate(network, split, prefix=None):
    """Logits of a split, of all examples in one batch."""
    plan = batches.plan_evaluation(split.lengths, len(split))
    [batch] = batches.pipeline(split, plan, network.encoder.special.pad)
    return logits_of(network, batch, prefix).numpy()


def train(
    network,
    trainable,
    split,
    prefix=None,
    examples=16,
    batch_size=8,
    grouped=False,
):
    """A few steps of gradient descent, eagerly.

    The weights are put back. Returns the loss of each step, and the logits of
    a whole split after the last.
    """
    weights = freezing.freeze(network, trainable)
    before = [weight.numpy() for weight in weights]
    variables = [weight.value for weight in weights]
    plan = batches.plan_epoch(
        split.lengths, batch_size, "grouped" if grouped else "random", 0, 1
    )
    dataset = batches.pipeline(split, plan, network.encoder.special.pad)
    losses = []
    for batch in dataset.take(examples // batch_size):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            logits = logits_of(network, batch, prefix, training=True)[:, 0]
            labels = tf.cast(batch["labels"], tf.float32)
            errors = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(errors * batch["weights"])
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(0.3 * gradient)
        losses.append(float(loss))
    logits = evaluate(network, split, prefix)
    for weight, value in zip(weights, before):
        weight.assign(value)
    return losses, logits
