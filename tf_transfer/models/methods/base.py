"""What a method is: which weights of a block train, and what it adds.

A block, as `models.blocks` computes it, asks a method at two points:

    dense       for a change of each of its dense layers, `query` to `outer`
    sublayer    after the attention and after the feed-forward layers, before
                the sum with the sublayer's input

Both act on each token by itself, so a block that is computed at [CLS] alone
gives what the whole block gives at [CLS]. A change of a dense layer is linear,
so the attention of [CLS] can read it without the keys and values of all tokens.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

# The dense layers of a block, as in `keras_private.BlockLayers`, and their
# names in transformers.
TRANSFORMERS_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "inner": "intermediate.dense",
    "outer": "output.dense",
}
DENSE = tuple(TRANSFORMERS_NAMES)
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
class Change:
    """A linear change of a dense layer x W + b.

        y = gain ((input_gain x) W + b) + scale x A B

    A member that is None changes nothing.

    Attributes:
        input_gain, gain: float [inputs] and [outputs].
        a, b: float [inputs, rank] and [rank, outputs]; both or neither.
        scale: of the product.
    """

    input_gain: Any = None
    gain: Any = None
    a: Any = None
    b: Any = None
    scale: float = 1.0

    def merge(self, kernel: Any, bias: Any) -> tuple[Any, Any]:
        """The kernel [inputs, outputs] and bias [outputs] of y."""
        if self.input_gain is not None:
            kernel = kernel * self.input_gain[:, None]
        if self.gain is not None:
            kernel, bias = kernel * self.gain, bias * self.gain
        if self.a is not None:
            kernel = kernel + self.scale * (self.a @ self.b)
        return kernel, bias


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

    # === Hooks ===

    def dense(self, weights: Weights, name: str) -> Change:
        """The change of a dense layer.

        Args:
            weights: the added weights.
            name: one of `DENSE`.
        """
        return Change()

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
