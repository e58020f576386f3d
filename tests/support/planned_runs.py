"""The runs of a paper's one command, in the order in which a sweep does them.

They need neither data nor weights.
"""

import os
import tomllib

from tests.support import commands
from tf_transfer.reports import claims
from tf_transfer.sweeps import grid, plan

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPERS = ("freezing", "glue", "multitask", "stacking", "tweets")


def read_paper(name):
    """The paper whose claims are judged, by the name of its experiment."""
    return claims.read_paper(os.path.join(FOLDER, name, "claims.toml"))


def plan_runs(name):
    """The runs of `python -m tf_transfer.sweep experiments/<name>`.

    A run that waits for a search is there at the first of the values that the
    search compares. The working directory is the root of the project, since
    flag files are named from there.
    """
    runs = grid.expand_all(os.path.join(FOLDER, name), "runs")
    first = [run for run in runs if not run.searched]
    waiting = [run for run in plan.select_values(runs) if run.searched]
    return [*plan.order_runs(first), *plan.order_runs(waiting)]


def read_undecidable(name):
    """The claims that these runs do not decide, and why."""
    with open(os.path.join(FOLDER, name, "claims.toml"), "rb") as file:
        return tomllib.load(file).get("undecidable", {})
