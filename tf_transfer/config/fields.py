"""A field of a settings class: all there is to know of one flag."""

import dataclasses
import enum
import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

# Seeds, counts and sizes end in NumPy's and TensorFlow's 32-bit integers.
LARGEST_INT = 2**31 - 1
LARGEST_BATCH = 2**16
BLOCK = "[1-9][0-9]{0,3}"
RANGE, RANGE_ADVICE = f"{BLOCK}-{BLOCK}", "give a range such as 7-8."
_BOUNDS = {
    "at_least": operator.ge,
    "above": operator.gt,
    "at_most": operator.le,
    "below": operator.lt,
}
_TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}
_ALWAYS_NAMED = object()  # equals no value


class Group(enum.StrEnum):
    """The groups of `--help`, in their order."""

    FIRST = "The ones to know"
    OWN = "Of this command"
    TEXTS = "A table of your own, and the texts"
    TRAINED = "What is trained"
    OPTIMIZER = "The optimizer"
    STOPPING = "Stopping and selection"
    FROZEN = "The frozen blocks"
    RUNNING = "How it runs"


class Reader(enum.IntEnum):
    """Who reads a setting. Each reads what those above it read, and more."""

    BASELINE = 0  # a run without an encoder, and so every run
    ENCODER = 1  # a run of an encoder: the probe, and what trains
    TRAINING = 2  # a run that trains weights by gradient steps
    STUDY = 3  # a command that does many runs


def setting(
    default: Any,
    help: str,
    *,
    group: Group = Group.OWN,
    choices: Sequence[str] | None = None,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    pattern: str = "",
    advice: str = "",
    hashed: bool = True,
    unnamed: Any = _ALWAYS_NAMED,
    read_by: Reader = Reader.TRAINING,
    needs: Mapping[str, Any] | None = None,
) -> Any:
    """A field of a settings class, and with it a flag.

    Args:
        default: the value without the flag. `None` stands for a value that
            `Settings.defaults` fills in.
        help: the text of `--help`.
        group: the group of `--help`.
        choices: allowed values, if they can be listed.
        at_least, above, at_most, below: bounds of a number. Integers are
            below 2^31 in any case.
        pattern: regular expression that a text matches as a whole; empty for
            any.
        advice: what to give where it does not.
        hashed: whether the value can change a number, and so belongs to the
            key of a run that reads it. A study's own never does.
        unnamed: the value at which keys leave the setting out.
        read_by: the simplest reader.
        needs: further conditions for being read: for the name of a setting or
            property its value, or a tuple of several.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": help,
            "group": group,
            "choices": choices,
            "at_least": at_least,
            "above": above,
            "at_most": at_most,
            "below": below,
            "pattern": pattern,
            "advice": advice,
            "hashed": hashed and read_by < Reader.STUDY,
            "unnamed": unnamed,
            "read_by": read_by,
            "needs": needs or {},
            "is_flag": True,
        },
    )


def check_field(field: dataclasses.Field, value: Any) -> None:
    """Raises `UserError` for a value outside of what its field allows."""
    if value is None:
        return
    allowed = field.metadata
    flag = f"--{field.name}={cut(value)}"
    kind: Any = field.type
    expected: Any = (int, float) if kind is float else kind
    is_bool = isinstance(value, bool)
    if is_bool != (kind is bool) or not isinstance(value, expected):
        raise UserError(f"{flag}: give {_TYPES[kind]}.")
    if allowed["choices"] and value not in allowed["choices"]:
        raise UserError(f"{flag}: pick one of {', '.join(allowed['choices'])}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{flag}: give a finite number.")
    if kind is str and "\0" in value:
        raise UserError(f"{flag}: holds a NUL character.")
    if allowed["pattern"] and not re.fullmatch(allowed["pattern"], value):
        raise UserError(f"{flag}: {allowed['advice']}")
    if kind is int and abs(value) > LARGEST_INT:
        raise UserError(f"{flag}: must be at most {LARGEST_INT}.")
    bounds = [name for name in _BOUNDS if allowed[name] is not None]
    if not all(_BOUNDS[name](value, allowed[name]) for name in bounds):
        words = [f"{n.replace('_', ' ')} {allowed[n]:g}" for n in bounds]
        raise UserError(f"{flag}: must be {' and '.join(words)}.")
