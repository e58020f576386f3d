"""The report on a folder of runs, and the tables in it."""

import os

from tests import commands
from tf_transfer import report
from tf_transfer.reports import document
from tf_transfer.reports import summary as summary_lib
from tf_transfer.reports.options import Options


def compose(root, **options):
    """The parts of the report on all runs below a folder."""
    made = summary_lib.summarize_folder(str(root))
    folder = os.path.join(commands.ROOT, "experiments")
    return report.compose(made, folder, Options(**options))


def figures(parts):
    """Names of the report's figures."""
    return {part.name for part in parts if isinstance(part, document.Figure)}


def tables(parts):
    """Dict from a table's name to its rows, each a dict by column."""
    return {
        part.name: [dict(zip(part.columns, row)) for row in part.rows]
        for part in parts
        if isinstance(part, document.Table)
    }
