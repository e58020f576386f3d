"""The candidates of a search, and the predicted seconds of their runs."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tf_transfer.sweeps.estimate import Work
from tf_transfer.sweeps.grid import Value

# Factors for the error of a prediction, before and after an approach was
# measured.
MARGIN_UNMEASURED, MARGIN = 1.3, 1.1
# Seconds of a run apart from its epochs, before any is measured.
OVERHEAD_SECONDS = 4.0
# Share of the largest approach's operations. Epochs below this share are too
# short to time.
LEAST_SHARE = 0.02


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer of a search.

    Attributes:
        name: In words, such as `last 2`, `last 2 at 5e-4`.
        flags: Of its runs, by name.
        work: The operations of a run on a fold.
        epochs: Of a run; 1 of a baseline.
        approach: Name of its approach, which decides the time of an epoch.
        reads_cache: Whether it reads the feature cache of the encoder.
        is_baseline: Whether nothing of the encoder trains.
        variant_of: Name of the candidate that it changes; empty if none.
        usual_lead: Over the best baseline, in points, before it has run.
    """

    name: str
    flags: Mapping[str, Value]
    work: Work
    epochs: int = 1
    approach: str = ""
    reads_cache: bool = False
    is_baseline: bool = False
    variant_of: str = ""
    usual_lead: float = 0.0


class RunSeconds(NamedTuple):
    """The seconds of the parts of a run.

    Attributes:
        epochs: Of its epochs, one at least; the first may trace. Of a baseline,
            of its fit.
        build: That it spent on a pass of the encoder.
        of_pass: Of the pass whose states it read, in whichever run.
    """

    epochs: Sequence[float]
    build: float = 0.0
    of_pass: float = 0.0


class Costs:
    """Predicts the seconds of runs.

    An epoch of a measured approach costs the median of its epochs. Another
    costs its operations, at the speed of the last run; before the first, at
    the speed of the probe's pass.

    Args:
        candidates: Of the race, by name; more may join it.
        pass_seconds: Per operation, of a pass of the frozen encoder; a guess.
    """

    def __init__(
        self, candidates: Mapping[str, Candidate], pass_seconds: float
    ) -> None:
        self._candidates = candidates
        self._pass_seconds = self._speed = pass_seconds
        self._is_stored = False  # whether the pass has run
        self._epochs: dict[str, list[float]] = {}  # by approach
        self._overheads: dict[str, float] = {}

    def add_run(
        self, name: str, parts: RunSeconds, seconds: float | None = None
    ) -> None:
        """Records the seconds of a run.

        Args:
            name: Of the candidate.
            parts: The seconds of its parts.
            seconds: From its start to its result, if known.
        """
        candidate = self._candidates[name]
        steady = parts.epochs[1:] or parts.epochs
        self._epochs.setdefault(candidate.approach, []).extend(steady)
        if candidate.is_baseline and parts.of_pass and candidate.work.build:
            speed = parts.of_pass / candidate.work.build
            if self._speed == self._pass_seconds:  # nothing has trained
                self._speed = speed
            self._pass_seconds = speed
        self.assume_stored(name)
        most = max(c.work.epoch for c in self._candidates.values())
        if candidate.work.epoch > LEAST_SHARE * most:
            self._speed = self.epoch_seconds(name) / candidate.work.epoch
        if seconds is not None:
            seconds -= sum(parts.epochs) + parts.build
            self._overheads[candidate.approach] = max(seconds, 0.0)

    def assume_stored(self, name: str) -> None:
        """Takes the feature cache as built if a candidate reads it."""
        self._is_stored |= self._candidates[name].reads_cache

    def has_measured(self, name: str) -> bool:
        """Whether a run of the same approach has trained an epoch."""
        return self._candidates[name].approach in self._epochs

    def epoch_seconds(self, name: str) -> float:
        """Seconds of an epoch, with its evaluation."""
        candidate = self._candidates[name]
        if self.has_measured(name):
            return statistics.median(self._epochs[candidate.approach])
        return self._speed * candidate.work.epoch

    def overhead_seconds(self, name: str) -> float:
        """Seconds of a run apart from its epochs and its feature cache."""
        most = max(self._overheads.values(), default=OVERHEAD_SECONDS)
        return self._overheads.get(self._candidates[name].approach, most)

    def _build_seconds(self) -> float:
        """Seconds of the pass that stores the caches of all candidates."""
        candidates = self._candidates.values()
        return self._pass_seconds * max(
            one.work.build for one in candidates if one.reads_cache
        )

    def predict_seconds(self, name: str) -> float:
        """Seconds of running the encoder over the scored texts once."""
        return self._pass_seconds * self._candidates[name].work.predict

    def seconds(self, name: str) -> float:
        """Seconds of a run on a fold, with the pass that it needs."""
        seconds = self.train_seconds(name)
        if self._candidates[name].reads_cache and not self._is_stored:
            seconds += self._build_seconds()
        return seconds

    def train_seconds(self, name: str, share: float = 1.0) -> float:
        """Seconds of a run whose pass is stored.

        Args:
            name: Of the candidate.
            share: Number of its texts, relative to those of a fold.
        """
        epochs = self._candidates[name].epochs * self.epoch_seconds(name)
        return self.overhead_seconds(name) + share * epochs

    def margin(self, name: str) -> float:
        """A factor for the error of a prediction."""
        return MARGIN if self.has_measured(name) else MARGIN_UNMEASURED
