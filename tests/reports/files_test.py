"""Files that are no files below a report, and full disks above it."""

import errno
import os

import pytest

from tests.reports import synthetic
from tests.utils.disks import fail
from tf_transfer import report
from tf_transfer.reports import summary as summary_lib
from tf_transfer.training import records
from tf_transfer.utils.errors import FullDiskError


@pytest.mark.parametrize("name", ["result.json", *records.HASHED])
@pytest.mark.parametrize(
    "put", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)]
)
def test_a_file_of_a_run_that_is_none_leaves_out_its_run(name, put, tmp_path):
    good = synthetic.write(tmp_path, [0.6, 0.7])
    bad = synthetic.write(tmp_path, [0.6, 0.7], seed=1)
    path = os.path.join(bad, name)
    if os.path.exists(path):
        os.remove(path)
    put(path)
    reported = summary_lib.summarize_folder(str(tmp_path))
    assert [run.path for run in reported["runs"]] == [
        os.path.relpath(good, tmp_path)
    ]
    assert reported["left_out"] == [
        (os.path.relpath(bad, tmp_path), f"{name}: is no file")
    ]


def test_a_full_disk_leaves_a_document_and_its_figures_as_they_were(
    tmp_path, monkeypatch
):
    synthetic.write(tmp_path / "runs", [0.6, 0.7])
    summary = summary_lib.summarize_folder(str(tmp_path / "runs"))
    page = report.compose(summary)
    document = tmp_path / "README.md"
    begin = report.BEGIN.replace(":", " into kept:", 1)
    document.write_text(f"Before.\n{begin}\nstale text\n{report.END}\n")
    report.write_document(str(document), page, summary)
    text = document.read_text()
    assert "stale text" not in text
    kept = sorted(os.listdir(tmp_path / "kept"))
    document.write_text(text.replace("Before", "Mine"))

    def write_part(path, content):
        with open(path, "wb") as file:
            file.write(content[:10])
        fail(errno.ENOSPC)()

    monkeypatch.setattr("pathlib.Path.write_bytes", write_part)
    with pytest.raises(FullDiskError, match="kept: the disk is full"):
        report.write_document(str(document), page, summary)
    assert sorted(os.listdir(tmp_path / "kept")) == kept
    assert summary_lib.read_summary(str(tmp_path / "kept" / "summary.json"))
    assert document.read_text() == text.replace("Before", "Mine")
