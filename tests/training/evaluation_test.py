"""What a split is predicted to be."""

import numpy as np
import tensorflow as tf

from tf_transfer.data import tokens
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.training import evaluation, strategy


def test_texts_of_any_length_are_predicted_in_order_by_one_trace():
    """Each text is a number, so many times; its prediction is that number."""
    lengths = np.arange(1, 131) % 30 + 3
    numbers = np.arange(100, 230)
    starts = np.cumsum(lengths) - lengths
    split = EncodedSplit(
        tokens.Tokens(
            np.repeat(numbers, lengths).astype(np.int32),
            starts.astype(np.int64),
            lengths.astype(np.int32),
            lengths.astype(np.int32),
            np.zeros(130, np.int32),
        ),
        labels=np.zeros(130, np.int64),
        ids=np.arange(130),
    )

    def first(batch):
        return tf.cast(batch["ids"][:, :1], tf.float32)

    program = tf.function(first)
    devices = strategy.Devices(tf.distribute.get_strategy())
    for _ in range(2):
        predicted = evaluation.EvaluationBatches(devices, split, 0, 64)
        output = predicted.predict(program)
        np.testing.assert_array_equal(output[:, 0], numbers)
    assert program.experimental_get_tracing_count() == 1
