"""An empty store, and an entry of it."""

import pytest

from tests.support.cache_entries import KEY
from tf_transfer.feature_cache import store as store_lib


@pytest.fixture
def store(tmp_path):
    return store_lib.Store(str(tmp_path))


@pytest.fixture
def entry(store):
    return store.open(KEY, "tiny")
