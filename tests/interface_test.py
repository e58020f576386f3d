"""The public names: their help is complete, and its examples run."""

import doctest
import inspect

import pytest

import tf_transfer
from tests.searches import fake_runs

NAMES = [name for name in tf_transfer.__all__ if name != "__version__"]


def find_public():
    """Each public function, class and method, by its name."""
    for name in NAMES:
        value = getattr(tf_transfer, name)
        yield name, value
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, callable):
                module = getattr(function, "__module__", None) or ""
                if not method.startswith("_") and module.startswith(
                    "tf_transfer"
                ):
                    yield f"{name}.{method}", function


@pytest.mark.parametrize("name, value", find_public())
def test_help_describes_every_parameter_and_type(name, value):
    text = inspect.getdoc(value)
    parameters = inspect.signature(value).parameters
    for parameter in parameters.values():
        if parameter.name == "self":
            continue
        assert parameter.annotation is not parameter.empty, parameter.name
        if "; see `" not in text:
            assert f"\n    {parameter.name}: " in text, parameter.name
    if "." in name:
        returned = inspect.signature(value).return_annotation
        assert returned is not inspect.Signature.empty
        assert "Returns:" in text or "; see `" in text
    else:
        assert "\nExamples:\n" in text


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name, monkeypatch, tmp_path, eager, one_block):
    """Offline; the runs of the search train nothing."""
    monkeypatch.chdir(tmp_path)
    if name == "TextSearch":
        fake_runs.put_in(monkeypatch, fake_runs.World())
    [example, *others] = doctest.DocTestFinder(recurse=False).find(
        getattr(tf_transfer, name), name
    )
    assert not others
    results = doctest.DocTestRunner().run(example)
    assert not results.failed
    assert results.attempted or name == "TrainedModel"  # which refers to `load`


def test_a_name_that_is_not_public_is_an_error():
    assert {*NAMES} <= {*dir(tf_transfer)}
    with pytest.raises(AttributeError, match="has no attribute 'TextThing'"):
        _ = tf_transfer.TextThing
