"""A head on [CLS] above the last four blocks, live and from the cache."""

import numpy as np
import pytest

from tests.training.conftest import CACHED
from tf_transfer.models import tiny
from tf_transfer.utils.errors import UserError


@pytest.fixture
def two_blocks(monkeypatch):
    """In place of the shared one: a cut may lie among the last four."""
    monkeypatch.setattr(tiny, "BLOCKS", 5)


def test_a_cached_prefix_gives_what_a_live_one_gives(run, work):
    """Cuts below, among and above the four blocks, each from the last one."""
    for layers, stops in (("3", (2,)), ("1", (2, 4)), ("0", (2, 4, 5))):
        options = {"trainable_layers": layers, "pooling": "last4"}
        losses, logits, result = run(**options)
        work.clear()
        cached_losses, cached_logits, _ = run(**options, **CACHED)
        np.testing.assert_allclose(cached_losses, losses, rtol=2e-4)
        np.testing.assert_allclose(cached_logits, logits, atol=2e-4)
        assert {found for found, *_ in work} == {stops}
        if layers == "0":  # four times the width, one unit, and a bias
            assert result["trainable_parameters"] == 4 * tiny.HIDDEN + 1


def test_what_is_not_stored_is_run_to_the_same(run, tmp_path, capsys):
    options = {"trainable_layers": "1", "pooling": "last4", **CACHED}
    losses, logits, _ = run(**options)
    capsys.readouterr()
    elsewhere = {"cache_dir": str(tmp_path / "empty"), "rerun": True}
    again = run(**options, **elsewhere, cache_limit_gb=0.0)
    assert "texts do not fit --cache_limit_gb" in capsys.readouterr().out
    np.testing.assert_allclose(again[0], losses, rtol=2e-4)
    np.testing.assert_allclose(again[1], logits, atol=2e-4)


def test_the_top_four_are_what_the_head_reads(run):
    """Another answer than [CLS] of the top block alone gives."""
    options = {"trainable_layers": "0"}
    _, pooled, _ = run(**options)
    _, last4, _ = run(**options, pooling="last4")
    assert np.abs(pooled - last4).max() > 1e-3


def test_an_encoder_of_three_blocks_is_refused(run, monkeypatch):
    monkeypatch.setattr(tiny, "BLOCKS", 3)
    with pytest.raises(UserError, match="--pooling=last4.*3 blocks"):
        run(pooling="last4")
