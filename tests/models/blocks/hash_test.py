"""The feature cache's key has every file that computes hidden states."""

import pathlib
import shutil

import pytest

from tf_transfer.models import blocks, encoder

FILES = sorted(
    path.name for path in pathlib.Path(blocks.__file__).parent.glob("*.py")
)


def hash_code():
    encoder._hash_code.cache_clear()
    return encoder._hash_code()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the package of blocks, which the hash reads."""
    folder = tmp_path / "blocks"
    shutil.copytree(pathlib.Path(blocks.__file__).parent, folder)
    monkeypatch.setattr(blocks, "__file__", str(folder / "__init__.py"))
    yield folder
    monkeypatch.undo()
    encoder._hash_code.cache_clear()


@pytest.mark.parametrize("name", FILES)
def test_an_edit_of_any_file_of_the_blocks_changes_the_hash(name, folder):
    before = hash_code()
    assert hash_code() == before
    with open(folder / name, "a", encoding="utf-8") as file:
        file.write("# edited")
    assert hash_code() != before


def test_a_new_family_changes_the_hash(folder):
    before = hash_code()
    (folder / "new.py").write_text("SIZE = 1")
    assert hash_code() != before
