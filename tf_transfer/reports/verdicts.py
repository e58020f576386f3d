"""Judges the papers' claims by runs.

A verdict has one of five words, with its reason:

- *agrees*, *contradicts*: what the runs show, at the paper's own settings, data
  and encoder. A difference must be significant at 5 % after Holm's correction
  over the paper's claims; "no difference" needs two one-sided tests within the
  margin. Where the paper gives the size of a difference, the 95 % interval must
  lie within half to twice of it; else it *agrees in sign*, or, if it excludes
  half of it and has both signs, *contradicts*.
- *inconclusive*: nothing is shown, or something is missing: three seeds, a
  task, a rate, a time that the limit of epochs did not cut off. The reason
  says about how many seeds would decide.
- *not comparable*: something outside the claim is not the paper's, the encoder
  has seen the data before, or a group is not shown to be above the majority
  baseline. The same statistics describe this encoder and data, corrected
  over all such claims of a report.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    choose,
    estimates,
    frames,
    infer,
    measures,
    wording,
)
from tf_transfer.reports.claims import (
    Claim,
    list_differences,
    list_size_differences,
    Paper,
    Settings,
    SIZE_TOLERANCE,
)
from tf_transfer.reports.estimates import Cell
from tf_transfer.reports.infer import (
    ALPHA,
    Comparison,
    CONTRADICTS,
    FAILED,
    FEWEST_SEEDS,
    INCONCLUSIVE,
    NOT_COMPARABLE,
    Verdict,
)

MIXED = "folds stand against one test set"
CORRELATIONS = ("matthews", "pearson", "spearman")  # 0 without any learning
# Tasks whose data an encoder was trained on before: Quora's questions, both NLI
# sets, and SQuAD, from which QNLI is made.
SEEN = {"minilm": ("qqp", "paraphrase", "pairs", "mnli", "qnli")}


def judge(runs: pd.DataFrame, paper: Paper) -> list[Verdict]:
    """A verdict on each claim by each study that has runs for it.

    Holm's correction is over all that could be tested, of all studies; of those
    that are not comparable, see `correct_for_many` with `are_local`. Claims
    that no study has runs for have one verdict, without a study, which names
    what is missing.

    Args:
        runs: of the paper's experiment, see `frames.runs_frame`.
        paper: its claims.
    """
    studies = [
        (study, split_tasks(members, paper))
        for study, members in frames.studies(runs)
    ]
    cases = [
        (tasks, claim, study)
        for study, tasks in studies
        for claim in paper.claims
        if not claim.encoders
    ]
    # Claims on several encoders are shown with the largest study. A baseline
    # has no encoder.
    of_all = {
        f"{task} with {max(of_task[0].model)}": of_task
        for _, tasks in reversed(studies)
        for task, of_task in tasks.items()
    }
    cases += [
        (of_all, claim, study)
        for study, _ in studies[:1]
        for claim in paper.claims
        if claim.encoders
    ]
    of_cases = (
        judge_claim(of, paper, claim, study) for of, claim, study in cases
    )
    judged = [*filter(None, of_cases)]
    verdicts = correct_for_many([v for v in judged if v.study])
    reasons = {v.claim.id: v for v in reversed(judged)}
    seen = {verdict.claim.id for verdict in verdicts}
    return verdicts + [
        reasons.get(
            claim.id, Verdict(claim, "", INCONCLUSIVE, "no runs of its encoder")
        )
        for claim in paper.claims
        if claim.id not in seen
    ]


def correct_for_many(
    verdicts: Sequence[Verdict], are_local: bool = False
) -> list[Verdict]:
    """The verdicts after Holm's correction over those with a test.

    Readings that are judged first are one family, other readings another.

    Args:
        verdicts: on a paper's claims; of a report, where they are local.
        are_local: whether those that are not comparable are corrected, in place
            of those that are.
    """
    members = [
        bool(v.outcome) and (v.word == NOT_COMPARABLE) == are_local
        for v in verdicts
    ]
    factors: dict[tuple[str, float], float] = {}
    for is_other in (False, True):
        # The sign of a difference and a size below half of the published one
        # are never both false: they need no correction for each other.
        # Baselines that stand in several studies are judged once.
        least = {
            (v.claim.id, v.p): np.fmin(v.p, v.p_of_half)
            for v in itertools.compress(verdicts, members)
            if bool(v.claim.reading_of) == is_other
        }
        adjusted = estimates.adjust_for_many([*least.values()])
        factors |= {
            key: p / before if before else 1.0
            for (key, before), p in zip(least.items(), adjusted)
        }
    return [
        _conclude(v, factors[v.claim.id, v.p]) if is_member else v
        for v, is_member in zip(verdicts, members)
    ]


def _conclude(verdict: Verdict, factor: float) -> Verdict:
    """The verdict with its p-value times the factor of Holm's correction."""
    p, p_of_half = min(1.0, verdict.p * factor), verdict.p_of_half * factor
    if verdict.word == NOT_COMPARABLE:
        return dataclasses.replace(verdict, p=p)
    if p <= ALPHA:
        return dataclasses.replace(verdict, word=verdict.outcome, p=p)
    if p_of_half <= ALPHA:
        reason = "any difference is below half of the published one"
        return dataclasses.replace(
            verdict, word=CONTRADICTS, reason=reason, p=p_of_half
        )
    reason = (
        "not significant after Holm's correction"
        if verdict.p <= ALPHA
        else "nothing is shown"
    )
    needed = verdict.needed(ALPHA / max(factor, 1.0))
    reason = "; ".join(filter(None, [reason, verdict.tally, needed]))
    return dataclasses.replace(verdict, word=INCONCLUSIVE, reason=reason, p=p)


TaskRuns = tuple[pd.DataFrame, list[choose.Group]]


def split_tasks(runs: pd.DataFrame, paper: Paper) -> dict[str, TaskRuns]:
    """A study's runs by task, with their `choose.list_groups`.

    Of a task that was run on several files, the runs on those that count.
    """
    tasks = {}
    for task, members in runs.groupby("task"):
        if members.data_identity.nunique() > 1:
            members = _choose_files(members, paper.sizes.get(str(task)))
        tasks[str(task)] = members, choose.list_groups(members)
    return tasks


def judge_claim(
    tasks: Mapping[str, TaskRuns], paper: Paper, claim: Claim, study: str
) -> Verdict | None:
    """The verdict of a study on a claim; None if its runs are not for it.

    The word is not yet corrected for other claims.

    Args:
        tasks: see `split_tasks`.
        paper: whose claim it is.
        claim: what is judged.
        study: its name, which the verdict has if there are runs to compare.
    """
    models = {model for runs, _ in tasks.values() for model in runs.model}
    # Another encoder of the paper is judged by runs of it alone; the paper's
    # first encoder also by runs of encoders that the paper does not have.
    is_other = bool(claim.encoder) and claim.encoder not in models
    if is_other and (
        models & {*paper.encoders} or claim.encoder != paper.encoders[0]
    ):
        return None
    complete, incomplete, missing = _compare(tasks, paper, claim)
    comparisons = complete or incomplete
    problem = _find_problem(claim, complete) if complete else missing[0]
    fewest = min((c.fewest for c in complete), default=0)
    on = tuple({c.task: None for c in complete})
    verdict = Verdict(
        claim,
        study if comparisons else "",
        INCONCLUSIVE,
        problem,
        runs=fewest,
        tasks=on if len(on) < len(claim.tasks) else (),
        blocks=_describe_blocks(comparisons),
        problem=problem,
    )
    differences = [*_find_incomparable(claim, comparisons)]
    for comparison in comparisons:
        for runs, settings in zip(comparison.runs, comparison.settings):
            differences += list_differences(
                runs, paper, settings, claim.encoder
            )
    if fewest > 1:
        # What is not comparable has no published size.
        tested = claim
        if differences:
            tested = dataclasses.replace(
                claim, published=0.0, sign=claim.direction
            )
        verdict = infer.test_claim(tested, complete, verdict)
    if problem or (missing and not differences):
        reason = wording.list_first(missing or [problem], ", ", 1)
        verdict = dataclasses.replace(
            verdict, word=INCONCLUSIVE, reason=reason, outcome=""
        )
    if differences:
        reason = wording.list_first([*dict.fromkeys(differences)], most=3)
        verdict = dataclasses.replace(
            verdict, word=NOT_COMPARABLE, reason=reason
        )
    return verdict


def _describe_blocks(comparisons: Sequence[Comparison]) -> str:
    """`2 of 6 blocks`, if a claim is about a share of them."""
    shares = []
    for comparison in comparisons:
        for runs, settings in zip(comparison.runs, comparison.settings):
            layers = str(settings.get("trainable_layers"))
            if layers.startswith("L/"):
                blocks = int(runs.blocks.max())
                trained = choose.resolve(layers, blocks)
                shares.append(f"{trained} of {blocks} blocks")
    return " and ".join(dict.fromkeys(shares))


def _compare(
    tasks: Mapping[str, TaskRuns], paper: Paper, claim: Claim
) -> tuple[list[Comparison], list[Comparison], list[str]]:
    """The comparisons of a claim.

    Returns:
        Those on tasks that have runs for all that the claim compares there;
        those on the other tasks, which count for nothing; and what has no runs,
        in words.
    """
    cells = measures.Cells()
    complete: list[Comparison] = []
    incomplete: list[Comparison] = []
    missing = [
        f"no runs on {task}" for task in claim.tasks if task not in tasks
    ]
    for task in filter(tasks.__contains__, claim.tasks):
        comparisons: list[Comparison] = []
        lacks: list[str] = []
        for pair in _pairs(claim):
            wanted = tuple({**claim.both, **group} for group in pair)
            try:
                comparisons += _compare_pair(
                    task, tasks[task], paper, claim, wanted, cells
                )
            except choose.NotFound as error:
                lacks.append(f"{error} on {task}")
        if lacks:
            incomplete += comparisons
        else:
            complete += comparisons
        missing += lacks
    return complete, incomplete, missing


def _compare_pair(
    task: str,
    runs_and_groups: TaskRuns,
    paper: Paper,
    claim: Claim,
    wanted: tuple[Settings, ...],
    cells: measures.Cells,
) -> Iterator[Comparison]:
    """Compares the groups with some settings on a task, at each of the times.

    Raises:
        NotFound: there are no such runs.
    """
    runs, groups = runs_and_groups
    chosen = choose.choose_groups(groups, paper, wanted, claim.unshared)
    peers = tuple(
        choose.take_rows(runs, members)
        for members in choose.list_peers(groups, chosen)
    )
    logarithms = infer.takes_logarithms(claim)
    compared = peers[: len(chosen)]
    for at in claim.at or (0.0,):
        measured = cells.measure(claim.measure, compared, at, logarithms, peers)
        yield Comparison(task, compared, wanted, measured, at)


def _pairs(claim: Claim) -> Iterable[tuple[Settings, ...]]:
    """The groups that are compared; see `Claim`."""
    if claim.paired:
        return zip(claim.first, claim.second, strict=True)
    if not claim.second:
        return ((group,) for group in claim.first)
    return itertools.product(claim.first, claim.second)


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
            not list_size_differences(members.sizes, official),
            len(members),
        ),
    )
    tested = chosen.sizes.iloc[0].get("test", 0)
    has_size = runs.sizes.map(
        lambda sizes: (
            abs(sizes.get("test", 0) - tested) <= SIZE_TOLERANCE * tested
        )
    )
    return runs[runs.index.isin(chosen.index) | (folded & has_size)]


def _find_problem(claim: Claim, comparisons: Sequence[Comparison]) -> str:
    """Why these runs decide nothing, or an empty string."""
    asked = {*claim.measure}
    for one in sorted(comparisons, key=lambda c: c.fewest):
        if _mixes_folds(one):
            return MIXED
        if asked & {*measures.UNTIL_STOP} and any(
            map(measures.is_cut_off, one.runs)
        ):
            return (
                "the limit of epochs came before the stopping point on "
                f"{one.task}"
            )
        for name, runs, cell in zip(claim.measure, one.runs, one.cells):
            if name not in measures.TIMES and (
                FEWEST_SEEDS <= len(cell.values) < len(runs)
            ):
                return (
                    f"{measures.describe(name)} is not known of all runs on "
                    f"{one.task}"
                )
        if one.fewest < FEWEST_SEEDS:
            is_timed_apart = bool(asked & {*measures.TIMES}) and all(
                len(runs) >= FEWEST_SEEDS for runs in one.runs
            )
            runs_there = f"{wording.count(one.fewest, 'run')} in a group"
            where = f"on {one.task}"
            if is_timed_apart:
                where += " timed in an environment that both share"
            return f"{runs_there} {where}; {FEWEST_SEEDS} are needed"
        if asked & {*measures.DURATIONS} and not all(
            cell.in_turn for cell in one.cells
        ):
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
        for name, runs in zip(("first", "second"), comparison.runs):
            if name not in claim.may_fail and did_not_train(runs):
                approach, lr = runs.approach.iloc[0], runs.lr.iloc[0]
                yield f"{approach} at {lr:g} is {FAILED} on {comparison.task}"
        if _mixes_folds(comparison):
            yield f"on {comparison.task}, {MIXED}"
        texts = {cell.texts for cell in comparison.cells} - {None}
        if len(texts) > 1:
            yield (
                f"on {comparison.task}, the groups were scored on different "
                "texts"
            )
    seen = {
        (model, task)
        for comparison in comparisons
        for runs in comparison.runs
        for model in set(runs.model)
        for task in claim.uses or (comparison.task,)
        if _has_seen(model, task, runs)
    }
    for model, task in sorted(seen):
        yield f"{model} has seen {task} before"


def _mixes_folds(comparison: Comparison) -> bool:
    """Whether one group was tested in folds and the other was not."""
    return len({bool(s.record.iloc[0]["folds"]) for s in comparison.runs}) > 1


def _has_seen(model: str, task: str, runs: pd.DataFrame) -> bool:
    """Whether an encoder has seen a task's data; `pairs` may be MRPC's."""
    if task == "pairs" and runs.data_identity.str.startswith("MRPC").all():
        return False
    return task in SEEN.get(model, ())


def did_not_train(runs: pd.DataFrame) -> bool:
    """Whether runs are not shown to be above the majority baseline.

    That is a one-sided test at 5 %, over the seeds and the test texts; where no
    predictions are stored, with the variance over texts of a model that has
    learned nothing. Where half of the runs or more score no more than the
    baseline, or give one answer, no test is made.
    """
    score, majority = runs.score.to_numpy(), float(runs.majority.mean())
    failed = (score <= runs.majority + 1e-9) | runs.one_answer.to_numpy(bool)
    if failed.mean() >= 0.5:
        return True
    if math.isnan(majority):
        return False
    errors = [record.get("lead_error") for record in runs.record]
    if None in errors:
        count = count_texts(runs)
        share = np.clip(majority / 100, 1 / count, 1 - 1 / count)
        is_correlation = runs.metric.iloc[0] in CORRELATIONS
        texts = 1e4 * (1 if is_correlation else share * (1 - share)) / count
    else:
        texts = float(np.mean(np.square(errors)))
    seeds = Cell(score).variance.variance / len(score)
    total, freedom = seeds + texts, math.inf
    if seeds:
        freedom = (len(score) - 1) * (total / seeds) ** 2
    above = estimates.Estimate(
        score.mean() - majority, math.sqrt(total), freedom
    )
    return above.error > 0 and above.p_above() > ALPHA


def count_texts(runs: pd.DataFrame) -> int:
    """Texts that runs are scored on, of all folds together."""
    first = runs.record.iloc[0]
    kind = "validation" if first["test"] is None else "test"
    return max(first["sizes"].get(kind, 0), 1) * len(first["folds"] or [0])
