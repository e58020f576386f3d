"""What a reader may ask of a report."""

import dataclasses

from tf_transfer.reports import operating


@dataclasses.dataclass(frozen=True)
class Options:
    """What may be asked for.

    Attributes:
        budgets: seconds for the tables of fixed times; unset, quarters of the
            longest run.
        qualities: shares of the full score, for operating points.
        level: confidence level of their intervals.
        margin: of a loss that is accepted for a cheaper approach, in points.
    """

    budgets: tuple[float, ...] = ()
    qualities: tuple[float, ...] = operating.QUALITIES
    level: float = operating.LEVEL
    margin: float = 1.0
