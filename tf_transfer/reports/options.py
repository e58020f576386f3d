"""What a reader may ask of a report."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Options:
    """What may be asked for.

    Attributes:
        margin: of a loss that is accepted for a cheaper approach, in points.
    """

    margin: float = 1.0
