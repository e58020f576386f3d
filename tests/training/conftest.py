"""A run directory that a test may write into."""

import pytest

from tests.training.run_directories import KEY
from tf_transfer.training import records


@pytest.fixture
def run(tmp_path):
    """A run directory that this process has locked."""
    found = records.RunDirectory(str(tmp_path / "run"), KEY)
    found.lock()
    yield found
    found.close()
