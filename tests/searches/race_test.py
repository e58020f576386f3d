"""Which run is next in a race, and which candidate leads; nothing trains."""

import dataclasses

import numpy as np
import pytest

from tf_transfer.comparison.finished_runs import Scored
from tf_transfer.reports import advice
from tf_transfer.searches import answer, costs as costs_lib
from tf_transfer.searches.costs import Candidate, Costs, RunSeconds
from tf_transfer.searches.race import Race
from tf_transfer.sweeps.estimate import Work

TEXTS = 200  # of a fold
SECONDS = {"last 1": 1.0, "last 2": 4.0, "everything": 20.0}
TOPS = {
    "words": 60.0,
    "probe": 70.0,
    "last 1": 74.0,
    "last 2": 78.0,
    "everything": 77.0,
}
BUILD_SECONDS = 10.0


def make_scored(share, fold=0, seed=0):
    """A run that answers a share of the texts of a fold right."""
    ids = np.arange(TEXTS) + fold * TEXTS
    labels = ids % 2
    draw = np.random.default_rng([fold, seed])
    right = draw.permutation(TEXTS) < share * TEXTS
    logits = np.eye(2)[np.where(right, labels, 1 - labels)]
    scores = {"accuracy": right.mean()}
    return Scored(
        *("validation", "accuracy", scores, ids, labels, logits),
        approach="probe" if share <= 0.7 else "last_1",
        seconds=1.0,
    )


def make_candidates():
    candidates = [
        Candidate("words", {}, Work(), approach="words", is_baseline=True),
        Candidate(
            *("probe", {}, Work(build=BUILD_SECONDS)),
            approach="probe",
            reads_cache=True,
            is_baseline=True,
        ),
    ]
    for name, seconds in SECONDS.items():
        work = Work((seconds,), BUILD_SECONDS)
        reads_cache = name != "everything"
        usual = Candidate(name, {}, work, 3, name, reads_cache)
        candidates.append(usual)
    for name in SECONDS:
        work = Work((SECONDS[name],), BUILD_SECONDS)
        more = f"{name}, 6 epochs"
        candidates.append(Candidate(more, {}, work, 6, name, variant_of=name))
    return {one.name: one for one in candidates}


def make_race(folds=5, refit_share=1.25):
    candidates = make_candidates()
    return Race(candidates, Costs(candidates, 1.0), folds, refit_share)


def run(race, budget, tops=TOPS, fails=()):
    """Runs a race; a candidate takes its seconds. Returns names and repeats."""
    done, spent = [], 0.0
    while action := race.next(budget - spent):
        name, repeat = action.name, action.repeat
        candidate = race.candidates[name]
        done.append((name, repeat))
        if name in fails:
            race.failed.add((name, repeat))
            continue
        built = BUILD_SECONDS if name == "probe" and not repeat else 0.0
        seconds = [SECONDS.get(candidate.approach, 1.0)] * candidate.epochs
        spent += sum(seconds) + built + 1.0
        share = tops.get(name, tops.get(candidate.approach)) / 100
        scored = make_scored(share, repeat % race.folds, repeat)
        race.add_scores(name, repeat, scored)
        whole = sum(seconds) + built + 1.0
        race.costs.add_run(name, RunSeconds(seconds, built, built), whole)
    return done, spent


def test_the_probe_runs_if_its_pass_fits():
    """Though nothing could be trained on all texts after it."""
    race = make_race()
    seconds = race.costs.seconds("probe")
    race.add_scores("words", 0, make_scored(0.6))
    assert race.next(seconds - 0.1).name == "words"  # another fold
    assert race.next(seconds).name == "probe"


def test_a_run_on_all_texts_needs_no_pass():
    race = make_race()
    before = race.refit_seconds("last 1")
    assert race.costs.seconds("last 1") > before + 5  # 10 of the pass
    race.costs.assume_stored("last 1")
    assert race.refit_seconds("last 1") == before


def test_everything_runs_early():
    done, _ = run(make_race(), 1000.0)
    first = ["words", "probe", "last 1", "everything", "last 2"]
    assert done[:5] == [(name, 0) for name in first]


def test_the_best_run_on_all_folds():
    race = make_race()
    done, _ = run(race, 1000.0)
    for name in ("words", "probe", "last 2"):
        assert {(name, fold) for fold in range(5)} <= {*done}
    assert race.rank()[0].startswith("last 2")  # its variant scores alike


def test_no_run_is_done_twice():
    done, _ = run(make_race(), 5000.0)
    assert len({*done}) == len(done)


def test_the_leader_is_varied_and_repeated_with_other_seeds():
    done, _ = run(make_race(), 5000.0)
    assert ("last 2, 6 epochs", 0) in done
    assert ("last 2", 9) in done


@pytest.mark.parametrize("budget", [60.0, 150.0, 400.0])
def test_the_answer_can_still_be_trained_on_all_texts(budget):
    race = make_race()
    _, spent = run(race, budget)
    leader = race.rank()[0]
    assert spent + race.finish_seconds(leader) <= budget


def test_what_does_not_fit_is_left_out():
    done, _ = run(make_race(), 80.0)
    names = {name for name, _ in done}
    assert "everything" not in names and "last 1" in names


def test_what_cannot_be_trained_on_all_texts_is_not_the_best():
    race = make_race()
    run(race, 1000.0)
    leader = race.rank()[0]
    left = race.refit_seconds("last 1")
    assert leader in race.list_too_long(left)
    names = [row.name for row in race.compare(race.list_too_long(left))]
    assert names.index("last 1") < names.index(leader)


def test_little_of_the_budget_is_left():
    race = make_race()
    _, spent = run(race, 400.0)
    left = 400.0 - spent - race.finish_seconds(race.rank()[0])
    assert left < 0.1 * 400.0


def test_a_failed_run_is_not_tried_again():
    done, _ = run(make_race(), 300.0, fails=("last 1",))
    assert done.count(("last 1", 0)) == 1


def test_one_lucky_fold_does_not_win_against_five():
    race = make_race()
    for fold in range(5):
        race.add_scores("probe", fold, make_scored(0.70, fold, 1))
        race.add_scores("last 2", fold, make_scored(0.76, fold, 2))
    race.add_scores("everything", 0, make_scored(0.77, 0, 3))
    assert race.rank()[0] == "last 2"


def test_who_loses_on_the_shared_fold_is_behind():
    """Though it usually leads, and its own lead is uncertain."""
    race = make_race()
    race.candidates["everything"] = dataclasses.replace(
        race.candidates["everything"], usual_lead=1.7
    )
    for fold in range(4):
        race.add_scores("probe", fold, make_scored(0.70, fold, 1))
        race.add_scores("last 2", fold, make_scored(0.74, fold, 1))
    race.add_scores("everything", 0, make_scored(0.70, 0, 1))
    assert race.rank()[0] == "last 2"


def test_a_baseline_leads_what_does_not_beat_it():
    tops = {**TOPS, "last 1": 65.0, "last 2": 66.0, "everything": 69.0}
    race = make_race()
    run(race, 500.0, tops)
    assert race.rank()[0] == "probe"


def test_given_validation_texts_are_one_fold_with_several_seeds():
    race = make_race(folds=1)
    done, _ = run(race, 1000.0)
    assert done.count(("probe", 0)) == 1 and ("probe", 1) not in done
    assert ("last 2", 1) in done


def test_runs_of_other_workers_are_not_begun_again():
    race = make_race()
    busy = [("words", 0), ("probe", 0)]
    assert race.next(1000.0, busy) is None
    for name in ("words", "probe"):
        race.add_scores(name, 0, make_scored(0.6))
    action = race.next(1000.0, [("last 1", 0)])
    assert (action.name, action.repeat) == ("everything", 0)


def test_a_dry_run_plans_without_scores():
    actions = make_race().plan_first(1000.0)
    assert [one.rung for one in actions] == ["floor"] * 2 + ["usual"] * 3


def test_cheap_baselines_run_on_a_fold_before_what_is_compared_with_them():
    done, _ = run(make_race(), 1000.0)
    second = [name for name, repeat in done if repeat == 1]
    assert {*second[:2]} == {"words", "probe"}


# === Costs ===


def test_a_measured_approach_costs_what_it_took():
    costs = Costs(make_candidates(), 1.0)
    costs.add_run("last 2", RunSeconds([9.0, 5.0, 5.0], 10.0), 30.0)
    assert costs.epoch_seconds("last 2, 6 epochs") == 5.0
    assert costs.overhead_seconds("last 2") == 1.0
    assert costs.epoch_seconds("everything") == pytest.approx(25.0)


def test_a_pass_is_paid_once():
    costs = Costs(make_candidates(), 1.0)
    before = costs.seconds("last 1")
    costs.add_run("probe", RunSeconds([1.0], 20.0, 20.0))
    overhead = costs_lib.OVERHEAD_SECONDS
    assert before == overhead + BUILD_SECONDS + 3.0
    assert costs.seconds("last 1") == overhead + 2 * 3.0  # half as fast


@pytest.mark.parametrize("right, wrong", [(12, 0), (3, 2)])
def test_what_answers_all_texts_alike_is_not_the_answer(right, wrong):
    """Whatever it usually leads by; the probe leads it, likely or not."""
    race = make_race()
    race.candidates["everything"] = dataclasses.replace(
        race.candidates["everything"], usual_lead=100.0
    )
    labels = np.repeat([0, 1], [120, 80])
    answers = {name: np.zeros(TEXTS, np.int64) for name in TOPS}
    answers["probe"][120 : 120 + right] = 1
    answers["probe"][:wrong] = 1
    for name in ("probe", "everything"):
        scores = {"accuracy": float((answers[name] == labels).mean())}
        scored = Scored(
            *("validation", "accuracy", scores, np.arange(TEXTS), labels),
            logits=np.eye(2)[answers[name]],
            seconds=1.0,
        )
        race.add_scores(name, 0, scored)
    assert race.rank()[0] == "everything"
    assert race.compare()[0].name == "probe"


def test_a_better_candidate_with_a_larger_error_is_not_passed_over():
    """Its lead over the majority baseline is within a standard error."""
    race = make_race()
    labels = np.repeat([0, 1], [150, 50])
    answers = {name: np.zeros(TEXTS, np.int64) for name in ("probe", "last 1")}
    answers["last 1"][150:154] = 1  # 4 more are right
    answers["probe"][126:180] = 1  # 30 more are right, and 24 fewer
    for name, given in answers.items():
        scores = {"accuracy": float((given == labels).mean())}
        scored = Scored(
            *("validation", "accuracy", scores, np.arange(TEXTS), labels),
            logits=np.eye(2)[given],
            seconds=1.0,
        )
        race.add_scores(name, 0, scored)
    rows = {row.name: row for row in race.compare()}
    assert rows["last 1"].is_likely and not rows["probe"].is_likely
    assert rows["probe"].lead.value > rows["last 1"].lead.value
    rows = race.compare()
    assert rows[0].name == "probe"
    compared = answer.pick_compared(rows, "probe")
    assert "Nothing is recommended" not in advice.advise(compared, 0.0)
