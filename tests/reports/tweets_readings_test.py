"""Hart's t-tests, and claims judged by another reading of his words."""

import math

import pytest
import scipy.stats

from tests.reports import tweets_report_test as made
from tf_transfer.reports import claims, study as study_lib, tables

PUBLISHED = claims.read_published(made.FOLDER, "tweets")
FROZEN = [80.0, 82.0, 83.0, 84.0]
UNFROZEN = [81.0, 83.0, 86.0, 86.5]


def list_t_tests(*records):
    """The table of t-tests of a report on some runs, a row per test."""
    summary = {
        "runs": [run for runs in records for run in runs],
        "left_out": [],
    }
    [study] = study_lib.collect(summary, made.FOLDER)
    return [
        row
        for table in tables.fill_tables(study, "document")
        for row in table.frame.to_dict("records")
    ]


def test_a_t_test_is_welch_s_with_its_degrees_of_freedom():
    rows = list_t_tests(
        made.write({**made.FROZEN, "loss_head": "softmax"}, FROZEN),
        made.write(made.ALL, UNFROZEN),
    )
    [row] = [row for row in rows if row["paper: t"] == "-0.91"]
    expected = scipy.stats.ttest_ind(FROZEN, UNFROZEN, equal_var=False)
    assert float(row["t"]) == pytest.approx(expected.statistic, abs=0.006)
    assert float(row["df"]) == round(expected.df)
    assert float(row["p"]) == pytest.approx(expected.pvalue, rel=0.1)
    assert (row["paper: df"], row["paper: p"]) == ("13", "0.38")


def test_runs_that_answer_with_one_class_are_in_no_t_test():
    failed = made.write(made.FROZEN, [57.3] * 4)
    assert not list_t_tests(failed, made.write(made.ALL, UNFROZEN))


@pytest.mark.parametrize(
    "name, other, expected",
    [("unfrozen", "all", 0.107), ("last_two", "2", 0.273)],
)
def test_his_own_runs_do_not_show_that_there_is_no_difference(
    name, other, expected
):
    """Ten runs each: t, df and p are published, equivalence is computed."""
    [claim] = [c for c in made.PAPER.claims if c.id == f"frozen_as_{name}"]
    settings = [row["settings"] for row in PUBLISHED["rows"]]
    rows = [
        PUBLISHED["rows"][settings.index(group)]
        for group in (claim.first[0], {"trainable_layers": other})
    ]
    errors = [row["accuracy_deviation"] ** 2 / 10 for row in rows]
    difference = rows[0]["accuracy"] - rows[1]["accuracy"]
    error = math.sqrt(sum(errors))
    df = sum(errors) ** 2 / sum(e**2 / 9 for e in errors)
    p_equal = scipy.stats.t.sf((claim.margin - abs(difference)) / error, df)
    published = PUBLISHED["t_tests"][claim.id]
    assert published["his_t"] == pytest.approx(difference / error, abs=0.06)
    assert published["his_df"] == int(df)
    assert (
        published["his_p_equal"]
        == expected
        == pytest.approx(p_equal, abs=0.003)
    )
    assert p_equal > 0.05


# === Other settings ===


def test_other_words_than_the_code_s_are_not_comparable():
    """`Static input` and a logistic activation."""
    sigmoid, cached = {"loss_head": "sigmoid"}, {"frozen_prefix": "cached"}
    [study] = study_lib.collect(
        {
            "runs": [
                *made.write({**made.FROZEN, **sigmoid, **cached}, FROZEN),
                *made.write({**made.ALL, **sigmoid}, UNFROZEN),
            ]
        },
        made.FOLDER,
    )
    [verdict] = [
        v for v in study.verdicts if v.claim.id == "fine_tuning_varies_more"
    ]
    assert verdict.word == "not comparable"
    assert "loss_head sigmoid (authors' code: softmax)" in verdict.reason
    assert "frozen_prefix cached (authors' code: live)" in verdict.reason
