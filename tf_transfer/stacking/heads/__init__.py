"""The heads of this paper, by kind of task and by name.

To add a head, write its class (see `models.heads.base_head.Head`) in a file of
this folder, and give it a row in `HEADS`, and its options rows in `SIZES`,
which become flags. A head outside of this package is added by `register`.

TensorFlow is imported when a head's class is loaded and not before, so that
settings are checked and runs are named without it.
"""

import importlib
from typing import NamedTuple, TYPE_CHECKING

from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.models.heads.base_head import Head

# By kind of task (`--task`) and name (`--head`): the module, absolute or
# relative to this package, and the class in it.
HEADS: dict[str, dict[str, str]] = {
    "ner": {
        "dense": "tf_transfer.models.heads.dense:TokenDenseHead",
        "bilstm": ".bilstm:BiLSTMHead",
    },
    "text": {
        "dense": "tf_transfer.models.heads.dense:DenseHead",
        "densenet": ".densenet:DenseNetHead",
        "highway": ".highway:HighwayLSTMHead",
    },
    "pairs": {
        "dense": "tf_transfer.models.heads.dense:DenseHead",
        "bimpm": ".bimpm:BiMPMHead",
        "bimpm_without_context": ".bimpm:BiMPMWithoutContextHead",
        "sim_transformer": ".sim_transformer:SimTransformerHead",
    },
}


class Size(NamedTuple):
    """An argument of heads that sets their size: a flag of its name gives it.

    Attributes:
        heads: The names of the heads that have it.
        default, least, most: Of its values.
        help: The end of the flag's help text.
        unnamed: The value at which the keys of runs lack it.
    """

    heads: tuple[str, ...]
    default: int
    help: str
    least: int = 1
    most: int = 2**14
    unnamed: int = -1


SIZES = {
    "inner_units": Size(
        ("dense",),
        0,
        "width of the first of its two layers (0: the encoder's).",
        least=0,
    ),
    "lstm_units": Size(("bilstm", "highway"), 256, "units in each direction."),
    "lstm_layers": Size(("bilstm",), 1, "layers, one on the other.", most=100),
    "reads_embeddings": Size(
        ("densenet",),
        0,
        "1 reads the encoder's embeddings and [CLS] of its last block, 0 all "
        "states of that block.",
        least=0,
        most=1,
        unnamed=0,
    ),
    "growth": Size(("densenet",), 64, "channels of a convolution."),
    "kernel": Size(("densenet",), 3, "tokens that a convolution reads."),
    "perspectives": Size(
        ("bimpm", "bimpm_without_context", "sim_transformer"),
        5,
        "perspectives of each matching.",
    ),
    "context_units": Size(
        ("bimpm", "sim_transformer"),
        100,
        "units of the first BiLSTM, in each direction (0: none).",
        least=0,
    ),
    "aggregation_units": Size(
        ("bimpm", "bimpm_without_context"),
        100,
        "units of the last BiLSTM, in each direction.",
    ),
    "transformer_units": Size(
        ("sim_transformer",), 256, "width of its blocks.", least=8
    ),
    "transformer_layers": Size(
        ("sim_transformer",), 1, "its blocks.", most=100
    ),
    "transformer_heads": Size(
        ("sim_transformer",), 4, "attention heads of a block.", most=100
    ),
}


def register(task_kind: str, name: str, path: str) -> None:
    """Adds a head that lives outside of this package.

    Args:
        task_kind: The kind of task it is for: `ner`, `text`, `pairs`, or one
            of your own.
        name: Its name, as in `--head`.
        path: Its class, such as `my_package.my_head:MyHead`.

    Raises:
        ValueError: Another head of this task kind has the name.
    """
    registered = HEADS.setdefault(task_kind, {}).setdefault(name, path)
    if registered != path:
        raise ValueError(
            f"the head {name!r} of task kind {task_kind!r} is {registered}"
        )


def check(task_kind: str, head: str) -> None:
    """Raises `UserError` where a head does not fit a task or does not exist."""
    if head in HEADS[task_kind]:
        return
    fitting = [f"--task={kind}" for kind in HEADS if head in HEADS[kind]]
    reason = (
        f"fits {' and '.join(fitting)}" if fitting else "there is no such head"
    )
    raise UserError(
        f"--head={head}: {reason}. With --task={task_kind}, give one of "
        f"{', '.join(HEADS[task_kind])}."
    )


def is_foreign(task_kind: str, head: str) -> bool:
    """Whether a head's class is not of this package."""
    return not HEADS[task_kind][head].startswith((".", "tf_transfer."))


def load(task_kind: str, head: str) -> type["Head"]:
    """The class of a head. Imports TensorFlow.

    Raises:
        UserError: The head does not fit the task or does not exist.
    """
    check(task_kind, head)
    module, _, name = HEADS[task_kind][head].partition(":")
    cls: type[Head] = getattr(importlib.import_module(module, __name__), name)
    return cls
