"""Everything goes one way: no module reaches back up."""

import ast
import pathlib

import pytest

from tf_transfer.config import experiments

ROOT = pathlib.Path(__file__).parent.parent
FILES = {
    path.relative_to(ROOT).as_posix(): path
    for path in sorted((ROOT / "tf_transfer").rglob("*.py"))
}
PAPERS = experiments.FOLDERS
EXPERIMENTS = (*(f"{name}/experiment" for name in PAPERS), "train")
COMMANDS = ("cache", "data/__main__", "predict", "report", "search", "sweep")
ENTRIES = tuple(
    f"tf_transfer.{name.replace('/', '.')}"
    for name in (*PAPERS, "train", *COMMANDS)
)

# The rooms from the bottom up. A room imports itself and those that are listed,
# directly or inside of a function.
ROOMS = {
    "utils": (),
    "config": ("utils",),
    "data": ("utils",),
    "own": ("data", "utils"),
    "models": ("data", "utils"),
    "feature_cache": ("models", "data", "utils"),
    "training": ("models", "feature_cache", "data", "config", "utils"),
    "comparison": ("training", "data", "config", "utils"),
    "reports": ("comparison", "training", "data", "config", "utils"),
    "baselines": (
        "reports",
        "comparison",
        "training",
        "models",
        "feature_cache",
        "own",
        "data",
        "config",
        "utils",
    ),
    "runs": (
        "baselines",
        "reports",
        "comparison",
        "training",
        "models",
        "feature_cache",
        "own",
        "data",
        "config",
        "utils",
    ),
    "experiment": (
        "runs",
        "baselines",
        "training",
        "models",
        "feature_cache",
        "own",
        "data",
        "config",
        "utils",
    ),
    "sweeps": (
        "experiment",
        "runs",
        "reports",
        "comparison",
        "training",
        "models",
        "data",
        "config",
        "utils",
    ),
    "searches": (
        "train",
        "experiment",
        "runs",
        "sweeps",
        "reports",
        "comparison",
        "training",
        "models",
        "data",
        "config",
        "utils",
    ),
    "estimators": (
        "search",
        "searches",
        "train",
        "experiment",
        "runs",
        "baselines",
        "training",
        "models",
        "feature_cache",
        "data",
        "own",
        "config",
        "utils",
    ),
}
# Of the data, training knows encoded splits and their batches, no tasks.
TRAINING_READS = (
    "tf_transfer.data.batches",
    "tf_transfer.data.encoded_split",
)


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


def files_of(room):
    return [
        name
        for name in FILES
        if f"{name}/".startswith(f"tf_transfer/{room}/")
        or name == f"tf_transfer/{room}.py"
        if name.removesuffix(".py").removeprefix("tf_transfer/") not in COMMANDS
    ]


def ours(name):
    """What of this package a module imports."""
    return {
        n for n in imports(parse(FILES[name])) if is_below(n, "tf_transfer")
    }


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_below(room):
    files = files_of(room)
    assert files
    allowed = ("tf_transfer._version",) + tuple(
        f"tf_transfer.{other}" for other in (room, *ROOMS[room])
    )
    wrong = [
        (name, imported)
        for name in files
        for imported in ours(name)
        if not any(is_below(imported, package) for package in allowed)
    ]
    assert not wrong


def test_training_knows_no_tasks():
    read = {
        imported
        for name in files_of("training")
        for imported in ours(name)
        if is_below(imported, "tf_transfer.data")
    }
    assert read
    assert all(
        any(is_below(imported, module) for module in TRAINING_READS)
        for imported in read
    )


def test_every_module_is_in_a_room_or_a_command():
    placed = {name for room in ROOMS for name in files_of(room)}
    placed |= {name for paper in PAPERS for name in files_of(paper)}
    placed |= {f"tf_transfer/{name}.py" for name in ("train", *COMMANDS)}
    others = set(FILES) - placed
    assert others == {
        "tf_transfer/__init__.py",
        "tf_transfer/__main__.py",
        "tf_transfer/_version.py",
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_paper_imports_no_other_paper_and_no_tool(name):
    found = imports(parse(FILES[f"tf_transfer/{name}.py"]))
    assert found
    command = f"tf_transfer.{name.partition('/')[0]}"
    others = [entry for entry in ENTRIES if entry != command]
    assert not [
        name for name in found for entry in others if is_below(name, entry)
    ]


def test_two_files_alone_know_flags():
    found = files_where(lambda tree: imports(tree) & {"absl.flags", "absl.app"})
    assert found == {
        "tf_transfer/config/command_line.py",
        "tf_transfer/config/help.py",
    }


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
            isinstance(node, ast.Attribute)
            and node.attr.endswith("Strategy")
            and node.attr != "Strategy"  # the base class is a type
            for node in ast.walk(tree)
        )

    assert files_where(names_a_strategy) == {"tf_transfer/training/strategy.py"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_it_is_for(name):
    text = FILES[name].read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))


# === Plain statements ===


def is_condition(node):
    """Whether an expression is of truth."""
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    is_bool = isinstance(node, ast.Call) and ast.unparse(node.func) == "bool"
    return is_not or is_bool or isinstance(node, ast.Compare | ast.BoolOp)


def is_dense(node):
    """Whether it is a condition as a factor, or a loop over one element."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return is_condition(node.left) or is_condition(node.right)
    loops = isinstance(node, ast.comprehension | ast.For)
    values = isinstance(node.iter, ast.List | ast.Tuple) if loops else False
    return (
        values
        and len(node.iter.elts) == 1
        and (not isinstance(node.iter.elts[0], ast.Starred))
    )


@pytest.mark.parametrize("name", FILES)
def test_a_condition_is_no_factor_and_a_loop_has_several_elements(name):
    nodes = [*ast.walk(ast.parse(FILES[name].read_text()))]
    dense = [ast.unparse(node) for node in nodes if is_dense(node)]
    assert not dense, "write it as an `if`, or as plain statements"


@pytest.mark.parametrize(
    "text, dense",
    [
        ("words * bool(rows)", True),
        ("f'{n} more' * (n > 1)", True),
        ("[x for y in [f(z)] for x in y]", True),
        ("'-' * width", False),
        ("[x for x in [*rows]]", False),
        ("[x for x in (1, 2)]", False),
    ],
)
def test_what_is_dense_is_found(text, dense):
    assert any(map(is_dense, ast.walk(ast.parse(text)))) == dense
