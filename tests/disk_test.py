"""The disk that is used is one line, with the command that clears it."""

from tests.cache_test import entry
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.runs import disk
from tf_transfer.utils import formatting


def test_runs_and_stored_states_are_counted_once(tmp_path, capsys):
    cache, out = tmp_path / "runs" / "cache", tmp_path / "runs"
    (out / "train").mkdir(parents=True)
    (out / "train" / "result.json").write_bytes(bytes(1500))
    (out / "log").write_bytes(bytes(500))
    entry(store_lib.Store(str(cache)), "some")
    stored = store_lib.Store(str(cache)).num_bytes
    disk.print_used(str(out), str(cache))
    assert capsys.readouterr().out == (
        f"Disk: 2 kB in {out}, {formatting.size(stored)} of stored states in "
        f"{cache}. To delete these: python -m tf_transfer.cache --clear "
        f"--cache_dir={cache}\n"
    )


def test_a_cache_without_states_is_not_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    disk.print_used(str(tmp_path / "none"))
    assert capsys.readouterr().out == f"Disk: 0 bytes in {tmp_path}/none.\n"


def test_the_users_own_cache_needs_no_flag(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    entry(store_lib.Store(str(tmp_path / "tf_transfer")), "some")
    disk.print_used(str(tmp_path / "none"))
    line = capsys.readouterr().out
    assert line.endswith(": python -m tf_transfer.cache --clear\n")


def test_a_disk_that_fails_stops_no_command(tmp_path, capsys, monkeypatch):
    def fail(store):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store_lib.Store, "num_bytes", property(fail))
    disk.print_used(str(tmp_path))
    assert capsys.readouterr().out == ""
