"""Every flag has a test in this folder: it changes a number or the output.

`config.json` does not count.
"""

import dataclasses
import importlib

import pytest

from tests.support.flag_runs import SHOWN
from tf_transfer.glue import experiment as glue


@pytest.fixture
def tested():
    """The flags that the tests of this folder are about."""
    for name in ("data", "numbers", "output", "program"):
        importlib.import_module(f"tests.flags.{name}_test")
    return SHOWN


def test_every_flag_has_a_test_here(tested):
    flags = {field.name for field in dataclasses.fields(glue.Settings)}
    assert flags == tested
