"""The errors of a run as tables of a page; `data.errors` describes them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tf_transfer.reports import errors as errors_lib
from tf_transfer.reports.tables import Table

NAMES = {"id": "row", "standard_deviation": "standard deviation"}
RATES = ("precision", "recall", "f1", "probability")  # shown in points


def tabulate(
    errors: Mapping[str, Mapping[str, Any]], run: str
) -> Iterator[Table]:
    """Yields the errors by label, confusions, residuals, and the worst texts.

    Args:
        errors: the content of `errors.json`.
        run: what captions begin with.
    """
    for number, (split, described) in enumerate(errors.items(), 1):
        residuals = []
        if known := described.get("residuals"):
            shown = [f"{value:+.3g}" for value in known["quantiles"]]
            residuals.append({**known, "quantiles": "; ".join(shown)})
        contents = {
            "by label, in points": described.get("labels", []),
            "the labels most often taken for another": (
                errors_lib.rank_confusions(described)
            ),
            "answers minus scores, with the quantiles 5, 25, 50, 75, 95 %": (
                residuals
            ),
            "the worst texts, by row from 0 on": described["worst"],
        }
        for part, (title, rows) in enumerate(contents.items(), 1):
            frame = pd.DataFrame(rows).rename(columns=NAMES)
            rates = frame.columns.intersection(RATES)
            frame[rates] = (100 * frame[rates]).round(1)
            if rows:
                yield Table(
                    f"errors_{number}_{part}",
                    f"{run}: errors on {split}, {title}",
                    frame.round(4),
                    open=number == 1,
                )
