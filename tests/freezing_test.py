"""The settings of the freezing study and its runs, and what is wrong."""

import dataclasses

import numpy as np
import pytest

from tests.models import encoders
from tests.support import commands
from tests.support.freezing_words import parsed, SMALL
from tf_transfer.config import command_line
from tf_transfer.freezing import experiment as freezing, studies
from tf_transfer.models import freezing as models_freezing, tiny
from tf_transfer.utils.errors import UserError


def test_defaults_are_the_authors():
    settings = parsed()
    assert (settings.batch_size, settings.max_epochs) == (16, 3)
    assert (settings.weight_decay, settings.adam_epsilon) == (0.0, 1e-8)
    assert settings.bias_correction and settings.clip_norm == 1.0
    assert (settings.schedule, settings.warmup_fraction) == ("linear", 0.0)
    assert (settings.select, settings.patience) == ("last", 0)
    assert settings.validation_fraction == 0.0
    assert studies.rates_of(settings) == [1e-5, 2e-5, 3e-5, 4e-5, 5e-5]
    assert (settings.trials, settings.search_trials) == (5, 5)
    assert settings.dropout == settings.head_dropout == 0.1


def test_roberta_trains_for_ten_epochs():
    assert parsed("--model=roberta_base_en").max_epochs == 10
    assert parsed("--model=roberta_base_en", "--max_epochs=4").max_epochs == 4


def test_the_output_is_the_authors():
    """Two units; for RoBERTa a second dropout, before the pooler."""
    bert, roberta = parsed(), parsed("--model=roberta_base_en")
    assert bert.loss_head == roberta.loss_head == "softmax"
    assert (bert.pooler_dropout, roberta.pooler_dropout) == (0.0, 0.1)
    assert "pooler_dropout" not in bert.hashed()
    mean = parsed("--model=roberta_base_en", "--pooling=mean")
    assert mean.pooler_dropout == 0.0


@pytest.mark.slow  # trains whole runs
def test_biases_and_norms_may_be_left_out_where_everything_trains(monkeypatch):
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    words = ("--model=tiny", "--data=sample", "--trial", "--lr=1e-3")
    left_out = "--untrained=bias,norm"

    def trained(*more):
        trial = freezing.Freezing(parsed(*words, *more))
        network = trial.build_network(trial.set_up_devices())
        weights = models_freezing.freeze(network, trial.trainable(2))
        assert all(weight.trainable for weight in weights)
        rest = {w.path for w in network.weights if not w.trainable}
        return {weight.path for weight in weights}, rest

    everything, nothing = trained()
    matrices, left = trained(left_out)
    assert not nothing and matrices | left == everything
    assert {path.split("/")[-1] for path in left} == {"bias", "beta", "gamma"}
    assert {path.split("/")[-1] for path in matrices} == {
        "kernel",
        "embeddings",
    }
    assert any("rte" in path for path in left)  # the head's
    # Runs that freeze blocks are the same runs with and without it.
    for layers in ("1", "0"):
        last = f"--trainable_layers={layers}"
        frozen = parsed(*words, last, left_out)
        assert frozen.hashed() == parsed(*words, last).hashed()
        assert "untrained" in frozen.unread()
        assert trained(last, left_out) == trained(last)
    whole = parsed(*words, left_out)
    assert whole.hashed() == {
        **parsed(*words).hashed(),
        "untrained": "bias,norm",
    }


def test_dropout_before_the_pooler_is_that_of_training_alone(monkeypatch):
    monkeypatch.setattr(tiny, "BLOCKS", 1)
    words = ("--model=tiny", "--data=sample", "--trial", "--lr=1e-3")
    none = ("--dropout=0", "--head_dropout=0")
    for rate, is_same in ((0.0, True), (0.5, False)):
        trial = freezing.Freezing(
            parsed(*words, *none, f"--pooler_dropout={rate}")
        )
        network = trial.build_network(trial.set_up_devices())
        batch = encoders.batch_of(network.encoder, encoders.PAIRS)
        trains, answers = (
            network.logits("rte", batch, training=is_training).numpy()
            for is_training in (True, False)
        )
        assert answers.shape == (4, 2)
        assert np.allclose(trains, answers, atol=1e-6) == is_same


@pytest.mark.parametrize(
    "given, blocks, expected",
    [
        ("", 12, [6, 7, 8, 9, 10, 11, 12]),
        ("", 3, [2, 3]),
        ("0-3", 3, [1, 2, 3]),
        ("0,2", 3, [2]),
        ("1-2,5", 6, [1, 2, 5]),
    ],
)
def test_numbers_of_frozen_blocks(given, blocks, expected):
    settings = parsed(f"--frozen_blocks={given}")
    assert studies.numbers_of_frozen_blocks(settings, blocks) == expected


@pytest.mark.parametrize("given", ["13", "6-13", "x", "-1", "6-", "1,,2"])
def test_a_number_of_blocks_that_cannot_be_is_named(given):
    settings = dataclasses.replace(parsed(), frozen_blocks=given)
    with pytest.raises(UserError, match=f"--frozen_blocks={given}.*0 to 12"):
        studies.numbers_of_frozen_blocks(settings, 12)


def test_an_encoder_without_blocks_is_refused():
    with pytest.raises(UserError, match="has no blocks"):
        studies.numbers_of_frozen_blocks(parsed(), 0)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--rates=fast"], "--rates=fast"),
        (["--rates=1e-5,1e-5"], "each once"),
        (["--rates=0"], "--rates=0"),
        (["--trials=0"], "--trials=0"),
        (["--search_trials=0"], "--search_trials=0"),
        (["--jobs=0"], "--jobs=0"),
        (["--trial"], "--trial: one run needs its --lr"),
        (["--tasks=rte,sst"], "--tasks=rte,sst: give `all`, or some of"),
        (["--tasks=rte,rte"], "each once"),
        (["--quality=0"], "--quality=0"),
        (["--quality=90"], "above 0 and up to 1"),
        (["--interval=95"], "--interval=95.0: must be above 0"),
        (
            ["--interval=0.9", "--trials=1"],
            "--trials=1: the interval.*--trials=2",
        ),
        (["--max_epochs=0"], "--max_epochs=0"),
    ],
)
def test_bad_flags_are_named(words, said):
    with pytest.raises(UserError, match=said):
        parsed(*words)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--trainable_layers=2"], "--frozen_blocks"),
        (["--blocks=1-2"], "--blocks: belongs to one run"),
        (["--seed=3"], "--seed: belongs to one run"),
        (["--rerun"], "--rerun: belongs to one run"),
        (["--validation_fraction=0.1"], "--validation_fraction: a study"),
        (["--tasks=rte"], "--task=rte and --tasks=rte"),
        (["--trial", "--lr=1e-3", "--tasks=rte"], "--tasks: belongs to the"),
    ],
)
def test_the_flags_of_a_run_and_of_the_study_do_not_mix(capsys, words, said):
    assert run_main(*words) == 1
    assert said in capsys.readouterr().err


def run_main(*words):
    """The command, in this process."""
    return commands.call(
        lambda: commands.execute(freezing.Freezing),
        lambda: command_line.define_flags(freezing.Settings, "freezing"),
        *SMALL,
        *words,
    )


def test_the_tasks_of_a_study():
    assert studies.tasks_of(parsed("--task=mrpc")) == ["mrpc"]
    assert studies.tasks_of(parsed("--tasks=mrpc,wnli")) == [
        "mrpc",
        "wnli",
    ]
    every = studies.tasks_of(parsed("--tasks=all"))
    assert len(every) == 9 and "wnli" in every
