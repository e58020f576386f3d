"""What a run knows of its machine."""

import numpy as np

from tf_transfer.utils import machine


def test_a_mapped_file_is_not_our_own_memory(tmp_path):
    size = 1 << 26  # 64 MB
    with open(tmp_path / "cache", "wb") as file:
        file.truncate(size)
    before = machine.own_memory()
    mapped = np.memmap(tmp_path / "cache", np.uint8, "r")
    assert not mapped.any()  # every page was read
    assert machine.own_memory() - before < size / 10
    array = np.ones(size, np.uint8)
    assert machine.own_memory() - before > 0.9 * array.nbytes


def test_concurrent_runs_are_those_that_compute(tmp_path):
    """Studies, trials, sweeps, their runs, a benchmark, a shell, an editor."""
    commands = {
        10: ("python -m tf_transfer.freezing --lr=1", 1),
        11: ("python -m tf_transfer.freezing --lr=1", 10),
        12: ("python -m tf_transfer.freezing --lr=1", 10),
        20: ("python -m tf_transfer.sweep grid.json", 1),
        21: ("python -m tf_transfer.glue --lr=1", 20),
        30: ("python -m benchmarks.frameworks", 1),
        31: ("bash", 1),
        32: ("vi tf_transfer.glue", 1),
        40: ("python -m tf_transfer glue --lr=1", 1),
        41: ("python -m tf_transfer sweep grid.json", 1),
        50: ("python /bin/tf-transfer glue --lr=1", 1),
        51: ("python /bin/tf-transfer report runs", 1),
    }
    for number, (command, parent) in commands.items():
        folder = tmp_path / str(number)
        folder.mkdir()
        words = command.encode().split()
        (folder / "cmdline").write_bytes(b"\0".join([*words, b""]))
        (folder / "stat").write_text(f"{number} (a ) b) S {parent} 1 1")
    (tmp_path / "60").mkdir()  # gone while we looked
    assert machine.concurrent_runs(str(tmp_path)) == 6


def test_a_start_of_the_machine_is_read_where_linux_has_it(tmp_path):
    drawn = tmp_path / "boot_id"
    assert machine.start_of_machine(str(drawn)) is None
    drawn.write_text("449ef15c-f5f2-40ff-b7a8-a9b8fcc5a8e1\n")
    assert machine.start_of_machine(str(drawn)) == "449ef15c"
