"""Runs that several tests of the report read; none of them changes them."""

import pytest

from tests.reports import synthetic_stacking
from tests.reports.composed import compose
from tests.reports.synthetic_glue import SMALL
from tests.reports.synthetic_glue import write_task


@pytest.fixture(scope="session")
def two_small_tasks(tmp_path_factory):
    """Two small tasks of GLUE, every approach twice."""
    root = tmp_path_factory.mktemp("two_small_tasks")
    write_task(
        root, "rte", SMALL, {"all": 70, "4": 68, "3": 67, "2": 66, "1": 65}
    )
    write_task(
        root, "mrpc", SMALL, {"all": 80, "4": 76, "3": 78, "2": 77, "1": 75}
    )
    return root


@pytest.fixture(scope="session")
def ner(tmp_path_factory):
    """Entities: every adaptation, the BiLSTM stacked first the best."""
    root = tmp_path_factory.mktemp("ner")
    three = {"seeds": 3, "step": 0.5}
    synthetic_stacking.write(
        root, "ner", [60, 70, 80], **three, **synthetic_stacking.BASE
    )
    synthetic_stacking.write(root, "ner", [50, 55], adaptation="stack_only")
    synthetic_stacking.write(
        root,
        "ner",
        [55, 60, 58, 81, 86],
        **three,
        seconds=8.0,
        kept=2,
        phase_one_epochs=3,
        phase_one_gap=0.02,
        max_epochs=3,
    )
    synthetic_stacking.write(root, "ner", [60, 70, 81], adaptation="joint")
    return root


@pytest.fixture(scope="session")
def ner_report(ner):
    """The parts of the report on `ner`."""
    return compose(ner)
