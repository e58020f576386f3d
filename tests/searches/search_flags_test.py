"""The flags of a search, and what they make it try."""

import dataclasses
import types

import pytest

from tests.searches import fake_runs
from tests.searches.fake_runs import run
from tf_transfer import search as command, train
from tf_transfer.config import command_line
from tf_transfer.models import methods
from tf_transfer.searches import controller, ladder
from tf_transfer.utils.errors import UserError


@pytest.mark.parametrize(
    "text, seconds",
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1.5m", 90)],
)
def test_a_budget_is_a_time_with_a_unit(text, seconds):
    assert command.parse_budget(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "0s", "-3m", "1h 30m", "9" * 400 + "h"]
)
def test_no_other_text_is_a_budget(text):
    with pytest.raises(UserError, match="--budget.*: give the time"):
        command.parse_budget(text)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"approaches": "1,1"}, "--approaches=1,1: give each value once"),
        ({"approaches": "9"}, "this encoder has"),
        ({"approaches": "head", "method": "bias"}, "acts in the blocks"),
        ({"max_loss": -1.0}, "--max_loss"),
        ({"validation_fraction": 0.05}, "a search needs 20"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_written(
    world, tmp_path, changes, message
):
    path = fake_runs.write_task(tmp_path)
    with pytest.raises(UserError, match=message):
        run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    assert not (tmp_path / "out").exists()


def test_help_has_the_flags_that_a_search_reads_alone():
    names = {field.name for field in command_line.list_flags(command.Settings)}
    assert len(names) <= 46
    assert {"budget", "task", "max_length", "jobs", "dry_run"} < names
    assert not {"lr", "seed", "trainable_layers", "also_cache"} & names


def test_a_method_has_its_own_rate(tmp_path):
    path = fake_runs.write_task(tmp_path)
    settings = fake_runs.settings_of(path, tmp_path / "out", method="bias")
    approaches = controller.Search(settings, 0.0).plan.approaches
    rates = ladder.rates_around(methods.load("bias").lr)
    assert {approach.rates for approach in approaches} == {rates}


@pytest.mark.parametrize("count, is_tried", [(60, True), (120, False)])
def test_few_texts_of_a_class_are_compared_as_well(count, is_tried, tmp_path):
    """Of 60 texts in three classes, 29 train; of 120, 58."""
    path = fake_runs.write_task(tmp_path, count=count)
    settings = fake_runs.settings_of(
        path,
        tmp_path / "out",
        validation_fraction=0.4,
        model="minilm",
        max_epochs=None,
    )
    made = controller.Search(settings, 0.0)
    approaches = {a.name: a for a in made.plan.approaches}
    assert ("last 2 contrastive" in approaches) == is_tried
    if is_tried:
        approach = approaches["last 2 contrastive"]
        run = made.plan.train(approach.usual, approach.epochs).settings
        assert run.method == "contrastive" and run.trainable_layers == "2"
        assert approach.epochs == train.usual_epochs(made.training, 32, True)


def test_the_first_cache_is_made_with_those_below_it(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    made = controller.Search(fake_runs.settings_of(path, tmp_path / "out"), 0.0)
    also = {
        a.name: made.plan.train(a.usual, 1).settings.also_cache
        for a in made.plan.approaches
    }
    assert also == {"last 1": "2", "last 2": "", "everything": ""}


def test_the_operations_of_each_approach_are_counted(tmp_path):
    path = fake_runs.write_task(tmp_path)
    made = controller.Search(fake_runs.settings_of(path, tmp_path / "out"), 0.0)
    works = [approach.work for approach in made.plan.approaches]
    epochs = [work.epoch for work in works]
    assert epochs == sorted(epochs)
    builds = [work.build for work in works]
    assert builds == sorted(builds, reverse=True) and not builds[-1]
    assert made.plan.count_probe().build > builds[0]


def test_an_address_needs_the_cluster_that_reads_it(tmp_path):
    path = fake_runs.write_task(tmp_path)
    settings = fake_runs.settings_of(path, tmp_path / "out")
    for engine, is_read in (("local", False), ("ray", True)):
        changed = dataclasses.replace(settings, engine=engine)
        assert changed.reads("ray_address") == is_read
        assert ("ray_address" in changed.unread()) != is_read


def test_encoders_are_ranked_before_the_search(monkeypatch, tmp_path, capsys):
    """The search gets the first of them, and the flags that were given."""
    path, asked = fake_runs.write_task(tmp_path), []

    def rank(settings, models):
        assert models == ["minilm", "tiny"]
        return types.SimpleNamespace(model="tiny", text="Use tiny")

    class Search:
        def __init__(self, settings, began):
            asked.append(settings)

        def run(self):
            pass

    monkeypatch.setattr("tf_transfer.train.rank", rank)
    monkeypatch.setattr("tf_transfer.searches.controller.Search", Search)
    settings = command.Settings(task=path, models="minilm,tiny", budget="1m")
    monkeypatch.setattr(command_line, "from_flags", lambda cls: settings)
    command.main()
    [searched] = asked
    assert (searched.model, searched.models) == ("tiny", "")
    assert searched.seconds == 60 and "Use tiny" in capsys.readouterr().out
