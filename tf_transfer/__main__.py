"""`python -m tf_transfer`: lists the commands, a line each."""

import ast
import pkgutil
import sys

from tf_transfer.config import command_line
from tf_transfer.config.experiments import FOLDERS
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

GROUPS = {
    "Your own task": ("search", "train", "predict"),
    "The five papers": ("glue", "freezing", "tweets", "multitask", "stacking"),
    "Beside the papers": ("methods",),
    "Many runs": ("sweep", "report", "cache"),
}


def describe() -> str:
    """Every command with the first line of its docstring."""
    lines = ["python -m tf_transfer.COMMAND --help explains each.", ""]
    for title, names in GROUPS.items():
        rows = [(f"  tf_transfer.{name}", _summary(name)) for name in names]
        lines += [f"{title}:", formatting.aligned(rows), ""]
    return "\n".join(lines).rstrip()


def _summary(name: str) -> str:
    """A command's first line, without importing what it needs."""
    path = f"{name}.py"
    if name in FOLDERS:
        path = f"{name}/experiment.py"
    source = pkgutil.get_data("tf_transfer", path) or b""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def main() -> None:
    """Prints the list.

    Raises:
        UserError: Something else is asked for.
    """
    print(describe())
    known = [name for names in GROUPS.values() for name in names]
    asked = [word for word in sys.argv[1:] if not word.startswith("-")]
    if asked:
        name = asked[0] if asked[0] in known else "train"
        raise UserError(
            f"{asked[0]!r}: give a command as its module, such as "
            f"python -m tf_transfer.{name}"
        )


if __name__ == "__main__":
    command_line.guarded(main)
