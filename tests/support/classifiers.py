"""Small classifiers of keras-nlp, and tokens for them."""

import hashlib

import keras
import keras_hub
import numpy as np
import tensorflow as tf

BLOCKS = 2
TOKENS = 15
LABELS = np.array([1, 0, 0, 0, 1, 1, 1, 0, 1, 0])


def backbone(family):
    kind = {
        "bert": keras_hub.models.BertBackbone,
        "roberta": keras_hub.models.RobertaBackbone,
    }[family]
    return kind(
        vocabulary_size=TOKENS,
        num_layers=BLOCKS,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        dropout=0.0,
        max_sequence_length=64,
    )


def classifier(family):
    """A classifier whose weights are random, and the same in every call."""
    kind = {
        "bert": keras_hub.models.BertTextClassifier,
        "roberta": keras_hub.models.RobertaTextClassifier,
    }[family]
    return randomise(kind(backbone(family), num_classes=2, dropout=0.0))


def randomise(model):
    rng = np.random.default_rng(5)
    for weight in model.weights:
        mean = 1 if weight.path.endswith("gamma") else 0
        weight.assign(rng.normal(mean, 0.3, weight.shape))
    return model


def token_batches(family, batch_size=5):
    """(x, y) of random tokens, the batches padded to different lengths."""
    rng = np.random.default_rng(7)
    elements = []
    for begin in range(0, len(LABELS), batch_size):
        labels = LABELS[begin : begin + batch_size]
        ids = rng.integers(5, 15, (len(labels), 64))
        lengths = rng.integers(3, 40, len(labels))
        mask = np.arange(lengths.max()) < lengths[:, None]
        x = {
            "token_ids": ids[:, : mask.shape[1]] * mask,
            "padding_mask": mask.astype(np.int32),
        }
        if family == "bert":
            x["segment_ids"] = (x["token_ids"] > 9).astype(np.int32)
        elements.append((x, labels))
    spec = {
        name: tf.TensorSpec([None, None], tf.int32) for name in elements[0][0]
    }
    dataset = tf.data.Dataset.from_generator(
        lambda: elements,
        output_signature=(spec, tf.TensorSpec([None], tf.int64)),
    )
    return dataset.apply(tf.data.experimental.assert_cardinality(len(elements)))


def compile(model, optimizer):
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )


def hashes(model):
    """A hash of every weight, by its path."""
    return {
        weight.path: hashlib.sha256(
            keras.ops.convert_to_numpy(weight).tobytes()
        ).hexdigest()
        for weight in model.weights
    }
