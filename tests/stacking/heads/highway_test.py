"""The highway LSTMs, against NumPy."""

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


# === From cell to cell ===


def run_cells(x, lower, upper, gate, peepholes):
    """Zhang et al. (1510.08983), section 3: h of the upper LSTM per token."""
    kernel, recurrent, bias = lower
    h, c = np.zeros((2, len(recurrent))), np.zeros((2, len(recurrent)))
    states = []
    for token in x:
        i, f, g, o = np.split(token @ kernel + h[0] @ recurrent + bias, 4)
        c[0] = reference.sigmoid(f) * c[0] + reference.sigmoid(i) * np.tanh(g)
        h[0] = reference.sigmoid(o) * np.tanh(c[0])
        d = h[0] @ gate[0] + gate[1] + peepholes[0] * c[1] + peepholes[1] * c[0]
        both = np.concatenate([h[0], h[1]])
        i, f, g, o = np.split(both @ upper[0] + upper[1], 4)
        c[1] = (
            reference.sigmoid(d) * c[0]
            + reference.sigmoid(f + 1) * c[1]
            + reference.sigmoid(i) * np.tanh(g)
        )
        h[1] = reference.sigmoid(o) * np.tanh(c[1])
        states.append(h[1].copy())
    return np.stack(states)


def test_a_gate_leads_from_the_lower_cell_to_the_upper():
    head = reference.build_head("text", "highway_cells", units=3, lstm_units=4)
    *_, kernel, bias = reference.arrays(head)
    forward, backward = (
        [
            *map(reference.arrays, (rnn.cell.lower, rnn.cell.upper)),
            reference.arrays(rnn.cell.gate),
            rnn.cell.peepholes.numpy(),
        ]
        for rnn in head.directions
    )
    logits = head(*reference.inputs(padding=2)).numpy()
    for row, text in enumerate(reference.texts()):
        directions = (
            run_cells(text, *forward),
            run_cells(text[::-1], *backward)[::-1],
        )
        y = np.concatenate(directions, axis=1)
        ours = y.max(axis=0) @ kernel + bias
        np.testing.assert_allclose(logits[row], ours, atol=1e-5)


def test_at_first_little_of_the_lower_cell_goes_up():
    head = heads.load("text", "highway_cells")(2, 8, 0.1, 0, "float32")
    for rnn in head.directions:
        np.testing.assert_array_equal(rnn.cell.gate.bias, -1.0)
        np.testing.assert_array_equal(rnn.cell.peepholes, 0.0)
