"""A sweep does each run once, whatever fails, stops or is killed."""

import collections
import json
import os
import subprocess
import sys
import time

import pytest

from tests import commands
from tests import run_files
from tests.sweeps.fakes import FakeProcess
from tests.sweeps.fakes import finish
from tests.sweeps.fakes import make_start
from tests.sweeps.fakes import plan_runs
from tf_transfer.sweeps import execute
from tf_transfer.sweeps import work
from tf_transfer.sweeps.states import RunStates
from tf_transfer.sweeps.states import State
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Works through runs with fake processes; returns what it reported."""
    monkeypatch.setattr(work, "POLL_SECONDS", 0.001)

    def sweep(count=3, start=FakeProcess, **options):
        run_states = RunStates(str(tmp_path), plan_runs(tmp_path, count))
        reported = []
        worker = work.Worker(
            run_states,
            start=start,
            on_event=lambda *event: reported.append(event),
            **options,
        )
        return run_states, worker, reported

    return sweep


def seeds(reported, kind):
    return [run.axes["seed"] for event, run, *_ in reported if event == kind]


def test_every_run_is_done_once_and_in_order(sweep):
    run_states, worker, reported = sweep(3)
    worker.work()
    assert seeds(reported, "started") == ["0", "1", "2"]
    assert seeds(reported, "finished") == ["0", "1", "2"]
    assert set(run_states.read().values()) == {State.FINISHED}


def test_a_finished_run_is_not_started(sweep, tmp_path):
    finish(plan_runs(tmp_path, 3)[1])
    _, worker, reported = sweep(3)
    worker.work()
    assert seeds(reported, "started") == ["0", "2"]


def test_a_failed_run_is_recorded_and_the_others_continue(sweep):
    def start(run, *rest):
        exit_code = 3 if run.axes["seed"] == "1" else 0
        return FakeProcess(run, *rest, exit_code=exit_code)

    run_states, worker, reported = sweep(3, start)
    worker.work()
    assert seeds(reported, "finished") == ["0", "2"]
    [record] = [detail for event, _, detail, _ in reported if event == "failed"]
    assert record["last_lines"] == ["first line", "last line"]
    assert record["reason"] == "exit code 3"
    assert record["command"][:3] == ["python", "-m", "tf_transfer.glue"]
    failed = run_states.runs[1]
    assert run_states.read()[failed.name] == State.FAILED
    assert run_states.failure(failed) == record


def test_a_failed_run_is_tried_again_only_where_asked(
    sweep, tmp_path, monkeypatch, capsys
):
    run_states, worker, _ = sweep(1, make_start(exit_code=1))
    worker.work()
    monkeypatch.setattr(work, "start_process", make_start(exit_code=1))
    with pytest.raises(UserError, match="1 of 1 runs have failed"):
        execute.collect_results(run_states.runs, str(tmp_path))
    output = capsys.readouterr().out
    assert "started" not in output and "--retry_failed" in output
    finished = {"metric": "accuracy", "test": {"accuracy": 0.5}}
    monkeypatch.setattr(
        work, "start_process", make_start(train_seconds=3, **finished)
    )
    [result] = execute.collect_results(
        run_states.runs, str(tmp_path), retry_failed=True
    )
    assert result["test"] == finished["test"]
    output = capsys.readouterr().out
    assert "accuracy 0.5000  3 s of training" in output


@pytest.mark.parametrize(
    "code, reason", [(-9, "SIGKILL (out of memory?)"), (-11, "SIGSEGV")]
)
def test_the_record_of_a_killed_run_names_the_signal(code, reason, sweep):
    run_states, worker, _ = sweep(1, make_start(exit_code=code))
    worker.work()
    assert run_states.failure(run_states.runs[0])["reason"] == reason


def test_jobs_run_at_the_same_time_up_to_the_limit(sweep):
    running_at_polls = []
    run_states, worker, reported = sweep(
        6,
        make_start(polls=4),
        jobs=2,
        limit=3,
        on_poll=lambda running: running_at_polls.append(len(running)),
    )
    worker.work()
    assert max(running_at_polls) == 2
    assert len(seeds(reported, "finished")) == 3
    states = collections.Counter(run_states.read().values())
    assert states == {State.FINISHED: 3, State.PENDING: 3}


def test_after_a_signal_the_runs_save_their_state_and_are_pending(sweep):
    processes = []

    def start(run, *rest):
        processes.append(FakeProcess(run, *rest, polls=1000))
        return processes[-1]

    run_states, worker, reported = sweep(3, start, jobs=2)
    worker.on_poll = lambda running: os.kill(os.getpid(), 15)
    with pytest.raises(Interrupted, match="same command"):
        worker.work()
    assert [p.ended_by for p in processes] == ["SIGTERM", "SIGTERM"]
    assert set(run_states.read().values()) == {State.PENDING}
    assert not seeds(reported, "failed")


def test_the_runs_of_a_sweep_that_breaks_are_pending(sweep):
    """As `sweep grid.json | head` breaks."""
    run_states, worker, _reported = sweep(1, make_start(polls=9))

    def on_poll(running):
        raise BrokenPipeError

    worker.on_poll = on_poll
    with pytest.raises(BrokenPipeError):
        worker.work()
    assert run_states.read()[run_states.runs[0].name] == State.PENDING


def test_a_run_that_is_still_saving_its_state_is_waited_for(sweep):
    """Its sweep was killed, but the run still writes."""
    run_states, worker, reported = sweep(1)
    [run] = run_states.runs
    run.directory.lock()
    polls_seen = []

    def on_poll(running):
        polls_seen.append(list(running))
        if len(polls_seen) == 3:
            run.directory.close()

    worker.on_poll = on_poll
    worker.work()
    assert polls_seen[:3] == [[], [], []]
    assert seeds(reported, "finished") == ["0"]
    assert not seeds(reported, "failed")


def test_one_sweep_at_a_time_works_in_a_folder(tmp_path):
    folder = RunStates(str(tmp_path), []).folder
    with execute.lock(folder):
        with pytest.raises(UserError, match="another sweep works in it"):
            execute.run_all([], str(tmp_path))
        with execute.lock(folder, "1/2"), execute.lock(folder, "2/2"):
            pass
    execute.run_all([], str(tmp_path))


def test_a_finished_run_that_more_epochs_extend_is_pending(tmp_path):
    [run] = plan_runs(tmp_path, 1)
    finish(run, stop_reason="max_epochs", phases=[run_files.phase(2)])
    run_states = RunStates(str(tmp_path), [run])
    assert run_states.read()[run.name] == State.PENDING  # of 30 epochs


# === Several processes ===

KILLED = """
import sys

from tests.sweeps import fakes
from tf_transfer.sweeps import work
from tf_transfer.sweeps.states import RunStates

out = sys.argv[1]
work.POLL_SECONDS = 0.1
[run] = fakes.plan_runs(out, 1)
work.Worker(RunStates(out, [fakes.with_own_command(run)]), jobs=2).work()
"""


def test_a_sweep_that_is_killed_continues_inside_its_run(tmp_path):
    """The run ends with its sweep, and the next sweep need not wait for it."""
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    [run] = plan_runs(tmp_path, 1)
    progress = run.directory.file("progress")
    sweep = subprocess.Popen(words, cwd=commands.ROOT)
    while not os.path.exists(progress):
        assert sweep.poll() is None
        time.sleep(0.01)
    sweep.kill()
    sweep.wait()
    subprocess.run(words, cwd=commands.ROOT, check=True)
    with open(progress) as file:
        first, second = map(json.loads, file)
    assert first["pid"] != second["pid"] and second["continues"]
    # Of two jobs each has half of the cores, and its record says so.
    assert second["jobs"] == "2"
    cores = len(os.sched_getaffinity(0))
    assert second["cores"] == max(cores // 2, 1)
    assert run.directory.result() is not None
