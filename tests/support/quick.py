"""Runs that take a second or two: eagerly, and on a smaller `tiny`."""

import contextlib

import pytest

from tests.conftest import running_eagerly


@contextlib.contextmanager
def eagerly(blocks=1):
    """Inside, nothing is traced, and `tiny` has so many blocks.

    For fixtures that outlive a test; tests themselves have the fixtures
    `eager` and `one_block`.
    """
    from tf_transfer.models import tiny

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", blocks)
        with running_eagerly(patch):
            yield
