"""Figures as text, and the notes that several reports share.

An unknown figure is an empty text.
"""

from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_transfer.reports import statistics
    from tf_transfer.reports import studies

MINILM = (
    "`minilm` is a means to run, not evidence on everything: it was tuned on a "
    "billion pairs before, Quora duplicates, SNLI and MultiNLI among them."
)


def notes_on_model(model: str) -> list[str]:
    """What a reader must know of an encoder, as footnotes."""
    return [MINILM] if model == "minilm" else []


def notes_on_times(study: "studies.Study") -> list[str]:
    """Which of a study's times are not shown, as footnotes."""
    if not study.untimed:
        return []
    were, their = ("was", "its") if study.untimed == 1 else ("were", "their")
    return [
        f"{count_runs(study.untimed)} {were} timed in another environment "
        f"(devices, threads, runs side by side): {their} scores count, "
        f"{their} times do not."
    ]


def count_runs(count: int) -> str:
    """`1 run`, `2 runs`."""
    return "1 run" if count == 1 else f"{count} runs"


def not_as_in_the_paper(
    ours: dict[str, Any], theirs: dict[str, Any]
) -> list[str]:
    """A sentence on each setting that both name and that differs."""
    return [
        f"Not as in the paper: {name} is {ours[name]}, there {value}."
        for name, value in theirs.items()
        if name in ours and ours[name] != value
    ]


def spread(
    mean: "statistics.Mean | None",
    digits: int = 2,
    unit: str = "",
    sign: str = "",
) -> str:
    """`82.79 ± 0.31`, or `82.79` of one value.

    Args:
        mean: mean and standard deviation.
        digits: after the point.
        unit: follows the number.
        sign: `+` shows the sign of positive numbers.
    """
    if mean is None:
        return ""
    text = f"{mean.mean:{sign}z.{digits}f}"
    if mean.deviation is not None:
        text += f" ± {mean.deviation:.{digits}f}"
    return text + unit


def points(value: float | None) -> str:
    """A score in points: `82.79`."""
    return "" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """A share: `60.0 %`."""
    return "" if value is None else f"{value:.1f} %"


def gigabytes(count: float) -> str:
    """Bytes as gigabytes: `1.53`."""
    return f"{count / 1e9:.2f}"
