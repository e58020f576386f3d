"""The ladder of a search: its rungs, its costs and its choice."""

import dataclasses

import pytest

from tf_transfer.searches import ladder as ladder_lib
from tf_transfer.searches.ladder import Approach, Choice, Costs, Ladder
from tf_transfer.sweeps.estimate import Work

EPOCHS = 4
# Operations of an epoch; an operation takes a second.
OPERATIONS = {"last_1": 1.0, "last_2": 5.0, "last_4": 15.0, "fine_tuning": 30.0}
TOPS = {"last_1": 75.0, "last_2": 80.0, "last_4": 82.0, "fine_tuning": 81.0}


def make_approaches(build=0.0):
    return [
        Approach(
            name,
            (1e-4, 2e-4, 5e-4),
            Work((operations,), build=build),
            EPOCHS,
            "cache" if build and name != "fine_tuning" else "",
        )
        for name, operations in OPERATIONS.items()
    ]


def make_ladder(budget=1000.0, approaches=None, floor=60.0, noise=1.0):
    approaches = approaches or make_approaches()
    costs = Costs(approaches, 1.0)
    return Ladder(approaches, costs, {0: floor}, noise, budget)


def score_of(choice, epoch, tops):
    top = tops[choice.approach] - 2 * (choice.rate != 2e-4)
    return top - 4 / epoch - 0.1 * choice.seed


def climb(ladder, budget, tops=TOPS, slowness=1.0):
    """Does what a ladder asks for; returns the actions and the seconds."""
    actions, spent = [], 0.0
    while action := ladder.next(budget - spent):
        choice, done = action.choice, ladder.count_epochs(action.choice)
        seconds = slowness * OPERATIONS.get(choice.approach, 1.0)
        new = [seconds] * (action.epochs - done)
        spent += sum(new) + ladder_lib.OVERHEAD_SECONDS
        scores = [score_of(choice, n + 1, tops) for n in range(action.epochs)]
        overhead = sum(new) + ladder_lib.OVERHEAD_SECONDS
        ladder.tell(choice, scores, new, seconds=overhead)
        actions.append(action)
    return actions, spent


# === The rungs ===


def test_the_cheapest_comes_first_then_the_largest_that_fits_a_third():
    for budget, largest in ((150.0, "last_2"), (300.0, "last_4")):
        actions, _ = climb(make_ladder(budget), budget)
        first, second = (action.choice.approach for action in actions[:2])
        assert (first, second) == ("last_1", largest)
        assert [a.epochs for a in actions[:2]] == [EPOCHS, EPOCHS]


def test_the_largest_that_fits_comes_next_where_little_training_loses():
    """With all epochs, until something comes near to the floor."""
    for floor, budget, expected in (
        (75.5, 250.0, "largest fine_tuning"),
        (75.5, 120.0, "largest last_4"),  # everything does not fit
        (74.5, 250.0, "first last_4"),  # within the noise of the floor
    ):
        actions, _ = climb(make_ladder(budget, floor=floor), budget)
        assert f"{actions[1].rung} {actions[1].choice.approach}" == expected
        assert actions[1].epochs == EPOCHS
    # Everything is far above the floor, so the usual order goes on.
    actions, _ = climb(make_ladder(2000.0, floor=75.5), 2000.0)
    assert [a.rung for a in actions].count("largest") == 1


@pytest.mark.parametrize("budget", [60.0, 150.0, 300.0, 800.0])
def test_the_first_rung_takes_a_third_of_the_budget(budget):
    actions, _ = climb(make_ladder(budget), budget)
    first = [action.seconds for action in actions if action.rung == "first"]
    assert 0 < sum(first) <= budget / 3


def test_each_approach_is_tried_at_half_of_the_epochs_before_other_rates():
    actions, _ = climb(make_ladder(450.0), 450.0)
    approaches = [a for a in actions if a.rung == "approaches"]
    assert {a.epochs for a in approaches} == {EPOCHS // 2}
    tried = {a.choice.approach for a in actions if a.choice.rate == 2e-4}
    assert tried == {*OPERATIONS}
    rungs = [action.rung for action in actions]
    assert rungs.index("around") > rungs.index("approaches")


def test_only_the_best_approach_is_tried_at_other_rates():
    actions, _ = climb(make_ladder(2000.0), 2000.0)
    around = {(a.choice.approach, a.choice.rate) for a in actions} - {
        (name, 2e-4) for name in OPERATIONS
    }
    assert around == {("last_4", 1e-4), ("last_4", 5e-4)}


def test_the_best_runs_go_on_and_others_end():
    ladder = make_ladder(2000.0)
    climb(ladder, 2000.0)
    assert ladder.count_epochs(Choice("last_4", 2e-4)) == EPOCHS
    assert ladder.count_epochs(Choice("last_4", 5e-4)) == EPOCHS // 2


def test_an_approach_has_epochs_of_its_own():
    approaches = make_approaches()
    approaches[0] = dataclasses.replace(approaches[0], epochs=30)
    ladder = make_ladder(2000.0, approaches)
    climb(ladder, 2000.0)
    assert ladder.count_epochs(Choice("last_1", 2e-4)) == 30
    assert ladder.count_epochs(Choice("last_4", 2e-4)) == EPOCHS


def test_variants_are_tried_of_the_best_approach():
    variants = [
        dataclasses.replace(
            approach,
            name=f"{approach.name}, head_tail",
            variant_of=approach.name,
        )
        for approach in make_approaches()
    ]
    tops = {**TOPS, **{a.name: TOPS[a.variant_of] + 5 for a in variants}}
    ladder = make_ladder(3000.0, [*make_approaches(), *variants])
    actions, _ = climb(ladder, 3000.0, tops)
    tried = {
        a.choice.approach for a in actions if "head_tail" in a.choice.approach
    }
    assert tried == {"last_4, head_tail"}
    assert ladder.rank()[0].choice.approach == "last_4, head_tail"


def test_the_best_settings_get_more_seeds_and_hopeless_ones_none():
    tops = {**TOPS, "last_4": 95.0}
    ladder = make_ladder(4000.0)
    actions, _ = climb(ladder, 4000.0, tops)
    seeds = {a.choice.approach for a in actions if a.choice.seed}
    assert seeds == {"last_4"}
    assert len(ladder.rank()[0].scores) == ladder_lib.SEEDS


def test_a_search_that_goes_on_asks_for_what_one_without_a_break_does():
    whole, _ = climb(make_ladder(), 400.0)
    first = make_ladder()
    climb(first, 200.0)
    ladder = make_ladder()
    for choice, curve in first.curves.items():
        ladder.tell(choice, curve, [OPERATIONS[choice.approach]] * len(curve))
    climb(ladder, 1000.0)
    assert {a.choice for a in whole} <= {*ladder.curves}


def test_it_ends_when_nothing_is_left():
    ladder = make_ladder(1e6)
    actions, _ = climb(ladder, 1e6)
    assert ladder.next(1e6) is None
    assert len(actions) < 40


# === Time ===


@pytest.mark.parametrize("slowness", [0.5, 1.0, 1.2])
@pytest.mark.parametrize("budget", [8.0, 30.0, 100.0, 500.0])
def test_no_run_is_begun_that_does_not_end_in_time(budget, slowness):
    _, spent = climb(make_ladder(budget), budget, slowness=slowness)
    assert spent <= 1.1 * budget


def test_with_little_time_the_cheapest_trains_an_epoch():
    actions, _ = climb(make_ladder(5.5), 5.5)
    assert [(a.choice.approach, a.epochs) for a in actions] == [("last_1", 1)]


def test_what_failed_is_not_tried_again():
    ladder = make_ladder()
    ladder.failed.add(Choice("last_1", 2e-4))
    actions, _ = climb(ladder, 1000.0)
    assert Choice("last_1", 2e-4) not in [action.choice for action in actions]


def test_workers_get_different_runs_and_wait_for_a_rung():
    ladder, busy = make_ladder(), []
    while action := ladder.next(1000.0, busy):
        busy.append(action.choice)
    assert busy == [Choice("last_1", 2e-4)]  # the next depends on its time
    ladder.tell(busy[0], [70.0] * EPOCHS, [1.0] * EPOCHS)
    busy = []
    while action := ladder.next(1000.0, busy):
        busy.append(action.choice)
    assert len({*busy}) == len(busy) > 0


def test_an_approach_costs_its_epochs_and_others_their_operations():
    costs = Costs(make_approaches(), 2.0)
    assert costs.epoch_seconds("last_2") == 10.0
    costs.tell("last_2", [30.0, 20.0, 20.0], seconds=73.0)
    assert costs.epoch_seconds("last_2") == 20.0
    assert costs.epoch_seconds("last_4") == 60.0
    assert costs.seconds("last_2", 2) == 43.0  # 3 s apart from the epochs


def test_one_pass_stores_the_caches_of_all_approaches():
    costs = Costs(make_approaches(build=50.0), 1.0)
    before = costs.seconds("last_4", 1)
    costs.tell("last_1", [1.0])
    assert before - costs.seconds("last_4", 1) == 50.0
    stored = Costs(make_approaches(build=50.0), 1.0, ["cache"])
    assert stored.seconds("last_4", 1) == costs.seconds("last_4", 1)


# === The choice ===


def test_the_mean_of_several_seeds_wins_against_one_lucky_run():
    ladder = make_ladder(noise=2.0)
    for seed in range(4):
        ladder.tell(Choice("last_2", 2e-4, seed), [80.0, 80.0], [1.0, 1.0])
    ladder.tell(Choice("last_4", 2e-4), [80.5, 80.5], [1.0, 1.0])
    assert ladder.rank()[0].choice.approach == "last_2"
    ladder.tell(Choice("last_4", 2e-4), [84.0, 84.0], [1.0, 1.0])
    assert ladder.rank()[0].choice.approach == "last_4"


def test_a_lead_within_the_noise_leaves_the_floor():
    for lead, wins in ((1.5, False), (2.5, True)):
        ladder = make_ladder(floor=80.0, noise=2.0)
        ladder.tell(Choice("last_1", 2e-4), [80.0 + lead] * 2, [1.0, 1.0])
        assert (ladder.rank()[0].least_lead > 0) == wins


def test_a_fold_is_compared_with_the_floor_of_the_same_fold():
    ladder = make_ladder()
    ladder.floor = {0: 60.0, 1: 80.0}
    ladder.tell(Choice("last_1", 2e-4), [70.0], [1.0])
    ladder.tell(Choice("last_1", 2e-4, 1), [70.0], [1.0])
    assert ladder.rank()[0].lead == 0.0


def test_one_lucky_epoch_is_not_the_score():
    assert ladder_lib.score([70.0, 90.0, 80.0]) == 85.0
    assert ladder_lib.score([70.0]) == 70.0


def test_more_texts_have_less_noise():
    noises = [ladder_lib.noise_of(count) for count in (30, 300, 3000, 10**7)]
    assert noises == sorted(noises, reverse=True) and noises[-1] == 0.25


@pytest.mark.parametrize(
    "usual, expected",
    [
        (2e-4, (1e-4, 2e-4, 5e-4)),
        (5e-5, (2e-5, 5e-5, 1e-4)),
        (3e-3, (1e-3, 2e-3, 5e-3)),
    ],
)
def test_the_rates_are_around_the_usual_one(usual, expected):
    assert ladder_lib.rates_around(usual) == expected
