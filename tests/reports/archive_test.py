"""A study in one file: its report is that of the runs."""

import json
import os
import zipfile

import pytest

from tests.reports import synthetic
from tests.support import commands
from tf_transfer import report
from tf_transfer.reports import archive, summary as summary_lib
from tf_transfer.utils.errors import UserError


def call(*words):
    flags = [word for word in words if word.startswith("--")]
    roots = [word for word in words if not word.startswith("--")]
    return commands.call(
        lambda: report.main(["report", *roots]), report.Settings, *flags
    )


@pytest.fixture
def root(tmp_path):
    """Two finished runs with weights, one that is not finished, a search."""
    root = tmp_path / "runs"
    for seed in (0, 1):
        folder = synthetic.write(root, [0.7, 0.8 + seed / 100], seed=seed)
        os.makedirs(os.path.join(folder, "model"))
        with open(os.path.join(folder, "model", "a.safetensors"), "wb") as file:
            file.write(bytes(99_999))
    unfinished = synthetic.write(root, [0.5], seed=7)
    os.remove(os.path.join(unfinished, "result.json"))
    (root / ".search").mkdir()
    answer = {"lines": ["Train the last block."], "run": "", "table": []}
    (root / ".search" / "answer.json").write_text(json.dumps(answer))
    return str(root)


def summarize(root):
    summary = summary_lib.summarize_folder(root)
    del summary["made"]["on"]
    return summary


def test_the_archive_gives_the_same_report_without_weights(
    root, tmp_path, capsys
):
    path = tmp_path / "study.zip"
    assert call(root, f"--archive={path}") == 0
    assert f"2 runs packed: {path}" in capsys.readouterr().out
    assert path.stat().st_size < 30_000
    with zipfile.ZipFile(path) as packed:
        names = packed.namelist()
        packed.extractall(tmp_path / "elsewhere")
    assert "runs/summary.json" in names
    assert not [name for name in names if name.endswith("safetensors")]
    left_out = summarize(root).pop("left_out")
    again = summarize(str(tmp_path / "elsewhere" / "runs"))
    assert len(left_out) == 1 and not again["left_out"]
    assert {**summarize(root), "left_out": []} == again


def test_the_same_runs_are_the_same_bytes(root, tmp_path):
    contents = []
    for name in ("a.zip", "b.zip"):
        archive.pack(root, b"{}", str(tmp_path / name))
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


def test_an_archive_is_of_one_folder_and_ends_in_zip(root, tmp_path, capsys):
    summary = os.path.join(root, "report", "summary.json")
    assert call(root) == 0
    assert call(summary, f"--archive={tmp_path / 'a.zip'}") == 2
    assert "packs one folder of runs" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"ends in \.zip"):
        archive.pack(root, b"", str(tmp_path / "a.tar"))
