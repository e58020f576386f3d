"""`python -m tf_transfer.data --check`: a file that differs is named."""

import hashlib
import os
import re

import pytest

from tests.support import commands
from tf_transfer.data import __main__ as check
from tf_transfer.utils.errors import UserError


@pytest.fixture
def known(tmp_path, monkeypatch):
    """Two files of known sums, in the folder `glue`."""
    sums = {}
    for name in ("CoLA/train.tsv", "CoLA/dev.tsv"):
        path = tmp_path / "glue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"rows of {name}\n")
        sums[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(check, "read_sums", lambda: sums)
    return tmp_path


def test_files_are_compared_at_any_folder_above(known, capsys):
    for folder in (known, known / "glue", known / "glue" / "CoLA"):
        check.check(str(folder))
        assert "2 files as in docs/guides/data.md." in capsys.readouterr().out


def test_a_file_that_differs_is_named(known, capsys):
    path = known / "glue" / "CoLA" / "dev.tsv"
    path.write_text("other rows\n")
    (known / "train.tsv").write_text("of another set")
    with pytest.raises(UserError, match=f"1 file of 2 not .*: {path}. Runs"):
        check.check(str(known))
    assert f"DIFFERS      {path}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "folder, words",
    [
        ("", "--check: give"),
        ("nowhere", "is no folder"),
        (".", "holds no file"),
    ],
)
def test_a_folder_without_known_files_is_an_error(
    folder, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=words):
        check.check(check.Settings(check=folder).resolve().check)


def test_the_page_has_the_sums_of_the_package():
    path = os.path.join(commands.ROOT, "docs", "guides", "data.md")
    with open(path, encoding="utf-8") as file:
        lines = re.findall(r"^([0-9a-f]{64})  (\S+)$", file.read(), re.M)
    assert {name: sha256 for sha256, name in lines} == check.read_sums()


def test_the_shared_files_are_as_listed(capsys):
    shared = os.path.join(commands.ROOT, "..", "shared", "data")
    if not os.path.isdir(shared):
        pytest.skip("needs ../shared")
    check.check(shared)
    assert "28 files as in docs" in capsys.readouterr().out
