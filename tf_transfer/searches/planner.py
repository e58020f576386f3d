"""Decides the next run of a search: a pure function of results.

    planner = Planner(space, costs, options, noise, floor)
    while (action := planner.next(seconds_left)) is not None:
        ... do it ...
        planner.tell(action.choice, scores, epoch_seconds, ...)

A run trains at a constant rate up to a rung, 1, 2, 4, ... epochs, and may be
continued to a later rung. The first run has the usual rate and epochs, for the
approach with the most trained blocks that fits into the time. Training
everything this way comes as soon as it fits. Any other run, or continuation, is
the one with the highest expected gain per second (`gains`, `costs`), at the
rung with the highest gain per second. A step towards that rung takes half of
the time left at most. A run that would not end in time is not begun.

A share of the budget, CONFIRM_SHARE at most, is reserved for the end, unless
the expected gain exceeds the noise of a score: the best run is trained again
with a rate that falls to zero, and the best runs of the first FINALISTS
approaches are trained with other seeds, if their scores are close. All scores
are on validation.
"""

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from tf_transfer.reports import advice
from tf_transfer.reports.estimates import Estimate
from tf_transfer.searches import gains
from tf_transfer.searches.costs import Costs
from tf_transfer.searches.space import Approach, Choice, EVERYTHING

CONFIRM_SHARE = 0.2  # of the budget, at most
FINALISTS = 3
CLOSE = 3.0  # times the noise: other seeds do not make up a larger difference
MOST_SEEDS = 5
# A second counts for less while there is much time: otherwise a run with a
# small gain in no time would always come before a run with a large gain.
LEISURE = 0.2  # of the time left
AT_ONCE = 0.5  # of the time left, that a step past one rung may take
BUILD_SHARE = 0.3  # of a feature cache's seconds: later runs use it as well
LEAST_GAIN = 0.03  # points; a run that gains less is not tried before the end
# Factors for the error of a prediction, before and after an approach was
# measured.
MARGIN_UNMEASURED, MARGIN = 1.3, 1.1
# Seconds that the answer takes (reading predictions, drawing, writing), and
# its share of the budget at most.
ANSWER_SECONDS, ANSWER_SHARE = 8.0, 0.15


@dataclasses.dataclass(frozen=True)
class Options:
    """Bounds of a search.

    Attributes:
        budget: seconds.
        max_epochs: of a run.
        usual_epochs: of a run of `tf_transfer.train` on these texts.
        own_share: of a setting's own mean in its expected score on new texts;
            the rest is the share of the score that all runs predict.
            docs/search.md judges it.
        max_loss: points that a cheaper answer may lose.
    """

    budget: float
    max_epochs: int
    usual_epochs: int = 4
    own_share: float = 0.5
    max_loss: float = 0.0


@dataclasses.dataclass(frozen=True)
class Action:
    """The next run, or the next epochs of one.

    Attributes:
        choice: the run.
        epochs: of the run in the end, finished epochs included.
        seconds: of the action, predicted.
        gain: expected, in points; 0 for a confirmation.
        aim: epochs at which the gain is expected; this is the step towards it.
    """

    choice: Choice
    epochs: int
    seconds: float
    gain: float = 0.0
    aim: int = 0


@dataclasses.dataclass(frozen=True)
class ScoredSetting:
    """A setting, and the scores of its runs on validation.

    Attributes:
        choice: of its first seed.
        scores: best of each seed's epochs, in points, by seed.
        epochs: of the longest of its runs.
        expected: on new texts, in points; see `Planner.rank_settings`.
    """

    choice: Choice
    scores: tuple[float, ...]
    epochs: int
    expected: float

    @property
    def mean(self) -> float:
        """The score, over all seeds."""
        return sum(self.scores) / len(self.scores)


class Planner:
    """Decides what a search does next.

    Args:
        space: the approaches, those that train least first.
        costs: predicts seconds, from measured seconds.
        options: bounds.
        noise: standard deviation of a score from one seed to the next, in
            points; see `noise_of`.
        floor: score of the best baseline, in points.

    Attributes:
        curves: validation scores by epoch, in points, of each run.
    """

    def __init__(
        self,
        space: Sequence[Approach],
        costs: Costs,
        options: Options,
        noise: float,
        floor: float,
    ) -> None:
        self.space = {approach.name: approach for approach in space}
        self.costs = costs
        self.options = options
        self.noise = noise
        self.floor = floor
        self.curves: dict[Choice, tuple[float, ...]] = {}
        self._failed: set[Choice] = set()

    # === Results ===

    def tell(
        self,
        choice: Choice,
        scores: Sequence[float],
        epoch_seconds: Sequence[float] = (),
        build_seconds: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        """Takes the scores of a run, and its seconds.

        Args:
            choice: the run.
            scores: on validation, in points, of all its epochs.
            epoch_seconds, build_seconds, seconds: of what is new of it; see
                `Costs.tell`.
        """
        self.curves[choice] = tuple(scores)
        self._failed.discard(choice)
        self.costs.tell(choice.approach, epoch_seconds, build_seconds, seconds)

    def fail(self, choice: Choice) -> None:
        """Takes note that a run, or its continuation, has failed.

        It is not tried again; what it scored before stays.
        """
        self._failed.add(choice)

    def has_failed(self, approach: str) -> bool:
        """Whether a run of an approach has failed."""
        return any(choice.approach == approach for choice in self._failed)

    def rank_settings(self) -> list[ScoredSetting]:
        """All settings that have run, the best first.

        The highest of many scores is mostly luck. So the expected score of a
        setting on new texts lies between its own mean over seeds and the score
        that all runs predict for it (`gains`). The rank is by the expected
        score minus one standard error: one lucky run does not win against the
        mean of several.
        """
        expectation = self._expectation()
        groups: dict[Choice, list[Choice]] = {}
        for choice in sorted(self.curves):
            groups.setdefault(choice.setting, []).append(choice)
        settings = []
        for setting, choices in groups.items():
            scores = tuple(max(self.curves[choice]) for choice in choices)
            epochs = max(map(self.count_epochs, choices))
            [mean], _ = expectation.predict([self._point(setting, epochs)])
            own, share = sum(scores) / len(scores), self.options.own_share
            expected = share * own + (1 - share) * float(mean)
            settings.append(ScoredSetting(setting, scores, epochs, expected))

        def rank(one: ScoredSetting) -> tuple[float, float]:
            sure = one.expected - self.noise / math.sqrt(len(one.scores))
            return -sure, self.costs.epoch_seconds(one.choice.approach)

        return sorted(settings, key=rank)

    def beats_floor(self, setting: ScoredSetting) -> bool:
        """Whether a setting is the answer, and not the best baseline.

        The reference is what is expected to score more; see `advice.choose`.
        """
        loss = Estimate(self.floor - setting.expected, self.noise, math.inf)
        rows = [
            advice.Row("training", is_reference=True),
            advice.Row("the floor", difference=loss.ranged(), weights=0.0),
        ]
        if setting.expected <= self.floor:
            return False
        return advice.choose(rows, self.options.max_loss) is rows[0]

    def best_of_approaches(self) -> list[ScoredSetting]:
        """The best setting of each approach, the best first."""
        best: dict[str, ScoredSetting] = {}
        for setting in self.rank_settings():
            best.setdefault(setting.choice.approach, setting)
        return list(best.values())

    def best_seed(self, setting: ScoredSetting) -> Choice:
        """The run of a setting whose validation score is highest."""
        seeds = [c for c in self.curves if c.setting == setting.choice]
        return max(sorted(seeds), key=lambda choice: max(self.curves[choice]))

    def rate_of(self, choice: Choice) -> float:
        """The learning rate of a run."""
        return self.space[choice.approach].rates[choice.rate]

    def count_epochs(self, choice: Choice) -> int:
        """The number of finished epochs of a run."""
        return len(self.curves.get(choice, ()))

    # === The next run ===

    def next(
        self, seconds_left: float, busy: Collection[Choice] = ()
    ) -> Action | None:
        """The next action; None if nothing fits, or is worth its time.

        Args:
            seconds_left: until the answer must be there.
            busy: runs of other workers.
        """
        usual = self._first_fitting(self._usual_runs(), seconds_left, busy)
        if usual is not None:
            return usual
        left = seconds_left - self._reserved_seconds()
        for action in self.explorations(max(left, 0.0), busy):
            if action.gain < LEAST_GAIN:
                continue
            # A gain above the noise may use the time reserved for the end.
            room = seconds_left if action.gain > self.noise else left
            done = self.count_epochs(action.choice)
            shorter = (
                self._train(action.choice, epochs, action.gain)
                for epochs in range(action.epochs, done, -1)
            )
            fitting = self._first_fitting(shorter, room, busy)
            if fitting is not None:
                return fitting
        return self._first_fitting(self._confirmations(), seconds_left, busy)

    def _first_fitting(
        self,
        actions: Iterable[Action],
        seconds_left: float,
        busy: Collection[Choice],
    ) -> Action | None:
        """The first that fits, has not failed, and is not another worker's."""
        fitting = (
            action
            for action in actions
            if action.choice not in (*busy, *self._failed)
            and self._takes(action) <= seconds_left
        )
        return next(fitting, None)

    def _usual_runs(self) -> Iterator[Action]:
        """Runs at the usual rate, the deepest first.

        The first run is that of the approach with the most trained blocks for
        which there is time. Everything is trained as soon as it fits.
        """
        epochs = min(self.options.usual_epochs, self.options.max_epochs)
        for approach in sorted(
            self.space.values(), key=lambda a: (-a.depth, a.variant)
        ):
            is_first = not self.curves and approach.depth > 0
            choice = Choice(approach.name, approach.usual)
            is_unfinished = self.count_epochs(choice) < epochs
            if is_unfinished and (is_first or approach.name == EVERYTHING):
                yield self._train(choice, epochs)

    def explorations(
        self, left: float = 0.0, busy: Collection[Choice] = ()
    ) -> list[Action]:
        """All runs and continuations, the highest gain per second first.

        Args:
            left: seconds that there are for them.
            busy: runs of other workers.
        """
        expected = self._expectation()
        being_built = {
            cache
            for choice in busy
            if self.costs.build_seconds(choice.approach)
            for cache in self.costs.builds(choice.approach)
        }
        weighed = [
            self._weigh(choice, expected, left)
            for approach in self.space.values()
            # Another run builds the cache that it would read.
            if self.costs.works[approach.name].cache not in being_built
            for choice in approach.choices
            if choice not in (*busy, *self._failed)
            and self.count_epochs(choice) < self.options.max_epochs
        ]
        weighed.sort(key=lambda pair: -pair[0])
        return [action for _, action in weighed]

    def _expectation(self) -> gains.Expectation:
        scored = [
            (self._point(choice, epochs), max(curve[:epochs]))
            for choice, curve in self.curves.items()
            if not (choice.seed or choice.linear_epochs)
            for epochs in _list_rungs(len(curve))
        ]
        return gains.Expectation(
            [point for point, _ in scored],
            [score for _, score in scored],
            self.noise,
            self.floor,
        )

    def _point(self, choice: Choice, epochs: int) -> gains.Point:
        approach = self.space[choice.approach]
        return gains.Point(
            approach.depth,
            choice.rate - approach.usual,
            epochs * self.costs.works[approach.name].updates,
            approach.variant,
        )

    def _weigh(
        self, choice: Choice, expected: gains.Expectation, left: float
    ) -> tuple[float, Action]:
        """Gain per second of a run's best rung, and the step towards it."""
        name, done = choice.approach, self.count_epochs(choice)
        rungs = [r for r in _list_rungs(self.options.max_epochs) if r > done]
        costs = [self.costs.seconds(name, rung - done) for rung in rungs]
        rises = expected.gains([self._point(choice, rung) for rung in rungs])
        spared = (1 - BUILD_SHARE) * self.costs.build_seconds(name)
        # Epochs for which there is no time add nothing to a run's worth.
        room = left if left > costs[0] else math.inf
        value, gain, aim = max(
            (rise / (cost - spared + LEISURE * left), rise, rung)
            for rise, cost, rung in zip(rises, costs, rungs)
            if cost <= room
        )
        step, seconds = max(
            (rung, cost)
            for rung, cost in zip(rungs, costs)
            if rung == rungs[0] or (rung <= aim and cost <= AT_ONCE * left)
        )
        return value, Action(choice, step, seconds, gain, aim)

    def _takes(self, action: Action) -> float:
        """Seconds of an action, with a margin for the error of the prediction.

        The first run has no margin: there is no result to lose.
        """
        if not self.curves:
            return action.seconds
        is_measured = self.costs.has_measured(action.choice.approach)
        return action.seconds * (MARGIN if is_measured else MARGIN_UNMEASURED)

    # === The end ===

    def _confirmations(self) -> Iterator[Action]:
        """Runs that improve the answer, then runs that confirm it."""
        finalists = self.best_of_approaches()[:FINALISTS]
        if not finalists:
            return
        best = finalists[0]
        if not best.choice.linear_epochs and not any(
            known.linear_epochs and known.approach == best.choice.approach
            for known in (*self.curves, *self._failed)
        ):
            choice = dataclasses.replace(best.choice, linear_epochs=best.epochs)
            yield self._train(choice, best.epochs)
        for seed in range(1, MOST_SEEDS):
            for one in finalists:
                choice = dataclasses.replace(one.choice, seed=seed)
                is_close = one.mean > best.mean - CLOSE * self.noise
                if is_close and self.count_epochs(choice) < one.epochs:
                    yield self._train(choice, one.epochs)

    def _train(self, choice: Choice, epochs: int, gain: float = 0.0) -> Action:
        """Training a run up to a number of epochs."""
        new = epochs - self.count_epochs(choice)
        seconds = self.costs.seconds(choice.approach, new)
        return Action(choice, epochs, seconds, gain)

    def _reserved_seconds(self) -> float:
        """Seconds that are not for exploring."""
        reserved = 0.0
        most = CONFIRM_SHARE * self.options.budget - sum(
            self.costs.seconds(choice.approach, 1)
            for choice in self.curves
            if choice.seed or choice.linear_epochs
        )
        for action in self._confirmations():
            if action.choice in self._failed:
                continue
            if action.choice.seed > 2 or reserved + self._takes(action) > most:
                break
            reserved += self._takes(action)
        return reserved

    def least_seconds(self) -> tuple[str, float]:
        """The approach with the cheapest epoch, and the seconds of its run."""
        name = min(self.space, key=lambda name: self.costs.seconds(name, 1))
        return name, self.costs.seconds(name, 1)


def _list_rungs(most: int) -> list[int]:
    """1, 2, 4, ... epochs, and the most that there are."""
    return sorted({*(2**power for power in range(most.bit_length())), most})


def answer_seconds(budget: float) -> float:
    """Seconds of a budget that the answer takes."""
    return min(ANSWER_SECONDS, ANSWER_SHARE * budget)


def noise_of(examples: int) -> float:
    """The noise of a score on validation, in points.

    It is half the standard error of an accuracy of 0.7: runs are compared on
    the same examples, and mostly give the same answers.

    Args:
        examples: of the validation set.
    """
    return max(0.25, 50 * math.sqrt(0.7 * 0.3 / max(examples, 1)))
