"""No fault of a file operation loses or falsifies a number."""

import contextlib
import os
import tempfile

import pytest

from tests.faults import disk as disk_lib, points, scenarios
from tests.faults.points import Scenario
from tf_transfer.config import command_line

MOST_SHOWN = 5


@pytest.fixture
def root(tmp_path):
    """A folder in memory, where there is one: a point has many small files."""
    memory = "/dev/shm"
    where = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield os.path.join(folder, "root")


@pytest.fixture(autouse=True)
def same_machine(monkeypatch):
    """All points have the same operations."""
    scenarios.make_equal(monkeypatch)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in scenarios.SLOW))
        for name in scenarios.SCENARIOS
    ],
)
def test_a_fault_costs_no_number(name, root, request):
    trial = points.Trial(name, scenarios.SCENARIOS[name], root)
    tried = points.choose(trial.points, request.config)
    problems = [*filter(None, map(trial.try_point, tried))]
    shown = "\n\n".join(problems[:MOST_SHOWN])
    assert not problems, (
        f"{len(problems)} of {len(tried)} points. The first ones, each of "
        'which `pytest tests/faults --fault="SCENARIO:NUMBER:KIND"` repeats:'
        f"\n\n{shown}"
    )


# === The disk itself ===


def write_in_place(path):
    with open(path, "wb") as file:
        file.write(b"the new one")


def write_without_sync(path):
    with open(f"{path}.tmp", "wb") as file:
        file.write(b"the new one")
    os.replace(f"{path}.tmp", path)


def write_and_ignore_errors(path):
    with contextlib.suppress(OSError):
        write_in_place(path)


def write_once(path):
    """Leaves what an earlier process has written, whatever that is."""
    if not os.path.exists(f"{path}.new"):
        write_in_place(f"{path}.new")


@pytest.mark.parametrize(
    "write, name, kinds",
    [
        (write_without_sync, "file", {"power loss, names kept"}),
        (write_and_ignore_errors, "file", {"ENOSPC", "EIO"}),
        (write_once, "file.new", {"kill", "power loss, names kept"}),
    ],
)
def test_points_find_what_does_not_hold(write, name, kinds, root):
    def prepare(folder):
        with open(os.path.join(folder, "file"), "wb") as file:
            file.write(b"old")

    def read(folder):
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()

    scenario = Scenario(
        prepare, lambda folder: write(f"{folder}/file"), read, ("file*",)
    )
    trial = points.Trial("writer", scenario, root)
    failing_kinds = {p.kind for p in trial.points if trial.try_point(p)}
    assert kinds <= failing_kinds


@pytest.mark.parametrize(
    "kind, left",
    [
        ("power loss", {"synced": b"", "folder": None}),
        (
            "power loss, names kept",
            {"synced": b"new", "unsynced": b"", "folder": None},
        ),
    ],
)
def test_a_loss_of_power_keeps_what_is_synced(kind, left, root):
    disk_lib.write_tree(root, {"synced": b"", "folder": None})
    with disk_lib.Disk(root, 1000, kind) as disk:
        for name in ("new", "unsynced"):
            with open(os.path.join(root, name), "wb") as file:
                file.write(b"new")
                file.flush()
                if name == "new":
                    os.fsync(file.fileno())
        os.replace(os.path.join(root, "new"), os.path.join(root, "synced"))
    disk.cut_power()
    assert disk_lib.read_tree(root) == left


@pytest.mark.slow
def test_writers_in_other_languages_are_operations(root):
    command_line.import_tensorflow()
    import h5py
    import tensorflow as tf

    weights = tf.train.Checkpoint(weight=tf.Variable([1.0]))

    def write(number, kind):
        disk_lib.write_tree(root, {})
        with disk_lib.Disk(root, number, kind) as disk:
            weights.write(os.path.join(root, "weights"))
            with h5py.File(os.path.join(root, "file.h5"), "w"):
                pass
        return disk.operations

    operations = write(None, "")
    written = {
        path.split("_")[0]: number
        for number, (name, path) in enumerate(operations, 1)
        if name == "write"
    }
    assert {*written} == {"weights", "file.h5"}
    for number in written.values():
        with pytest.raises((OSError, tf.errors.UnknownError)):
            write(number, "EIO")
