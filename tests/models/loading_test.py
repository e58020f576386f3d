"""`--model` finds an encoder, names it, and brings its weights."""

import json
import os
import shutil
import types

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests.models import encoders, saving
from tests.models.encoders import batch_of, states
from tests.support import commands
from tf_transfer.data import tokens
from tf_transfer.models import (
    cost,
    encoder as encoder_lib,
    exports,
    freezing,
    keras_private,
    loading,
    network as network_lib,
    presets,
    tiny,
    transformers_folder,
)
from tf_transfer.utils import files, servers, wheels
from tf_transfer.utils.errors import UserError

PUBLISHED = os.path.join(
    commands.ROOT, "experiments", "freezing", "published.json"
)


# === Folders with models in them ===


KINDS = {
    "keras-bert": (encoders.bert, saving.as_keras),
    "keras-roberta": (encoders.roberta, saving.as_keras),
    "hugging-face-bert": (encoders.bert, saving.as_hugging_face),
    "hugging-face-roberta": (encoders.roberta, saving.as_hugging_face),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, marks=pytest.mark.slow if "roberta" in kind else ())
        for kind in KINDS
    ],
)
def saved(request, tmp_path_factory):
    """An encoder whose every weight is drawn, and the folder that has it."""
    build, save = KINDS[request.param]
    encoder = build()
    encoders.randomise(encoder.backbone)
    folder = str(tmp_path_factory.mktemp("models") / request.param)
    save(encoder, folder)
    return encoder, folder


@pytest.fixture(scope="module")
def loaded(saved):
    """The encoder that is loaded from that folder, with dropout 0.3."""
    return loading.load(saved[1], "", dropout=0.3)


@pytest.fixture(scope="module")
def hugging_face_bert(tmp_path_factory):
    """A folder that stays as it is."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    saving.as_hugging_face(encoders.shared("bert"), folder)
    return folder


@pytest.fixture
def folder(hugging_face_bert, tmp_path):
    """A folder that can be changed: a Hugging Face BERT."""
    return shutil.copytree(hugging_face_bert, tmp_path / "bert")


# === Loading ===


def test_a_folder_gives_the_encoder_that_was_saved(saved, loaded):
    encoder, _ = saved
    assert loaded.family == encoder.family
    assert loaded.special == encoder.special
    batch = batch_of(encoder, encoders.PAIRS)
    again = batch_of(loaded, encoders.PAIRS)
    np.testing.assert_array_equal(batch["ids"], again["ids"])
    x = states(encoder, batch)
    np.testing.assert_allclose(states(loaded, again), x, atol=1e-5)
    if encoder.family == "bert":
        np.testing.assert_allclose(
            loaded.pooler(x[:, 0]), encoder.pooler(x[:, 0]), atol=1e-6
        )


def test_the_shape_of_a_folder_is_read_without_its_weights(saved):
    encoder, folder = saved
    [block, *_] = encoder.blocks
    assert loading.read_shape(folder) == cost.Shape(
        len(encoder.blocks),
        encoder.hidden,
        block.num_heads,
        block.intermediate_dim,
    )
    assert loading.read_shape(folder, keep_blocks=1).blocks == 1


def test_the_shape_of_a_preset_has_its_number_of_parameters():
    """The rest are embeddings and the pooler: a multiple of the width."""
    for name, preset in presets.read_presets().items():
        shape = loading.read_shape(name)
        h, inner = shape.hidden, shape.inner
        block = 4 * h * h + 2 * h * inner + 9 * h + inner
        rest = preset["metadata"]["params"] - shape.blocks * block
        assert rest > 0 and rest % h == 0, name


def test_pairs_are_packed_as_keras_hub_s_own_preprocessor_packs_them(loaded):
    """Ids, padding, and where the second text begins; cut and uncut."""
    name = {"bert": "Bert", "roberta": "Roberta"}[loaded.family]
    for length in (40, 13, 12):
        preprocessor = getattr(
            keras_hub.models, f"{name}TextClassifierPreprocessor"
        )(exports.keras_tokenizer(loaded.tokenizer), sequence_length=length)
        theirs = preprocessor(x=tuple(map(tf.constant, encoders.PAIRS)))
        ids = tokens.encode(
            loaded.tokenizer.encode, loaded.special, encoders.PAIRS, length
        )
        rows = [
            ids.flat[start : start + size].tolist()
            for start, size in zip(ids.starts, ids.lengths)
        ]
        padded = [
            row + [loaded.special.pad] * (length - len(row)) for row in rows
        ]
        assert padded == theirs["token_ids"].numpy().tolist()
        assert theirs["padding_mask"].numpy().sum(1).tolist() == (
            ids.lengths.tolist()
        )
        if loaded.family == "bert":
            segments = theirs["segment_ids"].numpy().sum(1)
            seconds = ids.lengths - ids.first_lengths
            assert segments.tolist() == seconds.tolist()


def test_every_layer_of_a_loaded_encoder_drops_at_the_rate_asked_for(loaded):
    rates = [
        inner.rate
        for layer in loaded.layers
        for inner in keras_private.flatten(layer)
        if isinstance(inner, keras.layers.Dropout)
    ]
    assert len(rates) == 1 + 3 * len(loaded.blocks)
    assert set(rates) == {0.3}


def test_a_folder_can_be_loaded_in_mixed_precision(folder):
    encoder = loading.load(str(folder), "", 0.0, "mixed_bfloat16")
    batch = batch_of(encoder, encoders.PAIRS)
    assert str(states(encoder, batch).dtype) == "bfloat16"


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_tokeniser_of_a_hugging_face_folder_knows_its_case(
    folder, lowercase
):
    config = {"do_lower_case": lowercase}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    encoder = loading.load(str(folder), "", dropout=0.0)
    accented, plain = encoder.tokenizer.encode(["Café", "cafe"])
    assert (accented.tolist() == plain.tolist()) == lowercase


def test_tiny_is_the_same_every_time():
    one = encoders.shared("bert").backbone.weights
    other = encoders.bert().backbone.weights
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
        identity_with("config.json", lambda content: content + b" "),
        identity_with("assets/merges.txt", lambda _: b"one more file"),
    }
    assert len(others | {before}) == 4


def test_a_folder_that_is_written_again_has_another_identity(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = loading.identify(str(copy), "")
    content = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(content + b"x")
    assert loading.identify(str(copy), "") != before


@pytest.mark.parametrize(
    "name", ["README.md", ".gitattributes", ".cache/huggingface/x.metadata"]
)
def test_files_next_to_a_model_do_not_change_its_identity(
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
        ("mpnet", wheels.MPNET.identity),
        ("bert_base_en_uncased", "kaggle://keras/bert/"),
    ],
)
def test_a_named_model_is_identified_without_its_weights(model, expected):
    assert loading.identify(model, "").startswith(expected)


def test_minilm_is_what_its_wheel_holds(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(wheels, "fetch", lambda wheel, cache: str(folder))
    loaded = loading.load("minilm", str(tmp_path), dropout=0.0)
    assert len(loaded.blocks) == tiny.BLOCKS


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
    with pytest.raises(UserError, match=f"{folder}: is not a model folder"):
        ask(str(folder), "", **options)


@pytest.mark.parametrize("ask", [loading.has_new_pooler, loading.load])
def test_a_torn_weight_file_is_refused(ask, folder):
    options = {}
    if ask is loading.load:
        options = {"cache_folder": "", "dropout": 0.1}
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=f"--model={folder}: cannot be loaded"):
        ask(str(folder), **options)


def test_a_folder_of_another_family_is_refused(folder):
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UserError, match="type gpt2.*can be of bert, camembert"):
        loading.load(str(folder), "", dropout=0.1)


@pytest.mark.parametrize("ask", [loading.identify, loading.read_shape])
@pytest.mark.parametrize(
    "field, size, problem",
    [
        ("hidden_size", 2_000_000, "asks for 3 blocks and"),
        ("num_hidden_layers", 1_000_000, "asks for 1,000,000 blocks"),
        ("num_hidden_layers", 0, "no valid num_hidden_layers or num_layers"),
        ("num_attention_heads", 0, "no valid num_attention_heads"),
        ("vocab_size", "many", "no valid vocab_size"),
    ],
)
def test_sizes_are_checked_before_memory_is_taken(
    ask, field, size, problem, folder
):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, field: size}))
    options = {"cache_folder": ""} if ask is loading.identify else {}
    with pytest.raises(UserError, match=problem):
        ask(str(folder), **options)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_pipe_in_a_model_folder_is_refused(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises((UserError, files.NotAFile)):
        loading.identify(str(folder), "")


def test_a_preset_without_a_network_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    monkeypatch.setattr(servers, "find_problem", lambda url: "ConnectionError")
    with pytest.raises(UserError) as error:
        loading.load("bert_base_en_uncased", "", dropout=0.1)
    for words in ("(ConnectionError)", "--model=FOLDER", "--model=minilm"):
        assert words in str(error.value)


def test_tiny_has_as_many_blocks_as_it_says():
    assert len(encoders.shared("bert").blocks) == tiny.BLOCKS


# The configurations as published.
ARCHITECTURES = {
    "bert-base": ("bert", 30522, 12, 768, 512),
    "bert-large": ("bert", 30522, 24, 1024, 512),
    "roberta-base": ("roberta", 50265, 12, 768, 514),
    "roberta-large": ("roberta", 50265, 24, 1024, 514),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_parts_have_as_many_parameters_as_the_paper_says(name, tmp_path):
    """Table 4 of "What Would Elsa Do?"; the paper's RoBERTa is Fairseq's.

    keras-nlp leaves out two positions and a token type that no token uses.
    """
    family, vocabulary, blocks, hidden, positions = ARCHITECTURES[name]
    config = {
        "model_type": family,
        "vocab_size": vocabulary,
        "num_hidden_layers": blocks,
        "num_attention_heads": hidden // 64,
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": positions,
        "hidden_dropout_prob": 0.1,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.truncate(1 << 31)  # of zeros that take no room
    sizes = transformers_folder.read_config(str(tmp_path)).sizes
    classes = {"bert": "BertBackbone", "roberta": "RobertaBackbone"}
    tokenizer = encoders.shared(family).tokenizer
    with keras.StatelessScope(initialize_variables=False):
        backbone = getattr(keras_hub.models, classes[family])(**sizes)
        encoder = encoder_lib.Encoder(backbone, tokenizer)
    reader = types.SimpleNamespace(pooling="cls", weights=[])
    parts = freezing.components(network_lib.Network(encoder, {"": reader}))
    parts = parts[:-1]  # without the reader
    counts = {part.name: part.parameters for part in parts}
    a_block = counts["block 1"]
    assert {n for name, n in counts.items() if "block" in name} == {a_block}
    left_out = 3 * hidden if family == "roberta" else 0
    found = [
        counts["embeddings"] + left_out,
        a_block,
        blocks * a_block,
        counts["pooler"],
        sum(counts.values()) + left_out,
    ]
    with open(PUBLISHED, encoding="utf-8") as file:
        published = json.load(file)["parameters"][name]
    assert found == published
