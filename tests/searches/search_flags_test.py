"""The flags of a search, and what they make it try."""

import dataclasses
import types

import pytest

from tests.searches import fake_runs
from tests.searches.fake_runs import run
from tf_transfer import search as command
from tf_transfer.config import command_line
from tf_transfer.models import methods
from tf_transfer.searches import (
    candidates,
    controller,
    settings as settings_lib,
)
from tf_transfer.utils.errors import UserError


@pytest.mark.parametrize(
    "text, seconds",
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1.5m", 90)],
)
def test_a_budget_is_a_time_with_a_unit(text, seconds):
    assert settings_lib.parse_budget(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "0s", "-3m", "1h 30m", "9" * 400 + "h"]
)
def test_no_other_text_is_a_budget(text):
    with pytest.raises(UserError, match="--budget.*: give the time"):
        settings_lib.parse_budget(text)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"approaches": "1,1"}, "--approaches=1,1: give each value once"),
        ({"approaches": "9"}, "this encoder has"),
        ({"approaches": "head", "method": "bias"}, "acts in the blocks"),
        ({"max_loss": -1.0}, "--max_loss"),
        ({"validation_fraction": 0.0}, "holds out no texts"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_written(
    world, tmp_path, changes, message
):
    path = fake_runs.write_task(tmp_path)
    with pytest.raises(UserError, match=message):
        run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    assert not (tmp_path / "out").exists()


def test_fewer_than_sixteen_labelled_texts_are_refused(world, tmp_path):
    path = fake_runs.write_task(tmp_path, count=18)  # 14 and a test
    with pytest.raises(UserError, match="only 14 labelled texts"):
        run(fake_runs.settings_of(path, tmp_path / "out"))
    path = fake_runs.write_task(tmp_path, count=21)
    run(fake_runs.settings_of(path, tmp_path / "out"))
    assert world.done


def test_help_has_the_flags_that_a_search_reads_alone():
    names = {
        field.name for field in command_line.list_flags(settings_lib.Settings)
    }
    assert len(names) <= 47
    assert {"budget", "task", "max_length", "jobs", "dry_run"} < names
    assert not {"lr", "seed", "trainable_layers", "also_cache"} & names


def make_plan(path, out, **changes):
    """The candidates of a search, by name, and what makes their runs."""
    settings = fake_runs.settings_of(path, out, **changes)
    plan = controller.Search(settings, 0.0).plan
    return plan, plan.by_name


def test_a_method_has_its_own_rate(tmp_path):
    path = fake_runs.write_task(tmp_path)
    _, made = make_plan(path, tmp_path / "out", method="bias")
    rates = {float(c.flags["lr"]) for c in made.values() if not c.is_baseline}
    assert rates == {*candidates.list_rates(methods.load("bias").lr)}


def test_what_approaches_usually_lead_by_depends_on_the_texts(tmp_path):
    leads = []
    for name, texts in (("single", "body"), ("pairs", ["body", "marks"])):
        folder = tmp_path / name
        folder.mkdir()
        path = fake_runs.write_task(folder, texts=texts)
        _, made = make_plan(path, tmp_path / "out")
        leads.append([made[n].usual_lead for n in ("last 1", "everything")])
    both = candidates.EVERYTHING_LEAD + candidates.PAIRS_LEAD
    assert leads == [
        [0.0, candidates.EVERYTHING_LEAD],
        [candidates.PAIRS_LEAD, pytest.approx(both)],
    ]


@pytest.mark.parametrize("count, is_tried", [(60, True), (120, False)])
def test_few_texts_of_a_class_are_compared_as_well(count, is_tried, tmp_path):
    """Of 60 texts in three classes, 38 train on a fold; of 120, 76."""
    path = fake_runs.write_task(tmp_path, count=count)
    plan, made = make_plan(path, tmp_path / "out", model="minilm")
    assert ("last 2 contrastive" in made) == is_tried
    if is_tried:
        run = plan.make_run("last 2 contrastive", 0).settings
        assert run.method == "contrastive" and run.trainable_layers == "2"


def test_the_probe_makes_the_caches_of_all(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    plan, _ = make_plan(path, tmp_path / "out")
    names = ("the probe", "last 1", "last 2", "everything")
    also = [plan.make_run(n, 0).settings.also_cache for n in names]
    assert also == ["1,2", "2", "", ""]


def test_the_operations_of_each_approach_are_counted(tmp_path):
    path = fake_runs.write_task(tmp_path)
    _, made = make_plan(path, tmp_path / "out")
    usual = [c for c in made.values() if not (c.is_baseline or c.variant_of)]
    epochs = [candidate.work.epoch for candidate in usual]
    assert epochs == sorted(epochs)
    builds = [candidate.work.build for candidate in usual]
    assert builds == sorted(builds, reverse=True) and not builds[-1]
    assert made["the probe"].work.build > builds[0]


def test_the_last_epoch_of_a_decaying_rate_is_the_result(tmp_path):
    path = fake_runs.write_task(tmp_path)
    plan, _ = make_plan(path, tmp_path / "out")
    run = plan.make_run("last 1", 3).settings
    assert (run.schedule, run.select, run.fold, run.seed) == (
        *("linear", "last"),
        *(3, 3),
    )


@pytest.mark.parametrize(
    "precision, has_bfloat16, expected",
    [
        ("auto", True, "mixed_bfloat16"),
        ("auto", False, "float32"),
        ("mixed_bfloat16", False, "mixed_bfloat16"),
        ("float32", True, "float32"),
    ],
)
def test_all_runs_have_the_precision_of_the_search(
    precision, has_bfloat16, expected, monkeypatch, tmp_path
):
    monkeypatch.setattr(
        settings_lib.machine, "has_bfloat16", lambda: has_bfloat16
    )
    path = fake_runs.write_task(tmp_path)
    plan, made = make_plan(path, tmp_path / "out", precision=precision)
    runs = [plan.make_run(name, 0).settings for name in made]
    precisions = {run.precision for run in runs if not run.is_sparse}
    assert precisions == {expected}


def test_blocks_that_add_nothing_are_left_out(tmp_path):
    path = fake_runs.write_task(tmp_path)
    plan, made = make_plan(path, tmp_path / "out")
    plan.add_keep_blocks(3)  # all of them
    assert not any("kept" in name for name in made)
    plan.add_keep_blocks(1)
    run = plan.make_run("everything, 1 block kept", 0).settings
    assert run.keep_blocks == 1


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
        assert settings.precision != "auto"  # a run does not know it
        return types.SimpleNamespace(model="tiny", text="Use tiny")

    def search(settings, began):
        asked.append(settings)

    monkeypatch.setattr("tf_transfer.train.rank", rank)
    monkeypatch.setattr("tf_transfer.searches.controller.Search", search)
    settings = settings_lib.Settings(
        task=path, models="minilm,tiny", budget="1m"
    )
    command.open_search(settings, 0.0)
    [searched] = asked
    assert (searched.model, searched.models) == ("tiny", "")
    assert searched.seconds == 60 and "Use tiny" in capsys.readouterr().out
