"""Names in CONTRIBUTING, AGENTS and BUILD are those of files and of the code.

`readme_test` looks up their flags and commands.
"""

import glob
import os
import pathlib
import re

import pytest

from tests.readme_test import read
from tests.support import commands

PAGES = ("CONTRIBUTING.md", "AGENTS.md", "BUILD.md")
# What commands make, or a reader has beside the checkout.
NOT_IN_GIT = {
    "config.json",
    "dist/",
    "llms.txt",
    "shared/data",
    "site/index.html",
}
OTHERS = {"importlib_resources", "pytest.importorskip", "seqeval", "uv"}
EXTENSION = re.compile(r"\.(?:py|toml|json|md|cfg|cff|txt|yml|html)$")
NAME = re.compile(r"\.?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")


FOLDERS = ("tf_transfer", "benchmarks", "tests", "docs", "experiments", "flags")
ROOT = pathlib.Path(commands.ROOT)
FILES = [
    str(path.relative_to(ROOT))
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.*")
    if path.suffix != ".pyc"
]
SOURCES = {name: read(name) for name in FILES if name.endswith(".py")}
TEXTS = [*SOURCES.values(), read("setup.cfg"), read(".ci/run")]
WORDS = set(re.findall(r"\w+", "".join(TEXTS)))


def quoted(page):
    """What a page has between single backticks."""
    text = re.sub(r"(?ms)^```.*?^```", "", read(page))
    return sorted(set(re.findall(r"`([^`\n]+)`", text)))


def is_path(name):
    return bool(re.fullmatch(r"[\w.*<>/-]+", name)) and (
        "/" in name or bool(EXTENSION.search(name))
    )


def has_file(name):
    """Whether a path, perhaps a pattern or below the package, is there."""
    # A paper of one's own has the files of another.
    pattern = re.sub("<paper>|my_paper", "glue", name).rstrip("/")
    places = ("", "tf_transfer", "tf_transfer/models/blocks")
    paths = [os.path.join(commands.ROOT, place, pattern) for place in places]
    if any(map(glob.glob, paths)):
        return True
    return "/" not in name and any(
        os.path.basename(file) == name for file in FILES
    )


def has_name(name):
    """Whether the code has a name; `module.name`: whether that module has."""
    *modules, last = name.split(".")
    if not modules:
        return last in WORDS
    ends = [f"/{'/'.join(modules)}{end}" for end in (".py", "/__init__.py")]
    defined = re.compile(rf"(?m)^(?:def |class )?{last}\b|\bimport.*\b{last}\b")
    if any(
        f"/{file}".endswith(tuple(ends)) and defined.search(source)
        for file, source in SOURCES.items()
    ):
        return True
    return has_file("/".join([*modules, last]))


def test_names_that_are_gone_are_found():
    assert has_name("heads.register") and not has_name("heads.unregister")
    assert has_name("tf_transfer.stacking") and not has_name("tf_transfer.gone")
    assert has_file("models/freezing.py") and not has_file("models/gone.py")
    assert not has_file("gone_test.py") and not has_name("gone_" + "name")


@pytest.mark.parametrize("page", PAGES)
def test_every_quoted_name_is_there(page):
    gone = []
    for name in quoted(page):
        if name in NOT_IN_GIT | OTHERS or name.startswith("--"):
            continue
        match = NAME.fullmatch(name)
        if is_path(name):
            gone += [] if has_file(name) else [name]
        elif match:
            gone += [] if has_name(match[1]) else [name]
    assert not gone
