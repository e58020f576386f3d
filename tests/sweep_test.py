"""A sweep as a user starts it: real runs, failures, a dry run, the screen."""

import contextlib
import glob
import io
import json
import os
import re
import shutil
import types

import pytest

from tests.support import commands
from tests.sweeps import fakes
from tests.sweeps.fakes import finish_after, plan_runs
from tf_transfer import sweep
from tf_transfer.sweeps import display as display_lib, grid as grid_lib
from tf_transfer.sweeps.states import RunStates, State

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
            lambda: sweep.main(["sweep", path]), sweep.Settings, *words
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
def test_a_dry_run_estimates_by_what_is_finished(swept, tmp_path):
    """Not the run of 4,000 tokens, which has too many operations."""
    unknown = "Time: not known before runs like these"
    assert unknown in swept.dry_run
    code, output = call(*swept.arguments, "--dry_run", "--only=max_length=16")
    assert code == 0 and "1 runs, 0 of them pending." in output
    code, output = call(*swept.arguments, "--dry_run")
    assert code == 0 and "2 runs, 1 of them pending." in output
    assert unknown in output
    [path, _] = write_grid(
        tmp_path,
        {"max_length": [16], "lr": [1e-3, 1e-5]},
        trainable_layers=1,
        frozen_prefix="cached",
    )
    code, output = call(path, *swept.arguments[1:], "--dry_run")
    assert code == 0 and "2 runs, 1 of them pending." in output
    assert re.search("Time: .* hours, as finished runs took", output)


# === Before anything runs ===


def test_a_dry_run_lists_and_counts_and_runs_nothing(tmp_path):
    axes = {"trainable_layers": ["all", 1], "frozen_prefix": ["live", "cached"]}
    arguments = [*write_grid(tmp_path, axes), "--dry_run"]
    code, output = call(*arguments)
    assert code == 0
    # `all` has no frozen prefix to cache.
    assert "3 runs, 3 of them pending." in output
    assert "Time: not known" in output and "--flops=30e12" in output
    assert not os.path.exists(tmp_path / "runs" / "glue")
    [operations] = re.findall(r"Operations: (\S+),", output)
    code, output = call(*arguments, "--flops=1e3", "--jobs=2")
    hours = float(operations) / 1e3 / 2 / 3600
    said = f"Time: {hours:,.1f} hours, 1e+03 operations per second by --flops."
    assert said in output


@pytest.mark.slow  # starts processes
def test_a_dry_run_needs_neither_texts_nor_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    out = f"--out={tmp_path}"
    for path, count in (
        ("experiments/glue", 360),
        ("experiments/tweets/grid.json", 76),
        ("experiments/multitask", 51),
    ):
        code, output = call(path, "--dry_run", "--flops=30e12", out)
        assert code == 0 and f"{count} runs, {count} of them" in output
        assert re.search(r"Operations: \d", output)
        assert ("\n  table_2 | " in output) == os.path.isdir(path)
        missing = "Not known which runs are finished: "
        assert (missing in output) == ("glue" not in path)
        for name in grid_lib.list_files(path):
            is_named = re.search(f"{name} +\\d+ +\\d.* h\n", output)
            assert bool(is_named) == os.path.isdir(path)
    assert {*os.listdir(tmp_path)} <= {".sweep", "cache"}
    assert {*glob.glob("cache/*", root_dir=tmp_path)} <= {"cache/matplotlib"}
    code, _ = call("experiments/tweets/grid.json", out)
    assert code == 2  # the texts are not here


def test_a_dry_run_without_a_count_says_why(tmp_path):
    code, output = call(
        *write_grid(tmp_path, {"seed": [0]}, model=str(tmp_path)), "--dry_run"
    )
    assert code == 0 and "is not a model folder" in output
    assert "1 runs, 1 of them pending." in output


def test_a_dry_run_counts_what_follows_a_search_once(tmp_path):
    """At one of the rates; once the search is done, at the best one."""
    axes = {"task": ["rte"], "lr": [1e-4, 1e-3]}
    [path, out] = write_grid(tmp_path, axes)
    content = json.load(open(path))
    content |= {
        "best_of": "lr",
        "search": {**axes, "seed": [0]},
        "axes": {**axes, "seed": [1, 2]},
    }
    with open(path, "w") as file:
        json.dump(content, file)
    _, output = call(path, out, "--dry_run")
    assert "4 runs, 4 of them pending." in output
    for run in grid_lib.expand_all(path, str(tmp_path / "runs")):
        if run.axes["lr"] == "0.001" or not run.searched:
            fakes.finish(run)
    _, output = call(path, out, "--dry_run")
    assert "4 runs, 0 of them pending." in output


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
    assert code == 2
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


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self):
        return True


def display(tmp_path, runs, stream=None):
    return display_lib.Display(RunStates(str(tmp_path), runs), 1, stream)


def test_the_bar_replaces_itself_in_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(display_lib, "REFRESH_SECONDS", 0)
    runs, terminal = plan_runs(tmp_path, 2), Terminal()
    shown = display(tmp_path, runs, terminal)
    shown.run_states.running.append(runs[0])
    shown.refresh()
    first = terminal.getvalue()
    assert "0 of 2 finished, 1 running, 1 pending" in first
    shown.report("retried", runs[0], {"reason": "SIGKILL"})
    shown.run_states.running.clear()
    shown.refresh()
    second = terminal.getvalue()[len(first) :]
    assert "\r" in second and "0 of 2 finished, 2 pending" in second
    assert "\n" not in first + second and "\x1b" not in first + second
    shown.close()
    _, event, title, table, summary = capsys.readouterr().out.splitlines()
    assert event.endswith("retried  seed=0: SIGKILL; it is tried once more")
    assert title.split() == ["task", "approach", *State]
    assert table.split() == ["rte", "fine_tuning", "-", "-", "-", "2"]
    assert summary.startswith("0 of 2 finished, 2 pending")


def test_elsewhere_there_is_a_line_an_event(tmp_path, capsys):
    run, other = plan_runs(tmp_path, 2)
    shown = display(tmp_path, [run, other])
    shown.run_states.running.append(run)
    shown.refresh()
    shown.report("retried", run, {"reason": "SIGKILL"})
    shown.close()
    text, bar = capsys.readouterr()
    assert not bar and "\x1b" not in text
    assert "retried  seed=0: SIGKILL; it is tried once more" in text


def test_a_finished_run_says_where_its_seconds_went(
    tmp_path, monkeypatch, capsys
):
    now = [100.0]
    monkeypatch.setattr(display_lib.time, "monotonic", lambda: now[0])
    run, other = plan_runs(tmp_path, 2)
    shown = display(tmp_path, [run, other])
    shown.report("started", run, {})
    said = capsys.readouterr().out
    assert "unknown until the first run is finished" in said
    now[0] += 60.0
    finish_after(run, 40.0, metric="accuracy", test={"accuracy": 0.75})
    shown.report("finished", run, run.directory.result())
    text = capsys.readouterr().out
    assert (
        "seed=0  accuracy 0.7500  60 s: training 30, loading and saving 18, "
        "evaluation 10, tracing 2" in text
    )
    assert "1 of 2 finished, 1 pending, about 60 s left" in text


def test_the_time_left_of_a_running_run_is_that_of_its_epochs(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(display_lib.time, "monotonic", lambda: 100.0)
    first, run, other = plan_runs(tmp_path, 3, max_epochs=3)
    finish_after(first, 30.0, epochs=3)
    shown = display(tmp_path, [first, run, other])
    shown.run_states.running.append(run)
    finish_after(run, 20.0, epochs=2)  # 10 s each, of which one is left
    os.remove(run.directory.file("result.json"))
    shown.report("retried", other, {"reason": "SIGKILL"})
    shutil.rmtree(run.directory.path)  # it has just been started
    shown.report("started", run, {})
    said = capsys.readouterr().out
    assert "1 running, 1 pending, about 64 s left" in said
    assert "about 42 s left" in said  # and all of the other
