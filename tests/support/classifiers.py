"""Small classifiers of keras-nlp, and texts for them."""

import hashlib

import keras
import keras_nlp
import numpy as np
import tensorflow as tf

BLOCKS = 2
WORDS = ["a", "bad", "film", "good", "is", "it", "not", "the", "very", "was"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = [
    "good film",
    "it was not a very good film",
    "bad",
    "the film is bad is it not",
    "it is good",
    "a",
    "not bad",
    "very very very bad",
    "good film",  # again
    "was it",
]
LABELS = np.array([1, 0, 0, 0, 1, 1, 1, 0, 1, 0])


def backbone(family, dropout=0.0, **options):
    kind = {
        "bert": keras_nlp.models.BertBackbone,
        "roberta": keras_nlp.models.RobertaBackbone,
    }[family]
    return kind(
        vocabulary_size=len(VOCABULARY),
        num_layers=BLOCKS,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        dropout=dropout,
        max_sequence_length=64,
        **options,
    )


def preprocessor():
    return keras_nlp.models.BertTextClassifierPreprocessor(
        keras_nlp.models.BertTokenizer(VOCABULARY), sequence_length=40
    )


def classifier(family, dropout=0.0, preprocess=None, **options):
    """A classifier whose weights are random, and the same in every call."""
    kind = {
        "bert": keras_nlp.models.BertTextClassifier,
        "roberta": keras_nlp.models.RobertaTextClassifier,
    }[family]
    return randomise(
        kind(
            backbone(family, dropout, **options),
            num_classes=2,
            dropout=dropout,
            preprocessor=preprocess,
        )
    )


def randomise(model):
    rng = np.random.default_rng(5)
    for weight in model.weights:
        mean = 1 if weight.path.endswith("gamma") else 0
        weight.assign(rng.normal(mean, 0.3, weight.shape))
    return model


def token_batches(family, batch_size=5, padding=0):
    """(x, y) of random tokens, the batches padded to different lengths."""
    rng = np.random.default_rng(7)
    elements = []
    for begin in range(0, len(LABELS), batch_size):
        labels = LABELS[begin : begin + batch_size]
        ids = rng.integers(5, 15, (len(labels), 64))
        lengths = rng.integers(3, 40, len(labels))
        mask = np.arange(lengths.max() + padding) < lengths[:, None]
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


def compile(model, optimizer, **options):
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **options,
    )
    return model


def hashes(model):
    """A hash of every weight, by its path."""
    return {
        weight.path: hashlib.sha256(
            keras.ops.convert_to_numpy(weight).tobytes()
        ).hexdigest()
        for weight in model.weights
    }


def values(model):
    return {
        weight.path: keras.ops.convert_to_numpy(weight)
        for weight in model.weights
    }


def assert_same_weights(model, other):
    expected = values(other)
    for path, value in values(model).items():
        np.testing.assert_allclose(
            value, expected[path], rtol=0, atol=1e-5, err_msg=path
        )
