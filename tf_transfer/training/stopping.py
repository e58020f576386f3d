"""The rule that stops a phase and selects its epoch."""

import dataclasses


@dataclasses.dataclass
class EarlyStopping:
    """Wang's rule: stop when validation has not risen for two epochs.

    A rise is more than `min_delta` above the best score so far: many smaller
    steps do not count, whatever their sum. The best epoch has the highest
    score, the first of equal ones, whether it was a rise or not.

    Attributes:
        patience: epochs without a rise after which to stop; 0 never stops.
        min_delta: the bound that a rise must exceed, in units of the score.
        wait: epochs since the last rise.
        best: the highest score so far, and `best_epoch` its epoch.
    """

    patience: int = 0
    min_delta: float = 0.0
    wait: int = 0
    best: float | None = None
    best_epoch: int = 0

    def update(self, epoch: int, score: float) -> bool:
        """Takes the score of an epoch. Returns whether it is the best."""
        has_risen = self.best is None or score > self.best + self.min_delta
        self.wait = 0 if has_risen else self.wait + 1
        if self.best is None or score > self.best:
            self.best, self.best_epoch = score, epoch
            return True
        return False

    @property
    def should_stop(self) -> bool:
        """Whether the patience is used up."""
        return 0 < self.patience <= self.wait
