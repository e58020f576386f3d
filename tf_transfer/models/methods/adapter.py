"""Bottleneck adapters: two small dense layers behind a sublayer.

`houlsby`, of Neil Houlsby et al., "Parameter-Efficient Transfer Learning for
NLP" (arXiv 1902.00751), behind the attention and behind the feed-forward
layers, before the sum with the sublayer's input; LayerNorm trains, too:

    x <- x + gelu(x D + d) U + u         D [hidden, width], U [width, hidden]

`pfeiffer`, of Jonas Pfeiffer et al., "AdapterFusion" (arXiv 2005.00247) and
"MAD-X" (arXiv 2005.00052), behind the feed-forward layers alone; it reads what
their LayerNorm makes of their output, and the sum is normalised again:

    x <- x + relu(LayerNorm(y + x) D + d) U + u     y: the sublayer's input

As in the first paper: D and U from a normal distribution of deviation 0.01 cut
off at two of them, so that little changes at first, and of its rates (3e-5,
3e-4, 3e-3) the middle one. Ours: these for both; width 64 for both and every
task, where the first paper chooses the best of each task and the second has a
sixteenth of the hidden width; and the embeddings' LayerNorm is frozen, so that
what lies below the trained blocks can be cached, where the first authors' code
trains it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from tf_transfer.models.methods.base import (
    Method,
    NewWeight,
    SUBLAYERS,
    Weights,
    Widths,
)

DEVIATION = 0.01


@dataclasses.dataclass(frozen=True)
class Adapter(Method):
    """A bottleneck behind each sublayer, or behind the second.

    Attributes:
        width: of the bottleneck.
        kind: `houlsby` or `pfeiffer`.
    """

    width: int = 64
    kind: str = "houlsby"
    lr: ClassVar[float] = 3e-4
    merges: ClassVar[bool] = False

    @property
    def _sublayers(self) -> tuple[str, ...]:
        return SUBLAYERS if self.kind == "houlsby" else SUBLAYERS[1:]

    def trains(self, weight: str) -> bool:
        """LayerNorm does, in the first paper."""
        return self.kind == "houlsby" and weight in ("gamma", "beta")

    def new_weights(self, widths: Widths) -> dict[str, NewWeight]:
        """Kernels and biases of both dense layers, for each sublayer."""
        hidden = widths["query"][0]
        added: dict[str, NewWeight] = {}
        for name in self._sublayers:
            added |= {
                f"{name}_down": NewWeight(
                    (hidden, self.width), "normal", DEVIATION
                ),
                f"{name}_down_bias": NewWeight((self.width,)),
                f"{name}_up": NewWeight(
                    (self.width, hidden), "normal", DEVIATION
                ),
                f"{name}_up_bias": NewWeight((hidden,)),
            }
        return added

    def sublayer(
        self,
        weights: Weights,
        name: str,
        x: Any,
        normalise: Callable[[Any], Any],
    ) -> Any:
        """Adds the bottleneck."""
        import tensorflow as tf

        if name not in self._sublayers:
            return x
        is_first = self.kind == "houlsby"
        inside = (x if is_first else normalise(x)) @ weights[f"{name}_down"]
        activation = tf.nn.gelu if is_first else tf.nn.relu
        inside = activation(inside + weights[f"{name}_down_bias"])
        return x + inside @ weights[f"{name}_up"] + weights[f"{name}_up_bias"]
