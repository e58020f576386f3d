"""What stops one of two processes stops both, and each says so."""

import errno
import json
import os
import signal
import sys
import time

import numpy as np
import pytest

from tests.support import forks as forks_lib
from tests.support.interrupting import count_calls
from tests.training.strategy_test import free_ports
from tf_transfer.models import loading
from tf_transfer.training import checkpoint, steps, strategy, trainer
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

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
