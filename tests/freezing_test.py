"""The freezing study: its settings, its runs, and what is wrong with them."""

import dataclasses

import pytest

from tests import commands
from tests.models import encoders
from tests.models import saving
from tf_transfer import freezing
from tf_transfer import freezing_study
from tf_transfer.config import command_line
from tf_transfer.sweeps import work
from tf_transfer.utils.errors import UserError


def parsed(*words):
    return command_line.parse(freezing.FreezingSettings, words).resolve()


SMALL = (
    "--model=tiny",
    "--data=sample",
    "--task=rte",
    "--max_length=16",
    "--batch_size=8",
    "--max_epochs=1",
)


@pytest.fixture
def in_process(monkeypatch):
    """Runs are done in this process; returns their settings."""
    done = []

    class Finished:
        def poll(self):
            return 0

    def start(run, board, slot, jobs):
        done.append(run.settings)
        freezing.run(run.settings)
        return Finished()

    monkeypatch.setattr(work, "start_process", start)
    monkeypatch.setattr(work, "POLL_SECONDS", 0.001)
    return done


# === Settings ===


def test_defaults_are_the_authors():
    settings = parsed()
    assert (settings.batch_size, settings.max_epochs) == (16, 3)
    assert (settings.weight_decay, settings.adam_epsilon) == (0.0, 1e-8)
    assert settings.bias_correction and settings.clip_norm == 1.0
    assert (settings.schedule, settings.warmup_fraction) == ("linear", 0.0)
    assert (settings.select, settings.patience) == ("last", 0)
    assert settings.validation_fraction == 0.0
    assert freezing_study.rates_of(settings) == [1e-5, 2e-5, 3e-5, 4e-5, 5e-5]
    assert (settings.trials, settings.search_trials) == (5, 5)
    assert settings.dropout == settings.head_dropout == 0.1


def test_roberta_trains_for_ten_epochs():
    assert parsed("--model=roberta_base_en").max_epochs == 10
    assert parsed("--model=roberta_base_en", "--max_epochs=4").max_epochs == 4


def test_cola_is_scored_by_matthews():
    assert parsed("--task=cola").row.metrics == ("matthews", "accuracy")
    assert parsed("--task=mrpc").row.metrics == ("f1", "accuracy")
    assert parsed("--task=wnli").row.metric == "accuracy"


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
    assert freezing_study.frozen_of(settings, blocks) == expected


@pytest.mark.parametrize("given", ["13", "6-13", "x", "-1", "6-", "1,,2"])
def test_a_number_of_blocks_that_cannot_be_is_named(given):
    settings = dataclasses.replace(parsed(), frozen_blocks=given)
    with pytest.raises(UserError, match=f"--frozen_blocks={given}.*0 to 12"):
        freezing_study.frozen_of(settings, 12)


def test_an_encoder_without_blocks_is_refused():
    with pytest.raises(UserError, match="has no blocks"):
        freezing_study.frozen_of(parsed(), 0)


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
        (["--interval=95"], "--interval=95: give a share"),
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
        freezing.main,
        lambda: command_line.define_flags(
            freezing.FreezingSettings, "freezing"
        ),
        *SMALL,
        *words,
    )


def test_the_tasks_of_a_study():
    assert freezing_study.tasks_of(parsed("--task=mrpc")) == ["mrpc"]
    assert freezing_study.tasks_of(parsed("--tasks=mrpc,wnli")) == [
        "mrpc",
        "wnli",
    ]
    every = freezing_study.tasks_of(parsed("--tasks=all"))
    assert len(every) == 9 and "wnli" in every


# === The study ===


def test_the_study_searches_trains_and_finds_what_is_done(
    in_process, tmp_path, monkeypatch, capsys
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
    scores = iter([0.4, 0.6])  # of the two rates
    original = freezing_study.Study._sweep

    def sweep(self, axes, **changes):
        found = original(self, axes, **changes)
        if "lr" in axes:
            for _, result in found:
                result["validation"]["accuracy"] = next(scores)
        return found

    monkeypatch.setattr(freezing_study.Study, "_sweep", sweep)
    freezing_study.study(parsed(*words))
    search, trials = in_process[:2], in_process[2:]
    assert [(s.lr, s.seed, s.approach) for s in search] == [
        (1e-4, 0, "fine_tuning"),
        (1e-3, 0, "fine_tuning"),
    ]
    assert {s.validation_fraction for s in search} == {0.1}
    assert [(s.approach, s.seed) for s in trials] == [
        ("fine_tuning", 0),
        ("fine_tuning", 1),
        ("last_0", 0),
        ("last_0", 1),
    ]
    assert {s.lr for s in trials} == {1e-3}  # the better one
    assert {s.validation_fraction for s in trials} == {0.0}
    assert {(s.dropout, s.trial) for s in in_process} == {(0.0, True)}
    said = capsys.readouterr().out
    assert "live: accuracy in points, learning rate 0.001;" in said
    table = said.partition("learning rate 0.001")[2].splitlines()[3:5]
    assert [line.split()[:2] for line in table] == [["0", "all"], ["3", "0"]]
    # Again: nothing is done twice.
    scores = iter([0.4, 0.6])
    freezing_study.study(parsed(*words))
    assert len(in_process) == 6


def test_several_tasks_are_told_of_together(in_process, tmp_path, capsys):
    freezing_study.study(
        parsed(
            *SMALL,
            f"--out={tmp_path}",
            "--lr=1e-3",
            "--trials=1",
            "--frozen_blocks=3",
            "--tasks=wnli,rte",
        )
    )
    assert [s.task for s in in_process] == ["wnli", "wnli", "rte", "rte"]
    last = capsys.readouterr().out.rpartition("Operating points\n")[2]
    assert "\nwnli " in last and "\nrte " in last


def test_bisection_trains_only_what_it_needs(in_process, tmp_path, monkeypatch):
    """Of three numbers 1 is enough, so 2 need not be tried."""
    scores = {"all": 0.8, 0: 0.5, 1: 0.75, 2: 0.1}
    original = freezing_study.Study.train

    def train(self, rate, layers):
        found = original(self, rate, layers)
        return {blocks: [scores[blocks]] * 2 for blocks in found}

    monkeypatch.setattr(freezing_study.Study, "train", train)
    words = (
        *SMALL,
        f"--out={tmp_path}",
        "--lr=1e-3",
        "--trials=1",
        "--frozen_blocks=1-3",
        "--search=bisect",
    )
    study = freezing_study.Study(parsed(*words))
    study.run()
    expected = ["fine_tuning", "last_1", "last_0"]
    assert [s.approach for s in in_process] == expected
    assert [run.settings.approach for run in study.runs] == expected
    # Another quality goes on from what is known.
    study.settings = parsed(*words, "--quality=0.9,0.95")
    scores[2] = 0.8
    study.run()
    assert [s.approach for s in in_process] == [*expected, "last_2"]


@pytest.mark.parametrize("save", [saving.as_keras, saving.as_hugging_face])
def test_a_roberta_goes_through_every_number_of_blocks(
    in_process, tmp_path, save
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
    freezing_study.study(parsed(*words))
    freezing_study.study(parsed(*words, "--frozen_prefix=cached"))
    assert [(s.approach, s.runs_cached) for s in in_process] == [
        ("fine_tuning", False),
        ("last_1", False),
        ("last_0", False),
        ("last_1", True),
        ("last_0", True),
    ]


def test_a_given_rate_is_not_searched(in_process, tmp_path):
    words = (
        *SMALL,
        f"--out={tmp_path}",
        "--lr=1e-3",
        "--trials=1",
        "--frozen_blocks=2,3",
        "--frozen_prefix=cached",
        f"--cache_dir={tmp_path / 'cache'}",
    )
    freezing_study.Study(parsed(*words)).run()
    assert [s.approach for s in in_process] == [
        "fine_tuning",
        "last_1",
        "last_0",
    ]
    assert [s.runs_cached for s in in_process] == [False, True, True]
