"""The text of `--help`: the flags by purpose, the most important ones first."""

import dataclasses
import textwrap
from collections.abc import Iterable, Sequence

from absl import flags

from tf_transfer.config.fields import Fields, Group, Setting

# Shown first, in this order, by whichever command has them.
FIRST_FLAGS = (
    "task",
    "tasks",
    "budget",
    "data",
    "text_column",
    "label_column",
    "model",
    "features",
    "trainable_layers",
    "lr",
    "max_epochs",
    "batch_size",
    "seed",
    "out",
    "describe",
    "run",
    "text",
    "input",
    "output",
)
WIDTH = 79
INDENT = " " * 6
# What absl adds to a flag that may be given repeatedly.
MULTI_FLAG_HELP = ";\n    repeat this option to specify a list of values"


def asks_for_help(words: Iterable[str]) -> bool:
    """Whether the words of a command ask for help."""
    names = ("help", "h", "helpshort", "helpfull")
    return any(word.lstrip("-") in names for word in words if word[:1] == "-")


def format_help(
    document: str,
    command_flags: Sequence[flags.Flag[Setting]],
    cls: type[Fields],
) -> str:
    """The text of `--help`.

    Args:
        document: The module's docstring; its indented lines are examples.
        command_flags: The command's flags.
        cls: The settings that they are made of.
    """
    title, _, rest = document.strip().partition("\n\n")
    examples = [line for line in rest.splitlines() if line.startswith("    ")]
    prose = "\n".join(
        line for line in rest.splitlines() if not line.startswith("    ")
    )
    by_name = {flag.name: flag for flag in command_flags}
    group_of = {f.name: f.metadata["group"] for f in dataclasses.fields(cls)}
    group_of |= dict.fromkeys(FIRST_FLAGS, Group.FIRST)
    names = dict.fromkeys(name for name in FIRST_FLAGS if name in by_name)
    text = [title, ""]
    for group in Group:
        described = [
            _describe_flag(by_name[name])
            for name in names | by_name
            if group_of.get(name, Group.OWN) == group
        ]
        if described:
            text += [f"{group}:", *described, ""]
    text += ["--flagfile=FILE reads flags from a file, one per line.", ""]
    text += filter(None, prose.strip().split("\n\n"))
    if examples:
        text += ["", "Examples:", *examples]
    return "\n".join(text)


def _describe_flag(flag: flags.Flag[Setting]) -> str:
    name = f"[no]{flag.name}" if flag.boolean else flag.name
    text = flag.help or ""  # absl puts the values of an enum before it
    text = text.removesuffix(MULTI_FLAG_HELP)
    if flag.default not in (None, "", []):
        text = f"{text} (default: {as_text(flag.default)})"
    return f"  --{name}:\n" + textwrap.fill(
        text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT
    )


def as_text(value: Setting) -> str:
    """A default as a command has it."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
