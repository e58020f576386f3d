"""What trains is what was asked for, weight by weight."""

import pytest

from tf_transfer.models import freezing, loading, network as network_lib, tiny
from tf_transfer.models.heads import pooled
from tf_transfer.models.methods import lora, own_weights
from tf_transfer.utils.errors import UserError

# Parameters of `tiny`: width 32, inner width 64, 512 positions, 2 segments.
EMBEDDINGS = (len(tiny.vocabulary()) + 512 + 2 + 2) * 32
BLOCK = 8_544  # attention 4 (32² + 32), two norms 4 · 32, 32 → 64 → 32
POOLER = 1_056
HEAD = 33

# Trainable parameters at every level of freezing.
GOLDEN = {
    "0": POOLER + HEAD,
    "1": 1 * BLOCK + POOLER + HEAD,
    "2": 2 * BLOCK + POOLER + HEAD,
    "3": 3 * BLOCK + POOLER + HEAD,
    "all": EMBEDDINGS + 3 * BLOCK + POOLER + HEAD,
}


def build_network(pooling="cls"):
    encoder = loading.load("tiny", "", dropout=0.1)
    head = pooled.PooledHead(1, encoder.hidden, pooling, 0.1, 0, "float32")
    return network_lib.Network(encoder, {"rte": head})


def trainable(layers, blocks=""):
    return freezing.parse(layers, blocks, tiny.BLOCKS)


def size(weights):
    return sum(weight.value.shape.num_elements() for weight in weights)


@pytest.fixture(scope="module")
def network():
    return build_network()


# === The golden table ===


def test_every_level_of_freezing_has_a_row():
    levels = [str(level) for level in range(tiny.BLOCKS + 1)] + ["all"]
    assert list(GOLDEN) == levels


@pytest.mark.parametrize("layers, expected", GOLDEN.items())
def test_this_many_parameters_train(network, layers, expected):
    weights = freezing.freeze(network, trainable(layers))
    assert size(weights) == expected
    flagged = [weight for weight in network.weights if weight.trainable]
    assert [id(w) for w in flagged] == [id(w) for w in weights]


def test_freezing_more_and_then_less_gives_what_less_gives(network):
    freezing.freeze(network, trainable("0"))
    assert size(freezing.freeze(network, trainable("2"))) == GOLDEN["2"]


@pytest.mark.parametrize(
    "blocks, names",
    [
        ("1-1", ["block 1"]),
        ("2-2", ["block 2"]),
        ("1-2", ["block 1", "block 2"]),
        ("3-3", ["block 3"]),
    ],
)
def test_a_range_trains_these_blocks_and_what_is_above_the_encoder(
    network, blocks, names
):
    wanted = trainable("all", blocks)
    moving = [
        p.name for p in freezing.components(network) if wanted.includes(p.name)
    ]
    assert moving == [*names, "pooler", "head rte"]
    expected = len(names) * BLOCK + POOLER + HEAD
    assert size(freezing.freeze(network, wanted)) == expected


def test_parts_know_their_parameters(network):
    found = {
        part.name: part.parameters for part in freezing.components(network)
    }
    assert found == {
        "embeddings": EMBEDDINGS,
        "block 1": BLOCK,
        "block 2": BLOCK,
        "block 3": BLOCK,
        "pooler": POOLER,
        "head rte": HEAD,
    }


def test_a_pooler_that_no_head_reads_is_no_part():
    network = build_network("mean")
    assert "pooler" not in [part.name for part in freezing.components(network)]
    assert size(freezing.freeze(network, trainable("0"))) == HEAD


def test_the_table_for_people_adds_up(network):
    lines = freezing.describe_parameters(network, trainable("1")).splitlines()
    assert lines[:2] == [
        "component           parameters  trains",
        f"embeddings              {EMBEDDINGS:,}  -",
    ]
    assert {len(line.rpartition("  ")[0]) for line in lines[:-2]} == {30}
    assert lines[1].split() == ["embeddings", f"{EMBEDDINGS:,}", "-"]
    assert lines[4].split() == ["block", "3", f"{BLOCK:,}", "yes"]
    untrained = freezing.Trainable(3, 3, untrained=("bias",))
    [line] = [
        line
        for line in freezing.describe_parameters(network, untrained).split("\n")
        if line.startswith("block 3")
    ]
    biases = 4 * 32 + 64 + 32  # of the dense layers
    assert line.split()[-1] == f"{BLOCK - biases:,}" == "8,320"
    assert [line[:17].strip() for line in lines[-2:]] == ["total", "trainable"]
    assert {len(line.rpartition(",")[0]) for line in lines[-2:]} == {26}
    total, moving = GOLDEN["all"], GOLDEN["1"]
    assert lines[-2].split() == ["total", f"{total:,}"]
    assert lines[-1].split()[:2] == ["trainable", f"{moving:,}"]
    assert lines[-1].split()[2] == f"{moving / total:.1%}"


# === Reading the flags ===


def test_block_1_is_not_block_11():
    for wanted, expected in [
        (freezing.parse("2", "", 12), [11, 12]),
        (freezing.parse("all", "1-1", 12), [1]),
    ]:
        blocks = range(1, 13)
        assert expected == [n for n in blocks if wanted.includes(f"block {n}")]


@pytest.mark.parametrize(
    "layers, blocks, cut",
    [
        ("all", "", 0),
        ("0", "", 12),
        ("1", "", 11),
        ("4", "", 8),
        ("12", "", 0),
        ("head", "", 12),
        ("all", "7-8", 6),
        ("all", "1-12", 0),
    ],
)
def test_the_cut_counts_the_blocks_below_what_trains(layers, blocks, cut):
    assert freezing.parse(layers, blocks, 12).cut == cut


LORA = lora.LoRA(rank=2)


@pytest.mark.parametrize(
    "layers, method, has_prefix",
    [
        ("all", own_weights.FULL, False),
        ("12", own_weights.FULL, True),  # the embeddings alone
        ("11", own_weights.FULL, True),
        ("0", own_weights.FULL, True),
        ("all", LORA, False),  # all blocks, of frozen embeddings
        ("12", LORA, False),
        ("11", LORA, True),
    ],
)
def test_what_is_frozen_is_stored_where_that_saves_something(
    layers, method, has_prefix
):
    assert freezing.parse(layers, "", 12, method).has_prefix == has_prefix


def test_a_new_pooler_trains_with_a_head_and_no_other():
    assert freezing.parse("head", "", 12).only_heads
    assert not freezing.parse("head", "", 12, new_pooler=True).only_heads
    assert not freezing.parse("0", "", 12).only_heads  # the pooler trains
    blocks = freezing.Trainable(12, 12, pooler=False)
    assert not blocks.only_heads
    assert not freezing.Trainable(13, 12, True, pooler=False).only_heads


def test_training_all_blocks_is_not_training_all():
    assert not freezing.parse("12", "", 12).includes("embeddings")
    assert freezing.parse("all", "", 12).includes("embeddings")


@pytest.mark.parametrize("layers", ["13", "100"])
def test_more_blocks_than_there_are_is_refused(layers):
    with pytest.raises(UserError, match=rf"={layers}: .* has 12 blocks"):
        freezing.parse(layers, "", 12)


@pytest.mark.parametrize("blocks", ["0-3", "8-7", "7-13"])
def test_a_range_outside_of_the_encoder_is_refused(blocks):
    with pytest.raises(UserError, match=f"--blocks={blocks}: .* 1 to 12"):
        freezing.parse("all", blocks, 12)


def test_rates_decay_from_the_top_block_down():
    """Pooler and head 1, block 3 of 3 too, then 0.5, 0.25; embeddings 0.25."""
    network = build_network()
    scales = freezing.rate_scales(network, 0.5)
    found = {
        part.name: {scales[id(weight)] for weight in part.weights}
        for part in freezing.components(network)
    }
    head = found.popitem()
    assert head[0].startswith("head") and head[1] == {1.0}
    assert found == {
        "embeddings": {0.25},
        "block 1": {0.25},
        "block 2": {0.5},
        "block 3": {1.0},
        "pooler": {1.0},
    }
    *_, scaled = freezing.rate_scales(network, 0.5, head_scale=50.0).values()
    assert scaled == 50.0
