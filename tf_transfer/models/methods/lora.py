"""LoRA: a product of two thin matrices, added to a frozen one.

    y = x W + b + (alpha / rank) x A B      A [inputs, rank], B [rank, outputs]

Edward Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models"
(arXiv 2106.09685). As there: added to query and value, A drawn and B zero, so
that nothing changes at first; rank 8 on GLUE. As in its authors' code: A
uniform within 1 / sqrt(inputs). Rates of its GLUE runs of RoBERTa-base: 4e-4
and 5e-4. Ours: alpha 16 (the paper has 8 there), and no dropout of its own.

keras-hub's `enable_lora` is not used: for a kernel of three axes its A has a
part for every attention head (six times the paper's weights at BERT-base), it
adds the whole product to the kernel at every step, and the gradient of the
whole kernel is computed, which LoRA spares.
"""

import dataclasses
import math
from typing import ClassVar

from tf_transfer.models.methods import base_method
from tf_transfer.models.methods.base_method import (
    LowRank,
    Method,
    NewWeight,
    Weights,
    Widths,
)
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut


@dataclasses.dataclass(frozen=True)
class LoRA(Method):
    """A B added to some of the dense layers.

    Attributes:
        rank: Columns of A, rows of B.
        alpha: The product is multiplied by alpha / rank.
        targets: Names of dense layers with commas between, or `all`.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: str = "query,value"
    lr: ClassVar[float] = 5e-4

    def __post_init__(self) -> None:
        """Raises `UserError` for a layer that does not exist."""
        names = self._names
        if set(names) - set(base_method.DENSE) or len({*names}) < len(names):
            raise UserError(
                f"--lora_targets={cut(self.targets)}: give `all`, or some of "
                f"{', '.join(base_method.DENSE)}, each once, with commas "
                "between."
            )

    @property
    def _names(self) -> tuple[str, ...]:
        if self.targets == "all":
            return base_method.DENSE
        return tuple(self.targets.split(","))

    def new_weights(self, widths: Widths) -> dict[str, NewWeight]:
        """A and B of each target."""
        added = {}
        for name in self._names:
            inputs, outputs = widths[name]
            bound = 1 / math.sqrt(inputs)
            added[f"{name}_a"] = NewWeight((inputs, self.rank), bound)
            added[f"{name}_b"] = NewWeight((self.rank, outputs))
        return added

    def low_rank(self, weights: Weights, name: str) -> LowRank | None:
        """(alpha / rank) x A B."""
        if name not in self._names:
            return None
        a, b = weights[f"{name}_a"], weights[f"{name}_b"]
        return LowRank(a, b, self.alpha / self.rank)
