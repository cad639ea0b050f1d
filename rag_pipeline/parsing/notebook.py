"""Jupyter notebooks: Markdown cells as Markdown, code cells in fences with what they printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.encoding import clean
from rag_pipeline.parsing.markdown_blocks import find_blocks
from rag_pipeline.parsing.reasons import TOO_DEEP
from rag_pipeline.parsing.sections import build_sections

MEDIA_TYPE = "application/x-ipynb+json"

_LONGEST_OUTPUT = 2_000
"""Characters; the rest of a longer output is mostly logs and frames."""
_FENCES = re.compile(r"^\s*(`{3,})", re.MULTILINE)
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def parse_notebook(text: str) -> Parsed:
    """Parse a decoded notebook of format 3 or 4. The title is the first heading of level 1.

    Raises:
        ParseError: it is no notebook, or its cells are empty.
    """
    try:
        notebook = json.loads(text)
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
    except ValueError as error:
        raise ParseError(f"damaged notebook: {error}") from error
    cells = _cells(notebook)
    language = _language(notebook)
    body = clean("\n\n".join(filter(None, (_cell_text(cell, language) for cell in cells))))
    if not body.strip():
        raise ParseError("notebook whose cells hold no text")
    blocks = find_blocks(body)
    return Parsed(
        text=body,
        media_type=MEDIA_TYPE,
        title=next((heading.title for heading in blocks.headings if heading.level == 1), None),
        sections=build_sections(body, blocks.headings),
        atoms=tuple(blocks.atoms),
    )


def _cells(notebook: Any) -> list[Any]:
    found = notebook.get("cells") if isinstance(notebook, dict) else None
    if found is None and isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
        found = [cell for sheet in notebook["worksheets"] if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]
    if not isinstance(found, list):
        raise ParseError("not a notebook: it has no cells")
    return [cell for cell in found if isinstance(cell, dict)]


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for key in ("language_info", "kernelspec"):
        named = metadata.get(key) if isinstance(metadata, dict) else None
        name = named.get("name" if key == "language_info" else "language") if isinstance(named, dict) else None
        if isinstance(name, str) and re.fullmatch(r"[\w+#.-]+", name):
            return name
    return "python"


def _joined(value: Any) -> str:
    """Lines as notebooks store them: one text, or a list of pieces."""
    if isinstance(value, list):
        value = "".join(piece for piece in value if isinstance(piece, str))
    return value if isinstance(value, str) else ""


def _cell_text(cell: dict[str, Any], language: str) -> str:
    source = _joined(cell.get("source", cell.get("input"))).strip("\n")
    match cell.get("cell_type"):
        case "code":
            parts = [_fenced(source, language)] if source.strip() else []
            return "\n\n".join([*parts, *(_fenced(output, "") for output in _outputs(cell))])
        case "heading":
            level = cell.get("level")
            return f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {' '.join(source.split())}"
    return source


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell.get("outputs") or ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        shown = data.get("text/plain") if isinstance(data, dict) else output.get("text")
        text = _ESCAPE_SEQUENCE.sub("", _joined(shown)).strip("\n")
        if text.strip():
            yield text if len(text) <= _LONGEST_OUTPUT else f"{text[:_LONGEST_OUTPUT]}\n…"


def _fenced(text: str, language: str) -> str:
    longest = max((len(found[1]) for found in _FENCES.finditer(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
