"""What a reader may ask of a report, and the papers' figures beside it."""

import dataclasses
import json
import os
from typing import Any

from tf_transfer.reports import operating


@dataclasses.dataclass(frozen=True)
class Options:
    """What may be asked for.

    Attributes:
        budgets: seconds for the tables of fixed times; unset, quarters of the
            longest run.
        qualities: shares of the full score, for operating points.
        level: confidence level of their intervals.
    """

    budgets: tuple[float, ...] = ()
    qualities: tuple[float, ...] = operating.QUALITIES
    level: float = operating.LEVEL


def read_published(folder: str, experiment: str) -> dict[str, Any]:
    """The paper's figures, or {} where they are not at hand.

    Args:
        folder: where `<experiment>/published.json` is looked for first; then,
            in the folder `experiments` beside the package.
        experiment: such as `glue`.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.join(os.path.dirname(package), "experiments")
    for parent in (folder, beside):
        path = os.path.join(parent, experiment, "published.json")
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
    return {}
