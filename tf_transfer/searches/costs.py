"""The seconds of a search's runs: counted operations at a measured speed."""

import statistics
from collections.abc import Mapping, Sequence

from tf_transfer.sweeps.estimate import Work

# Seconds of a run apart from its epochs, before any is measured: it starts
# TensorFlow and traces its program.
START_SECONDS = 8.0
# Of the operations of the largest approach: with fewer, as with one block at
# [CLS] alone, an epoch measures no speed.
LEAST_SHARE = 0.02


class Costs:
    """Predicts the seconds of runs.

    An epoch of a measured approach costs the median of its epochs. An epoch of
    another approach costs its operations, at the speed of the last run; before
    the first, at the speed of the probe's pass.

    Args:
        works: the operations of each approach, by its name.
        pass_seconds: per operation, of a pass of the frozen encoder; 0 if no
            pass was measured.
    """

    def __init__(
        self, works: Mapping[str, Work], pass_seconds: float = 0.0
    ) -> None:
        self.works = dict(works)
        self._pass_seconds = self._train_seconds = pass_seconds
        # Seconds by approach; the first epoch of each run or continuation may
        # trace a program.
        self._first_epochs: dict[str, list[float]] = {}
        self._epochs: dict[str, list[float]] = {}
        self._overhead: dict[str, float] = {}
        self._built = {""}  # caches; approaches without one need none

    def tell(
        self,
        approach: str,
        epoch_seconds: Sequence[float],
        build_seconds: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        """Takes the seconds of a run, or of its continuation.

        Args:
            approach: its name.
            epoch_seconds: of each of its new epochs; the first may trace.
            build_seconds: that it spent building its feature cache.
            seconds: from its order to its result, where that is known.
        """
        work = self.works[approach]
        if work.cache not in self._built:
            operations = self._count_build(approach)
            self._built |= self.builds(approach)
            if build_seconds and operations:  # else it was there before
                self._pass_seconds = build_seconds / operations
        if not epoch_seconds:
            return
        self._first_epochs.setdefault(approach, []).append(epoch_seconds[0])
        self._epochs.setdefault(approach, []).extend(epoch_seconds[1:])
        one = self.epoch_seconds(approach)
        most = max(other.epoch for other in self.works.values())
        if work.epoch > LEAST_SHARE * most:
            self._train_seconds = one / work.epoch
        if seconds is not None:
            trained = len(epoch_seconds) * one
            overhead = seconds - trained - build_seconds
            self._overhead[approach] = max(overhead, 0.0)

    def has_measured(self, approach: str) -> bool:
        """Whether a run of the approach has trained an epoch."""
        return approach in self._first_epochs

    def epoch_seconds(self, approach: str) -> float:
        """Seconds of an epoch, with its evaluation."""
        if self._epochs.get(approach):
            return statistics.median(self._epochs[approach])
        if self.has_measured(approach):
            return min(self._first_epochs[approach])
        return self._train_seconds * self.works[approach].epoch

    def build_seconds(self, approach: str) -> float:
        """Seconds that the approach's feature cache still takes."""
        if self.works[approach].cache in self._built:
            return 0.0
        return self._pass_seconds * self._count_build(approach)

    def predict_seconds(self, approach: str) -> float:
        """Seconds of running the encoder over the scored texts once."""
        return self._pass_seconds * self.works[approach].predict

    def builds(self, approach: str) -> set[str]:
        """Caches that are there once an approach has its own.

        Those that a deeper one continues from are stored on the way to it.
        """
        return {work.cache for work in self._list_shallower(approach)}

    def _list_shallower(self, approach: str) -> list[Work]:
        """Those whose caches are stored on the way to an approach's."""
        own = self.works[approach]
        return [
            work
            for work in self.works.values()
            if work.cache
            and work.family == own.family
            and work.build <= own.build
        ]

    def _count_build(self, approach: str) -> float:
        """Operations from the deepest cache of its family that is built."""
        stored = [
            work.build
            for work in self._list_shallower(approach)
            if work.cache in self._built
        ]
        return self.works[approach].build - max(stored, default=0.0)

    def overhead_seconds(self, approach: str) -> float:
        """Seconds of a run apart from its epochs and its feature cache."""
        most = max(self._overhead.values(), default=START_SECONDS)
        return self._overhead.get(approach, most)

    def seconds(self, approach: str, epochs: int) -> float:
        """Seconds of a run, or of its continuation, by this many epochs."""
        return (
            self.overhead_seconds(approach)
            + self.build_seconds(approach)
            + epochs * self.epoch_seconds(approach)
        )
