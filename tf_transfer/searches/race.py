"""The race of a search: which run is next, and which candidate leads.

A candidate is a baseline, or an approach at a rate for a number of epochs. It
runs on folds: of each, a part of the labelled texts is held out, and the others
train. A *repeat* is a fold, or one more time the same fold with another seed.

    race = Race(candidates, costs, folds)
    while (action := race.next(seconds_left)) is not None:
        ... do the run of action.name on the fold of action.repeat ...
        race.add_scores(action.name, action.repeat, scored, ...)

`next` returns the first run, in this order, that is missing and fits:

    floor     the baselines on the first fold
    usual     every approach at its usual rate on the first fold: the cheapest,
              the dearest, and the others from the cheapest on
    folds     the other folds, one after another: the best three, and the
              baselines, which they are compared with
    variants  the leader's variants on the first fold, and then the folds of
              the best three again
    seeds     the best two on all folds once more, with other seeds

A run fits if its candidate can still be trained on all labelled texts after it,
and the leader as well, if there was time for that before. The first run of a
baseline need not leave any time: the others need its pass, and its score.

Candidates are compared on the texts of all folds that both ran on. They are
ranked by their expected lead over the best baseline (`leads`).
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from tf_transfer.comparison import compare
from tf_transfer.comparison.compare import subtract
from tf_transfer.comparison.decisions import Row
from tf_transfer.comparison.finished_runs import join, Scored
from tf_transfer.searches.costs import Candidate, Costs
from tf_transfer.searches.leads import expect_leads

FINALISTS = 3  # on all folds
REPEATED = 2  # with other seeds
ROUNDS = 2  # times that a candidate runs on each fold


@dataclasses.dataclass(frozen=True)
class Action:
    """The next run.

    Attributes:
        name: Of the candidate.
        repeat: See `Race`.
        rung: Name of its rung.
        seconds: Predicted.
    """

    name: str
    repeat: int
    rung: str
    seconds: float


class Race:
    """Selects the next run of a search.

    Args:
        candidates: By name, approaches from the one that trains least on;
            more may join it.
        costs: Predicts seconds.
        folds: Number of folds; 1 where validation texts are given.
        refit_share: Number of all labelled texts, relative to those that train
            on a fold; 0 where nothing is trained again.
        test_share: Number of the test texts, relative to those that are held
            out of a fold.

    Attributes:
        results: The held-out predictions of each candidate, by name and repeat.
        failed: Runs that are not tried again, name and repeat.
    """

    def __init__(
        self,
        candidates: Mapping[str, Candidate],
        costs: Costs,
        folds: int,
        refit_share: float = 0.0,
        test_share: float = 0.0,
    ) -> None:
        self.candidates = candidates
        self.costs = costs
        self.folds = folds
        self._refit_share = refit_share
        self._test_share = test_share
        self.results: dict[str, dict[int, Scored]] = {}
        self.failed: set[tuple[str, int]] = set()
        self._described: dict[str, compare.Candidate] = {}

    # === Results ===

    def add_scores(self, name: str, repeat: int, scored: Scored) -> None:
        """Records the held-out predictions of a run."""
        self.results.setdefault(name, {})[repeat] = scored
        self._described.pop(name, None)

    def describe(self, name: str) -> compare.Candidate:
        """A candidate with all its runs, for comparison."""
        if name not in self._described:
            self._described[name] = self._describe(name)
        return self._described[name]

    def _describe(self, name: str) -> compare.Candidate:
        runs = self.results[name]
        folds = len({repeat % self.folds for repeat in runs})
        joined = join(tuple(runs[repeat] for repeat in sorted(runs)))
        if self.candidates[name].is_baseline:  # it has no seeds
            rounds = range(ROUNDS * self.folds)
            shared = {n: runs.get(n % self.folds) for n in rounds}
            runs = {n: run for n, run in shared.items() if run is not None}
        one = compare.make_candidate(name, joined, [joined], runs)
        row = dataclasses.replace(
            one.row,
            folds=folds if self.folds > 1 else 0,
            scored=f"{len(np.unique(joined.ids)):,} held-out texts",
        )
        return dataclasses.replace(one, row=row)

    def join_folds(self, name: str) -> Scored | None:
        """A candidate on all labelled texts; None if it lacks a fold."""
        runs = self.results.get(name, {})
        if not {*range(self.folds)} <= runs.keys():
            return None
        return join(tuple(runs[fold] for fold in range(self.folds)))

    @property
    def baselines(self) -> list[str]:
        """The names of the baselines."""
        return [c.name for c in self.candidates.values() if c.is_baseline]

    def find_floor(self) -> str:
        """The best baseline, on the folds that all have; "" for none."""
        names = [name for name in self.baselines if name in self.results]
        if not names:
            return ""
        first, *others = map(self.describe, names)
        leads = {other.row.name: subtract(other, first) for other in others}
        name = max(leads, key=lambda name: leads[name].value, default="")
        return name if name and leads[name].value > 0 else first.row.name

    def rank(self) -> list[str]:
        """The names of all candidates that have run, the best first.

        They are ranked by expected leads over the best baseline; where no
        baseline has run, by scores.
        """
        floor = self.find_floor()
        if floor:
            leads = self._expect_leads(floor)
        else:
            leads = {
                name: self.describe(name).row.validation.value
                for name in self.results
            }
        return sorted(leads, key=lambda name: -leads[name])

    def _expect_leads(self, floor: str) -> dict[str, float]:
        """The expected leads over a baseline; of baselines the observed."""
        leads = {
            name: subtract(self.describe(name), self.describe(floor)).value
            for name in self.results
        }
        trained = [
            self.candidates[name]
            for name in leads
            if not self.candidates[name].is_baseline
        ]
        if trained:
            expected = expect_leads(
                [leads[one.name] for one in trained],
                self._measure_noise([one.name for one in trained], floor),
                [one.usual_lead for one in trained],
                [one.variant_of or one.name for one in trained],
            )
            leads |= {one.name: lead for one, lead in zip(trained, expected)}
        return leads

    def _measure_noise(self, names: Sequence[str], floor: str) -> np.ndarray:
        """The covariance of the errors of leads: float [names, names].

        Texts are resampled within each fold, and a lead is taken as the mean
        of those on its folds.
        """
        floors = self._sample_folds(floor)
        sampled = [self._sample_folds(name) for name in names]
        noise = np.zeros((len(names), len(names)))
        for fold, of_floor in floors.items():
            errors = np.zeros((len(names), len(of_floor)))
            for row, scores in enumerate(sampled):
                if fold in scores:
                    shared = len(scores.keys() & floors.keys())
                    errors[row] = (scores[fold] - of_floor) / shared
            noise += np.cov(errors)
        return noise

    def _sample_folds(self, name: str) -> dict[int, np.ndarray]:
        """The scores of a candidate on samples of the texts, by fold."""
        samples: dict[int, list[np.ndarray]] = {}
        for repeat, run in self.results[name].items():
            samples.setdefault(repeat % self.folds, []).append(run.samples)
        return {fold: np.mean(some, axis=0) for fold, some in samples.items()}

    def compare(self, too_long: Collection[str] = ()) -> list[Row]:
        """A row for each candidate, the best first, which is the reference.

        Candidates that do not score above the majority baseline come last. If
        none is likely to be above it, the order is that of their leads over it.

        Args:
            too_long: Names of candidates that cannot be the answer. The best
                of the others comes first, if it is above the majority baseline.
        """
        ranked = [self.describe(name) for name in self.rank()]
        if not ranked:
            return []
        rows = compare.compare(ranked, ranked[0])
        leads = {row.name: row.lead.value for row in rows}
        if any(row.is_likely for row in rows):
            ranked.sort(key=lambda one: leads[one.row.name] <= 0)
        else:
            ranked.sort(key=lambda one: -leads[one.row.name])
        possible = (
            one
            for one in ranked
            if one.row.name not in too_long and not leads[one.row.name] <= 0
        )
        best = next(possible, ranked[0])
        ranked.sort(key=lambda one: one is not best)
        baselines = [one for one in ranked if one.row.is_baseline]
        return compare.compare(ranked, best, baselines)

    # === The rungs ===

    def next(
        self, seconds_left: float, busy: Collection[tuple[str, int]] = ()
    ) -> Action | None:
        """The next run; None if nothing fits, or nothing is left to do.

        Args:
            seconds_left: Until the answer must be there.
            busy: Runs of other workers, whose results decide later rungs.
        """
        leader = self.rank()[0] if self.results else ""
        for rung, runs in self._list_rungs():
            is_waiting = False
            for name, repeat in runs:
                run = name, repeat
                is_waiting |= run in busy
                if run in busy or run in self.failed:
                    continue
                if repeat in self.results.get(name, ()):
                    continue
                seconds = self.costs.seconds(name)
                needed = self.count_needed(name, leader, seconds_left)
                if needed <= seconds_left:
                    return Action(name, repeat, rung, seconds)
            if is_waiting:
                return None
        return None

    def count_needed(
        self, name: str, leader: str = "", seconds_left: float = 0.0
    ) -> float:
        """Seconds of a run, and of what must still fit after it.

        Args:
            name: Of the candidate.
            leader: Its name; empty for none.
            seconds_left: See `next`.
        """
        seconds = self.costs.seconds(name)
        if self.candidates[name].is_baseline and name not in self.results:
            return seconds
        after = self.finish_seconds(name)
        if leader and self.can_refit(leader, seconds_left):
            after = max(after, self.finish_seconds(leader))
        return self.costs.margin(name) * (seconds + after)

    def plan_first(self, seconds_left: float) -> list[Action]:
        """The runs of the first two rungs that fit; no scores decide these.

        Args:
            seconds_left: See `next`.
        """
        actions: list[Action] = []
        for rung, runs in itertools.islice(self._list_rungs(), 2):
            for name, repeat in runs:
                seconds = self.costs.seconds(name)
                planned = [action.name for action in actions]
                leader = max(planned, key=self.finish_seconds, default="")
                needed = self.count_needed(name, leader, seconds_left)
                if needed <= seconds_left:
                    seconds_left -= seconds
                    self.costs.assume_stored(name)
                    actions.append(Action(name, repeat, rung, seconds))
        return actions

    def can_refit(self, name: str, seconds_left: float) -> bool:
        """Whether a candidate can be trained on all labelled texts in time.

        Args:
            name: Of the candidate.
            seconds_left: Until the answer must be there; the test may take
                longer.
        """
        return self.refit_seconds(name) <= seconds_left

    def list_too_long(self, seconds_left: float) -> set[str]:
        """The candidates that can no longer be trained on all labelled texts.

        Args:
            seconds_left: See `can_refit`.
        """
        return {n for n in self.results if not self.can_refit(n, seconds_left)}

    def finish_seconds(self, name: str) -> float:
        """Seconds to train a candidate on all labelled texts and to test."""
        return self.refit_seconds(name) + self.test_seconds(name)

    def test_seconds(self, name: str) -> float:
        """Seconds to score a candidate on the test."""
        if not self._test_share:
            return 0.0
        predict = self._test_share * self.costs.predict_seconds(name)
        return self.costs.overhead_seconds(name) + predict

    def refit_seconds(self, name: str) -> float:
        """Seconds to train a candidate on all labelled texts."""
        if not self._refit_share:
            return 0.0
        return self.costs.train_seconds(name, self._refit_share)

    def _list_rungs(self) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """The name of each rung, and its runs: names and repeats."""
        usual = self._list_usual()
        yield "floor", [(name, 0) for name in self.baselines]
        dearest_second = [*usual[:1], *usual[:0:-1][:1], *usual[1:-1]]
        yield "usual", [(name, 0) for name in dearest_second]
        yield from self._list_folds()
        ranked = self._list_trained()
        variants = [
            c.name
            for c in self.candidates.values()
            if ranked and c.variant_of == ranked[0]
        ]
        yield "variants", [(name, 0) for name in variants]
        for repeat in range(self.folds, ROUNDS * self.folds):
            yield "seeds", [(name, repeat) for name in ranked[:REPEATED]]

    def _list_usual(self) -> list[str]:
        """The names of all approaches, the cheapest first."""
        candidates = [
            one
            for one in self.candidates.values()
            if not (one.is_baseline or one.variant_of)
        ]
        candidates.sort(key=lambda one: one.work.epoch)
        return [one.name for one in candidates]

    def _list_folds(self) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """The rungs of all folds but the first."""
        floor, ranked = self.find_floor(), self._list_trained()
        others = [name for name in self.baselines if name != floor]
        finalists = ranked[:FINALISTS]
        least = min(map(self.costs.seconds, finalists), default=math.inf)
        # A gain over a baseline needs its folds, which mostly take seconds.
        cheap = [name for name in others if self.costs.seconds(name) <= least]
        names = dict.fromkeys([floor, *cheap, *finalists, *others])
        names.pop("", None)
        for fold in range(1, self.folds):
            yield "folds", [(name, fold) for name in names]

    def _list_trained(self) -> list[str]:
        """The names of the trained candidates, the best first."""
        return [
            name
            for name in self.rank()
            if not self.candidates[name].is_baseline
        ]
