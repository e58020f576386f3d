"""What a search does next, on made-up tasks and by a made-up clock."""

import pytest

from benchmarks import search_contestants, search_regret, search_world
from tests.searches import made_up
from tf_transfer.searches import (
    costs as costs_lib,
    gains,
    planner as planner_lib,
    space as space_lib,
)
from tf_transfer.searches.space import Choice
from tf_transfer.sweeps.estimate import Work

# An operation takes a second.
WORKS = {
    "last_0": Work((0.1,), 20.0, "cut 6", "all", updates=100),
    "last_1": Work((2.0,), 18.0, "cut 5", "all", updates=100),
    "last_2": Work((8.0,), 14.0, "cut 4", "all", updates=100),
    "fine_tuning": Work((50.0,), updates=100),
}
USUAL = {"0": 1e-3, "1": 2e-4, "2": 2e-4, "all": 5e-5}


def make_planner(budget=600.0, max_epochs=8, works=WORKS):
    layers = ["0", "1", "2", "all"]
    space = space_lib.make_space(layers, 6, lambda word, _: USUAL[word], {})
    return planner_lib.Planner(
        space,
        costs_lib.Costs(works, 1.0),
        planner_lib.Options(budget, max_epochs),
        noise=0.5,
        floor=55.0,
    )


# === What may be tried ===


def test_rates_are_one_two_and_five_times_a_power_of_ten():
    assert space_lib.rates_around(5e-5) == (1e-5, 2e-5, 5e-5, 1e-4, 2e-4)
    assert space_lib.rates_around(1e-3) == (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)


def test_trained_blocks_double_up_to_everything():
    assert space_lib.numbers_of_blocks(6) == ["0", "1", "2", "4", "all"]
    assert space_lib.numbers_of_blocks(1) == ["0", "all"]


def test_what_else_is_varied_multiplies_the_approaches():
    def usual_rate(layers, others):
        return None if layers == "0" and others["method"] == "lora" else 1e-4

    space = space_lib.make_space(
        ["0", "all"],
        6,
        usual_rate,
        {"method": ["full", "lora"]},
        {"method": "full"},
    )
    names = [approach.name for approach in space]
    assert names == ["last_0", "fine_tuning", "fine_tuning, method=lora"]
    assert ("method", "lora") in space[2].flags
    assert [approach.variant for approach in space] == [0, 0, 1]


# === Rates ===


def test_a_new_approach_begins_at_the_rate_that_suits_others():
    planner = make_planner(budget=1e4)
    first = {}
    for action in planner.explorations(1e4):
        first.setdefault(action.choice.approach, action.choice.rate)
    assert set(first.values()) == {2}  # the usual one of each
    for rate, score in enumerate((60.0, 64.0, 68.0, 72.0, 76.0)):
        planner.tell(Choice("last_1", rate), [score] * 8, [2.0] * 8)
    first = {}
    for action in planner.explorations(1e4):
        first.setdefault(action.choice.approach, action.choice.rate)
    assert first["last_2"] == 4
    assert "last_1" not in first  # all its rates have run


# === Costs ===


def test_a_deeper_cache_costs_what_it_takes_beyond_the_one_there_is():
    costs = costs_lib.Costs(WORKS, 1.0)
    assert costs.build_seconds("last_1") == 18.0
    costs.tell("last_2", [8.0, 8.0], build_seconds=14.0)
    assert costs.build_seconds("last_2") == 0.0
    assert costs.build_seconds("last_1") == pytest.approx(4.0)
    assert costs.build_seconds("fine_tuning") == 0.0


def test_a_cache_is_built_with_those_that_it_goes_on_from():
    costs = costs_lib.Costs(WORKS, 1.0)
    costs.tell("last_1", [2.0], build_seconds=18.0)
    assert costs.build_seconds("last_2") == 0.0
    assert costs.build_seconds("last_0") == pytest.approx(2.0)


def test_the_last_run_measures_the_speed():
    costs = costs_lib.Costs(WORKS, 1.0)
    assert costs.epoch_seconds("fine_tuning") == 50.0
    costs.tell("last_2", [20.0, 16.0, 16.0], 7.0, seconds=7 + 52 + 5)
    assert costs.epoch_seconds("last_2") == 16.0
    assert costs.epoch_seconds("fine_tuning") == pytest.approx(100.0)
    assert costs.build_seconds("last_1") == pytest.approx(2.0)  # half of it
    costs.tell("last_1", [6.0])
    assert costs.epoch_seconds("fine_tuning") == pytest.approx(150.0)
    assert costs.epoch_seconds("last_2") == 16.0  # as measured itself


def test_seconds_beside_epochs_are_those_of_its_last_run_or_the_most():
    costs = costs_lib.Costs(WORKS, 1.0)
    assert costs.overhead_seconds("last_1") == costs_lib.START_SECONDS
    costs.tell("last_2", [20.0, 16.0, 16.0], 14.0, seconds=14 + 52 + 5)
    assert costs.overhead_seconds("fine_tuning") == pytest.approx(9.0)
    assert costs.seconds("last_2", 4) == pytest.approx(4 * 16.0 + 9.0)
    costs.tell("last_2", [16.0], seconds=18.0)
    assert costs.seconds("last_2", 4) == pytest.approx(4 * 16.0 + 2.0)


def test_what_runs_no_block_measures_no_speed():
    works = {**WORKS, "last_0": Work((0.0,), 20.0, "c", "all")}
    costs = costs_lib.Costs(works, 1.0)
    costs.tell("last_0", [3.0], build_seconds=20.0)
    assert costs.epoch_seconds("last_0") == 3.0
    assert costs.epoch_seconds("last_1") == 2.0


def test_a_cache_that_was_there_says_nothing_of_what_others_take():
    costs = costs_lib.Costs(WORKS, 1.0)
    costs.tell("last_2", [8.0], build_seconds=0.0)
    assert costs.build_seconds("last_1") == pytest.approx(4.0)


# === Expected gains ===


def test_gains_count_from_the_best_baseline_where_no_run_reaches_it():
    point = gains.Point(1.0, 0.0, 100)
    low = gains.Expectation([point], [40.0], noise=0.5, floor=50.0)
    assert low.best == 50.0
    high = gains.Expectation([point], [60.0], noise=0.5, floor=50.0)
    assert high.best > 55.0


def test_the_longer_and_the_less_known_may_gain_more():
    point = gains.Point(depth=1.0, rate=0, updates=30)
    expected = gains.Expectation([point], [70.0], noise=0.5, floor=50.0)
    assert expected.best == pytest.approx(70.0, abs=0.3)
    again, longer, other = expected.gains(
        [
            point,
            gains.Point(depth=1.0, rate=0, updates=120),
            gains.Point(depth=3.0, rate=0, updates=120),
        ]
    )
    assert again < longer < other


def test_a_rate_that_diverged_is_no_reason_to_try_the_next_one():
    points = [gains.Point(2.0, rate, 400) for rate in (0, 1)]
    expected = gains.Expectation(points, [80.0, 50.0], 0.5, 50.0)
    lower, higher = expected.gains(
        [gains.Point(2.0, -1, 400), gains.Point(2.0, 2, 400)]
    )
    assert lower > 5 * higher


def test_what_few_updates_bring_says_little_of_what_more_will():
    few = gains.Point(2.0, 0, 30)
    many = gains.Point(2.0, 0, 3000)
    low = {}
    for seen in (few, many):
        expected = gains.Expectation([seen], [40.0], 0.5, 50.0)
        _, [deviation] = expected.predict([gains.Point(2.0, 0, 6000)])
        low[seen] = deviation
    assert low[few] > 3 * low[many]


# === What is next ===


def test_a_run_that_would_not_end_in_time_is_not_begun():
    planner = make_planner()
    assert planner.next(3.0) is None
    _, seconds = planner.least_seconds()
    assert seconds == min(
        planner.costs.seconds(other, 1) for other in planner.space
    )
    action = planner.next(1.2 * seconds)
    assert action.seconds <= 1.2 * seconds and action.epochs == 1


@pytest.mark.parametrize(
    "seconds, name",
    [(300.0, "fine_tuning"), (70.0, "last_2"), (35.0, "last_1")],
)
def test_the_first_run_trains_as_many_blocks_as_fit(seconds, name):
    """At the usual rate, for the usual epochs."""
    planner = make_planner(budget=1e4)
    action = planner.next(seconds)
    assert action.choice == Choice(name, 2) and action.epochs == 4
    assert action.seconds <= seconds


def test_everything_is_trained_as_soon_as_it_fits():
    planner = make_planner(budget=1e4)
    planner.tell(Choice("last_2", 2), [60.0] * 4, [8.0] * 4)
    assert planner.next(1000.0).choice == Choice("fine_tuning", 2)


def test_a_first_run_may_just_fit_and_others_have_a_margin():
    planner = make_planner()
    name, seconds = planner.least_seconds()
    assert planner.next(1.01 * seconds) is not None
    assert planner.next(0.99 * seconds) is None
    planner.tell(Choice("fine_tuning", 2), [60.0], [50.0])
    planner.options = planner_lib.Options(0.0, 8)  # nothing for the end
    seconds = planner.costs.seconds(name, 1)
    margin = planner_lib.MARGIN_UNMEASURED
    for factor, fits in ((1.01, False), (1.01 * margin, True)):
        action = planner.next(factor * seconds)
        assert (action is not None and action.choice.approach == name) == fits


def test_what_is_left_of_the_time_shortens_a_continuation():
    planner = make_planner(budget=1e5)
    for name in ("last_0", "last_1", "last_2"):
        for rate in range(5):
            planner.tell(Choice(name, rate), [60.0] * 8, [0.1] * 8)
    for rate in range(5):
        if rate != 2:
            planner.fail(Choice("fine_tuning", rate))
    planner.tell(Choice("fine_tuning", 2), [70, 75, 80, 82], [50.0] * 4)
    planner.options = planner_lib.Options(0.0, 8)  # nothing for the end
    action = planner.next(180.0)
    assert action.choice == Choice("fine_tuning", 2)
    assert action.epochs == 7  # of 8: four more would take 200 s


def test_what_failed_is_not_tried_again():
    planner = make_planner()
    first = planner.next(500.0)
    planner.fail(first.choice)
    assert planner.next(500.0).choice != first.choice


def test_what_may_gain_more_than_noise_comes_before_other_seeds():
    planner = make_planner(budget=100.0)
    planner.tell(Choice("last_1", 2), [70.0], [2.0])
    kept = planner._reserved_seconds()
    room = kept + 2.0  # what is cheapest to explore takes more than 2 s
    action = planner.next(room)
    assert action.gain > planner.noise
    assert planner._takes(action) > room - kept
    planner.noise = 100.0
    assert not planner.next(room).gain  # it confirms


def test_a_run_is_not_weighed_by_epochs_that_there_is_no_time_for():
    planner = make_planner(budget=1e5)
    for action in planner.explorations(70.0):
        seconds = planner.costs.seconds(action.choice.approach, action.aim)
        assert seconds <= 70.0 or action.aim == 1
    aims = {a.choice.approach: a.aim for a in planner.explorations(1e4)}
    assert max(aims.values()) > 1


def test_with_little_time_the_cheap_comes_first():
    little, much = (
        make_planner(budget=left).next(left).choice.approach
        for left in (100.0, 1e5)
    )
    assert little != "fine_tuning" and much == "fine_tuning"


def test_what_takes_long_is_done_rung_by_rung():
    planner = make_planner(budget=1e5)
    for left in (50.0, 150.0, 600.0, 1e4):
        steps = planner.explorations(left)
        for action in steps:
            assert action.epochs <= action.aim
            at_once = planner_lib.AT_ONCE * left
            assert action.epochs == 1 or action.seconds <= at_once
    assert any(action.epochs == action.aim > 1 for action in steps)


def test_a_confirmation_that_fails_says_nothing_of_its_rate():
    planner = make_planner(budget=1000.0)
    for name in ("last_1", "last_2"):
        for rate in range(5):
            planner.tell(Choice(name, rate), [70.0] * 8, [1.0] * 8)
    for name in ("last_0", "fine_tuning"):
        for rate in range(5):
            planner.fail(Choice(name, rate))
    before = planner.rank_settings()
    falling = planner.next(500.0).choice
    assert falling.linear_epochs
    planner.fail(falling)
    assert planner.rank_settings() == before
    following = planner.next(500.0).choice
    assert following.seed == 1 and not following.linear_epochs


def test_the_expected_gain_names_the_epochs_that_it_takes():
    [action, *_] = make_planner(budget=1e4).explorations(9000.0)
    assert action.gain > 0 and action.epochs <= action.aim <= 8


def test_several_workers_do_not_do_the_same_nor_build_one_cache_twice():
    planner = make_planner()
    busy = []
    while (action := planner.next(500.0, busy)) is not None:
        busy.append(action.choice)
    assert len(set(busy)) == len(busy)
    caches = [WORKS[choice.approach].cache for choice in busy]
    caches = [cache for cache in caches if cache]
    assert len(set(caches)) == len(caches)


def test_the_end_trains_the_best_with_a_falling_rate_and_other_seeds():
    planner = make_planner(budget=1000.0)
    scores = {"last_0": 70.0, "last_1": 74.0, "last_2": 75.0}
    for name, score in scores.items():
        for rate in range(5):
            planner.tell(
                Choice(name, rate), [score - abs(rate - 2)] * 8, [1.0] * 8
            )
    for rate in range(5):
        planner.fail(Choice("fine_tuning", rate))
    best = Choice("last_2", 2)
    first = planner.next(500.0)
    assert first.choice == Choice("last_2", 2, linear_epochs=8)
    planner.tell(first.choice, [74.0] * 8, [1.0] * 8)
    for expected in (
        Choice("last_2", 2, seed=1),
        Choice("last_1", 2, seed=1),
        Choice("last_2", 2, seed=2),
    ):
        action = planner.next(500.0)
        assert action.choice == expected and action.epochs == 8
        planner.tell(action.choice, [73.0] * 8, [1.0] * 8)
    assert planner.rank_settings()[0].choice.approach == "last_2"
    [found] = [one for one in planner.rank_settings() if one.choice == best]
    assert found.scores == (75.0, 73.0, 73.0)


def test_a_falling_rate_is_kept_if_it_is_better_on_validation():
    planner = make_planner()
    planner.tell(Choice("last_2", 2), [70.0, 75.0], [1.0, 1.0])
    falling = Choice("last_2", 2, linear_epochs=2)
    planner.tell(falling, [70.0, 76.0], [1.0, 1.0])
    assert planner.rank_settings()[0].choice == falling


def test_one_lucky_run_does_not_win_against_the_mean_of_several():
    planner = make_planner()
    for seed in range(4):
        planner.tell(Choice("last_1", 2, seed), [75.0], [1.0])
    planner.tell(Choice("last_2", 2), [75.2], [1.0])
    assert planner.rank_settings()[0].choice.approach == "last_1"


# === Whole searches, replayed ===


@pytest.fixture(scope="module")
def record():
    return made_up.make_record()


def replay(record, share):
    whole = search_world.grid_seconds(record)
    world = search_world.World(record, share * whole)
    search_contestants.search(world, 0)
    regrets = search_regret.regret_at(
        world.events, world.budget, record, world.answers
    )
    return world, regrets[0]


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_a_search_never_takes_more_than_its_budget(share, record, monkeypatch):
    asked = []

    def note(planner, seconds_left, busy=()):
        action = next_of(planner, seconds_left, busy)
        if action is not None and planner.curves:
            asked.append((action.seconds, seconds_left))
        return action

    next_of = planner_lib.Planner.next
    monkeypatch.setattr(planner_lib.Planner, "next", note)
    world, _ = replay(record, share)
    assert world.left > -1e-6
    assert all(seconds <= left for seconds, left in asked)


def test_a_tenth_of_the_grids_time_comes_near_its_best(record):
    _, regret = replay(record, 0.1)
    assert regret < 1.5
    _, longer = replay(record, 0.25)
    assert longer < 0.5


def test_the_same_records_give_the_same_search(record):
    first, second = (replay(record, 0.05)[0] for _ in range(2))
    assert first.events == second.events


def test_test_scores_decide_nothing(record):
    changed = {
        **record,
        "runs": [{**run, "test": [0.0] * 8} for run in record["runs"]],
    }
    events = [replay(some, 0.1)[0].events for some in (record, changed)]
    seen = [[event[:2] for event in some] for some in events]
    assert seen[0] == seen[1]
