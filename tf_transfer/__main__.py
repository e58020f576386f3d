"""`tf-transfer` or `python -m tf_transfer`: all commands in one.

    tf-transfer
    tf-transfer glue --task=rte
    tf-transfer --version
    tf-transfer completion bash

The first lists the commands, a line each. The second runs one of them, as
`python -m tf_transfer.glue --task=rte` does. The last prints a script, by which
bash or zsh completes commands, flags and values.
"""

import ast
import difflib
import importlib
import itertools
import pkgutil
import runpy
import sys
from collections.abc import Sequence

from tf_transfer._version import __version__
from tf_transfer.config import command_line, completion, help as help_lib
from tf_transfer.config.experiments import FOLDERS
from tf_transfer.config.fields import Fields
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError

PAPERS = ("glue", "freezing", "tweets", "multitask", "stacking")
GROUPS = {
    "Your own texts": ("search", "train", "predict"),
    "The five papers": PAPERS,
    "Our own study": tuple(sorted({*FOLDERS} - {*PAPERS})),
    "Many runs": ("sweep", "report", "cache"),
    "Data files": ("data",),
}


def list_commands() -> str:
    """Every command with the first line of its docstring."""
    lines = [
        "tf-transfer COMMAND --help explains each. "
        "python -m tf_transfer.COMMAND is the same.",
        "",
    ]
    for title, names in GROUPS.items():
        rows = [(f"  {name}", _summary(name)) for name in names]
        lines += [f"{title}:", formatting.aligned(rows), ""]
    lines.append(
        "tf-transfer --version prints the version, and tf-transfer completion "
        "bash|zsh\na script for the completion of commands and flags."
    )
    return "\n".join(lines)


def module_of(command: str) -> str:
    """The module with the docstring and the settings of a command."""
    module = f"tf_transfer.{command}"
    if command in FOLDERS:
        return f"{module}.experiment"
    return f"{module}.__main__" if command == "data" else module


def settings_of(command: str) -> type[Fields]:
    """The settings of a command of `GROUPS`: a field per flag."""
    cls: type[Fields] = importlib.import_module(module_of(command)).Settings
    return cls


def complete(words: Sequence[str]) -> str:
    """The script of `tf-transfer completion SHELL`.

    Raises:
        UserError: The words are not the name of one shell.
    """
    if len(words) != 1 or words[0] not in completion.SHELLS:
        raise UserError(
            f"tf-transfer completion: give {' or '.join(completion.SHELLS)}."
        )
    names = itertools.chain(*GROUPS.values())
    return completion.make_script(
        words[0], {name: settings_of(name) for name in names}
    )


def _summary(name: str) -> str:
    """A command's first line, without importing what it needs."""
    package, _, module = module_of(name).partition(".")
    path = f"{module.replace('.', '/')}.py"
    source = pkgutil.get_data(package, path) or b""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def run() -> None:
    """Runs the command that the first word names, or lists all.

    Raises:
        UserError: There is no such command.
    """
    name, *words = sys.argv[1:] or ["--help"]
    if name in itertools.chain(*GROUPS.values()):
        sys.argv = [name, *words]
        module = f"tf_transfer.{name}"
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    if name == "--version":
        print(f"tf-transfer {__version__}")
        return
    if name == "completion":
        print(complete(words), end="")
        return
    print(list_commands())
    if not help_lib.asks_for_help([name]):
        known = [*itertools.chain(*GROUPS.values())]
        near = difflib.get_close_matches(name, known, 1)
        advice = f"Is {near[0]} meant?" if near else "Give one of these first."
        raise UserError(f"{name!r} is not a command. {advice}")


def main() -> None:
    """The console script `tf-transfer`."""
    files.open_standard_files()
    command_line.exit_on_error(run)


if __name__ == "__main__":
    main()
