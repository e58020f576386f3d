"""keras-nlp's own classifier and `fit`, with the same parts frozen."""

import dataclasses

import keras
import keras_nlp
import numpy as np

from tf_transfer.data import batches
from tf_transfer.models import freezing
from tf_transfer.models import network as network_lib


def build(encoder, trainable, classes, settings):
    """A compiled keras-nlp classifier on an encoder of its own."""
    kind = {"bert": "Bert", "roberta": "Roberta"}[encoder.family]
    classifier = getattr(keras_nlp.models, f"{kind}TextClassifier")(
        encoder.backbone, num_classes=classes, dropout=settings.head_dropout
    )
    # A network of the encoder and its pooler, for the pooler's sake.
    freezing.freeze(
        network_lib.Network(encoder, {}, uses_pooler=True), trainable
    )
    classifier.compile(
        keras.optimizers.AdamW(
            settings.lr,
            weight_decay=settings.weight_decay,
            global_clipnorm=settings.clip_norm or None,
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=settings.jit_compile,
    )
    return classifier


def epoch_of(classifier, encoder, part, plan, lengths):
    """A function that trains the classifier for one epoch.

    Args:
        part: `batches.Split`.
        plan: `batches.Plan`.
        lengths: int, or one for each batch: to which it is padded.
    """
    lengths = np.broadcast_to(lengths, plan.lengths.shape).astype(np.int32)

    def as_fit_wants(batch):
        inputs = {"token_ids": batch["ids"], "padding_mask": batch["mask"]}
        if encoder.family == "bert":
            inputs["segment_ids"] = batch["segments"]
        return inputs, batch["labels"]

    dataset = batches.pipeline(
        part, dataclasses.replace(plan, lengths=lengths), encoder.special.pad
    ).map(as_fit_wants)
    return lambda: classifier.fit(dataset, epochs=1, shuffle=False, verbose=0)
