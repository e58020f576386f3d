"""The errors of a run in a few lines; `data.errors` describes them."""

from collections.abc import Mapping
from typing import Any

from tf_transfer.utils import formatting

MOST_LABELS = 12  # of a table in a terminal
MOST_CONFUSIONS = 3
MOST_TEXTS = 3
RATES = ("precision", "recall", "f1")


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
    labels = errors.get("labels", [])
    if 1 < len(labels) <= MOST_LABELS:
        rows = [["label", "count", *RATES]]
        for label in labels:
            points = [f"{100 * label[rate]:.1f}" for rate in RATES]
            name = formatting.cut(label["label"])
            rows.append([name, f"{label['count']:,}", *points])
        lines.append(formatting.aligned(rows))
    lines.append(describe_confusions(errors))
    lines += map(_describe_text, errors["worst"][:MOST_TEXTS])
    return "\n".join(filter(None, lines))


def rank_confusions(errors: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The labels that are taken for another one, the most frequent first.

    Args:
        errors: see `summarize`.

    Returns:
        `label`, `answer`, their `count`, and the texts `of` that label.
    """
    if "confusion" not in errors:
        return []
    names, counts = errors["confusion"]["names"], errors["confusion"]["counts"]
    pairs = [
        {"label": label, "answer": answer, "count": count, "of": sum(row)}
        for label, row in zip(names, counts)
        for answer, count in zip(names, row)
        if label != answer and count
    ]
    return sorted(pairs, key=lambda pair: -pair["count"])


def describe_confusions(errors: Mapping[str, Any]) -> str:
    """The most frequent confusions, in a line; "" if there is none."""
    clauses = []
    for pair in rank_confusions(errors)[:MOST_CONFUSIONS]:
        label, answer = map(formatting.cut, (pair["label"], pair["answer"]))
        clauses.append(
            f"{pair['count']:,} of {pair['of']:,} {label!r} are "
            f"answered {answer!r}"
        )
    return f"Most often: {'; '.join(clauses)}." if clauses else ""


def _describe_text(error: Mapping[str, Any]) -> str:
    """One of the worst errors, as a sentence."""
    text = formatting.cut(error["text"])
    if "word" in error:
        text = f"{formatting.cut(error['word'])!r} in {text}"
    line = f"Row {error['id']} (from 0 on): {text}: {_show(error['label'])}"
    line += f", answered {_show(error['answer'])}"
    if "probability" in error:
        line += f" ({100 * error['probability']:.0f} % sure)"
    return f"{line}."


def _show(value: float | str) -> str:
    """A label or a score."""
    return f"{value:.7g}" if isinstance(value, float) else value or "no label"
