"""A bidirectional LSTM and its dense layer, against NumPy."""

import numpy as np
import pytest

from tests.stacking.heads import reference


def expected(head, text):
    for layer in head.lstms:
        states = reference.bilstm(text, *reference.arrays(layer))
        text = np.concatenate(states, axis=1)
    kernel, bias = reference.arrays(head.output_layer)
    return text @ kernel + bias


@pytest.mark.parametrize("layers", [1, 2])
def test_each_direction_begins_at_the_texts_own_end(layers):
    head = reference.build_head(
        "ner", "bilstm", units=5, lstm_units=4, lstm_layers=layers
    )
    logits = head(*reference.inputs(padding=2)).numpy()
    for row, text in enumerate(reference.texts()):
        np.testing.assert_allclose(
            logits[row, : len(text)], expected(head, text), atol=1e-5
        )


def test_both_directions_start_from_other_weights():
    head = reference.heads.load("ner", "bilstm")(5, 8, 0.1, 0, "float32")
    [lstm] = head.lstms
    forward, backward = lstm.forward_layer.cell, lstm.backward_layer.cell
    for kind in ("kernel", "recurrent_kernel"):
        one, other = (getattr(c, kind).numpy() for c in (forward, backward))
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1
