"""Counts the points of each scenario by kind, into a document.

python -m tests.faults docs/reference/reliability.md

`pytest --faults` tries them.
"""

import collections
import contextlib
import io
import os
import sys
import tempfile

import pandas as pd
import pytest

from tests.faults import disk, points, scenarios
from tf_transfer import report


def count_points():
    """A row for each scenario and for all, a column for each kind."""
    rows = {}
    for name, scenario in scenarios.SCENARIOS.items():
        with (
            pytest.MonkeyPatch.context() as patch,
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stdout(io.StringIO()),
        ):
            scenarios.make_equal(patch)
            trial = points.Trial(name, scenario, os.path.join(folder, "root"))
        kinds = collections.Counter(point.kind for point in trial.points)
        rows[name] = {
            "operations": len(trial.operations),
            **{kind: kinds[kind] for kind in disk.KINDS},
            "points": len(trial.points),
        }
    table = pd.DataFrame.from_dict(rows, "index")
    table.loc["all"] = table.sum()
    return table


def main():
    """Writes the table between the marks of a document."""
    table, path = count_points(), sys.argv[1]
    lines = [
        ["scenario", *table.columns],
        ["---", *["---:"] * len(table.columns)],
        *([name, *map(str, row)] for name, *row in table.itertuples()),
    ]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    text = report.read_document(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            report.MARKED.sub(
                lambda match: f"{match['begin']}\n\n{body}\n\n{match['end']}",
                text,
            )
        )


if __name__ == "__main__":
    main()
