"""`train --learning_curve`: would more labelled texts help?"""

import json
import os

import numpy as np
import pytest

from tests.comparison.scored_runs import answer_first
from tests.support import own_data
from tf_transfer import train
from tf_transfer.comparison import finished_runs
from tf_transfer.models.heads import pooled
from tf_transfer.reports import advice
from tf_transfer.utils.errors import UserError


def settings_of(folder, **changes):
    return train.Settings(
        **{
            "task": own_data.write_task(folder, columns=own_data.news(120)),
            "model": "tiny",
            "max_length": 16,
            "features": "tfidf",
            "baseline": False,
            "learning_curve": True,
            "out": str(folder / "runs"),
            **changes,
        }
    )


def read_runs(folder):
    """Ids of the scored texts of each run, by its number of training texts."""
    runs = {}
    for path in folder.glob("runs/train/**/config.json"):
        config = json.loads(path.read_text())
        size = config["split_sizes"]["train"]
        with np.load(path.parent / "predictions.npz") as arrays:
            runs[size] = config["settings"], arrays["test_ids"]
    return runs


@pytest.mark.parametrize("features", ["tfidf", "frozen"])
@pytest.mark.slow
def test_a_quarter_and_half_of_the_texts_are_scored_on_the_same_test(
    tmp_path, capsys, features
):
    settings = settings_of(tmp_path, features=features)
    whole = train.run(settings)
    runs = read_runs(tmp_path)
    assert [*sorted(runs)] == [22, 43, 86]
    for _, ids in runs.values():
        np.testing.assert_array_equal(ids, runs[86][1])
    screen = capsys.readouterr().out
    assert (
        f"{finished_runs.open_scored(whole.directory).score:.1f} with 86"
        in screen
    )
    assert "22 of 86 training texts" in screen
    train.run(settings)  # finds all three
    assert "Run directory" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("eager", "one_block")
def test_each_size_has_its_usual_number_of_epochs(tmp_path):
    settings = settings_of(
        tmp_path, features="bert", trainable_layers="0", batch_size=4
    )
    train.run(settings)
    assert {
        size: settings["max_epochs"]
        for size, (settings, _) in read_runs(tmp_path).items()
    } == {size: train.usual_epochs(size, settings) for size in (22, 43, 86)}


def build_head(task, encoder):
    return pooled.PooledHead(
        task.units, encoder.hidden, "mean", 0.0, 0, "float32", name="head_news"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("eager", "one_block")
def test_all_sizes_have_the_head_of_the_user(tmp_path):
    settings = settings_of(
        tmp_path, features="bert", trainable_layers="0", max_epochs=1
    )
    train.run(settings, head=build_head)
    configs = [*tmp_path.glob("runs/train/**/config.json")]
    keys = [json.loads(path.read_text())["key"] for path in configs]
    assert len(keys) == 3
    assert all("build_head" in key["head_identity"] for key in keys)


def test_too_few_texts_are_refused_before_anything_is_written(tmp_path):
    settings = settings_of(tmp_path, max_train_examples=39)
    with pytest.raises(UserError, match="39 training texts; it needs 40"):
        train.run(settings)
    assert not os.path.exists(settings.out)


@pytest.mark.parametrize("changes", [{"max_seconds": 9.0}, {"refit": True}])
def test_a_limit_of_time_is_refused(tmp_path, changes):
    settings = settings_of(tmp_path, features="bert", **changes)
    with pytest.raises(UserError, match="--learning_curve: trains further"):
        train.Train(settings)


@pytest.mark.parametrize(
    "rights, verdict",
    [
        ((100, 120, 180), "More labelled texts are likely to help"),
        ((100, 120, 122), "It is not shown that more labelled texts"),
        ((100, 120, 120), "The last 50 added +0.0 points. It is not shown"),
    ],
)
def test_the_verdict_follows_the_interval_of_the_last_half(rights, verdict):
    runs = dict(zip((25, 50, 100), map(answer_first, rights)))
    line = advice.describe_curve(runs)
    assert verdict in line
    assert line.startswith(
        "Learning curve, accuracy on 200 test texts: 50.0 with 25"
    )
