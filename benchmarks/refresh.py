"""Makes the results of the pages again after their code has changed.

    python -m benchmarks.refresh --list
    python -m benchmarks.refresh --data=FOLDER --only=glue
    python -m benchmarks.refresh --mark

`experiments/refresh.toml` has all results, in order: their pages, commands,
hours, and the modules that decide their numbers. The *code* of a result is a
hash of these modules without comments and docstrings.
`experiments/refreshed.json` has the code, the commit and the seconds by which
each result was made; some measurements have their code themselves. A result of
other code than today's is out of date.

The first command lists all results. The second does the commands that have not
ended by today's code; the same command resumes an interrupted one. The third
writes into each page whether its numbers are those of today's code. No edit
forces a rerun: a page of earlier code says so.
"""

import ast
import dataclasses
import functools
import glob
import hashlib
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence

from absl import flags

from benchmarks import documents
from tf_transfer.config import command_line
from tf_transfer.utils import files, formatting, json_files, machine
from tf_transfer.utils.errors import RunError, UserError
from tf_transfer.utils.json_files import Record

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = "experiments/refresh.toml"
REFRESHED = "experiments/refreshed.json"
MARK = "code"
# What decides the numbers of every run; a result adds its own modules.
SHARED = (
    *("baselines", "data", "feature_cache", "models", "own", "runs"),
    *("training", "config/recipe.py", "experiment.py"),
)
EARLIER = "reference/reproducibility.md#results-of-earlier-code"
HASH_LENGTH = 16  # characters


@dataclasses.dataclass(frozen=True)
class Result:
    """A result that a page shows.

    Attributes:
        name: Its name.
        page: The page that shows it, from the root of the checkout.
        shown_on: Other pages that show its numbers.
        hours: On two cores, half of the training minutes that the page gives;
            0 where it gives none and none were measured.
        modules: What decides its numbers in addition to `SHARED`, below
            `tf_transfer`.
        commands: Words after `python -m`.
        measured: File that has the code which made it, from the root of the
            checkout; empty if `REFRESHED` has it.
    """

    name: str
    page: str
    modules: Sequence[str]
    commands: Sequence[str]
    hours: float = 0.0
    shown_on: Sequence[str] = ()
    measured: str = ""

    @property
    def pages(self) -> list[str]:
        """All pages that show its numbers."""
        return [self.page, *self.shown_on]

    def hash_code(self) -> str:
        """The hash of the modules that decide its numbers."""
        return hash_code([*SHARED, *self.modules])


def read_results() -> list[Result]:
    """Reads all results, in order."""
    with open(os.path.join(ROOT, TABLE), "rb") as file:
        rows = tomllib.load(file)
    return [Result(name, **row) for name, row in rows.items()]


def find_code(name: str) -> str:
    """The hash of the modules that decide a result's numbers, by its name."""
    [result] = [one for one in read_results() if one.name == name]
    return result.hash_code()


def resume(path: str, name: str, settings: Record) -> Record:
    """A measurement: its settings, its `code`, and its `tasks` so far.

    Args:
        path: Its file. Tasks that today's code has measured with these settings
            are kept.
        name: Of the result.
        settings: What else decides its numbers, such as the encoder.
    """
    header = {**settings, "code": find_code(name)}
    tasks = {}
    if os.path.exists(path):
        measured = json_files.read_record(path)
        if header.items() <= measured.items():
            tasks = measured["tasks"]
    return {**header, "tasks": tasks}


def hash_code(modules: Iterable[str], package: str = "tf_transfer") -> str:
    """Hashes modules, without their comments and docstrings.

    Args:
        modules: Files and folders below the package.
        package: The package, below the root of the checkout.
    """
    root = os.path.join(ROOT, package)
    digest = hashlib.sha256()
    for module in sorted(modules):
        path = os.path.join(root, module)
        paths = [path]
        if os.path.isdir(path):
            paths = sorted(glob.glob(f"{path}/**/*.py", recursive=True))
        for source in paths:
            with open(source, encoding="utf-8") as file:
                computed = _strip(file.read())
            digest.update(os.path.relpath(source, root).encode())
            digest.update(computed)
    return digest.hexdigest()[:HASH_LENGTH]


@functools.cache  # results share most of their modules
def _strip(source: str) -> bytes:
    """The syntax tree of a module, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def find_outdated(results: Sequence[Result]) -> list[Result]:
    """The results that other code than today's has made."""
    made = json_files.read_record(os.path.join(ROOT, REFRESHED))
    outdated = []
    for result in results:
        record = made.get(result.name, {})
        if result.measured:
            path = os.path.join(ROOT, result.measured)
            record = json_files.read_record(path)
        if record.get("code") != result.hash_code():
            outdated.append(result)
    return outdated


def find_unfinished(results: Sequence[Result]) -> list[Result]:
    """The results whose commands have not all ended by today's code.

    A measurement that was interrupted is of today's code, and unfinished.
    """
    made = json_files.read_record(os.path.join(ROOT, REFRESHED))
    return [
        result
        for result in results
        if made.get(result.name, {}).get("code") != result.hash_code()
    ]


# === Commands ===


def list_results(results: Sequence[Result]) -> str:
    """A table of all results, their hours, and whose code made them."""
    outdated, unfinished = find_outdated(results), find_unfinished(results)
    rows = [("result", "page", "hours", "code")]
    for result in results:
        code = "today's"
        if result in outdated:
            code = "earlier"
        elif result in unfinished:
            code = "today's, unfinished"
        hours = f"{result.hours:g}" if result.hours else "not known"
        rows.append((result.name, result.page, hours, code))
    return (
        f"{formatting.aligned(rows)}\n"
        f"{len(outdated)} of {len(results)} are of earlier code."
    )


def make(result: Result, data: str, out: str) -> None:
    """Does the commands of a result, and notes its code.

    Args:
        result: The result.
        data: Folder with the data sets that the commands name.
        out: Root of the runs; those of the same code are resumed.

    Raises:
        RunError: A command failed.
    """
    code = result.hash_code()
    folder = os.path.join(out, f"{result.name}-{code}")
    os.makedirs(folder, exist_ok=True)
    for root, names in (
        (ROOT, ("experiments", "docs", "flags", "benchmarks")),
        (data, os.listdir(data)),
    ):
        for name in names:
            link = os.path.join(folder, name)
            if not os.path.lexists(link):
                os.symlink(os.path.join(os.path.abspath(root), name), link)
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": ROOT}
    for command in result.commands:
        print(f"{result.name}: python -m {command}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=folder,
            env=environment,
            check=False,
        )
        if done.returncode:
            raise RunError(
                f"{result.name}: `python -m {command}` ended with "
                f"{done.returncode}. The same command of refresh resumes it."
            )
    path = os.path.join(ROOT, REFRESHED)
    made = json_files.read_record(path)
    made[result.name] = {
        "code": code,
        "commit": machine.git_commit(),
        "seconds": round(time.monotonic() - began),
        "processor": machine.processor(),
    }
    files.write_json(path, dict(sorted(made.items())))


def describe_page(page: str, outdated: Sequence[Result]) -> str:
    """The line of a page: whether its numbers are those of today's code.

    Args:
        page: Its path from the root of the checkout.
        outdated: See `find_outdated`.
    """
    names = [result.name for result in outdated if page in result.pages]
    if not names:
        return "The numbers on this page were made by today's code."
    link = os.path.relpath(f"docs/{EARLIER}", os.path.dirname(page))
    return (
        f"Made by [earlier code]({link}): `{'`, `'.join(names)}`. "
        "`python -m benchmarks.refresh --data=FOLDER "
        f"--only={','.join(names)}` makes the numbers again."
    )


def mark(results: Sequence[Result]) -> None:
    """Writes into each page whether its numbers are those of today's code.

    Args:
        results: All results.
    """
    outdated = find_outdated(results)
    pages = [page for result in results for page in result.pages]
    for page in dict.fromkeys(pages):
        text = describe_page(page, outdated)
        documents.fill(os.path.join(ROOT, page), MARK, text)


# === The command ===


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_bool("list", False, "List all results, and do nothing.")
    flags.DEFINE_bool("mark", False, "Only write the lines of the pages.")
    flags.DEFINE_string("data", "", "Folder of the data sets.")
    flags.DEFINE_list("only", [], "Names of results; unset, all.")
    flags.DEFINE_string("out", "runs/refresh", "Root of the runs.")


def main(argv: list[str]) -> None:
    """Lists, makes or marks the results."""
    del argv
    values, results = flags.FLAGS, read_results()
    names = [result.name for result in results]
    unknown = [name for name in values.only if name not in names]
    if unknown:
        raise UserError(f"--only={unknown[0]}: choose from {', '.join(names)}.")
    if values.list:
        print(list_results(results))
        return
    if values.mark:
        mark(results)
        return
    if not os.path.isdir(values.data):
        raise UserError("--data: give the folder of the data sets.")
    for result in find_unfinished(results):
        if not values.only or result.name in values.only:
            make(result, values.data, values.out)
            mark(results)


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
