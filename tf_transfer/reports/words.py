"""What reports say alike: figures as text, and notes.

A figure that is not known is left empty.
"""

MINILM = (
    "`minilm` is a means to run, not evidence on everything: it was tuned on a "
    "billion pairs before, Quora duplicates, SNLI and MultiNLI among them."
)


def notes_on_model(model):
    """What a reader must know of an encoder, a list of footnotes."""
    return [MINILM] if model == "minilm" else []


def notes_on_times(study):
    """What of a study's times is not shown, a list of footnotes."""
    if not study.untimed:
        return []
    count = study.untimed
    were, their = ("was", "its") if count == 1 else ("were", "their")
    return [
        f"{runs(count)} {were} timed in other company (devices, threads, runs "
        f"side by side): {their} scores count, {their} times do not."
    ]


def runs(count):
    """`1 run`, `2 runs`."""
    return "1 run" if count == 1 else f"{count} runs"


def not_as_in_the_paper(ours, theirs):
    """Sentences on what both sides tell, and tell differently."""
    return [
        f"Not as in the paper: {name} is {ours[name]}, there {value}."
        for name, value in theirs.items()
        if name in ours and ours[name] != value
    ]


def spread(mean, digits=2, unit="", sign=""):
    """`82.79 ± 0.31`, or `82.79` of one value, or nothing.

    Args:
        sign: `+` shows the sign of what is above 0.
    """
    if mean is None:
        return ""
    text = f"{mean.mean:{sign}z.{digits}f}"
    if mean.deviation is not None:
        text += f" ± {mean.deviation:.{digits}f}"
    return text + unit


def points(value):
    """A score in points, or nothing."""
    return "" if value is None else f"{value:.2f}"


def percent(value):
    """A share, or nothing."""
    return "" if value is None else f"{value:.1f} %"
