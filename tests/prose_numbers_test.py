"""Figures in the prose beside generated results are those of the results.

A sentence of `docs/` that has the result of a run goes stale when the run is
made again. So such a sentence names the table, or its figure is in the table.
"""

import os
import re

import pytest

from tests.support import commands, pages

BLOCK = re.compile(
    r"<!-- (?:begin: \w+|generated into \S+: begin) -->.*?<!-- ", re.S
)
# A figure has a sign, a decimal or a percent sign, or is of points.
FIGURE = re.compile(
    r"(?<![\w.,/-])[+-]?\d[\d,]*\.\d+(?![\w.-])"
    r"|(?<![\w.,/-])[+-]\d+\b"
    r"|(?<![\w.,/-])\d+(?= %| points?\b)"
)
STUDY = "## The study\n"  # what a paper's page says of its results
# Figures that are no results of runs, by page. The level of intervals is 95 %.
SETTINGS = {
    "docs/guides/errors.md": {"0.7"},  # the margin of a clear suspect
    "docs/papers/freezing.md": {
        "90"
    },  # the share of the full score that is enough
}


def read_sections(path):
    """The sections of a page that have generated results or are on them."""
    with open(os.path.join(commands.ROOT, path), encoding="utf-8") as file:
        text = file.read()
    if not BLOCK.search(text):
        return []
    return [
        section
        for section in re.split(r"(?m)^(?=## )", text)
        if BLOCK.search(section) or section.startswith(STUDY)
    ]


def find_figures(text):
    """Figures of prose: without tables, commands, code and links."""
    lines = text.splitlines()
    prose = [line for line in lines if not line.startswith(("|", "    "))]
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|arXiv [\d.]+", "", "\n".join(prose))
    return FIGURE.findall(text)


PAGES = [page for page in pages.list_pages() if read_sections(page)]


@pytest.mark.parametrize("page", PAGES)
def test_figures_in_prose_are_in_the_generated_results(page):
    sections = read_sections(page)
    all_results = BLOCK.findall("".join(sections))
    for section in sections:
        results = "".join(BLOCK.findall(section) or all_results)
        computed = set(re.findall(r"[+-]?\d[\d,]*(?:\.\d+)?", results))
        computed |= {figure.lstrip("+-") for figure in computed}
        computed |= {"95", *SETTINGS.get(page, ())}
        assert not set(find_figures(BLOCK.sub("", section))) - computed


def test_a_figure_is_found_in_prose_alone():
    text = (
        "At 1e-3 last 1 loses 26 points (-0.8 to +3.8; 94 %), in minilm's\n"
        "2,000 texts of 4.2. `a 5.5`\n| 6.6 |\n    python 7.7\n"
    )
    expected = ["26", "-0.8", "+3.8", "94"]
    assert find_figures(text) == expected
