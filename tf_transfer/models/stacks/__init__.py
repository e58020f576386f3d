"""The heads of "To Tune or Not To Tune?", arXiv 1907.05338, by task and name.

"Stack" is the paper's word for a head that is large. All of them are Keras
layers that share the interface of `head.Head`.
"""

import dataclasses

from tf_transfer.errors import UserError
from tf_transfer.models.stacks.bilstm import BiLSTMHead
from tf_transfer.models.stacks.bimpm import BiMPMHead
from tf_transfer.models.stacks.dense import DenseHead
from tf_transfer.models.stacks.densenet import DenseNetHead
from tf_transfer.models.stacks.highway import HighwayLSTMHead
from tf_transfer.models.stacks.sim_transformer import SimTransformerHead


@dataclasses.dataclass(frozen=True)
class Choice:
    """A head that a task can have: its class, and sizes other than usual."""

    layer: type
    sizes: dict = dataclasses.field(default_factory=dict)

    @property
    def sides(self):
        """Texts of an example that are run each by itself."""
        return self.layer.sides


# By task and name, as in `--task` and `--head`. `dense` is that of the
# finetune-only strategy.
HEADS = {
    "ner": {
        "dense": Choice(DenseHead, {"pooling": "tokens"}),
        "bilstm": Choice(BiLSTMHead),
    },
    "text": {
        "dense": Choice(DenseHead),
        "densenet": Choice(DenseNetHead),
        "highway": Choice(HighwayLSTMHead),
    },
    "pairs": {
        "dense": Choice(DenseHead),
        "bimpm": Choice(BiMPMHead),
        "bimpm_without_context": Choice(BiMPMHead, {"context_units": 0}),
        "sim_transformer": Choice(SimTransformerHead),
    },
}


def choose(task, head):
    """The `Choice` of a task by a head's name.

    Args:
        task: `ner`, `text` or `pairs`.

    Raises:
        UserError: the head does not fit the task, or there is none.
    """
    if head in HEADS[task]:
        return HEADS[task][head]
    fits = [f"--task={other}" for other in HEADS if head in HEADS[other]]
    reason = f"fits {' and '.join(fits)}" if fits else "is no head"
    raise UserError(
        f"--head={head}: {reason}. With --task={task}, give one of "
        f"{', '.join(HEADS[task])}."
    )


def build(task, head, units, hidden, dropout, seed, dtype, **kwargs):
    """A head, with its weights.

    Args:
        task, head: see `choose`.
        units: output units.
        hidden: width of the encoder's states.
        dropout, seed, dtype, others: see `head.Head`.

    Raises:
        UserError: the head does not fit the task, or there is none.
    """
    choice = choose(task, head)
    options = {**choice.sizes, **kwargs}
    return choice.layer(units, hidden, dropout, seed, dtype, **options)
