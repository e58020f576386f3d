"""BERT's Adam, written out in NumPy, and small optimizers beside it."""

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.training import optimizer

SHAPES = {"kernel": (4, 3), "bias": (3,), "gamma": (3,), "beta": (3,)}
PEAK = 0.1


def draw(seed, scale=1.0):
    """One array for each of the weights."""
    rng = np.random.default_rng(seed)
    return [
        (scale * rng.normal(size=shape)).astype(np.float32)
        for shape in SHAPES.values()
    ]


def build(rate=lambda step: PEAK, scales=None, **changes):
    weights = [
        keras.Variable(value, name=name) for name, value in zip(SHAPES, draw(0))
    ]
    return optimizer.BertAdam(
        weights, rate, optimizer.AdamOptions(**changes), scales
    )


def update_once(adam, gradients, groups=None):
    norm = adam.update(gradients, adam.read_numbers(groups))
    adam.count(groups)
    return norm


def apply(adam, gradients, *groups):
    """One update in a replica's context; returns the norm."""
    strategy = tf.distribute.get_strategy()
    return strategy.run(
        update_once, args=(adam, [tf.constant(g) for g in gradients], *groups)
    ).numpy()


def values(variables):
    return [np.array(variable) for variable in variables]


def adam_in_numpy(gradients, options, scales=(1, 1, 1, 1)):
    """Weights after a step for each list of gradients, in float64.

    m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
    w <- w - lr (m / (sqrt(v) + eps) + decay w)
    """
    # 1 - 0.999 differs by 1e-5 between float32 and float64.
    b1 = float(np.float32(options.adam_beta1))
    b2 = float(np.float32(options.adam_beta2))
    weights = [np.float64(weight) for weight in draw(0)]
    means = [0.0 for _ in weights]
    squares = [0.0 for _ in weights]
    for t, step in enumerate(gradients, 1):
        norm = np.sqrt(sum(np.sum(np.float64(g) ** 2) for g in step))
        clip = options.clip_norm
        factor = min(1, clip / norm) if clip else 1
        rate = PEAK
        if options.bias_correction:
            rate *= np.sqrt(1 - b2**t) / (1 - b1**t)
        for i, name in enumerate(SHAPES):
            g = step[i] * factor
            means[i] = b1 * means[i] + (1 - b1) * g
            squares[i] = b2 * squares[i] + (1 - b2) * g**2
            decay = options.weight_decay if name == "kernel" else 0.0
            weights[i] = (
                weights[i]
                - scales[i]
                * rate
                * means[i]
                / (np.sqrt(squares[i]) + options.adam_epsilon)
                - scales[i] * PEAK * decay * weights[i]
            )
    return weights
