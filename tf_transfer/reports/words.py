"""Figures of a report as text; what is not known is left empty."""


def spread(mean, digits=2, unit=""):
    """`82.79 ± 0.31`, or `82.79` of one value, or nothing."""
    if mean is None:
        return ""
    text = f"{mean.mean:.{digits}f}"
    if mean.deviation is not None:
        text += f" ± {mean.deviation:.{digits}f}"
    return text + unit


def points(value):
    """A score in points, or nothing."""
    return "" if value is None else f"{value:.2f}"


def percent(value):
    """A share, or nothing."""
    return "" if value is None else f"{value:.1f} %"
