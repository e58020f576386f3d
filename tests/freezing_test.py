"""The freezing study: its settings, its runs, and what is wrong with them."""

import dataclasses

import numpy as np
import pytest

from tests.models import encoders, saving
from tests.reports import synthetic
from tests.support import commands
from tests.sweeps import fakes
from tf_transfer.config import command_line
from tf_transfer.freezing import experiment as freezing, studies
from tf_transfer.models import freezing as models_freezing, tiny
from tf_transfer.sweeps import execute, work
from tf_transfer.utils.errors import UserError


def parsed(*words):
    return command_line.parse(freezing.Settings, words).resolve()


SMALL = (
    "--model=tiny",
    "--data=sample",
    "--task=rte",
    "--max_length=16",
    "--batch_size=8",
    "--max_epochs=1",
)


@pytest.fixture
def start_with(monkeypatch):
    """Sets what does a run of a study, in this process.

    Returns:
        Function from what is called with each run to the list of the settings
        of the runs that were done; it grows.
    """

    def set_start(function):
        settings = []

        def do(run):
            settings.append(run.settings)
            function(run)

        monkeypatch.setattr(execute, "open_pool", fakes.pool_opener(do))
        monkeypatch.setattr(work, "POLL_SECONDS", 0.001)
        return settings

    return set_start


@pytest.fixture
def trained(start_with):
    """Runs are trained; returns their settings."""
    return start_with(lambda run: freezing.run(run.settings))


@pytest.fixture
def scored(start_with):
    """Runs write scores without training; returns their settings.

    The score is that of `SCORES`, by trained blocks; that of a search is more
    the higher its rate.
    """

    def score(run):
        settings = run.settings
        values = dataclasses.asdict(settings)
        del values["blocks"]
        points = SCORES[settings.trainable_layers]
        if settings.validation_fraction:
            points += settings.lr
        synthetic.write(
            values.pop("out"),
            [points],
            cls=freezing.Settings,
            blocks=3,
            **run.experiment.identities,
            **values,
        )

    return start_with(score)


SCORES = {"all": 0.8, "2": 0.1, "1": 0.75, "0": 0.5}


# === Settings ===


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


# === The study ===


def test_the_study_searches_trains_and_finds_what_is_done(
    scored, tmp_path, capsys
):
    words = (
        *SMALL,
        f"--out={tmp_path}",
        "--rates=1e-4,1e-3",
        "--search_trials=1",
        "--trials=2",
        "--frozen_blocks=3",
        "--dropout=0",
    )
    studies.run_studies(parsed(*words))
    probe, search, trials = scored[0], scored[1:3], scored[3:]
    assert probe.approach == "probe"
    assert [(s.lr, s.seed, s.approach) for s in search] == [
        (1e-4, 0, "fine_tuning"),
        (1e-3, 0, "fine_tuning"),
    ]
    assert {s.validation_fraction for s in search} == {0.1}
    assert [(s.approach, s.seed) for s in trials] == [
        ("fine_tuning", 0),
        ("last_0", 0),
        ("last_0", 1),
        ("fine_tuning", 1),
    ]
    assert {s.lr for s in trials} == {1e-3}  # the better one
    assert {s.validation_fraction for s in trials} == {0.0}
    assert {(s.dropout, s.trial) for s in scored[1:]} == {(0.0, True)}
    output = capsys.readouterr().out
    head, _, table = output.partition("Points of the figure")
    assert "Fewest tuned blocks" in head
    lines = [line.split()[:4] for line in table.splitlines()[3:]]
    assert ["RTE", "0.001", "live", "all"] in lines
    assert ["RTE", "0.001", "live", "0"] in lines
    # Again: nothing is done twice.
    studies.run_studies(parsed(*words))
    assert len(scored) == 7


def test_a_dry_run_lists_the_runs_of_a_study(scored, tmp_path, capsys):
    """A trial is counted at one of the rates."""
    studies.run_studies(
        parsed(
            *SMALL,
            f"--out={tmp_path}",
            "--tasks=wnli,rte",
            "--frozen_blocks=2,3",
            "--dry_run",
            "--flops=1e9",
        )
    )
    assert not scored
    output = capsys.readouterr().out
    assert "80 runs, 80 of them pending." in output  # 25 and 15 of each task
    assert "operations per second by --flops" in output


def test_several_tasks_are_reported_together(scored, tmp_path, capsys):
    studies.run_studies(
        parsed(
            *SMALL,
            f"--out={tmp_path}",
            "--lr=1e-3",
            "--trials=1",
            "--frozen_blocks=3",
            "--tasks=wnli,rte",
        )
    )
    assert [s.task for s in scored] == ["wnli"] * 3 + ["rte"] * 3
    output = capsys.readouterr().out
    assert output.count("Fewest tuned blocks") == 3
    last = output.rpartition("Fewest tuned blocks")[2]
    tasks = {line.split()[0] for line in last.splitlines()[3:] if line.strip()}
    assert {"wnli", "RTE"} <= tasks


@pytest.mark.slow
@pytest.mark.parametrize("save", [saving.as_keras, saving.as_hugging_face])
def test_a_roberta_goes_through_every_number_of_blocks(
    trained, tmp_path, save, eager
):
    """Of a preset and of a Hugging Face folder, live and cached."""
    folder = tmp_path / "roberta"
    save(encoders.roberta(), str(folder))
    words = (
        *SMALL[1:],
        f"--model={folder}",
        f"--out={tmp_path / 'runs'}",
        "--lr=1e-3",
        "--trials=1",
        "--frozen_blocks=0-2",
        "--task=wnli",
        f"--cache_dir={tmp_path / 'cache'}",
    )
    studies.run_studies(parsed(*words))
    studies.run_studies(parsed(*words, "--frozen_prefix=cached"))
    assert [(s.approach, s.runs_cached) for s in trained] == [
        ("probe", True),
        ("fine_tuning", False),
        ("last_1", False),
        ("last_0", False),
        ("last_0", True),  # its pass stores the lower cut too
        ("last_1", True),
    ]


def test_a_study_goes_on_without_a_probe(scored, tmp_path, monkeypatch, capsys):
    def refuse(run):
        if run.settings.is_probe:
            raise UserError("rte: 10,000 labels.")

    words = (*SMALL, f"--out={tmp_path}", "--lr=1e-3", "--trials=1")
    study = studies.Study(parsed(*words), fakes.make_pool(refuse))
    monkeypatch.setattr(study, "plan", list)
    study.run()
    assert "scores" not in capsys.readouterr().out


def test_a_given_rate_is_not_searched(scored, tmp_path):
    words = (
        *SMALL,
        f"--out={tmp_path}",
        "--lr=1e-3",
        "--trials=1",
        "--frozen_blocks=2,3",
        "--frozen_prefix=cached",
        f"--cache_dir={tmp_path / 'cache'}",
    )
    with execute.open_pool() as pool:
        studies.Study(parsed(*words), pool).run()
    assert {s.approach: s.runs_cached for s in scored} == {
        "probe": True,
        "fine_tuning": False,
        "last_1": True,
        "last_0": True,
    }
