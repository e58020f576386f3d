"""What a method is: which weights of a block train, and what it adds.

A method may add a product of two thin matrices to each dense layer of a block,
`query` to `outer`. The product is linear in the layer's input, so the attention
of [CLS] can read it without the keys and values of all tokens.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, TYPE_CHECKING

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

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

Widths = Mapping[str, tuple[int, int]]  # inputs and outputs of each of `DENSE`
Weights = Mapping[str, "keras.Variable"]  # added to a block, by name


@dataclasses.dataclass(frozen=True)
class NewWeight:
    """A weight that a method adds to a block.

    Attributes:
        shape: Its shape.
        bound: Its initial values are uniform between -bound and bound.
    """

    shape: tuple[int, ...]
    bound: float = 0.0


@dataclasses.dataclass(frozen=True)
class LowRank:
    """What is added to a dense layer: x W + b + scale x A B.

    Attributes:
        a, b: float [inputs, rank] and [rank, outputs].
        scale: Of the product.
    """

    a: "keras.Variable | tf.Tensor"
    b: "keras.Variable | tf.Tensor"
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Method:
    """What trains inside of the trainable blocks.

    A subclass is a frozen dataclass. Its fields are its options, and it is part
    of the key of a traced program. A method that is not overridden trains or
    adds nothing.

    Attributes:
        lr: The learning rate without `--lr`, where the method has one.
        trains_kernels: Whether the gradients of dense kernels are needed,
            which are a third of a block's work.
    """

    lr: ClassVar[float | None] = None
    trains_kernels: ClassVar[bool] = False

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

    def low_rank(self, weights: Weights, name: str) -> LowRank | None:
        """What is added to a dense layer, or None.

        Args:
            weights: The new weights of the block.
            name: One of `DENSE`.
        """
        return None
