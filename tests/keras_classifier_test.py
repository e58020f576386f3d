"""A split classifier with cached features trains as the whole one does."""

import gc
import hashlib
import pathlib
import re

import keras
import keras_nlp
import numpy as np
import pytest
import tensorflow as tf

from tf_transfer import keras_classifier
from tf_transfer.feature_cache import store as store_lib

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


@pytest.fixture(autouse=True, scope="module")
def eager():
    """Tracing takes most of the time where nothing is large."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def count_runs(monkeypatch):
    """Examples of each segment that is computed and stored."""
    counts = []
    append = store_lib.Entry.append

    def counted(self, hashes, *arguments):
        counts.append(len(hashes))
        append(self, hashes, *arguments)

    monkeypatch.setattr(store_lib.Entry, "append", counted)
    return counts


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


# === Caching ===


@pytest.mark.parametrize(
    "family, k, optimizer",
    [
        ("bert", 1, lambda: keras.optimizers.AdamW(1e-3, clipnorm=1.0)),
        pytest.param(
            "roberta",
            1,
            lambda: keras.optimizers.SGD(0.1, momentum=0.9),
            marks=pytest.mark.slow,
        ),
        ("roberta", 0, lambda: keras.optimizers.Adam(1e-3)),
    ],
    ids=["bert", "roberta", "roberta_head"],
)
def test_fit_gives_the_numbers_of_the_whole_classifier(
    family, k, optimizer, tmp_path
):
    dataset = token_batches(family, padding=5)
    whole = classifier(family)
    keras_classifier.freeze_all_but_last(whole, k)
    compile(whole, optimizer())
    expected = whole.fit(dataset, epochs=2, verbose=0).history

    parted = classifier(family)
    prefix, suffix = keras_classifier.split(parted, k)
    features = keras_classifier.cache_features(
        prefix, dataset, tmp_path, "float32"
    )
    compile(suffix, optimizer())
    history = suffix.fit(features, epochs=2, verbose=0).history

    assert history.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(history[name], expected[name], atol=1e-5)
    assert expected["loss"][1] < expected["loss"][0]
    assert_same_weights(parted, whole)
    [(x, _)], [(states, _)] = dataset.take(1), features.take(1)
    expected = whole(x)
    np.testing.assert_allclose(parted(x), expected, atol=1e-5)
    np.testing.assert_allclose(suffix(states), expected, atol=1e-5)


@pytest.mark.slow
def test_pairs_of_texts_are_preprocessed_and_weights_count(tmp_path):
    pairs = (TEXTS, TEXTS[::-1])
    weights = np.linspace(0.1, 1, len(TEXTS))
    tokens = preprocessor()(tuple(map(tf.constant, pairs)), LABELS, weights)
    whole = classifier("bert")
    keras_classifier.freeze_all_but_last(whole, 1)
    compile(whole, keras.optimizers.SGD(0.1))
    dataset = tf.data.Dataset.from_tensor_slices(tokens).batch(5)
    expected = whole.fit(dataset, verbose=0).history["loss"]

    parted = classifier("bert", preprocess=preprocessor())
    prefix, suffix = keras_classifier.split(parted, 1)
    texts = tf.data.Dataset.from_tensor_slices((pairs, LABELS, weights))
    features = keras_classifier.cache_features(
        prefix, texts.batch(5), tmp_path, "float32"
    )
    compile(suffix, keras.optimizers.SGD(0.1))
    losses = suffix.fit(features, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    assert_same_weights(parted, whole)


@pytest.mark.slow
def test_traced_functions_give_what_eager_ones_do(tmp_path):
    dataset = token_batches("bert")
    losses = []
    for is_eager in (True, False):
        tf.config.run_functions_eagerly(is_eager)
        prefix, suffix = keras_classifier.split(classifier("bert"), 1)
        features = keras_classifier.cache_features(
            prefix, dataset, tmp_path / str(is_eager), "float32"
        )
        compile(suffix, keras.optimizers.SGD(0.1), jit_compile=False)
        losses += suffix.fit(features, verbose=0).history["loss"]
    tf.config.run_functions_eagerly(True)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_what_is_stored_is_not_run_again(tmp_path, count_runs):
    def run(model, dataset, k=1, dtype="float16"):
        prefix, _ = keras_classifier.split(model, k)
        del count_runs[:]
        features = keras_classifier.cache_features(
            prefix, dataset, tmp_path, dtype
        )
        return sum(count_runs), [*features]

    model = classifier("bert")
    examples, first = run(model, token_batches("bert"))
    assert examples == len(LABELS)
    # Another model of the same weights, padded otherwise.
    examples, again = run(classifier("bert"), token_batches("bert", padding=9))
    assert examples == 0
    for (x, y), (other_x, other_y) in zip(first, again, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, x, other_x)
        np.testing.assert_array_equal(y, other_y)

    # Half of the examples are new; another cut, dtype, other weights.
    more = token_batches("bert").concatenate(
        token_batches("bert").map(
            lambda x, y: ({**x, "token_ids": x["token_ids"] // 2}, y)
        )
    )
    assert run(model, more)[0] == len(LABELS)
    assert run(model, token_batches("bert"), k=2)[0] == len(LABELS)
    assert run(model, token_batches("bert"), dtype="float32")[0] == len(LABELS)
    bias = model.backbone.embeddings_layer_norm.beta
    bias.assign(bias + 1)
    assert run(model, token_batches("bert"))[0] == len(LABELS)
    # What is above the cut does not matter.
    model.output_dense.bias.assign([1.0, 2.0])
    assert run(model, token_batches("bert"))[0] == 0


def test_an_example_that_is_there_twice_is_run_once(tmp_path, count_runs):
    prefix, _ = keras_classifier.split(classifier("bert"), 1)
    dataset = token_batches("bert")
    features = keras_classifier.cache_features(
        prefix, dataset.concatenate(dataset), tmp_path
    )
    assert sum(count_runs) == len(LABELS)
    states = [x["hidden_states"].numpy() for x, _ in features]
    np.testing.assert_array_equal(states[0], states[2])


def test_damaged_rows_are_run_again(tmp_path, count_runs):
    prefix, _ = keras_classifier.split(classifier("bert"), 1)
    dataset = token_batches("bert")
    first = [*keras_classifier.cache_features(prefix, dataset, tmp_path)]
    [path] = tmp_path.rglob("vectors.bin")
    content = bytearray(path.read_bytes())
    content[3] ^= 255
    path.write_bytes(content)
    del count_runs[:]
    second = [*keras_classifier.cache_features(prefix, dataset, tmp_path)]
    assert sum(count_runs) == 1
    for (x, _), (other, _) in zip(first, second):
        np.testing.assert_array_equal(
            x["hidden_states"], other["hidden_states"]
        )


@pytest.mark.parametrize(
    "dtype, policy", [("float16", "float32"), ("bfloat16", "mixed_bfloat16")]
)
def test_rounded_states_of_real_tokens_alone_are_stored(
    dtype, policy, tmp_path
):
    model = classifier("bert", dtype=policy)
    prefix, suffix = keras_classifier.split(model, 1)
    dataset = token_batches("bert", padding=20)
    features = keras_classifier.cache_features(prefix, dataset, tmp_path, dtype)
    tokens = 0
    for (x, _), (found, _) in zip(dataset, features):
        mask = x["padding_mask"].numpy() == 1
        tokens += mask.sum()
        expected = prefix(x)["hidden_states"].numpy()[mask]
        rounded = found["hidden_states"]
        assert rounded.dtype == dtype
        assert found["padding_mask"].numpy().sum() == mask.sum()
        kept = rounded.numpy()[found["padding_mask"].numpy() == 1]
        np.testing.assert_allclose(
            kept.astype("float32"),
            expected.astype("float32"),
            atol=2e-3 if policy == "float32" else 0.1,
        )
        assert suffix(found).dtype == model(x).dtype
    [path] = tmp_path.rglob("vectors.bin")
    assert path.stat().st_size == tokens * 8 * 2


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_where_no_block_trains_the_first_token_alone_is_stored(
    family, tmp_path
):
    model = classifier(family)
    prefix, suffix = keras_classifier.split(model, 0)
    dataset = token_batches(family)
    features = keras_classifier.cache_features(
        prefix, dataset, tmp_path, "float32"
    )
    for (x, _), (states, _) in zip(dataset, features):
        assert states["hidden_states"].shape[1:] == (1, 8)
        np.testing.assert_allclose(suffix(states), model(x), atol=1e-5)
    [path] = tmp_path.rglob("vectors.bin")
    assert path.stat().st_size == len(LABELS) * 8 * 4


def test_the_least_recently_used_prefix_makes_room(tmp_path):
    model, dataset = classifier("bert"), token_batches("bert")

    def cache(k, limit_gb):
        prefix, _ = keras_classifier.split(model, k)
        return keras_classifier.cache_features(
            prefix, dataset, tmp_path, limit_gb=limit_gb
        )

    first = cache(1, 1.0)
    [path] = tmp_path.rglob("vectors.bin")
    limit = 1.5 * path.stat().st_size / 1e9
    with pytest.raises(ValueError, match="limit_gb: the states of 10 texts"):
        cache(2, limit)  # the other ones are still read
    assert path.exists() and len([*first]) == 2
    del first
    gc.collect()
    assert len([*cache(2, limit)]) == 2
    assert not path.exists()


def test_shuffled_batches_are_drawn_anew_in_every_epoch(tmp_path):
    prefix, _ = keras_classifier.split(classifier("bert"), 1)
    dataset = token_batches("bert", 4).map(
        lambda x, y: (x, x["token_ids"][:, 1])
    )
    features = keras_classifier.cache_features(
        prefix, dataset, tmp_path, shuffle=True, seed=3
    )
    ordered = keras_classifier.cache_features(prefix, dataset, tmp_path)

    def epoch(features):
        """(token, its state) of all examples, in the order of an epoch."""
        return np.concatenate(
            [np.c_[y, x["hidden_states"][:, 1].numpy()] for x, y in features]
        )

    expected, first, second = epoch(ordered), epoch(features), epoch(features)
    assert [len(y) for _, y in features] == [4, 4, 2]
    assert len(features) == 3
    assert (first != second).any()
    for found in (first, second):
        np.testing.assert_array_equal(
            found[np.lexsort(found.T)], expected[np.lexsort(expected.T)]
        )


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
