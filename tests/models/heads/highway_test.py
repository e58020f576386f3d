"""The highway LSTMs, against NumPy."""

import numpy as np

from tests.models.heads import reference
from tf_transfer.models import heads


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
    head = heads.build("text", "highway", 2, 8, 0.1, 0, "float32")
    np.testing.assert_array_equal(head.gate.bias, -1.0)


# === From cell to cell ===


def run_cells(x, kernels, states, gate, gate_bias, peepholes):
    """Zhang et al. (1510.08983), section 3: h of the upper LSTM per token."""
    units = len(gate)
    h, c, upper = np.zeros((2, units)), np.zeros((2, units)), []
    for token in x:
        below = None
        for layer, (kernel, bias) in enumerate(kernels):
            i, f, g, o = np.split(
                token @ kernel + bias + h[layer] @ states[layer], 4
            )
            new = reference.sigmoid(f + 1) * c[layer]
            new = new + reference.sigmoid(i) * np.tanh(g)
            if layer:
                p, q = peepholes
                d = token @ gate + gate_bias + p * c[layer] + q * below
                new = new + reference.sigmoid(d) * below
            c[layer] = below = new
            h[layer] = token = reference.sigmoid(o) * np.tanh(new)
        upper.append(token)
    return np.stack(upper)


def test_a_gate_leads_from_the_lower_cell_to_the_upper():
    head = reference.build_head("text", "highway_cells", units=3, lstm_units=4)
    *rest, kernel, bias = reference.arrays(head)
    cells = [rnn.cell for rnn in head.directions]
    directions = [
        (
            [reference.arrays(layer) for layer in cell.inputs],
            [reference.arrays(layer)[0] for layer in cell.states],
            *reference.arrays(cell.gate),
            cell.peepholes.numpy(),
        )
        for cell in cells
    ]
    logits = head(*reference.inputs(padding=2)).numpy()
    assert len(rest) == 2 * 9
    for row, text in enumerate(reference.texts()):
        forward, backward = directions
        y = np.concatenate(
            [
                run_cells(text, *forward),
                run_cells(text[::-1], *backward)[::-1],
            ],
            axis=1,
        )
        ours = y.max(axis=0) @ kernel + bias
        np.testing.assert_allclose(logits[row], ours, atol=1e-5)


def test_at_first_little_of_the_lower_cell_goes_up():
    head = heads.build("text", "highway_cells", 2, 8, 0.1, 0, "float32")
    for rnn in head.directions:
        np.testing.assert_array_equal(rnn.cell.gate.bias, -1.0)
        np.testing.assert_array_equal(rnn.cell.peepholes, 0.0)
