"""Fields of settings: all there is to know of a flag, and their base class."""

import dataclasses
import enum
import functools
import math
import operator
import os
import re
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Never, Self, TypedDict

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
# Of a field's type, the types of its values, and what a message calls them.
_TYPES: dict[type | str, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
    tuple[str, ...]: ((tuple,), "texts"),  # of a flag that is given repeatedly
}
Setting = str | int | float | bool | tuple[str, ...] | None
Field = dataclasses.Field[Setting]
EMPTY: Mapping[str, Never] = types.MappingProxyType({})
_ALWAYS_NAMED = math.nan  # equals no value


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
    """Readers of a setting, in order: later ones read what earlier ones do."""

    BASELINE = 0  # a run without an encoder, and so every run
    ENCODER = 1  # a run of an encoder: the probe, and what trains
    TRAINING = 2  # a run that trains weights by gradient steps
    STUDY = 3  # a command that does many runs


class Changes(TypedDict, total=False):
    """Arguments of `setting` that a subclass of settings changes."""

    choices: Sequence[str]
    hashed: bool
    read_by: Reader
    needs: Mapping[str, Setting | tuple[Setting, ...]]


class Keywords(TypedDict, total=False):
    """Keywords of the `class` statement of settings; see `Fields`."""

    defaults: Mapping[str, Setting]
    changes: Mapping[str, Changes]
    further: Mapping[str, Field]
    flags: Collection[str] | None


def setting(
    default: Setting,
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
    unnamed: Setting = _ALWAYS_NAMED,
    read_by: Reader = Reader.TRAINING,
    needs: Mapping[str, Setting | tuple[Setting, ...]] = EMPTY,
) -> Any:  # of a field: its value, as `dataclasses.field` has it
    """A field of a settings class, and with it a flag.

    Args:
        default: The value without the flag. `None` stands for a value that
            `Settings.defaults` fills in.
        help: The text of `--help`.
        group: The group of `--help`.
        choices: Allowed values, if they can be listed.
        at_least: Lowest value of a number.
        above: Number that values must exceed.
        at_most: Highest value of a number.
        below: Number that values must stay below: of integers, 2^31 in any
            case.
        pattern: Regular expression that a text matches as a whole; empty for
            any.
        advice: What to give where it does not.
        hashed: Whether the value can change a number, and so belongs to the
            key of a run that reads it. A study's own never does.
        unnamed: The value at which keys leave the setting out.
        read_by: The simplest reader.
        needs: Further conditions for being read: for the name of a setting or
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
            "needs": needs,
            "is_flag": True,
        },
    )


# `setting` for the flags of a group of `--help`, or of every run.
texts_setting = functools.partial(setting, group=Group.TEXTS)
training_setting = functools.partial(setting, group=Group.TRAINED)
optimizer_setting = functools.partial(setting, group=Group.OPTIMIZER)
stopping_setting = functools.partial(setting, group=Group.STOPPING)
running_setting = functools.partial(setting, group=Group.RUNNING)
baseline_setting = functools.partial(setting, read_by=Reader.BASELINE)
# The flag `--json`.
json_setting = functools.partial(
    running_setting,
    False,
    "Print the answer as one JSON object on the standard output, and all "
    "messages on the standard error (docs/reference/conventions.md).",
    hashed=False,
    read_by=Reader.BASELINE,
)


def check_field(field: Field, value: Setting) -> None:
    """Raises `UserError` for a value outside of what its field allows."""
    if value is None:
        return
    if reason := _find_problem(field, value):
        raise UserError(f"--{field.name}={cut(str(value))}: {reason}")


def _find_problem(field: Field, value: Setting) -> str:
    """The problem of a value; "" for none."""
    allowed, kind = field.metadata, field.type
    classes, name = _TYPES[kind]
    is_bool = isinstance(value, bool)
    if is_bool != (kind is bool) or not isinstance(value, classes):
        return f"give {name}."
    if allowed["choices"] and value not in allowed["choices"]:
        return f"pick one of {', '.join(allowed['choices'])}."
    if isinstance(value, float) and not math.isfinite(value):
        return "give a finite number."
    if isinstance(value, str):
        if "\0" in value:
            return "holds a NUL character."
        pattern, advice = allowed["pattern"], allowed["advice"]
        is_valid = not pattern or re.fullmatch(pattern, value)
        return "" if is_valid else str(advice)
    if value is None:
        return ""
    if type(value) is int and abs(value) > LARGEST_INT:
        return f"must be at most {LARGEST_INT}."
    bounds = [name for name in _BOUNDS if allowed[name] is not None]
    if not all(_BOUNDS[name](value, allowed[name]) for name in bounds):
        words = [f"{n.replace('_', ' ')} {allowed[n]:g}" for n in bounds]
        return f"must be {' and '.join(words)}."
    return ""


@dataclasses.dataclass(frozen=True)
class Fields:
    """The base class of settings, a dataclass whose fields are flags.

    A subclass changes inherited fields by keywords of its `class` statement,
    dictionaries by the names of fields: `defaults`, `help`, and `changes` for
    other arguments of `setting`. `further` are fields that a table has.
    """

    def __init_subclass__(
        cls,
        defaults: Mapping[str, Setting] = EMPTY,
        help: Mapping[str, str] = EMPTY,
        changes: Mapping[str, Changes] = EMPTY,
        further: Mapping[str, Field] = EMPTY,
        flags: Collection[str] | None = None,
    ) -> None:
        """Declares the fields again whose defaults or metadata differ.

        Inherited fields that are not in `flags` keep their defaults: the
        command has no such flag. None: all are flags.
        """
        inherited = {field.name: field for field in dataclasses.fields(cls)}
        without_flag = inherited.keys() - (
            inherited if flags is None else flags
        )
        for name in {*defaults, *help, *changes, *without_flag}:
            field = inherited[name]
            about = {**field.metadata, **changes.get(name, {})}
            about["is_flag"] &= name not in without_flag
            about["help"] = help.get(name, about["help"])
            changed = dataclasses.field(
                default=defaults.get(name, field.default), metadata=about
            )
            cls.__annotations__[name] = field.type
            setattr(cls, name, changed)
        for name, field in further.items():
            cls.__annotations__[name] = type(field.default)
            setattr(cls, name, field)

    def __post_init__(self) -> None:
        """Accepts `dropout=0` and paths of `pathlib` from a notebook."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is float and type(value) is int:
                object.__setattr__(self, field.name, float(value))
            elif field.type is str and isinstance(value, os.PathLike):
                object.__setattr__(self, field.name, os.fspath(value))

    @property
    def reader(self) -> Reader:
        """Which settings are read; by default, all."""
        return Reader.STUDY

    def defaults(self) -> dict[str, Setting]:
        """Values for the fields that are unset, by name."""
        return {}

    def check_settings(self) -> None:
        """Checks settings that exclude each other; each is valid by itself.

        Raises:
            UserError: Two do not go together; the message names the flag.
        """

    def resolve(self) -> Self:
        """Settings with every default filled in, checked.

        Raises:
            UserError: A value is invalid; the message names the flag.
        """
        for field in dataclasses.fields(self):
            check_field(field, getattr(self, field.name))
        settings = dataclasses.replace(self, **self.defaults())
        settings.check_settings()
        return settings

    def reads(self, name: str) -> bool:
        """Whether a run with these settings reads the field of that name."""
        return self._reads(self.__dataclass_fields__[name], self.reader)

    def _reads(self, field: Field, reader: Reader) -> bool:
        about = field.metadata
        return about["read_by"] <= reader and all(
            getattr(self, other)
            in (value if type(value) is tuple else (value,))
            for other, value in about["needs"].items()
        )

    def unread(self) -> list[str]:
        """Names of the flags that a run with these settings does not read."""
        reader = self.reader
        return [
            field.name
            for field in dataclasses.fields(self)
            if not self._reads(field, reader)
        ]

    def hashed(self) -> dict[str, Setting]:
        """The settings that can change a number, by name."""
        reader = self.reader
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata["hashed"]
            and self._reads(field, reader)
            and getattr(self, field.name) != field.metadata["unnamed"]
        }

    def refuse_empty(self, *names: str) -> None:
        """Raises `UserError` if one of these settings is empty."""
        for name in names:
            if not getattr(self, name):
                raise UserError(
                    f"--{name}=: is empty. Leave the flag out, or give one."
                )
