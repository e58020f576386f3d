"""(IA)^3: gains of keys, values and the feed-forward layers' inside.

    key <- key * l_key   value <- value * l_value   hidden <- hidden * l_hidden

Haokun Liu et al., "Few-Shot Parameter-Efficient Fine-Tuning is Better and
Cheaper than In-Context Learning" (arXiv 2205.05638). As there: gains start at
one, so that nothing changes at first; the rate is 3e-3, there of Adafactor on
T0. Weight decay, which would pull them to zero, spares them: ours.
"""

import dataclasses
from typing import Any, ClassVar

from tf_transfer.models.methods.base import Method, NewWeight, Weights, Widths

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

    def dense(self, weights: Weights, name: str, x: Any, y: Any) -> Any:
        """Scales keys and values."""
        return y * weights[f"{name}_gamma"] if name in SCALED else y

    def hidden(self, weights: Weights, x: Any) -> Any:
        """Scales what is behind the activation."""
        return x * weights["inner_gamma"]

    def merge(
        self, weights: Weights, name: str, kernel: Any, bias: Any
    ) -> tuple[Any, Any]:
        """Gains become part of the columns before, or the rows behind."""
        if name in SCALED:
            gain = weights[f"{name}_gamma"]
            return kernel * gain, bias * gain
        if name == "outer":
            return kernel * weights["inner_gamma"][:, None], bias
        return kernel, bias
