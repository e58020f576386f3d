"""The extra `test` brings what tests import; other packages are optional."""

import ast
import configparser
import pathlib
import re
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parent.parent
OWN = ("tests", "benchmarks", "tf_transfer")


def read_requirements(*extras):
    """The requirements of the package and of these extras."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    texts = [config["options"]["install_requires"]]
    texts += [config["options.extras_require"][extra] for extra in extras]
    return [Requirement(x) for text in texts for x in text.split("\n") if x]


def list_brought(requirements):
    """The names of the distributions that requirements bring, at last."""
    brought = {}
    todo = list(requirements)
    while todo:
        requirement = todo.pop()
        name = normalise(requirement.name)
        new = {"", *requirement.extras} - brought.get(name, set())
        if not new:
            continue
        brought.setdefault(name, set()).update(new)
        try:
            wanted = metadata.requires(requirement.name) or []
        except metadata.PackageNotFoundError:  # of another platform
            continue
        for other in map(Requirement, wanted):
            if other.marker is None or any(
                other.marker.evaluate({"extra": extra}) for extra in new
            ):
                todo.append(other)
    return {*brought}


def normalise(name):
    return name.lower().replace("_", "-").replace(".", "-")


def list_imports(source):
    """Yields the module of each import, and whether it is in a function."""

    def walk(node, is_inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name, is_inside
            elif isinstance(child, ast.ImportFrom) and child.module:
                yield child.module, is_inside
                for alias in child.names:  # may be modules of ours
                    if child.module.split(".")[0] in OWN:
                        yield f"{child.module}.{alias.name}", is_inside
            inner = isinstance(child, ast.FunctionDef | ast.Lambda)
            yield from walk(child, is_inside or inner)

    yield from walk(ast.parse(source), False)


def list_sources(root):
    """The tests, and the benchmarks that they import, by path."""
    todo = sorted((root / "tests").rglob("*.py"))
    sources = {}
    while todo:
        path = todo.pop()
        if path in sources or not path.is_file():
            continue
        sources[path] = path.read_text(encoding="utf-8")
        for module, is_inside in list_imports(sources[path]):
            if module.split(".")[0] == "benchmarks" and not is_inside:
                todo.append(root / f"{module.replace('.', '/')}.py")
    return sources


def list_missing(root, brought):
    """Yields a line for each import that may fail in a stranger's tests."""
    distributions = metadata.packages_distributions()
    for path, source in list_sources(root).items():
        for module, is_inside in list_imports(source):
            package = module.split(".")[0]
            if package in OWN or package in sys.stdlib_module_names:
                continue
            by = map(normalise, distributions.get(package, ()))
            if brought.intersection(by):
                continue
            is_test = path.is_relative_to(root / "tests")
            if not is_inside:
                yield f"{path.relative_to(root)}: imports {package}"
            elif is_test and f'importorskip("{package}")' not in source:
                yield f"{path.relative_to(root)}: does not skip {package}"


@pytest.fixture(scope="module")
def brought():
    return list_brought(read_requirements("test"))


def test_the_extra_test_brings_what_tests_import(brought):
    assert not sorted(set(list_missing(ROOT, brought)))


def test_an_import_of_another_package_is_found(brought, tmp_path):
    for name, source in {
        "tests/planted_test.py": "import coverage",
        "tests/lazy_test.py": "def f():\n    import torch",
        "tests/skipping_test.py": (
            'def f():\n    pytest.importorskip("torch")\n    import torch'
        ),
        "tests/far_test.py": "from benchmarks import used",
        "tests/here_test.py": "import os, numpy\nfrom sklearn import svm",
        "benchmarks/used.py": "import peft\ndef f():\n    import torch",
        "benchmarks/unused.py": "import peft",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    assert sorted(list_missing(tmp_path, brought)) == [
        "benchmarks/used.py: imports peft",
        "tests/lazy_test.py: does not skip torch",
        "tests/planted_test.py: imports coverage",
    ]


def test_what_requirements_bring_has_their_own_but_not_other_extras(brought):
    assert {"pytest", "numpy", "keras-hub", "packaging"} <= brought
    assert not {"coverage", "torch", "mypy"} & brought


def test_the_lock_file_has_a_release_that_each_requirement_takes():
    path = ROOT / "requirements" / "linux-x86_64.txt"
    text = path.read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==(\S+) \\\n    --hash", text, re.M))
    for requirement in read_requirements("test", "dev"):
        release = locked[normalise(requirement.name)]
        assert requirement.specifier.contains(release), requirement
    assert "://" not in text  # of no index
