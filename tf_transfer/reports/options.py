"""What a reader may ask of a report."""

import dataclasses

from tf_transfer.reports import operating


@dataclasses.dataclass(frozen=True)
class Options:
    """What may be asked for.

    Attributes:
        qualities: shares of the full score, for operating points.
        level: confidence level of their intervals.
        margin: of a loss that is accepted for a cheaper approach, in points.
    """

    qualities: tuple[float, ...] = operating.QUALITIES
    level: float = operating.LEVEL
    margin: float = 1.0
