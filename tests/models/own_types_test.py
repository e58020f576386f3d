"""Folders of MPNet, DeBERTa and ModernBERT are read as they are, or refused."""

import json

import numpy as np
import pytest
import safetensors.numpy

from tests.models import encoders, own_types
from tests.models.own_types import CONFIGS
from tf_transfer.models import (
    cost,
    exports,
    freezing,
    loading,
    prefix as prefix_lib,
)
from tf_transfer.models.methods.own_weights import Bias, FULL, Norm
from tf_transfer.utils.errors import UserError


@pytest.fixture(params=CONFIGS)
def name(request):
    return request.param


def batch_of(encoder):
    return encoders.batch_of(
        encoder, encoders.PAIRS, tokenize=encoder.tokenizer.encode
    )


def states_of(encoder):
    return encoders.states(encoder, batch_of(encoder))


def save(name, folder, **values):
    """A whole folder; returns its encoder."""
    encoder = own_types.make(name, folder, **values)
    network = own_types.network_of(encoder)
    exports.hugging_face(
        network, "mine", str(folder), "classes", ("no", "yes"), 40
    )
    return encoder


def change(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def load(folder, **options):
    return loading.load(str(folder), "", 0.0, **options)


def test_a_folder_is_read_as_it_was_written(name, tmp_path):
    made = save(name, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.family == name
    np.testing.assert_allclose(states_of(again), states_of(made), atol=1e-6)
    assert prefix_lib.hash_prefixes(again) == prefix_lib.hash_prefixes(made)
    shape = loading.read_shape(str(tmp_path / "model"))
    assert (shape.blocks, shape.hidden, shape.heads) == (4, 16, 2)
    assert loading.find_positions(str(tmp_path / "model")) == (
        again.max_positions
    )
    with pytest.raises(UserError, match=f"none of {name}"):
        exports.keras_preset(
            own_types.network_of(again), "mine", "", "classes", ("a", "b"), 9
        )


def test_the_pooler_is_drawn_but_for_modernberts_own(name, tmp_path):
    made = save(name, tmp_path / "model")
    again = load(tmp_path / "model", seed=1)
    other = load(tmp_path / "model", seed=2)
    is_new = loading.has_new_pooler(str(tmp_path / "model"))
    assert is_new == (name != "modernbert")
    theirs = [one.pooler.get_weights()[0] for one in (made, again, other)]
    assert np.array_equal(theirs[0], theirs[1]) != is_new
    assert np.array_equal(theirs[1], theirs[2]) != is_new


@pytest.mark.parametrize("way", ["half", "shards", "prefix"])
def test_weights_are_read_as_those_of_bert(way, name, tmp_path):
    made = save(name, tmp_path)
    path = tmp_path / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    if way == "half":
        arrays = {n: a.astype(np.float16) for n, a in arrays.items()}
    if way == "prefix":
        arrays = {f"module.{n}": a for n, a in arrays.items()}
    files = {"model.safetensors": arrays}
    if way == "shards":
        path.unlink()
        names = sorted(arrays)
        files = {
            "one.safetensors": {n: arrays[n] for n in names[::2]},
            "two.safetensors": {n: arrays[n] for n in names[1::2]},
        }
        where = {n: file for file, held in files.items() for n in held}
        (tmp_path / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": where})
        )
    for file, held in files.items():
        (tmp_path / file).write_bytes(safetensors.numpy.save(held))
    close = 0.05 if way == "half" else 1e-6
    np.testing.assert_allclose(
        states_of(load(tmp_path)), states_of(made), atol=close
    )


def test_a_missing_weight_is_named(name, tmp_path):
    save(name, tmp_path)
    path = tmp_path / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    gone = next(n for n in arrays if "rel" in n or "Wqkv" in n)
    del arrays[gone]
    path.write_bytes(safetensors.numpy.save(arrays))
    with pytest.raises(UserError, match=gone.partition(".")[2]):
        load(tmp_path)


@pytest.mark.parametrize(
    "name, key, value",
    [
        ("mpnet", "relative_attention_num_buckets", 64),
        ("mpnet", "pad_token_id", 0),
        ("mpnet", "hidden_act", "tanh"),
        ("mpnet", "position_buckets", 8),
        ("deberta-v2", "relative_attention", False),
        ("deberta-v2", "share_att_key", False),
        ("deberta-v2", "norm_rel_ebd", "none"),
        ("deberta-v2", "pos_att_type", "c2p"),
        ("deberta-v2", "pos_att_type", ["p2c"]),
        ("deberta-v2", "position_biased_input", True),
        ("deberta-v2", "position_buckets", -1),
        ("deberta-v2", "type_vocab_size", 2),
        ("deberta-v2", "conv_kernel_size", 3),
        ("deberta-v2", "attention_head_size", 4),
        ("deberta-v2", "pooler_hidden_act", "sigmoid"),
        ("deberta-v2", "pooler_hidden_size", 8),
        ("deberta-v2", "embedding_size", 8),
        ("modernbert", "attention_bias", True),
        ("modernbert", "mlp_bias", True),
        ("modernbert", "norm_bias", True),
        ("modernbert", "classifier_bias", True),
        ("modernbert", "hidden_activation", "tanh"),
        ("modernbert", "classifier_activation", "sigmoid"),
        ("modernbert", "layer_types", ["full_attention"]),
        ("modernbert", "layer_types", ["chunked_attention"] * 4),
        ("modernbert", "rope_scaling", {"rope_type": "linear"}),
        (
            "modernbert",
            "rope_parameters",
            {"full_attention": {"rope_type": "yarn", "rope_theta": 10.0}},
        ),
        ("modernbert", "rope_parameters", {"rope_theta": 10.0}),
    ],
)
def test_what_would_change_the_arithmetic_is_refused_by_name(
    name, key, value, tmp_path
):
    save(name, tmp_path)
    load(tmp_path)
    change(tmp_path, **{key: value})
    with pytest.raises(UserError, match=key):
        load(tmp_path)


def test_what_the_file_leaves_out_is_transformers_default(tmp_path):
    save("deberta-v2", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["share_att_key"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="share_att_key"):
        load(tmp_path)


@pytest.mark.parametrize(
    "name, values",
    [
        ("deberta-v2", {"max_relative_positions": 20}),
        ("deberta-v2", {"layer_norm_eps": 0.1}),
        ("deberta-v2", {"hidden_act": "relu"}),
        ("modernbert", {"local_attention": 4}),
        ("modernbert", {"norm_eps": 0.1}),
        ("modernbert", {"hidden_activation": "relu"}),
        ("modernbert", {"local_rope_theta": 3.0}),
        ("modernbert", {"global_rope_theta": 3.0}),
        ("modernbert", {"global_attn_every_n_layers": 2}),
        ("modernbert", {"layer_types": ["full_attention"] * 4}),
    ],
)
def test_a_setting_that_is_read_changes_states_and_hash(name, values, tmp_path):
    made = save(name, tmp_path)
    change(tmp_path, **values)
    again = load(tmp_path)
    assert np.abs(states_of(again) - states_of(made)).max() > 1e-4
    assert (
        prefix_lib.hash_prefixes(again)[4]
        != (prefix_lib.hash_prefixes(made)[4])
    )


def test_both_spellings_of_modernberts_settings_are_one(tmp_path):
    old = {
        "global_attn_every_n_layers": 2,
        "global_rope_theta": 50.0,
        "local_rope_theta": 20.0,
    }
    made = save("modernbert", tmp_path, **old)
    config = json.loads((tmp_path / "config.json").read_text())
    for key in old:
        del config[key]
    config["layer_types"] = ["full_attention", "sliding_attention"] * 2
    config["rope_parameters"] = {
        "full_attention": {"rope_type": "default", "rope_theta": 50.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    np.testing.assert_array_equal(states_of(load(tmp_path)), states_of(made))


def test_what_the_blocks_share_trains_with_the_embeddings_alone(name, tmp_path):
    network = own_types.network_of(own_types.make(name, tmp_path))
    shared = network.encoder.positions
    assert shared in network.encoder.embedding_layers
    for layers, trains in (("all", True), ("4", False)):
        trainable = freezing.parse(layers, "", 4)
        weights = freezing.freeze(network, trainable)
        found = [any(w is one for one in weights) for w in shared.weights]
        assert all(found) if trains else not any(found)


@pytest.mark.parametrize("method", [Bias(), Norm()])
def test_a_method_without_weights_in_the_blocks_is_refused(
    method, name, tmp_path
):
    network = own_types.network_of(own_types.make(name, tmp_path))
    trainable = freezing.parse("2", "", 4, method)
    if name == "modernbert" and method == Bias():
        with pytest.raises(UserError, match="--method=bias: .* no such"):
            freezing.freeze(network, trainable)
    else:
        assert freezing.freeze(network, trainable)


def test_no_state_depends_on_padding(name, tmp_path):
    encoder = own_types.make(name, tmp_path)
    near = encoders.batch_of(
        encoder, encoders.PAIRS, tokenize=encoder.tokenizer.encode
    )
    far = encoders.batch_of(
        encoder, encoders.PAIRS, 60, tokenize=encoder.tokenizer.encode
    )
    mask = near["mask"].numpy()
    difference = (
        encoders.states(encoder, near) - encoders.states(encoder, far)[:, :40]
    )
    assert np.abs(difference[mask]).max() < 1e-5


def test_a_gate_counts_among_the_operations(tmp_path):
    save("modernbert", tmp_path)
    gated = loading.read_shape(str(tmp_path))
    plain = cost.Shape(4, 16, 2, 24)
    more = cost.count_forward(gated, 10) - cost.count_forward(plain, 10)
    assert more == 4 * 2 * 10 * 16 * 24
    trainable = freezing.parse("1", "", 4, FULL)
    assert cost.count_training(gated, 10, True, trainable, True) > (
        cost.count_training(plain, 10, True, trainable, True)
    )
