"""How reports write values and lists: the one place that formats them.

A value that is not known is an empty text.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tf_transfer.reports.estimates import Ranged, subtract
from tf_transfer.reports.measures import known

MOST_NAMED = 4
Values = Iterable[float | None]


def mean(values: Values) -> float:
    """The mean of the known values; nan without any."""
    numbers = known(values)
    return float(np.mean(numbers)) if numbers else math.nan


def deviation(values: Values) -> Ranged:
    """The mean of the known values, and one standard deviation either way."""
    numbers = known(values)
    middle = mean(numbers)
    reach = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else math.nan
    return Ranged(middle, middle - reach, middle + reach)


def spread(values: Values, digits: int = 2, sign: str = "") -> str:
    """Mean and standard deviation: `82.79 ± 0.31`; of one value, `82.79`.

    Args:
        values: one for each run.
        digits: after the point.
        sign: `+` shows the sign of positive numbers.
    """
    numbers = known(values)
    text = number(mean(numbers), digits, sign)
    if len(numbers) > 1:
        text += f" ± {np.std(numbers, ddof=1):.{digits}f}"
    return text


def number(value: float, digits: int = 2, sign: str = "") -> str:
    """A value rounded: `82.79`."""
    return "" if pd.isna(value) else f"{value:{sign}z.{digits}f}"


def whole(value: float) -> str:
    """A count: `22,713,601`."""
    return "" if pd.isna(value) else f"{value:,.0f}"


def rate(value: float) -> str:
    """A learning rate: `2e-05`."""
    return "" if pd.isna(value) else f"{value:g}"


def ranged(
    value: Ranged, digits: int = 2, sign: str = "", unit: str = ""
) -> str:
    """A value with its interval: `82.79 (81.20 to 84.38)`.

    Args:
        value: without an interval it stands alone.
        digits: after the point.
        sign: `+` shows the sign of positive numbers.
        unit: after the value.
    """
    if not value.is_known:
        return ""
    first, low, high = (
        number(v, digits, sign) for v in (value.value, value.low, value.high)
    )
    return f"{first}{unit}" + (f" ({low} to {high})" if low else "")


def percent(value: Ranged, digits: int = 1) -> str:
    """`98.4 % (97.1 to 99.7)`."""
    return ranged(value, digits, unit="\N{NO-BREAK SPACE}%")


def difference(first: Values, second: Values) -> str:
    """The difference of two groups' means: `+6.00 (+4.87 to +7.13)`.

    There is a 95 % interval where both have two values or more.
    """
    pair = known(first), known(second)
    if not all(pair):
        return ""
    return ranged(subtract(*pair), sign="+")


def count(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def join(words: Sequence[str]) -> str:
    """`a, b and c`; of many, the first and how many more."""
    if len(words) < 2:
        return "".join(words)
    if len(words) > MOST_NAMED + 1:
        words = [*words[:MOST_NAMED], f"{len(words) - MOST_NAMED} more"]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def list_first(
    clauses: Sequence[str], mark: str = "; ", most: int = MOST_NAMED
) -> str:
    """The first clauses with a mark between them, and how many more."""
    if len(clauses) > most:
        clauses = [*clauses[:most], f"and {len(clauses) - most} more"]
    return mark.join(clauses)
