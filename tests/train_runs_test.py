"""What a run with an encoder comes to, on a task of one's own."""

import dataclasses
import json
import os

import numpy as np
import pytest

from tests.comparison.scored_runs import answer_first
from tests.support import own_data, quick
from tests.support.own_runs import settings_of
from tf_transfer import train
from tf_transfer.comparison import finished_runs
from tf_transfer.data import entities
from tf_transfer.reports import study as study_lib, summary as summary_lib
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")


def test_a_run_ends_with_tfidf_on_the_same_texts(tmp_path, capsys):
    path = own_data.write_task(tmp_path, ending="jsonl")
    with quick.eagerly():
        result = train.run(settings_of(path, tmp_path / "runs"))
    said = capsys.readouterr().out
    for words in (
        "minus ",
        "TF-IDF of words",
        "majority baseline",
        "Depth profile, cross-validated accuracy of the probe",
        "To predict: python -m tf_transfer.predict --run=",
    ):
        assert words in said
    run = finished_runs.open_scored(result.directory)
    assert run.ranged.low <= run.score <= run.ranged.high
    [baseline] = (tmp_path / "runs" / "train" / "news" / "tfidf").iterdir()
    other = finished_runs.open_scored(str(baseline))
    np.testing.assert_array_equal(run.ids, other.ids)
    np.testing.assert_array_equal(run.labels, other.labels)


@pytest.mark.slow  # trains whole runs
def test_a_run_without_a_test_score_is_compared_on_validation(tmp_path):
    path = own_data.write_task(tmp_path)
    with quick.eagerly():
        train.run(settings_of(path, tmp_path / "runs", score_test=False))
    summary = summary_lib.summarize_folder(str(tmp_path / "runs"))
    approaches = {run.approach for run in summary["runs"]}
    assert approaches == {"last_1", "probe", "tfidf"}
    [study] = study_lib.collect(summary)
    compared = [row for row in study.rows if row.difference.is_known]
    assert compared  # with the best on validation


def test_a_baseline_alone_is_reported(tmp_path):
    """It reads no number of epochs, so that its settings have none."""
    path = own_data.write_task(tmp_path)
    settings = settings_of(path, tmp_path / "runs", features="tfidf")
    train.run(dataclasses.replace(settings, max_epochs=None))
    summary = summary_lib.summarize_folder(str(tmp_path / "runs"))
    assert not summary["left_out"]
    [study] = study_lib.collect(summary)
    assert [row.name for row in study.rows] == ["the TF-IDF baseline"]


def test_entities_have_intervals_over_sentences():
    """Two sentences, one right and one missed, drawn with replacement."""
    names = ("O", "B-X", "I-X")
    expected = entities.encode([["B-X", "O"], ["B-X", "I-X", "O"]], names)
    said = np.array([1, 0, 0, 0, 0])

    def scored(tags):
        scores = entities.score(
            expected, entities.Tagged(tags, expected.starts), ["X"]
        )
        return finished_runs.Scored(
            "test",
            "f1",
            scores,
            np.arange(2),
            expected.ids,
            np.eye(3)[tags],
            expected.starts,
        )

    half, none = scored(said), scored(0 * said)
    assert half.score == pytest.approx(200 / 3)
    assert (half.ranged.low, half.ranged.high) == (0.0, 100.0)
    assert not none.ranged.has_interval  # nothing varies
    assert half.minus(none).has_interval
    assert not half.minus(half).has_interval


@pytest.mark.usefixtures("eager")
@pytest.mark.slow
def test_a_run_that_is_out_of_time_ends_at_an_epoch_and_resumes(tmp_path):
    path = own_data.write_task(tmp_path)
    changes = {"max_epochs": 3, "schedule": "constant", "warmup_fraction": 0.0}
    settings = settings_of(path, tmp_path / "runs", baseline=False, **changes)
    whole = train.run(
        dataclasses.replace(settings, out=str(tmp_path / "other"))
    )
    short = train.run(dataclasses.replace(settings, max_seconds=0.01))
    assert short.record["stop_reason"] == "max_seconds"
    assert short.record["epochs_run"] == 1
    longer = train.run(dataclasses.replace(settings, max_seconds=1e6))
    assert longer.directory == short.directory
    assert longer.record["stop_reason"] == "max_epochs"
    assert longer.history.train_loss.tolist() == pytest.approx(
        whole.history.train_loss.tolist(), abs=1e-6
    )


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("eager")
def test_the_test_can_be_scored_once_when_all_is_over(tmp_path, capsys):
    """It is then what every epoch's scoring would have said of the best."""
    path = own_data.write_task(tmp_path)
    changes = {"max_epochs": 2, "schedule": "constant", "warmup_fraction": 0.0}
    changes |= {"select": "best", "lr": 1e-6}  # the first epoch is best
    settings = settings_of(path, tmp_path / "runs", baseline=False, **changes)
    whole = train.run(
        dataclasses.replace(settings, out=str(tmp_path / "other"))
    )
    assert whole.record["best_epoch"] == 1
    blind = dataclasses.replace(settings, score_test=False)
    first = train.run(blind)
    assert first.record["test"] is None and first.record["test_last"] is None
    assert finished_runs.open_scored(first.directory).kind == "validation"
    assert train.run(blind).record["scores_test"] is False  # and is finished
    capsys.readouterr()
    scored = train.run(settings)
    assert "Scoring the test with the weights of a" in capsys.readouterr().out
    assert scored.directory == first.directory
    assert "scores_test" not in scored.record
    with open(os.path.join(scored.directory, "config.json")) as file:
        assert "test" in json.load(file)["split_sizes"]
    for name in ("validation", "test", "best_epoch", "epochs_run"):
        assert scored.record[name] == whole.record[name]
    ours, theirs = (
        finished_runs.open_scored(r.directory) for r in (scored, whole)
    )
    assert ours.kind == "test"
    np.testing.assert_array_equal(ours.logits, theirs.logits)
    # It can still go on for more epochs.
    longer = train.run(dataclasses.replace(blind, max_epochs=3))
    assert longer.record["epochs_run"] == 3


@pytest.mark.slow
def test_what_only_validates_is_compared_with_words_on_validation(
    tmp_path, capsys
):
    """The test's texts have the same ids, and its score stays unseen."""
    columns = own_data.news(30)
    for part in ("validation", "test"):
        own_data.write(tmp_path / f"{part}.csv", columns)
    own_data.write(tmp_path / "test.csv", {**columns, "body": ["x"] * 30})
    path = own_data.write_task(
        tmp_path, columns=columns, validation="validation.csv", test="test.csv"
    )
    train.run(settings_of(path, tmp_path / "runs", score_test=False))
    [line] = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.strip().startswith("TF-IDF of ")
    ]
    assert " 100.0" in line


@pytest.mark.slow
def test_tfidf_of_characters_answers_where_texts_have_no_words(
    tmp_path, capsys
):
    columns = own_data.news(30)
    columns["body"] = [" ".join("ab c"[n % 2 :: 2]) for n in range(30)]
    path = own_data.write_task(tmp_path, columns=columns)
    train.run(settings_of(path, tmp_path / "runs"))
    out = capsys.readouterr().out
    assert "TF-IDF of characters" in out and "tf_transfer.predict" in out


@pytest.mark.parametrize("right", [20, 19])
def test_the_interval_of_accuracy_has_a_width_near_100_too(right):
    run = answer_first(right, 20)
    assert run.ranged.low < 90 and run.ranged.high >= 99
    assert not run.minus(run).has_interval


def test_what_scores_nothing_is_refused(tmp_path):
    path = own_data.write_task(tmp_path, test=None)
    changes = {"validation_fraction": 0.0, "select": "last", "patience": 0}
    settings = settings_of(path, tmp_path / "runs", baseline=False)
    with pytest.raises(
        UserError, match="Nothing to score.*--validation_fraction"
    ):
        train.run(dataclasses.replace(settings, **changes))


@pytest.mark.usefixtures("eager")
def test_a_task_without_a_test_leaves_none_unscored(tmp_path, capsys):
    path = own_data.write_task(tmp_path, test=None)
    settings = settings_of(path, tmp_path / "runs", baseline=False)
    blind = train.run(dataclasses.replace(settings, score_test=False))
    assert "scores_test" not in blind.record
    capsys.readouterr()
    assert train.run(settings).directory == blind.directory
    said = capsys.readouterr().out
    assert "Already done" in said and "Scoring" not in said


def test_more_blocks_than_there_are_cannot_be_cached(tmp_path):
    path = own_data.write_task(tmp_path)
    settings = settings_of(path, tmp_path / "runs", also_cache="1,9")
    with pytest.raises(UserError, match="--also_cache=1,9: this encoder has 1"):
        train.Train(settings.resolve()).cache_options()


@pytest.mark.slow  # trains whole runs
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": "contrastive"},
        {"features": "frozen"},
        {"features": "tfidf"},
    ],
)
def test_a_refit_needs_no_test(changes, eager, one_block, tmp_path, capsys):
    """Another run has validated it; the model is all that it leaves."""
    path = own_data.write_task(tmp_path, test=None)
    settings = settings_of(path, tmp_path / "runs", refit=True, **changes)
    result = train.run(settings)
    assert result.record["validation"] is result.record["test"] is None
    said = capsys.readouterr().out
    assert "not scored" in said
    assert f"tf_transfer.predict --run={result.directory} " in said
    [(label, score)] = result.predictor().answer(["goal match"])
    assert label in own_data.WORDS and 0 < score <= 1
    with pytest.raises(UserError, match="is a refit without a test"):
        summary_lib.summarize_folder(settings.out)
    assert train.run(settings).directory == result.directory
    alone = dataclasses.replace(
        settings,
        refit=False,
        validation_fraction=0.0,
        select="last",
        baseline=False,
    )
    with pytest.raises(UserError, match="Nothing to score"):
        train.run(alone)


def test_the_majority_baseline_is_that_of_the_split_that_is_shown(
    tmp_path, capsys
):
    columns = own_data.news(60)
    own_data.write(tmp_path / "validation.csv", columns)
    most = [n for n, team in enumerate(columns["team"]) if team == "money"]
    own_data.write(
        tmp_path / "test.csv",
        {name: [cells[n] for n in most] for name, cells in columns.items()},
    )
    path = own_data.write_task(
        tmp_path, columns=columns, validation="validation.csv", test="test.csv"
    )
    train.run(settings_of(path, tmp_path / "runs", features="tfidf"))
    said = capsys.readouterr().out
    assert "on 60 validation texts" in said
    assert "a constant, scores 33.3" in said
