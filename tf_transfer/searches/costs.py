"""The seconds of a search's runs: estimated first, corrected as measured."""

import collections
import dataclasses
import statistics
from collections.abc import Mapping, Sequence

# Overhead of a run, in seconds: the first run of an approach traces its
# program. Measured values soon replace both.
FIRST_RUN_SECONDS = 8.0
RUN_SECONDS = 2.0
PASS_OVERHEAD_SECONDS = 1.0  # of the probe's pass: it traces one program
FAR_CHEAPER = 0.1  # of an epoch's seconds: too few to measure a speed


@dataclasses.dataclass(frozen=True)
class Prior:
    """The cost of an approach, estimated by counting operations.

    Attributes:
        epoch_seconds: of training and evaluating, its feature cache built.
        build_seconds: of its feature cache, from nothing.
        cache: names the cache that it reads; empty where it has none.
        family: caches of one family continue from each other: a deeper one
            costs what it takes longer than the deepest of those built.
        predict_seconds: of all texts that are evaluated, once trained.
        updates: of the weights in an epoch.
        compile_seconds: of its programs, where XLA compiles them.
    """

    epoch_seconds: float
    build_seconds: float = 0.0
    cache: str = ""
    family: str = ""
    predict_seconds: float = 0.0
    updates: int = 100
    compile_seconds: float = 0.0

    def times(self, factor: float) -> "Prior":
        """The same work on a machine that takes `factor` times as long."""
        return dataclasses.replace(
            self,
            epoch_seconds=factor * self.epoch_seconds,
            build_seconds=factor * self.build_seconds,
            predict_seconds=factor * self.predict_seconds,
        )


def slowness(pass_seconds: float | None, counted: float) -> float:
    """How many times longer than estimated the encoder runs on this machine.

    The peak speed of matrix products may mislead: a run whose estimate used
    bfloat16 products of a new CPU took seven times as long.

    Args:
        pass_seconds: that the probe's pass took, tracing included; None if it
            was not measured.
        counted: the estimated seconds of the pass.

    Returns:
        At least 1: training may be slower than a pass, so a fast pass does
        not shorten the estimates.
    """
    if pass_seconds is None:
        return 1.0
    return max(1.0, (pass_seconds - PASS_OVERHEAD_SECONDS) / max(counted, 1e-9))


class Costs:
    """Predicts the seconds of runs.

    An epoch of a measured approach costs the median of its epochs. An epoch of
    another approach costs its prior, corrected by the nearest measured
    approach: in proportion, or by the difference alone if that approach is far
    cheaper. The seconds of a head are no measure of the speed of blocks.

    Args:
        priors: of each approach, by its name, those that train least first.
    """

    def __init__(self, priors: Mapping[str, Prior]) -> None:
        self.priors = dict(priors)
        # Seconds by approach; the first epoch of each run or continuation may
        # trace a program.
        self._first_epochs = collections.defaultdict[str, list[float]](list)
        self._epochs = collections.defaultdict[str, list[float]](list)
        self._built = {""}  # caches; approaches without one need none
        self._paid: list[tuple[float, float]] = []  # (measured, prior)
        # By whether it was the first run of its approach.
        self._overhead: dict[bool, list[float]] = {True: [], False: []}

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
        is_first = not self.has_measured(approach)
        if self.priors[approach].cache not in self._built:
            expected = self._prior_build(approach)
            self._built |= self.builds(approach)
            if build_seconds:  # else it was there before
                self._paid.append((build_seconds, expected))
        self._first_epochs[approach] += epoch_seconds[:1]
        self._epochs[approach] += epoch_seconds[1:]
        if epoch_seconds and seconds is not None:
            trained = len(epoch_seconds) * self.epoch_seconds(approach)
            overhead = max(seconds - trained - build_seconds, 0.0)
            self._overhead[is_first].append(overhead)

    def has_measured(self, approach: str) -> bool:
        """Whether a run of the approach has trained an epoch."""
        return bool(self._first_epochs[approach])

    def epoch_seconds(self, approach: str) -> float:
        """Seconds of an epoch, with its evaluation."""
        if self._epochs[approach]:
            return statistics.median(self._epochs[approach])
        if self.has_measured(approach):
            return min(self._first_epochs[approach])
        # The prior, corrected by the nearest measured approach.
        expected, order = self.priors[approach].epoch_seconds, [*self.priors]
        measured = list(filter(self.has_measured, order))
        if not measured:
            return expected
        position = order.index(approach)
        nearest = min(measured, key=lambda n: abs(order.index(n) - position))
        seconds = self.epoch_seconds(nearest)
        prior = self.priors[nearest].epoch_seconds
        if prior >= FAR_CHEAPER * expected:
            return expected * seconds / prior
        return expected + max(seconds - prior, 0.0)

    def build_seconds(self, approach: str) -> float:
        """Seconds that the approach's feature cache still takes."""
        if self.priors[approach].cache in self._built:
            return 0.0
        paid, expected = map(sum, zip(*self._paid)) if self._paid else (1, 1)
        return self._prior_build(approach) * (paid / max(expected, 1e-9))

    def builds(self, approach: str) -> set[str]:
        """Caches that are there once an approach has its own.

        Those that a deeper one continues from are stored on the way to it.
        """
        return {prior.cache for prior in self._list_shallower(approach)}

    def _list_shallower(self, approach: str) -> list[Prior]:
        """The priors whose caches are stored on the way to an approach's."""
        own = self.priors[approach]
        return [
            prior
            for prior in self.priors.values()
            if prior.cache
            and prior.family == own.family
            and prior.build_seconds <= own.build_seconds
        ]

    def _prior_build(self, approach: str) -> float:
        stored = [
            prior.build_seconds
            for prior in self._list_shallower(approach)
            if prior.cache in self._built
        ]
        return self.priors[approach].build_seconds - max(stored, default=0.0)

    def overhead_seconds(self, approach: str) -> float:
        """Seconds of a run apart from its epochs and its feature cache."""
        is_first = not self.has_measured(approach)
        usual = RUN_SECONDS
        if is_first:
            usual = FIRST_RUN_SECONDS + self.priors[approach].compile_seconds
        return statistics.median(self._overhead[is_first] or [usual])

    def seconds(self, approach: str, epochs: int) -> float:
        """Seconds of a run, or of its continuation, by this many epochs."""
        return (
            self.overhead_seconds(approach)
            + self.build_seconds(approach)
            + epochs * self.epoch_seconds(approach)
        )
