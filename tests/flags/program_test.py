"""Flags that stop and select, and that change the program."""

import json
import os

import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from tests.conftest import tiny_settings
from tests.support.flag_runs import BASE, run, shows
from tf_transfer.data import metrics
from tf_transfer.glue import experiment as glue
from tf_transfer.models import tiny
from tf_transfer.training import steps, strategy

# === Flags that stop and select ===


@shows("patience", "min_delta", "select")
@pytest.mark.parametrize(
    "changes, scores, epochs, best",
    [
        # A run of three epochs whose validation scores these are.
        ({"patience": 1, "min_delta": 0.2}, (0.5, 0.6, 0.7), 2, 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ({"patience": 2, "min_delta": 0.2}, (0.5, 0.6, 0.7), 3, 3),
                ({"patience": 1, "min_delta": 0.05}, (0.5, 0.6, 0.7), 3, 3),
                ({"patience": 0, "select": "best"}, (0.7, 0.6, 0.5), 3, 1),
                ({"patience": 0, "select": "last"}, (0.7, 0.6, 0.5), 3, 3),
            )
        ),
    ],
)
def test_stopping_and_selection_follow_validation(
    changes, scores, epochs, best, monkeypatch, tmp_path
):
    given = iter(scores)

    def measure(names, labels, logits):
        is_validation = len(labels) == 4
        return {"accuracy": next(given) if is_validation else 0.0}

    monkeypatch.setattr(metrics, "measure", measure)
    folder = run(tmp_path, max_epochs=3, **changes)
    with open(os.path.join(folder, "result.json")) as file:
        result = json.load(file)
    assert (result["epochs_run"], result["best_epoch"]) == (epochs, best)
    assert result["validation"] == {"accuracy": scores[best - 1]}
    assert os.listdir(os.path.join(folder, "model")) == [
        f"phase-1-epoch-{best}.safetensors"
    ]


# === Flags that change the program ===


@shows("strategy")
@pytest.mark.parametrize(
    "name, kind",
    [
        ("default", type(tf.distribute.get_strategy())),
        ("one_device", tf.distribute.OneDeviceStrategy),
        ("mirrored", tf.distribute.MirroredStrategy),
    ],
)
def test_strategy_says_what_spreads_the_step(name, kind):
    devices = strategy.set_up(name, 8)
    assert type(devices.strategy) is kind
    assert devices.replicas == 1


def look_at_the_program(out, changes):
    """Trains in a process of its own; prints what became of its flags.

    That is replicas, whether the step is compiled by XLA, and whether
    operations are deterministic.
    """
    tiny.BLOCKS = 1
    is_compiled = []
    original = steps.Pass.train

    def look(self, plan):
        yield from original(self, plan)
        [program] = self._chunk._list_all_concrete_functions()
        is_compiled.append(
            any(
                function.attr["_XlaMustCompile"].b
                for function in program.graph.as_graph_def().library.function
            )
        )

    steps.Pass.train = look
    settings = tiny_settings(
        out, **{**BASE, "max_epochs": 1, "max_length": 16, **changes}
    )
    devices = glue.run(settings).experiment.set_up_devices()
    print(
        "RESULT"
        + json.dumps(
            {
                "replicas": devices.replicas,
                "xla": is_compiled[0],
                "deterministic": config.is_op_determinism_enabled(),
            }
        )
    )


@shows("jit_compile", "deterministic", "cpu_devices")
@pytest.mark.parametrize(
    "changes, expected",
    [
        (
            {"jit_compile": "true"},
            {"replicas": 1, "xla": True, "deterministic": False},
        ),
        (
            {"deterministic": True, "strategy": "mirrored", "cpu_devices": 2},
            {"replicas": 2, "xla": False, "deterministic": True},
        ),
    ],
    ids=str,
)
@pytest.mark.slow
def test_a_process_runs_the_program_that_its_flags_say(
    changes, expected, forks, tmp_path
):
    case = forks.start(
        look_at_the_program, str(tmp_path), changes, folder=str(tmp_path)
    )
    assert case.results() == [expected]
