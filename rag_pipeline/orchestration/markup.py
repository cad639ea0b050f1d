"""The Dagster UI reads tables and descriptions as Markdown: names of documents and queries are to be shown as they are."""

from __future__ import annotations

import re

_READ_AS_MARKUP = re.compile(
    r"[\\*\[\]|~$]"
    r"|<(?=[A-Za-z/!?])"  # a tag
    r"|&(?=#?\w+;)"  # an entity
    r"|(?<![^\W_])_|_(?![^\W_])"  # `__init__` would be bold; within a word an underscore is one
)
_ESCAPED = re.compile(r"\\([\\*\[\]|~$<&_`])")


def escaped(text: str) -> str:
    """Text in which Markdown finds no markup but ``code``, which sentences of ours contain."""
    return _READ_AS_MARKUP.sub(r"\\\g<0>", text)


def escaped_name(text: str) -> str:
    """A name, in which Markdown finds no markup at all."""
    return escaped(text).replace("`", "\\`")


def plain(text: str) -> str:
    """What was escaped, for those who do not read Markdown."""
    return _ESCAPED.sub(r"\1", text)
