"""The page that answers the question is what its command makes."""

import os

import numpy as np
import pytest

from benchmarks import (
    fewest_blocks,
    how_much,
    loss_figure,
    verdicts_by_encoder,
)
from benchmarks.fewest_blocks import BlockLoss
from tests.reports.made_up import (
    ALL,
    collect,
    judge_near,
    make_paper,
    make_runs,
    NEAR,
)
from tests.support import commands
from tf_transfer.comparison.decisions import NO, OPEN, Row, YES
from tf_transfer.comparison.estimates import Ranged, UNKNOWN

FOLDER = os.path.join(commands.ROOT, "experiments")
SUMMARIES = how_much.list_summaries(FOLDER)
LARGE = ("glue", "methods", "tweets")  # summaries with the most runs


def read_page():
    path = os.path.join(commands.ROOT, "docs", "how_much.md")
    with open(path, encoding="utf-8") as file:
        return file.read()


# === The page ===


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] * is_large, id=name)
        for path in SUMMARIES
        for name in [os.path.basename(os.path.dirname(path))]
        for is_large in [name in LARGE]
    ],
)
def test_the_rows_of_a_summary_are_on_the_page(path):
    results = how_much.read_results([path], FOLDER)
    parts = how_much.make_parts(results)
    page = read_page()
    for name in ("losses", "verdicts", "costs"):
        for line in parts[name].splitlines():
            assert line in page
    for statement in results.statements:
        for encoder in verdicts_by_encoder.list_encoders(results.studies):
            for text in verdicts_by_encoder.describe_claims(
                results.studies, statement, encoder
            ):
                assert text in page


@pytest.mark.slow
def test_the_page_is_what_its_command_makes():
    page = read_page()
    parts = how_much.make_parts(how_much.read_results(SUMMARIES, FOLDER))
    for name, text in parts.items():
        marks = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        assert f"\n\n{text}\n\n".join(marks) in page
    figure = os.path.join(FOLDER, "how_much", f"{loss_figure.FIGURE}.png")
    assert os.path.isfile(figure)


def test_the_claims_of_statements_are_claims_of_their_papers():
    path = os.path.join(FOLDER, how_much.STATEMENTS)
    for statement in verdicts_by_encoder.read_statements(path):
        claims = os.path.join(FOLDER, statement.paper, "claims.toml")
        with open(claims, encoding="utf-8") as file:
            text = file.read()
        for name in statement.claims:
            assert f'"{name}"' in text, name


# === The selection ===


def make_block_losses(**losses):
    """Losses by `blocks_<number>`: a difference and a word."""
    return [
        BlockLoss(int(name[7:]), Row(name, difference=difference), word)
        for name, (difference, word) in losses.items()
    ]


def test_the_fewest_blocks_lose_at_most_the_margin():
    losses = make_block_losses(
        blocks_0=(UNKNOWN, ""),
        blocks_1=(Ranged(-9.0, -10.0, -8.0), NO),
        blocks_2=(Ranged(-1.2, -2.0, -0.4), OPEN),
        blocks_3=(Ranged(-1.0, -3.0, 1.0), OPEN),
        blocks_4=(Ranged(0.5, 0.1, 0.9), YES),
    )
    fewest = fewest_blocks.find_fewest(losses, 1.0)
    assert fewest is not None and fewest.blocks == 3
    assert fewest_blocks.find_range(losses[1:]) == (2, 4)
    assert fewest_blocks.find_fewest(losses[:3], 1.0) is None
    assert fewest_blocks.find_range(losses[1:2]) == (None, None)


def make_study(**changes):
    """Everything at 80; of 12 blocks the last 1, 2 and 4, and others."""
    paper = make_paper()
    groups = [make_runs(paper, "rte", ALL, 80 + np.array(NEAR), **changes)]
    for layers, middle, more in (
        ("1", 70, {}),
        ("2", 79.5, {}),
        ("2", 79.6, {"frozen_prefix": "cached"}),
        ("4", 80, {}),
        ("0", 90, {"method": "bias"}),  # no number of blocks
        ("1", 90, {"blocks": "1"}),  # not the last
    ):
        settings = {"trainable_layers": layers, **more}
        groups.append(
            make_runs(
                paper, "rte", settings, middle + np.array(NEAR), **changes
            )
        )
    return collect(paper, *groups)


def test_a_study_has_its_last_blocks_next_to_everything():
    [losses] = fewest_blocks.list_losses(make_study())
    assert (losses.task, losses.depth) == ("rte", 12)
    assert [one.blocks for one in losses.block_losses] == [1, 2, 4]
    assert [one.word for one in losses.block_losses] == [NO, YES, YES]
    assert losses.probe is None
    fewest = fewest_blocks.find_fewest(losses.block_losses, 1.0)
    assert fewest is not None and fewest.row.is_cached
    assert fewest.row.difference.value == pytest.approx(-0.4)


def test_each_encoder_has_its_rows_and_its_panel():
    losses = [
        one
        for model in ("minilm", "mpnet")
        for one in fewest_blocks.list_losses(make_study(model=model))
    ]
    table = how_much.make_losses(losses)
    assert "| `minilm` | rte" in table and "| `mpnet` | rte" in table
    answer = how_much.describe_answer(losses)
    assert "- **`mpnet`**, 12 blocks. In 1 of 1 comparisons" in answer
    assert "The fewest blocks: 2 on rte." in answer
    assert loss_figure.draw_losses(losses).png.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "claim, middles, outcome",
    [
        ({"sign": -1}, (70, 80), "as claimed, here -10"),
        (
            {"published": -2.0},
            (70, 80),
            "as claimed (more than twice as large as published), here -10",
        ),
        ({"published": -2.0}, (80, 70), "the opposite, here +10"),
        ({"published": -2.0}, (80, 80), "unclear, here"),
        ({"kind": "equal", "margin": 1}, (80, 80), "as claimed, here"),
        ({"kind": "equal", "margin": 1}, (70, 80), "the opposite, here -10"),
    ],
)
def test_another_encoder_has_an_outcome(claim, middles, outcome):
    verdict = judge_near(claim, {"rte": middles})
    assert verdict.word == "not comparable"
    text = verdicts_by_encoder.describe_outcome(verdict)
    assert text.startswith(outcome)


def test_comparisons_judged_one_by_one_have_a_tally():
    # The mean is as claimed, and one task of two is not.
    claim = {"over": "each", "sign": -1, "tasks": ("rte", "mrpc")}
    verdict = judge_near(claim, {"rte": (40, 80), "mrpc": (81, 80)})
    text = verdicts_by_encoder.describe_outcome(verdict)
    assert text.startswith("the opposite (1 of 2 lower, not"), text
    assert "here -19.5" in text
