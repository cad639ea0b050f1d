"""Source code: the file as it stands, with its top-level definitions as sections."""

from __future__ import annotations

import re

from rag_pipeline.contracts import Parsed
from rag_pipeline.parsing.sections import Heading, build_sections
from rag_pipeline.parsing.text import parse_text

_MEDIA_TYPES = {
    ".py": "text/x-python", ".pyi": "text/x-python", ".js": "text/javascript", ".mjs": "text/javascript",
    ".jsx": "text/javascript", ".ts": "text/x-typescript", ".tsx": "text/x-typescript", ".java": "text/x-java",
    ".kt": "text/x-kotlin", ".scala": "text/x-scala", ".go": "text/x-go", ".rs": "text/x-rust", ".rb": "text/x-ruby",
    ".php": "text/x-php", ".swift": "text/x-swift", ".cs": "text/x-csharp", ".c": "text/x-c", ".h": "text/x-c",
    ".cc": "text/x-c++", ".cpp": "text/x-c++", ".hpp": "text/x-c++", ".sh": "text/x-shellscript",
    ".ps1": "text/x-powershell", ".lua": "text/x-lua", ".jl": "text/x-julia", ".r": "text/x-r", ".sql": "text/x-sql",
    ".pl": "text/x-perl", ".dart": "text/x-dart", ".ex": "text/x-elixir", ".hs": "text/x-haskell", ".m": "text/x-objc",
}  # fmt: skip
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|async|unsafe|partial|data|case|"
    r"open|override|inline|virtual|pub(?:\([^)]*\))?|const|extern(?:\s+\"C\")?)\s+)*"
)
_KEYWORDS = (
    r"(?:class|def|function\*?|func|fun|fn|struct|interface|impl|enum|trait|module|namespace|object|protocol|extension|"
    r"record|union|defmodule|defp?|sub|package|create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure))"
)
_DEFINITION = re.compile(
    rf"^{_MODIFIERS}{_KEYWORDS}(?:<[^>\n]*>)?\s+(?:\([^)\n]*\)\s*)?(?:if\s+not\s+exists\s+)?(?P<name>[\w$.:\-\"`]+)",
    re.IGNORECASE | re.MULTILINE,
)
_ABOVE = re.compile(r"[ \t]*(?:@|#\[|#|//|/\*|\*|--|\[)")


def code_media_type(suffix: str) -> str | None:
    """The media type of a source file by the suffix of its name, None where that is none of a programming language."""
    return _MEDIA_TYPES.get(suffix)


def parse_code(text: str, media_type: str) -> Parsed:
    """A document whose sections are the definitions that begin a line, with comments and decorators right above them.

    Raises:
        ParseError: the text is blank.
    """
    parsed = parse_text(text, media_type)
    text = parsed.text
    headings: list[Heading] = []
    for found in _DEFINITION.finditer(text):
        start = _with_lines_above(text, found.start(), headings[-1].end if headings else 0)
        headings.append(Heading(start, found.end(), 1, found["name"].strip('"`:')))
    return parsed.model_copy(update={"sections": build_sections(text, headings)}) if headings else parsed


def _with_lines_above(text: str, start: int, earliest: int) -> int:
    while start > earliest:
        line = text.rfind("\n", 0, start - 1) + 1
        if line < earliest or _ABOVE.match(text, line, start - 1) is None:
            return start
        start = line
    return start
