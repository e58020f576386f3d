"""The freezing study: its probe, its search, its trials, and what it prints."""

import dataclasses

import pytest

from tests.models import encoders, saving
from tests.reports import synthetic
from tests.support.freezing_words import parsed, SMALL
from tests.sweeps import fakes
from tf_transfer.freezing import experiment as freezing, studies
from tf_transfer.sweeps import execute, work
from tf_transfer.utils.errors import UserError


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
    assert {"WNLI", "RTE"} <= tasks


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


def test_a_study_of_fewer_blocks_counts_those_alone(tmp_path):
    settings = parsed(
        *SMALL, "--keep_blocks=2", "--lr=1e-3", f"--out={tmp_path}"
    )
    study = studies.Study(settings, None)
    assert study.blocks == 2
    layers = {run.settings.trainable_layers for run in study.plan()}
    assert layers == {"all", "0", "1"}
