"""The ladder of a search: grids of runs, each chosen by the scores before it.

    ladder = Ladder(approaches, costs, floor, noise, budget)
    while (action := ladder.next(seconds_left)) is not None:
        ... train action.choice up to action.epochs ...
        ladder.tell(action.choice, scores, epoch_seconds, ...)

`next` returns the first run, in this order, that is missing and fits:

    first       the cheapest approach at its usual rate, all epochs; then
                others, the largest first, in a third of the budget together
    largest     in place of these others, where all runs so far lose to the
                floor by more than the noise: the largest approach, all epochs
    approaches  every approach at its usual rate, half of the epochs
    best        the best two runs so far, all epochs
    around      the best approach at its two other rates, and its variants, half
                of the epochs
    seeds       the best three settings with another seed, all epochs; and so
                on; only settings within three times the noise of the best

All scores are on validation. The rungs depend on them alone. So an improved run
is extended, and a killed search continues. A run that would not end in time is
left out.

The score of a run is the mean of its two best epochs: the highest of all epochs
is partly luck. Settings are compared by their mean lead over the floor, less
one standard error: one lucky run does not win against the mean of several.
Where that is not positive, the floor is the answer. docs/search.md measures
these choices.
"""

import dataclasses
import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence

from tf_transfer.sweeps.estimate import Work

FIRST_SHARE = 1 / 3  # of the budget, for the first rung
MOST_EXTENDED = 2  # runs that train all epochs
FINALISTS = 3
CLOSE = 3.0  # times the noise; other seeds do not close a larger gap
SEEDS = 5
# Factors for the error of a prediction, before and after an approach was
# measured.
MARGIN_UNMEASURED, MARGIN = 1.3, 1.1
# Seconds of a run apart from its epochs, before any is measured.
OVERHEAD_SECONDS = 4.0
# Share of the largest approach's operations. A smaller epoch, as of one block
# at [CLS] alone, says nothing about speed.
LEAST_SHARE = 0.02
STEPS = (1.0, 2.0, 5.0)


# === The space ===


@dataclasses.dataclass(frozen=True)
class Approach:
    """What trains.

    Attributes:
        name: in words, such as `last 2`.
        rates: below, at and above its usual one.
        work: the operations of a run.
        epochs: of a whole run.
        cache: names the feature caches that one pass stores together; empty if
            it reads none.
        variant_of: name of the approach that it changes; empty if none.
    """

    name: str
    rates: tuple[float, ...]
    work: Work
    epochs: int
    cache: str = ""
    variant_of: str = ""

    @property
    def usual(self) -> "Choice":
        """The run at its usual rate, with the first seed."""
        return Choice(self.name, self.rates[1])


@dataclasses.dataclass(frozen=True, order=True)
class Choice:
    """A run of a search, apart from its number of epochs.

    Attributes:
        approach: its name.
        rate: learning rate.
        seed: of the run; with few texts, also the number of the fold.
    """

    approach: str
    rate: float
    seed: int = 0

    def with_seed(self, seed: int) -> "Choice":
        """The run of the same setting with a seed."""
        return dataclasses.replace(self, seed=seed)


def rates_around(usual: float) -> tuple[float, ...]:
    """The usual rate, as 1, 2 or 5 times a power of ten, and its neighbours."""
    rates = [
        float(f"{step:g}e{exponent}")
        for exponent in range(-9, 2)
        for step in STEPS
    ]
    nearest = min(rates, key=lambda rate: abs(math.log(rate / usual)))
    middle = rates.index(nearest)
    return tuple(rates[middle - 1 : middle + 2])


# === Costs ===


class Costs:
    """Predicts the seconds of runs.

    An epoch of a measured approach costs the median of its epochs. Another
    costs its operations, at the speed of the last run; before the first, at
    the speed of the probe's pass.

    Args:
        approaches: of the search.
        pass_seconds: per operation, of a pass of the frozen encoder.
        stored: feature caches that exist; see `Approach.cache`.
    """

    def __init__(
        self,
        approaches: Sequence[Approach],
        pass_seconds: float,
        stored: Collection[str] = (),
    ) -> None:
        self._approaches = {a.name: a for a in approaches}
        self._pass_seconds = self._speed = pass_seconds
        self._stored = {"", *stored}
        self._epochs: dict[str, list[float]] = {}
        self._overheads: dict[str, float] = {}

    def tell(
        self,
        name: str,
        epoch_seconds: Sequence[float],
        build_seconds: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        """Takes the seconds of a run, or of its continuation.

        Args:
            name: of the approach.
            epoch_seconds: of its new epochs, one at least; the first may trace.
            build_seconds: that it spent building its feature cache.
            seconds: from its start to its result, if known.
        """
        approach = self._approaches[name]
        steady = epoch_seconds[1:] or epoch_seconds
        self._epochs.setdefault(name, []).extend(steady)
        self._stored.add(approach.cache)
        most = max(a.work.epoch for a in self._approaches.values())
        if approach.work.epoch > LEAST_SHARE * most:
            self._speed = self.epoch_seconds(name) / approach.work.epoch
        if seconds is not None:
            seconds -= sum(epoch_seconds) + build_seconds
            self._overheads[name] = max(seconds, 0.0)

    def has_measured(self, name: str) -> bool:
        """Whether a run of the approach has trained an epoch."""
        return name in self._epochs

    def epoch_seconds(self, name: str) -> float:
        """Seconds of an epoch, with its evaluation."""
        if self.has_measured(name):
            return statistics.median(self._epochs[name])
        return self._speed * self._approaches[name].work.epoch

    def overhead_seconds(self, name: str) -> float:
        """Seconds of a run apart from its epochs and its feature cache."""
        most = max(self._overheads.values(), default=OVERHEAD_SECONDS)
        return self._overheads.get(name, most)

    def _build_seconds(self, cache: str) -> float:
        """Seconds of the pass that stores the caches of a name."""
        if cache in self._stored:
            return 0.0
        return self._pass_seconds * max(
            a.work.build for a in self._approaches.values() if a.cache == cache
        )

    def predict_seconds(self, name: str) -> float:
        """Seconds of running the encoder over the scored texts once."""
        return self._pass_seconds * self._approaches[name].work.predict

    def seconds(self, name: str, epochs: float) -> float:
        """Seconds of a run, or of its continuation, by this many epochs."""
        return (
            self.overhead_seconds(name)
            + self._build_seconds(self._approaches[name].cache)
            + epochs * self.epoch_seconds(name)
        )


# === The ladder ===


@dataclasses.dataclass(frozen=True)
class Action:
    """The next run, or the next epochs of one.

    Attributes:
        choice: the run.
        epochs: of the run in all, finished ones included.
        rung: name of its rung.
        seconds: of the action, predicted.
        most: seconds that it may take; it ends with the last epoch that fits.
    """

    choice: Choice
    epochs: int
    rung: str
    seconds: float
    most: float


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting, and what its runs score.

    Attributes:
        choice: of its first seed.
        scores: by seed, in points; see `score`.
        lead: of its scores over the floor's by the same seeds, in points.
        least_lead: the lead less one standard error.
    """

    choice: Choice
    scores: dict[int, float]
    lead: float
    least_lead: float

    @property
    def mean(self) -> float:
        """The score, over all seeds."""
        return statistics.fmean(self.scores.values())


class Ladder:
    """Decides what a search does next.

    Args:
        approaches: those that train least first; variants last.
        costs: predicts seconds, from measured seconds.
        floor: score of the best baseline by seed, in points. A seed without
            one uses that of seed 0.
        noise: standard deviation of a score from one seed to the next, in
            points; see `noise_of`.
        budget: seconds.

    Attributes:
        curves: validation scores by epoch, in points, of each run.
        failed: runs that are not tried again; what they scored stays.
        seeds: most seeds per setting.
    """

    seeds = SEEDS

    def __init__(
        self,
        approaches: Sequence[Approach],
        costs: Costs,
        floor: Mapping[int, float],
        noise: float,
        budget: float,
    ) -> None:
        self.approaches = {a.name: a for a in approaches}
        self.costs = costs
        self.floor = floor
        self.noise = noise
        self.budget = budget
        self.curves: dict[Choice, tuple[float, ...]] = {}
        self.failed: set[Choice] = set()

    # === Results ===

    def tell(
        self,
        choice: Choice,
        scores: Sequence[float],
        epoch_seconds: Sequence[float],
        build_seconds: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        """Takes the scores of a run, and its seconds.

        Args:
            choice: the run.
            scores: on validation, in points, of all its epochs.
            epoch_seconds, build_seconds, seconds: of the new epochs alone; see
                `Costs.tell`.
        """
        self.curves[choice] = tuple(scores)
        self.costs.tell(choice.approach, epoch_seconds, build_seconds, seconds)

    def count_epochs(self, choice: Choice) -> int:
        """The number of finished epochs of a run."""
        return len(self.curves.get(choice, ()))

    def rank(self) -> list[Setting]:
        """All settings that have run, the best first."""
        groups: dict[Choice, dict[int, float]] = {}
        for choice in sorted(self.curves):
            scores = groups.setdefault(choice.with_seed(0), {})
            scores[choice.seed] = score(self.curves[choice])
        settings = []
        for choice, scores in groups.items():
            lead = statistics.fmean(
                points - self.floor.get(seed, self.floor[0])
                for seed, points in scores.items()
            )
            least = lead - self.noise / math.sqrt(len(scores))
            settings.append(Setting(choice, scores, lead, least))
        return sorted(settings, key=lambda setting: -setting.least_lead)

    def best_of_approaches(self) -> list[Setting]:
        """The best setting of each approach, the best first."""
        best: dict[str, Setting] = {}
        for setting in self.rank():
            best.setdefault(setting.choice.approach, setting)
        return list(best.values())

    def best_seed(self, setting: Setting) -> Choice:
        """The run of a setting whose validation score is highest."""
        seeds = [setting.choice.with_seed(seed) for seed in setting.scores]
        return max(seeds, key=lambda choice: max(self.curves[choice]))

    # === The rungs ===

    def next(
        self, seconds_left: float, busy: Collection[Choice] = ()
    ) -> Action | None:
        """The next action; None if nothing fits, or nothing is left to do.

        Args:
            seconds_left: until the answer must be there.
            busy: runs of other workers, whose results decide later rungs.
        """
        for rung, choices, epochs_share in self._list_rungs():
            is_waiting = False
            budget_share = FIRST_SHARE if rung == "first" else 1.0
            for choice in choices:
                is_waiting |= choice in busy
                if choice in busy or choice in self.failed:
                    continue
                whole = self.approaches[choice.approach].epochs
                epochs = max(1, math.ceil(epochs_share * whole))
                new = epochs - self.count_epochs(choice)
                seconds = self.costs.seconds(choice.approach, new)
                if new > 0 and seconds * self._margin(choice) <= seconds_left:
                    most = budget_share * self.budget
                    return Action(choice, epochs, rung, seconds, most)
            if is_waiting:
                return None
        return None

    def _margin(self, choice: Choice) -> float:
        """A factor for the error of a prediction.

        It is 1 for the first run: there is no result to lose.
        """
        if not self.curves:
            return 1.0
        is_measured = self.costs.has_measured(choice.approach)
        return MARGIN if is_measured else MARGIN_UNMEASURED

    def _list_rungs(self) -> Iterator[tuple[str, list[Choice], float]]:
        """The name, the runs and the share of the epochs of each rung."""
        usual = [a.usual for a in self.approaches.values() if not a.variant_of]
        ranked = self.rank()
        yield "first", usual[:1], 1
        if ranked and ranked[0].lead < -self.noise:
            # Little training loses to the floor: the most that fits may not.
            yield "largest", usual[::-1], 1
        else:
            yield "first", self._list_first(usual), 1
        yield "approaches", usual, 0.5
        # If nothing else fits: one epoch of the cheapest approach.
        yield "approaches", usual[:1], 0
        best = [setting.choice for setting in ranked]
        yield "best", [c.with_seed(0) for c in best[:MOST_EXTENDED]], 1
        if best:
            yield "around", self._list_around(best[0].approach), 0.5
        for seed in range(1, self.seeds):
            close = [
                setting.choice.with_seed(seed)
                for setting in ranked[:FINALISTS]
                if setting.lead > ranked[0].lead - CLOSE * self.noise
            ]
            yield "seeds", close, 1

    def _list_first(self, usual: Sequence[Choice]) -> list[Choice]:
        """The largest runs that fit into the share of the first rung."""
        left = FIRST_SHARE * self.budget
        for choice in self.curves:
            left -= self.costs.seconds(
                choice.approach, self.count_epochs(choice)
            )
        return [
            choice
            for choice in reversed(usual)
            if self.whole_seconds(choice.approach) <= left
        ]

    def whole_seconds(self, name: str) -> float:
        """Seconds of a whole run of an approach."""
        return self.costs.seconds(name, self.approaches[name].epochs)

    def _list_around(self, name: str) -> list[Choice]:
        """The other rates of an approach, and its variants."""
        approach = self.approaches[name]
        low, _, high = approach.rates
        return [
            Choice(name, high),
            Choice(name, low),
            *(
                a.usual
                for a in self.approaches.values()
                if a.variant_of == name
            ),
        ]


def score(curve: Sequence[float]) -> float:
    """The score of a run: the mean of its two best epochs."""
    return statistics.fmean(sorted(curve)[-2:])


def noise_of(examples: int) -> float:
    """The noise of a score on validation, in points.

    It is half the standard error of an accuracy of 0.7: runs are compared on
    the same examples, and mostly give the same answers.

    Args:
        examples: of the validation set.
    """
    return max(0.25, 50 * math.sqrt(0.7 * 0.3 / max(examples, 1)))
