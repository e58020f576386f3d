"""(IA)^3: gains of keys, values and the feed-forward layers' inside.

    key <- key * l_key   value <- value * l_value   hidden <- hidden * l_hidden

Haokun Liu et al., "Few-Shot Parameter-Efficient Fine-Tuning is Better and
Cheaper than In-Context Learning" (arXiv 2205.05638). As there: gains start at
one, so that nothing changes at first; the rate is 3e-3, there of Adafactor on
T0. Weight decay, which would pull them to zero, spares them: ours.
"""

import dataclasses
from typing import ClassVar

from tf_transfer.models.methods.base import (
    Change,
    Method,
    NewWeight,
    Weights,
    Widths,
)

SCALED = ("key", "value")


@dataclasses.dataclass(frozen=True)
class IA3(Method):
    """A gain for each unit of keys, values and the feed-forward inside."""

    lr: ClassVar[float] = 3e-3

    def new_weights(self, widths: Widths) -> dict[str, NewWeight]:
        """Three vectors."""
        sizes = {name: widths[name][1] for name in (*SCALED, "inner")}
        return {
            f"{name}_gamma": NewWeight((size,), "ones")
            for name, size in sizes.items()
        }

    def dense(self, weights: Weights, name: str) -> Change:
        """Scales keys, values and what `outer` reads."""
        if name in SCALED:
            return Change(gain=weights[f"{name}_gamma"])
        if name == "outer":
            return Change(input_gain=weights["inner_gamma"])
        return Change()
