"""A split classifier with cached features trains as the whole one does."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.classifiers import (
    assert_same_weights,
    classifier,
    compile,
    LABELS,
    preprocessor,
    TEXTS,
    token_batches,
)
from tf_transfer import keras_classifier
from tf_transfer.feature_cache import store as store_lib


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
    for (x, _), (cached, _) in zip(dataset, features):
        mask = x["padding_mask"].numpy() == 1
        tokens += mask.sum()
        expected = prefix(x)["hidden_states"].numpy()[mask]
        rounded = cached["hidden_states"]
        assert rounded.dtype == dtype
        assert cached["padding_mask"].numpy().sum() == mask.sum()
        kept = rounded.numpy()[cached["padding_mask"].numpy() == 1]
        np.testing.assert_allclose(
            kept.astype("float32"),
            expected.astype("float32"),
            atol=2e-3 if policy == "float32" else 0.1,
        )
        assert suffix(cached).dtype == model(x).dtype
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
    for vectors in (first, second):
        np.testing.assert_array_equal(
            vectors[np.lexsort(vectors.T)], expected[np.lexsort(expected.T)]
        )
