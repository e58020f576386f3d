"""Every field of every command: types and bounds, made from the fields."""

import dataclasses
import itertools
import math

import pytest

import tf_transfer.__main__ as main
from tf_transfer import train
from tf_transfer.config import fields, settings
from tf_transfer.glue import experiment as glue
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils.errors import UserError

COMMANDS = tuple(itertools.chain(*main.GROUPS.values()))
CLASSES = tuple(map(main.settings_of, COMMANDS))
RUNS = tuple(cls for cls in CLASSES if issubclass(cls, settings.Settings))
WRONG_TYPES = {
    str: (1, True),
    int: ("1", 1.0, True),
    float: ("1", True),
    bool: (1, "true"),
    tuple[str, ...]: ("1", 1),
}


def step(field, value, direction):
    """The next number of the field's type, up or down."""
    if field.type is int:
        return int(value) + direction
    return math.nextafter(float(value), direction * math.inf)


def values_of(field):
    """Values just inside and just outside of what a field allows."""
    allowed = field.metadata
    inside, outside = [], [*WRONG_TYPES[field.type]]
    for name, direction in (("at_least", -1), ("at_most", 1)):
        if allowed[name] is not None:
            inside.append(field.type(allowed[name]))
            outside.append(step(field, allowed[name], direction))
    for name, direction in (("above", 1), ("below", -1)):
        if allowed[name] is not None:
            inside.append(step(field, allowed[name], direction))
            outside.append(field.type(allowed[name]))
    if field.type is int:
        outside += [fields.LARGEST_INT + 1, -fields.LARGEST_INT - 1]
        if allowed["at_most"] is None and allowed["below"] is None:
            inside.append(fields.LARGEST_INT)
    if field.type is float:
        outside += [math.nan, math.inf, -math.inf]
    if field.type is str:
        outside.append("\0")
    if allowed["choices"]:
        inside += allowed["choices"]
        outside.append("no such choice")
    if field.default is not None:
        inside.append(field.default)
    return inside, outside


@pytest.mark.parametrize("cls", CLASSES, ids=COMMANDS)
def test_a_field_takes_what_is_inside_of_its_bounds_alone(cls):
    for field in dataclasses.fields(cls):
        inside, outside = values_of(field)
        for value in inside:
            fields.check_field(field, value)
        for value in outside:
            with pytest.raises(UserError) as error:
                fields.check_field(field, value)
            assert str(error.value).startswith(f"--{field.name}=")


@pytest.mark.parametrize("cls", CLASSES, ids=COMMANDS)
def test_conditions_and_changes_name_what_there_is(cls):
    for field in dataclasses.fields(cls):
        for name in field.metadata["needs"]:
            assert hasattr(cls, name), (field.name, name)
        assert set(field.metadata) == set(
            fields.setting(0, "").metadata  # nothing misspelt in `changes`
        )


@pytest.mark.parametrize("name", ["max_length", "batch_size"])
def test_a_bound_holds_in_every_command(name):
    """`train` had lost two of them, by declaring the fields again."""
    bounds = {
        cls.__dataclass_fields__[name].metadata["at_most"] for cls in RUNS
    }
    assert bounds == {2**16}
    with pytest.raises(UserError, match=f"--{name}=1000000: must be"):
        train.Settings(task="rte", **{name: 1_000_000}).resolve()


def test_tweets_refuses_what_its_runs_do_not_read():
    table = {"data": "a.csv"}
    words = tweets.Settings(**table, features="tfidf")
    assert {"lr", "model", "seed"} <= {*words.unread()}
    assert not {"folds", "fold_seed", "encoding"} & {*words.unread()}
    assert (
        "fold_seed"
        in tweets.Settings(**table, features="tfidf", folds=0).unread()
    )
    assert {"folds", "preprocessing"} <= {*tweets.Settings(**table).unread()}
    ids = tweets.Settings(**table, test_ids="ids.txt")
    assert "test_fraction" in ids.unread()


def test_another_default_leaves_the_rest_of_a_field():
    for name, default in tweets.RECIPE.items():
        field = tweets.Settings.__dataclass_fields__[name]
        assert field.default == default
        assert {*field.metadata} == {*fields.setting(0, "").metadata}
    with pytest.raises(KeyError):

        class Misspelt(glue.Settings, defaults={"batch_sise": 2}):
            """A recipe for no field."""
