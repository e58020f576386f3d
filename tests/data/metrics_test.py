"""Metrics against values computed by hand, and against scipy."""

import dataclasses
import functools

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from tf_transfer.data import cs224n, glue, metrics, task
from tf_transfer.own import held_out

# 3 hits, 1 false alarm, 2 misses, 4 correct rejections.
LABELS = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
DECIDED = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
LOGITS = np.where(DECIDED == 1, 0.3, -2.0)[:, None]

SCORES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
RANKED = np.array([[10.0], [30.0], [20.0], [50.0], [40.0]])

CORRELATIONS = ("pearson", "spearman", "spearman_no_ties")


def measure(name, labels, logits):
    return metrics.METRICS[name](np.asarray(labels), np.asarray(logits))


# === Deciding ===


@pytest.mark.parametrize(
    "logits, expected",
    [
        ([[-0.1], [0.1], [0.0], [9.0]], [0, 1, 0, 1]),
        ([[0.1, 0.2, 0.0], [5.0, -5.0, 1.0], [-3.0, -2.0, -1.0]], [1, 0, 2]),
    ],
    ids=["one unit", "three units"],
)
def test_the_logits_choose_a_label(logits, expected):
    assert metrics.decide(logits).tolist() == expected


# === Values computed by hand ===


@pytest.mark.parametrize(
    "name, labels, logits, expected",
    [
        ("accuracy", LABELS, LOGITS, 7 / 10),
        ("accuracy", [2, 0, 1], np.eye(3), 0.0),
        ("accuracy", [0, 1, 0], np.eye(3), 2 / 3),
        # precision 3/4, recall 3/5
        ("f1", LABELS, LOGITS, 2 / 3),
        ("precision", LABELS, LOGITS, 3 / 4),
        ("recall", LABELS, LOGITS, 3 / 5),
        # of label 0: precision 4/6, recall 4/5
        ("f1_other", LABELS, LOGITS, 8 / 11),
        ("f1_macro", LABELS, LOGITS, (2 / 3 + 8 / 11) / 2),
        ("f1_macro", [2, 2, 1], np.eye(3), 0.0),
        # recall of label 1, precision of label 0: 3/5 and 4/6
        ("f1_hart", LABELS, LOGITS, 12 / 19),
        # (3 * 4 - 1 * 2) / sqrt(4 * 5 * 5 * 6)
        ("matthews", LABELS, LOGITS, 10 / np.sqrt(600)),
        # d = 0, 1, 1, 1, 1
        ("spearman", SCORES, RANKED, 0.8),
        ("spearman_no_ties", SCORES, RANKED, 0.8),
        ("spearman_no_ties", [2.0], [[1.0]], 0.0),  # of one text
        ("pearson", SCORES, RANKED, 0.8),
        ("pearson", [0.0, 0.0, 3.0], [[1.0], [3.0], [2.0]], 0.0),
        ("pearson", [1.0, 2.0, 4.0], [[1.0], [2.0], [3.0]], np.sqrt(27 / 28)),
        ("spearman", [1.0, 2.0, 4.0], [[1.0], [2.0], [3.0]], 1.0),
        ("spearman", SCORES, -RANKED, -0.8),
    ],
)
def test_a_metric_has_the_value_computed_by_hand(
    name, labels, logits, expected
):
    assert measure(name, labels, logits) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "name, same",
    [
        ("accuracy", True),
        ("f1", False),
        ("matthews", True),
        ("pearson", True),
        ("spearman", True),
        ("spearman_no_ties", True),
    ],
)
def test_f1_alone_depends_on_which_label_is_called_one(name, same):
    """Turning labels and predictions around changes F1 and nothing else."""
    scores = np.array([0.0, 0.0, 0.0, 1.0])
    logits = np.array([[1.0], [-1.0], [-2.0], [3.0]])
    if name not in CORRELATIONS:
        scores = scores.astype(int)
    found = measure(name, scores, logits)
    turned = measure(name, 1 - scores, -logits)
    assert (found == pytest.approx(turned)) == same


# === The values of scikit-learn, to the last bit ===


def draw_answers(rng, classes):
    """Labels and answers; at times one of them has one class alone."""
    size = rng.integers(1, 40)
    return [rng.integers(0, rng.integers(1, classes + 1), size) for _ in "ab"]


@pytest.mark.parametrize("seed", range(40))
def test_counts_of_classes_give_what_scikit_learn_does(seed):
    rng = np.random.default_rng(seed)
    for classes in (2, 2, 5):
        labels, answers = draw_answers(rng, classes)
        logits = np.eye(classes)[answers]
        expected = {"matthews": sklearn.metrics.matthews_corrcoef}
        for average in ("micro", "macro"):
            expected[f"f1_{average}"] = functools.partial(
                sklearn.metrics.f1_score, average=average
            )
        if classes == 2:
            logits = answers[:, None] - 0.5
            for name in ("f1", "precision", "recall"):
                function = getattr(sklearn.metrics, f"{name}_score")
                expected[name] = functools.partial(function, zero_division=0.0)
        for name, function in expected.items():
            assert measure(name, labels, logits) == function(labels, answers)


@pytest.mark.parametrize("units", [1, 2, 5])
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_counts_of_several_labels_give_what_scikit_learn_does(units, average):
    rng = np.random.default_rng(units)
    for share in (0.0, 0.1, 0.5, 1.0):
        labels = (rng.random((20, units)) < share).astype(np.int64)
        logits = rng.normal(size=(20, units))
        pair, kind = (labels, (logits > 0).astype(np.int64)), average
        if units == 1:  # else a label that does not apply is a class
            pair, kind = [array.ravel() for array in pair], "binary"
        assert measure(f"f1_{average}", labels, logits) == (
            sklearn.metrics.f1_score(*pair, average=kind, zero_division=0.0)
        )


# === Wang's formula 3 ===


def test_formula_3_is_spearman_where_there_are_no_ties():
    rng = np.random.default_rng(0)
    for size in (2, 3, 10, 200):
        labels, logits = rng.normal(size=(2, size))
        assert measure("spearman_no_ties", labels, logits[:, None]) == (
            pytest.approx(scipy.stats.spearmanr(labels, logits).statistic)
        )


def test_formula_3_departs_from_spearman_where_there_are_ties():
    # Ranks 1.5 1.5 3 4 against 1 2 3.5 3.5: 1 - 6 (4 * 0.25) / (4 * 15)
    labels, logits = [1.0, 1.0, 2.0, 3.0], [[1.0], [2.0], [3.0], [3.0]]
    assert measure("spearman_no_ties", labels, logits) == pytest.approx(0.9)
    assert measure("spearman", labels, logits) == pytest.approx(8 / 9)


def test_formula_3_gives_one_half_for_saying_always_the_same():
    constant = np.zeros((5, 1))
    assert measure("spearman_no_ties", SCORES, constant) == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["spearman", "spearman_no_ties"])
def test_ties_do_not_make_the_order_of_the_rows_count(name):
    labels = np.array([0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 5.0])
    logits = np.array([1.0, 3.0, 1.0, 2.0, 2.0, 4.0, 4.0])[:, None]
    rows = np.random.default_rng(5).permutation(7)
    assert measure(name, labels[rows], logits[rows]) == pytest.approx(
        measure(name, labels, logits)
    )


# === Predictions that say nothing ===


@pytest.mark.parametrize("logit", [-1.0, 1.0])
@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
def test_constant_predictions_correlate_with_nothing(name, logit):
    logits = np.full((10, 1), logit)
    assert measure(name, LABELS, logits) == 0.0
    assert measure(name, np.zeros(10, int), LOGITS) == 0.0


@pytest.mark.parametrize("name", ["f1", "f1_hart", "precision", "recall"])
def test_nothing_found_is_zero_even_where_there_is_nothing(name):
    nothing = np.full((10, 1), -1.0)
    for labels in (LABELS, np.zeros(10, int), np.ones(10, int)):
        assert measure(name, labels, nothing) == 0.0


def test_a_label_that_no_example_has_or_gets_has_an_f1_of_zero():
    labels = np.array([[1, 0], [1, 0]])
    assert measure("f1_macro", labels, 2.0 * labels - 1) == 0.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", metrics.METRICS)
@pytest.mark.parametrize("rows", [1, 10])
def test_no_metric_is_nan(name, rows):
    constant = np.zeros((rows, 1))
    assert np.isfinite(measure(name, LABELS[:rows], constant))


# === Names ===


def test_every_metric_of_every_task_is_known():
    names = {name for task in glue.TASKS.values() for name in task.metrics}
    names |= {n for task in cs224n.TASKS.values() for n in task.metrics}
    names |= {
        name
        for kind, allowed in task.ALLOWED.items()
        for name in allowed
        if kind != "entities"
    }
    assert names | set(held_out.METRICS) == set(metrics.METRICS)


def test_measuring_names_the_metrics():
    found = metrics.measure(("f1", "accuracy"), LABELS, LOGITS)
    assert list(found) == ["f1", "accuracy"]
    assert found["accuracy"] == pytest.approx(0.7)


def test_one_unit_decides_as_two_units_of_the_same_odds_do():
    one = metrics.probabilities(np.log([[0.25], [1.0], [9.0]]))
    two = metrics.probabilities(np.log([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]]))
    np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_allclose(one.sum(axis=1), 1)
    assert np.isfinite(metrics.probabilities([[-2000.0], [2000.0]])).all()


# === Several labels ===

SEVERAL = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 0]])
CHOSEN = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 1]])


def test_of_several_labels_each_is_counted():
    logits = 2.0 * CHOSEN - 1
    np.testing.assert_array_equal(metrics.decide_each(logits), CHOSEN)
    # 4 hits, 5 expected, 5 chosen; by label 1, 1 and 0; two rows are right.
    assert measure("f1_micro", SEVERAL, logits) == pytest.approx(0.8)
    assert measure("f1_macro", SEVERAL, logits) == pytest.approx(2 / 3)
    assert measure("exact_match", SEVERAL, logits) == 0.5
    assert metrics.majority("exact_match", SEVERAL) == 0.25


@pytest.mark.parametrize("name", ["f1_micro", "f1_macro"])
def test_one_label_of_several_is_no_class_and_its_absence(name):
    """A model that finds none of 5 in 100 has no F1 of 95."""
    labels = np.zeros((100, 1), np.int64)
    labels[:5] = 1
    assert measure(name, labels, np.full((100, 1), -2.0)) == 0.0
    found = np.where(np.arange(100) < 3, 2.0, -2.0)[:, None]
    assert measure(name, labels, found) == pytest.approx(2 * 3 / (3 + 5))


# === The majority baseline ===


@pytest.mark.parametrize(
    "labels, units, label, accuracy",
    [
        ([0, 0, 1], 2, 0, 2 / 3),
        ([0, 1, 1], 2, 1, 2 / 3),
        ([0, 0], 2, 0, 1.0),  # the other label has a unit, too
        ([2, 0, 2, 1], 3, 2, 0.5),
        ([3, 3, 1], 4, 3, 2 / 3),
    ],
)
def test_the_majority_is_chosen_for_every_example(
    labels, units, label, accuracy
):
    labels = np.array(labels)
    logits = metrics.majority_logits(labels)
    assert logits.shape == (len(labels), units)
    assert metrics.decide(logits).tolist() == [label] * len(labels)
    assert metrics.majority("accuracy", labels) == pytest.approx(accuracy)


def test_of_several_labels_those_of_most_examples_are_chosen():
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0], [0, 1, 1]])
    logits = metrics.majority_logits(labels)
    assert metrics.decide_each(logits).tolist() == [[1, 0, 0]] * 4
    assert np.all(np.abs(logits) == 1)


def test_numbers_have_no_majority():
    assert metrics.majority("pearson", SCORES) == 0.0


# === The metrics of a task ===

SCORED = task.Task("own", "", ("text",), "score", None, "pearson")
TAGGED = task.Task(
    "own",
    "",
    ("words",),
    "tags",
    ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"),
    "f1",
    also=("accuracy",),
    kind="entities",
)


def test_a_task_has_its_metrics_the_headline_first():
    both = dataclasses.replace(SCORED, also=("spearman",))
    found = metrics.measure_task(both, SCORES, RANKED)
    assert [*found] == ["pearson", "spearman"]
    assert found["pearson"] == pytest.approx(0.8)


def test_a_task_of_entities_has_the_scores_of_all_types():
    """Two sentences; the second of three entities is found as another type."""
    labels = np.array([1, 2, 0, 3, 0, 1])
    answers = np.array([1, 2, 0, 1, 0, 1])
    found = metrics.measure_task(
        TAGGED, labels, np.eye(5)[answers], np.array([0, 4])
    )
    assert [*found][:2] == ["f1", "accuracy"]
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["accuracy"] == pytest.approx(5 / 6)
    assert (found["recall_PER"], found["recall_LOC"]) == (1.0, 0.0)


def test_scores_are_clipped_to_their_range():
    logits = np.array([[-1.0, 9.0], [2.5, 9.0], [7.0, 9.0]])
    ranged = dataclasses.replace(SCORED, score_range=(0.0, 5.0))
    assert metrics.clip_scores(ranged, logits).tolist() == [0.0, 2.5, 5.0]
    assert metrics.clip_scores(SCORED, logits).tolist() == [-1.0, 2.5, 7.0]


def test_the_probability_of_each_label_is_that_of_its_own_odds():
    found = metrics.sigmoid(np.log(np.array([[1.0, 3.0]], np.float32)))
    np.testing.assert_allclose(found, [[0.5, 0.75]])
    assert found.dtype == np.float64
