"""The links of the documents lead somewhere, their figures are our results'."""

import os
import re

import pytest

from tests.readme_test import DOCUMENTS, read
from tests.support import commands as commands_lib
from tf_transfer.reports import summary as summary_lib

PAPERS = ("freezing", "glue", "multitask", "stacking", "tweets")


def links(name):
    """The files that a document links to, relative to the repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", read(name)):
        if not re.match(r"https?://|#", target):
            path = os.path.join(os.path.dirname(name), target.split("#")[0])
            yield os.path.normpath(path)


@pytest.mark.parametrize(
    "name",
    [
        *DOCUMENTS,
        "CHANGELOG.md",
        "experiments/README.md",
    ],
)
def test_every_link_leads_to_a_file(name):
    missing = [
        path
        for path in links(name)
        if not os.path.exists(os.path.join(commands_lib.ROOT, path))
    ]
    assert not missing


def tables(text):
    """The tables of a Markdown text, each a list of rows of cells."""
    parsed = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        rows = [
            [
                re.sub(r"\s*(\[\d+\])+$", "", cell.strip())
                for cell in line.strip("|").split("|")
            ]
            for line in block.splitlines()
        ]
        parsed.append([rows[0], *rows[2:]])
    return parsed


def is_cut_from(small, table):
    """Whether every row of `small` is a row of `table`, columns left out."""
    columns = []
    for name in small[0]:
        if name not in table[0]:
            return False
        columns.append(table[0].index(name))
    rows = [[row[column] for column in columns] for row in table[1:]]
    return all(row in rows for row in small[1:])


def test_a_headline_table_is_cut_from_the_results():
    """The table of the time that the cache saves is in results.md."""
    text = read("docs/guides/feature_cache.md")
    shown = tables(text.split("## Time saved")[1])
    results = tables(read("experiments/prefix_cache/results.md"))
    assert len(shown[0][0]) <= 6
    assert any(is_cut_from(shown[0], table) for table in results)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_minutes_of_a_study_are_those_of_its_summary(paper):
    text = read(f"docs/papers/{paper}.md")
    runs, minutes = re.search(
        r"(\d+)\s+runs\s+train\s+for\s+(\d+)\s+minutes\s+in\s+all", text
    ).groups()
    summary = summary_lib.read_summary(
        os.path.join(commands_lib.ROOT, "experiments", paper, "summary.json")
    )
    trained = [run for run in summary["runs"] if not run.members]
    # With what each run paid for its prefix: a shared one counts once.
    seconds = sum(run.seconds or 0 for run in trained)
    assert int(runs) == len(trained)
    assert int(minutes) == round(seconds / 60)
