"""Training on stored states gives the numbers of training on live ones."""

import re

import numpy as np
import pytest

from tests.feature_cache import small
from tests.feature_cache.small import attach
from tf_transfer.feature_cache import vectors as vectors_lib
from tf_transfer.models import freezing

BLOCKS = 2


def trainable_of(layers="1", blocks=""):
    return freezing.parse(layers, blocks, BLOCKS)


def assert_same(one, other, tolerance=1e-5):
    """That losses and logits are the same."""
    np.testing.assert_allclose(one[0], other[0], atol=tolerance)
    np.testing.assert_allclose(one[1], other[1], atol=10 * tolerance)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "layers, blocks, pooling, per_example, options",
    [
        ("0", "", "cls", 1, {}),
        pytest.param("0", "", "mean", 1, {}, marks=pytest.mark.slow),
        pytest.param("1", "", "cls", 1, {}, marks=pytest.mark.slow),
        ("1", "", "cls", 1, {"examples": 3, "batch_size": 1}),
        pytest.param(
            "2", "", "cls", 1, {"grouped": True}, marks=pytest.mark.slow
        ),
        ("1", "", "mean", 1, {}),
        ("all", "1-1", "cls", 1, {}),
        ("0", "", "cls", 2, {}),
        pytest.param("0", "", "mean", 2, {}, marks=pytest.mark.slow),
        pytest.param("1", "", "cls", 2, {}, marks=pytest.mark.slow),
    ],
)
def test_without_dropout_losses_and_outputs_are_those_of_a_live_prefix(
    layers, blocks, pooling, per_example, options, tmp_path
):
    network = small.network(small.encoder(), pooling, per_example)
    trainable = trainable_of(layers, blocks)
    prefix = network.prefix("head", trainable, "float32")
    split = small.split("train", per_example)
    cached = attach(tmp_path, prefix, {"train": split})
    live = small.train(network, trainable, split, **options)
    assert np.ptp(live[0]) > 1e-3  # it moves
    split = cached.splits["train"]
    assert_same(
        small.train(network, trainable, split, cached.prefix, **options), live
    )


@pytest.mark.slow  # trains whole runs
@pytest.mark.parametrize(
    "dtype, tolerance", [("float16", 2e-4), ("bfloat16", 2e-3)]
)
def test_half_precision_moves_the_losses_by_its_rounding_only(
    dtype, tolerance, tmp_path
):
    network, split = small.network(small.encoder()), small.split("train")
    prefix = network.prefix("head", trainable_of(), dtype)
    cached = attach(tmp_path, prefix, {"train": split})
    live = small.train(network, trainable_of(), split)
    found = small.train(
        network, trainable_of(), cached.splits["train"], cached.prefix
    )
    assert_same(found, live, tolerance)
    assert found != live


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("layers", "01")
def test_dropout_is_off_in_the_frozen_blocks_and_on_above(layers, tmp_path):
    network, split = (
        small.network(small.encoder(dropout=0.5)),
        small.split("train"),
    )
    prefix = network.prefix("head", trainable_of(layers), "float32")
    cached = attach(tmp_path, prefix, {"train": split}).splits["train"]
    plan = small.batches.plan_evaluation(cached.lengths, 4)
    batch = next(iter(small.batches.pipeline(cached, plan, 0)))
    once, again = (
        small.logits_of(network, batch, prefix, training=True).numpy()
        for _ in range(2)
    )
    # With nothing above but the head, no dropout of the encoder is left.
    assert (np.abs(once - again).max() > 1e-3) == (layers == "1")
    small.assert_same_states(
        attach(tmp_path, prefix, {"train": split}),
        attach(tmp_path / "without", prefix, {"train": split}),
    )


# === The limit and the disk ===


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "layers, pooling, dtype",
    [
        pytest.param("1", "cls", "float32", marks=pytest.mark.slow),
        pytest.param("0", "mean", "float32", marks=pytest.mark.slow),
        ("1", "cls", "float16"),
    ],
)
def test_numbers_do_not_depend_on_the_limit(
    layers, pooling, dtype, tmp_path, capsys
):
    network = small.network(small.encoder(), pooling)
    prefix = network.prefix("head", trainable_of(layers), dtype)
    whole = attach(tmp_path, prefix)
    expected = small.evaluate(network, whole.splits["train"], prefix)
    [texts] = whole.builds
    [entry] = small.entries(tmp_path)
    half = entry.num_bytes / 2e9
    for limit, least, most in ((half, 2, texts - 2), (0.0, 0, 0)):
        capsys.readouterr()
        some = attach(tmp_path / str(limit), prefix, limit_gb=limit)
        built = sum(some.builds)
        assert least <= built <= most
        report = re.search(r"(\d+) texts do not fit", capsys.readouterr().out)
        assert int(report[1]) >= texts - built  # one may occur twice
        split = some.splits["train"]
        assert split.states.is_stored.any() == (built > 0)
        assert not split.states.is_stored.all()
        found = small.evaluate(network, split, prefix)
        np.testing.assert_allclose(found, expected, atol=3e-5)


@pytest.mark.usefixtures("eager")
def test_a_full_disk_is_treated_like_the_limit(monkeypatch, tmp_path, capsys):
    def full(*arguments):
        raise vectors_lib.DiskFull("the disk is full")

    network = small.network(small.encoder())
    live = small.evaluate(network, small.split("train"))
    monkeypatch.setattr(vectors_lib.VectorFile, "append", full)
    attached = attach(tmp_path)
    assert "the disk is full" in capsys.readouterr().out
    found = small.evaluate(network, attached.splits["train"], attached.prefix)
    np.testing.assert_allclose(found, live, atol=1e-5)
