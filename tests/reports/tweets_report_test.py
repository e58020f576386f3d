"""The report on tweets, on runs with known scores."""

import numpy as np
import pytest

from tests.reports import synthetic
from tests.reports.composed import compose
from tests.reports.composed import tables
from tf_transfer import tweets
from tf_transfer.data.task import Task
from tf_transfer.reports import document
from tf_transfer.reports import statistics

METRICS = ("f1", "f1_other", "f1_macro", "f1_hart", "precision", "recall")
IDENTITY = "table sha256:0"


class Tweets(tweets.Settings):
    """Settings whose table need not be there."""

    row = Task(
        "tweets",
        "",
        ("text",),
        "label",
        ("0", "1"),
        "accuracy",
        "",
        (),
        also=METRICS,
    )


def write(root, layers, scores, **changes):
    """A run for each score in points; F1 is ten points lower."""
    for seed, score in enumerate(scores):
        synthetic.write(
            root,
            [score / 100],
            cls=Tweets,
            task="tweets",
            seed=seed,
            trainable_layers=layers,
            data_identity=IDENTITY,
            tested=762,
            sizes=changes.get("max_train_examples") or 6851,
            metrics=dict.fromkeys(METRICS, score / 100 - 0.1),
            predictions=(np.array([0, 0, 0, 1]), np.ones((4, 1))),
            stop_reason="max_epochs",
            **changes,
        )


def write_baseline(root, features, scores, **changes):
    """A baseline whose folds score so, in points."""
    folds = [
        {"accuracy": score / 100, **dict.fromkeys(METRICS, score / 100 - 0.1)}
        for score in scores
    ]
    synthetic.write(
        root,
        None,
        cls=Tweets,
        task="tweets",
        features=features,
        folds=folds,
        data_identity="table sha256:folds",
        tested=762,
        sizes=6851,
        **changes,
    )


def write_paper(root):
    """The paper's two tables, smaller."""
    for features, scores in {"tfidf": (70, 72), "count": (74, 76)}.items():
        write_baseline(root, features, scores)
    write(root, "0", (80, 82, 84), seconds=5.0)
    write(root, "2", (83, 85, 87), seconds=20.0)
    write(root, "all", (84, 84, 90), seconds=40.0)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The parts of the report on the paper's tables."""
    root = tmp_path_factory.mktemp("paper")
    write_paper(root)
    return compose(root)


@pytest.fixture
def paper(tmp_path):
    """The same runs, for tests that add some."""
    write_paper(tmp_path)
    return tmp_path


def test_sparse_features_are_means_over_folds(report):
    [rows] = [r for n, r in tables(report).items() if n.startswith("sparse")]
    assert [row["features"] for row in rows] == ["tfidf", "count"]
    assert rows[0]["accuracy"] == "71.00 ± 1.41"
    assert rows[0]["F1"] == "61.00 ± 1.41"
    assert (rows[0]["published accuracy"], rows[0]["published F1"]) == (
        "79.5",
        "74.2",
    )


def test_encoders_stand_beside_the_figures_of_their_own_runs(report):
    rows = tables(report)["encoders_A_tweets"]
    assert [row["trains, lr"] for row in rows] == [
        "unfrozen, 5e-05",
        "last two blocks, 5e-05",
        "frozen, 5e-05",
    ]
    assert [row["accuracy"].split()[0] for row in rows] == [
        "86.00",
        "85.00",
        "82.00",
    ]
    # The rows of the paper's table 2 are exchanged.
    assert [row["published accuracy"] for row in rows] == [
        "83.1",
        "83.3",
        "82.4",
    ]
    assert rows[2]["published F1"] == "87.2 (80.65)"
    assert rows[0]["accuracies"] == "84.0 to 90.0"
    assert {row["trials"] for row in rows} == {"3"}


def test_welch_s_tests_have_the_paper_s_beside_them(report):
    rows = tables(report)["tests_A_tweets"]
    row = rows[0]
    assert row["first"].startswith("frozen")
    assert row["second"].startswith("last two")
    assert row["published"] == "t = -1.5, df = 16, p = 0.14"
    test = statistics.welch([80, 82, 84], [83, 85, 87])
    assert row["t"] == f"{test.t:.2f}" == "-1.84"
    assert row["p"] == f"{test.p:.3f}"
    assert rows[2]["published"] == ""


def test_a_half_point_has_a_price_against_the_same_test_set(paper):
    synthetic.write(
        paper,
        None,
        cls=HeldOut,
        task="tweets",
        features="hash",
        folds=[{"accuracy": 0.83, **dict.fromkeys(METRICS, 0.7)}],
        data_identity=IDENTITY,
    )
    rows = tables(compose(paper))["encoders_A_tweets"]
    assert [row["s for half a point"] for row in rows] == [
        "6.7",
        "5.0",
        "never",
        "",
    ]
    assert rows[3]["trains, lr"] == "hash, logistic regression"
    assert rows[3]["accuracy"] == "83.00"


class HeldOut(Tweets):
    """A baseline that is tested on the held-out set."""

    def __init__(self, **changes):
        super().__init__(**changes)
        object.__setattr__(self, "folds", 0)


def test_rates_and_sizes_have_tables_of_their_own(paper):
    write(paper, "0", (70, 74), lr=1e-3)
    assert "rates_A_tweets" not in tables(compose(paper))  # one column alone
    write(paper, "2", (80, 80), lr=1e-3)
    write(paper, "0", (60, 62), max_train_examples=100)
    for layers, lr in (("0", 1e-3), ("2", 5e-5), ("2", 1e-3)):
        write(paper, layers, (65, 65), lr=lr, max_train_examples=100)
    found = tables(compose(paper))
    assert found["rates_A_tweets"] == [
        {
            "lr": "5e-05",
            "unfrozen": "86.00 ± 3.46",
            "last two blocks": "85.00 ± 2.00",
            "frozen": "82.00 ± 2.00",
        },
        {
            "lr": "0.001",
            "unfrozen": "",
            "last two blocks": "80.00 ± 0.00",
            "frozen": "72.00 ± 2.83",
        },
    ]
    assert found["rates_100_A_tweets"] == [
        {
            "lr": "5e-05",
            "last two blocks": "65.00 ± 0.00",
            "frozen": "61.00 ± 1.41",
        },
        {
            "lr": "0.001",
            "last two blocks": "65.00 ± 0.00",
            "frozen": "65.00 ± 0.00",
        },
    ]
    curves = found["sizes_A_tweets"]
    assert [row["examples"] for row in curves] == ["100", "6,851"]
    assert [row["frozen, 5e-05"] for row in curves] == [
        "61.00 ± 1.41",
        "82.00 ± 2.00",
    ]
    # What was trained on fewer examples is in no other table.
    assert len(found["encoders_A_tweets"]) == 5


def test_a_baseline_has_a_learning_curve_too(paper):
    for sizes, score in ((100, 0.7), (6851, 0.8)):
        synthetic.write(
            paper,
            None,
            cls=HeldOut,
            task="tweets",
            features="count",
            folds=[{"accuracy": score, **dict.fromkeys(METRICS, 0.7)}],
            data_identity=IDENTITY,
            sizes=sizes,
            max_train_examples=sizes % 6851,
        )
    rows = tables(compose(paper))["sizes_A_tweets"]
    assert [row["count, logistic regression"] for row in rows] == [
        "70.00",
        "80.00",
    ]


def test_other_texts_have_no_published_figures_beside_them(tmp_path):
    synthetic.write(
        tmp_path,
        [0.8],
        cls=Tweets,
        task="tweets",
        trainable_layers="0",
        data_identity=IDENTITY,
        metrics=dict.fromkeys(METRICS, 0.7),
    )
    [row] = tables(compose(tmp_path))["encoders_A_tweets"]
    assert (row["published accuracy"], row["published F1"]) == ("", "")


def test_baselines_on_fewer_examples_alone_are_no_table(tmp_path):
    write_baseline(tmp_path, "count", (70, 72), max_train_examples=100)
    assert "tweets: sparse features, 10 folds" in document.to_markdown(
        compose(tmp_path)
    )


def test_of_many_cells_those_at_the_paper_s_rate_are_tested(paper):
    for lr in (1e-5, 2e-5, 1e-4, 2e-4, 1e-3, 2e-3):
        write(paper, "0", (70, 74), lr=lr)
    found = tables(compose(paper))
    assert len(found["encoders_A_tweets"]) == 9
    assert len(found["tests_A_tweets"]) == 3
    published = {
        row["trains, lr"]: row["published accuracy"]
        for row in found["encoders_A_tweets"]
    }
    assert published["frozen, 5e-05"] == "82.4"
    assert published["frozen, 1e-05"] == ""


def test_the_footnotes_explain_the_swap_and_of_the_f1(report):
    text = document.to_markdown(report)
    assert "rows of the paper's table 2 are exchanged" in text
    assert "no F1 of one label" in text
    assert "the majority's accuracy is 75.00" in text
