"""Which examples train, validate or are sampled. Needs no TensorFlow."""

import numpy as np


def divide(labels, fraction, seed):
    """Parts a training set: stratified, the same for every seed of a run.

    Args:
        labels: class ids, or scores (which are stratified by fifths).
        fraction: part that validates.
        seed: the split seed.

    Returns:
        Sorted row numbers to train on, and to validate on.
    """
    order = _stratified_order(labels, seed)
    # The larger rest validates: 7,695 of CoLA's 8,551 at a tenth.
    count = len(labels) - int(len(labels) * (1 - fraction) + 1e-6)
    if fraction > 0:
        count = min(max(count, 1), len(labels) - 1)
    return np.sort(order[count:]), np.sort(order[:count])


def subset(labels, size, seed):
    """`size` row numbers, stratified; a smaller subset is part of a larger."""
    if not size or size >= len(labels):
        return np.arange(len(labels))
    return np.sort(_stratified_order(labels, seed)[:size])


def sample(count, size, seed):
    """A fixed sample, at most `size` sorted row numbers of `count`."""
    rng = np.random.default_rng([seed, 17])
    return np.sort(rng.permutation(count)[:size])


def _stratified_order(labels, seed):
    """A permutation whose every beginning has the classes in proportion.

    Row i of a class with n members stands at (i + u) / n, with u drawn once
    a class, so classes interleave evenly however long the beginning is.
    """
    rng = np.random.default_rng([seed, 7])
    labels = np.asarray(labels)
    if labels.dtype.kind == "f":
        ranks = labels.argsort(kind="stable").argsort(kind="stable")
        labels = ranks * 5 // max(len(ranks), 1)
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        place[members] = (np.arange(len(members)) + rng.random()) / len(members)
    return place.argsort(kind="stable")
