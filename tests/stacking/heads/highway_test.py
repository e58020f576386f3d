"""The highway LSTM, against NumPy."""

import numpy as np

from tests.stacking.heads import reference
from tf_transfer.stacking import heads


def expected(head, text):
    *lstm, gate, gate_bias, carry, kernel, bias = reference.arrays(head)
    h = np.concatenate(reference.bilstm(text, *lstm), axis=1)
    open_ = reference.sigmoid(text @ gate + gate_bias)
    y = open_ * h + (1 - open_) * (text @ carry)
    return y.max(axis=0) @ kernel + bias


def test_the_gate_mixes_the_lstm_with_its_input():
    head = reference.build_head("text", "highway", units=3, lstm_units=4)
    logits = head(*reference.inputs(padding=2)).numpy()
    for row, text in enumerate(reference.texts()):
        np.testing.assert_allclose(logits[row], expected(head, text), atol=1e-5)


def test_at_first_the_input_goes_through():
    head = heads.load("text", "highway")(2, 8, 0.1, 0, "float32")
    np.testing.assert_array_equal(head.gate.bias, -1.0)
