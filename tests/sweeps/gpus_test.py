"""Which worker has which GPU; the GPUs are made up."""

import pytest

from tf_transfer.sweeps import local
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError


@pytest.mark.parametrize(
    "gpus, jobs, runs_per_gpu, expected",
    [
        ([], None, 1, [None]),
        ([], 3, 2, [None] * 3),
        (["0"], None, 1, ["0"]),
        (["0", "1", "2"], None, 1, ["0", "1", "2"]),
        (["0", "1", "2"], 2, 1, ["0", "1"]),
        (["4", "7"], None, 2, ["4", "7", "4", "7"]),
        (["4", "7"], 3, 2, ["4", "7", "4"]),
        (["GPU-8a", "MIG-1/2"], None, 1, ["GPU-8a", "MIG-1/2"]),
    ],
)
def test_each_worker_has_a_gpu_of_its_own(gpus, jobs, runs_per_gpu, expected):
    found = local.assign_gpus(gpus, jobs, runs_per_gpu)
    assert [changes.get(machine.VISIBLE_GPUS) for changes in found] == expected


def test_more_workers_than_places_are_an_error():
    with pytest.raises(UserError, match=r"--jobs=3.*2 GPUs.*--jobs=2"):
        local.assign_gpus(["0", "1"], 3)


def test_a_run_that_spreads_over_all_gpus_sees_all():
    assert local.assign_gpus(["0", "1"], needs_all=True) == [{}]


@pytest.mark.parametrize(
    "visible, gpus", [("2,3", ["2", "3"]), ("-1", []), ("", [])]
)
def test_only_visible_gpus_are_used(visible, gpus, monkeypatch):
    monkeypatch.setenv(machine.VISIBLE_GPUS, visible)
    assert machine.list_gpus() == gpus


def test_without_a_driver_there_are_no_gpus(monkeypatch, tmp_path):
    monkeypatch.delenv(machine.VISIBLE_GPUS)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.list_gpus() == []
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A\nGPU 1: B'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert machine.list_gpus() == ["0", "1"]
