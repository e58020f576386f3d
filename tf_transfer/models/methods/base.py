"""What a method is: which weights of a block train, and what it adds.

A block, as `models.blocks` computes it, calls what was added at three points:

    dense       behind each of its dense layers, `query` to `outer`
    hidden      behind the activation of the feed-forward layers
    sublayer    behind the attention and behind the feed-forward layers, before
                the sum with what went in

All three act on each token by itself, so a block that is computed at [CLS]
alone has the same state there as when all of it is computed.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

# The dense layers of a block, as in `keras_private.BlockLayers`.
DENSE = ("query", "key", "value", "attention_output", "inner", "outer")
SUBLAYERS = ("attention", "feedforward")

Widths = Mapping[str, tuple[int, int]]  # inputs and outputs of each of `DENSE`


class Weights(Protocol):
    """Values of what was added to a block."""

    def __getitem__(self, name: str) -> Any: ...


@dataclasses.dataclass(frozen=True)
class NewWeight:
    """A weight that a method adds to a block.

    Attributes:
        shape: its shape.
        initial: `zeros`, `ones`, `uniform` (between -scale and scale) or
            `normal` (standard deviation `scale`, truncated at two of them).
        scale: see `initial`.
    """

    shape: tuple[int, ...]
    initial: str = "zeros"
    scale: float = 0.0


@dataclasses.dataclass(frozen=True)
class Method:
    """What trains inside of the trainable blocks.

    A subclass is a frozen dataclass. Its fields are its options, and it is part
    of the key of a traced program. A hook that is not overridden changes
    nothing. Weights named `..._bias`, `..._gamma` or `..._beta` have no weight
    decay.

    Attributes:
        lr: the learning rate without `--lr`, where the method has one.
        trains_kernels: whether the gradients of dense kernels are needed,
            which are a third of a block's work.
        merges: whether the added weights can become part of the block's own.
    """

    lr: ClassVar[float | None] = None
    trains_kernels: ClassVar[bool] = False
    merges: ClassVar[bool] = True

    def trains(self, weight: str) -> bool:
        """Whether a weight of the block itself trains, and of the pooler.

        Args:
            weight: `kernel` or `bias` of a dense layer, `gamma` or `beta` of
                LayerNorm.
        """
        return False

    def new_weights(self, widths: Widths) -> dict[str, NewWeight]:
        """Weights to add to a block, by name; all of them train."""
        return {}

    # === Hooks on a block's states: float [tokens, width] ===

    def dense(self, weights: Weights, name: str, x: Any, y: Any) -> Any:
        """The output of a dense layer, from its input and its own output."""
        return y

    def hidden(self, weights: Weights, x: Any) -> Any:
        """What the second feed-forward layer reads, from the activation."""
        return x

    def sublayer(
        self,
        weights: Weights,
        name: str,
        x: Any,
        normalise: Callable[[Any], Any],
    ) -> Any:
        """What is added to the input of a sublayer, from its output.

        Args:
            weights: what was added.
            name: one of `SUBLAYERS`.
            x: output of the sublayer, behind its dropout.
            normalise: the LayerNorm of the sublayer, of x and its input.
        """
        return x

    # === Export ===

    def merge(
        self, weights: Weights, name: str, kernel: Any, bias: Any
    ) -> tuple[Any, Any]:
        """A dense layer that does what it and its addition do.

        Args:
            weights: arrays of what was added.
            name: one of `DENSE`.
            kernel, bias: float [inputs, outputs] and [outputs].
        """
        return kernel, bias
