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


def list_pages_outside():
    """The pages of the navigation that the root of the checkout has."""
    return [
        page
        for page in read_navigation()
        if "/" not in page
        and not os.path.isfile(os.path.join(commands.ROOT, "docs", page))
    ]


def named_commands():
    return [page for page in read_navigation() if page.startswith(COMMANDS)]


def test_the_navigation_has_each_page_once():
    named = read_navigation()
    assert len(named) == len({*named})
    written = {page.removeprefix("docs/") for page in pages.list_pages()}
    outside = {*list_pages_outside(), *named_commands()}
    assert {*named} - outside == written


def test_pages_from_outside_docs_exist():
    outside = list_pages_outside()
    assert outside[0] == "index.md"  # README
    for page in outside[1:]:
        assert os.path.isfile(os.path.join(commands.ROOT, page)), page


def test_the_navigation_has_each_command():
    named = {
        page.removeprefix(COMMANDS).removesuffix(".md")
        for page in named_commands()
    }
    groups = tf_transfer_main.GROUPS.values()
    assert named == {"index", *itertools.chain(*groups)}
