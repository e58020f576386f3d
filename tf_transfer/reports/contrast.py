"""Tests the papers' claims by runs.

The test of a claim by a study is a contrast of the means of its groups, and the
p-values of what the contrast shows. `verdicts` concludes from all tests.
"""

import dataclasses
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from tf_transfer.comparison import estimates
from tf_transfer.comparison.estimates import Cell, Contrast, Estimate
from tf_transfer.comparison.run_record import Settings
from tf_transfer.reports import claims, run_frame as runs_lib, run_groups
from tf_transfer.reports.claims import Claim, Paper
from tf_transfer.reports.run_groups import FAILED
from tf_transfer.utils import formatting

PUBLISHED_SIZE = "about as large as published"
# Tasks whose data an encoder was trained on before: Quora's questions, both NLI
# sets, and SQuAD, from which QNLI is made.
TRAINED_ON = dict.fromkeys(
    ("minilm", "mpnet"), ("qqp", "paraphrase", "pairs", "mnli", "qnli")
)
UNKNOWN = Estimate(math.nan, 0.0, math.nan)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The two groups of a claim on one task.

    Attributes:
        runs: Of the first group and, where there is one, of the second.
        settings: By which each group was found.
        cells: Of each group, see `run_groups.measure`.
        name: `last_4 on rte at 1.1 epochs`.
    """

    task: str
    runs: tuple[pd.DataFrame, ...]
    settings: tuple[Settings, ...]
    cells: tuple[Cell, ...]
    name: str

    @property
    def fewest_runs(self) -> int:
        """Known values of the group that has fewer.

        A group that no seed could change has enough.
        """
        counts = [
            len(cell.values)
            for cell in self.cells
            if cell.is_trained or cell.fold_share or not len(cell.values)
        ]
        return min(counts, default=estimates.FEWEST_SEEDS)


class Finding(NamedTuple):
    """A possible finding on a claim.

    Attributes:
        agrees: Whether it agrees with the claim, or contradicts it.
        reason: A clause.
        p: The p-value of "the runs do not show it".
    """

    agrees: bool
    reason: str
    p: float


@dataclasses.dataclass(frozen=True)
class Test:
    """The test of a claim by a study, before Holm's correction.

    Attributes:
        claim: What is judged.
        paper: Its name.
        study: Of the runs; empty where no comparison has runs.
        problem: Why there is no conclusion, or "".
        differences: What is not comparable, a clause each.
        runs: The fewest of a group on a task.
        tasks: Those that the value covers, if the claim has more.
        mean: Of all comparisons, on the scale of the contrast.
        tally: How many of several comparisons are as claimed.
        findings: None where too few runs are known.
        encoder: The value of `--model`; empty of runs without an encoder.
    """

    claim: Claim
    paper: str
    study: str
    problem: str
    differences: Sequence[str] = ()
    runs: int = 0
    tasks: tuple[str, ...] = ()
    mean: Estimate = UNKNOWN
    tally: str = ""
    findings: Sequence[Finding] = ()
    encoder: str = ""

    @property
    def family(self) -> Hashable:
        """Equal for tests that are corrected together.

        Those of runs that are not comparable are the encoder's, so that runs of
        another encoder do not change them.
        """
        owner = ("encoder", self.encoder)
        if not self.differences:
            owner = ("paper", self.paper)
        return owner, bool(self.claim.reading_of)

    @property
    def p(self) -> float:
        """The smallest p-value of its findings.

        No two of their hypotheses are false together, so that they need no
        correction for each other.
        """
        return min(finding.p for finding in self.findings)


# === The runs of a claim ===


def test_claims(runs: pd.DataFrame, paper: Paper) -> list[Test]:
    """The test of each claim by each study that has runs for it.

    Where no study of an encoder has runs for a claim on it, the encoder has one
    test without a study, which names what is missing. A claim on encoders that
    were not run has one for each that was.

    Args:
        runs: Of the paper's experiment, see `run_frame.runs_frame`.
        paper: Its claims.
    """
    by_encoder = run_groups.group_by(
        runs_lib.studies(runs), lambda named: runs_lib.find_model(named[1])
    )
    split = {
        encoder: [(n, run_groups.split_tasks(members)) for n, members in named]
        for encoder, named in by_encoder.items()
    }
    tests = []
    for claim in paper.claims:
        of_claim = []
        for encoder, studies in split.items():
            judged = [
                dataclasses.replace(
                    test_claim(tasks, paper, claim, study), encoder=encoder
                )
                for study, tasks in studies
                if _is_for(claim, paper, tasks)
            ]
            of_claim += [one for one in judged if one.study] or judged[:1]
        nothing = Test(claim, paper.name, "", "no runs of its encoder")
        tests += of_claim or [
            dataclasses.replace(nothing, encoder=encoder) for encoder in split
        ]
    return tests


def _is_for(claim: Claim, paper: Paper, tasks: run_groups.TaskGroups) -> bool:
    """Whether a study's encoder is that of a claim.

    A claim on the paper's first encoder is also judged by runs of encoders that
    the paper does not have.
    """
    models = {
        group.first.model for members in tasks.values() for group in members
    }
    if not claim.encoder or claim.encoder in models:
        return True
    return claim.encoder == paper.encoders[0] and not models & {*paper.encoders}


def test_claim(
    tasks: run_groups.TaskGroups, paper: Paper, claim: Claim, study: str
) -> Test:
    """The test of a claim by a study.

    Args:
        tasks: See `run_groups.split_tasks`.
        paper: Whose claim it is.
        claim: What is judged.
        study: Its name, which the test has if there are runs to compare.
    """
    comparisons, missing = _compare(tasks, paper, claim)
    differences = [*_find_incomparable(claim, comparisons)]
    for comparison in comparisons:
        for runs, settings in zip(comparison.runs, comparison.settings):
            differences += claims.list_differences(
                runs, paper, settings, claim.encoder
            )
    problem = _find_problem(claim, comparisons)
    if missing and not differences:
        problem = formatting.list_first(missing, ", ", 1)
    mean, tally, findings = UNKNOWN, "", list[Finding]()
    if comparisons and min(one.fewest_runs for one in comparisons) > 1:
        contrasts = [_contrast(claim, one) for one in comparisons]
        mean = estimates.mean(contrasts).estimate()
        single = [mean]
        if claim.over != "mean":
            single = [contrast.estimate() for contrast in contrasts]
        names = [one.name for one in comparisons]
        tally, findings = _list_findings(claim, names, single, not differences)
    if len(claim.at) > 1:
        # The scores of a run at several times share its luck.
        mean = Estimate(mean.value, 0.0, math.nan)
    on = tuple({one.task: None for one in comparisons})
    return Test(
        claim,
        paper.name,
        study if comparisons else "",
        problem,
        [*dict.fromkeys(differences)],
        min((one.fewest_runs for one in comparisons), default=0),
        on if len(on) < len(claim.tasks) else (),
        mean,
        tally,
        findings,
    )


def _compare(
    tasks: run_groups.TaskGroups, paper: Paper, claim: Claim
) -> tuple[list[Comparison], list[str]]:
    """The comparisons of a claim, and what has no runs, in words.

    A task counts if it has runs for all that the claim compares there.
    """
    complete: list[Comparison] = []
    missing = [
        f"no runs on {task}" for task in claim.tasks if task not in tasks
    ]
    for task in filter(tasks.__contains__, claim.tasks):
        comparisons: list[Comparison] = []
        lacks: list[str] = []
        for pair in _pairs(claim):
            wanted = tuple({**claim.both, **group} for group in pair)
            try:
                compared = run_groups.find_groups(tasks[task], paper, wanted)
            except run_groups.NotFound as error:
                lacks.append(f"{error} on {task}")
                continue
            runs = tuple(group.runs for group in compared)
            for at in claim.at or (0.0,):
                cells = run_groups.measure(
                    claim.measure, runs, at, in_logs(claim)
                )
                name = f"{runs[0].approach.iloc[0]} on {task}"
                if at:
                    name += f" at {at:g} epochs"
                comparisons.append(Comparison(task, runs, wanted, cells, name))
        if not lacks:
            complete += comparisons
        missing += lacks
    return complete, missing


def _pairs(claim: Claim) -> Iterable[tuple[Settings, ...]]:
    """The groups that are compared; see `Claim`."""
    if claim.paired:
        return zip(claim.first, claim.second, strict=True)
    if not claim.second:
        return ((group,) for group in claim.first)
    return itertools.product(claim.first, claim.second)


# === What is missing, and what is not comparable ===


def _find_problem(claim: Claim, comparisons: Sequence[Comparison]) -> str:
    """Why these runs decide nothing, or an empty string."""
    measures = {*claim.measure}
    is_time = bool(measures & {*runs_lib.TIMES})
    for one in sorted(comparisons, key=lambda c: c.fewest_runs):
        if len({bool(runs.record.iloc[0].folds) for runs in one.runs}) > 1:
            return f"on {one.task}, folds stand against one test set"
        if measures & {*runs_lib.UNTIL_STOP} and any(
            map(runs_lib.is_cut_off, one.runs)
        ):
            return (
                "the limit of epochs came before the stopping point on "
                f"{one.task}"
            )
        if one.fewest_runs < estimates.FEWEST_SEEDS:
            problem = (
                f"{formatting.count(one.fewest_runs, 'run')} in a group on "
            )
            problem += f"{one.task}; {estimates.FEWEST_SEEDS} are needed"
            return f"{problem}, timed alike" if is_time else problem
        if not is_time and any(
            len(cell.values) < len(runs)
            for cell, runs in zip(one.cells, one.runs)
        ):
            return f"not all runs have a value on {one.task}"
        if measures & {*runs_lib.DURATIONS} and not one.cells[0].in_turn:
            return (
                f"the runs on {one.task} are not known to have been timed in "
                "turn"
            )
    return ""


def _find_incomparable(
    claim: Claim, comparisons: Sequence[Comparison]
) -> Iterator[str]:
    """Why groups cannot be compared, apart from settings, a clause each."""
    for comparison in comparisons:
        for name, measure, runs in zip(
            ("first", "second"), claim.measure, comparison.runs
        ):
            if name not in claim.may_fail and run_groups.did_not_train(
                runs, measure
            ):
                approach, lr = runs.approach.iloc[0], runs.lr.iloc[0]
                yield f"{approach} at {lr:g} is {FAILED} on {comparison.task}"
        texts = {cell.texts for cell in comparison.cells} - {None}
        if len(texts) > 1:
            yield (
                f"on {comparison.task}, the groups were scored on different "
                "texts"
            )
    for comparison in comparisons:
        for runs in comparison.runs:
            for task in claim.uses or (comparison.task,):
                if _has_trained_on(runs, task):
                    yield f"{runs.model.iloc[0]} has seen {task} before"


def _has_trained_on(runs: pd.DataFrame, task: str) -> bool:
    """Whether an encoder has trained on a task; `pairs` may be MRPC's."""
    if task == "pairs" and runs.data_identity.str.startswith("MRPC").all():
        return False
    return task in TRAINED_ON.get(runs.model.iloc[0], ())


# === What the runs show ===


def in_logs(claim: Claim) -> bool:
    """Whether it is about a ratio of times, which is a difference of logs."""
    return claim.relative and set(claim.measure).issubset(runs_lib.DURATIONS)


def show(claim: Claim, value: float) -> float:
    """A value of the contrast on the scale of the claim."""
    return 100 * math.expm1(value) if in_logs(claim) else value


def scale(claim: Claim, value: float) -> float:
    """Reverses `show`."""
    return math.log1p(value / 100) if in_logs(claim) else value


def _contrast(claim: Claim, comparison: Comparison) -> Contrast:
    """The contrast of a claim on one task."""
    first, *others = map(Contrast.of, comparison.cells)
    if not others:
        return first
    [second] = others
    if in_logs(claim):
        return first - second - Contrast(math.log(claim.factor), {})
    if claim.relative:
        return (first / second * (1 / claim.factor) - Contrast(1, {})) * 100
    return first - second * claim.factor


def _list_findings(
    claim: Claim,
    names: Sequence[str],
    single: Sequence[Estimate],
    is_comparable: bool,
) -> tuple[str, list[Finding]]:
    """The tally of several comparisons, and what they may show.

    Args:
        claim: What is judged.
        names: Of the comparisons.
        single: What has to be as claimed: the mean, or each comparison.
        is_comparable: Whether a size below the paper's contradicts it.
    """
    low, high = bounds = region(claim)
    count = len(single)
    sizes = [describe_size(claim, one) for one in single]
    agrees, contradicts, needed, tally = "the sign", "the opposite", count, ""
    within = f"within {claim.margin:g} {claim.unit}"
    if claim.kind == "equal":
        agrees = within
    elif sizes[0]:
        agrees += f"; {sizes[0]}"
    if claim.over != "mean":
        others = [
            name
            for name, one in zip(names, single)
            if not low < one.value < high
        ]
        word = "higher" if claim.direction > 0 else "lower"
        if claim.kind == "equal":
            word = within
        tally = f"{count - len(others)} of {count} {word}"
        if others:
            different = [*dict.fromkeys(others)]
            tally += f", not {formatting.list_first(different, ', ')}"
        if any(sizes):
            tally += f"; {PUBLISHED_SIZE} on {sizes.count(PUBLISHED_SIZE)}"
        agrees = contradicts = tally
        needed = {"most": count // 2 + 1, "some": 1}.get(claim.over, count)
    inside = [one.p_within(*bounds) for one in single]
    outside = [one.p_outside(*bounds) for one in single]
    conjunction = estimates.partial_conjunction
    findings = [
        Finding(True, agrees, conjunction(inside, needed)),
        Finding(False, contradicts, conjunction(outside, count - needed + 1)),
    ]
    if is_comparable and sizes[0] and claim.over == "mean":
        half = scale(claim, claim.published / 2)
        p = single[0].p_within(*sorted((half, -math.copysign(math.inf, half))))
        reason = "any difference is below half of the published one"
        findings.append(Finding(False, reason, p))
    return tally, findings


def region(claim: Claim) -> tuple[float, float]:
    """The open interval of what is claimed, on the scale of the contrast."""
    if claim.kind == "equal":
        return scale(claim, -claim.margin), scale(claim, claim.margin)
    return (0.0, math.inf) if claim.direction > 0 else (-math.inf, 0.0)


def describe_size(claim: Claim, estimate: Estimate) -> str:
    """How large a difference is beside the published one, if there is one.

    It is as large where its interval lies within half to twice of it.
    """
    size = abs(claim.published)
    if claim.kind == "equal" or not size:
        return ""
    near, far = sorted(
        claim.direction * show(claim, end) for end in estimate.interval()
    )
    if size / 2 <= near and far <= 2 * size:
        return PUBLISHED_SIZE
    if far < size / 2:
        return "less than half as large as published"
    if near > 2 * size:
        return "more than twice as large as published"
    return "the size is open"
