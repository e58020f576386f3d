"""Small runs that are left alone, for comparison."""

import time

import pytest

from tests.attack import small_runs
from tests.training import resume_test


@pytest.fixture(scope="session")
def undisturbed(forks, tmp_path_factory):
    """What runs left alone leave; their folders; and how long they take."""
    runs = {}
    for cached in (False, True):
        folder = tmp_path_factory.mktemp("undisturbed")
        began = time.monotonic()
        case = forks.start(
            small_runs.train, str(folder), cached, folder=str(folder)
        )
        code, out, err = case.finish()
        assert code == 0, out + err
        seconds = time.monotonic() - began
        left = resume_test.what_a_run_left(small_runs.run_folder(folder))
        runs[cached] = left, folder, seconds
    return runs


@pytest.fixture
def few_attempts(request):
    """As `attempts`, but of fewer cases: each takes seconds."""
    share = 1 if request.config.getoption("--attack") else 25
    return lambda count: max(1, count // share)


@pytest.fixture
def start(forks, tmp_path):
    """Starts the run in a folder; its output goes next to the folder."""
    return lambda folder, cached: forks.start(
        small_runs.train, str(folder), cached, folder=str(tmp_path)
    )
