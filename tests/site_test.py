"""The navigation of the site: every page once, and none that is not there."""

import itertools
import os
import re

from tests.readme_test import read
from tests.support import commands, pages
from tf_transfer import __main__ as tf_transfer_main

COMMANDS = "reference/commands/"  # written when the site is built


def read_navigation():
    """The pages that mkdocs.yml names, relative to docs/."""
    navigation = read("mkdocs.yml").partition("\nnav:\n")[2]
    return re.findall(r"^ +- (?:.+: )?(\S+\.md)$", navigation, re.M)


def test_the_navigation_has_each_page_once():
    named = read_navigation()
    assert len(named) == len({*named})
    written = {page.removeprefix("docs/") for page in pages.list_pages()}
    below_docs = {
        page for page in named if "/" in page and not page.startswith(COMMANDS)
    }
    assert below_docs == written


def test_pages_from_outside_docs_exist():
    outside = [page for page in read_navigation() if "/" not in page]
    assert outside[0] == "index.md"  # README
    for page in outside[1:]:
        assert os.path.isfile(os.path.join(commands.ROOT, page)), page


def test_the_navigation_has_each_command():
    named = {
        page.removeprefix(COMMANDS).removesuffix(".md")
        for page in read_navigation()
        if page.startswith(COMMANDS)
    }
    groups = tf_transfer_main.GROUPS.values()
    assert named == {"index", *itertools.chain(*groups)}
