"""No table of a page shows a difference that a claim of the page refuses."""

import glob
import os

import pytest

from tests.support import commands
from tf_transfer.reports import claims, contrast, run_groups, study, summary

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPERS = ("freezing", "glue", "multitask", "stacking", "tweets")


def test_every_paper_has_a_summary():
    for paper in PAPERS:
        assert os.path.isfile(os.path.join(FOLDER, paper, "summary.json"))


@pytest.mark.parametrize("paper", PAPERS)
def test_a_difference_that_a_claim_refuses_is_in_no_table(paper):
    [path] = glob.glob(os.path.join(FOLDER, paper, "summary.json"))
    studies = study.collect(summary.read_summary(path), FOLDER)
    refused = set()
    for one in studies:
        for test in contrast.test_claims(one.runs, one.paper):
            if any(run_groups.FAILED in words for words in test.differences):
                value = test.mean.value
                refused |= {f"{value:+.2f}", f"{value:.2f}"}
    for one in studies:
        tables = study.module_of(one.experiment).list_tables(one)
        for table in tables:
            compared = [
                column
                for column in table.frame
                if "gain" in column or table.name in ("table_a", "table_b")
            ]
            shown = {*table.frame[compared].astype(str).to_numpy().ravel()}
            assert not shown & (refused - {"nan", "+nan"}), table.name


def test_some_claims_are_refused_and_some_cells_are_marked():
    path = os.path.join(FOLDER, "stacking", "summary.json")
    one, _ = study.collect(summary.read_summary(path), FOLDER)  # minilm, mpnet
    tables = study.module_of("stacking").list_tables(one)
    assert any(table.note.startswith("†") for table in tables)
    paper = claims.read_paper(claims.find_file(FOLDER, "stacking"))
    tests = contrast.test_claims(one.runs, paper)
    assert any(run_groups.FAILED in " ".join(t.differences) for t in tests)
