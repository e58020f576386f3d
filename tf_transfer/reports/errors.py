"""The errors of a run in a few lines; `data.errors` describes them."""

from collections.abc import Mapping
from typing import Any

from tf_transfer.utils import formatting

MOST_LABELS = 12  # of a table in a terminal
MOST_CONFUSIONS = 3
MOST_TEXTS = 3


def summarize(errors: Mapping[str, Any]) -> str:
    """The errors on a split: by label, the commonest, and the worst texts.

    Args:
        errors: from `data.errors.describe`.
    """
    lines = []
    if "residuals" in errors:
        residuals = errors["residuals"]
        low, *_, high = residuals["quantiles"]
        lines.append(
            f"Answers minus scores: mean {residuals['mean']:+.3g}, standard "
            f"deviation {residuals['standard_deviation']:.3g}, 90 % between "
            f"{low:+.3g} and {high:+.3g}."
        )
    if 1 < len(errors.get("labels", ())) <= MOST_LABELS:
        lines.append(_tabulate(errors["labels"]))
    if "confusion" in errors:
        lines += _list_confusions(**errors["confusion"])
    lines += map(_describe_text, errors["worst"][:MOST_TEXTS])
    return "\n".join(lines)


def _tabulate(labels: list[dict[str, Any]]) -> str:
    rates = ("precision", "recall", "f1")
    rows = [
        [
            formatting.cut(label["label"]),
            f"{label['count']:,}",
            *(f"{100 * label[rate]:.1f}" for rate in rates),
        ]
        for label in labels
    ]
    return formatting.aligned([["label", "count", *rates], *rows])


def _list_confusions(names: list[str], counts: list[list[int]]) -> list[str]:
    """The labels that are most often taken for another one, in a line."""
    pairs = [
        (count, sum(row), name, other)
        for name, row in zip(names, counts)
        for other, count in zip(names, row)
        if name != other and count
    ]
    pairs.sort(key=lambda pair: -pair[0])
    clauses = [
        f"{count:,} of {whole:,} {formatting.cut(name)} are answered "
        f"{formatting.cut(other)}"
        for count, whole, name, other in pairs[:MOST_CONFUSIONS]
    ]
    return [f"Most often: {'; '.join(clauses)}."] if clauses else []


def _describe_text(error: Mapping[str, Any]) -> str:
    """One of the worst errors, as a sentence."""
    what = formatting.cut(error["text"])
    if "word" in error:
        what = f"{formatting.cut(error['word'])!r} in {what}"
    sure = ""
    if "probability" in error:
        sure = f" ({100 * error['probability']:.0f} % sure)"
    label, answer = (
        f"{value:.7g}" if isinstance(value, float) else value or "no label"
        for value in (error["label"], error["answer"])
    )
    return (
        f"Row {error['id']} (from 0 on): {what}: {label}, answered "
        f"{answer}{sure}."
    )
