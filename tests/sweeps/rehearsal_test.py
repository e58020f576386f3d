"""The cells of the papers' tables that their planned runs fill."""

import contextlib
import os

import pandas as pd
import pytest

from tests.support import commands, planned_runs
from tests.sweeps import fakes
from tf_transfer.reports.tables import Table
from tf_transfer.sweeps import rehearsal

# What the one command of a paper leaves empty: tasks of Lee's table 5 that the
# paper does not train on three of its encoders, and rates of the small study.
NOT_FILLED = {
    "freezing": [
        "  table_5 | NOT FILLED: lr, score, authors' averaging, trials | QQP; "
        "MNLI; MNLI-MM; QNLI; RTE; WNLI"
    ]
    * 3,
    "stacking": [
        "  table_4 | NOT FILLED: gain | accuracy, BERT + Sim-Transformer, "
        "stack-only, BERT + BIMPM, stack-only, both at 3e-4"
    ],
}


def describe(paper, select=lambda run: True):
    """Lines on the planned runs of a paper, of those that are selected."""
    with contextlib.chdir(commands.ROOT):
        runs = [run for run in planned_runs.plan_runs(paper) if select(run)]
        folder = os.path.join("experiments", paper)
        return rehearsal.describe_cells(folder, runs).splitlines()


@pytest.mark.parametrize(
    "paper",
    [
        # 2,500 runs take half a minute; those of others are found alike
        pytest.param(name, marks=pytest.mark.slow if name == "freezing" else ())
        for name in planned_runs.PAPERS
    ],
)
def test_the_runs_of_a_paper_fill_all_but_few_cells_of_its_tables(paper):
    lines = describe(paper)
    assert [line for line in lines if "NOT" in line] == NOT_FILLED.get(
        paper, []
    )
    assert any(line.startswith("  table_") for line in lines)


def test_a_cell_whose_runs_are_not_planned_is_not_filled():
    lines = describe("multitask", lambda run: run.settings.max_epochs == 20)
    row = "Fine-tune, 100 epochs"
    assert (
        f"  table_4 | NOT FILLED: runs, overall, SST, Quora, STS r | {row}"
        in [line.partition(";")[0] for line in lines]
    )
    assert any(
        line.startswith("  table_4 | runs, overall, SST, Quora, STS r | Fine-t")
        for line in lines
    )


def test_a_folder_of_other_grids_has_no_tables(tmp_path):
    (tmp_path / "claims.toml").write_text('grids = ["grid.json"]')
    runs = fakes.plan_runs(tmp_path, 2)
    assert rehearsal.describe_cells(str(tmp_path), runs) == ""


def test_cells_are_found_by_the_columns_that_runs_fill():
    frame = pd.DataFrame(
        [
            ["a", "x", "1", "2.0"],
            ["a", "y", "1", ""],
            ["b", "x", "", ""],
            ["b", "y", "1", "†"],
        ],
        columns=["task", "rate", "F1, published", "F1, here"],
    )
    assert rehearsal.find_cells(Table("t", "T", frame)) == {
        (("F1",), ()): ["a, x"],
        ((), ("F1",)): ["a, y", "b, y"],
        ((), ()): ["b, x"],  # the paper has no value to compare with
    }
