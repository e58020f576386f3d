"""A sweep does each run once, whatever fails, stops or is killed."""

import collections
import os

import pytest

from tests.support import run_files
from tests.sweeps import fakes
from tests.sweeps.fakes import finish, plan_runs
from tests.utils import disks
from tf_transfer.sweeps import execute, grid as grid_lib, work
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.utils.errors import Interrupted, UserError


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Works through runs with fake workers; returns what it reported."""
    monkeypatch.setattr(work, "POLL_SECONDS", 0.0001)

    def sweep(count=3, do=finish, **options):
        runs = count if isinstance(count, list) else plan_runs(tmp_path, count)
        run_states = RunStates(str(tmp_path), runs)
        reported = []
        scheduler = work.Scheduler(
            run_states,
            fakes.make_pool(do, **options),
            run_states.select(State.PENDING),
            on_event=lambda *event: reported.append(event),
        )
        return run_states, scheduler, reported

    return sweep


def seeds(reported, kind):
    return [run.axes["seed"] for event, run, _ in reported if event == kind]


def test_one_worker_does_every_run_once_and_in_order(sweep):
    workers = []
    run_states, scheduler, reported = sweep(3, workers=workers)
    scheduler.work()
    assert seeds(reported, "started") == ["0", "1", "2"]
    assert seeds(reported, "finished") == ["0", "1", "2"]
    assert set(run_states.read_states().values()) == {State.FINISHED}
    assert len(workers) == 1


def test_a_finished_run_is_not_started(sweep, tmp_path):
    finish(plan_runs(tmp_path, 3)[1])
    _, scheduler, reported = sweep(3)
    scheduler.work()
    assert seeds(reported, "started") == ["0", "2"]


def test_a_pending_run_that_is_not_to_be_done_stays_pending(
    tmp_path, monkeypatch
):
    """A search that stopped a run for its time scores another one's test."""
    monkeypatch.setattr(work, "POLL_SECONDS", 0.0001)
    stopped, other = plan_runs(tmp_path, 2)
    run_states = RunStates(str(tmp_path), [stopped, other])
    scheduler = work.Scheduler(run_states, fakes.make_pool(finish))
    scheduler.add(other)
    scheduler.work()
    assert run_states.read_states() == {
        stopped.name: State.PENDING,
        other.name: State.FINISHED,
    }


def test_no_worker_starts_where_all_is_finished(sweep, tmp_path):
    finish(plan_runs(tmp_path, 1)[0])
    workers = []
    sweep(1, workers=workers)[1].work()
    assert not workers


def test_a_failed_run_is_recorded_and_the_others_continue(sweep):
    """It failed by an error of its own: once is enough."""

    def do(run):
        return "failed" if run.axes["seed"] == "1" else finish(run)

    run_states, scheduler, reported = sweep(3, do)
    scheduler.work()
    assert seeds(reported, "started") == ["0", "1", "2"]
    assert seeds(reported, "finished") == ["0", "2"]
    [record] = [detail for event, _, detail in reported if event == "failed"]
    assert record["last_lines"] == ["first line", "last line"]
    assert record["reason"] == "exit code 1"
    assert record["command"][:3] == ["python", "-m", "tf_transfer.glue"]
    failed = run_states.runs[1]
    assert run_states.read_states()[failed.name] == State.FAILED
    assert run_states.failure(failed) == record


def test_a_failed_run_is_tried_again_only_where_asked(sweep, tmp_path, capsys):
    run_states, scheduler, _ = sweep(1, lambda run: "failed")
    scheduler.work()
    failing = fakes.make_pool(lambda run: "failed")
    with pytest.raises(UserError, match="1 of 1 runs failed"):
        fakes.run_completely(run_states.runs, str(tmp_path), failing)
    output = capsys.readouterr().out
    assert "started" not in output and "--retry_failed" in output
    finished = {"metric": "accuracy", "test": {"accuracy": 0.5}}
    working = fakes.make_pool(
        lambda run: finish(run, train_seconds=3, **finished)
    )
    states = fakes.run_completely(
        run_states.runs, str(tmp_path), working, retry_failed=True
    )
    result = states.result(states.runs[0])
    assert result["test"] == finished["test"]
    output = capsys.readouterr().out
    assert "accuracy 0.5000" in output


@pytest.mark.parametrize(
    "how, reason", [("dies", "SIGSEGV"), ("broken", "broke")]
)
@pytest.mark.parametrize("recovers", [True, False])
def test_the_run_of_a_lost_worker_is_tried_once_more(
    how, reason, recovers, sweep
):
    tried, workers = [], []

    def do(run):
        tried.append(run.axes["seed"])
        bad = run.axes["seed"] == "1"
        if bad and not (recovers and tried.count("1") == 2):
            return how
        return finish(run)

    run_states, scheduler, reported = sweep(3, do, workers=workers)
    scheduler.work()
    assert sorted(tried) == ["0", "1", "1", "2"]
    assert seeds(reported, "retried") == ["1"]
    assert len(workers) >= 2
    if recovers:
        assert set(run_states.read_states().values()) == {State.FINISHED}
        return
    [record] = [detail for event, _, detail in reported if event == "failed"]
    assert record["reason"] == reason
    assert record["last_lines"][-2:] == ["first line", "last line"]
    assert sorted(seeds(reported, "finished")) == ["0", "2"]


def test_a_worker_that_hangs_is_killed(sweep):
    workers = []
    run_states, scheduler, _ = sweep(
        1, lambda run: "hangs", workers=workers, hang_seconds=0.01
    )
    scheduler.work()
    assert [worker.ended_by for worker in workers] == ["kill"] * 2
    [failure] = map(run_states.failure, run_states.runs)
    assert "no step for" in failure["reason"]


def test_a_worker_that_leaks_is_replaced_between_runs(sweep):
    workers = []
    run_states, scheduler, reported = sweep(
        3, workers=workers, memory=2e9, most_memory=1e9
    )
    scheduler.work()
    assert [worker.ended_by for worker in workers] == ["close"] * 3
    assert not seeds(reported, "retried")
    assert set(run_states.read_states().values()) == {State.FINISHED}


def test_a_worker_that_takes_too_much_saves_its_run_and_ends(sweep):
    class Large(fakes.FakeWorker):
        def receive(self):
            message = {"event": "alive", "has_trained": True, "memory": 2e9}
            return [message], self.code

    run_states, scheduler, reported = sweep(1)
    scheduler.pool = work.Pool(Large, most_memory=1e9)
    scheduler.work()
    [failure] = map(run_states.failure, run_states.runs)
    assert "2 GB, more than --worker_gb" in failure["reason"]
    assert seeds(reported, "started") == ["0", "0"]


def test_jobs_run_at_the_same_time(sweep):
    running_at_polls = []
    run_states, scheduler, reported = sweep(6, polls=4, jobs=2)
    scheduler.on_poll = lambda: running_at_polls.append(len(run_states.running))
    scheduler.work()
    assert max(running_at_polls) == 2
    assert len(seeds(reported, "finished")) == 6


def test_a_worker_that_waits_for_room_has_no_run(sweep):
    """As of a cluster whose node was lost; the others go on."""
    workers = []
    _, scheduler, reported = sweep(4, jobs=2)

    def start(slot, log):
        workers.append(fakes.FakeWorker(slot, log))
        workers[-1].is_ready = len(workers) == 1
        return workers[-1]

    scheduler.pool.start = start
    scheduler.work()
    assert len(workers) == 2 and workers[1].run is None
    assert len(seeds(reported, "finished")) == 4


def test_a_full_disk_ends_the_sweep_and_no_run_has_failed(sweep):
    """The same command continues, so the runs are pending."""

    def do(run):
        return "full" if run.axes["seed"] == "1" else finish(run)

    run_states, scheduler, reported = sweep(3, do)
    with pytest.raises(UserError, match="full or missing"):
        scheduler.work()
    assert seeds(reported, "finished") == ["0"]
    assert not seeds(reported, "failed")
    states = collections.Counter(run_states.read_states().values())
    assert states == {State.FINISHED: 1, State.PENDING: 2}


def test_a_record_of_failure_that_does_not_fit_ends_the_sweep(
    sweep, monkeypatch
):
    run_states, scheduler, reported = sweep(2, lambda run: "failed")
    with monkeypatch.context() as patch:
        disks.disk_fills_while_writing(patch)
        with pytest.raises(UserError, match="the disk is full"):
            scheduler.work()
    assert not seeds(reported, "failed")
    assert set(run_states.read_states().values()) == {State.PENDING}


def test_a_sweep_whose_workers_do_not_start_ends(sweep):
    class Lost(fakes.FakeWorker):
        def __init__(self, slot, log):
            super().__init__(slot, log)
            self.is_ready, self.code = False, 256

    run_states, scheduler, reported = sweep(2)
    scheduler.pool = work.Pool(Lost)
    with pytest.raises(UserError, match="5 workers could not start"):
        scheduler.work()
    assert not reported
    assert set(run_states.read_states().values()) == {State.PENDING}


def cached_runs(tmp_path):
    grid = {
        "experiment": "glue",
        "flags": {
            "model": "tiny",
            "data": "sample",
            "trainable_layers": 1,
            "frozen_prefix": "cached",
        },
        "axes": {"seed": [0, 1], "task": ["rte", "sst2"]},
    }
    return grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))


def test_two_workers_do_not_build_one_feature_cache(sweep, tmp_path):
    together = []
    run_states, scheduler, _ = sweep(cached_runs(tmp_path), polls=5, jobs=2)
    scheduler.on_poll = lambda: together.append(
        [run.axes["task"] for run in run_states.running]
    )
    scheduler.work()
    for tasks in together:
        assert len(set(tasks)) == len(tasks)


def test_another_kind_of_run_has_another_worker(sweep, tmp_path):
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample"},
        "axes": {"seed": [0, 1], "deterministic": [True, False]},
    }
    workers = []
    runs = grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
    run_states, scheduler, _ = sweep(runs, workers=workers)
    scheduler.work()
    assert len(workers) == 2
    assert set(run_states.read_states().values()) == {State.FINISHED}


def test_after_a_signal_the_runs_save_their_state_and_are_pending(sweep):
    workers = []
    run_states, scheduler, reported = sweep(
        3, lambda run: "hangs", workers=workers, jobs=2
    )
    scheduler.on_poll = lambda: os.kill(os.getpid(), 15)
    with pytest.raises(Interrupted, match="same command"):
        scheduler.work()
    assert [worker.ended_by for worker in workers] == ["stop", "stop"]
    assert set(run_states.read_states().values()) == {State.PENDING}
    assert not seeds(reported, "failed")


def test_the_runs_of_a_sweep_that_breaks_are_pending(sweep):
    """As `sweep grid.json | head` breaks."""
    run_states, scheduler, _ = sweep(1, lambda run: "hangs")

    def on_poll():
        raise BrokenPipeError

    scheduler.on_poll = on_poll
    with pytest.raises(BrokenPipeError):
        scheduler.work()
    assert run_states.read_states()[run_states.runs[0].name] == State.PENDING


def test_a_run_that_is_still_saving_its_state_is_waited_for(sweep):
    """Its sweep was killed, but the run still writes."""
    run_states, scheduler, reported = sweep(1)
    [run] = run_states.runs
    run.directory.lock()
    polls_seen = []

    def on_poll():
        polls_seen.append(list(run_states.running))
        if len(polls_seen) == 3:
            run.directory.close()

    scheduler.on_poll = on_poll
    scheduler.work()
    assert polls_seen[:3] == [[], [], []]
    assert seeds(reported, "finished") == ["0"]
    assert not seeds(reported, "failed")


def test_one_sweep_at_a_time_works_in_a_folder(tmp_path):
    folder = RunStates(str(tmp_path), []).folder
    with execute.lock(folder):
        with pytest.raises(UserError, match="another sweep works in it"):
            execute.run_all([], str(tmp_path), fakes.make_pool())
    execute.run_all([], str(tmp_path), fakes.make_pool())


def test_a_finished_run_that_more_epochs_extend_is_pending(tmp_path):
    [run] = plan_runs(tmp_path, 1)
    finish(run, stop_reason="max_epochs", phases=[run_files.phase(2)])
    run_states = RunStates(str(tmp_path), [run])
    assert run_states.read_states()[run.name] == State.PENDING  # of 30 epochs


def test_the_best_rate_of_a_search_is_used_by_what_follows(tmp_path):
    axes = {"lr": [1e-4, 1e-3], "task": ["rte", "sst2"]}
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample"},
        "best_of": "lr",
        "search": {**axes, "trainable_layers": ["all"]},
        "axes": {**axes, "trainable_layers": ["all", 1], "seed": [1]},
    }
    best = {"rte": 1e-3, "sst2": 1e-4}
    done = []

    def do(run):
        settings = run.settings
        done.append((settings.task, settings.lr, settings.seed))
        score = float(settings.lr == best[settings.task])
        scores = {"accuracy": score}
        finish(run, validation=scores, test=scores, metric="accuracy")

    runs = grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
    pool = fakes.make_pool(do)
    states = fakes.run_completely(runs, str(tmp_path), pool)
    assert {seed for *_, seed in done[:4]} == {0}
    selected = [(task, lr, 1) for task, lr in best.items()]
    assert sorted(done[4:]) == sorted(2 * selected)
    assert len(states.runs) == 8
    fakes.run_completely(runs, str(tmp_path), pool)
    assert len(done) == 8  # nothing is done twice
