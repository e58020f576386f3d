"""Folders of transformers are read as they are, or refused."""

import json
import shutil

import keras_hub
import numpy as np
import pytest
import safetensors.numpy

from tests.models import encoders, saving
from tests.models.their_folders import (
    change,
    load,
    make_tokenizer_json,
    network_of,
)
from tf_transfer.models import (
    encoder as encoder_lib,
    exports,
    freezing,
    loading,
    transformers_types,
    transformers_weights,
)
from tf_transfer.utils.errors import UserError


def change_weights(folder, rename):
    """Renames weights; a weight that is renamed to None is removed."""
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    renamed = {rename(name): array for name, array in arrays.items()}
    renamed.pop(None, None)
    path.write_bytes(safetensors.numpy.save(renamed))


def states_of(encoder):
    batch = encoders.batch_of(encoder, encoders.PAIRS)
    return encoders.states(encoder, batch)


def test_a_distilbert_is_a_bert_without_segments(bert, folder, tmp_path):
    distilbert = transformers_types.TYPES["distilbert"]

    def rename(name):
        for ours, theirs in distilbert.weights.items():
            name = name.replace(ours, theirs)
        is_left_out = "pooler" in name or "token_type" in name
        return None if is_left_out else name.replace("bert.", "distilbert.")

    change_weights(folder, rename)
    config = json.loads((folder / "config.json").read_text())
    for theirs, ours in distilbert.keys.items():
        config[theirs] = config.pop(ours)
    config["model_type"] = "distilbert"
    (folder / "config.json").write_text(json.dumps(config))
    same = shutil.copytree(bert, tmp_path / "same")
    path = same / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    arrays[f"bert.{transformers_weights.SEGMENTS}"] *= 0
    path.write_bytes(safetensors.numpy.save(arrays))

    encoder, plain = load(folder), load(same)
    batch = encoders.batch_of(plain, encoders.PAIRS)
    np.testing.assert_allclose(
        encoders.states(encoder, batch),
        encoders.states(plain, batch),
        atol=1e-5,
    )
    assert loading.has_new_pooler(str(folder))
    assert loading.read_shape(str(folder)) == loading.read_shape(str(bert))
    network = network_of(encoder)
    out = str(tmp_path / "out")
    with pytest.raises(UserError, match="--format=keras_preset: keras-hub has"):
        exports.keras_preset(network, "mine", out, "score", (), 40)


def test_embeddings_may_be_narrower_than_blocks(tmp_path):
    """As keras-hub computes them, and written as transformers names them."""
    words = encoders.shared("bert").tokenizer.vocabulary
    backbone = keras_hub.models.ElectraBackbone(
        len(words),
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        embedding_dim=8,
        intermediate_dim=24,
        max_sequence_length=40,
    )
    encoders.randomise(backbone)
    electra = encoder_lib.Encoder(backbone, encoders.shared("bert").tokenizer)
    saving.as_hugging_face(electra, tmp_path / "electra")
    loaded = load(tmp_path / "electra")
    batch = encoders.batch_of(electra, encoders.PAIRS)
    expected = backbone(
        {
            "token_ids": batch["ids"],
            "segment_ids": batch["segments"],
            "padding_mask": batch["mask"],
        }
    )["sequence_output"]
    mask = batch["mask"].numpy()
    np.testing.assert_allclose(
        encoders.states(loaded, batch)[mask],
        expected.numpy()[mask],
        atol=1e-5,
    )
    parts = freezing.components(network_of(loaded))
    assert parts[0].parameters == 8 * (len(words) + 40 + 2 + 2) + 9 * 16
    for write in (exports.hugging_face, exports.keras_preset):
        with pytest.raises(UserError, match="embeddings.*saved_model"):
            write(network_of(loaded), "mine", str(tmp_path), "score", (), 40)


def test_a_projection_without_segments_is_refused(tmp_path):
    """transformers gives the texts of a pair one segment, keras-hub two."""
    saving.as_hugging_face(encoders.shared("roberta"), tmp_path / "electra")
    change(
        tmp_path / "electra" / "config.json",
        model_type="electra",
        embedding_size=8,
    )
    change(
        tmp_path / "electra" / "tokenizer_config.json",
        tokenizer_class="RobertaTokenizer",
    )
    with pytest.raises(UserError, match="config.json has embedding_size='8'"):
        load(tmp_path / "electra")


@pytest.mark.parametrize(
    "name, key, value",
    [
        ("config.json", "is_decoder", True),
        ("config.json", "hidden_act", "mish"),
        ("config.json", "position_embedding_type", "relative_key"),
        ("config.json", "pruned_heads", {"0": [1]}),
        ("config.json", "auto_map", {"AutoModel": "modeling.py"}),
        ("config.json", "quantization_config", {"bits": 4}),
        ("tokenizer_config.json", "tokenizer_class", "BertJapaneseTokenizer"),
        ("tokenizer_config.json", "never_split", ["a"]),
        ("tokenizer_config.json", "word_tokenizer_type", "mecab"),
        ("tokenizer.json", "normalizer", {"type": "NFC"}),
        ("tokenizer.json", "pre_tokenizer", {"type": "Whitespace"}),
        ("tokenizer.json", "post_processor", {"type": "ByteLevel"}),
        ("special_tokens_map.json", "image_token", "<image>"),
    ],
)
def test_what_is_not_known_is_refused_by_name(folder, name, key, value):
    if name == "tokenizer.json":
        change(folder / name, **make_tokenizer_json())
    change(folder / name, **{key: value})
    with pytest.raises(UserError) as error:
        load(folder)
    assert f"{name} has {key}" in str(error.value)


@pytest.mark.parametrize(
    "name, values",
    [
        ("config.json", {"is_decoder": False, "pruned_heads": {}}),
        ("config.json", {"architectures": ["BertModel"], "use_cache": True}),
        ("config.json", {"a_key_of_the_future": None}),
        ("tokenizer_config.json", {"model_max_length": 8, "never_split": []}),
        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizerFast"}),
        ("special_tokens_map.json", {"cls_token": {"content": "[CLS]"}}),
    ],
)
def test_what_changes_nothing_is_read(bert, folder, name, values):
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **values}))
    one, other = load(bert), load(folder)
    np.testing.assert_array_equal(states_of(one), states_of(other))


def test_weights_may_have_another_prefix_or_older_names(bert, folder):
    change_weights(
        folder,
        lambda name: (
            name.removeprefix("bert.")
            .replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta")
        ),
    )
    np.testing.assert_array_equal(
        states_of(load(bert)), states_of(load(folder))
    )


def test_a_missing_pooler_is_a_new_one(bert, folder, caplog):
    change_weights(folder, lambda n: None if "pooler" in n else n)
    assert loading.has_new_pooler(str(folder))
    assert not loading.has_new_pooler(str(bert))
    one, same, other = (
        loading.load(str(folder), "", 0.0, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(states_of(one), states_of(load(bert)))
    kernels = [e.pooler.kernel.numpy() for e in (one, same, other, load(bert))]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert all((kernels[0] != kernel).any() for kernel in kernels[2:])
    assert f"--model={folder}: has no pooler" in caplog.text


def test_a_missing_weight_is_named(folder):
    name = "encoder.layer.1.attention.self.query.weight"
    change_weights(folder, lambda n: None if n.endswith(name) else n)
    with pytest.raises(UserError, match=f"weights have no {name}"):
        load(folder)


@pytest.mark.parametrize(
    "name, key, value",
    [
        ("config.json", "layer_norm_eps", "small"),
        ("config.json", "num_attention_heads", 0),
        ("tokenizer_config.json", "added_tokens_decoder", [1]),
        ("special_tokens_map.json", "cls_token", 7),
    ],
)
def test_values_of_a_wrong_type_are_errors(folder, name, key, value):
    change(folder / name, **{key: value})
    with pytest.raises(UserError, match=f"--model={folder}: "):
        load(folder)
