"""Classifiers of keras-nlp are frozen and split; misuse is an error."""

import pathlib
import re

import keras
import keras_nlp
import numpy as np
import pytest
import tensorflow as tf

from tests.support.classifiers import (
    backbone,
    BLOCKS,
    classifier,
    compile,
    hashes,
    LABELS,
    randomise,
    TEXTS,
    token_batches,
)
from tf_transfer import keras_classifier


@pytest.fixture(autouse=True, scope="module")
def eager():
    """Tracing takes most of the time where nothing is large."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


# === Freezing ===


def should_move(path, k):
    """Whether a weight trains with the last k blocks, by its path."""
    if k == "all":
        return True
    if "transformer_layer_" in path:
        number = int(path.split("transformer_layer_")[1].split("/")[0])
        return number >= BLOCKS - k
    return "embedding" not in path


@pytest.mark.parametrize(
    "family, k",
    [("bert", 0), ("bert", 1), ("bert", 2), ("bert", "all"), ("roberta", 1)],
)
def test_exactly_the_last_blocks_pooler_and_head_move(family, k):
    model = classifier(family)
    model.backbone.trainable = False  # would win over its blocks
    keras_classifier.freeze_all_but_last(model, k)
    # Decay moves weights whose gradient is zero, as a key's bias.
    optimizer = keras.optimizers.AdamW(1e-2, weight_decay=0.1)
    compile(model, optimizer)
    before = hashes(model)
    model.fit(token_batches(family).take(1), verbose=0)
    after = hashes(model)
    moved = {path for path in before if before[path] != after[path]}
    assert moved == {path for path in before if should_move(path, k)}
    assert moved == {weight.path for weight in model.trainable_weights}


# === Splitting ===


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_prefix_and_suffix_are_the_classifier(family):
    model = classifier(family)
    [(x, _)] = token_batches(family).take(1)
    expected = model(x)
    for k in (1, 0, 2):  # it may be split again
        prefix, suffix = keras_classifier.split(model, k)
        states = prefix(x)
        assert set(states) == {"hidden_states", "padding_mask"}
        np.testing.assert_allclose(suffix(states), expected, rtol=0, atol=1e-6)
        own = {id(weight) for weight in model.weights}
        both = {id(weight) for weight in [*prefix.weights, *suffix.weights]}
        assert both == own
        assert not prefix.trainable_weights
        assert {id(w) for w in suffix.trainable_weights} == {
            id(w) for w in model.trainable_weights
        }


def test_dropout_is_off_in_the_prefix_and_on_in_the_suffix():
    prefix, suffix = keras_classifier.split(classifier("bert", 0.5), 1)
    [(x, _)] = token_batches("bert").take(1)
    states = prefix(x)
    training = prefix(x, training=True)
    np.testing.assert_array_equal(
        states["hidden_states"], training["hidden_states"]
    )
    assert np.abs(suffix(states) - suffix(states, training=True)).max() > 0.01


def test_the_activation_of_the_classifier_stays():
    softmax = randomise(
        keras_nlp.models.BertTextClassifier(
            backbone("bert"), num_classes=3, activation="softmax"
        )
    )
    # What it was compiled with does not matter, even if it has no name.
    softmax.compile("sgd", lambda y, logits: keras.ops.mean(logits))
    prefix, suffix = keras_classifier.split(softmax, 1)
    [(x, _)] = token_batches("bert").take(1)
    probabilities = suffix(prefix(x))
    np.testing.assert_allclose(probabilities, softmax(x), atol=1e-6)
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, atol=1e-6)


def test_a_head_of_ones_own_reads_states_and_mask(tmp_path):
    encoder = backbone("bert")
    inputs = encoder.input
    states = encoder(inputs)["sequence_output"]
    mask = keras.ops.cast(inputs["padding_mask"], "float32")[:, :, None]
    mean = keras.ops.sum(states * mask, 1) / keras.ops.sum(mask, 1)
    model = keras.Model(inputs, keras.layers.Dense(1)(mean))
    randomise(model)
    prefix, suffix = keras_classifier.split(model, 1)
    dataset = token_batches("bert")
    features = keras_classifier.cache_features(
        prefix, dataset, tmp_path, "float32"
    )
    for (x, _), (states, _) in zip(dataset, features):
        np.testing.assert_allclose(suffix(states), model(x), atol=1e-5)


# === Errors ===


@pytest.mark.parametrize(
    "k, error, message",
    [
        (
            3,
            ValueError,
            'k=3: this backbone has 2 blocks; give 0 to 2 or "all"',
        ),
        (-1, ValueError, "k=-1"),
        ("2", TypeError, "k: expected an int"),
        (True, TypeError, "k: expected an int"),
    ],
)
def test_how_many_blocks_is_checked(k, error, message):
    with pytest.raises(error, match=message):
        keras_classifier.freeze_all_but_last(classifier("bert"), k)


def test_everything_cannot_be_split():
    with pytest.raises(TypeError, match="trainable_layers: .*no frozen prefix"):
        keras_classifier.split(classifier("bert"), "all")


def test_what_is_no_classifier_is_refused():
    with pytest.raises(TypeError, match="classifier: expected a Keras model"):
        keras_classifier.split("bert_base_en", 1)
    inputs = keras.Input([4])
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    with pytest.raises(TypeError, match="with 0 such layers"):
        keras_classifier.split(model, 1)
    encoder = backbone("roberta")
    extra = {**encoder.input, "age": keras.Input([1], name="age")}
    model = keras.Model(extra, encoder(encoder.input)[:, 0] + extra["age"])
    with pytest.raises(
        ValueError, match="inputs must be those of its backbone"
    ):
        keras_classifier.split(model, 1)


def test_datasets_are_checked(tmp_path):
    prefix, suffix = keras_classifier.split(classifier("bert"), 1)
    dataset = token_batches("bert")

    def refuses(error, message, dataset, prefix=prefix, dtype="float16"):
        with pytest.raises(error, match=message):
            keras_classifier.cache_features(prefix, dataset, tmp_path, dtype)

    refuses(TypeError, "prefix: expected the first", dataset, prefix=suffix)
    refuses(ValueError, "dtype='int8'", dataset, dtype="int8")
    refuses(TypeError, "dataset: expected a tf.data", [1])
    refuses(
        TypeError,
        "expected a tf.data.Dataset of .x, y.",
        dataset.map(lambda x, y: x),
    )
    refuses(ValueError, "without end", dataset.repeat())
    refuses(ValueError, "not batched", dataset.unbatch())
    refuses(ValueError, "is empty", dataset.take(0))
    texts = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))
    refuses(TypeError, "no preprocessor", texts.batch(2))
    refuses(
        ValueError,
        "a dict of padding_mask, segment_ids, token_ids",
        dataset.map(lambda x, y: ({"token_ids": x["token_ids"]}, y)),
    )
    refuses(
        ValueError,
        "padding_mask must be",
        dataset.map(
            lambda x, y: (
                {**x, "padding_mask": x["padding_mask"][:, ::-1]},
                y,
            )
        ),
    )
    refuses(
        ValueError,
        "a text has 65 tokens; this backbone takes at most 64",
        dataset.map(
            lambda x, y: (
                {name: tf.ones([5, 65], tf.int32) for name in x},
                y,
            )
        ),
    )


def test_states_that_are_too_large_are_refused(tmp_path):
    model = classifier("bert")
    model.backbone.embeddings_layer_norm.gamma.assign(np.full(8, 1e6))
    prefix, _ = keras_classifier.split(model, 2)
    with pytest.raises(
        ValueError, match="dtype: .*example .* float16 .bfloat16"
    ):
        keras_classifier.cache_features(prefix, token_batches("bert"), tmp_path)
    keras_classifier.cache_features(
        prefix, token_batches("bert"), tmp_path, "bfloat16"
    )


# === The page ===


@pytest.mark.slow
def test_the_whole_program_of_the_page_runs(tmp_path, monkeypatch):
    page = pathlib.Path(__file__).parent.parent / "docs" / "keras.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    [program] = [block for block in blocks if block.startswith("import")]
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    assert (tmp_path / "cache" / "keras_classifier").is_dir()
