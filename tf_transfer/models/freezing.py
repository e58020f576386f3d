"""What trains and what is frozen. The only file that sets `.trainable`.

Every weight belongs to one component: embeddings, a block, the pooler or a
head. A component trains as a whole or not at all.
"""

import dataclasses
import math
from typing import Any
from typing import Self
from typing import TYPE_CHECKING

from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    import keras

    from tf_transfer.models.network import Network


@dataclasses.dataclass(frozen=True)
class Trainable:
    """Which components train.

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
    def everything(cls, count: int) -> Self:
        """All of an encoder of so many blocks."""
        return cls(1, count, embeddings=True)

    @classmethod
    def heads(cls, count: int) -> Self:
        """Nothing of an encoder of so many blocks."""
        return cls(count + 1, count, pooler=False)

    @property
    def cut(self) -> int:
        """Blocks in the frozen prefix: no gradient is needed below it."""
        return 0 if self.embeddings else self.first - 1

    @property
    def only_heads(self) -> bool:
        """Whether nothing of the encoder trains."""
        return not (self.embeddings or self.pooler or self.first <= self.last)

    def includes(self, component: str) -> bool:
        """Whether a component, as in `Component.name`, trains."""
        if component == "embeddings":
            return self.embeddings
        if component == "pooler":
            return self.pooler
        if component.startswith("block "):
            number = int(component.removeprefix("block "))
            return self.first <= number <= self.last
        return True


def parse(trainable_layers: str, blocks: str, count: int) -> Trainable:
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


def trainable_in_phase(name: str, count: int) -> Trainable:
    """What the phase `head` or `all` trains, of an encoder of `count`."""
    named = {"head": Trainable.heads, "all": Trainable.everything}
    return named[name](count)


@dataclasses.dataclass(frozen=True)
class Component:
    """A component of a network: its name and its weights."""

    name: str
    weights: tuple[Any, ...]

    @property
    def parameters(self) -> int:
        """Number of scalars in its weights."""
        return sum(math.prod(weight.shape) for weight in self.weights)


def components(network: "Network") -> list[Component]:
    """Every weight of a network in exactly one component, bottom first."""
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
        Component(name, tuple(w for layer in layers for w in layer.weights))
        for name, layers in table
    ]


def freeze(network: "Network", trainable: Trainable) -> list[Any]:
    """Sets `.trainable` of every layer, and returns the weights that train.

    Layer by layer: a frozen parent would win over its children. Call it
    before the optimizer is built and the step is traced.

    Raises:
        ValueError: a weight of the network belongs to no component.
    """
    known = set()
    weights = []
    for component in components(network):
        trains = trainable.includes(component.name)
        for weight in component.weights:
            weight.trainable = trains
            known.add(id(weight))
            if trains:
                weights.append(weight)
    for layer in network.layers:
        for weight in layer.weights:
            if id(weight) not in known:
                raise ValueError(
                    f"weight {weight.path} belongs to no component"
                )
    return weights


def rate_scales(network: "Network", decay: float) -> dict[int, float]:
    """What each weight's learning rate is of the phase's, by `id`.

    Li, section 4.3: `decay` to the power of i - 1 for the i-th block from the
    top; pooler and heads have the whole rate. Embeddings have that of the
    lowest block, of which the paper says nothing.
    """
    blocks = len(network.encoder.blocks)

    def scale(part: str) -> float:
        if part == "embeddings":
            return decay ** (blocks - 1)
        if part.startswith("block "):
            return decay ** (blocks - int(part.removeprefix("block ")))
        return 1.0

    return {
        id(weight): scale(component.name)
        for component in components(network)
        for weight in component.weights
    }


def frozen_weights(network: "Network", trainable: Trainable) -> list[Any]:
    """The weights that must not move."""
    return [
        weight
        for component in components(network)
        if not trainable.includes(component.name)
        for weight in component.weights
    ]


def describe(network: "Network", trainable: Trainable) -> str:
    """A table of components, parameters, and what trains, as text."""
    rows = [
        (
            component.name,
            component.parameters,
            trainable.includes(component.name),
        )
        for component in components(network)
    ]
    lines = [f"{'component':<16}{'parameters':>14}  trains"]
    lines += [
        f"{name:<16}{count:>14,}  {'yes' if trains else '-'}"
        for name, count, trains in rows
    ]
    total = sum(count for _, count, _ in rows)
    moving = sum(count for _, count, trains in rows if trains)
    lines.append(f"{'total':<16}{total:>14,}")
    lines.append(f"{'trainable':<16}{moving:>14,}  {moving / total:.1%}")
    return "\n".join(lines)


def set_trainable(layer: "keras.Layer", trainable: bool) -> None:
    """Sets `.trainable` of a Keras layer or model and of all layers inside.

    TensorFlow skips an attribute that is set to the value it has already, and
    Keras' setter, which sets the layers inside, does not run then: a model that
    trains stays as it is, with frozen layers inside. So it is changed first.
    """
    layer.trainable = not trainable
    layer.trainable = trainable
