"""What an encoder computes, in floating-point operations counted from shapes.

A product of [a, b] and [b, c] is 2abc operations. Counted are the matrix
products of the blocks: a frozen block that runs has its forward pass; one that
trains has three times that (forward, and the gradients of its weights and of
its input), less what nobody needs: the gradient of the input of the lowest one,
and those of kernels that a method leaves as they are. What a method adds and
what a head computes is not counted.
"""

import dataclasses

from tf_transfer.models.freezing import Trainable


@dataclasses.dataclass(frozen=True)
class Shape:
    """Shape of an encoder.

    Attributes:
        blocks: how many.
        hidden: width of the hidden states.
        heads: attention heads of a block.
        inner: width inside the feed-forward layers.
        is_gated: whether the first of these has a gate for each unit.
    """

    blocks: int
    hidden: int
    heads: int
    inner: int
    is_gated: bool = False


def count_block(
    shape: Shape, length: int, cls_only: bool = False
) -> tuple[int, int]:
    """Forward operations of one block on one text.

    Args:
        shape: of the encoder.
        length: tokens of the text, padding included.
        cls_only: whether only [CLS] is computed: then each head weighs the
            states of all tokens in place of their keys and values.

    Returns:
        The operations on the block's input, and the rest.
    """
    h = shape.hidden
    outputs = 1 if cls_only else length
    projections = 3 * 2 * h * h * outputs
    attention = 4 * outputs * length * h
    products = 3 if shape.is_gated else 2
    output = 2 * outputs * (h * h + products * h * shape.inner)
    if cls_only:
        return projections + shape.heads * attention, output
    return projections, attention + output


def count_forward(
    shape: Shape,
    length: int,
    cls_only: bool = False,
    bottom: int = 0,
    top: int | None = None,
) -> int:
    """Operations of running blocks on one text, without training.

    Args:
        shape, length: see `count_block`.
        cls_only: whether the encoder's last block computes [CLS] only.
        bottom, top: the blocks above `bottom`, up to `top`, are run; None for
            all of them.
    """
    last = shape.blocks if top is None else top
    return sum(
        sum(count_block(shape, length, cls_only and number == shape.blocks))
        for number in range(bottom + 1, last + 1)
    )


def count_training(
    shape: Shape,
    length: int,
    cls_only: bool,
    trainable: Trainable,
    is_cached: bool,
) -> int:
    """Operations of a training step per text.

    Args:
        shape, length, cls_only: see `count_forward`.
        trainable: what trains.
        is_cached: whether the output of the frozen prefix is read, not run.
    """
    lowest = trainable.cut + 1
    total = 0
    if not is_cached:
        total = count_forward(shape, length, cls_only, 0, trainable.cut)
    for number in range(lowest, shape.blocks + 1):
        is_short = cls_only and number == shape.blocks
        projections, rest = count_block(shape, length, is_short)
        if not trainable.includes(f"block {number}"):
            total += 2 * (projections + rest)  # passes gradients down
        else:
            spares_input = number == lowest and not trainable.embeddings
            passes = 3 if trainable.method.trains_kernels else 2
            total += (passes - spares_input) * projections + passes * rest
    return total
