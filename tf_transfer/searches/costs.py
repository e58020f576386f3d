"""What a run of a search costs: known beforehand, corrected as measured."""

import dataclasses
import statistics
from collections.abc import Mapping
from collections.abc import Sequence

# Seconds of a run beside its epochs: the first of an approach traces its
# program. Both are soon replaced by what is measured.
FIRST_RUN_SECONDS = 8.0
RUN_SECONDS = 2.0
PASS_OVERHEAD_SECONDS = 1.0  # of the probe's pass: it traces one program
FAR_CHEAPER = 0.1  # of an epoch's seconds: too little to tell a speed by


@dataclasses.dataclass(frozen=True)
class Prior:
    """What an approach costs, as far as counting operations tells.

    Attributes:
        epoch_seconds: of training and evaluating, its feature cache built.
        build_seconds: of its feature cache, from nothing.
        cache: names the cache that it reads; empty where it has none.
        family: caches of one family continue from each other: a deeper one
            costs what it takes longer than the deepest of those built.
        predict_seconds: of all texts that are evaluated, once trained.
        updates: of the weights in an epoch.
    """

    epoch_seconds: float
    build_seconds: float = 0.0
    cache: str = ""
    family: str = ""
    predict_seconds: float = 0.0
    updates: int = 100

    def times(self, factor: float) -> "Prior":
        """The same work on a machine that takes `factor` times as long."""
        return dataclasses.replace(
            self,
            epoch_seconds=factor * self.epoch_seconds,
            build_seconds=factor * self.build_seconds,
            predict_seconds=factor * self.predict_seconds,
        )


def slowness(pass_seconds: float, counted: float) -> float:
    """How many times longer than counted the encoder runs on this machine.

    The peak speed of matrix products may say little: one that was counted with
    bfloat16 products of a new CPU took seven times as long.

    Args:
        pass_seconds: that the probe's pass took, tracing included.
        counted: the seconds that it was to take.

    Returns:
        At least 1: training may be slower than a pass, so a fast pass does
        not shorten what was counted.
    """
    return max(1.0, (pass_seconds - PASS_OVERHEAD_SECONDS) / max(counted, 1e-9))


@dataclasses.dataclass
class _Measured:
    epochs: list[float] = dataclasses.field(default_factory=list)
    first_epochs: list[float] = dataclasses.field(default_factory=list)


class Costs:
    """Predicts the seconds of runs.

    An approach that has trained costs an epoch's median; one that has not, its
    prior, corrected by what the measured approach nearest to it took: in
    proportion, but where that one is far cheaper, by the difference alone. What
    the head takes says nothing of how fast blocks are.

    Args:
        priors: of each approach, by its name, those that train least first.
    """

    def __init__(self, priors: Mapping[str, Prior]) -> None:
        self.priors = dict(priors)
        self._order = {name: index for index, name in enumerate(priors)}
        self._measured: dict[str, _Measured] = {}
        self._built: dict[str, float] = {}  # caches, and what they were to cost
        self._paid: list[tuple[float, float]] = []  # (measured, prior)
        self._beside: dict[bool, list[float]] = {True: [], False: []}

    def tell(
        self,
        approach: str,
        epoch_seconds: Sequence[float],
        build_seconds: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        """Takes what a run, or its continuation, took.

        Args:
            approach: its name.
            epoch_seconds: of each of its new epochs; the first may trace.
            build_seconds: that it spent building its feature cache.
            seconds: from its order to its result, where that is known.
        """
        is_first = approach not in self._measured
        known = self._measured.setdefault(approach, _Measured())
        prior = self.priors[approach]
        if prior.cache and prior.cache not in self._built:
            expected = self._prior_build(approach)
            self._built |= self.builds(approach)
            if build_seconds:  # else it was there before
                self._paid.append((build_seconds, expected))
        if not epoch_seconds:
            return
        known.first_epochs.append(epoch_seconds[0])
        known.epochs += epoch_seconds[1:]
        if seconds is not None:
            trained = len(epoch_seconds) * self.epoch_seconds(approach)
            beside = max(seconds - trained - build_seconds, 0.0)
            self._beside[is_first].append(beside)

    def has_measured(self, approach: str) -> bool:
        """Whether a run of the approach has trained an epoch."""
        known = self._measured.get(approach)
        return known is not None and bool(known.first_epochs)

    def epoch_seconds(self, approach: str) -> float:
        """Seconds of an epoch, with its evaluation."""
        known = self._measured.get(approach)
        if known is not None and known.epochs:
            return statistics.median(known.epochs)
        if known is not None and known.first_epochs:
            return min(known.first_epochs)
        return self._corrected(approach)

    def _corrected(self, approach: str) -> float:
        """The prior of an epoch, corrected by the nearest measured approach."""
        expected = self.priors[approach].epoch_seconds
        measured = [name for name in self.priors if self.has_measured(name)]
        if not measured:
            return expected
        position = self._order[approach]
        nearest = min(measured, key=lambda n: abs(self._order[n] - position))
        seconds = self.epoch_seconds(nearest)
        prior = self.priors[nearest].epoch_seconds
        if prior >= FAR_CHEAPER * expected:
            return expected * seconds / prior
        return expected + max(seconds - prior, 0.0)

    def build_seconds(self, approach: str) -> float:
        """Seconds that the approach's feature cache still takes."""
        prior = self.priors[approach]
        if not prior.cache or prior.cache in self._built:
            return 0.0
        paid, expected = map(sum, zip(*self._paid)) if self._paid else (1, 1)
        return self._prior_build(approach) * (paid / max(expected, 1e-9))

    def builds(self, approach: str) -> dict[str, float]:
        """Caches that are there once an approach has its own, and their prior.

        Those that a deeper one continues from are stored on the way to it.
        """
        own = self.priors[approach]
        return {
            prior.cache: prior.build_seconds
            for prior in self.priors.values()
            if prior.cache
            and prior.family == own.family
            and prior.build_seconds <= own.build_seconds
        }

    def _prior_build(self, approach: str) -> float:
        prior = self.priors[approach]
        stored = [
            seconds
            for name, seconds in self._built.items()
            if seconds <= prior.build_seconds
            and any(
                p.cache == name and p.family == prior.family
                for p in self.priors.values()
            )
        ]
        return prior.build_seconds - max(stored, default=0.0)

    def beside_seconds(self, approach: str) -> float:
        """Seconds of a run beside its epochs and its feature cache."""
        is_first = not self.has_measured(approach)
        known = self._beside[is_first]
        if known:
            return statistics.median(known)
        return FIRST_RUN_SECONDS if is_first else RUN_SECONDS

    def seconds(self, approach: str, epochs: int) -> float:
        """Seconds of a run, or of its continuation, by so many epochs."""
        return (
            self.beside_seconds(approach)
            + self.build_seconds(approach)
            + epochs * self.epoch_seconds(approach)
        )
