"""Brings into the site what its pages link to outside of `docs/`.

A page links to a file by its path in the repository, so that the link also
works there. Markdown becomes a page, a source file a page with its text, and
any other file, such as a figure, is copied.
"""

import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).parents[2]
DOCS = "docs/"
FOLDER = "repository/"
IN_NAVIGATION = ("README.md", "CONTRIBUTING.md", "BUILD.md", "CHANGELOG.md")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
# By extension, the language of a source file's highlighting.
_LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".json": "json",
    ".flags": "text",
    ".cfg": "ini",
}
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
_paths: dict[str, str] = {}  # by page of the site, its file in the repository


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the files that pages link to, and those that these link to."""
    _paths.clear()
    waiting = [
        f"{DOCS}{file.src_uri}"
        for file in files.documentation_pages()
        if file.generated_by is None
    ]
    waiting += IN_NAVIGATION
    seen = {*waiting}
    while waiting:
        path = waiting.pop()
        if not path.startswith(DOCS):
            files.append(_add_file(path, config))
        if path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            linked = {_resolve(path, m[1]) for m in _LINK.finditer(text)}
            outside = {
                target
                for target in linked - seen
                if not target.startswith(DOCS) and (ROOT / target).is_file()
            }
            seen |= outside
            waiting += sorted(outside)
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Turns links to files of the repository into links of the site."""
    uri = page.file.src_uri
    path = _paths.get(uri, f"{DOCS}{uri}")

    def rewrite(match: re.Match[str]) -> str:
        target = _resolve(path, match[1])
        if path.startswith(DOCS) and target.startswith(DOCS):
            return match[0]
        if not (ROOT / target).is_file():
            return match[0]
        link = posixpath.relpath(_find_target(target), posixpath.dirname(uri))
        return f"]({link}{match[2] or ''})"

    return _LINK.sub(rewrite, markdown)


def _resolve(path: str, link: str) -> str:
    """The path in the repository of a link in one of its files."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _find_target(path: str) -> str:
    """The path on the site of a file of the repository."""
    if path == "README.md":
        return "index.md"
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    if path in IN_NAVIGATION:
        return path
    if posixpath.splitext(path)[1] in _LANGUAGES:
        return f"{FOLDER}{path}.md"
    return f"{FOLDER}{path}"


def _add_file(path: str, config: MkDocsConfig) -> File:
    target = _find_target(path)
    _paths[target] = path
    language = _LANGUAGES.get(posixpath.splitext(path)[1])
    if language is None:
        source = str(ROOT / path)
        return File.generated(config, target, abs_src_path=source)
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "~" * 8
    content = f"{_UNSEARCHED}# {path}\n\n{fence}{language}\n{text}\n{fence}\n"
    return File.generated(config, target, content=content)
