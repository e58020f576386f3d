"""An encoder of one segment gives it to both texts of a pair."""

import json

import keras_hub
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.models import encoders, saving
from tests.models.their_folders import change, load
from tests.support import quick
from tf_transfer import experiment
from tf_transfer.data import tokens
from tf_transfer.data.task import Examples
from tf_transfer.glue import experiment as glue
from tf_transfer.models import exports, loading, serving, transformers_weights
from tf_transfer.models.heads import pooled
from tf_transfer.models.network import Network
from tf_transfer.runs import export_folder
from tf_transfer.utils.errors import UserError

PAIR = [[11, 12, 13], [21, 22]]
SPECIAL = tokens.SpecialTokens(101, 102, 0, (102,), has_one_segment=True)


def set_segments(folder, rows):
    """Makes the table of segments have these rows of it."""
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    name = f"bert.{transformers_weights.SEGMENTS}"
    arrays[name] = arrays[name][rows]
    path.write_bytes(safetensors.numpy.save(arrays))
    change(folder / "config.json", type_vocab_size=len(rows))


def states_of(encoder):
    batch = encoders.batch_of(encoder, encoders.PAIRS)
    return encoders.states(encoder, batch)


@pytest.mark.parametrize("row", [PAIR[:1], PAIR])
def test_all_of_a_row_is_segment_0(row):
    ids, first_length = tokens.pack(row, SPECIAL, 128)
    assert first_length == len(ids)
    columns = [tf.ragged.constant([ids], tf.int32) for ids in row]
    packed, first_lengths = serving.pack(columns, SPECIAL, 128)
    assert packed.to_list() == [ids.tolist()]
    assert first_lengths.numpy().tolist() == [first_length]


def test_pairs_have_the_states_of_two_equal_segments(folder):
    set_segments(folder, [0, 0])
    expected = states_of(load(folder))
    set_segments(folder, [0])
    np.testing.assert_array_equal(states_of(load(folder)), expected)


def test_a_keras_preset_may_have_one_segment(folder, tmp_path):
    set_segments(folder, [0])
    encoder = load(folder)
    encoder.set_arithmetic("gelu_new", 1e-12)
    saving.as_keras(encoder, str(tmp_path / "preset"))
    preset = load(tmp_path / "preset")
    assert preset.special == encoder.special
    np.testing.assert_allclose(states_of(preset), states_of(encoder), atol=1e-5)


@pytest.mark.parametrize("segments", [0, -1])
def test_a_bert_without_a_segment_is_refused(folder, segments):
    change(folder / "config.json", type_vocab_size=segments)
    with pytest.raises(UserError, match=f"has type_vocab_size='{segments}'"):
        loading.load(str(folder), "", dropout=0.0)


@pytest.fixture
def network(folder):
    set_segments(folder, [0])
    encoder = load(folder)
    head = pooled.PooledHead(
        1, encoder.hidden, "cls", 0.1, 0, "float32", name="head_mine"
    )
    return Network(encoder, {"mine": head})


def logits_of(network):
    encoder = network.encoder
    encode = encoder.tokenizer.encode
    batch = encoders.batch_of(encoder, encoders.PAIRS, tokenize=encode)
    return network.logits("mine", batch, training=False).numpy()


def test_transformers_is_set_to_make_no_segments(network, tmp_path):
    out = tmp_path / "hf"
    exports.hugging_face(network, "mine", str(out), "score", (), 40)
    config = json.loads((out / "tokenizer_config.json").read_text())
    assert "token_type_ids" not in config["model_input_names"]
    again = Network(load(out), network.heads)
    np.testing.assert_allclose(logits_of(again), logits_of(network), atol=1e-5)


@pytest.mark.slow  # compiles keras-hub's classifier
def test_a_keras_preset_gives_the_same_answers_on_pairs(network, tmp_path):
    out = str(tmp_path / "preset")
    network.encoder.set_arithmetic("gelu_new", 1e-12)
    exports.keras_preset(network, "mine", out, "score", (), 40)
    classifier = keras_hub.models.TextClassifier.from_preset(out)
    pairs = tuple(map(np.array, encoders.PAIRS))
    theirs = classifier.predict(pairs, verbose=0)
    np.testing.assert_allclose(theirs, logits_of(network), atol=1e-4)


@pytest.mark.slow  # trains and saves a model
@pytest.mark.parametrize("frozen_prefix", ["live", "cached"])
def test_a_run_on_pairs_trains_predicts_and_is_exported(
    folder, tmp_path, frozen_prefix
):
    set_segments(folder, [0])
    settings = tiny_settings(
        tmp_path / "runs",
        model=str(folder),
        trainable_layers="1",
        frozen_prefix=frozen_prefix,
        cache_dir=str(tmp_path / "cache"),
        max_length=24,
        max_train_examples=16,
        max_epochs=1,
    )
    with quick.eagerly():
        result = glue.run(settings)
    predictor = experiment.open_run(result.directory).predictor()
    examples = Examples(np.arange(4), encoders.PAIRS, None)
    logits = predictor.logits(examples)
    out = str(tmp_path / "saved")
    export_folder.export(predictor, out)
    served = tf.saved_model.load(out).signatures["serving_default"](
        text_1=tf.constant(encoders.PAIRS[0]),
        text_2=tf.constant(encoders.PAIRS[1]),
    )
    np.testing.assert_allclose(served["logits"], logits, atol=1e-5)
