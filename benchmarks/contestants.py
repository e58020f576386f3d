"""The contestants of a benchmark: our training, and that of other libraries."""

import dataclasses
import functools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks import (
    CACHED,
    HUGGING_FACE,
    hugging_face,
    LIVE,
    measuring,
)
from tf_transfer.config import settings as settings_lib
from tf_transfer.data import batches
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.feature_cache.feature_cache import FeatureCache
from tf_transfer.glue import experiment as glue
from tf_transfer.models import (
    cost,
    dropout,
    encoder as encoder_lib,
    freezing,
    loading,
)
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.training import joint, steps
from tf_transfer.training.objectives import Objective, TrainingOptions
from tf_transfer.training.optimizer import AdamOptions, BertAdam


class Contestants:
    """The data of one measurement, our network, and its contestants.

    Each `make_` method returns a function that trains one epoch. Optimizers
    and programs are made in its first call, as PyTorch's moments are.

    Args:
        settings: Resolved.

    Attributes:
        plan: The batches of an epoch of ours.
        texts: The training texts of the task; an epoch reads some of them.
        cache_build: Of the cache that `make_cached_epoch` has built,
            `build_seconds`, of these `compile_seconds`, `bytes` and `engine`;
            None before that.
        trained_parameters: Scalars that train in the epoch made last.
    """

    def __init__(self, settings: measuring.BenchmarkSettings) -> None:
        self.settings = settings
        self.experiment = glue.Glue(settings)
        self.task = self.experiment.data.task
        self.devices = self.experiment.set_up_devices()
        self.network, [phase], _ = self.experiment.build(
            self.devices, load_encoder(settings, settings.shape)
        )
        [objective] = phase.objectives
        self.texts = objective.train
        self.objective = dataclasses.replace(
            objective,
            train=sample_all_lengths(objective.train, settings.examples),
            evaluation={},
        )
        self.trainable = phase.trainable
        self.network.seeds = dropout.DropoutSeeds(
            self.network.layers, settings.seed
        )
        self.shape = hugging_face.find_shape(self.network.encoder)
        self.classes = len(self.task.labels or ())
        self.cache_build: dict[str, Any] | None = None
        self.trained_parameters = 0
        self.plan = self._plan(settings.batching, self.devices.replicas)

    def epochs(self) -> dict[str, Callable[[], object]]:
        """Returns a dict from each name to a function that trains one epoch."""
        epochs = {LIVE: self.make_live_epoch()}
        if self.settings.runs_cached:
            epochs[CACHED] = self.make_cached_epoch(self.texts)
        if hugging_face.is_installed():
            epochs[HUGGING_FACE] = self.make_hugging_face_epoch()
        else:
            print("Hugging Face is left out: pip install -e '.[peers]'.")
        return epochs

    def operations(self, cached: bool) -> float:
        """Returns the floating-point operations of an epoch of ours."""
        rows = self.plan.rows.shape[1]
        return rows * sum(
            cost.count_training(
                self.shape,
                length,
                self.settings.pooling == "cls",
                self.trainable,
                cached,
            )
            for length in self.plan.lengths.tolist()
        )

    def _plan(self, batching: str, replicas: int = 1) -> batches.BatchPlan:
        settings = self.settings
        return batches.plan_epoch(
            self.objective.train.lengths,
            settings.batch_size,
            batching,
            settings.seed,
            1,
            replicas,
            batches.buckets_up_to(settings.max_length, settings.uses_xla),
        )

    def make_live_epoch(self) -> Callable[[], object]:
        """Our training, with the frozen blocks run at every step."""
        return self._make_our_epoch(self.objective)

    def _make_our_epoch(
        self, objective: Objective, prefix: FrozenPrefix | None = None
    ) -> Callable[[], object]:
        self.trained_parameters = freezing.count_trained(
            self.network, self.trainable
        )

        @functools.cache
        def build() -> steps.Pass:
            settings = self.settings
            adam = settings_lib.pick(AdamOptions, settings)
            weights = freezing.freeze(self.network, self.trainable)
            with self.devices.strategy.scope():
                optimizer = BertAdam(
                    weights, lambda step: tf.constant(settings.lr), adam
                )
            program = steps.ObjectiveProgram(
                self.network,
                dataclasses.replace(objective, prefix=prefix),
                self.devices,
                optimizer,
                settings_lib.pick(TrainingOptions, settings, adam=adam),
            )
            return steps.Pass([program], joint.Sum())

        plan = joint.JointPlan([self.plan], self.plan.counts)
        return lambda: [*build().train(plan)]

    def make_cached_epoch(
        self, stored: EncodedSplit | None = None
    ) -> Callable[[], object]:
        """Our training from the frozen blocks' cached output, built here.

        Args:
            stored: The texts to build; None for those of the epoch.
        """
        folder = tempfile.TemporaryDirectory(prefix="tf_transfer-benchmark-")
        read = self.objective.train
        start = time.perf_counter()
        options = self.experiment.cache_options()
        assert options is not None
        cache = FeatureCache(
            self.network.encoder,
            self.devices,
            dataclasses.replace(options, folder=folder.name),
        )
        prefix = self.network.prefix(
            self.task.name, self.trainable, self.settings.cache_dtype
        )
        _, built = cache.attach(prefix, {"train": stored or read})
        seconds = time.perf_counter() - start
        [entry] = cache.store.entries()
        self.cache_build = {
            "build_seconds": seconds,
            "compile_seconds": built.traced,
            "bytes": entry.num_bytes,
            "engine": " ".join(cache.engine),
        }
        splits, _ = cache.attach(prefix, {"train": read})
        objective = dataclasses.replace(self.objective, train=splits["train"])
        self._folder = folder  # lives as long as it is read
        return self._make_our_epoch(objective, prefix)

    def make_hugging_face_epoch(self) -> Callable[[], object]:
        """Transformers on PyTorch, with peft if the method is `lora`."""
        settings, encoder = self.settings, self.network.encoder
        model, optimizer = hugging_face.build(
            encoder, self.trainable, self.classes, settings
        )
        self.trained_parameters = sum(
            weight.numel()
            for weight in model.parameters()
            if weight.requires_grad
        )
        return hugging_face.make_epoch(
            model,
            optimizer,
            encoder,
            self.objective.train,
            self._plan("grouped"),
            settings,
        )


def load_encoder(
    settings: settings_lib.Settings, shape: str
) -> encoder_lib.Encoder:
    """Loads the encoder of a run, or makes a random one with its vocabulary.

    Args:
        settings: Resolved.
        shape: Blocks and width, such as 12x768; empty for that of the model.
    """
    options = (settings.dropout, settings.dtype_policy, settings.seed)
    encoder = loading.load(settings.model, settings.cache_folder, *options)
    if not shape:
        return encoder
    blocks, hidden = measuring.parse_shape(shape)
    dropout, dtype, seed = options
    # Random weights serve to measure time; attention heads have width 64.
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(encoder.tokenizer.vocabulary),
        num_layers=blocks,
        num_heads=hidden // 64,
        hidden_dim=hidden,
        intermediate_dim=4 * hidden,
        dropout=dropout,
        dtype=dtype,
        max_sequence_length=encoder.max_positions,
    )
    return encoder_lib.Encoder(backbone, encoder.tokenizer, seed)


def sample_all_lengths(split: EncodedSplit, count: int) -> EncodedSplit:
    """Returns `count` texts of a split, evenly spaced by length."""
    order = np.argsort(split.lengths, kind="stable")
    count = min(count, len(order))
    rows = np.sort(
        order[np.linspace(0, len(order) - 1, count).round().astype(int)]
    )
    return split.take(rows)
