"""The equations of the heads in plain NumPy, float64, one text at a time.

Padding never enters here: a text is cut to its length before. Every function
takes the arrays of a Keras layer's weights, in Keras's order.
"""

import numpy as np

from tf_transfer.stacking import heads

HIDDEN = 12
LENGTHS = (7, 3, 1, 5)  # tokens of four texts, or of two pairs


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def cosine(v, u):
    return v @ u / np.sqrt((v @ v) * (u @ u))


def lstm(x, kernel, recurrent, bias):
    """h_t of each token; the gates stand as input, forget, cell, output."""
    units = recurrent.shape[0]
    h, c, states = np.zeros(units), np.zeros(units), []
    for token in x:
        z = token @ kernel + h @ recurrent + bias
        i, f, g, o = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states)


def bilstm(x, *weights):
    """Both directions' states of each token: forward, backward."""
    return lstm(x, *weights[:3]), lstm(x[::-1], *weights[3:])[::-1]


def arrays(layer):
    """A layer's weights, float64."""
    return [weight.numpy().astype(np.float64) for weight in layer.weights]


# === Inputs ===


def build_head(
    task, name, units=2, dtype="float32", dropout=0.1, seed=1, **sizes
):
    """A head whose every weight differs from its usual start."""
    built = heads.load(task, name)(
        units, HIDDEN, dropout, seed, dtype, name="head", **sizes
    )
    rng = np.random.default_rng(7)
    for weight in built.weights:
        noise = rng.normal(scale=0.3, size=weight.shape)
        weight.assign(weight.numpy() + noise.astype(weight.dtype))
    return built


def inputs(padding=0, lengths=LENGTHS, fill=100.0):
    """Hidden states and mask of the texts; `fill` stands on padding.

    Returns:
        float32 [texts, longest + padding, HIDDEN] and bool [texts, ...].
    """
    rng = np.random.default_rng(3)
    mask = np.arange(max(lengths) + padding) < np.array(lengths)[:, None]
    states = np.full((*mask.shape, HIDDEN), fill, np.float32)
    for row, length in enumerate(lengths):
        states[row, :length] = rng.normal(size=(length, HIDDEN))
    return states, mask


def texts():
    """The same texts without padding, float64."""
    states, mask = inputs()
    return [x[real].astype(np.float64) for x, real in zip(states, mask)]


def pairs():
    """The same texts, as pairs."""
    half = len(LENGTHS) // 2
    return list(zip(texts()[:half], texts()[half:], strict=True))
