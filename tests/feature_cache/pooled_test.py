"""A head on one stored vector a text reads its batches from memory."""

import numpy as np
import pytest
import tensorflow as tf

from tests.feature_cache import small
from tf_transfer.data import batches
from tf_transfer.models.prefix import FrozenPrefix


@pytest.mark.parametrize("per_example", [1, 2])
def test_batches_in_memory_are_those_of_the_pipeline(per_example, tmp_path):
    attached = small.attach(
        tmp_path,
        FrozenPrefix(2, "mean", "float16"),
        {"train": small.split("train", per_example)},
    )
    split = attached.splits["train"]
    plan = batches.plan_epoch(split.lengths, 7, "random", 0, 1)
    assert plan.counts[-1] < 7  # a short batch repeats a row
    loaded = batches.load_plan(split, plan)
    pad = small.encoder().special.pad
    dataset = batches.pipeline(split, plan, pad, gathers_states=False)
    pipeline = list(dataset.as_numpy_iterator())
    assert len(pipeline) == len(plan)
    for step, expected in enumerate(pipeline):
        batch = batches.take_batch(loaded, tf.constant(step))
        assert expected.keys() - batch.keys() == {"mask"}
        for name, tensor in batch.items():
            np.testing.assert_array_equal(tensor, expected[name], name)
