"""JSON that this package wrote, read back: of the declared shape, or damaged.

A shape is built of what JSON holds:

    str, int, float, bool, None   of that type; an int is a float, too
    (int, None)                   any of these
    [float]                       a list of such
    {"a": int, "b?": str}         an object with these keys, `b` may be missing;
                                  it may have others
    {str: float}                  an object with any keys, and such values
    object                        anything
"""

import json
import math
from typing import Any

from tf_transfer.utils.errors import UserError

MOST_QUOTED = 40  # characters of a value that a message quotes
QUICK = (str, bool, int)  # types that any value of fits; a float may be nan


class Damaged(UserError):
    """A file of ours is not as it was written: names the file and the field."""


def read(path: str, shape: Any) -> Any:
    """The content of a JSON file.

    Raises:
        Damaged: it is not JSON, or of another shape.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return parse(path, file.read(), shape)


def read_lines(path: str, shape: Any) -> list[Any]:
    """The content of a file with a JSON value a line; see `read`."""
    with open(path, "rb") as file:
        return [
            parse(f"{path}, line {number}", line, shape)
            for number, line in enumerate(file, 1)
        ]


def parse(where: str, text: bytes, shape: Any) -> Any:
    """The value that a JSON text stands for.

    Args:
        where: the file, for messages.
        text: in UTF-8.
        shape: see above.

    Raises:
        Damaged: it is not JSON, or of another shape.
    """
    try:
        value = json.loads(text.decode(), parse_constant=_refuse_constant)
        check(value, shape)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where}: is damaged ({error}).") from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"holds {name}")


def check(value: Any, shape: Any) -> None:
    """Raises `ValueError`, naming the field, where a value has another shape.

    Args:
        value: what `json.loads` returned.
        shape: see above.
    """
    shapes = shape if isinstance(shape, tuple) else (shape,)
    for one in shapes:
        if isinstance(value, dict) and isinstance(one, dict):
            _check_object(value, one)
            return
        if isinstance(value, list) and isinstance(one, list):
            for number, element in enumerate(value):
                _check_field(number, element, one[0])
            return
        if _is_plain(value, one):
            return
    quoted = repr(value)
    if len(quoted) > MOST_QUOTED:
        quoted = f"{quoted[:MOST_QUOTED]} ..."
    expected = " or ".join(map(_describe, shapes))
    raise _Misfit(f"is {quoted}, not {expected}")


class _Misfit(ValueError):
    """What is wrong with a value.

    Attributes:
        path: to the value, from the innermost field outwards.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(reversed(self.path)) or 'it'}: {self.args[0]}"


def _check_field(name: str | int, value: Any, shape: Any) -> None:
    if type(value) is shape and shape in QUICK:
        return
    try:
        check(value, shape)
    except _Misfit as error:
        error.path.append(str(name))
        raise


def _check_object(value: dict[str, Any], shape: dict[Any, Any]) -> None:
    if str in shape:
        for name, element in value.items():
            _check_field(name, element, shape[str])
        return
    for key, element_shape in shape.items():
        name = key.removesuffix("?")
        if name in value:
            _check_field(name, value[name], element_shape)
        elif name == key:
            missing = _Misfit("is missing")
            missing.path.append(name)
            raise missing


def _is_plain(value: Any, shape: Any) -> bool:
    """Whether a value has a shape without fields."""
    if shape is None or shape is object:
        return value is shape or shape is object
    if not isinstance(shape, type):
        return False
    if isinstance(value, bool):
        return shape is bool
    if isinstance(value, float):
        return shape is float and math.isfinite(value)  # 1e999 is not
    return isinstance(value, int if shape is float else shape)


def _describe(shape: Any) -> str:
    if isinstance(shape, dict):
        return "an object"
    if isinstance(shape, list):
        return "a list"
    return {
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
    }.get(shape, "null")
