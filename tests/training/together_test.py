"""What one worker alone fails at reaches the others, by votes."""

import time

import pytest
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.support import interrupting
from tf_transfer import experiment, run_data
from tf_transfer.feature_cache import cache
from tf_transfer.training import checkpoint, records, strategy, trainer
from tf_transfer.training.callbacks import Callback
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


def test_a_process_that_ended_is_noticed_where_an_error_hides_it(
    pair, monkeypatch
):
    devices = pair()

    def agree(value):
        raise LOST

    devices.agree = agree
    with pytest.raises(Interrupted, match="Another worker"):
        with devices.explain_lost_workers():
            raise AttributeError("in the layer 'positions'")
    with pytest.raises(UserError), devices.explain_lost_workers():
        raise UserError("of its own")
    monkeypatch.setattr(strategy, "VOTE_SECONDS", 0.01)
    devices.agree = lambda value: time.sleep(1)  # the others work on
    with pytest.raises(AttributeError), devices.explain_lost_workers():
        raise AttributeError("of its own")


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
        interrupting.count_calls(
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
