"""What reading states costs."""

import types

from tf_transfer.baselines import pooled_states
from tf_transfer.feature_cache.feature_cache import BuildCost


class Cache:
    """Stored states whose seconds include those of the blocks below."""

    options = types.SimpleNamespace(dtype="float16")

    def attach(self, prefix, splits, needs_all, also):
        return {}, BuildCost(1.0, 10.0 * prefix.cut, 0.0)


def test_the_blocks_below_are_counted_once():
    reader = pooled_states.Reader(Cache(), None, None, has_pooler=False)
    reader.words({}, range(4))
    assert reader.cost.original == 30
    assert reader.cost.paid == 4  # of every block
    reader.words({}, [2])
    assert reader.cost.original == 50
