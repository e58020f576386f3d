"""What a reader may ask of a report, and the papers' figures beside it."""

import dataclasses
import json
import os

from tf_transfer.reports import operating


@dataclasses.dataclass(frozen=True)
class Options:
    """What may be asked for.

    Attributes:
        budgets: seconds for the tables of fixed times; unset, quarters of the
            longest run.
        qualities: shares of the full score, for operating points.
        level: of their intervals.
    """

    budgets: tuple = ()
    qualities: tuple = operating.QUALITIES
    level: float = operating.LEVEL


def read_published(folder, module):
    """The paper's figures, or {} where they are not at hand.

    Args:
        folder: where `<module>/published.json` is looked for first; then, in
            the folder `experiments` beside the package.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.join(os.path.dirname(package), "experiments")
    for place in (folder, beside):
        path = os.path.join(place, module, "published.json")
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
    return {}
