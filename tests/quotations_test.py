"""What pages and claims quote from a paper is in the paper's text."""

import os
import pathlib
import re
import tomllib

import pytest

from tests.papers_page_test import PAPERS, ROWS
from tests.support import commands

ROOT = pathlib.Path(commands.ROOT)
TEXTS = os.path.join(commands.ROOT, os.pardir, "shared", "papers")
FILES = {
    "glue": "000_2962ade1df42235d.txt",
    "tweets": "001_c50286edc9c20473.txt",
    "stacking": "002_2ddc3e0e9754e259.txt",
    "multitask": "003_d52d61145f06fae4.txt",
    "freezing": "004_ba8f40e4627aadd3.txt",
}
GENERATED = r"<!-- (?:generated|begin).*?end[^>]*-->"
FENCED = r"(?ms)^```.*?^```"
CODE = r"(?m)^ {4}.*$|`[^`\n]*`"


def plain(text):
    """Letters, digits and signs in lower case; quotation marks left out.

    Line breaks of the texts have taken spaces with them, so spaces go too.
    """
    text = text.replace("–", "-").replace("−", "-").lower()
    return re.sub(r"[\s\"'’“”`]", "", text)


def find_missing(text, paper):
    """The quotations of a text that are not in a paper.

    `[...]` stands for what a quotation leaves out, `[s]` for a changed letter.
    """
    paper_text = plain(paper)
    missing = []
    for quotation in re.findall(r'"([^"]+)"', re.sub(r"\s+", " ", text)):
        parts = re.split(r"\[[^]]*\]|\.\.\.", quotation)
        if not all(plain(part.strip(" .,;:")) in paper_text for part in parts):
            missing.append(quotation)
    return missing


def read_page(experiment):
    page = (ROOT / "docs" / "papers" / f"{experiment}.md").read_text(
        encoding="utf-8"
    )
    for pattern in (GENERATED, FENCED, CODE):
        page = re.sub(pattern, "", page, flags=re.S * (pattern == GENERATED))
    return page


def read_rows(experiment):
    """What the rows of docs/papers/index.md say of a paper, and their notes."""
    return " ".join(
        f"{row[1]} {row[-1]}" for row in ROWS if PAPERS[row[0]] == experiment
    )


def read_claims(experiment):
    path = ROOT / "experiments" / experiment / "claims.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    keys = ("text", "note", "margin_from")
    of_claims = [
        claim.get(key, "") for claim in content["claim"] for key in keys
    ]
    return " ".join([*content["notes"], *of_claims])


def read_statements(experiment):
    """What docs/how_much.md quotes from a paper."""
    path = ROOT / "experiments" / "how_much" / "statements.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return " ".join(
        f'"{statement["quote"]}"'
        for statement in content["statement"]
        if statement["paper"] == experiment
    )


def test_a_quotation_is_compared_without_its_typography():
    paper = "We  argue that\ntransfer learn-\ning saves 3–5 “layers” of 12."
    quoted = '"saves 3-5 layers", "we [...] argue that", "save[s] 3"'
    assert find_missing(quoted, paper) == []
    other = '"saves 4 layers" and "argues"'
    assert find_missing(other, paper) == ["saves 4 layers", "argues"]


@pytest.mark.shared
@pytest.mark.parametrize("experiment", FILES)
@pytest.mark.parametrize(
    "read", [read_page, read_rows, read_claims, read_statements]
)
def test_every_quotation_is_in_the_paper(experiment, read):
    path = os.path.join(TEXTS, FILES[experiment])
    with open(path, encoding="utf-8") as file:
        paper = file.read()
    assert find_missing(read(experiment), paper) == []
