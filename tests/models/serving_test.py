"""The model that takes strings packs ids as training does."""

import numpy as np
import pytest
import tensorflow as tf

from tf_transfer.data import tokens
from tf_transfer.models import serving

BERT = tokens.SpecialTokens(start=101, end=102, pad=0, between=(102,))
ROBERTA = tokens.SpecialTokens(start=0, end=2, pad=1, between=(2, 2))


def random_rows(texts):
    """200 rows of one or two sequences of 0 to 20 ids."""
    rng = np.random.default_rng(3)
    return [
        [rng.integers(1000, 2000, size).tolist() for size in sizes]
        for sizes in rng.integers(0, 21, (200, texts))
    ]


@pytest.mark.slow  # traces and saves a model
@pytest.mark.parametrize("special", [BERT, ROBERTA], ids=["bert", "roberta"])
@pytest.mark.parametrize("texts", [1, 2])
def test_serving_packs_as_training_does(special, texts):
    rows = random_rows(texts)
    columns = [tf.ragged.constant(c, tf.int32) for c in zip(*rows)]
    in_graph = tf.function(serving.pack)
    for max_length, pack in (
        (8, serving.pack),
        (9, serving.pack),
        (21, in_graph),
    ):
        ids, first_lengths = pack(columns, special, max_length)
        expected = [tokens.pack(row, special, max_length) for row in rows]
        assert ids.to_list() == [ids.tolist() for ids, _ in expected]
        assert first_lengths.numpy().tolist() == [n for _, n in expected]
