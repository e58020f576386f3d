"""docs/papers.md: every row's command parses, and every claim has a row."""

import json
import os
import re
import shlex

import pytest

from benchmarks import authors_trials
from tests import commands
from tf_transfer import experiment
from tf_transfer import predict
from tf_transfer.config import command_line
from tf_transfer.reports import claims
from tf_transfer.sweeps import grid

PAPERS = {
    "Wang": "glue",
    "Hart": "tweets",
    "Wang et al.": "stacking",
    "Li": "multitask",
    "Lee": "freezing",
}
with open(
    os.path.join(commands.ROOT, "docs", "papers.md"), encoding="utf-8"
) as file:
    ROWS = [
        [cell.strip() for cell in line.strip("|\n").split(" | ")]
        for line in file
        if line.startswith("|")
    ][2:]


def test_every_row_is_of_a_paper_and_whole():
    assert {paper for paper, *_ in ROWS} == set(PAPERS)
    for row in ROWS:
        assert len(row) == 6 and all(row), row


@pytest.mark.parametrize(
    "paper, command", sorted({(row[0], row[3]) for row in ROWS})
)
def test_the_command_of_a_row_parses(paper, command, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    python, option, module, *words = shlex.split(command.strip("`"))
    assert [python, option] == ["python", "-m"]
    name = module.removeprefix("tf_transfer.")
    if name == "sweep":
        [path] = words
        assert grid.read(path)["experiment"] == PAPERS[paper]
    elif name == "predict":
        with commands.flags_of(predict.define_flags, *words):
            pass
    elif name in experiment.EXPERIMENTS:
        assert name == PAPERS[paper]
        command_line.parse(experiment.load(name).Settings, words).resolve()
    else:
        assert module == authors_trials.__name__


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_of_a_paper_has_a_row(paper):
    folder = os.path.join(commands.ROOT, "experiments")
    known = claims.read(claims.find_file(folder, PAPERS[paper])).claims
    named = [
        name
        for row in ROWS
        if row[0] == paper
        for name in re.findall(r"`(\w[\w-]*)`", row[1])
    ]
    assert sorted(set(named) & {claim.id for claim in known}) == sorted(
        claim.id for claim in known
    )
    assert len(named) == len(set(named))


@pytest.mark.parametrize("paper", PAPERS)
def test_the_time_of_a_small_study_is_that_of_its_summary(paper):
    name = PAPERS[paper]
    path = os.path.join(commands.ROOT, "experiments", name, "summary.json")
    with open(path, encoding="utf-8") as file:
        runs = json.load(file)["runs"]
    seconds = sum(  # what each run paid: a shared prefix counts once
        run["seconds"]
        - (run["prefix_build_seconds"] or 0)
        + (run["prefix_seconds"] or 0)
        for run in runs
    )
    times = [
        row[4] for row in ROWS if row[0] == paper and " min for " in row[4]
    ]
    assert times
    for time in times:
        said = re.match(r"(\d+) min for (\d+) runs", time)
        assert said is not None
        assert [int(n) for n in said.groups()] == [
            round(seconds / 60),
            len(runs),
        ]
