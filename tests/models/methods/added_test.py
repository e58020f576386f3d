"""What a method adds to an encoder: merging, following full tuning, cost."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import encoders
from tests.models.methods import equations_test
from tf_transfer.models import cost, exports, freezing, loading
from tf_transfer.models.blocks import bert
from tf_transfer.models.heads import pooled
from tf_transfer.models.methods import added as added_lib
from tf_transfer.models.methods.base_method import DENSE
from tf_transfer.models.methods.lora import LoRA
from tf_transfer.models.methods.own_weights import Bias, FULL, Norm
from tf_transfer.models.network import Network
from tf_transfer.training import optimizer
from tf_transfer.utils.errors import UserError

MERGING = (LoRA(), LoRA(rank=2, targets="all"))


def network_of(method, layers="2", family="bert"):
    """A new encoder with a head, and with what the method adds."""
    encoder = encoders.FAMILIES[family]()
    trainable = freezing.parse(
        layers, "", len(encoder.blocks), method, family == "roberta"
    )
    encoder.added = added_lib.build(encoder, trainable, 0)
    for number, one in encoder.added.items():
        equations_test.randomise(one.weights, number)
    head = pooled.PooledHead(
        1, encoder.hidden, "cls", 0.1, 0, "float32", name="head_mine"
    )
    head.dense.set_weights([np.ones((encoder.hidden, 1)), np.array([0.25])])
    return Network(encoder, {"mine": head}), trainable


def logits_of(network):
    ids = tf.random.stateless_uniform([3, 9], [1, 2], 5, 60, tf.int32)
    batch = {
        "ids": ids,
        "segments": tf.zeros_like(ids),
        "mask": tf.sequence_mask([9, 4, 7], 9),
    }
    return network.logits("mine", batch, training=False).numpy()


def values_of(network):
    return {w.path: w.numpy().copy() for w in network.weights}


@pytest.mark.slow  # traces and saves a model
@pytest.mark.parametrize("method", MERGING, ids=str)
def test_merged_it_gives_the_same_answers_and_is_as_before_afterwards(method):
    network, _ = network_of(method)
    before, weights = logits_of(network), values_of(network)
    with added_lib.merged(network.encoder):
        assert not network.encoder.added
        merged = logits_of(network)
    np.testing.assert_allclose(merged, before, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(logits_of(network), before)
    for path, value in values_of(network).items():
        np.testing.assert_array_equal(value, weights[path])


@pytest.mark.parametrize("method", MERGING, ids=str)
def test_the_exported_folder_is_a_plain_bert_with_the_same_answers(
    method, tmp_path
):
    network, _ = network_of(method)
    folder = str(tmp_path / "hf")
    with added_lib.merged(network.encoder):
        exports.hugging_face(network, "mine", folder, "classes", "ab", 40)
    again = Network(loading.load(folder, "", dropout=0.0), network.heads)
    assert not again.encoder.added
    np.testing.assert_allclose(logits_of(again), logits_of(network), atol=1e-5)


@pytest.mark.slow
def test_so_does_the_exported_keras_preset(tmp_path):
    network, _ = network_of(LoRA())
    folder = str(tmp_path / "preset")
    with added_lib.merged(network.encoder):
        exports.keras_preset(network, "mine", folder, "classes", "ab", 40)
    again = Network(loading.load(folder, "", dropout=0.0), network.heads)
    np.testing.assert_allclose(logits_of(again), logits_of(network), atol=1e-5)


# === LoRA beside full tuning ===


def changes_of_kernels(steps, trains_lora):
    """How the six kernels of a block change over some steps of Adam.

    With A the identity and of full rank, W + A B is trained through B alone.
    """
    block = equations_test.built("float32")
    x, mask = equations_test.inputs("float32")
    widths = equations_test.WIDTHS
    one = added_lib.AddedWeights(LoRA(24, 24.0, "all"), widths, 1, 0)
    for name, (inputs, _) in widths.items():
        one.by_name[f"{name}_a"].assign(np.eye(inputs, 24))
    layers = added_lib.dense_layers(block)
    weights = [layer.kernel for _, layer in layers]
    if trains_lora:
        weights = [one.by_name[f"{name}_b"] for name in DENSE]
    start = {name: added_lib.matrix(layer)[0] for name, layer in layers}
    adam = optimizer.BertAdam(
        weights,
        lambda step: tf.constant(1e-2),
        optimizer.AdamOptions(weight_decay=0.0),
    )
    for _ in range(steps):
        variables = [weight.value for weight in weights]
        with tf.GradientTape() as tape:
            tape.watch(variables)
            y = bert.run(block, x, mask, False, added=one)
            loss = tf.reduce_sum(tf.cos(y))
        gradients = tape.gradient(loss, variables)
        adam.update(gradients, adam.read_numbers())
        adam.count()
    if not trains_lora:
        return {
            name: added_lib.matrix(layer)[0] - start[name]
            for name, layer in layers
        }
    return {
        name: one.by_name[f"{name}_a"].numpy()
        @ one.by_name[f"{name}_b"].numpy()
        for name in DENSE
    }


def test_lora_of_full_rank_follows_full_tuning():
    """Through B alone, A being the identity, every step is full tuning's."""
    full, lora = (changes_of_kernels(4, trains) for trains in (False, True))
    for name in DENSE:
        assert np.abs(full[name]).max() > 0.01
        np.testing.assert_allclose(lora[name], full[name], atol=1e-5)


# === What trains ===

SHARES = {  # of the last two blocks of `tiny`, beside the head's 33
    FULL: 2 * 8_544 + 1_056,
    LoRA(): 2 * 2 * 2 * 32 * 8,
    LoRA(rank=4, targets="all"): 2 * (4 * 64 + 2 * 96) * 4,
    Bias(): 2 * (4 * 32 + 64 + 32 + 2 * 32) + 32,
    Norm(): 2 * 4 * 32,
}


@pytest.mark.parametrize("method", SHARES, ids=str)
def test_a_method_trains_what_it_says_and_nothing_below(method):
    network, trainable = network_of(method)
    weights = freezing.freeze(network, trainable)
    count = sum(int(np.prod(weight.shape)) for weight in weights)
    assert count == SHARES[method] + 33
    assert count == freezing.count_trained(network, trainable)
    flagged = {w.path for w in network.weights if w.trainable}
    assert flagged == {weight.path for weight in weights}
    first_blocks = network.encoder.blocks[0].weights
    assert not flagged & {weight.path for weight in first_blocks}


def names_of(layer_type, *names):
    """Paths of weights of the layers of a type in the last two blocks."""
    network, _ = network_of(FULL)
    return {
        getattr(layer, name).path
        for block in network.encoder.blocks[1:]
        for layer in block._flatten_layers()
        if type(layer).__name__ in layer_type
        for name in names
    }


def test_biases_and_norms_are_those_of_their_layers():
    dense = names_of(("Dense", "EinsumDense"), "bias")
    shifts = names_of(("LayerNormalization",), "beta")
    gains = names_of(("LayerNormalization",), "gamma")
    assert (len(dense), len(shifts), len(gains)) == (12, 4, 4)
    for method, expected in (
        (Bias(), dense | shifts),
        (Norm(), gains | shifts),
    ):
        network, trainable = network_of(method)
        trained = {w.path for w in freezing.freeze(network, trainable)}
        in_blocks = {
            weight.path
            for block in network.encoder.blocks
            for weight in block.weights
        }
        assert len(trained & in_blocks) == len(expected)
        assert {path.split("/", 1)[1] for path in trained & in_blocks} == {
            path.split("/", 1)[1] for path in expected
        }


def test_everywhere_is_in_every_block_with_frozen_embeddings():
    network, trainable = network_of(LoRA(), layers="all")
    assert sorted(network.encoder.added) == [1, 2, 3]
    assert trainable.cut == 0 and not trainable.embeddings
    assert not trainable.has_prefix
    assert freezing.parse("3", "", 3).has_prefix  # its embeddings are stored


@pytest.mark.parametrize("method", [LoRA(), Bias(), FULL], ids=str)
@pytest.mark.parametrize("layers", ["1", "head"])
def test_a_new_pooler_trains_as_a_head_does(method, layers):
    network, _ = network_of(FULL, family="roberta")
    trainable = freezing.parse(layers, "", 2, method, new_pooler=True)
    pooler = network.encoder.pooler.weights
    freezing.freeze(network, trainable)
    assert all(weight.trainable for weight in pooler)


def test_a_linear_probe_trains_the_head_alone():
    network, _ = network_of(FULL)
    weights = freezing.freeze(network, freezing.parse("head", "", 3))
    assert weights == network.heads["mine"].weights


def test_the_table_says_how_much_of_a_block_trains():
    network, trainable = network_of(LoRA())
    lines = freezing.describe_parameters(network, trainable).splitlines()
    assert lines[2].split() == ["block", "1", "8,544", "-"]
    assert lines[3].split() == ["block", "2", "9,568", "1,024"]
    assert lines[5].split() == ["pooler", "1,056", "-"]


def test_what_is_added_belongs_to_the_key_of_stored_states():
    """Where a method's block is in the prefix; else the key is that of all."""
    from tf_transfer.models import prefix

    plain, _ = network_of(FULL)
    lora, _ = network_of(LoRA())
    one, other = (prefix.hash_prefixes(n.encoder) for n in (plain, lora))
    assert one[:2] == other[:2] and one[2] != other[2]


def test_frozen_kernels_cost_a_third_less():
    shape = cost.Shape(12, 768, 12, 3072)

    def count(layers, method):
        trainable = freezing.parse(layers, "", 12, method)
        return cost.count_training(shape, 32, False, trainable, True)

    assert count("all", LoRA()) / count("all", FULL) == pytest.approx(
        2 / 3, abs=0.02
    )
    assert count("2", LoRA()) / count("all", LoRA()) == pytest.approx(
        2 / 12, abs=0.02
    )


@pytest.mark.parametrize("targets", ["", "query,query", "quary", "all,query"])
def test_targets_that_do_not_exist_are_refused(targets):
    with pytest.raises(UserError, match="--lora_targets="):
        LoRA(targets=targets)
