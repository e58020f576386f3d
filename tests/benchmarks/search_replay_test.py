"""Replays of made-up grids, and their regret."""

import pytest

from benchmarks import search_contestants, search_world
from tests.searches import made_up


@pytest.mark.parametrize("name", search_contestants.CONTESTANTS)
def test_no_contestant_takes_more_than_its_budget(name):
    record = made_up.make_record()
    world = search_world.World(record, 150.0)
    search_contestants.CONTESTANTS[name](world, 0)
    assert world.left > -1e-6
    assert world.events


@pytest.mark.parametrize("name", search_contestants.CONTESTANTS)
def test_a_seed_gives_the_same_replay(name):
    record = made_up.make_record()
    worlds = [search_world.World(record, 400.0) for _ in range(2)]
    for world in worlds:
        search_contestants.CONTESTANTS[name](world, 3)
    assert worlds[0].events == worlds[1].events


def test_what_does_not_fit_ends_with_the_budget():
    record = made_up.make_record()
    world = search_world.World(record, 60.0)
    world.build("last_0")  # 20 s, and those below it on the way
    assert world.build("last_2") == 0.0
    spent = world.clock
    assert spent == record["start_seconds"] + 20.0
    assert list(world.train("fine_tuning", 2, 4)) == []  # 60 s an epoch
    assert world.left == pytest.approx(0.0) and not world.events
    assert list(world.train("last_1", 2, 4)) == []


def test_the_grid_builds_each_cache_once_and_trains_everything():
    record = made_up.make_record()
    seconds = sum(sum(r["epoch_seconds"]) for r in record["runs"])
    seconds += sum(r["beside_seconds"] for r in record["runs"])
    builds = [a["build_seconds"] for a in record["approaches"]]
    assert seconds < search_world.grid_seconds(record) <= seconds + sum(builds)


def test_regret_falls_to_nothing_with_the_whole_grid():
    record = made_up.make_record()
    best, _ = search_world.grid_best(record)
    events = [(1.0, best - 2, 0.0), (5.0, best, 0.0)]
    assert search_world.regret_at(events, 2.0, record)[0] == pytest.approx(2.0)
    assert search_world.regret_at(events, 9.0, record)[0] == 0.0
    assert (
        search_world.regret_at(events, 0.5, record)[0] == best - record["floor"]
    )


def test_of_equal_epochs_the_test_chooses_none():
    record = made_up.make_record()
    for number, run in enumerate(record["runs"]):
        run["validation"] = [90.0] * len(run["validation"])
        run["test"] = [80.0 + number] * len(run["test"])
    assert search_world.grid_best(record) == (90.0, 80.0)
    events = [(1.0, 90.0, 70.0), (2.0, 90.0, 95.0)]
    assert search_world.regret_at(events, 3.0, record) == (0.0, 10.0)


def test_what_is_worse_than_tfidf_is_not_the_answer():
    record = made_up.make_record()
    best, on_test = search_world.grid_best(record)
    events = [(1.0, record["floor"] - 5, 99.0)]
    assert search_world.regret_at(events, 2.0, record) == (
        best - record["floor"],
        on_test - record["test_floor"],
    )
    for run in record["runs"]:
        run["validation"] = [record["floor"] - 1] * len(run["validation"])
    assert search_world.regret_at(events, 2.0, record) == (0.0, 0.0)


def test_the_grid_answers_by_the_mean_of_the_settings_with_most_seeds():
    record = made_up.make_record()
    lucky = record["runs"][0]
    lucky["validation"], lucky["test"] = [99.0] * 8, [99.0] * 8
    replayed = record["runs"][7]
    for seed, score in ((0, 90.0), (1, 92.0), (2, 94.0)):
        run = {**replayed, "seed": seed}
        run["validation"] = [score - 1] * 7 + [score]
        run["test"] = [0.0] * 7 + [score - 5]
        if seed:
            record["runs"].append(run)
        else:
            replayed.update(run)
    assert search_world.grid_best(record) == pytest.approx((92.0, 87.0))


def test_a_seed_of_the_grid_is_replayed_and_others_bring_nothing():
    record = made_up.make_record()
    run = next(r for r in record["runs"] if r["approach"] == "last_4")
    record["runs"].append({**run, "seed": 1, "epoch_seconds": [7.0] * 8})
    world = search_world.World(record, 1e6)
    world.build("last_4")
    before = world.clock
    assert len(list(world.train("last_4", run["rate"], 3, 1))) == 3
    assert world.clock == before + run["beside_seconds"] + 21.0
    assert ("last_4", run["rate"], 2) not in world.runs
