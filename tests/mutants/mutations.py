"""Mutants of a module: its syntax tree with one change.

Changed are comparisons, `and` and `or`, arithmetic, constants, conditions,
returned values, simple statements, `break` and `continue`; not docstrings, the
texts of messages, types and what is under TYPE_CHECKING.
"""

import ast
import contextlib
import dataclasses

SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Add,
    ast.LShift: ast.RShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}
OPPOSITES = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete)
CONDITIONS = ("test", "ifs")
HINTS = ("annotation", "returns")
SAYS = ("print", "UserError", "warn", "warning", "info", "error")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of a module.

    Attributes:
        name: the function, the changed code and the new code.
        number: counts the mutants of its module, from 0; None for no change.
        owner: the dotted name of the outermost function whose body has the
            change; empty for code that an import executes.
        lines: of the changed code, and of the statement's beginning.
    """

    name: str
    number: int | None
    owner: str
    lines: frozenset[int]


def list_mutants(source):
    """All mutants of a module's source."""
    return [
        Mutant(name, number, owner, lines)
        for number, (name, owner, lines) in enumerate(
            _mutate(ast.parse(source))
        )
    ]


def make_mutant(source, number):
    """The syntax tree of a mutant; without a number, of the source."""
    tree = ast.parse(source)
    if number is None:
        return tree
    mutants = _mutate(tree)
    for _ in range(number + 1):
        next(mutants)
    mutants.close()
    return tree


def _mutate(node, names=(), owner="", begin=0, says=False):
    """Changes a tree, yields the mutant's attributes, and restores the tree.

    Args:
        node: the tree.
        names: of the classes and functions around it, and its own.
        owner: see `Mutant`.
        begin: first line of the statement that the node is in.
        says: whether its texts are those of a message.
    """
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        names = (*names, node.name)
    says = says or _says(node)
    for field, value in ast.iter_fields(node):
        if field in HINTS or _is_for_types(node, field):
            continue
        inner = owner
        if isinstance(node, ast.FunctionDef) and field == "body":
            inner = owner or ".".join(names)
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_text(child):
                continue
            start = child.lineno if isinstance(child, ast.stmt) else begin
            # A constant alone would not say which one.
            is_shown_alone = not isinstance(child, ast.Constant)
            before = _show(child if is_shown_alone else node)
            for new in _changes(child, field, says):
                ast.copy_location(new, child)
                ast.fix_missing_locations(new)
                with _in_place(node, field, index, new):
                    after = _show(new if is_shown_alone else node)
                    name = f"{'.'.join(names)}: {before} -> {after}"
                    span = range(child.lineno, child.end_lineno + 1)
                    yield name, inner, frozenset({start, *span})
            yield from _mutate(child, names, inner, start, says)


@contextlib.contextmanager
def _in_place(node, field, index, new):
    """Inside, a child of a node is another one.

    It stays so if the generator of mutants is closed there.
    """
    old = getattr(node, field)
    if isinstance(old, list):
        setattr(node, field, [*old[:index], new, *old[index + 1 :]])
    else:
        setattr(node, field, new)
    yield
    setattr(node, field, old)


def _changes(node, field, says):
    """What may stand in a node's place."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            new = SWAPS[type(operator)]()
            ops = [*node.ops[:index], new, *node.ops[index + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(SWAPS[type(node.op)](), node.values)
    elif isinstance(node, ast.BinOp):
        yield ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
    elif isinstance(node, ast.AugAssign):
        yield ast.AugAssign(node.target, SWAPS[type(node.op)](), node.value)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Constant):
        for value in _other_values(node.value, says):
            yield ast.Constant(value)
    elif isinstance(node, ast.Return) and not _is_none(node.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    if isinstance(node, REMOVED):
        yield ast.Pass()
    if field in CONDITIONS and not _has_opposite(node):
        yield ast.UnaryOp(ast.Not(), node)


def _other_values(value, says):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1]
    if isinstance(value, str | bytes) and value and not says:
        return [type(value)()]
    return []


def _has_opposite(node):
    """Whether another mutant is its negation."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and isinstance(node.ops[0], OPPOSITES)
    return isinstance(node, ast.UnaryOp | ast.Constant)


def _is_none(value):
    return value is None or _show(value) == "None"


def _is_text(node):
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _says(node):
    """Whether the texts in a node are for people."""
    if isinstance(node, ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    return _show(node.func).split(".")[-1] in SAYS


def _is_for_types(node, field):
    """Whether only a type checker reads a field of a node."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in _show(node.test):
        return True
    return isinstance(node, ast.Call) and (
        field == "args" and _show(node.func) in ("cast", "TypedDict")
    )


def _show(node):
    return "(removed)" if isinstance(node, ast.Pass) else ast.unparse(node)
