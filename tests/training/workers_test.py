"""What stops one of several workers stops all, and each says so."""

import errno
import json
import os
import signal
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.support import forks as forks_lib, interrupting
from tests.training.strategy_test import free_ports
from tf_transfer import experiment, run_data
from tf_transfer.feature_cache import cache
from tf_transfer.models import loading
from tf_transfer.training import checkpoint, records, steps, strategy, trainer
from tf_transfer.training.callbacks import Callback
from tf_transfer.utils import files
from tf_transfer.utils.errors import Interrupted, UserError

# === A block that all workers run ===


@pytest.fixture
def pair():
    """Function from the votes of another worker to the devices of this one.

    Their attribute `votes` is what this worker has voted.
    """

    def make(others=0.0):
        devices = strategy.single_device()
        devices.workers, devices.votes = 2, []

        def agree(value):
            devices.votes.append(value)
            return value + others

        devices.agree = agree
        return devices

    return make


def test_votes_are_summed(pair):
    devices = pair(others=2.0)
    with devices.together() as votes:
        votes.total = 1
    assert votes.total == 3
    assert devices.votes == [1]


def test_a_worker_that_fails_raises_its_own_error(pair):
    for others in (0.0, strategy.FAILED):
        devices = pair(others)
        with pytest.raises(OSError, match="full"), devices.together():
            raise OSError("full")
        assert devices.votes == [strategy.FAILED]


def test_the_others_say_where_to_look_and_what_to_do(pair):
    with pytest.raises(Interrupted) as stop:
        with pair(others=strategy.FAILED).together() as votes:
            votes.total = 2
    assert str(stop.value) == (
        "Another worker of this run stopped. Its own message gives the reason; "
        "the same command on all workers continues the run."
    )


def test_a_second_ctrl_c_waits_for_nobody(pair):
    devices = pair()
    with pytest.raises(KeyboardInterrupt), devices.together():
        raise KeyboardInterrupt
    assert devices.votes == []


LOST = tf.errors.UnavailableError(None, None, "socket closed")


def test_an_error_is_its_own_although_the_others_are_gone(pair):
    devices = pair()

    def agree(value):
        raise LOST

    devices.agree = agree
    with pytest.raises(OSError, match="full"), devices.together():
        raise OSError("full")


def test_a_process_that_ended_is_explained(pair):
    devices = pair()
    with pytest.raises(Interrupted, match="Another worker"):
        with devices.explain_lost_workers():
            raise LOST
    with pytest.raises(Interrupted, match="Another worker"):
        with devices.explain_lost_workers():
            try:
                raise LOST
            except tf.errors.UnavailableError:  # as Keras does in a layer
                raise RuntimeError("in the layer 'positions'") from None
    with pytest.raises(RuntimeError, match="of its own"):
        with devices.explain_lost_workers():
            raise RuntimeError("of its own")
    devices.workers = 1
    with pytest.raises(tf.errors.UnavailableError):
        with devices.explain_lost_workers():
            raise LOST


def test_all_meet_before_a_process_ends(pair):
    devices = pair()
    devices.end_together()
    assert devices.votes == [0]

    def agree(value):
        raise LOST

    devices.agree = agree
    devices.end_together()


def test_one_worker_alone_sums_nothing():
    devices = strategy.single_device()
    devices._sum = None
    with devices.together() as votes:
        votes.total = 1
    assert votes.total == 1
    with pytest.raises(OSError, match="full"), devices.together():
        raise OSError("full")


# === What one worker does alone ===

HOOKS = ("train_begin", "build", "pass_begin", "steps_end", "record", "save")


class Failing(Callback):
    """Fails at one event."""

    def __init__(self, event):
        setattr(self, f"on_{event}", fail)


def fail(*unused, **options):
    raise OSError("no more")


@pytest.mark.usefixtures("one_block", "eager")
@pytest.mark.parametrize(
    "owner, name",
    [
        (run_data.RunData, "read"),
        (experiment.Experiment, "find_finished"),
        (cache.FeatureCache, "attach"),
        (checkpoint.Checkpoints, "newest"),
        (checkpoint.Checkpoints, "save"),
        (trainer.Trainer, "_hash_frozen_weights"),
        *(
            (records.RunDirectory, name)
            for name in (
                *("begin", "write_epochs", "note_concurrent_runs"),
                *("write_model", "read_model"),
            )
        ),
        *((None, hook) for hook in HOOKS),
    ],
)
def test_each_failure_of_one_worker_alone_reaches_the_others(
    owner, name, monkeypatch, tmp_path
):
    from tf_transfer import glue

    votes = []

    def agree(self, value):
        votes.append(value)
        return float(value)

    monkeypatch.setattr(strategy.Devices, "agree", agree)
    if owner is not None:
        monkeypatch.setattr(owner, name, fail)
    settings = tiny_settings(
        tmp_path,
        strategy="mirrored",
        trainable_layers="0",
        frozen_prefix="cached",
        max_length=16,
        max_train_examples=8,
        max_epochs=1,
    )
    if name == "read":  # several workers do this once they have met
        monkeypatch.setattr(run_data.RunData, "reads_without_tensorflow", False)
    with pytest.raises(OSError, match="no more"):
        glue.run(settings, callbacks=[Failing(name)] if owner is None else [])
    assert votes[-1] == strategy.FAILED


@pytest.mark.usefixtures("one_block", "eager")
def test_workers_meet_before_a_run_ends_or_is_left(monkeypatch, tmp_path):
    """A process that ended too soon took the chief's last sum with it."""
    from tf_transfer import glue

    events = []
    for owner, name in (
        (strategy.Devices, "end_together"),
        (trainer.Trainer, "save"),
        (trainer.Trainer, "_tidy_directory"),
        (records.RunDirectory, "end"),
    ):
        count_calls(
            owner,
            name,
            lambda count, name=name: events.append(name),
            monkeypatch.setattr,
        )
    settings = tiny_settings(
        tmp_path,
        strategy="mirrored",
        trainable_layers="0",
        max_length=16,
        max_train_examples=16,
        max_epochs=1,
    )
    with monkeypatch.context() as patch:
        interrupting.stop_after(patch, 1)
        with pytest.raises(Interrupted, match="Stopped and saved"):
            glue.run(settings)
    assert events == ["save", "end_together"]
    events.clear()
    glue.run(settings)
    assert events == ["save", "end_together", "_tidy_directory", "end"]
    events.clear()
    glue.run(settings)  # it is finished
    assert events == ["end_together"]


# === Two processes ===

# Three epochs of three steps, from the stored output of the embeddings.
FLAGS = {
    "task": "rte",
    "data": "sample",
    "model": "tiny",
    "trainable_layers": 1,
    "lr": 1e-3,
    "batch_size": 8,
    "max_length": 16,
    "max_train_examples": 24,
    "max_epochs": 3,
    "patience": 0,
    "frozen_prefix": "cached",
    "cache_dtype": "float32",
    "strategy": "multi_worker",
}
OFTEN = {"checkpoint_minutes": 1e-9}


def work(event, flags):
    """Runs the command of a worker, to which something happens.

    Args:
        event: the name of a function of this module; "" for none.
        flags: the command's.
    """
    steps.LONGEST_CHUNK = 1  # so that what happens falls inside an epoch
    count_calls(checkpoint.Checkpoints, "save", lambda count: print("SAVED"))
    if event:
        globals()[event]()
    words = [f"--{name}={value}" for name, value in flags.items()]
    forks_lib.run_command("glue", *words)


def count_calls(owner, name, before, assign=setattr):
    """From now on, calls `before` with the number of each call of a method."""
    original, calls = getattr(owner, name), []

    def counted(self, *arguments):
        calls.append(1)
        before(len(calls))
        return original(self, *arguments)

    assign(owner, name, counted)


def send(number, count):
    """A signal to this process, at a call of this number."""
    return lambda calls: calls == count and os.kill(os.getpid(), number)


def get_signal_in_training():
    count_calls(trainer.Trainer, "_after_chunk", send(signal.SIGTERM, 5))


def get_signal_in_build():
    count_calls(trainer.Trainer, "_is_build_stopped", send(signal.SIGTERM, 3))


def get_killed_in_training():
    count_calls(trainer.Trainer, "_after_chunk", send(signal.SIGKILL, 5))


def get_signal_before_training():
    def load(*unused):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    loading.load = load


def get_ctrl_c_before_training():
    def load(*unused):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    loading.load = load


def have_no_encoder():
    def load(*unused):
        raise UserError("--model=tiny: is damaged here.")

    loading.load = load


def end_slowly():
    """A process that ends at once may take the other's last sum with it."""
    leave = sys.exit

    def leave_later(code):
        time.sleep(2)
        leave(code)

    sys.exit = leave_later


def have_full_disk():
    def fsync(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill(count):
        if count == 2:
            files.os.fsync = fsync

    count_calls(checkpoint.Checkpoints, "save", fill)


def start_two(forks, out, events=("", ""), changes=({}, {})):
    """Runs a command on two workers to their ends.

    Args:
        forks: the server.
        out: folder of runs and caches.
        events: what happens to each, see `work`.
        changes: the flags of each that differ from `FLAGS`.

    Returns:
        (exit code, stdout, last line of stderr) of each.
    """
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    cases = [
        forks.start(
            work,
            event,
            {
                **FLAGS,
                "out": str(out),
                "cache_dir": f"{out}/{index}",
                **changed,
            },
            folder=str(out),
            environment={
                "TF_CONFIG": json.dumps(
                    {
                        "cluster": cluster,
                        "task": {"type": "worker", "index": index},
                    }
                )
            },
        )
        for index, (event, changed) in enumerate(zip(events, changes))
    ]
    ends = []
    for case in cases:
        code, out, err = case.finish()
        assert "Traceback" not in err
        ends.append((code, out, err.strip().rpartition("\n")[-1]))
    return ends


def read_losses(out):
    [path] = out.glob("glue/rte/*/*/epochs.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [[line["train_loss"], *line["test"].values()] for line in lines]


def is_finished(out):
    return bool([*out.glob("glue/rte/*/*/result.json")])


@pytest.fixture(scope="module")
def undisturbed(forks, tmp_path_factory):
    """The folder of a run that nothing stops, and the ends of its workers."""
    out = tmp_path_factory.mktemp("undisturbed")
    return out, start_two(forks, out, changes=[{}, OFTEN])


def assert_continues(forks, out, undisturbed):
    """The same command ends with the numbers of the run left alone."""
    ends = start_two(forks, out, changes=[OFTEN, {}])
    assert [code for code, _, _ in ends] == [0, 0]
    np.testing.assert_allclose(
        read_losses(out), read_losses(undisturbed[0]), atol=1e-5
    )
    assert is_finished(out)
    return ends


@pytest.mark.slow
def test_the_chief_saves_by_its_own_clock(undisturbed):
    """The other one's would have saved after each step."""
    _, [chief, other] = undisturbed
    assert chief[0] == other[0] == 0
    assert chief[1].count("SAVED") == 3  # an epoch each
    assert "SAVED" not in other[1]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_signal_to_one_worker_that_trains_stops_both(
    victim, forks, undisturbed, tmp_path
):
    events = ["", ""]
    events[victim] = "get_signal_in_training"
    for code, _, line in start_two(forks, tmp_path, events):
        assert code == 130
        assert line.startswith(
            "Stopped and saved. The same command continues at epoch 2, step 2"
        )
    [chief, _] = assert_continues(forks, tmp_path, undisturbed)
    assert "Continuing at epoch 2, step 2 (5 steps done)." in chief[1]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_signal_to_one_worker_that_builds_stops_both(
    victim, forks, undisturbed, tmp_path
):
    events = ["", ""]
    events[victim] = "get_signal_in_build"
    ends = start_two(forks, tmp_path, events)
    assert [code for code, _, _ in ends] == [130, 130]
    stored = "Stopped. The output of the frozen blocks so far is stored;"
    assert ends[victim][2].startswith(stored)
    assert ends[1 - victim][2] == strategy.ANOTHER_STOPPED
    sizes = [
        sum(path.stat().st_size for path in tmp_path.glob(f"{n}/**/*.npz"))
        for n in (victim, 1 - victim)
    ]
    assert 0 < sizes[0] < sizes[1]  # the other one has built all
    assert_continues(forks, tmp_path, undisturbed)


@pytest.mark.slow
def test_a_full_disk_of_the_chief_stops_both(forks, undisturbed, tmp_path):
    chief, other = start_two(forks, tmp_path, ["have_full_disk", ""])
    assert (chief[0], other[0]) == (1, 130)
    assert "the disk is full" in chief[2]
    assert other[2] == strategy.ANOTHER_STOPPED
    assert not is_finished(tmp_path)
    [chief, _] = assert_continues(forks, tmp_path, undisturbed)
    assert "Continuing at epoch 2, step 0 (3 steps done)." in chief[1]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_cannot_read_its_data_stops_both(victim, forks, tmp_path):
    changes = [{}, {}]
    changes[victim] = {"data": f"{tmp_path}/missing"}
    ends = start_two(forks, tmp_path, changes=changes)
    assert ends[victim][0] == 1
    assert ends[victim][2].startswith(f"error: --data={tmp_path}/missing: ")
    assert ends[1 - victim][0] == 130
    assert ends[1 - victim][2] == strategy.ANOTHER_STOPPED


@pytest.mark.slow
@pytest.mark.parametrize(
    "event, code, message",
    [
        ("have_no_encoder", 1, "error: --model=tiny: is damaged here."),
        ("get_signal_before_training", -signal.SIGTERM, ""),
        ("get_ctrl_c_before_training", 130, "Stopped. Nothing new was saved."),
        ("get_killed_in_training", -signal.SIGKILL, ""),
    ],
)
def test_a_worker_that_ends_at_once_stops_the_other(
    event, code, message, forks, undisturbed, tmp_path
):
    """The other one waits in a collective operation."""
    chief, other = start_two(forks, tmp_path, ["", event])
    assert other[0] == code
    assert other[2] == message
    assert chief[0] == 130
    assert chief[2] == strategy.ANOTHER_STOPPED
    if event == "get_killed_in_training":
        assert_continues(forks, tmp_path, undisturbed)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_is_so_on_both_workers(forks, tmp_path):
    ends = start_two(forks, tmp_path, 2 * ["end_slowly"], 2 * [{"lr": 1e30}])
    for code, _, line in ends:
        assert code == 1
        assert "is not finite at step" in line
    assert ends[0][2] == ends[1][2]
