"""What trains and what is frozen. The only file that sets `.trainable`.

Every weight belongs to one component: embeddings, a block, the pooler or a
head. A frozen component stays as it is; inside of a trainable block, and of the
pooler, the method says which weights train.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, Self, TYPE_CHECKING

from tf_transfer.models.methods.base import Method
from tf_transfer.models.methods.full import FULL
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    import keras

    from tf_transfer.models.network import Network


@dataclasses.dataclass(frozen=True)
class Trainable:
    """Which components train, and what inside of them.

    Attributes:
        first, last: the blocks that train, counted from 1; `first` above
            `last` where none does.
        embeddings, pooler: bool.
        method: what trains inside of blocks and pooler.
        new_pooler: whether the pooler is as new as a head: then all of it
            trains, or nothing.
        untrained: names of weights that train nowhere, such as `bias`.
    """

    first: int
    last: int
    embeddings: bool = False
    pooler: bool = True
    method: Method = FULL
    new_pooler: bool = False
    untrained: tuple[str, ...] = ()

    @classmethod
    def everything(
        cls, count: int, method: Method = FULL, new_pooler: bool = False
    ) -> Self:
        """All of an encoder of so many blocks; in every block, of a method."""
        return cls(1, count, method == FULL, True, method, new_pooler)

    @classmethod
    def heads(cls, count: int, new_pooler: bool = False) -> Self:
        """Nothing of an encoder of so many blocks, but for a new pooler."""
        return cls(count + 1, count, pooler=new_pooler, new_pooler=new_pooler)

    @property
    def cut(self) -> int:
        """Blocks in the frozen prefix: no gradient is needed below it."""
        return 0 if self.embeddings else self.first - 1

    @property
    def has_prefix(self) -> bool:
        """Whether there is a frozen prefix whose output is worth storing.

        It may be the embeddings alone, but not where a method acts in every
        block: to store what they put out would save nothing.
        """
        return self.cut > 0 or not (self.embeddings or self.method != FULL)

    @property
    def only_heads(self) -> bool:
        """Whether nothing of the encoder trains."""
        return not (self.embeddings or self.pooler or self.first <= self.last)

    def includes(self, component: str) -> bool:
        """Whether a component, as in `Component.name`, is not frozen."""
        if component == "embeddings":
            return self.embeddings
        if component == "pooler":
            return self.pooler
        if component.startswith("block "):
            number = int(component.removeprefix("block "))
            return self.first <= number <= self.last
        return True

    def weights_of(self, component: "Component") -> list[Any]:
        """The weights of a component that train."""
        name = component.name
        if not self.includes(name):
            return []
        own = [w for w in component.own if w.name not in self.untrained]
        is_new = name == "pooler" and self.new_pooler
        if not is_new and (name == "pooler" or name.startswith("block ")):
            own = [w for w in own if self.method.trains(w.name)]
        return [*own, *component.added]


def parse(
    trainable_layers: str,
    blocks: str,
    count: int,
    method: Method = FULL,
    new_pooler: bool = False,
) -> Trainable:
    """Reads `--trainable_layers` and `--blocks` for an encoder of `count`.

    Args:
        trainable_layers, blocks: as the flags say.
        count: blocks of the encoder.
        method: what trains inside of them.
        new_pooler: whether the pooler is new.

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
        return Trainable(first, last, method=method, new_pooler=new_pooler)
    if trainable_layers == "all":
        return Trainable.everything(count, method, new_pooler)
    if trainable_layers == "head":
        return Trainable.heads(count, new_pooler)
    last_k = int(trainable_layers)
    if last_k > count:
        raise UserError(
            f"--trainable_layers={last_k}: this encoder has {count} blocks. "
            f"Give 0 to {count}, or `all`, which trains the embeddings too."
        )
    return Trainable(
        count - last_k + 1, count, method=method, new_pooler=new_pooler
    )


@dataclasses.dataclass(frozen=True)
class Component:
    """A component of a network.

    Attributes:
        name: `embeddings`, `block 1`, `pooler`, `head rte`.
        own: the weights that it has by itself.
        added: those that a method added to it.
    """

    name: str
    own: tuple[Any, ...]
    added: tuple[Any, ...] = ()

    @property
    def weights(self) -> tuple[Any, ...]:
        """All of them."""
        return self.own + self.added

    @property
    def is_block(self) -> bool:
        """Whether it is a block of the encoder."""
        return self.name.startswith("block ")

    @property
    def parameters(self) -> int:
        """Number of scalars in its weights."""
        return _count(self.weights)


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
    added = {
        f"block {number}": tuple(layer.weights)
        for number, layer in encoder.added.items()
    }
    return [
        Component(
            name,
            tuple(w for layer in layers for w in layer.weights),
            added.get(name, ()),
        )
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
        trained = trainable.weights_of(component)
        trains = {id(weight) for weight in trained}
        for weight in component.weights:
            weight.trainable = id(weight) in trains
            known.add(id(weight))
        weights += trained
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
    table = components(network)
    moving = {id(w) for one in table for w in trainable.weights_of(one)}
    return [w for one in table for w in one.weights if id(w) not in moving]


def count_trained(network: "Network", trainable: Trainable) -> int:
    """Number of scalars that train."""
    return sum(
        _count(trainable.weights_of(component))
        for component in components(network)
    )


def _count(weights: Iterable[Any]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)


def describe(network: "Network", trainable: Trainable) -> str:
    """A table of components, parameters, and what trains, as text."""
    rows = [
        (
            component.name,
            component.parameters,
            _count(trainable.weights_of(component)),
        )
        for component in components(network)
    ]
    lines = [f"{'component':<16}{'parameters':>14}  trains"]
    for name, count, trained in rows:
        said = f"{trained:,}" if trained else "-"
        said = "yes" if trained == count else said
        lines.append(f"{name:<16}{count:>14,}  {said}")
    total = sum(count for _, count, _ in rows)
    moving = sum(trained for *_, trained in rows)
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
