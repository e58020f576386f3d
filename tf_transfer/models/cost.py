"""What an epoch costs in floating-point operations, counted from shapes.

A product of [a, b] and [b, c] is 2abc operations. Counted are the matrix
products of the blocks: a frozen block that runs has its forward pass; one that
trains has three times that (forward, and the gradients of its weights and of
its input), less what nobody needs: the gradient of the input of the lowest one.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    """Of an encoder: its blocks, their width, heads and inner width."""

    blocks: int
    hidden: int
    heads: int
    inner: int

    @classmethod
    def of(cls, encoder):
        """The shape of an `Encoder`."""
        block = encoder.blocks[0]
        return cls(
            len(encoder.blocks),
            encoder.hidden,
            block.num_heads,
            block.intermediate_dim,
        )


def block_operations(shape, texts, length, first_only=False):
    """Forward operations of one block: (projections of the input, the rest).

    Args:
        texts, length: of the padded batch.
        first_only: whether only [CLS] is computed above keys and values.
    """
    h = shape.hidden
    tokens = texts * length
    asked = texts if first_only else tokens  # rows that have an output
    projections = 2 * h * h * (2 * tokens + asked)
    attention = 4 * asked * length * h
    output = 2 * asked * (h * h + 2 * h * shape.inner)
    return projections, attention + output


def forward_operations(shape, plan, bottom, top, first_only):
    """Operations of running blocks over texts, without training.

    Args:
        plan: `batches.Plan`.
        bottom, top: the blocks above `bottom`, up to `top`, are run.
        first_only: see `block_operations`; of the encoder's top block.
    """
    total = 0
    texts = plan.rows.shape[1]
    for length in plan.lengths.tolist():
        for number in range(bottom + 1, top + 1):
            is_top = first_only and number == shape.blocks
            total += sum(block_operations(shape, texts, length, is_top))
    return total


def epoch_operations(shape, plan, trainable, first_only, cached):
    """Operations of an epoch.

    Args:
        plan: `batches.Plan`.
        trainable: `split.Trainable`.
        first_only: whether the top block computes only [CLS].
        cached: whether the frozen prefix is read, not run.
    """
    total = 0
    texts = plan.rows.shape[1]
    for length in plan.lengths.tolist():
        for number in range(1, shape.blocks + 1):
            top = first_only and number == shape.blocks
            projections, rest = block_operations(shape, texts, length, top)
            if number <= trainable.cut:
                total += 0 if cached else projections + rest
            elif not trainable.includes(f"block {number}"):
                total += 2 * (projections + rest)  # passes gradients down
            else:
                lowest = number == trainable.cut + 1
                lowest = lowest and not trainable.embeddings
                total += (2 if lowest else 3) * projections + 3 * rest
    return total
