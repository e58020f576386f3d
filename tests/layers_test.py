"""Everything goes one way: no module reaches back up."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
FILES = {
    path.relative_to(ROOT).as_posix(): path
    for path in sorted((ROOT / "tf_transfer").rglob("*.py"))
}
PAPERS = ("freezing", "glue", "multitask", "stacking", "tweets")
TOOLS = ("benchmark", "cache", "ensemble", "predict", "report", "sweep")
ENTRIES = tuple(f"tf_transfer.{name}" for name in (*PAPERS, *TOOLS))
SHARED = (
    "tf_transfer.text_task",
    "tf_transfer.word_task",
    "tf_transfer.sweeps",
    "tf_transfer.reports",
)
LONGEST = 600  # lines

# What a room must not import, directly or inside of a function.
FORBIDDEN = {
    "tf_transfer/models/": (
        *ENTRIES,
        *SHARED,
        "tf_transfer.training",
        "tf_transfer.baselines",
    ),
    "tf_transfer/training/": (
        *ENTRIES,
        *SHARED,
        "tf_transfer.data.tasks",
        "tf_transfer.data.sources",
        "tf_transfer.data.tables",
        "tf_transfer.data.releases",
        "tf_transfer.data.conll",
        "tf_transfer.data.yahoo",
        "tf_transfer.baselines",
    ),
    "tf_transfer/data/": (
        *ENTRIES,
        *SHARED,
        "tf_transfer.models",
        "tf_transfer.training",
    ),
    "tf_transfer/baselines/": (*ENTRIES, *SHARED, "tf_transfer.models"),
    "tf_transfer/sweeps/": (
        *ENTRIES,
        "tf_transfer.text_task",
        "tf_transfer.reports",
    ),
    "tf_transfer/reports/": (
        *ENTRIES,
        "tf_transfer.text_task",
        "tf_transfer.sweeps",
        "tf_transfer.models",
    ),
    "tf_transfer/freezing_study.py": ENTRIES,
    "tf_transfer/text_task.py": ENTRIES,
    "tf_transfer/word_task.py": ENTRIES,
}


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree):
    """Full names of all that a module imports."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def is_below(name, package):
    return f"{name}.".startswith(f"{package}.")


def files_where(holds):
    return {name for name, path in FILES.items() if holds(parse(path))}


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_imports_only_from_below(room):
    files = [name for name in FILES if name.startswith(room)]
    assert files
    wrong = [
        (name, found)
        for name in files
        for found in imports(parse(FILES[name]))
        for package in FORBIDDEN[room]
        if is_below(found, package)
    ]
    assert not wrong


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_imports_no_other_paper_and_no_tool(paper):
    found = imports(parse(FILES[f"tf_transfer/{paper}.py"]))
    assert found
    assert not [
        name for name in found for entry in ENTRIES if is_below(name, entry)
    ]


def test_only_entry_modules_and_what_they_share_know_flags():
    found = files_where(lambda tree: imports(tree) & {"absl.flags", "absl.app"})
    allowed = {
        f"tf_transfer/{name}.py"
        for name in ("config/command_line", *PAPERS, *TOOLS)
    }
    assert "tf_transfer/config/command_line.py" in found
    assert found <= allowed


def test_trainable_is_set_in_one_file():
    def sets_trainable(tree):
        return any(
            isinstance(target, ast.Attribute) and target.attr == "trainable"
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
        )

    assert files_where(sets_trainable) == {"tf_transfer/models/freezing.py"}


def test_a_strategy_is_chosen_in_one_file():
    def names_a_strategy(tree):
        return any(
            isinstance(node, ast.Attribute) and node.attr.endswith("Strategy")
            for node in ast.walk(tree)
        )

    assert files_where(names_a_strategy) == {"tf_transfer/training/strategy.py"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_it_is_for_and_stays_short(name):
    text = FILES[name].read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) < LONGEST
