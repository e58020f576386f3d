"""The verdicts on the papers' claims, by encoder.

The words are those of the papers' pages: each summary is judged by itself.
"""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from tf_transfer.reports import claims as claims_lib, page, verdicts
from tf_transfer.reports.claims import Claim
from tf_transfer.reports.run_groups import FAILED
from tf_transfer.reports.study import Study
from tf_transfer.reports.verdicts import Verdict

AS_CLAIMED, OPPOSITE, UNCLEAR = "as claimed", "the opposite", "unclear"
NO_RESULT = "no result"
OUTCOMES = (AS_CLAIMED, OPPOSITE, UNCLEAR)


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of a paper on how much must be trained.

    Attributes:
        paper: Its experiment, such as `glue`.
        quote: Its words.
        source: The section of the paper.
        claims: The ids of the claims that judge it.
    """

    paper: str
    quote: str
    source: str
    claims: Sequence[str]


def read_statements(path: str) -> list[Statement]:
    """The statements in a TOML file.

    Raises:
        UserError: The file cannot be read.
    """
    content = claims_lib.read_content(path)
    return [Statement(**entry) for entry in content["statement"]]


# === One verdict ===


def find_outcome(verdict: Verdict) -> str:
    """One of `OUTCOMES`, or `NO_RESULT`.

    Runs of another encoder or data than the paper's count as well.
    """
    if not verdict.study:
        return NO_RESULT
    if verdict.word != verdicts.NOT_COMPARABLE:
        words = {
            verdicts.AGREES: AS_CLAIMED,
            verdicts.CONTRADICTS: OPPOSITE,
        }
        return words.get(verdict.word, UNCLEAR)
    if not verdict.is_reported:
        return NO_RESULT
    word = verdict.local.partition(":")[0]
    if word == "unclear":
        return UNCLEAR
    if word in ("higher", "lower"):
        return _compare_signs(verdict.claim, word)
    return OPPOSITE if word.startswith("the opposite") else AS_CLAIMED


def _compare_signs(claim: Claim, word: str) -> str:
    """The outcome of a difference that is shown to be higher or lower."""
    if claim.kind == "equal":
        return OPPOSITE
    is_claimed = claim.direction == (1 if word == "higher" else -1)
    return AS_CLAIMED if is_claimed else OPPOSITE


def describe_outcome(verdict: Verdict) -> str:
    """The outcome of a verdict with its value, or why it has none."""
    outcome = find_outcome(verdict)
    if outcome != NO_RESULT:
        # Comparisons that are judged one by one: how many are as claimed.
        if verdict.claim.over != "mean" and outcome != UNCLEAR:
            tally = verdict.local.partition(": ")[2] or verdict.reason
            outcome += f" ({tally})"
        return f"{outcome}, here {page.describe_value(verdict)}"
    reason = verdict.local.removeprefix(f"{verdicts.NOT_REPORTED}: ")
    if not verdict.study:
        reason = verdict.reason
    if reason == FAILED:
        reason = f"a group is {FAILED}"
    return f"{NO_RESULT}: {reason}"


# === The verdicts of an encoder ===


def list_encoders(studies: Iterable[Study]) -> list[str]:
    """The encoders that runs of the studies trained."""
    return sorted({study.model for study in studies if study.blocks})


def _list_verdicts(
    studies: Iterable[Study], paper: str, encoder: str
) -> list[Verdict]:
    return [
        verdict
        for study in studies
        if study.experiment == paper and study.model == encoder
        for verdict in study.verdicts
    ]


def describe_claims(
    studies: Sequence[Study], statement: Statement, encoder: str
) -> list[str]:
    """The verdicts on a statement by the runs of an encoder, in words.

    A claim has its own verdicts and those of its other readings. If none has a
    result, one reason is given. Claims with the same verdict share a text.

    Args:
        studies: Of all summaries.
        statement: The statement.
        encoder: The value of `--model`.
    """
    verdicts_here = _list_verdicts(studies, statement.paper, encoder)
    titles = collections.defaultdict(list)
    for name in statement.claims:
        members = [
            verdict
            for verdict in verdicts_here
            if name in (verdict.claim.id, verdict.claim.reading_of)
        ]
        # A claim that has runs in one study may have none in another.
        members.sort(key=lambda v: (find_outcome(v) == NO_RESULT, not v.study))
        results = [v for v in members if find_outcome(v) != NO_RESULT]
        for verdict in results or members[:1]:
            title = f"`{verdict.claim.id}`"
            if results:
                title += f" ({page.describe_published(verdict)})"
            titles[describe_outcome(verdict)].append(title)
    return [f"{', '.join(names)}: {text}" for text, names in titles.items()]


def count_outcomes(
    studies: Sequence[Study], paper: str, encoder: str
) -> tuple[list[int], int]:
    """Counts the verdicts of an encoder's runs by outcome.

    Returns:
        The number of each of `OUTCOMES`, and the number of claims without any.
    """
    # Baselines that belong to several studies are counted once.
    results = {
        (verdict.claim.id, verdict.value): find_outcome(verdict)
        for verdict in _list_verdicts(studies, paper, encoder)
        if find_outcome(verdict) != NO_RESULT
    }
    counts = collections.Counter(results.values())
    judged = {name for name, _ in results}
    claims = {
        claim.id
        for study in studies
        if study.experiment == paper and study.paper is not None
        for claim in study.paper.claims
    }
    return [counts[one] for one in OUTCOMES], len(claims - judged)
