"""docs/papers/index.md: commands parse, claims have rows, names are written."""

import functools
import os
import re
import shlex

import pytest
from msgspec.structs import replace

from benchmarks import authors_trials
from tests.support import commands
from tf_transfer import experiment, predict
from tf_transfer.config import command_line
from tf_transfer.reports import claims, page, study, summary
from tf_transfer.sweeps import estimate, grid, states

PAPERS = {
    "Wang": "glue",
    "Hart": "tweets",
    "Wang et al.": "stacking",
    "Li": "multitask",
    "Lee": "freezing",
}
FOLDER = os.path.join(commands.ROOT, "experiments")
# What stands for a part of a name.
PARTS = {
    "<task>": "[a-z]\\w*",
    "<size>": "\\d+",
    "<number>": "\\d+",
}
with open(
    os.path.join(commands.ROOT, "docs", "papers", "index.md"), encoding="utf-8"
) as file:
    TABLES = [
        [
            [cell.strip() for cell in line.strip("|").split(" | ")]
            for line in part.splitlines()
            if line.startswith("|")
        ][2:]
        for part in file.read().split("\n## ")
    ]
ROWS, COSTS, SMALL = TABLES  # SMALL: the costs on `mpnet`


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
        for name in grid.list_files(path):
            assert grid.read_grid(name).experiment == PAPERS[paper]
    elif name == "predict":
        with commands.flags_of(predict.Settings, *words):
            pass
    elif name in experiment.EXPERIMENTS:
        assert name == PAPERS[paper]
        command_line.parse(experiment.load(name).Settings, words).resolve()
    else:
        assert module == authors_trials.__name__


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_of_a_paper_has_a_row(paper):
    """Another reading of a claim has the row of the claim."""
    papers_claims = [
        claim
        for claim in claims.read_paper(
            claims.find_file(FOLDER, PAPERS[paper])
        ).claims
        if not claim.reading_of
    ]
    named = [
        name
        for row in ROWS
        if row[0] == paper
        for name in re.findall(r"`(\w[\w-]*)`", row[1])
    ]
    assert sorted(set(named) & {claim.id for claim in papers_claims}) == sorted(
        claim.id for claim in papers_claims
    )
    assert len(named) == len(set(named))


@functools.cache
def written_names(name):
    """What a report calls its tables and figures, by `table` and `figure`.

    Of the runs whose results are kept; of one of them as if it had been made
    at each published row's settings, on the paper's encoder and sizes; and,
    where a paper has several encoders, of all of them with another one beside.
    """
    paper = claims.read_paper(claims.find_file(FOLDER, name))
    kept = summary.read_summary(os.path.join(FOLDER, name, "summary.json"))
    published = claims.read_published(FOLDER, name).get("tables", ())
    rows = [row["settings"] for table in published for row in table["rows"]]
    record = kept["runs"][0]
    made_up = [
        replace(
            record,
            path=f"row {number}",
            model=paper.encoders[0],
            sizes=paper.sizes[record.task],
            max_epochs=settings["max_epochs"],
            key={**record.key, **settings},
        )
        for number, row in enumerate(rows)
        for settings in [{**paper.settings, **row}]
    ]
    both = [
        replace(run, model=model)
        for run in kept["runs"]
        for model in {run.model, paper.encoders[-1]}
    ]
    several = both if len(paper.encoders) > 1 else []
    studies = [
        found
        for runs in (kept["runs"], made_up, several)
        if runs
        for found in study.collect({**kept, "runs": runs}, FOLDER)
    ]
    pages = [page.make_section(found) for found in studies]
    return {
        kind: {
            made.name.removeprefix(f"{section.id}_")
            for section in pages
            for made in getattr(section, f"paper_{kind}s")
        }
        for kind in ("table", "figure")
    }


def names_in(cell):
    """(`table` or `figure`, name) of each that a cell has; `--flags` apart."""
    kinds, after_name = set(), True
    for kind, name in re.findall(r"\b(table|figure)s?\b|`([^`]+)`", cell):
        if kind:
            kinds = {kind} if after_name else kinds | {kind}
        elif not name.startswith("--"):
            yield from ((kind, name) for kind in kinds or {""})
        after_name = not kind


def test_a_cell_s_names_are_read_with_what_they_name():
    cell = "table and figure `a_<task>`, `b`; figure `c`, by `--d`; tables `e`"
    assert sorted(names_in(cell)) == [
        *(("figure", "a_<task>"), ("figure", "b"), ("figure", "c")),
        *(("table", "a_<task>"), ("table", "b"), ("table", "e")),
    ]


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.slow
def test_a_report_can_write_what_a_row_says_it_rebuilds(paper):
    written = written_names(PAPERS[paper])
    named = {
        entry for row in ROWS if row[0] == paper for entry in names_in(row[2])
    }
    assert named
    for kind, name in sorted(named):
        pattern = re.sub("<.*?>", lambda part: PARTS[part[0]], name)
        names = written.get(kind, ())
        assert any(re.fullmatch(pattern, name_there) for name_there in names), (
            f"{kind} {name}: the report of {PAPERS[paper]} writes {names}"
        )


@pytest.mark.parametrize("paper", PAPERS)
def test_the_time_of_a_small_study_is_that_of_its_summary(paper):
    name = PAPERS[paper]
    kept = summary.read_summary(os.path.join(FOLDER, name, "summary.json"))[
        "runs"
    ]
    runs = [run for run in kept if not run.members]  # no ensembles
    # With what each run paid for its prefix: a shared one counts once.
    seconds = sum(run.seconds or 0 for run in runs)
    times = [
        row[4] for row in ROWS if row[0] == paper and " min for " in row[4]
    ]
    assert times
    # A study of two encoders has a row of each.
    said = [re.match(r"(\d+) min for (\d+) runs", time) for time in times]
    assert all(said)
    totals = [sum(int(one[n]) for one in said) for n in (1, 2)]
    assert totals == [round(seconds / 60), len(runs)]


def count(path, runs, flops, tmp_path, monkeypatch):
    """The cells of a row of costs, from what a dry run prints."""
    # Nothing of them is finished, and no name of a run is needed.
    monkeypatch.setattr(states.RunStates, "select", lambda *_: [])
    run_states = states.RunStates(str(tmp_path), runs)
    text = estimate.describe_costs(run_states, 1, flops)
    return [
        f"`{path}`",
        re.search(r"(\S+) runs, \S+ of them pending", text)[1],
        re.search(r"Operations: (\S+),", text)[1],
        re.search(r"Time: (\S+) hours", text)[1],
    ]


@pytest.mark.slow  # reads a whole study
@pytest.mark.parametrize(
    "paper",
    [
        # 8,700 runs are read for seconds; the costs of others are counted alike
        pytest.param(name, marks=pytest.mark.slow if name == "Lee" else ())
        for name in PAPERS
    ],
)
def test_the_page_has_the_cost_of_each_papers_grids(
    paper, monkeypatch, tmp_path
):
    """As `--dry_run --flops=30e12` prints it, without texts and weights."""
    monkeypatch.chdir(commands.ROOT)
    folder = f"experiments/{PAPERS[paper]}"
    paths = [*grid.list_files(folder), folder]
    expanded = {p: grid.expand_all(p, str(tmp_path)) for p in paths[:-1]}
    whole = [run for runs in expanded.values() for run in runs]
    # Grids share runs, such as those of the full model.
    expanded[folder] = [*{run.identity: run for run in whole}.values()]
    for path in (row[1].strip("`") for row in COSTS if row[0] == paper):
        if path not in expanded:  # a grid that no claim of the paper needs
            expanded[path] = grid.expand_all(path, str(tmp_path))
    printed = [
        [paper, *count(path, runs, 30e12, tmp_path, monkeypatch)]
        for path, runs in expanded.items()
    ]
    if len(paths) == 2:  # the only grid is the whole
        del printed[0]
    assert [row for row in COSTS if row[0] == paper] == printed


@pytest.mark.parametrize("row", SMALL, ids=lambda row: row[0])
def test_the_cost_on_mpnet_is_what_a_dry_run_prints(row, tmp_path, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    paper, path, *_ = row
    path = path.strip("`")
    assert path == f"experiments/{PAPERS[paper]}/embedded_mpnet.json"
    runs = grid.expand_all(path, str(tmp_path))
    assert row == [paper, *count(path, runs, 1e12, tmp_path, monkeypatch)]


def test_every_paper_has_the_cost_of_its_grid():
    for table in (COSTS, SMALL):
        assert {paper for paper, *_ in table} == set(PAPERS)
