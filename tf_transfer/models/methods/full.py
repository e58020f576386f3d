"""`full`: every weight of a trainable block."""

import dataclasses
from typing import ClassVar

from tf_transfer.models.methods.base import Method


@dataclasses.dataclass(frozen=True)
class Full(Method):
    """Every weight trains; nothing is added."""

    trains_kernels: ClassVar[bool] = True

    def trains(self, weight: str) -> bool:
        """All do."""
        return True


FULL = Full()
