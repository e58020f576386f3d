"""Which metrics score which kind of task; it needs no library."""

from tf_transfer.utils.formatting import cut

CLASSES = (
    "accuracy",
    "f1_macro",
    "matthews",
    "f1",
    "precision",
    "recall",
)
TWO_CLASSES = ("f1", "precision", "recall")  # of the last label
# The first is the headline, the others are reported in addition.
REPORTED = {
    "classes": ("accuracy", "f1_macro"),
    "labels": ("f1_micro", "f1_macro", "exact_match"),
    "score": ("spearman", "pearson"),
    "entities": ("f1", "accuracy"),
}
ALLOWED = {
    **REPORTED,
    "classes": CLASSES,
    "score": ("spearman", "pearson", "spearman_no_ties"),
    "entities": ("f1", "precision", "recall", "accuracy", "token_f1"),
}


def find_problem(kind: str, metric: str) -> str:
    """The problem of a metric for a kind of task; empty if there is none."""
    if not metric or metric in ALLOWED[kind]:
        return ""
    return (
        f"{cut(metric)!r} does not score {kind}. Give one of "
        f"{', '.join(ALLOWED[kind])}."
    )


def choose(kind: str, metric: str, labels: int) -> tuple[str, ...]:
    """The metrics of a task, the headline first.

    Args:
        kind: One of `task.KINDS`.
        metric: The headline; empty for the kind's own.
        labels: The number of labels.
    """
    others = REPORTED[kind]
    if kind == "classes" and labels == 2:
        others = (*others, "f1")
    return tuple(dict.fromkeys(filter(None, (metric, *others))))
