"""A model folder of transformers."""

import shutil

import pytest

from tests.models import encoders, saving


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A folder that stays as it is."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    saving.as_hugging_face(encoders.shared("bert"), folder)
    return folder


@pytest.fixture
def folder(bert, tmp_path):
    """A folder that can be changed."""
    return shutil.copytree(bert, tmp_path / "bert")
