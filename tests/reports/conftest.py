"""Runs that the tests of several parts of the report read."""

import pytest

from tests.reports import synthetic_stacking
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


@pytest.fixture
def ner(tmp_path):
    """Entities: every adaptation, the BiLSTM stacked first the best."""
    three = {"seeds": 3, "step": 0.5}
    synthetic_stacking.write(
        tmp_path, "ner", [60, 70, 80], **three, **synthetic_stacking.BASE
    )
    synthetic_stacking.write(tmp_path, "ner", [50, 55], adaptation="stack_only")
    synthetic_stacking.write(
        tmp_path,
        "ner",
        [55, 60, 58, 81, 86],
        **three,
        seconds=8.0,
        kept=2,
        phase_one_epochs=3,
        phase_one_gap=0.02,
        max_epochs=3,
    )
    synthetic_stacking.write(tmp_path, "ner", [60, 70, 81], adaptation="joint")
    return tmp_path
