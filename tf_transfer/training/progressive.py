"""Progressive freezing: the trained blocks change from epoch to epoch.

`gradual` is the unfreezing of Jeremy Howard and Sebastian Ruder, "Universal
Language Model Fine-tuning for Text Classification" (arXiv 1801.06146, section
3.3): the last layer first, then with each epoch the next lower one. Head and
pooler train in the first epoch, as in its authors' code. Three choices are
ours: each stage is a phase of its own, with new moments of Adam; the last
stage, everything that trains, has all of `--max_epochs`; and one rate serves
all layers. The paper combines unfreezing with lower rates for lower layers,
which rise and fall (`--layer_decay`, `--schedule`).

`autofreeze` is the rule of Yuhan Liu, Saurabh Agarwal and Shivaram
Venkataraman, "AutoFreeze" (arXiv 2102.01386): after each interval, of each
block that trains

    change = |norm before - norm now| / norm before

where `norm` is the L1 norm of the gradients summed up over the interval, as in
its authors' code. The first block whose change is not below the N-th
percentile of all changes is the lowest that still trains: the blocks below it
are frozen from then on, and so are the embeddings. An interval is an epoch
here, and the blocks that still train keep their moments: both are our choice.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tf_transfer.models.freezing import Trainable


def unfreezing_stages(trainable: Trainable) -> list[Trainable]:
    """The components of each epoch before all of `trainable` train."""
    return [
        dataclasses.replace(trainable, first=first, embeddings=False)
        for first in range(trainable.last + 1, trainable.first, -1)
    ]


def freeze_below(trainable: Trainable, first: int) -> Trainable:
    """The rest of `trainable` if everything below block `first` is frozen."""
    if first <= trainable.first:
        return trainable
    return dataclasses.replace(trainable, first=first, embeddings=False)


def choose_first(
    before: Sequence[float], now: Sequence[float], percentile: float
) -> int:
    """The lowest block that still trains.

    Args:
        before, now: gradient norms in two intervals, of the blocks that
            train, bottom first.
        percentile: N, from 0 to 100.

    Returns:
        Its index.
    """
    earlier, later = np.asarray(before), np.asarray(now)
    changes = np.full(len(earlier), np.inf)
    np.divide(np.abs(earlier - later), earlier, out=changes, where=earlier > 0)
    finite = np.where(np.isfinite(changes), changes, np.finfo(float).max)
    return int(np.argmax(finite >= np.percentile(finite, percentile)))
