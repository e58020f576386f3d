"""keras-nlp's own classifier and `fit`, with the same blocks frozen."""

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import keras
import keras_nlp
import numpy as np

from tf_transfer.config import settings as settings_lib
from tf_transfer.data import batches
from tf_transfer.models import (
    encoder as encoder_lib,
    freezing,
    network as network_lib,
)


def build(
    encoder: encoder_lib.Encoder,
    trainable: freezing.Trainable,
    classes: int,
    settings: settings_lib.Settings,
) -> keras.Model:
    """Returns a compiled keras-nlp classifier on an encoder of its own."""
    family = {"bert": "Bert", "roberta": "Roberta"}[encoder.family]
    classifier = getattr(keras_nlp.models, f"{family}TextClassifier")(
        encoder.backbone, num_classes=classes, dropout=settings.head_dropout
    )
    # A network of the encoder and its pooler: only to freeze them as ours does.
    reader: Any = types.SimpleNamespace(pooling="cls", weights=[])
    freezing.freeze(network_lib.Network(encoder, {"": reader}), trainable)
    classifier.compile(
        keras.optimizers.AdamW(
            settings.lr,
            weight_decay=settings.weight_decay,
            global_clipnorm=settings.clip_norm or None,
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=settings.uses_xla,
    )
    return classifier


def make_epoch(
    classifier: keras.Model,
    encoder: encoder_lib.Encoder,
    split: batches.EncodedSplit,
    plan: batches.BatchPlan,
    lengths: int | np.ndarray,
) -> Callable[[], object]:
    """Returns a function that trains the classifier for one epoch.

    Args:
        classifier: what `build` returned.
        encoder: the encoder inside it.
        split: the texts.
        plan: which of them make a batch.
        lengths: to how many tokens every batch is padded, or int [batches].
    """
    lengths = np.broadcast_to(lengths, plan.lengths.shape).astype(np.int32)

    def inputs_and_labels(batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        inputs = {"token_ids": batch["ids"], "padding_mask": batch["mask"]}
        if encoder.family == "bert":
            inputs["segment_ids"] = batch["segments"]
        return inputs, batch["labels"]

    dataset = batches.pipeline(
        split, dataclasses.replace(plan, lengths=lengths), encoder.special.pad
    ).map(inputs_and_labels)
    return lambda: classifier.fit(dataset, epochs=1, shuffle=False, verbose=0)
