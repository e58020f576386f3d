"""The time that a search takes, and what it says where that ends."""

import json
import math
import os
import re
import time

import pytest

from tests.searches import fake_runs
from tests.searches.fake_runs import run
from tf_transfer.searches import clock as clock_lib, controller, race
from tf_transfer.utils.errors import Interrupted, UserError


def test_what_takes_longer_than_counted_is_stopped(
    monkeypatch, tmp_path, capsys
):
    world = fake_runs.World()
    world.slow, world.end = ("last_2",), 125.0
    fake_runs.put_in(monkeypatch, world)
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="2m"))
    assert "and was stopped" in capsys.readouterr().out


def test_the_test_is_scored_even_where_runs_took_all_of_the_time(
    world, tmp_path, monkeypatch
):
    real = controller.Search._race

    def race_too_long(self):
        real(self)
        world.now += 1000

    monkeypatch.setattr(controller.Search, "_race", race_too_long)
    path = fake_runs.write_task(tmp_path, count=700)
    run(fake_runs.settings_of(path, tmp_path / "out"))
    assert len(world.tested) == 1


def test_a_baseline_on_all_texts_is_not_stopped_for_the_test(
    world, tmp_path, monkeypatch
):
    """Its run scores the test as well, which has no time limit."""
    run_one, ends = controller.Search._run_one, []

    def note_end(self, run):
        ends.append(self.end)
        run_one(self, run)

    monkeypatch.setattr(controller.Search, "_run_one", note_end)
    path = fake_runs.write_task(tmp_path, noise=0.0)  # TF-IDF is the answer
    run(fake_runs.settings_of(path, tmp_path / "out", budget="2m"))
    assert ends == [math.inf, math.inf]


def test_too_small_a_budget_leaves_the_floor_and_says_what_runs_take(
    world, tmp_path, capsys
):
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="23s"))
    said = capsys.readouterr().out
    assert not world.done
    assert re.search(r"the time is too short: last 1 \([1-9]\d* s\)", said)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="90s"))
    assert world.done


def test_what_cannot_be_trained_on_all_texts_is_not_the_answer(
    world, tmp_path, monkeypatch, capsys
):
    """Everything leads, and is known to take longer only after it has run."""
    monkeypatch.setitem(fake_runs.TOPS, "fine_tuning", 92.0)
    too_long = race.Race.list_too_long
    monkeypatch.setattr(
        race.Race,
        "list_too_long",
        lambda *args: {"everything", *too_long(*args)},
    )
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out"))
    said = capsys.readouterr().out
    assert any(one[0] == "fine_tuning" for one in world.done)
    assert "news: last 2" in said and "It was trained once more, on" in said
    tested = world.tested[:]
    monkeypatch.setattr(race.Race, "list_too_long", too_long)
    run(fake_runs.settings_of(path, tmp_path / "out"))
    assert "news: last 2" in capsys.readouterr().out  # the answer is repeated
    assert world.tested == tested


def test_a_baseline_that_does_not_end_in_time_is_named(world, tmp_path, capsys):
    world.tfidf_seconds = 61.0
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="10s"))
    said = capsys.readouterr().out
    assert not world.done
    assert "--budget is too small to fit a baseline. Give a larger one" in said


def test_a_probe_that_does_not_end_in_time_leaves_tfidf(
    world, tmp_path, capsys
):
    world.probe_seconds = 91.0
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out", budget="90s"))
    said = capsys.readouterr().out
    assert "took longer than expected" in said
    assert "Use the TF-IDF baseline" in said and not world.done


def test_ctrl_c_gives_the_answer_so_far(world, tmp_path, capsys):
    def on_run(run):
        if len(world.done) == 2:
            raise Interrupted("stopped")

    world.on_run = on_run
    path = fake_runs.write_task(tmp_path)
    run(fake_runs.settings_of(path, tmp_path / "out"))
    said = capsys.readouterr().out
    assert (
        "Stopped: the answer so far." in said and "news: everything has" in said
    )


def test_the_clock_writes_what_is_spent_from_the_start_on(
    tmp_path, monkeypatch
):
    """A search may be killed while it does nothing that could write it."""
    monkeypatch.setattr(clock_lib, "SAVE_SECONDS", 0.01)
    now = 5.0

    def open_clock(began=0.0):
        return clock_lib.Clock(str(tmp_path), {}, began, lambda: now)

    clock = open_clock()
    assert clock() == 0.0 and not os.listdir(tmp_path)
    clock.start()
    assert open_clock()() == 5.0
    now = 9.0
    deadline = time.monotonic() + 30
    while open_clock()() < 9.0 and time.monotonic() < deadline:
        time.sleep(0.01)
    clock.stop()
    now = 20.0
    assert clock() == open_clock()() == 9.0
    clock = open_clock(18.0)
    assert clock() == 9.0
    clock.start()
    assert clock() == open_clock()() == 11.0
    clock.stop()


def test_a_damaged_file_says_what_to_do(tmp_path):
    (tmp_path / ".search").mkdir()
    (tmp_path / ".search" / "search.json").write_text('{"key": {}}')
    with pytest.raises(UserError, match="Remove the file") as error:
        clock_lib.Clock(str(tmp_path), {}, 0.0)
    assert len(str(error.value).splitlines()) == 2


class Killed(BaseException):
    """Ends a process in the middle of a run."""


@pytest.mark.slow
def test_a_search_that_is_killed_in_every_run_ends_with_the_same_answer(
    monkeypatch, tmp_path
):
    path, found = fake_runs.write_task(tmp_path), []
    for name in ("whole", "killed"):
        world, begun = fake_runs.World(), set()
        fake_runs.put_in(monkeypatch, world)

        def kill_once(run, begun=begun):
            if run.name not in begun:
                begun.add(run.name)
                raise Killed

        if name == "killed":
            world.on_run = kill_once
        settings = fake_runs.settings_of(
            path, tmp_path / name, budget="20h", max_epochs=None
        )
        for _ in range(200):
            try:
                run(settings)
            except Killed:
                continue
            break
        answer = json.loads(
            (tmp_path / name / ".search" / "answer.json").read_text()
        )
        found.append((sorted(world.done), world.tested, answer["table"]))
        if name == "killed":
            assert len(begun) > 20
    (done, tested, table), killed = found
    assert killed[:2] == (done, tested)
    # Rounding orders rows of equal scores, so their names have no order.
    rows, again = (
        [(row["validation"], row["approach"]) for row in rows]
        for rows in (table, killed[2])
    )
    assert [score for score, _ in again] == [score for score, _ in rows]
    assert sorted(again) == sorted(rows)
