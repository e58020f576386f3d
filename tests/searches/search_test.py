"""A search up to its answer, and the next one; workers that train nothing."""

import json
import os
import pathlib
import re
import shlex
import shutil
import types

import pytest

from tests.searches import fake_runs
from tests.searches.fake_runs import run
from tf_transfer import experiment, train
from tf_transfer.config import command_line
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
        run(fake_runs.settings_of(path, folder / "out"))
    return types.SimpleNamespace(
        world=world,
        path=path,
        out=folder / "out",
        answer=said[-1].strip().splitlines(),
    )


# === What it does ===


def test_it_keeps_its_budget(searched):
    assert 180 < searched.world.now <= 360


def test_runs_are_extended_and_never_begun_again(searched):
    by_run = {}
    for *name, epochs in searched.world.done:
        by_run.setdefault(tuple(name), []).append(epochs)
    for epochs in by_run.values():
        assert epochs == sorted({*epochs})


def test_the_pass_of_the_probe_measures_the_speed(world, tmp_path, monkeypatch):
    world.pass_seconds = 3 * fake_runs.PASS_SECONDS
    path = fake_runs.write_task(tmp_path)
    made = controller.Search(fake_runs.settings_of(path, tmp_path / "out"), 0.0)
    monkeypatch.setattr(made, "_climb", lambda: None)
    made.run()
    measured = [*map(made.ladder.costs.epoch_seconds, made.ladder.approaches)]
    names = ("last_1", "last_2", "fine_tuning")
    assert measured == [3 * fake_runs.SECONDS[name] for name in names]


def test_a_dry_run_does_nothing_but_list_the_rungs(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    made = controller.Search(fake_runs.settings_of(path, tmp_path / "out"), 0.0)
    text = made.describe_rungs()
    for word in (
        "the probe: about",
        "first",
        "around",
        "seeds",
        "last 1",
        "everything",
    ):
        assert word in text
    *_, last = text.splitlines()[:-1]
    assert re.fullmatch(r"\w+ +\D*\d? +\S+ +\d+ +\d+.*", last)
    assert not world.done and not (tmp_path / "out").exists()


def test_a_dry_run_knows_the_time_that_is_spent(searched):
    settings = fake_runs.settings_of(searched.path, searched.out, budget="20s")
    made = controller.Search(settings, 0.0)
    assert made.clock() > 20.0
    assert "first" not in made.describe_rungs()


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
    assert said.count("last 1 at 0.0002: failed") == 1
    assert "news: Train" in said


def test_the_test_is_scored_once_of_the_answer(searched):
    [tested] = searched.world.tested
    [result] = [
        json.loads(path.read_text())
        for path in searched.out.glob("train/**/result.json")
        if "scores_test" not in path.read_text()
        and not {"tfidf", "probe"} & {*path.parts}
    ]
    assert result["approach"] == tested and result["test"]


@pytest.mark.slow  # trains whole runs
@pytest.mark.parametrize("loss, is_answer", [(0.9, True), (1.1, False)])
def test_the_answer_is_trained_once_more_on_all_texts(
    world, monkeypatch, tmp_path, capsys, loss, is_answer
):
    """It is the answer unless its training loss is worse."""
    monkeypatch.setattr(fake_runs, "REFIT_LOSS", loss)
    path = fake_runs.write_task(tmp_path)
    changes = {"approaches": "1", "max_epochs": 2, "budget": "1h"}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    said = capsys.readouterr().out
    assert ("was then fitted once more" in said) == is_answer, said
    *_, predict = re.findall(r"predict --run=(\S+)", said)
    config = json.loads((pathlib.Path(predict) / "config.json").read_text())
    assert config["settings"]["refit"] == is_answer
    [again] = re.findall(r"Train it again: (.*)", said)
    assert ("--refit" in again) == is_answer


def test_without_a_test_the_answer_is_trained_on_all_texts(
    world, tmp_path, capsys
):
    path = fake_runs.write_task(tmp_path, test=None)
    changes = {"approaches": "1", "max_epochs": 2, "budget": "1h"}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    said = capsys.readouterr().out
    assert "was then fitted once more" in said
    assert "The task has no test." in said
    assert "Errors of last 1 on validation." in said
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
        assert ("was then fitted once more" in said) == refit


def test_a_trained_answer_is_scored_where_no_baseline_is_fitted(
    world, tmp_path, capsys
):
    world.breaks = ("probe", "tfidf")
    path = fake_runs.write_task(tmp_path)
    changes = {"approaches": "1", "refit": False}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    assert world.tested == ["last_1"]
    assert "Test not scored" not in capsys.readouterr().out


def test_a_gain_is_that_of_the_mean_over_seeds(
    world, monkeypatch, tmp_path, capsys
):
    """One seed is lucky; it predicts, and its luck is in no gain."""

    def score(settings, epoch):
        lucky = settings.trains and settings.seed == 2
        return (60.0 + 25 * lucky - 15 * settings.is_probe) / 100

    monkeypatch.setattr(fake_runs, "score_of", score)
    path = fake_runs.write_task(tmp_path, count=900, noise=0.9)
    changes = {"approaches": "1", "refit": False, "budget": "1h"}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    said = capsys.readouterr().out
    [sentence] = re.findall(r"^news: (.*)", said, re.M)[-1:]
    [seeds] = map(int, re.findall(r"(\d+) seeds", sentence))
    assert seeds > 2
    gain = float(re.search(r"\+([\d.]+) \(", sentence)[1])
    assert gain == pytest.approx(15 + 25 / seeds, abs=0.7), sentence
    [row] = re.findall(r"^last 1  .*", said, re.M)
    assert float(row.split()[2]) == pytest.approx(60 + 25 / seeds, abs=0.7)


def test_few_texts_are_compared_by_folds(world, tmp_path, capsys):
    path, answers = fake_runs.write_task(tmp_path, count=300), []
    for _ in range(2):
        run(fake_runs.settings_of(path, tmp_path / "out", approaches="1"))
        answers.append(capsys.readouterr().out.split("\nnews: ")[-1])
    assert answers[0] == answers[1]
    folds = {
        json.loads(file.read_text())["settings"]["fold"]
        for file in (tmp_path / "out").glob("train/news/*/*/config.json")
        if "last_1" in str(file)
    }
    assert folds == {0, 1, 2, 3, 4}
    for name in ("probe", "tfidf"):
        runs = (tmp_path / "out" / "train" / "news" / name).iterdir()
        assert len([*runs]) == 5
    assert "over folds" in (tmp_path / "out" / "search.html").read_text()
    # The sentence has the difference of the table.
    sentence, *rows = answers[0].splitlines()
    assert "5 folds of 24 validation texts" in sentence
    [probe] = [row for row in rows if row.startswith("the probe")]
    gain = re.search(r"\+([\d.]+ \(\+[\d.]+ to \+[\d.]+\))", sentence)[1]
    value, low, high = re.findall(r"[\d.]+", gain)
    assert f"-{value} (-{high} to -{low})" in probe, (sentence, probe)


def test_where_many_texts_are_cut_their_ends_are_tried(world, tmp_path, capsys):
    world.cut_texts = 0.4
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", approaches="1"))
    said = capsys.readouterr().out
    assert "last 1, head_tail at 0.0002" in said
    assert "40 % of the training texts are longer than --max_length=256" in said


# === The answer ===


def test_the_answer_has_a_sentence_a_table_and_commands(searched):
    text = "\n".join(searched.answer)
    for words in (
        "news: Train everything",
        "the TF-IDF baseline ",
        "the probe ",
        "With more time: ",
        "Tried: ",
        "Train it again: python -m tf_transfer.train ",
        "To predict: python -m tf_transfer.predict --run=",
        str(searched.out / "search.html"),
    ):
        assert words in text, words


def test_the_command_of_the_answer_finds_its_run(searched):
    [line] = [x for x in searched.answer if x.startswith("Train it again")]
    words = shlex.split(line.partition(": ")[2])[3:]
    settings = command_line.parse(train.Settings, words)
    run = train.Train(settings)
    found = run.find_finished(run.find_run())
    [predict] = [x for x in searched.answer if x.startswith("To predict")]
    assert f"--run={found.directory} " in predict


def test_the_same_command_again_repeats_the_answer(searched, world, capsys):
    run(fake_runs.settings_of(searched.path, searched.out))
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
    (moved / run_paths.ANSWER).write_text('{"lines": [], "run": ""}')
    with pytest.raises(UserError, match="a search without a finished run"):
        experiment.open_run(str(moved))
    (moved / run_paths.ANSWER).write_text("{")
    with pytest.raises(UserError, match="answer.json"):
        experiment.open_run(str(moved))
    (moved / run_paths.ANSWER).unlink()
    with pytest.raises(UserError, match="or of a search that has answered"):
        experiment.open_run(str(moved))


def test_a_cheaper_answer_may_lose_some_points(searched, world, capsys):
    run(fake_runs.settings_of(searched.path, searched.out, max_loss=30.0))
    said = capsys.readouterr().out
    assert re.search(r"\nlast 1 at 0.0002, 4 epochs", said)


def test_tfidf_is_the_answer_where_it_scores_more(world, tmp_path, capsys):
    path = fake_runs.write_task(tmp_path, noise=0.0)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="2m"))
    answer = capsys.readouterr().out.strip().split("\n\n")[-1].splitlines()
    assert answer[0].startswith("news: Use the TF-IDF baseline: ")
    assert any(x.startswith("The best trained setting: ") for x in answer)
    assert not world.tested
    # It is fitted again, to the validation texts too.
    assert any("was then fitted once more" in line for line in answer)
    [again] = [x for x in answer if x.startswith("Train it again: ")]
    assert "--features=tfidf" in again and "--refit" in again
    *_, predict = re.findall(r"predict --run=(\S+)", "\n".join(answer))
    sizes = json.loads((pathlib.Path(predict) / "config.json").read_text())
    assert (
        sizes["settings"]["refit"] and sizes["settings"]["features"] == "tfidf"
    )


def test_a_baseline_is_not_fitted_again_without_time_or_refit(
    monkeypatch, tmp_path, capsys
):
    for number, changes in enumerate(({"refit": False}, {"budget": "10s"})):
        world = fake_runs.World()
        fake_runs.put_in(monkeypatch, world)
        path = fake_runs.write_task(tmp_path, noise=0.0)
        out = tmp_path / str(number)
        run(fake_runs.settings_of(path, out, **{"budget": "2m", **changes}))
        said = capsys.readouterr().out
        assert "Use the TF-IDF baseline" in said and "once more" not in said
        assert len([*(out / "train/news/tfidf").iterdir()]) == 1


def test_a_contrastive_run_scores_as_its_last_epoch(world, tmp_path):
    path = fake_runs.write_task(tmp_path, count=60)
    settings = fake_runs.settings_of(
        path, tmp_path / "out", validation_fraction=0.4
    )
    made = controller.Search(settings, 0.0)
    made.run()
    curves = {c.approach: v for c, v in made.ladder.curves.items()}
    assert len({*curves["last 2 contrastive"]}) == 1
    assert len({*curves["last 2"]}) > 1


def test_what_had_no_time_is_named_next_to_the_answer(world, tmp_path, capsys):
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="25s"))
    said = capsys.readouterr().out
    assert "enough for last 1 alone: last 2, everything did not fit" in said


# === Going on ===


def test_a_larger_budget_goes_on(monkeypatch, tmp_path):
    path = fake_runs.write_task(tmp_path, count=700)
    worlds = []
    for budget in ("60s", "4m"):
        world = fake_runs.World()
        fake_runs.put_in(monkeypatch, world)
        run(fake_runs.settings_of(path, tmp_path / "out", budget=budget))
        worlds.append(world)
    assert 30 < worlds[0].now <= 60
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
    run(fake_runs.settings_of(searched.path, out))
    assert json.loads(file.read_text())["spent"] == spent
    run(fake_runs.settings_of(searched.path, out, budget="20m"))
    assert json.loads(file.read_text())["spent"] > spent and world.done
