"""A sweep as a user starts it: real runs, failures, a dry run, the screen."""

import contextlib
import dataclasses
import glob
import io
import json
import os
import re
import types

import pytest
import rich.console

from tests.support import commands
from tests.sweeps.fakes import finish, plan_runs
from tf_transfer import sweep
from tf_transfer.config import command_line
from tf_transfer.sweeps import (
    display as display_lib,
    estimate,
    grid as grid_lib,
    peak,
)
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import formatting, machine

FLAGS = {
    "model": "tiny",
    "data": "sample",
    "task": "rte",
    "batch_size": 8,
    "max_length": 16,
    "max_epochs": 1,
}


def write_grid(folder, axes, **flags):
    """Writes a grid; returns the arguments of a sweep over it."""
    flags = {**FLAGS, **flags}
    grid = {
        "experiment": "glue",
        "flags": {n: value for n, value in flags.items() if n not in axes},
        "axes": axes,
    }
    path = folder / "grid.json"
    path.write_text(json.dumps(grid))
    return [str(path), f"--out={folder / 'runs'}"]


def call(*arguments):
    """A sweep in this process; its exit code and what it printed."""
    path, *words = arguments
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = commands.call(
            lambda: sweep.main(["sweep", path]), sweep.define_flags, *words
        )
    return code, output.getvalue()


# === Two real runs, of which one fails ===


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep; the second run has more tokens than the encoder's positions."""
    folder = tmp_path_factory.mktemp("sweep")
    arguments = write_grid(
        folder,
        {"max_length": [16, 4000]},
        trainable_layers=1,
        frozen_prefix="cached",
    )
    arguments += [f"--cache_dir={folder / 'cache'}", "--jobs=2"]
    _, dry_run = call(*arguments, "--dry_run", "--only=max_length=16")
    code, output = call(*arguments)
    return types.SimpleNamespace(
        folder=folder,
        arguments=arguments,
        dry_run=dry_run,
        code=code,
        output=output,
        runs=folder / "runs",
    )


@pytest.mark.slow
def test_a_sweep_does_its_runs_and_records_what_fails(swept):
    assert swept.code == 1
    assert "1 of 2 finished, 1 failed" in swept.output
    assert "--max_length=4000" in swept.output  # its last lines
    [failure] = glob.glob(f"{swept.runs}/.sweep/failed/*.json")
    record = json.load(open(failure))
    assert record["exit_code"] == 1
    assert "positions" in " ".join(record["last_lines"])
    log = failure.replace("/failed/", "/logs/").replace(".json", ".log")
    assert "positions" in open(log).read()


@pytest.mark.slow
def test_jobs_share_the_cores_and_are_recorded(swept):
    [result] = glob.glob(f"{swept.runs}/glue/**/result.json", recursive=True)
    config = json.load(
        open(os.path.join(os.path.dirname(result), "config.json"))
    )
    cores = len(os.sched_getaffinity(0))
    assert config["threads"] == max(cores // 2, 1)
    assert config["concurrent_runs"] >= 2 and config["processor"]


@pytest.mark.slow
def test_the_same_command_again_has_nothing_to_do(swept):
    code, output = call(*swept.arguments)
    assert code == 1
    assert "started" not in output and "--retry_failed" in output


@pytest.mark.slow
def test_a_dry_run_predicts_the_bytes_of_the_cache(swept):
    """All but those of its lists of texts."""
    assert "1 runs, 1 of them pending" in swept.dry_run
    [line] = [x for x in swept.dry_run.splitlines() if "Feature cache" in x]
    number, unit = line.split()[2:4]
    estimate = float(number) * {"kB": 1e3, "MB": 1e6}[unit]
    [vectors] = glob.glob(f"{swept.folder}/cache/prefix/*/vectors.bin")
    size = os.path.getsize(vectors)
    assert size <= estimate <= 1.3 * size  # repeated texts are stored once


@pytest.mark.slow
def test_a_dry_run_predicts_the_bytes_of_run_directories(swept):
    """Those of the arrays, beside which the rest is small."""
    [line] = [x for x in swept.dry_run.splitlines() if "Run directories" in x]
    number, unit = line.split()[2:4]
    estimate = float(number) * {"kB": 1e3, "MB": 1e6}[unit.strip(",")]
    arrays = glob.glob(f"{swept.runs}/glue/**/*.safetensors", recursive=True)
    assert len(arrays) == 2  # the selected weights and a checkpoint
    assert sum(map(os.path.getsize, arrays)) == pytest.approx(estimate, rel=0.1)


# === Before anything runs ===


def test_a_dry_run_lists_and_estimates_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(peak, "measure_peak", lambda precision: 1e9)
    axes = {"trainable_layers": ["all", 1], "frozen_prefix": ["live", "cached"]}
    code, output = call(*write_grid(tmp_path, axes), "--dry_run")
    assert code == 0
    # `all` has no frozen prefix to cache.
    assert "3 runs, 3 of them pending" in output
    assert "Time: about" in output and "rough guess" in output
    assert "in 1 entries" in output
    assert not os.path.exists(tmp_path / "runs" / "glue")


def test_a_dry_run_counts_compilation_once_for_all_rates(tmp_path, monkeypatch):
    device = dataclasses.replace(estimate.GPU, compile_seconds=1000.0)
    monkeypatch.setattr(estimate, "GPU", device)
    monkeypatch.setattr(peak, "measure_peak", lambda precision: 1e13)
    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    monkeypatch.setattr(formatting, "duration", lambda seconds: f"{seconds} s")

    def estimate_total(rates):
        arguments = write_grid(tmp_path, {"lr": rates})
        output = call(*arguments, "--dry_run")[1]
        return float(re.search(r": about ([\d.]+) s", output)[1])

    total = estimate_total([1e-5])
    assert total > 12 * 1000
    assert estimate_total([1e-5, 2e-5]) == pytest.approx(total, abs=10)


def test_a_dry_run_of_nothing_says_so(tmp_path):
    states = RunStates(str(tmp_path), [])
    assert sweep.describe(states, 1).startswith("0 runs")


def test_a_dry_run_needs_no_estimate_of_finished_runs(tmp_path, monkeypatch):
    """So it does not load TensorFlow."""
    arguments = write_grid(
        tmp_path, {"seed": [0, 1]}, trainable_layers=1, frozen_prefix="cached"
    )
    grid = grid_lib.read(arguments[0])
    for run in grid_lib.expand("grid.json", grid, str(tmp_path / "runs")):
        finish(run)
    monkeypatch.delattr(command_line, "import_tensorflow")
    code, output = call(*arguments, "--dry_run")
    assert code == 0
    assert "2 runs, 0 of them pending" in output and "Time" not in output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--only=task=qqp"], "no run of"),
        (["--only=colour=red"], "give a flag of the runs"),
        (["--out={file}"], "--out="),
        (["--ray_address=auto"], "--ray_address: only --engine=ray"),
    ],
)
def test_a_wrong_flag_is_named_before_any_run_starts(
    arguments, message, tmp_path, capsys
):
    (tmp_path / "file").write_text("")
    words = [word.format(file=tmp_path / "file") for word in arguments]
    code, _ = call(*write_grid(tmp_path, {"seed": [0]}), *words)
    assert code == 1
    told = capsys.readouterr().err
    assert message in told and len(told.splitlines()) <= 2
    assert not os.path.exists(tmp_path / "runs" / "glue")


def test_without_a_cluster_nothing_starts(tmp_path, capsys):
    pytest.importorskip("ray")
    words = ["--engine=ray", "--ray_address=localhost:1"]
    code, _ = call(*write_grid(tmp_path, {"seed": [0]}), *words)
    assert code == 1
    told = capsys.readouterr().err
    assert "--ray_address=localhost:1: " in told
    assert len(told.splitlines()) == 2
    assert os.listdir(tmp_path / "runs") == [".sweep"]


# === What it shows ===


def display(tmp_path, runs, **options):
    """A display of a sweep, and what it writes."""
    stream = io.StringIO()
    console = rich.console.Console(
        file=stream, width=100, highlight=False, **options
    )
    run_states = RunStates(str(tmp_path), runs)
    return display_lib.Display(run_states, 1, console), stream


def test_the_table_replaces_itself_in_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(display_lib, "REFRESH_SECONDS", 0)
    runs = plan_runs(tmp_path, 2)
    shown, terminal = display(tmp_path, runs, force_terminal=True)
    shown.run_states.running.append(runs[0])
    shown.refresh()
    first = terminal.getvalue()
    assert re.search(r"rte +fine_tuning +- +1 +- +1", first)
    assert "0 of 2 finished, 1 running, 1 pending" in first
    shown.run_states.running.clear()
    shown.refresh()
    second = terminal.getvalue()[len(first) :]
    assert "\x1b[1A" in second and "0 of 2 finished, 2 pending" in second
    shown.close()


def test_elsewhere_there_is_a_line_an_event(tmp_path):
    run, other = plan_runs(tmp_path, 2)
    shown, stream = display(tmp_path, [run, other])
    shown.run_states.running.append(run)
    shown.refresh()
    shown.report("retried", run, {"reason": "SIGKILL"})
    shown.close()
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "retried  seed=0: SIGKILL; it is tried once more" in text
