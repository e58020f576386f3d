"""The floating-point operations of an encoder, counted from shapes.

A product of [a, b] and [b, c] is 2abc operations. Counted are the matrix
products of the blocks: a frozen block that runs has its forward pass; one that
trains has three times that (forward, and the gradients of its weights and of
its input), less what nobody needs: the gradient of the input of the lowest one,
and those of kernels that a method leaves as they are. What a method adds and
what a head computes is not counted, nor what a batch computes once for all of
its texts, such as DeBERTa's keys of distances.
"""

import dataclasses

from tf_transfer.models.freezing import Trainable


@dataclasses.dataclass(frozen=True)
class BlockKind:
    """The differences of a block from BERT's, for counting.

    Attributes:
        is_gated: Whether the first feed-forward layer has a gate for each unit.
        is_norm_first: Whether a LayerNorm precedes a block's projections, so
            that these pass gradients also in the lowest block that trains.
        computes_keys: Whether a block computes keys at [CLS], too.
        position_products: Products of queries or keys with the states of all
            distances, of which there are two for each token.
    """

    is_gated: bool = False
    is_norm_first: bool = False
    computes_keys: bool = False
    position_products: int = 0


BERT_KIND = BlockKind()


@dataclasses.dataclass(frozen=True)
class Shape:
    """Shape of an encoder.

    Attributes:
        blocks: How many.
        hidden: Width of the hidden states.
        heads: Attention heads of a block.
        inner: Width inside the feed-forward layers.
        kind: What its blocks compute.
    """

    blocks: int
    hidden: int
    heads: int
    inner: int
    kind: BlockKind = BERT_KIND


def count_block(
    shape: Shape, length: int, cls_only: bool = False
) -> tuple[int, int]:
    """Forward operations of one block on one text.

    Args:
        shape: Of the encoder.
        length: Tokens of the text, padding included.
        cls_only: Whether only [CLS] is computed: then each head weighs the
            states of all tokens in place of their values, and of their keys
            unless these are computed.

    Returns:
        The operations on the block's input, and the rest.
    """
    h = shape.hidden
    outputs = 1 if cls_only else length
    projections = 3 * 2 * h * h * outputs
    weighing = 2 * outputs * length * h  # the scores, and the mixing
    products = 3 if shape.kind.is_gated else 2
    output = 2 * outputs * (h * h + products * h * shape.inner)
    if not cls_only:
        distances = shape.kind.position_products * 2 * weighing
        return projections, 2 * weighing + distances + output
    output += shape.kind.position_products * weighing
    if shape.kind.computes_keys:
        projections += 2 * h * h * (length - 1)
        return projections + (1 + shape.heads) * weighing, output
    return projections + 2 * shape.heads * weighing, output


def count_forward(
    shape: Shape,
    length: int,
    cls_only: bool = False,
    bottom: int = 0,
    top: int | None = None,
) -> int:
    """Operations of running blocks on one text, without training.

    Args:
        shape: See `count_block`.
        length: See `count_block`.
        cls_only: Whether the encoder's last block computes [CLS] only.
        bottom: The blocks above it are run.
        top: The last block that is run; None for the last of all.
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
        shape: See `count_forward`.
        length: See `count_forward`.
        cls_only: See `count_forward`.
        trainable: What trains.
        is_cached: Whether the output of the frozen prefix is read, not run.
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
            passes_down = trainable.embeddings or shape.kind.is_norm_first
            spares_input = number == lowest and not passes_down
            passes = 3 if trainable.method.trains_kernels else 2
            total += (passes - spares_input) * projections + passes * rest
    return total
