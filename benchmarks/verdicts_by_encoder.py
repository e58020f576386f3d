"""The verdicts on the papers' claims, by encoder.

The words are those of the papers' pages: each summary is judged by itself.
"""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from tf_transfer.reports import claims as claims_lib, page
from tf_transfer.reports.study import Study
from tf_transfer.reports.verdicts import (
    NO_RESULT,
    OUTCOMES,
    UNCLEAR,
    Verdict,
)


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


def describe_outcome(verdict: Verdict) -> str:
    """The outcome of a verdict with its value, or why it has none."""
    outcome = verdict.outcome
    if outcome == NO_RESULT:
        return f"{outcome}: {verdict.detail}"
    if outcome != UNCLEAR and verdict.detail:
        outcome += f" ({verdict.detail})"
    return f"{outcome}, here {page.describe_value(verdict)}"


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
        members.sort(key=lambda v: (v.outcome == NO_RESULT, not v.study))
        results = [v for v in members if v.outcome != NO_RESULT]
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
        (verdict.claim.id, verdict.value): verdict.outcome
        for verdict in _list_verdicts(studies, paper, encoder)
        if verdict.outcome != NO_RESULT
    }
    counts = collections.Counter(results.values())
    judged = {name for name, _ in results}
    claims = {
        claim.id
        for study in studies
        if study.experiment == paper and study.paper is not None
        for claim in study.paper.claims
    }
    return [counts[one] for one in OUTCOMES.values()], len(claims - judged)
