"""What runs say of the papers' claims.

A verdict has one of four words, with its reason:

- *agrees*, *contradicts*: what the runs show, at the paper's own settings, data
  and encoder. A difference must be significant at 5 % after Holm's correction
  over the paper's claims; "no difference" needs two one-sided tests within the
  margin. Where the paper gives the size of a difference, the 95 % interval must
  lie within half to twice of it; else it *agrees in sign*, or, if it excludes
  half of it and has both signs, *contradicts*.
- *inconclusive*: nothing is shown, or something is missing: three seeds a side,
  a task, a rate, a time that the limit of epochs did not cut off. The reason
  says about how many seeds would decide.
- *not comparable*: something outside the claim is not the paper's, the encoder
  has seen the data before, or a side is not shown to be above the majority
  baseline. The same statistics are told of this encoder and data, corrected
  over all such claims of a report.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from tf_transfer.reports import estimates
from tf_transfer.reports import frames
from tf_transfer.reports import measures
from tf_transfer.reports.claims import Claim
from tf_transfer.reports.claims import Group
from tf_transfer.reports.claims import list_differences
from tf_transfer.reports.claims import Paper
from tf_transfer.reports.claims import size_of
from tf_transfer.reports.claims import SIZES_ALIKE
from tf_transfer.reports.claims import unlike_sizes
from tf_transfer.reports.estimates import Cell
from tf_transfer.reports.estimates import Contrast
from tf_transfer.reports.sides import choose_sides
from tf_transfer.reports.sides import describe
from tf_transfer.reports.sides import list_peers
from tf_transfer.reports.sides import list_repeats
from tf_transfer.reports.sides import NotFound
from tf_transfer.reports.sides import Repeats
from tf_transfer.reports.sides import resolve
from tf_transfer.reports.sides import take_rows

AGREES, IN_SIGN = "agrees", "agrees in sign"
CONTRADICTS = "contradicts"
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
WORDS = (AGREES, IN_SIGN, CONTRADICTS, INCONCLUSIVE, NOT_COMPARABLE)

FEWEST_SEEDS = 3
FEWEST_POINTS = 3  # tasks of a trend
ALPHA = 1 - estimates.LEVEL
FAILED = "not above the majority baseline"  # as far as runs show
MIXED = "folds stand against one test set"
CORRELATIONS = ("matthews", "pearson", "spearman")  # 0 of what knows nothing
# What an encoder was trained on before, as tasks are called here: Quora's
# questions, both NLI sets, and SQuAD, of which QNLI is made.
SEEN = {"minilm": ("qqp", "paraphrase", "pairs", "mnli", "qnli")}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What some runs say of a claim.

    Attributes:
        claim: what was judged.
        study: of the runs.
        word: one of `WORDS`.
        reason: a clause.
        value, low, high: ours, with its 95 % interval; nan where not known.
        runs: the fewest of a side on a task.
        beside: the value by the claim's other measure, or nan.
        variance: standard errors of the value by part, see `estimates`.
        p: of the test that the word rests on; nan where none was made.
        outcome: what the word would be if `p` is small enough.
        p_of_half: of the test that any difference is below half of the
            published one; nan where none is.
        estimate: of the value, on the scale of the test.
        room: how far its interval may reach to decide.
        needed: what would decide it, a clause, if not the number of seeds.
        reading: settings in words, if it is another than the claim's own; see
            `Claim.readings`.
        tasks: those that the value is of, where the claim is on more.
        blocks: what a share of the blocks is of this encoder, in words.
        parts: of a claim on each, most or some of several comparisons, how
            many show it, a clause.
        problem: why its value is not told, apart from tasks without runs.
        compared: whether both sides have runs on a task.
    """

    claim: Claim
    study: str
    word: str
    reason: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    runs: int = 0
    beside: float = math.nan
    variance: Mapping[str, float] = dataclasses.field(default_factory=dict)
    p: float = math.nan
    outcome: str = ""
    p_of_half: float = math.nan
    estimate: estimates.Estimate | None = None
    room: float = math.nan
    needed: str = ""
    reading: str = ""
    tasks: tuple[str, ...] = ()
    blocks: str = ""
    parts: str = ""
    problem: str = ""
    compared: bool = False


def judge(runs: pd.DataFrame, paper: Paper) -> list[Verdict]:
    """A verdict on each claim by each study that has runs for it.

    Holm's correction is over all that could be tested, of all studies; of those
    that are not comparable, see `conclude_local`. Claims that no study has runs
    for have one verdict, without a study, which says what is missing.

    Args:
        runs: of the paper's experiment, see `frames.runs_frame`.
        paper: its claims.
    """
    verdicts: list[Verdict] = []
    unrun: dict[str, Verdict] = {}
    for study, members in frames.studies(runs):
        tasks = split_tasks(members, paper)
        for claim in paper.claims:
            verdict = judge_claim(tasks, paper, claim)
            if verdict is None:
                continue
            unrun.setdefault(claim.id, verdict)
            if verdict.compared:
                verdicts.append(dataclasses.replace(verdict, study=study))
    verdicts = correct_for_many(verdicts)
    seen = {verdict.claim.id for verdict in verdicts}
    return verdicts + [
        unrun.get(
            claim.id, Verdict(claim, "", INCONCLUSIVE, "no runs of its encoder")
        )
        for claim in paper.claims
        if claim.id not in seen
    ]


def correct_for_many(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The comparable ones after Holm's correction over those with a test."""
    return _correct(
        verdicts, lambda v: bool(v.outcome) and v.word != NOT_COMPARABLE
    )


def conclude_local(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Those of a report that are not comparable, corrected as one family."""
    return _correct(
        verdicts, lambda v: bool(v.outcome) and v.word == NOT_COMPARABLE
    )


def _correct(
    verdicts: Sequence[Verdict], is_member: Callable[[Verdict], bool]
) -> list[Verdict]:
    # The sign of a difference and a size below half of the published one are
    # never both false: they need no correction for each other. Baselines that
    # stand in several studies are judged once.
    least = {
        (v.claim.id, v.p): np.fmin(v.p, v.p_of_half)
        for v in verdicts
        if is_member(v)
    }
    p_values = [*least.values()]
    adjusted = dict(zip(least, estimates.adjust_for_many(p_values)))
    return [
        _conclude(v, adjusted[key] / least[key] if least[key] else 1.0)
        if is_member(v) and (key := (v.claim.id, v.p))
        else v
        for v in verdicts
    ]


def _conclude(verdict: Verdict, factor: float) -> Verdict:
    """The verdict with its p-value times the factor of Holm's correction."""
    p = min(1.0, verdict.p * factor)
    if verdict.word == NOT_COMPARABLE:
        return dataclasses.replace(verdict, p=p)
    if p <= ALPHA:
        return dataclasses.replace(verdict, word=verdict.outcome, p=p)
    if verdict.p_of_half * factor <= ALPHA:
        return dataclasses.replace(
            verdict,
            word=CONTRADICTS,
            reason="any difference is below half of the published one",
            p=verdict.p_of_half * factor,
        )
    reason = "nothing is shown"
    if verdict.p <= ALPHA:
        reason = "not significant after Holm's correction"
    needed = _describe_needed(verdict, 1 - ALPHA / max(factor, 1.0))
    reason = "; ".join(filter(None, [reason, verdict.parts, needed]))
    return dataclasses.replace(verdict, word=INCONCLUSIVE, reason=reason, p=p)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Both sides of a claim on one task.

    Attributes:
        sides: runs of the first and, where there is one, of the second.
        groups: the settings by which each side was chosen.
        cells: of each side, see `measures.Cells`.
        peers: the runs of each approach on the task.
        at: of a time, in epochs of the last side.
    """

    task: str
    sides: tuple[pd.DataFrame, ...]
    groups: tuple[Group, ...]
    cells: tuple[Cell, ...]
    peers: tuple[pd.DataFrame, ...]
    at: float = 0.0

    @property
    def fewest(self) -> int:
        """Known values of the side that has fewer.

        What no seed could change has enough.
        """
        counts = [
            len(cell.values)
            for cell in self.cells
            if cell.is_trained or cell.fold_share or not len(cell.values)
        ]
        return min(counts, default=FEWEST_SEEDS)


TaskRuns = tuple[pd.DataFrame, list[Repeats]]


def split_tasks(runs: pd.DataFrame, paper: Paper) -> dict[str, TaskRuns]:
    """A study's runs by task, with their `list_repeats`.

    Where a task was run on several files, those that count.
    """
    tasks = {}
    for task, members in runs.groupby("task"):
        if members.data_identity.nunique() > 1:
            members = _choose_files(members, paper.sizes.get(str(task)))
        tasks[str(task)] = members, list_repeats(members)
    return tasks


def judge_claim(
    tasks: Mapping[str, TaskRuns], paper: Paper, claim: Claim
) -> Verdict | None:
    """What the runs of a study say of a claim; None if they are not for it.

    The word is not yet corrected for other claims.

    Args:
        tasks: see `split_tasks`.
        paper: whose claim it is.
        claim: what is judged.
    """
    models = {r.model for _, repeats in tasks.values() for r in repeats}
    if claim.encoder and claim.encoder not in models:
        # Another of the paper's encoders; on one that it does not have, what
        # it says of its first one is told.
        if models & {*paper.encoders}:
            return None
        if claim.encoder != paper.encoders[0]:
            return None
    cells = measures.Cells()
    read = _choose_reading(tasks, paper, claim, cells)
    comparisons = read.complete or read.incomplete
    fewest = min((c.fewest for c in read.complete), default=0)
    on = tuple({c.task: None for c in read.complete})
    verdict = Verdict(
        claim,
        "",
        INCONCLUSIVE,
        "",
        runs=fewest,
        reading=describe(read.reading),
        tasks=on if len(on) < len(claim.tasks) else (),
        blocks=_describe_blocks(comparisons),
        problem=read.problem,
        compared=bool(comparisons),
    )
    of_sides = [
        difference
        for comparison in comparisons
        for side, group in zip(comparison.sides, comparison.groups)
        for difference in list_differences(side, paper, group, claim.encoder)
    ]
    incomparable = _find_incomparable(claim, comparisons)
    differences = [*dict.fromkeys([*incomparable, *of_sides])]
    if fewest > 1:
        tested = claim
        if differences:  # what is not comparable has no published size
            tested = dataclasses.replace(
                claim, published=0.0, sign=claim.direction
            )
        verdict = _test(tested, read.complete, verdict)
        verdict = dataclasses.replace(verdict, claim=claim)
        if claim.beside:
            verdict = _tell_beside(claim, read.complete, verdict, cells)
    if read.problem or (read.missing and not differences):
        verdict = dataclasses.replace(
            verdict,
            word=INCONCLUSIVE,
            reason=read.describe_missing() or read.problem,
            outcome="",
        )
    if differences:
        reason = "; ".join(differences[:3])
        if len(differences) > 3:
            reason += f"; and {len(differences) - 3} more"
        verdict = dataclasses.replace(
            verdict, word=NOT_COMPARABLE, reason=reason
        )
    return verdict


def _describe_blocks(comparisons: Sequence[Comparison]) -> str:
    """`2 of 6 blocks`, where a claim is about a share of them."""
    shares = {
        f"{resolve(layers, blocks)} of {blocks} blocks": None
        for comparison in comparisons
        for side, group in zip(comparison.sides, comparison.groups)
        for layers, blocks in [
            (str(group.get("trainable_layers")), int(side.blocks.max()))
        ]
        if layers.startswith("L/")
    }
    return " and ".join(shares)


@dataclasses.dataclass(frozen=True)
class Read:
    """A claim's comparisons in one of its readings.

    Attributes:
        reading: see `Claim.readings`; empty of the claim's own words.
        complete: on tasks that have runs for all that the claim compares there.
        incomplete: on the others that have some; they count for nothing.
        missing: what has no runs, in words.
        problem: what else keeps `complete` from telling anything, or an empty
            string.
    """

    reading: Group
    complete: list[Comparison]
    incomplete: list[Comparison]
    missing: list[str]
    problem: str

    def describe_missing(self) -> str:
        """What has no runs, a clause, or an empty string."""
        if not self.missing:
            return ""
        first, *others = self.missing
        return f"{first}, and {len(others)} more" if others else first


def _choose_reading(
    tasks: Mapping[str, TaskRuns],
    paper: Paper,
    claim: Claim,
    cells: measures.Cells,
) -> Read:
    """The first reading of a claim whose runs suffice, else with the most.

    It looks at what was run, never at scores, so that no reading is chosen for
    what comes out of it.
    """
    candidates: list[Read] = []
    for reading in ({}, *claim.readings):
        read = _compare(tasks, paper, claim, reading, cells)
        if not read.missing and not read.problem:
            return read
        candidates.append(read)
    return max(
        candidates, key=lambda read: (len(read.complete), len(read.incomplete))
    )


def _compare(
    tasks: Mapping[str, TaskRuns],
    paper: Paper,
    claim: Claim,
    reading: Group,
    cells: measures.Cells,
) -> Read:
    complete: list[Comparison] = []
    incomplete: list[Comparison] = []
    missing: list[str] = []
    for task in claim.tasks:
        if task not in tasks:
            missing.append(f"no runs on {task}")
            continue
        runs, repeats = tasks[task]
        found: list[Comparison] = []
        lacks: list[str] = []
        for pair in _pairs(claim):
            wanted = tuple(
                _read(group, reading)
                for group in (
                    {**claim.both, **g} for g in pair if g is not None
                )
            )
            try:
                chosen = choose_sides(repeats, paper, wanted)
            except NotFound as error:
                lacks.append(f"{error} on {task}")
                continue
            taken = [
                take_rows(runs, side) for side in list_peers(repeats, chosen)
            ]
            sides, peers = tuple(taken[: len(chosen)]), tuple(taken)
            for at in claim.at or (0.0,):
                measured = cells.measure(
                    claim.measure, sides, at, _takes_logarithms(claim), peers
                )
                found.append(
                    Comparison(task, sides, wanted, measured, peers, at)
                )
        (incomplete if lacks else complete).extend(found)
        missing += lacks
    problem = _find_problem(claim, complete)
    if not complete:
        problem = missing[0]
    return Read(reading, complete, incomplete, missing, problem)


def _read(group: Group, reading: Group) -> Group:
    """Settings of a side in a reading; what freezes anything has none."""
    is_full = group.get("trainable_layers") == "all"
    return {**group, **reading} if is_full else group


def _pairs(claim: Claim) -> Iterable[tuple[Group | None, ...]]:
    """The groups that are compared; see `Claim`."""
    if claim.paired:
        return zip(claim.first, claim.second, strict=True)
    return itertools.product(claim.first, claim.second or (None,))


def _choose_files(
    runs: pd.DataFrame, official: dict[str, int] | None
) -> pd.DataFrame:
    """The runs on a task's official files, else on those of most runs.

    Runs in folds have an identity of their own; those with as many texts stay.
    """
    folded = runs.record.map(lambda record: bool(record["folds"]))
    whole = runs if folded.all() else runs[~folded]
    chosen = max(
        (members for _, members in whole.groupby("data_identity")),
        key=lambda members: (
            not unlike_sizes(members.sizes, official),
            len(members),
        ),
    )
    tested = chosen.sizes.iloc[0].get("test", 0)
    alike = runs.sizes.map(
        lambda sizes: abs(sizes.get("test", 0) - tested) <= SIZES_ALIKE * tested
    )
    return runs[runs.index.isin(chosen.index) | (folded & alike)]


def _find_problem(claim: Claim, comparisons: Sequence[Comparison]) -> str:
    """Why nothing can be told of what was run, or an empty string."""
    if any(map(_mixes_folds, comparisons)):
        return MIXED
    if {*measures.UNTIL_STOP} & {*claim.measure}:
        for comparison in comparisons:
            if any(map(_is_cut_off, comparison.sides)):
                return (
                    "the limit of epochs cut off the time to the stopping "
                    f"point on {comparison.task}"
                )
    for comparison in comparisons:
        for name, side, cell in zip(
            claim.measure, comparison.sides, comparison.cells
        ):
            is_timed = name in measures.TIMES
            if not is_timed and FEWEST_SEEDS <= len(cell.values) < len(side):
                return (
                    f"{measures.describe(name)} is not known of all runs on "
                    f"{comparison.task}"
                )
    least = min(comparisons, key=lambda c: c.fewest, default=None)
    if least is not None and least.fewest < FEWEST_SEEDS:
        runs = "1 run" if least.fewest == 1 else f"{least.fewest} runs"
        were = ""
        if {*measures.TIMES} & {*claim.measure} and all(
            len(side) >= FEWEST_SEEDS for side in least.sides
        ):
            were = " timed in an environment that both share"
        return (
            f"{runs} on a side on {least.task}{were}; {FEWEST_SEEDS} are needed"
        )
    if {*measures.DURATIONS} & {*claim.measure}:
        for comparison in comparisons:
            if not all(cell.in_turn for cell in comparison.cells):
                return (
                    f"the runs on {comparison.task} are not known to have been "
                    "timed in turn"
                )
    return ""


def _is_cut_off(side: pd.DataFrame) -> bool:
    """Whether a run that stops by itself was ended by `--max_epochs`."""
    return any(
        settings.get("patience") and reason == "max_epochs"
        for settings, reason in zip(side.settings, side.stop_reason)
    )


def _find_incomparable(
    claim: Claim, comparisons: Sequence[Comparison]
) -> Iterator[str]:
    """Why a comparison is none, apart from settings: collapse, known data."""
    for comparison in comparisons:
        for name, side in zip(("first", "second"), comparison.sides):
            if name not in claim.may_fail and did_not_train(side):
                yield (
                    f"{side.approach.iloc[0]} at {side.lr.iloc[0]:g} "
                    f"is {FAILED} on {comparison.task}"
                )
        if _mixes_folds(comparison):
            yield f"on {comparison.task}, {MIXED}"
        texts = {cell.texts for cell in comparison.cells} - {None}
        if len(texts) > 1:
            yield f"on {comparison.task}, the sides were scored on other texts"
    seen = {
        (model, task)
        for comparison in comparisons
        for side in comparison.sides
        for model in set(side.model)
        for task in claim.uses or (comparison.task,)
        if _has_seen(model, task, side)
    }
    for model, task in sorted(seen):
        yield f"{model} has seen {task} before"


def _mixes_folds(comparison: Comparison) -> bool:
    """Whether one side was tested in folds, and the other was not."""
    return len({bool(s.record.iloc[0]["folds"]) for s in comparison.sides}) > 1


def _has_seen(model: str, task: str, side: pd.DataFrame) -> bool:
    """Whether an encoder knows a task's data; `pairs` may be of MRPC's."""
    if task == "pairs" and side.data_identity.str.startswith("MRPC").all():
        return False
    return task in SEEN.get(model, ())


def did_not_train(side: pd.DataFrame) -> bool:
    """Whether a side is not shown to be above the majority baseline.

    That is a one-sided test at 5 %, over the seeds and the test texts; where no
    predictions are stored, with the variance over texts of a model that has
    learned nothing. Where half of the runs or more score no more than the
    baseline, or give one answer, no test is made.
    """
    score, majority = side.score.to_numpy(), float(side.majority.mean())
    failed = (score <= side.majority + 1e-9) | side.one_answer.to_numpy(bool)
    if failed.mean() >= 0.5:
        return True
    if math.isnan(majority):
        return False
    errors = [record.get("lead_error") for record in side.record]
    if None in errors:
        count = count_texts(side)
        share = np.clip(majority / 100, 1 / count, 1 - 1 / count)
        is_correlation = side.metric.iloc[0] in CORRELATIONS
        texts = 1e4 * (1 if is_correlation else share * (1 - share)) / count
    else:
        texts = float(np.mean(np.square(errors)))
    seeds = Cell(score).variance.variance / len(score)
    total = seeds + texts
    freedom = math.inf
    if seeds:
        freedom = (len(score) - 1) * (total / seeds) ** 2
    above = estimates.Estimate(
        score.mean() - majority, math.sqrt(total), freedom
    )
    return above.error > 0 and above.p_above() > ALPHA


def count_texts(side: pd.DataFrame) -> int:
    """Texts that the runs of a side are scored on, of all folds together."""
    first = side.record.iloc[0]
    kind = "validation" if first["test"] is None else "test"
    return max(first["sizes"].get(kind, 0), 1) * len(first["folds"] or [0])


# === Tests ===


def _takes_logarithms(claim: Claim) -> bool:
    """Whether it is about a ratio of times."""
    return claim.relative and {*claim.measure} <= {*measures.DURATIONS}


def _to_percent(value: float) -> float:
    """The change in percent that a difference of logarithms is."""
    return 100 * math.expm1(value)


def _to_logarithm(percent: float) -> float:
    return math.log1p(percent / 100)


def _test(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """The verdict with value, interval, p and what it would conclude."""
    if claim.kind == "spread":
        return _test_spread(claim, comparisons, verdict)
    if claim.kind == "maximum":
        return _describe_maximum(comparisons, verdict)
    joined = _join_times(comparisons)
    if not all(_is_known(claim, comparison) for comparison in joined):
        return verdict
    if claim.kind == "trend":
        return _test_trend(claim, comparisons, verdict)
    show = _to_percent if _takes_logarithms(claim) else float
    contrasts = [_contrast(claim, comparison) for comparison in comparisons]
    estimate = estimates.mean(
        [_contrast(claim, comparison) for comparison in joined]
    ).estimate()
    low, high = map(show, estimate.interval())
    verdict = dataclasses.replace(
        verdict,
        value=show(estimate.value),
        low=low,
        high=high,
        variance=estimate.parts,
    )
    if not estimate.error:
        return dataclasses.replace(
            verdict, reason="all seeds score the same", outcome=""
        )
    if claim.over == "mean":
        return _conclude_on_mean(claim, estimate, verdict)
    parts = [contrast.estimate() for contrast in contrasts]
    return _conclude_on_parts(claim, comparisons, parts, verdict)


def _join_times(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Those at several times of the same runs as one, of each run's mean.

    A run's scores at several times share its luck.
    """
    by_runs: dict[Any, list[Comparison]] = {}
    for comparison in comparisons:
        names = tuple(tuple(side.path) for side in comparison.sides)
        by_runs.setdefault((comparison.task, names), []).append(comparison)
    known: dict[tuple[Cell, ...], Cell] = {}

    def join(of_side: tuple[Cell, ...]) -> Cell:
        if of_side not in known:  # a side of several is the same cell
            values = np.mean([cell.values for cell in of_side], axis=0)
            known[of_side] = dataclasses.replace(of_side[0], values=values)
        return known[of_side]

    return [
        dataclasses.replace(
            several[0], cells=tuple(map(join, zip(*(c.cells for c in several))))
        )
        if len({tuple(map(_count, c.cells)) for c in several}) == 1
        else several[0]
        for several in by_runs.values()
    ]


def _count(cell: Cell) -> int:
    return len(cell.values)


def _is_known(claim: Claim, comparison: Comparison) -> bool:
    """Whether there are two values of each side, and no share of nothing."""
    if comparison.fewest < 2:
        return False
    if not claim.relative or _takes_logarithms(claim):
        return True
    whole = Contrast.of(comparison.cells[-1]).estimate()
    return whole.value > 0 and (not whole.error or whole.p_above() <= ALPHA)


def _contrast(claim: Claim, comparison: Comparison) -> Contrast:
    """What a claim is about on one task."""
    first, *others = map(Contrast.of, comparison.cells)
    if not others:
        return first
    [second] = others
    if _takes_logarithms(claim):
        return first - second + -math.log(claim.factor)
    if claim.relative:
        return (first / second * (1 / claim.factor) + -1) * 100
    return first - second * claim.factor


def _margin_of(claim: Claim) -> tuple[float, float]:
    """What counts as no difference, on the scale of the contrast."""
    if _takes_logarithms(claim):
        return _to_logarithm(-claim.margin), _to_logarithm(claim.margin)
    return -claim.margin, claim.margin


def _train_size(comparison: Comparison) -> int:
    sizes = comparison.sides[0].sizes.iloc[0]
    return size_of(sizes, "train_and_validation")


def _test_trend(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """A line through the tasks, per tenfold training set, with n - 2 degrees.

    The tasks differ in more than their size: only how far they lie from the
    line says how well it is known.
    """
    by_task: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        by_task.setdefault(comparison.task, []).append(comparison)
    sizes = [_train_size(of_task[0]) for of_task in by_task.values()]
    if len({*sizes}) < FEWEST_POINTS:
        return dataclasses.replace(
            verdict,
            reason=f"{len({*sizes})} sizes of training sets; "
            f"{FEWEST_POINTS} are needed",
        )
    values = [
        np.mean([_contrast(claim, one).value for one in of_task])
        for of_task in by_task.values()
    ]
    line = scipy.stats.linregress(np.log10(sizes), values)
    estimate = estimates.Estimate(
        float(line.slope), float(line.stderr), len(sizes) - 2
    )
    low, high = estimate.interval()
    verdict = dataclasses.replace(
        verdict, value=estimate.value, low=low, high=high
    )
    return dataclasses.replace(
        _conclude_on_mean(claim, estimate, verdict),
        needed=f"{len(sizes)} tasks do not decide it, nor would more seeds",
    )


def _conclude_on_mean(
    claim: Claim, estimate: estimates.Estimate, verdict: Verdict
) -> Verdict:
    value = estimate.value
    if claim.kind == "equal":
        bounds = _margin_of(claim)
        within, outside = (
            estimate.p_within(*bounds),
            estimate.p_outside(*bounds),
        )
        p, outcome = min((within, AGREES), (outside, CONTRADICTS))
        words = f"within {claim.margin:g} {claim.unit}"
        return dataclasses.replace(
            verdict,
            p=p,
            outcome=outcome,
            reason=words if outcome == AGREES else f"not {words}",
            estimate=estimate,
            room=min(abs(value - bound) for bound in bounds),
        )
    direction = claim.direction
    p = min(1.0, 2 * min(estimate.p_above(), estimate.p_below()))
    has_sign = np.sign(value) == direction
    outcome = AGREES if has_sign else CONTRADICTS
    reason = "the same sign" if has_sign else "the other sign"
    if claim.published and has_sign:
        outcome, reason = _judge_size(
            (verdict.low, verdict.high), claim.published
        )
    half = claim.published / 2
    if half and _takes_logarithms(claim):
        half = _to_logarithm(half)
    below = estimate.p_below if direction > 0 else estimate.p_above
    return dataclasses.replace(
        verdict,
        p=p,
        outcome=outcome,
        reason=reason,
        p_of_half=min(1.0, 2 * below(half)) if half else math.nan,
        estimate=estimate,
        room=abs(value),
    )


def _judge_size(
    interval: tuple[float, float], published: float
) -> tuple[str, str]:
    """(what a difference of the claimed sign comes to, why)."""
    sign = math.copysign(1.0, published)
    near, far = sorted(sign * end for end in interval)
    size = abs(published)
    if size / 2 <= near and far <= 2 * size:
        return AGREES, "sign and size"
    if far < size / 2:
        return IN_SIGN, "but less than half as large as published"
    if near > 2 * size:
        return IN_SIGN, "but more than twice as large as published"
    return IN_SIGN, "the size is open"


def _describe_needed(verdict: Verdict, level: float) -> str:
    """About how many seeds would decide a claim, a clause.

    Args:
        verdict: on it.
        level: of the interval that decides.
    """
    if verdict.estimate is None or verdict.needed:
        return verdict.needed
    seeds = verdict.estimate.seeds_needed(verdict.room, verdict.runs, level)
    if seeds is not None:
        return f"about {seeds} seeds would decide"
    if "seeds" in verdict.estimate.parts:
        return f"{estimates.REALISTIC} seeds would not decide it"
    return "more seeds would not decide it"


def _conclude_on_parts(
    claim: Claim,
    comparisons: Sequence[Comparison],
    parts: Sequence[estimates.Estimate],
    verdict: Verdict,
) -> Verdict:
    """Of each, most or some of several comparisons; told which do not agree."""
    if claim.kind == "equal":
        low, high = _margin_of(claim)
        right = [part.p_within(low, high) for part in parts]
        wrong = [part.p_outside(low, high) for part in parts]
        agree = [low <= part.value <= high for part in parts]
        word = f"within {claim.margin:g} {claim.unit}"
    else:
        right = [_p_of_sign(part, claim.direction) for part in parts]
        wrong = [_p_of_sign(part, -claim.direction) for part in parts]
        agree = [np.sign(part.value) == claim.direction for part in parts]
        word = "higher" if claim.direction > 0 else "lower"
    names = [_name_part(claim, comparison) for comparison in comparisons]
    others = [name for name, is_so in zip(names, agree) if not is_so]
    reason = f"{sum(agree)} of {len(parts)} {word}"
    if others:
        reason += f", not {_list_some(others)}"
    verdict = _conclude_on_several(claim, right, wrong, verdict)
    if verdict.outcome == AGREES and claim.published:
        show = _to_percent if _takes_logarithms(claim) else float
        unlike = [
            name
            for name, part in zip(names, parts)
            if _judge_size(
                (show(part.interval()[0]), show(part.interval()[1])),
                claim.published,
            )[0]
            != AGREES
        ]
        if len(unlike) > len(parts) - _count_needed(claim, len(parts)):
            reason += f", not shown of the size: {_list_some(unlike)}"
            verdict = dataclasses.replace(verdict, outcome=IN_SIGN)
    return dataclasses.replace(verdict, reason=reason, parts=reason)


def _count_needed(claim: Claim, count: int) -> int:
    """Of how many of several a claim has to hold."""
    return {"most": count // 2 + 1, "some": 1}.get(claim.over, count)


def _conclude_on_several(
    claim: Claim,
    right: Sequence[float],
    wrong: Sequence[float],
    verdict: Verdict,
) -> Verdict:
    """By partial conjunction.

    Args:
        claim: `over` says of how many.
        right, wrong: p-values for what it says and against it, of each.
        verdict: to be completed.
    """
    needed = _count_needed(claim, len(right))
    refuted = len(right) - needed + 1  # so many on the other side refute it
    p, outcome = min(
        (estimates.partial_conjunction(right, needed), AGREES),
        (estimates.partial_conjunction(wrong, refuted), CONTRADICTS),
    )
    return dataclasses.replace(verdict, p=p, outcome=outcome)


def _list_some(names: Sequence[str], most: int = 4) -> str:
    """The first few of some names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _p_of_sign(part: estimates.Estimate, sign: int) -> float:
    """Two-sided p-value where the sign is this one, else 1."""
    p = part.p_above() if sign > 0 else part.p_below()
    return min(1.0, 2 * p)


def _name_part(claim: Claim, comparison: Comparison) -> str:
    """`last_4 on rte at 1.1`, of which what all parts share is left out."""
    name = comparison.task
    if len(claim.first) > 1:
        name = f"{comparison.sides[0].approach.iloc[0]} on {name}"
    if len(claim.at) > 1:
        name += f" at {comparison.at:g} epochs"
    if len(claim.second) > 1 and not claim.paired:
        group = comparison.groups[1].items()
        other = {n: v for n, v in group if n not in claim.both}
        name += f" against {describe(other)}"
    return name


def _tell_beside(
    claim: Claim,
    comparisons: Sequence[Comparison],
    verdict: Verdict,
    cells: measures.Cells,
) -> Verdict:
    """The verdict with the value by the claim's other measure."""
    plain = dataclasses.replace(claim, measure=(claim.beside, claim.beside))
    logarithms = _takes_logarithms(plain)
    others = [
        dataclasses.replace(
            comparison,
            cells=cells.measure(
                (claim.beside,) * len(comparison.sides),
                comparison.sides,
                comparison.at,
                logarithms,
            ),
        )
        for comparison in comparisons
    ]
    if not all(_is_known(plain, other) for other in others):
        return verdict
    value = estimates.mean([_contrast(plain, other) for other in others]).value
    return dataclasses.replace(
        verdict, beside=_to_percent(value) if logarithms else value
    )


def _test_spread(
    claim: Claim, comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """A bound for the standard deviation on each task, pooled over approaches.

    The value is the largest of a task, with its own interval.
    """
    by_task: dict[str, list[np.ndarray]] = {}
    for comparison in comparisons:
        of_task = by_task.setdefault(comparison.task, [])
        of_task += [cell.values for cell in comparison.cells]
    right, wrong, bounds, beyond = [], [], [], []
    chi2, tail = scipy.stats.chi2, (1 - estimates.LEVEL) / 2
    for task, groups in by_task.items():
        pool = estimates.pool(groups)
        squares = pool.variance * pool.freedom
        ratio = squares / claim.margin**2
        right.append(min(1.0, 2 * float(chi2.cdf(ratio, pool.freedom))))
        wrong.append(min(1.0, 2 * float(chi2.sf(ratio, pool.freedom))))
        bounds.append(
            [math.sqrt(pool.variance)]
            + [
                math.sqrt(squares / chi2.ppf(share, pool.freedom))
                for share in (1 - tail, tail)
            ]
        )
        if pool.variance > claim.margin**2:
            beyond.append(f"{task} {bounds[-1][0]:.2f}")
    value, low, high = max(bounds)
    verdict = dataclasses.replace(verdict, value=value, low=low, high=high)
    if not min(bounds)[0]:
        return dataclasses.replace(verdict, reason="all seeds score the same")
    reason = f"at most {claim.margin:g} {claim.unit} on each task"
    if beyond:
        reason = f"more than {claim.margin:g} {claim.unit}: "
        reason += _list_some(beyond)
    return dataclasses.replace(
        _conclude_on_several(claim, right, wrong, verdict), reason=reason
    )


def _describe_maximum(
    comparisons: Sequence[Comparison], verdict: Verdict
) -> Verdict:
    """Of one comparison: maxima are described, not tested."""
    [comparison] = comparisons
    first, second = (float(cell.values.max()) for cell in comparison.cells)
    return dataclasses.replace(
        verdict,
        value=first - second,
        reason="a maximum grows with the number of runs: it is described",
    )


def count_words(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many verdicts have each word, those with none left out."""
    counts = pd.Series([v.word for v in verdicts]).value_counts()
    return {word: int(counts[word]) for word in WORDS if word in counts}
