"""What an epoch costs in floating-point operations, counted from shapes.

A product of [a, b] and [b, c] is 2abc operations. Counted are the matrix
products of the blocks: a frozen block that runs has its forward pass; one that
trains has three times that (forward, and the gradients of its weights and of
its input), less what nobody needs: the gradient of the input of the lowest one,
and those of kernels that a method leaves as they are. What a method adds is
small compared with these, and is not counted.
"""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tf_transfer.models.freezing import Trainable

if TYPE_CHECKING:  # both load TensorFlow
    from tf_transfer.data.batches import BatchPlan
    from tf_transfer.models.encoder import Encoder


@dataclasses.dataclass(frozen=True)
class Shape:
    """Shape of an encoder.

    Attributes:
        blocks: how many.
        hidden: width of the hidden states.
        heads: attention heads of a block.
        inner: width inside the feed-forward layers.
    """

    blocks: int
    hidden: int
    heads: int
    inner: int

    @classmethod
    def from_encoder(cls, encoder: "Encoder") -> "Shape":
        """Reads the shape of an encoder."""
        block = encoder.blocks[0]
        return cls(
            len(encoder.blocks),
            encoder.hidden,
            block.num_heads,
            block.intermediate_dim,
        )


def count_block_operations(
    shape: Shape, texts: int, length: int, cls_only: bool = False
) -> tuple[int, int]:
    """Forward operations of one block.

    Args:
        shape: of the encoder.
        texts, length: of the padded batch.
        cls_only: whether only [CLS] is computed: then each head weighs the
            states of all tokens in place of their keys and values.

    Returns:
        The operations on the block's input, and the rest.
    """
    h = shape.hidden
    outputs = texts if cls_only else texts * length
    projections = 3 * 2 * h * h * outputs
    attention = 4 * outputs * length * h
    output = 2 * outputs * (h * h + 2 * h * shape.inner)
    if cls_only:
        return projections + shape.heads * attention, output
    return projections, attention + output


def _count_plan_operations(
    shape: Shape, plan: "BatchPlan", cls_only: bool
) -> Iterator[tuple[int, int, int]]:
    """Forward operations of each batch in each block.

    Args:
        shape: of the encoder.
        plan: the batches.
        cls_only: see `count_block_operations`; of the encoder's top block.

    Yields:
        The block's number, and what `count_block_operations` returns.
    """
    texts = plan.rows.shape[1]
    for length in plan.lengths.tolist():
        for number in range(1, shape.blocks + 1):
            is_short = cls_only and number == shape.blocks
            yield (
                number,
                *count_block_operations(shape, texts, length, is_short),
            )


def count_forward_operations(
    shape: Shape, plan: "BatchPlan", bottom: int, top: int, cls_only: bool
) -> int:
    """Operations of running blocks over texts, without training.

    Args:
        shape, plan, cls_only: see `_count_plan_operations`.
        bottom, top: the blocks above `bottom`, up to `top`, are run.
    """
    return sum(
        projections + rest
        for number, projections, rest in _count_plan_operations(
            shape, plan, cls_only
        )
        if bottom < number <= top
    )


def count_epoch_operations(
    shape: Shape,
    plan: "BatchPlan",
    trainable: Trainable,
    cls_only: bool,
    cached: bool,
) -> int:
    """Operations of a training epoch.

    Args:
        shape, plan, cls_only: see `_count_plan_operations`.
        trainable: what trains.
        cached: whether the frozen prefix is read, not run.
    """
    total = 0
    lowest = trainable.cut + 1
    for number, projections, rest in _count_plan_operations(
        shape, plan, cls_only
    ):
        if number < lowest:
            total += 0 if cached else projections + rest
        elif not trainable.includes(f"block {number}"):
            total += 2 * (projections + rest)  # passes gradients down
        else:
            spares_input = number == lowest and not trainable.embeddings
            passes = 3 if trainable.method.trains_kernels else 2
            total += (passes - spares_input) * projections + passes * rest
    return total
