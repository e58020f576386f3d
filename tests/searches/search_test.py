"""A search from its flags to its answer; workers that train nothing."""

import collections
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import time
import types

import pytest

from tests.searches import fake_runs
from tf_transfer import search as command, train
from tf_transfer.config import command_line
from tf_transfer.searches import (
    history as history_lib,
    plan,
    runner as runner_lib,
    search,
)
from tf_transfer.utils.errors import Interrupted, UserError


def run(settings):
    search.Search(settings, 0.0).run()


@pytest.fixture
def world(monkeypatch):
    made = fake_runs.World()
    fake_runs.put_in(monkeypatch, made)
    return made


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search of six minutes: what it said, did, and left."""
    folder = tmp_path_factory.mktemp("search")
    path = fake_runs.write_task(folder)
    world, said = fake_runs.World(), []
    with pytest.MonkeyPatch.context() as patch:
        fake_runs.put_in(patch, world)
        patch.setattr("builtins.print", lambda *a, **k: said.append(a[0]))
        run(fake_runs.settings_of(path, folder / "out"))
    return types.SimpleNamespace(
        path=path,
        out=folder / "out",
        world=world,
        said="\n".join(said),
        answer=said[-1].strip().splitlines(),
    )


# === Flags ===


@pytest.mark.parametrize(
    "text, seconds",
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400)],
)
def test_a_budget_has_a_unit(text, seconds):
    assert command.parse_budget(text) == seconds


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "give the time"),
        ("30", "in seconds, minutes or hours"),
        ("1:30", "such as 90s"),
        ("0s", "such as 90s"),
        ("-5m", "such as 90s"),
        ("30m2h", "such as 90s"),
        ("5 m", "such as 90s"),
        ("99999999h", "lifetime"),
    ],
)
def test_a_budget_that_could_mean_two_things_is_refused(text, says):
    with pytest.raises(UserError, match=says):
        command.parse_budget(text)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"approaches": "1,1"}, "each once"),
        ({"approaches": "1,top"}, "numbers of last blocks"),
        ({"approaches": "1,"}, "numbers of last blocks"),
        ({"approaches": "0", "method": "lora"}, "acts in the blocks"),
        ({"methods": "full,prefix"}, "no such method"),
        ({"approaches": "4"}, "this encoder has 3 blocks"),
        ({"poolings": "cls,max"}, "max"),
        ({"validation_fraction": 0.02}, "only 5 validation texts"),
    ],
)
def test_what_cannot_be_searched_is_refused_and_nothing_is_written(
    changes, says, world, tmp_path
):
    path = fake_runs.write_task(tmp_path)
    with pytest.raises(UserError, match=says) as error:
        run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    assert len(str(error.value).splitlines()) <= 2
    assert not os.path.exists(tmp_path / "out")


def test_an_address_needs_the_cluster_that_reads_it(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    settings = fake_runs.settings_of(path, tmp_path / "out")
    for engine, is_read in (("local", False), ("ray", True)):
        chosen = dataclasses.replace(settings, engine=engine)
        assert chosen.reads("ray_address") == is_read
        assert ("ray_address" in chosen.unread()) != is_read


# === What it does ===


def test_it_keeps_its_budget(searched):
    assert 180 < searched.world.now <= 360


def test_what_is_better_gets_most_of_the_time(searched):
    spent = collections.Counter()
    for approach, *_, epochs in searched.world.done:
        spent[approach] += epochs * fake_runs.SECONDS[approach]
    assert len(spent) > 1
    assert spent.most_common(1)[0][0] == "fine_tuning"  # the best there is


def test_runs_are_continued_at_a_constant_rate(searched):
    by_run = {}
    for *name, epochs in searched.world.done:
        by_run.setdefault(tuple(name), []).append(epochs)
    assert any(len(epochs) > 1 for epochs in by_run.values())
    for (_, _, _, schedule), epochs in by_run.items():
        assert epochs == sorted(set(epochs))
        assert schedule == "constant" or len(epochs) == 1


def test_the_end_has_a_falling_rate(world, tmp_path):
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="15m"))
    schedules = [schedule for *_, schedule, _ in world.done]
    assert schedules.count("linear") == 1


def test_the_pass_of_the_probe_measures_the_speed(world, tmp_path, monkeypatch):
    world.pass_seconds = 3 * fake_runs.PASS_SECONDS
    measured = []

    class Planner(search.Planner):
        def __init__(self, space, costs, *arguments):
            super().__init__(space, costs, *arguments)
            for name in self.space:
                seconds = costs.epoch_seconds(name)
                measured.append(seconds / fake_runs.SECONDS[name])

    monkeypatch.setattr(search, "Planner", Planner)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out"))
    assert measured == pytest.approx([3.0] * 4)


def test_a_probe_that_takes_too_long_is_stopped_for_training(
    world, tmp_path, capsys
):
    """Nor does it begin what cannot end: a pass takes longer than that."""
    world.probe_seconds = 61.0
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="90s"))
    assert "took longer than expected" in capsys.readouterr().out
    assert not world.done


def test_more_workers_do_several_runs_at_once(monkeypatch, tmp_path):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", jobs=2, budget="2m"))
    assert world.done and len({*world.done}) == len(world.done)


def test_what_fails_is_not_tried_again(monkeypatch, tmp_path, capsys):
    world = fake_runs.World()
    world.breaks = ("last_1",)
    fake_runs.put_in(monkeypatch, world)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="6m"))
    said = capsys.readouterr().out
    assert said.count("last_1 at 0.0002") == 1
    assert "last_1 at 0.0002: failed" in said
    assert "news: Train" in said


def plan_each(folder, **changes):
    """Settings of a run of each approach, by its name."""
    path = fake_runs.write_task(folder)
    settings = fake_runs.settings_of(path, folder / "out", **changes)
    made = search.Search(settings, 0.0)
    return {
        approach.name: made.plan(
            search.Action(search.Choice(approach.name, 0), 1, 0.0),
            None,
        ).settings
        for approach in made.space
    }


def test_the_operations_of_each_approach_are_counted(tmp_path):
    path = fake_runs.write_task(tmp_path)
    settings = fake_runs.settings_of(path, tmp_path / "out")
    made = search.Search(settings, 0.0)
    works = made.works
    names = ["probe", "last_0", "last_1", "last_2", "fine_tuning"]
    assert [*works] == names
    assert made.training == 216 and works["probe"].build > 0
    steps = -(-216 // settings.batch_size)
    assert {works[name].updates for name in names[1:]} == {steps}
    epochs = [works[name].epoch for name in names[1:]]
    assert epochs == sorted(epochs) and epochs[0] == 0
    builds = [works[name].build for name in names[1:]]
    assert builds == sorted(builds, reverse=True) and not builds[-1]


def test_the_first_cache_is_made_with_those_below_it(world, tmp_path):
    planned = plan_each(tmp_path)
    assert {name: run.also_cache for name, run in planned.items()} == {
        "last_0": "1,2",
        "last_1": "2",
        "last_2": "",
        "fine_tuning": "",
    }


def test_options_of_a_varied_method_go_to_its_runs(world, tmp_path):
    planned = plan_each(
        tmp_path, approaches="1", methods="full,lora", lora_rank=4
    )
    ranks = {name: run.lora_rank for name, run in planned.items()}
    assert ranks == {"last_1": 8, "last_1, method=lora": 4}


def test_the_test_is_scored_once_of_the_answer(searched):
    [tested] = searched.world.tested
    assert searched.world.done[-1][0]  # others ran, too
    [result] = [
        json.loads(path.read_text())
        for path in searched.out.glob("train/**/result.json")
        if "scores_test" not in path.read_text()
        and not {"tfidf", "probe"} & {*path.parts}
    ]
    assert result["approach"] == tested and result["test"]


def test_a_test_that_would_take_too_long_is_left_to_the_command(
    monkeypatch, tmp_path, capsys
):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    monkeypatch.setattr(search, "TEST_SHARE", 0.0)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="2m"))
    assert world.done and not world.tested
    assert "Not scored on the test: the first" in capsys.readouterr().out


# === The answer ===


def test_the_answer_has_a_sentence_a_table_and_commands(searched):
    text = "\n".join(searched.answer)
    for words in (
        "news: Train ",
        "the TF-IDF baseline ",
        "the probe ",
        "accuracy on validation ",
        "With more time: ",
        "Tried: ",
        "Train it again: python -m tf_transfer.train ",
        "To predict: python -m tf_transfer.predict --run=",
        str(searched.out / "search.html"),
    ):
        assert words in text, words


def test_the_page_holds_the_answer_and_its_figure(searched):
    page = (searched.out / "search.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert "Train it again" in page and "last 1" in page
    assert "<script src" not in page and "http-equiv" in page


def test_the_command_of_the_answer_finds_its_run(searched):
    [line] = [x for x in searched.answer if x.startswith("Train it again")]
    words = shlex.split(line.partition(": ")[2])[3:]
    settings = command_line.parse(train.Settings, words)
    run = train.Train(settings)
    found = run.find_finished(run.find_run())
    [predict] = [x for x in searched.answer if x.startswith("To predict")]
    assert f"--run={found.directory} " in predict


def test_the_same_command_again_repeats_the_answer(
    searched, monkeypatch, capsys
):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    run(fake_runs.settings_of(searched.path, searched.out))
    assert not world.done and not world.tested
    said = capsys.readouterr().out.strip().splitlines()
    assert said[-len(searched.answer) :] == searched.answer


def test_a_search_that_has_time_left_repeats_its_answer(
    monkeypatch, tmp_path, capsys
):
    """Nothing is left to do: with a failed run, it is not tried again."""
    path = fake_runs.write_task(tmp_path)
    answers = []
    for _ in range(3):
        world = fake_runs.World()
        world.on_run = lambda run: (
            "failed" if run.settings.schedule == "linear" else None
        )
        fake_runs.put_in(monkeypatch, world)
        changes = {"approaches": "0,1", "max_epochs": 2, "budget": "1h"}
        run(fake_runs.settings_of(path, tmp_path / "out", **changes))
        said = capsys.readouterr().out.strip()
        answers.append(said.partition("\nnews: Train")[2])
        assert world.now < 3600 and bool(world.now) == (len(answers) == 1)
    assert answers[0] == answers[1] == answers[2]


def test_a_cheaper_answer_may_lose_some_points(searched, monkeypatch, capsys):
    fake_runs.put_in(monkeypatch, fake_runs.World())
    run(fake_runs.settings_of(searched.path, searched.out, max_loss=30.0))
    said = capsys.readouterr().out
    assert re.search(
        r"\n.* at .* \(the cheapest within 30 points of everything", said
    )
    run(
        fake_runs.settings_of(
            searched.path, searched.out, objective="parameters", max_loss=9.0
        )
    )
    said = capsys.readouterr().out
    assert "(the fewest trained parameters within 9 points" in said


def test_tfidf_is_the_answer_where_it_scores_more(world, tmp_path, capsys):
    path = fake_runs.write_task(tmp_path, noise=0.0)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="2m"))
    answer = capsys.readouterr().out.strip().split("\n\n")[-1].splitlines()
    assert answer[0].startswith("news: Use the TF-IDF baseline: ")
    assert any(x.startswith("The best trained setting: ") for x in answer)
    assert not world.tested


@pytest.mark.parametrize("loss, is_answer", [(0.9, True), (1.1, False)])
def test_the_answer_is_trained_once_more_on_all_texts(
    monkeypatch, tmp_path, capsys, loss, is_answer
):
    """It is the answer unless its training loss is worse."""
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    monkeypatch.setattr(fake_runs, "REFIT_LOSS", loss)
    path = fake_runs.write_task(tmp_path)
    changes = {"approaches": "0,1", "max_epochs": 2, "budget": "1h"}
    run(fake_runs.settings_of(path, tmp_path / "out", **changes))
    said = capsys.readouterr().out
    assert ("was then trained once more" in said) == is_answer, said
    assert len(world.tested) == (1 if is_answer else 2)
    [predict] = re.findall(r"predict --run=(\S+)", said)
    config = json.loads((pathlib.Path(predict) / "config.json").read_text())
    assert config["settings"]["refit"] == is_answer
    assert config["settings"]["select"] == ("last" if is_answer else "best")
    [again] = re.findall(r"Train it again: (.*)", said)
    assert ("--refit" in again) == is_answer


def test_a_fast_answer_may_have_half_of_the_blocks(tmp_path):
    path = fake_runs.write_task(tmp_path)
    settings = fake_runs.settings_of(
        path, tmp_path / "out", objective="seconds_at_prediction"
    )
    names = [approach.name for approach in plan.list_approaches(settings, 4)]
    assert "fine_tuning" in names and "fine_tuning, keep_blocks=2" in names
    assert "last_2, keep_blocks=2" in names and "last_4" not in names
    settings = fake_runs.settings_of(path, tmp_path / "out")
    assert not any("keep" in a.name for a in plan.list_approaches(settings, 4))


# === Going on ===


def test_a_larger_budget_goes_on(monkeypatch, tmp_path):
    path = fake_runs.write_task(tmp_path)
    worlds = []
    for budget in ("60s", "4m"):
        world = fake_runs.World()
        fake_runs.put_in(monkeypatch, world)
        run(fake_runs.settings_of(path, tmp_path / "out", budget=budget))
        worlds.append(world)
    assert 30 < worlds[0].now <= 60
    assert worlds[0].now + worlds[1].now <= 240
    assert not {*worlds[0].done} & {*worlds[1].done}


def test_another_search_in_out_is_refused_and_left_as_it_is(
    searched, world, tmp_path
):
    path = fake_runs.write_task(tmp_path, count=240)
    file = searched.out / ".search" / "search.json"
    before = file.read_bytes()
    with pytest.raises(UserError, match="holds a search with another data_id"):
        run(fake_runs.settings_of(path, searched.out))
    assert file.read_bytes() == before
    assert not world.done


def test_without_its_history_the_runs_are_found_again(
    monkeypatch, tmp_path, capsys
):
    path = fake_runs.write_task(tmp_path)
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    settings = fake_runs.settings_of(path, tmp_path / "out", budget="60s")
    run(settings)
    os.remove(tmp_path / "out" / ".search" / "search.json")
    again = fake_runs.World()
    fake_runs.put_in(monkeypatch, again)
    run(settings)
    first = {done for done in world.done if done[3] == "constant"}
    assert not {done for done in first if not done[2]} & {*again.done}


# === Time ===


def test_what_takes_longer_than_counted_ends_at_an_epoch(monkeypatch, tmp_path):
    world = fake_runs.World(slowness=4.0)
    fake_runs.put_in(monkeypatch, world)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="2m"))
    assert world.now <= 1.05 * 120 + 15
    results = list((tmp_path / "out").glob("train/**/result.json"))
    assert all(json.loads(p.read_text())["epochs_run"] for p in results)


def test_too_small_a_budget_says_what_the_least_is(
    monkeypatch, tmp_path, capsys
):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="8s"))
    said = capsys.readouterr().out
    assert not world.done
    assert "--budget is too small for one epoch of any approach" in said
    assert re.search(r"Give --budget=\d+s\.", said)
    assert "accuracy of the TF-IDF baseline: " in said
    least = re.search(r"Give --budget=(\d+s)\.", said)[1]
    again = fake_runs.World()
    fake_runs.put_in(monkeypatch, again)
    run(fake_runs.settings_of(path, tmp_path / "out", budget=least))
    assert again.done


def test_a_baseline_that_does_not_end_in_time_says_what_to_give(
    monkeypatch, tmp_path, capsys
):
    world = fake_runs.World()
    world.tfidf_seconds = 61.0
    fake_runs.put_in(monkeypatch, world)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="10s"))
    said = capsys.readouterr().out
    assert not world.done
    assert "--budget is too small to fit a baseline" in said
    [least] = re.findall(r"Give --budget=(\w+)\.", said)
    again = fake_runs.World()
    fake_runs.put_in(monkeypatch, again)
    run(fake_runs.settings_of(path, tmp_path / "out", budget=least))
    assert again.done


def test_a_run_that_was_stopped_for_its_time_is_told(
    monkeypatch, tmp_path, capsys
):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)

    def on_run(run):
        raise runner_lib.OutOfTime

    world.on_run = on_run
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="60s"))
    said = capsys.readouterr().out
    assert "no run ended an epoch in time" in said
    assert "Give --budget=2m." in said


def test_ctrl_c_gives_the_answer_so_far(monkeypatch, tmp_path, capsys):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)

    def on_run(run):
        if len(world.done) == 4:
            raise Interrupted("stopped")

    world.on_run = on_run
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out"))
    said = capsys.readouterr().out
    assert "Stopped: the answer so far." in said and "news: Train" in said


def test_a_run_that_fails_while_it_goes_on_is_what_it_was(
    monkeypatch, tmp_path, capsys
):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    continued = []

    def on_run(run):
        path = run.directory.file("result.json")
        if os.path.exists(path) and not continued:
            with open(path, "rb") as file:
                continued.append((path, file.read(), run.settings.approach))
            return "failed"
        return None

    world.on_run = on_run
    path = fake_runs.write_task(tmp_path)
    settings = fake_runs.settings_of(path, tmp_path / "out", budget="3m")
    run(settings)
    [(result, content, approach)] = continued
    with open(result, "rb") as file:
        assert file.read() == content
    assert "failed" in capsys.readouterr().out
    # Nor is it tried again by the next start.
    epochs = json.loads(content)["epochs_run"]
    name = os.path.dirname(result)
    again = fake_runs.World()
    fake_runs.put_in(monkeypatch, again)
    again.on_run = lambda run: tried.append(run.directory.path)
    tried = []
    run(fake_runs.settings_of(path, tmp_path / "out", budget="5m"))
    assert epochs and approach and tried and name not in tried


def test_another_length_is_another_search(searched, world):
    with pytest.raises(UserError, match="a search with another max_length"):
        run(fake_runs.settings_of(searched.path, searched.out, max_length=64))
    assert not world.done


def test_the_clock_writes_what_is_spent_from_the_start_on(
    tmp_path, monkeypatch
):
    """A search may be killed while it does nothing that could write it."""
    monkeypatch.setattr(history_lib, "SAVE_SECONDS", 0.01)
    now = 5.0

    def open_history():
        return history_lib.History(str(tmp_path), {})

    clock = history_lib.Clock(0.0, open_history(), lambda: now)
    assert clock() == 0.0 and not os.listdir(tmp_path)
    clock.start()
    assert open_history().record.spent == 5.0
    now = 9.0
    deadline = time.monotonic() + 30
    while open_history().record.spent < 9.0 and time.monotonic() < deadline:
        time.sleep(0.01)
    clock.stop()
    now = 20.0
    assert clock() == open_history().record.spent == 9.0
    clock = history_lib.Clock(18.0, open_history(), lambda: now)
    assert clock() == 9.0
    clock.start()
    assert clock() == open_history().record.spent == 11.0
    clock.stop()


@pytest.mark.parametrize("budget, counts", [("8m", True), ("6m", False)])
def test_a_start_that_has_work_counts_at_once(
    searched, world, tmp_path, monkeypatch, budget, counts
):
    """Also while it reads the runs before; repeating the answer is free."""
    out = shutil.copytree(searched.out, tmp_path / "out")
    begun = search.Search(
        fake_runs.settings_of(searched.path, out, budget=budget), 0.0
    )
    seen = []
    monkeypatch.setattr(
        begun, "_work", lambda runner: seen.append(begun.clock._thread.ident)
    )
    begun.run()
    assert [ident is not None for ident in seen] == [counts]


def test_a_damaged_history_says_what_to_do(tmp_path):
    (tmp_path / ".search").mkdir()
    (tmp_path / ".search" / "search.json").write_text('{"key": {}}')
    with pytest.raises(UserError, match="Remove the file") as error:
        history_lib.History(str(tmp_path), {})
    assert len(str(error.value).splitlines()) == 2
