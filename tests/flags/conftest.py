"""Small and eager runs, and the one that every other is compared with."""

import pytest

from tests.conftest import running_eagerly
from tests.support.flag_runs import run
from tf_transfer.data import batches
from tf_transfer.models import tiny


@pytest.fixture(scope="module", autouse=True)
def small_and_eager():
    """One block, one length, nothing traced."""
    with pytest.MonkeyPatch.context() as patch, running_eagerly(patch):
        patch.setattr(tiny, "BLOCKS", 1)
        patch.setattr(batches, "BUCKETS", ())
        yield


@pytest.fixture(scope="module")
def base(tmp_path_factory, small_and_eager):
    return run(tmp_path_factory.mktemp("base"))
