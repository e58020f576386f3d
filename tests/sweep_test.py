"""A sweep as a user starts it: real runs, failures, kill -9, a dry run."""

import glob
import io
import json
import os
import signal
import time

import pytest

from tests import commands
from tests.sweeps import work_test
from tf_transfer import sweep
from tf_transfer.sweeps import display as display_lib
from tf_transfer.sweeps import work

FLAGS = {
    "model": "tiny",
    "data": "sample",
    "task": "rte",
    "batch_size": 8,
    "max_length": 16,
    "max_epochs": 1,
}


@pytest.fixture
def grid(tmp_path):
    """Writes a grid; returns the arguments of a sweep over it."""

    def grid(axes, **flags):
        path = tmp_path / "grid.json"
        path.write_text(
            json.dumps(
                {
                    "module": "glue",
                    "flags": {
                        name: value
                        for name, value in {**FLAGS, **flags}.items()
                        if name not in axes
                    },
                    "axes": axes,
                }
            )
        )
        return [str(path), f"--out={tmp_path / 'runs'}"]

    return grid


def call(*arguments):
    """A sweep in this process; its exit code."""
    path, *words = arguments
    return commands.call(
        lambda: sweep.main(["sweep", path]), sweep.define_flags, *words
    )


def test_a_sweep_does_its_runs_and_records_what_fails(grid, tmp_path):
    """The second has more tokens than the encoder has positions."""
    arguments = grid({"max_length": [16, 4000]})
    code, out, err = commands.finish(commands.start("sweep", *arguments))
    assert code == 1, err
    assert "1 of 2 done, 1 failed" in out
    assert "--max_length=4000" in out  # its last lines
    [result] = glob.glob(f"{tmp_path}/runs/glue/**/result.json", recursive=True)
    [failure] = glob.glob(f"{tmp_path}/runs/.sweep/failed/*.json")
    record = json.load(open(failure))
    assert record["exit_code"] == 1
    assert "positions" in " ".join(record["last_lines"])
    config = json.load(
        open(os.path.join(os.path.dirname(result), "config.json"))
    )
    assert config["concurrent_runs"] >= 1 and config["processor"]
    # The same command again has nothing to do.
    code, out, _ = commands.finish(commands.start("sweep", *arguments))
    assert code == 1
    assert "started" not in out and "--retry_failed" in out


def epochs_of(tmp_path):
    files = glob.glob(f"{tmp_path}/runs/glue/**/epochs.jsonl", recursive=True)
    return len(open(files[0]).readlines()) if files else 0


def test_a_sweep_that_is_killed_goes_on_inside_of_the_run(grid, tmp_path):
    arguments = grid({"seed": [0]}, max_epochs=40, patience=0)
    first = commands.start("sweep", *arguments)
    while epochs_of(tmp_path) < 2:
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    code, out, err = commands.finish(commands.start("sweep", *arguments))
    assert code == 0, out + err
    assert "1 of 1 done" in out
    [log] = glob.glob(f"{tmp_path}/runs/.sweep/logs/*.log")
    assert "Continuing at epoch" in open(log).read()
    lines = [
        json.loads(line)
        for file in glob.glob(
            f"{tmp_path}/runs/glue/**/epochs.jsonl", recursive=True
        )
        for line in open(file)
    ]
    assert [line["epoch"] for line in lines] == list(range(1, 41))


def test_jobs_share_the_cores_and_are_recorded(grid, tmp_path):
    arguments = grid({"seed": [0, 1]})
    code, out, err = commands.finish(
        commands.start("sweep", *arguments, "--jobs=2")
    )
    assert code == 0, out + err
    cores = len(os.sched_getaffinity(0))
    for path in glob.glob(
        f"{tmp_path}/runs/glue/**/config.json", recursive=True
    ):
        config = json.load(open(path))
        assert config["concurrent_runs"] >= 2
        assert config["threads"] == max(cores // 2, 1)


# === Before anything runs ===


def test_a_dry_run_lists_and_estimates_and_runs_nothing(grid, tmp_path, capsys):
    axes = {"trainable_layers": ["all", 1], "frozen_prefix": ["live", "cached"]}
    assert call(*grid(axes), "--dry_run") == 0
    out = capsys.readouterr().out
    assert "3 runs, 3 of them to come" in out  # `all` has no prefix to cache
    assert "Time: about" in out and "rough guess" in out
    assert "in 1 entries" in out
    assert not os.path.exists(tmp_path / "runs" / "glue")


def test_the_size_of_a_cache_is_that_of_its_tokens(grid, tmp_path, capsys):
    """And what the entry then takes, but for its lists of rows."""
    arguments = grid({"trainable_layers": [1]}, frozen_prefix="cached")
    arguments.append(f"--cache_dir={tmp_path / 'cache'}")
    assert call(*arguments, "--dry_run") == 0
    said = capsys.readouterr().out
    code, out, err = commands.finish(commands.start("sweep", *arguments))
    assert code == 0, out + err
    [vectors] = glob.glob(f"{tmp_path}/cache/prefix/*/vectors.bin")
    size = os.path.getsize(vectors)
    [estimate] = [
        line for line in said.splitlines() if "Cached prefixes" in line
    ]
    number, unit = estimate.split()[2:4]
    known = float(number) * {"kB": 1e3, "MB": 1e6}[unit]
    assert size <= known <= 1.3 * size  # texts that stand twice are stored once


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--only=task=qqp"], "no run of"),
        (["--only=colour=red"], "give a flag of the runs"),
        (["--out={file}"], "--out="),
    ],
)
def test_a_bad_flag_is_named_before_any_run_starts(
    arguments, said, grid, tmp_path, capsys
):
    (tmp_path / "file").write_text("")
    words = [word.format(file=tmp_path / "file") for word in arguments]
    assert call(*grid({"seed": [0]}), *words) == 1
    assert said in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "runs" / "glue")


# === What it shows ===


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_the_table_is_drawn_over_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(display_lib, "REDRAW_SECONDS", 0)
    board = work.Board(str(tmp_path), work_test.runs_of(tmp_path, 2))
    screen = Screen()
    display = display_lib.Display(board, 1, screen)
    display.look([board.runs[0].name])
    once = screen.getvalue()
    assert "rte   fine_tuning  -     1        -          -       1" in once
    assert "0 of 2 done, 1 running, 1 to come" in once
    lines = display._drawn
    display.look([])
    assert screen.getvalue()[len(once) :].startswith(f"\x1b[{lines}F\x1b[J")
