"""Runs that the tests of several parts of the report read."""

import pytest

from tests.reports.synthetic_glue import SMALL
from tests.reports.synthetic_glue import write_task


@pytest.fixture
def two_small_tasks(tmp_path):
    """Two small tasks of GLUE, every approach twice."""
    write_task(
        tmp_path, "rte", SMALL, {"all": 70, "4": 68, "3": 67, "2": 66, "1": 65}
    )
    write_task(
        tmp_path, "mrpc", SMALL, {"all": 80, "4": 76, "3": 78, "2": 77, "1": 75}
    )
    return tmp_path
