"""A search up to its answer, and the next one; workers that train nothing."""

import json
import os
import pathlib
import re
import shutil
import types

import numpy as np
import pytest

from tests.searches import fake_runs
from tests.searches.fake_runs import run
from tests.support import own_data
from tf_transfer import experiment
from tf_transfer.searches import controller
from tf_transfer.training import run_paths
from tf_transfer.utils.errors import UserError


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search that the tests look at, and do not change."""
    folder, said = tmp_path_factory.mktemp("search"), []
    path = fake_runs.write_task(folder, count=700)
    with pytest.MonkeyPatch.context() as patch:
        world = fake_runs.World()
        fake_runs.put_in(patch, world)
        patch.setattr("builtins.print", lambda *a, **k: said.append(a[0]))
        run(fake_runs.settings_of(path, folder / "out", budget="12m"))
    return types.SimpleNamespace(
        world=world,
        path=path,
        out=folder / "out",
        answer=said[-1].strip().splitlines(),
    )


# === What it does ===


def test_it_keeps_its_budget(searched):
    assert 600 < searched.world.now <= 720


def test_no_run_is_done_twice(searched):
    assert len({*searched.world.done}) == len(searched.world.done)


def test_the_pass_of_the_probe_measures_the_speed(world, tmp_path):
    world.pass_seconds = 3 * fake_runs.PASS_SECONDS
    path = fake_runs.write_task(tmp_path)
    changes = {"budget": "23s"}  # enough for the baselines
    settings = fake_runs.settings_of(path, tmp_path / "out", **changes)
    made = controller.Search(settings, 0.0)
    made.run()
    names = {"last 1": "last_1", "everything": "fine_tuning"}
    for name, approach in names.items():
        seconds = made.race.costs.epoch_seconds(name)
        assert seconds == 3 * fake_runs.SECONDS[approach]


def test_a_dry_run_does_nothing_but_list_the_first_rungs(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    made = controller.Search(fake_runs.settings_of(path, tmp_path / "out"), 0.0)
    rows = made.describe_rungs().splitlines()
    names = ("the probe", "last 1", "everything")
    assert all(any(name in row for row in rows) for name in names)
    assert re.search(r"About .* are left for further folds", rows[-1])
    assert not world.done and not (tmp_path / "out").exists()


def test_a_dry_run_knows_the_time_that_is_spent(searched):
    settings = fake_runs.settings_of(searched.path, searched.out, budget="20s")
    made = controller.Search(settings, 0.0)
    assert made.clock() > 20.0
    assert "Too long for the budget: " in made.describe_rungs()


def test_more_workers_do_several_runs_at_once(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", jobs=2, budget="2m"))
    assert world.done and len({*world.done}) == len(world.done)


def test_what_fails_is_not_tried_again(world, tmp_path, capsys):
    world.breaks = ("last_1",)
    path = fake_runs.write_task(tmp_path)
    for _ in range(2):
        run(fake_runs.settings_of(path, tmp_path / "out"))
    said = capsys.readouterr().out
    assert said.count("last 1, fold 1 of 5: failed") == 1
    assert "news: last 2 has accuracy" in said


def test_the_test_is_scored_once_of_the_answer(searched):
    [tested] = searched.world.tested
    records = [
        json.loads(path.read_text())
        for path in searched.out.glob("train/**/result.json")
    ]
    [result] = [record for record in records if record["test"]]
    assert result["approach"] == tested


@pytest.mark.slow  # trains whole runs
@pytest.mark.parametrize("loss, is_answer", [(0.9, True), (1.6, False)])
def test_the_answer_is_trained_once_more_on_all_texts(
    world, monkeypatch, tmp_path, capsys, loss, is_answer
):
    """It is the answer unless its training loss is much worse."""
    monkeypatch.setattr(fake_runs, "REFIT_LOSS", loss)
    path = fake_runs.write_task(tmp_path)
    changes = {"approaches": "1", "max_epochs": 2, "budget": "1h"}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    said = capsys.readouterr().out
    assert ("trained once more" in said) == is_answer, said
    *_, predict = re.findall(r"predict --run=(\S+)", said)
    config = json.loads((pathlib.Path(predict) / "config.json").read_text())
    assert config["settings"]["refit"] == is_answer


def test_without_a_test_the_answer_is_trained_on_all_texts(
    world, tmp_path, capsys
):
    path = fake_runs.write_task(tmp_path, test=None)
    changes = {"approaches": "1", "max_epochs": 2, "budget": "1h"}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    said = capsys.readouterr().out
    assert "trained once more" in said
    assert "The task has no test." in said
    *_, predict = re.findall(r"predict --run=(\S+)", said)
    record = json.loads((pathlib.Path(predict) / "result.json").read_text())
    assert record["validation"] is record["test"] is None
    answer = json.loads((tmp_path / "out" / run_paths.ANSWER).read_text())
    assert tmp_path / "out" / answer["run"] == pathlib.Path(predict)


def test_without_a_refit_an_older_one_is_no_answer(world, tmp_path, capsys):
    path = fake_runs.write_task(tmp_path)
    for refit in (True, False):
        changes = {"approaches": "1", "max_epochs": 2, "refit": refit}
        run(fake_runs.settings_of(path, tmp_path / "out", **changes))
        said = capsys.readouterr().out
        assert ("trained once more" in said) == refit


def test_a_trained_answer_is_scored_where_no_baseline_is_fitted(
    world, tmp_path, capsys
):
    world.breaks = ("probe", "tfidf")
    path = fake_runs.write_task(tmp_path)
    changes = {"approaches": "1", "refit": False}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    assert world.tested == ["last_1"]
    said = capsys.readouterr().out
    assert "news: last 1 has accuracy" in said and " test texts. " in said


def test_the_sentence_has_the_numbers_of_the_table(searched):
    sentence, *rows = searched.answer
    assert "5 folds" in sentence
    [probe] = [row for row in rows if row.startswith("the probe ")]
    gain = re.search(r"\+([\d.]+ \(\+[\d.]+ to \+[\d.]+\))", sentence)[1]
    value, low, high = re.findall(r"[\d.]+", gain)
    assert f"-{value} (-{high} to -{low})" in probe, (sentence, probe)


def test_all_candidates_have_the_same_held_out_fold(searched):
    held = {}
    for path in searched.out.glob("train/news/*/*/predictions.npz"):
        config = json.loads((path.parent / "config.json").read_text())
        with np.load(path) as arrays:
            if "validation_ids" in arrays:
                fold = config["settings"]["fold"]
                ids = held.setdefault(fold, {*arrays["validation_ids"]})
                assert ids == {*arrays["validation_ids"]}
    assert {*held} == {0, 1, 2, 3, 4}
    labelled = [text for ids in held.values() for text in ids]
    assert len(labelled) == len({*labelled}) == 560  # a fifth is the test


def test_given_validation_texts_decide_in_place_of_folds(
    world, tmp_path, capsys
):
    own_data.write(tmp_path / "validation.csv", own_data.news(60))
    path = fake_runs.write_task(tmp_path, validation="validation.csv")
    run(fake_runs.settings_of(path, tmp_path / "out", approaches="1"))
    said = capsys.readouterr().out
    assert "last 1, seed 1: " in said and "fold" not in said


def test_where_texts_are_cut_a_flag_that_reads_their_ends_is_named(
    world, tmp_path, capsys
):
    world.cut_texts = 0.4
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", approaches="1"))
    said = capsys.readouterr().out
    assert "40 % of the training texts are longer than --max_length=256" in said
    assert "are cut. --long_texts=head_tail reads their ends, too." in said


def test_other_approaches_are_tried_within_the_same_budget(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    for approaches in ("1", "1,2"):
        changes = {"approaches": approaches, "budget": "10m"}
        run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    assert "last_2" in {name for name, *_ in world.done}


# === The answer ===


def test_the_answer_has_a_sentence_a_table_and_commands(searched):
    text = "\n".join(searched.answer)
    for words in (
        "news: last 2 has accuracy ",
        " test texts. Train last 2: ",
        "the TF-IDF baseline ",
        "the probe ",
        "With more time: ",
        " runs of ",
        "To predict: python -m tf_transfer.predict --run=",
        str(searched.out / "search.html"),
    ):
        assert words in text, words


def test_the_same_command_again_repeats_the_answer(searched, world, capsys):
    run(fake_runs.settings_of(searched.path, searched.out, budget="12m"))
    assert not world.done and not world.tested
    said = capsys.readouterr().out.strip().splitlines()
    assert said[-len(searched.answer) :] == searched.answer


def test_the_folder_of_a_search_stands_for_the_run_of_its_answer(
    searched, tmp_path, monkeypatch
):
    [line] = [x for x in searched.answer if x.startswith("To predict")]
    [run] = re.findall(r"--run=(\S+) ", line)
    moved = tmp_path / "moved"
    shutil.copytree(searched.out, moved)
    found = run_paths.find_answer(str(moved))
    assert found == str(moved / os.path.relpath(run, searched.out))
    assert run_paths.find_answer(found) == found
    (moved / run_paths.ANSWER).write_text(
        '{"lines": [], "run": "", "table": []}'
    )
    with pytest.raises(UserError, match="a search without a finished run"):
        experiment.open_run(str(moved))
    (moved / run_paths.ANSWER).write_text("{")
    with pytest.raises(UserError, match="answer.json"):
        experiment.open_run(str(moved))
    (moved / run_paths.ANSWER).unlink()
    with pytest.raises(UserError, match="or of a search that has answered"):
        experiment.open_run(str(moved))


def test_a_cheaper_answer_may_lose_some_points(
    searched, world, tmp_path, capsys
):
    out = shutil.copytree(searched.out, tmp_path / "out")
    changes = {"max_loss": 30.0, "budget": "12m"}
    run(fake_runs.settings_of(searched.path, out, **changes))
    said = capsys.readouterr().out
    assert "news: last 1 has accuracy" in said


def test_tfidf_is_the_answer_where_it_scores_more(world, tmp_path, capsys):
    path = fake_runs.write_task(tmp_path, noise=0.0)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="2m"))
    answer = capsys.readouterr().out.strip().split("\n\n")[-1].splitlines()
    assert "Use the TF-IDF baseline: " in answer[0]
    assert not world.tested
    # It is fitted again, to all labelled texts.
    assert any("trained once more" in line for line in answer)
    *_, predict = re.findall(r"predict --run=(\S+)", "\n".join(answer))
    sizes = json.loads((pathlib.Path(predict) / "config.json").read_text())
    assert (
        sizes["settings"]["refit"] and sizes["settings"]["features"] == "tfidf"
    )


def test_what_had_no_time_is_named_with_its_seconds(world, tmp_path, capsys):
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="45s"))
    said = capsys.readouterr().out
    assert re.search(r"time is too short: .*everything \([\d.]+ \w+\)", said)


# === Going on ===


def test_a_larger_budget_extends_the_search(monkeypatch, tmp_path):
    path = fake_runs.write_task(tmp_path, count=700)
    worlds = []
    for budget in ("60s", "4m"):
        world = fake_runs.World()
        fake_runs.put_in(monkeypatch, world)
        run(fake_runs.settings_of(path, tmp_path / "out", budget=budget))
        worlds.append(world)
    assert 20 < worlds[0].now <= 60
    assert worlds[0].now + worlds[1].now <= 240
    assert not {*worlds[0].done} & {*worlds[1].done}


@pytest.mark.parametrize(
    "changes, name", [({"max_length": 64}, "max_length"), ({}, "the texts")]
)
def test_another_search_in_out_is_refused_and_left_as_it_is(
    searched, world, tmp_path, changes, name
):
    path = searched.path
    if not changes:
        path = fake_runs.write_task(tmp_path, count=240)
    file = searched.out / ".search" / "search.json"
    before = file.read_bytes()
    with pytest.raises(UserError, match=f"which differs in: {name}"):
        run(fake_runs.settings_of(path, searched.out, **changes))
    assert file.read_bytes() == before and not world.done


def test_without_its_file_the_runs_are_found_again(monkeypatch, tmp_path):
    path = fake_runs.write_task(tmp_path)
    worlds = [fake_runs.World(), fake_runs.World()]
    for world in worlds:
        fake_runs.put_in(monkeypatch, world)
        run(fake_runs.settings_of(path, tmp_path / "out", budget="60s"))
        os.remove(tmp_path / "out" / ".search" / "search.json")
    assert not {*worlds[0].done} & {*worlds[1].done}


def test_a_start_that_has_work_counts_and_repeating_the_answer_is_free(
    searched, world, tmp_path
):
    out = shutil.copytree(searched.out, tmp_path / "out")
    file = out / ".search" / "search.json"
    spent = json.loads(file.read_text())["spent"]
    run(fake_runs.settings_of(searched.path, out, budget="12m"))
    assert json.loads(file.read_text())["spent"] == spent
    run(fake_runs.settings_of(searched.path, out, budget="30m"))
    assert json.loads(file.read_text())["spent"] > spent and world.done


def test_labels_that_the_folds_contradict_are_listed(searched):
    rows = (searched.out / "suspects.csv").read_text().splitlines()
    assert rows[0].startswith("file,line,text,label,answer")
    assert len(rows) > 10
    page = (searched.out / "search.html").read_text()
    assert "Labels to check" in page and "Sure answers" in page
