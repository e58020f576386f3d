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
    lines.append(describe_confusions(errors))
    lines += map(_describe_text, errors["worst"][:MOST_TEXTS])
    return "\n".join(filter(None, lines))


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


def rank_confusions(errors: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The labels that are taken for another one, the most frequent first.

    Args:
        errors: see `summarize`.

    Returns:
        `label`, `answer`, their `count`, and the texts `of` that label.
    """
    confusion = errors.get("confusion", {"names": [], "counts": []})
    names = confusion["names"]
    pairs = [
        {"label": name, "answer": other, "count": count, "of": sum(row)}
        for name, row in zip(names, confusion["counts"])
        for other, count in zip(names, row)
        if name != other and count
    ]
    return sorted(pairs, key=lambda pair: -pair["count"])


def describe_confusions(errors: Mapping[str, Any]) -> str:
    """The most frequent confusions, in a line; "" if there is none."""
    clauses = [
        f"{pair['count']:,} of {pair['of']:,} {formatting.cut(pair['label'])} "
        f"are answered {formatting.cut(pair['answer'])}"
        for pair in rank_confusions(errors)[:MOST_CONFUSIONS]
    ]
    return f"Most often: {'; '.join(clauses)}." if clauses else ""


def _describe_text(error: Mapping[str, Any]) -> str:
    """One of the worst errors, as a sentence."""
    what = formatting.cut(error["text"])
    if "word" in error:
        what = f"{formatting.cut(error['word'])!r} in {what}"
    sure = (
        f" ({100 * error['probability']:.0f} % sure)"
        if "probability" in error
        else ""
    )
    label, answer = (
        f"{value:.7g}" if isinstance(value, float) else value or "no label"
        for value in (error["label"], error["answer"])
    )
    return (
        f"Row {error['id']} (from 0 on): {what}: {label}, answered "
        f"{answer}{sure}."
    )
