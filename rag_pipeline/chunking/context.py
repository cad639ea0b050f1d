"""The line under which a chunk is embedded and indexed: what a reader knows who came to it from the document's top."""

from __future__ import annotations

from collections.abc import Sequence

from rag_pipeline.config import ContextLine
from rag_pipeline.contracts import HEADING_SEPARATOR

LONGEST_CONTEXT = 200
"""In characters. A title that is a whole paragraph by mistake must not drown the chunks below it."""


def context_of(kind: ContextLine, title: str | None, heading_path: Sequence[str]) -> str:
    """The line that a corpus wants; for ``llm`` the one of title and headings, which a model's line comes to stand for."""
    if kind == "none":
        return ""
    return context_line(title, () if kind == "title" else heading_path)


def context_line(title: str | None, heading_path: Sequence[str]) -> str:
    """Title and headings on one line, a name that repeats its neighbour only once; empty when there is neither.

    When they are too long together, the outer ones make room: the innermost heading says most about the chunk.
    """
    names: list[str] = []
    for name in (title or "", *heading_path):
        name = " ".join(name.split())
        if name and (not names or name != names[-1]):
            names.append(name)
    while len(names) > 2 and len(HEADING_SEPARATOR.join(names)) > LONGEST_CONTEXT:
        del names[1]
    line = HEADING_SEPARATOR.join(names)
    if len(line) <= LONGEST_CONTEXT:
        return line
    if len(names) == 2:
        room = LONGEST_CONTEXT - len(HEADING_SEPARATOR)
        inner = clipped(names[1], max(room - len(names[0]), room // 2))
        return f"{clipped(names[0], room - len(inner))}{HEADING_SEPARATOR}{inner}"
    return clipped(line, LONGEST_CONTEXT)


def clipped(name: str, length: int) -> str:
    """The beginning of a name, up to a space if there is one in its last quarter."""
    if len(name) <= length:
        return name
    space = name.rfind(" ", 3 * length // 4, length)
    return name[: space if space > 0 else length].rstrip()
