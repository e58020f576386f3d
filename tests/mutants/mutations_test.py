"""A mutant changes code, and no text for people or type checkers."""

import ast

import pytest

from tests.mutants import __main__ as main, mutations, trials


def mutate(source):
    """The source of every mutant, after those without a statement."""
    return [
        ast.unparse(mutations.make_mutant(source, mutant.number))
        for mutant in mutations.list_mutants(source)
        if not mutant.name.endswith("(removed)")
    ]


@pytest.mark.parametrize(
    "code, mutants",
    [
        ("a < b", ["a <= b"]),
        ("a == b", ["a != b"]),
        ("a < b < c", ["a <= b < c", "a < b <= c"]),
        ("a and b", ["a or b"]),
        ("a - b", ["a + b"]),
        ("a += b", ["a -= b"]),
        ("not a", ["a"]),
        ("-a", ["a"]),
        ("f(2)", ["f(3)", "f(1)"]),
        ("f(True)", ["f(False)"]),
        ("f('text')", ["f('')"]),
        ("f('', None)", []),
        ("f'text{a}'", ["f'{a}'"]),
        ("[a for a in b if c]", ["[a for a in b if not c]"]),
        ("a if b else c", ["a if not b else c"]),
        ("a if b == c else d", ["a if b != c else d"]),
        ("print('text', 2)", ["print('text', 3)", "print('text', 1)"]),
        ("raise ValueError(f'text{a}')", []),
        ("cast('text', a)", []),
        ("TypedDict('text', {'a': int})", []),
        ("x: 'text' = a", []),
    ],
)
def test_code_has_these_mutants(code, mutants):
    assert [m.replace("f''''", "") for m in mutate(code)] == mutants


def test_statements_are_removed_and_results_lost_but_docstrings_stay():
    source = """
def f(a):
    '''A docstring.'''
    while a:
        a = a.b
        break
    return a
"""
    assert [m.name for m in mutations.list_mutants(source)] == [
        "f: a -> not a",
        "f: a = a.b -> (removed)",
        "f: break -> continue",
        "f: return a -> return None",
    ]
    assert [sorted(m.lines) for m in mutations.list_mutants(source)] == [
        [4],
        [5],
        [6],
        [7],
    ]


def test_what_only_a_type_checker_reads_stays():
    assert not mutate("if TYPE_CHECKING:\n    a = 1\nelse:\n    pass")


def test_every_reason_is_of_a_mutant():
    """Else it belongs to code that has changed, or is gone."""
    listed = set()
    for module, _ in main.read_reasons():
        source = (trials.PACKAGE / module).read_text(encoding="utf-8")
        listed |= {(module, m.name) for m in mutations.list_mutants(source)}
    assert {*main.read_reasons()} <= listed


def test_a_constant_is_named_by_what_it_is_in():
    names = [m.name for m in mutations.list_mutants("a = f(x=1)[0]")]
    assert names[1:3] == [
        ": x=1 -> x=2",
        ": x=1 -> x=0",
    ]
