"""Working through runs: each once, whatever fails, stops or dies."""

import collections
import json
import os
import subprocess
import sys

import pytest

from tests import commands
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.sweeps import work
from tf_transfer.training import checkpoint
from tf_transfer.utils.errors import Interrupted


def runs_of(out, count):
    grid = {
        "module": "glue",
        "flags": {"model": "tiny", "data": "sample", "batch_size": 8},
        "axes": {"seed": list(range(count))},
    }
    return grid_lib.expand("grid.json", grid, str(out))


class Fake:
    """A process that ends as told; a finished one leaves its result."""

    def __init__(self, run, board, code=0, polls=1):
        self.run = run
        self.code = code
        self.polls = polls
        self.ended_by = None
        os.makedirs(run.directory.path, exist_ok=True)
        with open(board.log_file(run), "a") as log:
            log.write("first line\n\nlast line\n")

    def poll(self):
        self.polls -= 1
        if self.polls > 0 and not self.ended_by:
            return None
        if self.ended_by:
            return 130
        if self.code == 0:
            finish(self.run)
        return self.code

    def terminate(self):
        self.ended_by = "SIGTERM"

    def kill(self):
        self.ended_by = "SIGKILL"

    def wait(self):
        return 130


def finish(run):
    os.makedirs(run.directory.path, exist_ok=True)
    for name, content in (
        ("config.json", {"key": run.directory.key, "starts": []}),
        ("result.json", {"stop_reason": "patience", "epochs_run": 1}),
    ):
        checkpoint.write_json(run.directory.file(name), content)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Works through runs with fake processes; returns what it told."""
    monkeypatch.setattr(work, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(work, "WAIT_SECONDS", 0.001)

    def sweep(count=3, start=Fake, **options):
        board = work.Board(str(tmp_path), runs_of(tmp_path, count))
        told = []
        worker = work.Worker(
            board,
            start=lambda run, board, slot, jobs: start(run, board),
            tell=lambda *event: told.append(event),
            **options,
        )
        return board, worker, told

    return sweep


def events(told, kind):
    return [run.axes["seed"] for event, run, *_ in told if event == kind]


def test_every_run_is_done_once_and_in_order(sweep):
    board, worker, told = sweep(3)
    worker.work()
    assert events(told, "started") == events(told, "done") == ["0", "1", "2"]
    assert set(board.states().values()) == {work.DONE}
    assert os.listdir(board.claims.folder) == []


def test_what_is_done_is_not_started(sweep, tmp_path):
    finish(runs_of(tmp_path, 3)[1])
    _, worker, told = sweep(3)
    worker.work()
    assert events(told, "started") == ["0", "2"]


def test_a_failed_run_is_recorded_and_the_rest_goes_on(sweep):
    def start(run, board):
        return Fake(run, board, code=3 if run.axes["seed"] == "1" else 0)

    board, worker, told = sweep(3, start)
    worker.work()
    assert events(told, "done") == ["0", "2"]
    [record] = [detail for event, _, detail, _ in told if event == "failed"]
    assert record["last_lines"] == ["first line", "last line"]
    assert record["reason"] == "exit code 3"
    assert record["command"][:3] == ["python", "-m", "tf_transfer.glue"]
    failed = board.runs[1]
    assert board.states()[failed.name] == work.FAILED
    assert board.failure(failed) == record


def test_a_failed_run_is_tried_again_only_where_asked(sweep):
    board, worker, _ = sweep(1, lambda run, board: Fake(run, board, code=1))
    worker.work()
    board, worker, told = sweep(1)
    assert work.check_failures(board, retry=False) == board.runs
    worker.work()
    assert not told
    assert work.check_failures(board, retry=True) == []
    worker.work()
    assert events(told, "done") == ["0"]


@pytest.mark.parametrize(
    "code, said", [(-9, "SIGKILL (out of memory?)"), (-11, "SIGSEGV")]
)
def test_a_killed_run_says_by_what(code, said, sweep):
    board, worker, _ = sweep(1, lambda run, board: Fake(run, board, code=code))
    worker.work()
    assert board.failure(board.runs[0])["reason"] == said


def test_jobs_run_side_by_side_and_a_limit_ends_it(sweep):
    most = []
    board, worker, told = sweep(
        6,
        lambda run, board: Fake(run, board, polls=4),
        jobs=2,
        limit=3,
        look=lambda mine: most.append(len(mine)),
    )
    worker.work()
    assert max(most) == 2
    assert len(events(told, "done")) == 3
    states = collections.Counter(board.states().values())
    assert states == {work.DONE: 3, work.TO_COME: 3}


def test_what_another_sweep_does_is_waited_for(sweep):
    board, worker, told = sweep(2)
    claim = board.claims.take(board.runs[0].name)
    looks = []

    def look(mine):
        looks.append(board.states(mine)[board.runs[0].name])
        if len(looks) == 5:
            finish(board.runs[0])
            claim.release()

    worker.look = look
    worker.work()
    assert events(told, "started") == ["1"]
    assert looks[0] == work.ELSEWHERE
    assert set(board.states().values()) == {work.DONE}


def test_what_another_sweep_ended_a_moment_ago_is_not_done_again(sweep):
    board, worker, told = sweep(1)
    take = board.claims.take

    def take_late(name):
        finish(board.runs[0])  # after this sweep has looked
        return take(name)

    board.claims.take = take_late
    worker.work()
    assert not told


def test_a_claim_that_was_lost_stops_the_run(sweep, monkeypatch):
    monkeypatch.setattr(work.claims_lib, "BEAT_SECONDS", 0)
    processes = []

    def start(run, board):
        processes.append(Fake(run, board, polls=1000))
        return processes[-1]

    board, worker, told = sweep(1, start)

    def look(mine):
        if len(processes) == 1 and not told[1:]:
            for name in os.listdir(board.claims.folder):
                os.utime(os.path.join(board.claims.folder, name), (0, 0))
            assert board.claims.take(board.runs[0].name)
            finish(board.runs[0])

    worker.look = look
    worker.work()
    assert [event for event, *_ in told] == ["started", "lost"]
    assert processes[0].ended_by == "SIGKILL"


def test_a_signal_lets_the_runs_save_and_leaves_them_to_come(sweep):
    processes = []

    def start(run, board):
        processes.append(Fake(run, board, polls=1000))
        return processes[-1]

    board, worker, told = sweep(3, start, jobs=2)
    worker.look = lambda mine: os.kill(os.getpid(), 15)
    with pytest.raises(Interrupted, match="same command"):
        worker.work()
    assert [p.ended_by for p in processes] == ["SIGTERM", "SIGTERM"]
    assert set(board.states().values()) == {work.TO_COME}
    assert not events(told, "failed")


def test_a_sweep_that_breaks_leaves_its_runs_to_come(sweep):
    """As `sweep grid.json | head` does."""
    board, worker, _told = sweep(
        1, lambda run, board: Fake(run, board, polls=9)
    )

    def look(mine):
        raise BrokenPipeError

    worker.look = look
    with pytest.raises(BrokenPipeError):
        worker.work()
    assert board.states()[board.runs[0].name] == work.TO_COME


def test_a_run_that_is_still_saving_is_waited_for(sweep):
    """Its sweep was killed, and the claim with it, but it writes yet."""
    board, worker, told = sweep(1)
    [run] = board.runs
    run.directory.lock()
    looks = []

    def look(mine):
        looks.append(mine)
        if len(looks) == 3:
            run.directory.close()

    worker.look = look
    worker.work()
    assert looks[:3] == [[], [], []]
    assert events(told, "done") == ["0"] and not events(told, "failed")


def test_a_run_that_may_go_on_for_more_epochs_is_to_come(tmp_path):
    [run] = runs_of(tmp_path, 1)
    finish(run)
    with open(run.directory.file("result.json"), "w") as file:
        phases = [{"epochs": 2}]
        json.dump({"stop_reason": "max_epochs", "phases": phases}, file)
    board = work.Board(str(tmp_path), [run])
    assert board.states()[run.name] == work.TO_COME  # of 30 epochs


# === Several processes ===

HELPER = """
import sys
from tests.sweeps import work_test
from tf_transfer.sweeps import work

work.POLL_SECONDS = work.WAIT_SECONDS = 0.001
runs = work_test.runs_of({out!r}, {count})
board = work.Board({out!r}, runs)

def start(run, board, slot, jobs):
    with open({done!r}, "a") as file:
        file.write(run.axes["seed"] + chr(10))
    return work_test.Fake(run, board)

work.Worker(board, start=start).work()
"""


def test_four_processes_claim_500_runs_and_do_none_twice(tmp_path):
    out, done = str(tmp_path / "runs"), str(tmp_path / "done")
    code = HELPER.format(out=out, count=500, done=done)
    helpers = [
        subprocess.Popen([sys.executable, "-c", code], cwd=commands.ROOT)
        for _ in range(4)
    ]
    assert [helper.wait() for helper in helpers] == [0] * 4
    with open(done) as file:
        found = file.read().split()
    assert sorted(found, key=int) == [str(seed) for seed in range(500)]


# === Time left ===


def test_time_left_is_that_of_the_runs_most_alike(tmp_path):
    runs = grid_lib.expand(
        "grid.json",
        {
            "module": "glue",
            "flags": {"model": "tiny", "data": "sample"},
            "axes": {
                "task": ["rte", "sst2"],
                "trainable_layers": ["all", 1],
                "seed": [0, 1],
            },
        },
        str(tmp_path),
    )
    board = work.Board(str(tmp_path), runs)
    pace = estimate.Pace(board)
    assert pace.left(runs, 1) is None
    took = {("rte", "all"): 100.0, ("rte", "1"): 40.0}
    for run in runs:
        seconds = took.get((run.axes["task"], run.axes["trainable_layers"]))
        if seconds and run.axes["seed"] == "0":
            finish(run)
            board.walls[run.name] = seconds
    left = {tuple(r.axes.values()): pace.seconds(r) for r in runs}
    assert left["rte", "all", "1"] == 100.0
    assert left["rte", "1", "1"] == 40.0
    assert left["sst2", "1", "0"] == 70.0  # no run of its task: all of them
    open_ = [run for run in runs if run.axes["seed"] == "1"]
    assert pace.left(open_, 2) == (100 + 40 + 70 + 70) / 2
