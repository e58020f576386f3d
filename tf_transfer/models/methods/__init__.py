"""Methods of training inside the trainable blocks (`--method`), by name.

To add a method, write a subclass of `base_method.Method` in a file of this
folder, and give it a row in `METHODS`. `register` adds a method outside of this
package. Its options are the settings whose names begin with its name.

Needs no TensorFlow, so that runs are named and checked without it.
"""

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Protocol

from tf_transfer.models.methods.base_method import Method
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

# By name: the module, absolute or relative to this package, and the class.
METHODS: dict[str, str] = {
    "full": ".own_weights:Full",
    "lora": ".lora:LoRA",
    "bias": ".own_weights:Bias",
    "norm": ".own_weights:Norm",
    "contrastive": ".own_weights:Contrastive",
}


def register(name: str, path: str) -> None:
    """Adds a method that lives outside of this package.

    Args:
        name: Its name, as in `--method`.
        path: Its class, such as `my_package.my_method:MyMethod`.

    Raises:
        ValueError: Another method has the name.
    """
    registered = METHODS.setdefault(name, path)
    if registered != path:
        raise ValueError(f"the method {name!r} is {registered}")


def load(name: str) -> type[Method]:
    """The class of a method.

    Raises:
        UserError: There is no such method.
    """
    if name not in METHODS:
        raise UserError(
            f"--method={cut(name)}: there is no such method. Give one of "
            f"{', '.join(METHODS)}."
        )
    module, _, attribute = METHODS[name].partition(":")
    cls: type[Method] = getattr(
        importlib.import_module(module, __name__), attribute
    )
    return cls


class MethodSettings(Protocol):
    """Settings that name a method; its options are further fields."""

    @property
    def method(self) -> str:
        """The name of the method."""

    @property
    def phases(self) -> Sequence[str]:
        """What trains in each phase."""


def from_settings(settings: MethodSettings) -> Method:
    """The method that settings ask for, with its options.

    Raises:
        UserError: There is no such method, an option is invalid, or no block
            trains.
    """
    cls = load(settings.method)
    method = cls(
        **{
            field.name: getattr(settings, f"{settings.method}_{field.name}")
            for field in dataclasses.fields(cls)
        }
    )
    if settings.method != "full" and {*settings.phases} <= {"0", "head"}:
        raise UserError(
            f"--method={settings.method}: acts in the blocks that train, and "
            "this run trains none. Leave it out, or train some."
        )
    return method
