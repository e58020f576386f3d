"""What a pass over one task does to the scores of the others, on known runs."""

import pytest

from tests.reports.composed import compose
from tests.reports.composed import figures
from tests.reports.composed import tables
from tests.reports.synthetic_multitask import lines_of
from tests.reports.synthetic_multitask import ORDER
from tests.reports.synthetic_multitask import write_lines
from tf_transfer.reports import document
from tf_transfer.reports import reading


def passes_of_two_phases():
    """A first phase, then two epochs of everything."""
    first = [(task, (10, 10, 10)) for task in ORDER]
    return [
        *lines_of(1, 1, first),
        *lines_of(
            2,
            2,
            [
                ("paraphrase", (40, 80, 50)),
                ("similarity", (37, 80, 70)),
                ("sentiment", (47, 79, 66)),
            ],
        ),
        *lines_of(
            2,
            3,
            [
                ("paraphrase", (46, 85, 60)),
                ("similarity", (45, 84, 80)),
                ("sentiment", (49, 84, 79)),
            ],
        ),
    ]


def test_a_change_is_from_the_pass_before_it_in_its_phase(tmp_path):
    write_lines(tmp_path, passes_of_two_phases())
    parts = compose(tmp_path)
    rows = tables(parts)["forgetting_A_cs224n"]
    changes = {
        row["a pass over"]: (
            row["SST accuracy"],
            row["Quora accuracy"],
            row["STS r"],
        )
        for row in rows
    }
    assert changes == {
        "sentiment": ("+7.00", "-0.50", "-2.50"),  # +10 and +4, ...
        "paraphrase": ("-1.00", "+6.00", "-6.00"),  # its first is left out
        "similarity": ("-2.00", "-0.50", "+20.00"),
    }
    assert figures(parts) == {"forgetting_A_cs224n", "passes_A_cs224n"}
    text = document.to_markdown(parts)
    assert "a pass over similarity changes SST accuracy by -2.00" in text


def test_seeds_have_a_mean_and_a_deviation_of_change(tmp_path):
    lines = passes_of_two_phases()
    write_lines(tmp_path, lines)
    lines[-1] = lines_of(2, 3, [("sentiment", (51, 84, 79))])[0]
    write_lines(tmp_path, lines, seed=1)
    [row] = [
        row
        for row in tables(compose(tmp_path))["forgetting_A_cs224n"]
        if row["a pass over"] == "sentiment"
    ]
    assert row["n"] == "2" and row["SST accuracy"] == "+7.50 ± 0.71"


@pytest.mark.parametrize("train", ["head", "all"])
def test_only_passes_that_train_the_encoder_count(train, tmp_path):
    lines = [{**line, "phase": 1} for line in passes_of_two_phases()[3:]]
    write_lines(tmp_path, lines, train=train)
    has = "forgetting_A_cs224n" in tables(compose(tmp_path))
    assert has == (train == "all")
    [record] = reading.read_runs(str(tmp_path))[0]
    assert bool(record["passes"]) == has


def test_the_figures_show_the_paper_s_best_recipe_where_it_was_run(tmp_path):
    lines = passes_of_two_phases()
    for seed in range(3):
        write_lines(tmp_path, lines, layer_decay=0.95, seed=seed)
    write_lines(tmp_path, lines)
    figure = next(
        part for part in compose(tmp_path) if isinstance(part, document.Figure)
    )
    assert "decay" not in figure.caption


def test_an_epoch_is_read_once_and_its_passes_beside_it(tmp_path):
    write_lines(tmp_path, passes_of_two_phases())
    [record] = reading.read_runs(str(tmp_path))[0]
    assert [epoch["validation"] for epoch in record["epochs"]] == [
        line["validation"]["overall"] for line in passes_of_two_phases()[2::3]
    ]
    assert [line["task"] for line in record["passes"]] == [*ORDER] * 2
