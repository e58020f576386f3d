"""What tables have in common: numbers as text, groups, published rows.

A number that is not known is an empty text.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import claims
from tf_transfer.reports import measures
from tf_transfer.reports import overview
from tf_transfer.reports import verdicts
from tf_transfer.reports.sides import select

DID_NOT_TRAIN = (
    "`Not above the majority baseline`: the runs do not show, at 5 %, that "
    "they score more, or half of them give one answer only."
)


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are known."""
    return [float(v) for v in values if v is not None and not pd.isna(v)]


def spread(
    values: Iterable[float | None], digits: int = 2, sign: str = ""
) -> str:
    """Mean and standard deviation: `82.79 ± 0.31`; of one value, `82.79`.

    Args:
        values: one for each run.
        digits: after the point.
        sign: `+` shows the sign of positive numbers.
    """
    numbers = known(values)
    if not numbers:
        return ""
    deviation = np.std(numbers, ddof=1) if len(numbers) > 1 else np.nan
    return show_spread(float(np.mean(numbers)), float(deviation), digits, sign)


def show_spread(
    mean: float, deviation: float, digits: int = 2, sign: str = ""
) -> str:
    """See `spread`; nothing where the mean is nan."""
    if np.isnan(mean):
        return ""
    text = f"{mean:{sign}z.{digits}f}"
    if not np.isnan(deviation):
        text += f" ± {deviation:.{digits}f}"
    return text


def difference(
    first: Iterable[float | None], second: Iterable[float | None]
) -> str:
    """Of two groups' means, with a 95 % interval: `+6.0 (+4.9 to +7.1)`.

    There is an interval where both have two values or more.
    """
    ours, theirs = known(first), known(second)
    if not (ours and theirs):
        return ""
    value = overview.subtract(ours, theirs)
    text = f"{value.value:+z.2f}"
    if value.has_interval:
        text += f" ({value.low:+z.2f} to {value.high:+z.2f})"
    return text


def metric(runs: pd.DataFrame, name: str) -> measures.Values:
    """A metric of each run in points; of runs in folds, of each fold."""
    return measures.measure_runs(name, runs)


def seconds(runs: pd.DataFrame) -> list[float]:
    """Training times that may be compared with others."""
    return known(runs[runs.timed].seconds)


def groups_of(runs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The runs of each group, in the order of their first run."""
    for _, members in runs.groupby("group", sort=False):
        yield members


def caching(settings: claims.Group) -> str:
    """Whether and how the frozen blocks are cached, in words."""
    if settings.get("frozen_prefix") != "cached":
        return ""
    dtype = settings.get("cache_dtype", "float16")
    return "cached" if dtype == "float16" else f"cached as {dtype}"


def failed(group: pd.DataFrame) -> str:
    """`not above the majority baseline`, or nothing."""
    return verdicts.FAILED if verdicts.did_not_train(group) else ""


def examples(runs: pd.DataFrame) -> int:
    """How many examples the first of some runs was trained on."""
    return int(runs.sizes.iloc[0].get("train", 0))


def find_row(
    runs: pd.DataFrame, paper: claims.Paper | None, row: claims.Group
) -> pd.DataFrame:
    """The runs at exactly the settings of a published row.

    They are the paper's in all that the row does not name, and on its encoder
    and data; see `claims.list_differences`.

    Args:
        runs: on one task.
        paper: theirs.
        row: settings by which it differs from the paper's usual ones.
    """
    if paper is None:
        return runs.iloc[:0]
    found = select(runs, row)
    if len(found):
        names = set().union(*found.settings) - set(row)
        usual = {n: v for n, v in paper.settings.items() if n in names}
        found = select(found, usual)
    if claims.list_differences(found, paper, row):
        return runs.iloc[:0]
    return found


def is_the_papers(runs: pd.DataFrame, paper: claims.Paper | None) -> bool:
    """Whether a run here has the paper's data, as far as their sizes tell."""
    if paper is None:
        return False
    return any(
        task in paper.sizes
        and not claims.unlike_sizes(members.sizes, paper.sizes[task])
        for (task, _), members in runs.groupby(["task", "data_identity"])
    )


def explain_times(runs: pd.DataFrame) -> list[str]:
    """Why some times are blank, a sentence or none."""
    count = int((~runs.timed).sum())
    if not count:
        return []
    were = "1 run was" if count == 1 else f"{count} runs were"
    return [
        f"{were} timed in another environment (machine since its start, "
        "devices, threads, runs side by side, traced or warm) than most: the "
        "scores count, the times are left blank. The time of an epoch counts "
        "where only tracing differs, which is in a run's first epoch."
    ]


def drop_constant(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A table without those of some columns whose cells are all the same."""
    constant: list[Any] = [n for n in names if table[n].nunique() <= 1]
    return table.drop(columns=constant)
