"""Directives and roles that docutils does not have, read so that their text is kept and their options are not.

Sphinx's documents are full of them. This module is imported only where docutils is at hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en

_DIRECTIVE_NAMES = re.compile(r"\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([\w.+:-]+?)[ \t]?::(?=\s|\Z)")
_ROLE_NAMES = re.compile(r":([\w.+:-]+?):(?=`)|(?<=`):([\w.+:-]+?):|role::[ \t]+[\w.+:-]*\(?[ \t]*([\w.+:-]+)")
_TITLE_AND_TARGET = re.compile(r"(.+?)\s*<[^<>]*>$", re.DOTALL)

_CODE = frozenset({
    "code", "code-block", "sourcecode", "code-cell", "console", "digraph", "doctest", "graph", "graphviz", "ipython",
    "jupyter-execute", "mermaid", "parsed-literal-block", "plantuml", "productionlist", "prompt", "testcleanup",
    "testcode", "testoutput", "testsetup", "uml",
})  # fmt: skip
_LISTS_OF_DOCUMENTS = frozenset({"toctree", "autosummary"})
_CONDITIONS = frozenset({"only", "ifconfig", "if-builder"})
_SILENT = frozenset({
    "contents", "currentmodule", "date", "default-domain", "highlight", "index", "meta", "section-numbering", "sectnum",
    "tabularcolumns", "target-notes",
})  # fmt: skip
"""Directives whose arguments are no text, or that would add what the source does not say (a table of contents, today)."""


class _AnyOption(dict[str, Callable[[str], Any]]):
    """Options of every name, with any value or none."""

    def __bool__(self) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[[str], Any]:
        return directives.unchanged


class _Unknown(Directive):
    """A directive whose argument and content are text."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[Any] = _AnyOption()

    def run(self) -> list[nodes.Node]:
        container = nodes.container()
        if self.arguments and self.name.lower() not in _CONDITIONS:
            inline, _ = self.state.inline_text(self.arguments[0], self.lineno)
            container += nodes.paragraph("", "", *inline)
        # Conditions may hold whole sections.
        self.state.nested_parse(self.content, self.content_offset, container, match_titles=self.name.lower() in _CONDITIONS)
        return [container]


class _Code(Directive):
    """A directive whose content is literal."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[Any] = _AnyOption()

    def run(self) -> list[nodes.Node]:
        # Without a blank line after it, the argument runs on into the code.
        language, _, start = (self.arguments or [""])[0].partition("\n")
        code = "\n".join([*([start, ""] if start else []), *self.content])
        block = nodes.literal_block(code, code)
        if language:
            block["classes"] += ["code", language]
        caption = self.options.get("caption")
        return [*([nodes.paragraph("", caption)] if caption else []), block]


class _ListOfDocuments(Directive):
    """A directive whose lines name documents, some with a title."""

    has_content = True
    option_spec: ClassVar[Any] = _AnyOption()

    def run(self) -> list[nodes.Node]:
        items = nodes.bullet_list()
        for line in self.content:
            name = _shown(line.strip())
            if name and not name.startswith(":") and "*" not in name:
                items += nodes.list_item("", nodes.paragraph("", name))
        return [items] if items.children else []


class _Silent(Directive):
    """A directive without text."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[Any] = _AnyOption()

    def run(self) -> list[nodes.Node]:
        return []


def register(text: str) -> None:
    """Make known to docutils what a document uses beyond docutils, and forget the roles of the document before it."""
    for name in {name.lower() for name in _DIRECTIVE_NAMES.findall(text)}:
        if (handler := _directive(name)) is not None:
            directives.register_directive(name, handler)
    roles._roles.clear()  # type: ignore[attr-defined]
    unknown_role: Any = _unknown_role  # the stubs know only roles that make references
    for groups in set(_ROLE_NAMES.findall(text)):
        for name in filter(None, (group.lower() for group in groups)):
            if name not in en.roles:
                roles.register_local_role(name, unknown_role)


def _directive(name: str) -> type[Directive] | None:
    """The directive to register under a name; None where docutils' own does well."""
    if name in _SILENT:
        return _Silent
    if name in _CODE:
        return _Code
    if name in _LISTS_OF_DOCUMENTS:
        return _ListOfDocuments
    return None if name in en.directives else _Unknown


def _unknown_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = None
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    return [nodes.inline(rawtext, _shown(nodes.unescape(text)))], []


def _shown(text: str) -> str:
    """The title of ``Title <target>``; of a target alone, the target without Sphinx's leading marks."""
    match = _TITLE_AND_TARGET.match(text)
    return match.group(1) if match else text.lstrip("!~")
