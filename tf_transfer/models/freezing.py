"""Trainable and frozen weights. The only file that sets `.trainable`.

Every weight belongs to one component: embeddings, a block, the pooler or a
head. A frozen component stays as it is; inside of a trainable block, and of the
pooler, the method says which weights train.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tf_transfer.models.methods.base_method import Method
from tf_transfer.models.methods.own_weights import FULL
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    import keras

    from tf_transfer.models.network import Network


@dataclasses.dataclass(frozen=True)
class Trainable:
    """Which components train, and what inside of them.

    Attributes:
        first, last: The blocks that train, counted from 1; `first` above
            `last` where none does.
        embeddings, pooler: bool.
        method: What trains inside of blocks and pooler.
        new_pooler: Whether the pooler is as new as a head: then all of it
            trains, or nothing.
        untrained: Names of weights that train nowhere, such as `bias`.
    """

    first: int
    last: int
    embeddings: bool = False
    pooler: bool = True
    method: Method = FULL
    new_pooler: bool = False
    untrained: tuple[str, ...] = ()

    @property
    def cut(self) -> int:
        """Blocks in the frozen prefix: no gradient is needed below it."""
        return 0 if self.embeddings else self.first - 1

    @property
    def has_prefix(self) -> bool:
        """Whether there is a frozen prefix whose output is worth storing.

        It may be the embeddings alone, but not where a method acts in every
        block: storing their output would save nothing.
        """
        return self.cut > 0 or not (self.embeddings or self.method != FULL)

    @property
    def only_heads(self) -> bool:
        """Whether nothing of the encoder trains."""
        return not (self.embeddings or self.pooler or self.first <= self.last)

    def includes(self, component: str) -> bool:
        """Whether a component, as in `Component.name`, is not frozen."""
        if component in ("embeddings", "pooler"):
            return bool(getattr(self, component))
        kind, _, number = component.partition(" ")
        return kind == "head" or self.first <= int(number) <= self.last

    def weights_of(self, component: "Component") -> list["keras.Variable"]:
        """The weights of a component that train."""
        name = component.name
        if not self.includes(name):
            return []
        weights = [
            weight
            for layer in component.layers
            for weight in layer.weights
            if weight.name not in self.untrained
        ]
        is_new = name == "pooler" and self.new_pooler
        if not is_new and name.startswith(("block ", "pooler")):
            weights = [w for w in weights if self.method.trains(w.name)]
        return weights + [w for layer in component.added for w in layer.weights]


def parse(
    trainable_layers: str,
    blocks: str,
    count: int,
    method: Method = FULL,
    new_pooler: bool = False,
) -> Trainable:
    """Reads `--trainable_layers` and `--blocks` for an encoder of `count`.

    Args:
        trainable_layers: The flag, or the name of a phase: `head` or `all`.
        blocks: The flag.
        count: Blocks of the encoder.
        method: What trains inside of them.
        new_pooler: Whether the pooler is new.

    Raises:
        UserError: More blocks than there are.
    """
    if blocks:
        first, last = map(int, blocks.split("-"))
        if not 1 <= first <= last <= count:
            raise UserError(
                f"--blocks={blocks}: this encoder has blocks 1 to {count}; "
                "give a rising range of them."
            )
        return Trainable(first, last, method=method, new_pooler=new_pooler)
    if trainable_layers == "head":
        return Trainable(
            count + 1, count, pooler=new_pooler, new_pooler=new_pooler
        )
    trains_all = trainable_layers == "all"
    last_k = count if trains_all else int(trainable_layers)
    if last_k > count:
        raise UserError(
            f"--trainable_layers={last_k}: this encoder has {count} blocks. "
            f"Give 0 to {count}, or `all`, which trains the embeddings too."
        )
    return Trainable(
        count - last_k + 1,
        count,
        embeddings=trains_all and method == FULL,
        method=method,
        new_pooler=new_pooler,
    )


@dataclasses.dataclass(frozen=True)
class Component:
    """A component of a network.

    Attributes:
        name: `embeddings`, `block 1`, `pooler`, `head rte`.
        layers: Its own.
        added: Those that a method added to it.
    """

    name: str
    layers: Sequence["keras.Layer"]
    added: Sequence["keras.Layer"]

    @property
    def weights(self) -> list["keras.Variable"]:
        """All of them."""
        return [
            weight
            for layer in (*self.layers, *self.added)
            for weight in layer.weights
        ]

    @property
    def parameters(self) -> int:
        """Number of scalars in its weights."""
        return _count(self.weights)


def components(network: "Network") -> list[Component]:
    """Every layer of a network in exactly one component, bottom first."""
    encoder = network.encoder
    table = [("embeddings", encoder.embedding_layers)]
    table += [
        (f"block {number}", [block])
        for number, block in enumerate(encoder.blocks, 1)
    ]
    if network.uses_pooler:
        table.append(("pooler", [encoder.pooler]))
    table += [(f"head {name}", [head]) for name, head in network.heads.items()]
    added = {f"block {n}": [layer] for n, layer in encoder.added.items()}
    return [
        Component(name, layers, added.get(name, [])) for name, layers in table
    ]


def find_trained(
    network: "Network", trainables: Sequence[Trainable]
) -> dict[str, "keras.Variable"]:
    """The weights that any of `trainables` trains, by path, bottom first.

    Raises:
        ValueError: Two of them share a path.
    """
    weights = {
        id(weight): weight
        for component in components(network)
        for trainable in trainables
        for weight in trainable.weights_of(component)
    }
    by_path = {weight.path: weight for weight in weights.values()}
    if len(by_path) < len(weights):
        raise ValueError("two weights of the network share a path")
    return by_path


def freeze(network: "Network", trainable: Trainable) -> list["keras.Variable"]:
    """Sets `.trainable` of every weight, and returns those that train.

    Call it before the optimizer is built and the step is traced.

    Raises:
        UserError: The method trains no weight of the blocks, which have none
            of its kind.
    """
    weights = find_trained(network, [trainable])
    blocks = [
        component
        for component in components(network)
        if component.name.startswith("block ")
        and trainable.includes(component.name)
    ]
    kinds = ("kernel", "bias", "gamma", "beta")
    trains_own = any(map(trainable.method.trains, kinds))
    if blocks and trains_own and not any(map(trainable.weights_of, blocks)):
        name = type(trainable.method).__name__.lower()
        raise UserError(
            f"--method={name}: the blocks of this encoder have no such "
            "weights. Give another method."
        )
    for weight in network.weights:
        weight.trainable = weights.get(weight.path) is weight
    return [*weights.values()]


def rate_scales(
    network: "Network", decay: float, head_scale: float = 1.0
) -> dict[int, float]:
    """The factor of each weight's learning rate, by `id`.

    Li, section 4.3: `decay` to the power of i - 1 for the i-th block from the
    top; pooler and heads have the full rate. Embeddings have the rate of the
    lowest block, which is our choice: the paper does not mention them.

    Args:
        network: Whose weights they are.
        decay: From block to block.
        head_scale: A further factor of heads.
    """
    blocks = len(network.encoder.blocks)
    number_of = {"embeddings": 1}
    number_of |= {f"block {number}": number for number in range(1, blocks + 1)}
    return {
        id(weight): decay ** (blocks - number_of.get(component.name, blocks))
        * (head_scale if component.name.startswith("head ") else 1.0)
        for component in components(network)
        for weight in component.weights
    }


def count_trained(network: "Network", trainable: Trainable) -> int:
    """Number of scalars that train."""
    return _count(find_trained(network, [trainable]).values())


def _count(weights: Iterable["keras.Variable"]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)


def describe_parameters(network: "Network", trainable: Trainable) -> str:
    """A table of components, parameters, and what trains, as text."""
    lines = [f"{'component':<16}{'parameters':>14}  trains"]
    for component in components(network):
        count = component.parameters
        trained = _count(trainable.weights_of(component))
        answer = {0: "-", count: "yes"}.get(trained, f"{trained:,}")
        lines.append(f"{component.name:<16}{count:>14,}  {answer}")
    total, moving = _count(network.weights), count_trained(network, trainable)
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


def freeze_blocks(model: "keras.Model", trainable_layers: int | str) -> None:
    """Freezes a Keras model below the last blocks of its backbone.

    The last blocks, the pooler and all layers outside of the backbone train.
    With "all" everything does. Keras notices a change of `trainable` only when
    a model is compiled: compile it afterwards.

    Args:
        model: A BERT or RoBERTa text classifier of keras-hub, or a functional
            model that calls such a backbone as one of its layers.
        trainable_layers: Number of last blocks, from 0 to L, or "all".

    Raises:
        TypeError: The model has not one backbone.
        ValueError: The backbone has no such number of blocks.

    Examples:
        >>> import keras_hub
        >>> import tf_transfer
        >>> backbone = keras_hub.models.BertBackbone(
        ...     vocabulary_size=100,
        ...     num_layers=3,
        ...     num_heads=2,
        ...     hidden_dim=8,
        ...     intermediate_dim=16,
        ... )
        >>> model = keras_hub.models.BertTextClassifier(
        ...     backbone, num_classes=2, preprocessor=None
        ... )
        >>> tf_transfer.freeze_blocks(model, 1)
        >>> [block.trainable for block in backbone.transformer_layers]
        [False, False, True]
    """
    backbones = [
        layer for layer in model.layers if hasattr(layer, "transformer_layers")
    ]
    if len(backbones) != 1:
        raise TypeError(
            f"model: expected 1 BERT or RoBERTa backbone, got {len(backbones)}."
        )
    [backbone] = backbones
    blocks = backbone.transformer_layers
    if trainable_layers != "all" and (
        type(trainable_layers) is not int
        or not 0 <= trainable_layers <= len(blocks)
    ):
        raise ValueError(
            f"trainable_layers={trainable_layers!r}: expected a number from 0 "
            f'to {len(blocks)}, or "all".'
        )
    # The model first: a frozen parent would win over its layers.
    set_trainable(model, True)
    if trainable_layers == "all":
        return
    top = blocks[len(blocks) - int(trainable_layers) :]
    pooler = getattr(backbone, "pooled_dense", None)
    for layer in backbone.layers:
        set_trainable(layer, layer in top or layer is pooler)
