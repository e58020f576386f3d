"""Writes a page for each command, with every flag, from the settings."""

import dataclasses
import importlib
import inspect
import itertools
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tf_transfer import __main__ as commands
from tf_transfer.config import command_line, help as help_lib
from tf_transfer.config.fields import Field, Group

FOLDER = "reference/commands"
_BOUNDS = {"at_least": "≥", "above": ">", "at_most": "≤", "below": "<"}
_PAGE = re.compile(r"\bdocs/([a-z]+/([a-z_]+)\.md)")
_FLAG = re.compile(r"(?<![\w`-])(--[a-z_]+(?:=[\w.]+)?)(?![\w`])")
# A search finds what other commands share with this one in its page alone.
_FIRST = "train"
_BOOST = "---\nsearch:\n  boost: 2\n---\n\n"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds a page per command, and one that lists them."""
    pages = {"index": _list_commands()}
    for name in itertools.chain(*commands.GROUPS.values()):
        boost = _BOOST if name == _FIRST else ""
        pages[name] = boost + _describe_command(name)
    for name, content in pages.items():
        files.append(
            File.generated(config, f"{FOLDER}/{name}.md", content=content)
        )
    return files


def _list_commands() -> str:
    lines = [
        "# Commands and flags",
        "",
        "`tf-transfer COMMAND` and `python -m tf_transfer.COMMAND` are the "
        "same. `--help` prints the page of a command.",
        "",
    ]
    for title, names in commands.GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            summary = _read_document(name).partition("\n")[0]
            lines.append(f"- [`{name}`]({name}.md): {summary}")
        lines.append("")
    return "\n".join(lines)


def _read_document(name: str) -> str:
    """The docstring that begins the command's --help."""
    module = importlib.import_module(commands.module_of(name))
    return inspect.getdoc(module) or ""


def _describe_command(name: str) -> str:
    """The page of a command: its docstring, then its flags by group."""
    title, _, rest = _read_document(name).partition("\n\n")
    cls = commands.settings_of(name)
    fields = {field.name: field for field in command_line.list_flags(cls)}
    shared = set() if name == _FIRST else _read_help(_FIRST)
    lines = [f"# {name}", "", title, "", _add_links(rest), ""]
    for group in Group:
        names = [n for n in _order(fields) if _group_of(fields[n]) == group]
        if names:
            lines += [f"## {group}", ""]
        for flag in names:
            is_searched = fields[flag].metadata["help"] not in shared
            lines += _describe_flag(fields[flag], is_searched)
    return "\n".join(lines)


def _order(fields: dict[str, Field]) -> list[str]:
    first = [name for name in help_lib.FIRST_FLAGS if name in fields]
    return [*dict.fromkeys([*first, *fields])]


def _group_of(field: Field) -> Group:
    if field.name in help_lib.FIRST_FLAGS:
        return Group.FIRST
    group: Group = field.metadata["group"]
    return group


def _read_help(name: str) -> set[str]:
    cls = commands.settings_of(name)
    return {f.metadata["help"] for f in command_line.list_flags(cls)}


def _describe_flag(field: Field, is_searched: bool) -> list[str]:
    """The heading of a flag, its help, and its values."""
    name = field.name
    is_bool = field.type is bool
    allowed = field.metadata
    values = []
    if allowed["choices"]:
        values.append(" or ".join(f"`{c}`" for c in allowed["choices"]))
    elif is_bool:
        values.append("`true` or `false`")
    bounds = [
        f"{sign} {allowed[bound]:g}"
        for bound, sign in _BOUNDS.items()
        if allowed[bound] is not None
    ]
    values += [", ".join(bounds)] if bounds else []
    facts = [f"Values: {text}." for text in values]
    if field.default not in (None, "", (), dataclasses.MISSING):
        facts.append(f"Default: `{help_lib.as_text(field.default)}`.")
    exclude = "" if is_searched else " data-search-exclude"
    heading = f"### `--{name}` {{ #{name}{exclude} }}"
    text = _add_links(allowed["help"])
    return [heading, "", text, "", " ".join(facts), ""]


def _add_links(text: str) -> str:
    """Makes links of pages that a help text names, and code of its flags."""
    lines = [
        line if line.startswith("    ") else _FLAG.sub(r"`\1`", line)
        for line in text.splitlines()
    ]
    return _PAGE.sub(
        lambda match: f"[{match[2].replace('_', ' ')}](../../{match[1]})",
        "\n".join(lines),
    )
