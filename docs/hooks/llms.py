"""Writes `llms.txt`: every page of the site with its first sentence."""

import pathlib
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import StructureItem
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

_navigation: list[Navigation] = []


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """Keeps the navigation for the end of the build."""
    _navigation[:] = [nav]
    return nav


def on_post_build(*, config: MkDocsConfig) -> None:
    """Writes the file to the root of the site."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for part in _navigation[0].items:
        lines += [f"## {part.title}", "", *_list_pages(part), ""]
    path = pathlib.Path(config.site_dir, "llms.txt")
    path.write_text("\n".join(lines), encoding="utf-8")


def _list_pages(item: StructureItem) -> list[str]:
    if isinstance(item, Page):
        sentence = _find_sentence(item.markdown or "")
        return [f"- [{item.title}]({item.url}): {sentence}"]
    if isinstance(item, Section):
        return [line for child in item.children for line in _list_pages(child)]
    return []


def _find_sentence(markdown: str) -> str:
    """The first sentence of a page, without links and marks."""
    for part in markdown.split("\n\n"):
        if re.match(r"(?!```)[A-Z`*\[]", part):
            text = " ".join(part.split()).replace("**", "")
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
            return re.split(r"(?<=[.?])\s|(?<=\):)\s", text)[0].rstrip(":")
    return ""
