"""What trains and what is frozen. The only place that sets `.trainable`.

Every weight belongs to one part: embeddings, a block, the pooler or the head.
A part trains as a whole or not at all.
"""

import dataclasses
import math

from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class Trainable:
    """Which parts train.

    Attributes:
        first, last: the blocks that train, counted from 1; `first` above
            `last` where none does.
        embeddings, pooler: bool.
    """

    first: int
    last: int
    embeddings: bool = False
    pooler: bool = True

    @classmethod
    def everything(cls, count):
        """All of an encoder of so many blocks."""
        return cls(1, count, embeddings=True)

    @classmethod
    def heads(cls, count):
        """Nothing of an encoder of so many blocks."""
        return cls(count + 1, count, pooler=False)

    @property
    def cut(self):
        """Blocks in the frozen prefix: no gradient is needed below it."""
        return 0 if self.embeddings else self.first - 1

    @property
    def only_heads(self):
        """Whether nothing of the encoder trains."""
        return not (self.embeddings or self.pooler or self.first <= self.last)

    def includes(self, part):
        """Whether a part, as in `Part.name`, trains."""
        if part == "embeddings":
            return self.embeddings
        if part == "pooler":
            return self.pooler
        if part.startswith("block "):
            return self.first <= int(part.removeprefix("block ")) <= self.last
        return True


def parse(trainable_layers, blocks, count):
    """Reads `--trainable_layers` and `--blocks` for an encoder of `count`.

    Raises:
        UserError: more blocks than there are.
    """
    if blocks:
        first, last = map(int, blocks.split("-"))
        if not 1 <= first <= last <= count:
            raise UserError(
                f"--blocks={blocks}: this encoder has blocks 1 to {count}; "
                "give a rising range of them."
            )
        return Trainable(first, last)
    if trainable_layers == "all":
        return Trainable.everything(count)
    last_k = int(trainable_layers)
    if last_k > count:
        raise UserError(
            f"--trainable_layers={last_k}: this encoder has {count} blocks. "
            f"Give 0 to {count}, or `all`, which trains the embeddings too."
        )
    return Trainable(count - last_k + 1, count)


def of_phase(name, count):
    """What the phase `head` or `all` trains of an encoder of `count`."""
    named = {"head": Trainable.heads, "all": Trainable.everything}
    return named[name](count)


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a network: its name and its weights."""

    name: str
    weights: tuple

    @property
    def parameters(self):
        """Number of scalars in its weights."""
        return sum(math.prod(weight.shape) for weight in self.weights)


def parts(network):
    """Every weight of a network in exactly one `Part`, bottom first."""
    encoder = network.encoder
    table = [("embeddings", encoder.embedding_layers)]
    table += [
        (f"block {number}", [block])
        for number, block in enumerate(encoder.blocks, 1)
    ]
    if network.uses_pooler:
        table.append(("pooler", [encoder.pooler]))
    table += [(f"head {name}", [head]) for name, head in network.heads.items()]
    return [
        Part(name, tuple(w for layer in layers for w in layer.weights))
        for name, layers in table
    ]


def freeze(network, trainable):
    """Sets `.trainable` of every layer, and returns the weights that train.

    Layer by layer: a frozen parent would win over its children. Call it
    before the optimizer is built and the step is traced.

    Raises:
        ValueError: a weight of the network belongs to no part.
    """
    known = set()
    weights = []
    for part in parts(network):
        trains = trainable.includes(part.name)
        for weight in part.weights:
            weight.trainable = trains
            known.add(id(weight))
            if trains:
                weights.append(weight)
    for layer in network.layers:
        for weight in layer.weights:
            if id(weight) not in known:
                raise ValueError(f"weight {weight.path} belongs to no part")
    return weights


def rate_scales(network, decay):
    """What each weight's learning rate is of the phase's, by `id`.

    Li, section 4.3: `decay` to the power of i - 1 for the i-th block from the
    top; pooler and heads have the whole rate. Embeddings have that of the
    lowest block, of which the paper says nothing.
    """
    blocks = len(network.encoder.blocks)

    def scale(part):
        if part == "embeddings":
            return decay ** (blocks - 1)
        if part.startswith("block "):
            return decay ** (blocks - int(part.removeprefix("block ")))
        return 1.0

    return {
        id(weight): scale(part.name)
        for part in parts(network)
        for weight in part.weights
    }


def frozen_weights(network, trainable):
    """The weights that must not move."""
    return [
        weight
        for part in parts(network)
        if not trainable.includes(part.name)
        for weight in part.weights
    ]


def describe(network, trainable):
    """A table of parts, parameters, and what trains, as text."""
    rows = [
        (part.name, part.parameters, trainable.includes(part.name))
        for part in parts(network)
    ]
    lines = [f"{'part':<16}{'parameters':>14}  trains"]
    lines += [
        f"{name:<16}{count:>14,}  {'yes' if trains else '-'}"
        for name, count, trains in rows
    ]
    total = sum(count for _, count, _ in rows)
    moving = sum(count for _, count, trains in rows if trains)
    lines.append(f"{'total':<16}{total:>14,}")
    lines.append(f"{'trainable':<16}{moving:>14,}  {moving / total:.1%}")
    return "\n".join(lines)
