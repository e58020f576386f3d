"""Operating points: by hand, and those of the paper from its own trials."""

import collections
import csv
import os

import pytest

from tf_transfer.freezing import operating
from tf_transfer.reports import claims

TRIALS = {
    "all": [0.80, 0.82],
    0: [0.50, 0.52],
    1: [0.70, 0.72],
    2: [0.74, 0.74],
    3: [0.80, 0.80],
}


def test_the_fewest_blocks_that_reach_the_share_of_all():
    # 0.9 of 0.81 is 0.729: 1 has 0.71, 2 has 0.74.
    assert operating.operating_point(TRIALS, 0.9) == 2
    assert operating.operating_point(TRIALS, 0.5) == 0
    assert operating.operating_point(TRIALS, 0.99) is None
    # "At least 90%": 0.74 of 0.74 is enough.
    equal = {"all": [0.74] * 2, 1: [0.5] * 2, 2: [0.74] * 2}
    assert operating.operating_point(equal, 1.0) == 2
    assert operating.interval(equal, 1.0) == (2, 2)


def test_more_blocks_may_be_worse_and_fewer_still_enough():
    trials = {"all": [0.8], 0: [0.1], 1: [0.79], 2: [0.3]}
    assert operating.operating_point(trials, 0.9) == 1


def test_the_authors_leave_out_trials_at_zero_and_far_below_the_best():
    scores = [0.0, 0.60, 0.66, 0.70, 0.63]
    assert operating.plain_mean(scores) == pytest.approx(0.518)
    # 0.9 of 0.70 is 0.63, and 0.63 is not above it.
    assert operating.authors_mean(scores) == pytest.approx(0.68)
    assert operating.authors_mean([0.0, 0.0]) == 0.0


def test_scores_that_rounding_sets_apart_are_a_tie():
    # 162 and 180 right of 277 examples: exactly 0.9, so left out.
    assert operating.authors_mean([0.584838, 0.649819]) == 0.649819
    assert operating.authors_mean([58.4838, 64.9819]) == 64.9819


def test_the_interval_may_end_at_never():
    trials = {"all": [0.8, 0.8], 0: [0.1, 0.1], 1: [0.5, 0.99]}
    assert operating.interval(trials, 0.9) == (1, None)


def test_the_interval_counts_what_was_not_tried():
    """3 is enough and 1 is not: the fewest may be 2."""
    trials = {"all": [0.8] * 2, 1: [0.1] * 2, 3: [0.75] * 2, 6: [0.8] * 2}
    assert operating.interval(trials, 0.9) == (2, 3)


def test_fewer_than_were_tried_may_be_enough():
    trials = {"all": [0.8] * 2, 2: [0.75] * 2, 4: [0.8] * 2}
    assert operating.interval(trials, 0.9) == (0, 2)


def test_a_wider_interval_holds_more():
    trials = {"all": [0.8, 0.8], 0: [0.1, 0.1], 1: [0.5, 0.99], 2: [0.8, 0.8]}
    # Of two trials drawn, 1 passes 0.72 unless both are 0.5: 3 of 4.
    assert operating.interval(trials, 0.9, level=0.4) == (1, 1)
    assert operating.interval(trials, 0.9, level=0.6) == (1, 2)


@pytest.mark.shared
def test_the_paper_s_operating_points_come_out_of_its_trials(shared_data):
    """3, 5, 6 and 7 trained blocks, CoLA left out, as its text says."""
    path = os.path.join(shared_data, "..", "papers", "elsa_trials.csv")
    models = collections.defaultdict(
        lambda: collections.defaultdict(lambda: collections.defaultdict(list))
    )
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            blocks = row["trained_blocks"]
            blocks = blocks if blocks == operating.ALL else int(blocks)
            models[row["model"]][row["task"]][blocks].append(
                float(row["score"])
            )
    found = {
        model: max(
            operating.operating_point(trials, 0.9, operating.authors_mean)
            for task, trials in tasks.items()
            if task != "CoLA"
        )
        for model, tasks in models.items()
    }
    assert found == {
        "bert-base": 3,
        "roberta-base": 5,
        "bert-large": 6,
        "roberta-large": 7,
    }


@pytest.mark.shared
def test_published_scores_are_those_of_the_trials(shared_data):
    published = claims.read_published("experiments", "freezing")
    trials = {}
    path = os.path.join(shared_data, "..", "papers", "elsa_trials.csv")
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["model"], row["task"], row["trained_blocks"])
            trials.setdefault(key, []).append(100 * float(row["score"]))
    of_authors = {
        (model, task, blocks): means
        for model, tasks in published["scores"].items()
        for task, cells in tasks.items()
        for blocks, means in cells.items()
    }
    assert {*of_authors} == {*trials}
    for key, scores in trials.items():
        authors, plain, *_ = of_authors[key]
        mean = operating.authors_mean(scores)
        assert authors == pytest.approx(mean, abs=0.006)
        assert plain == pytest.approx(operating.plain_mean(scores), abs=0.006)


@pytest.mark.shared
def test_published_full_models_are_the_best_of_the_search(shared_data):
    published = claims.read_published("experiments", "freezing")
    searches = collections.defaultdict(lambda: collections.defaultdict(list))
    path = os.path.join(shared_data, "..", "papers", "elsa_search_trials.csv")
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["metric"] == published["metrics"][row["task"]]:
                rate = round(float(row["lr"]) / published["rates"]["unit"])
                score = 100 * float(row["score"])
                searches[row["model"], row["task"]][rate].append(score)
    assert len(searches) == 40
    for (model, task), trials in searches.items():
        best = published["full_models"][model][task]
        for name, mean in (
            ("", operating.plain_mean),
            ("authors_", operating.authors_mean),
        ):
            means = {rate: mean(scores) for rate, scores in trials.items()}
            chosen = means[best[f"{name}rate"]]
            assert best[f"{name}mean"] == pytest.approx(chosen, abs=0.006)
            if task != "MNLI-MM":  # it has the rate of MNLI
                assert chosen > max(means.values()) - 1e-3  # of rounded scores
        # Frozen trials have the rate that the authors' averaging prefers.
        if task in published["rates"][model]:
            rate = published["rates"][model][task]
            assert best["authors_rate"] == rate
        threshold = (
            0.9 * (1 + operating.TIE) * max(trials[best["authors_rate"]])
        )
        kept = [s for s in trials[best["authors_rate"]] if s > threshold]
        assert best["kept"] == len(kept)
        assert best["trials"] == len(trials[best["rate"]])
