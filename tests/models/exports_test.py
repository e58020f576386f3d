"""A trained classifier in other libraries' formats answers alike."""

import json

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests.models import encoders
from tf_transfer.data.task import Task
from tf_transfer.models import exports, loading, serving
from tf_transfer.models.heads import pooled
from tf_transfer.models.network import Network
from tf_transfer.stacking import heads
from tf_transfer.utils.errors import UserError

# Texts that keras-hub's tokenizer reads otherwise.
ODD = [
    "good\u00a0film\u202f, bad\u3000water",
    "two\0men fi\u200blm",
    "m² … ß CAFÉ cafe\u0301 ﬁlm",
    "the dog [SEP] was not",
    "x" * 100 + " " + "y" * 101,
]
TEXTS = ["the dog was not in the house", "good film", "very bad water, two men"]
LABELS = ("no", "yes")
MAX_LENGTH = 40


@pytest.fixture(
    scope="module",
    params=["bert", pytest.param("roberta", marks=pytest.mark.slow)],
)
def network(request):
    """An encoder and a head of one unit."""
    encoder = encoders.shared(request.param)
    head = pooled.PooledHead(
        1, encoder.hidden, "cls", 0.1, 0, "float32", name="head_mine"
    )
    kernel = np.linspace(-1, 1, encoder.hidden)[:, None]
    head.dense.set_weights([kernel, np.array([0.25])])
    return Network(encoder, {"mine": head})


def logits_of(network, texts=TEXTS):
    encoder = network.encoder
    encode = encoder.tokenizer.encode
    batch = encoders.batch_of(encoder, [texts], tokenize=encode)
    return network.logits("mine", batch, training=False).numpy()


def test_transformers_folder_is_loaded_again_with_the_same_states(
    network, tmp_path
):
    folder = str(tmp_path / "hf")
    exports.hugging_face(network, "mine", folder, "classes", LABELS, MAX_LENGTH)
    modes = {path.stat().st_mode for path in (tmp_path / "hf").iterdir()}
    assert len(modes) == 1  # as the umask says
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes"}
    is_bert = network.encoder.family == "bert"  # keras-hub's has tanh in it
    assert config["hidden_act"] == ("gelu_new" if is_bert else "gelu")
    loaded = loading.load(folder, "", dropout=0.0)
    if network.encoder.family == "roberta":  # it comes without a pooler
        loaded.pooler.set_weights(network.encoder.pooler.get_weights())
    again = Network(loaded, network.heads)
    np.testing.assert_allclose(logits_of(again), logits_of(network), atol=1e-5)


@pytest.mark.parametrize("head", [("text", "densenet"), ("ner", "dense")])
def test_a_head_on_tokens_answers_in_the_unit_of_its_task(head):
    """Of scores, or calibrated."""
    encoder = encoders.shared("bert")
    head = heads.load(*head)(
        1, encoder.hidden, 0.0, 0, "float32", name="head_mine"
    )
    encode = encoder.tokenizer.encode
    batch = encoders.batch_of(encoder, [TEXTS], tokenize=encode)
    plain, scaled = (
        Network(encoder, {"mine": head}, scales)
        .logits("mine", batch, training=False)
        .numpy()
        for scales in ({}, {"mine": (1.7e9, 2.0)})
    )
    np.testing.assert_allclose(scaled, 1.7e9 + 2.0 * plain.astype(float))
    assert scaled.dtype == np.float64 and np.ptp(scaled) > 0


def test_two_units_of_a_softmax_are_exported_as_they_are(network):
    head = pooled.PooledHead(
        2, network.encoder.hidden, "cls", 0.1, 0, "float32", name="head_two"
    )
    two = Network(network.encoder, {"two": head})
    layer = exports._output_layer(two, "two", "classes", LABELS)
    for found, expected in zip(layer, head.dense.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_head_is_the_classifier_of_two_units(network, tmp_path):
    import safetensors.numpy

    exports.hugging_face(
        network, "mine", str(tmp_path), "classes", LABELS, MAX_LENGTH
    )
    arrays = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    is_bert = network.encoder.family == "bert"
    output = "classifier" if is_bert else "classifier.out_proj"
    kernel, bias = network.heads["mine"].dense.get_weights()
    np.testing.assert_array_equal(
        arrays[f"{output}.weight"], np.stack([0 * kernel[:, 0], kernel[:, 0]])
    )
    np.testing.assert_array_equal(arrays[f"{output}.bias"], [0, bias[0]])


def test_a_score_is_written_in_its_own_unit(network, tmp_path):
    import safetensors.numpy

    scaled = Network(network.encoder, network.heads, {"mine": (300.0, 20.0)})
    np.testing.assert_allclose(
        logits_of(scaled), 300 + 20 * logits_of(network), rtol=1e-6
    )
    exports.hugging_face(scaled, "mine", str(tmp_path), "score", [], MAX_LENGTH)
    arrays = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    is_bert = network.encoder.family == "bert"
    output = "classifier" if is_bert else "classifier.out_proj"
    kernel, bias = network.heads["mine"].dense.get_weights()
    np.testing.assert_allclose(arrays[f"{output}.weight"], 20 * kernel.T)
    np.testing.assert_allclose(arrays[f"{output}.bias"], 20 * bias + 300)


def test_transformers_gives_the_same_answers(network, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = str(tmp_path)
    exports.hugging_face(network, "mine", folder, "classes", LABELS, MAX_LENGTH)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder
    ).eval()
    texts = [*TEXTS, *ODD]
    batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
    with torch.no_grad():
        theirs = model(**batch).logits.numpy()
    ours = logits_of(network, texts)[:, 0]
    np.testing.assert_allclose(theirs[:, 1] - theirs[:, 0], ours, atol=2e-6)


@pytest.mark.slow
def test_a_keras_preset_gives_the_same_answers(network, tmp_path):
    folder = str(tmp_path / "preset")
    exports.keras_preset(network, "mine", folder, "classes", LABELS, MAX_LENGTH)
    classifier = keras_hub.models.TextClassifier.from_preset(folder)
    theirs = classifier.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(
        theirs[:, 1] - theirs[:, 0], logits_of(network)[:, 0], atol=1e-4
    )


@pytest.mark.slow  # traces and saves a model
def test_a_saved_model_gives_the_same_answers(network, tmp_path):
    task = Task("mine", "", ("text",), "label", LABELS, "accuracy")
    model = serving.TextModel(network, task, MAX_LENGTH, "head")
    tf.saved_model.save(model, str(tmp_path), model.signatures())
    loaded = tf.saved_model.load(str(tmp_path))
    texts = [*TEXTS, *ODD]
    answer = loaded.signatures["serving_default"](text_1=tf.constant(texts))
    np.testing.assert_allclose(
        answer["logits"], logits_of(network, texts), atol=2e-6
    )


@pytest.mark.parametrize("activation, epsilon", [("relu", 0), ("gelu", 1e-3)])
def test_blocks_that_keras_hub_does_not_have_are_refused(
    activation, epsilon, tmp_path
):
    encoder = encoders.bert()
    head = pooled.PooledHead(
        1, encoder.hidden, "cls", 0.1, 0, "float32", name="head_mine"
    )
    default = encoder.backbone.embeddings_layer_norm.epsilon
    encoder.set_arithmetic(activation, epsilon or default)
    with pytest.raises(UserError, match=f"no blocks with {activation}"):
        exports.keras_preset(
            Network(encoder, {"mine": head}),
            "mine",
            str(tmp_path),
            "classes",
            LABELS,
            MAX_LENGTH,
        )


def test_a_head_that_they_do_not_have_is_refused(network, tmp_path):
    head = pooled.PooledHead(
        1, network.encoder.hidden, "cls_state", 0, 0, "float32", name="head_x"
    )
    other = Network(network.encoder, {"x": head})
    with pytest.raises(UserError, match="--format: other libraries"):
        exports.hugging_face(
            other, "x", str(tmp_path), "classes", LABELS, MAX_LENGTH
        )
