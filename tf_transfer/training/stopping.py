"""When to stop, and which epoch is the result."""

import dataclasses


@dataclasses.dataclass
class Stopper:
    """Wang's rule: stop when validation has not risen for two epochs.

    A rise is more than `min_delta` above the best score so far: a slow creep
    does not count, however far it gets.
    The epoch with the highest score, the first of equals, is the best epoch,
    whether it was a rise or not.

    Attributes:
        patience: epochs without a rise after which to stop; 0 never stops.
        min_delta: what a rise must exceed, in the score's own units.
    """

    patience: int
    min_delta: float
    waited: int = 0
    best: float | None = None
    best_epoch: int = 0

    def see(self, epoch, score):
        """Takes the score of an epoch. Returns whether it is the best."""
        rose = self.best is None or score > self.best + self.min_delta
        self.waited = 0 if rose else self.waited + 1
        if self.best is None or score > self.best:
            self.best, self.best_epoch = score, epoch
            return True
        return False

    @property
    def should_stop(self):
        """Whether the patience is used up."""
        return 0 < self.patience <= self.waited
