"""The freezing study: its settings, its runs, and what is wrong with them."""

import dataclasses

import pytest

from tests import commands
from tf_transfer import freezing
from tf_transfer import settings as settings_lib
from tf_transfer.errors import UserError
from tf_transfer.sweeps import work


def parsed(*words):
    return settings_lib.parse(freezing.FreezingSettings, words).resolve()


SMALL = (
    "--model=tiny", "--data=sample", "--task=rte", "--max_length=16",
    "--batch_size=8", "--max_epochs=1",
)  # fmt: skip


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
    assert freezing.rates_of(settings) == [1e-5, 2e-5, 3e-5, 4e-5, 5e-5]
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
    assert freezing.frozen_of(settings, blocks) == expected


@pytest.mark.parametrize("given", ["13", "6-13", "x", "-1", "6-", "1,,2"])
def test_a_number_of_blocks_that_cannot_be_is_named(given):
    settings = dataclasses.replace(parsed(), frozen_blocks=given)
    with pytest.raises(UserError, match=f"--frozen_blocks={given}.*0 to 12"):
        freezing.frozen_of(settings, 12)


def test_an_encoder_without_blocks_is_refused():
    with pytest.raises(UserError, match="has no blocks"):
        freezing.frozen_of(parsed(), 0)


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
        (["--max_epochs=0"], "--max_epochs=0"),
    ],
)
def test_bad_flags_are_named(words, said):
    with pytest.raises(UserError, match=said):
        parsed(*words)


def test_one_run_s_flag_is_refused_for_the_study(capsys):
    code = commands.call(
        freezing.main,
        lambda: settings_lib.define_flags(
            freezing.FreezingSettings, "freezing"
        ),
        *SMALL, "--trainable_layers=2",
    )  # fmt: skip
    assert code == 1
    assert "--frozen_blocks" in capsys.readouterr().err


# === The study ===


def test_the_study_searches_trains_and_finds_what_is_done(
    in_process, tmp_path, monkeypatch
):
    words = (
        *SMALL, f"--out={tmp_path}", "--rates=1e-4,1e-3", "--search_trials=1",
        "--trials=2", "--frozen_blocks=3", "--dropout=0",
    )  # fmt: skip
    scores = iter([0.4, 0.6])  # of the two rates
    original = freezing.Study._sweep

    def sweep(self, axes, **changes):
        found = original(self, axes, **changes)
        if "lr" in axes:
            for _, result in found:
                result["validation"]["accuracy"] = next(scores)
        return found

    monkeypatch.setattr(freezing.Study, "_sweep", sweep)
    said = freezing.Study(parsed(*words)).run()
    search, trials = in_process[:2], in_process[2:]
    assert [(s.lr, s.seed, s.approach) for s in search] == [
        (1e-4, 0, "fine_tuning"), (1e-3, 0, "fine_tuning"),
    ]  # fmt: skip
    assert {s.validation_fraction for s in search} == {0.1}
    assert [(s.approach, s.seed) for s in trials] == [
        ("fine_tuning", 0), ("fine_tuning", 1), ("last_0", 0), ("last_0", 1),
    ]  # fmt: skip
    assert {s.lr for s in trials} == {1e-3}  # the better one
    assert {s.validation_fraction for s in trials} == {0.0}
    assert {(s.dropout, s.trial) for s in in_process} == {(0.0, True)}
    lines = said.splitlines()
    assert lines[0] == "rte, tiny, 3 blocks, lr 0.001"
    assert [line.split()[:2] for line in lines[2:]] == [
        ["0", "all"],
        ["3", "0"],
    ]
    # Again: nothing is done twice.
    scores = iter([0.4, 0.6])
    assert freezing.Study(parsed(*words)).run() == said
    assert len(in_process) == 6


def test_a_given_rate_is_not_searched(in_process, tmp_path):
    words = (
        *SMALL, f"--out={tmp_path}", "--lr=1e-3", "--trials=1",
        "--frozen_blocks=2,3", "--frozen_prefix=cached",
        f"--cache_dir={tmp_path / 'cache'}",
    )  # fmt: skip
    freezing.Study(parsed(*words)).run()
    assert [s.approach for s in in_process] == [
        "fine_tuning", "last_1", "last_0",
    ]  # fmt: skip
    assert [s.runs_cached for s in in_process] == [False, True, True]
