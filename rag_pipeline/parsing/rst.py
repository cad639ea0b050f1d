"""reStructuredText, read by docutils, the reference implementation."""

from __future__ import annotations

import threading
from io import StringIO

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.builder import TextBuilder

MEDIA_TYPE = "text/x-rst"

# docutils keeps roles and directives in registries of the process.
_LOCK = threading.Lock()
_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,  # no document reads another file
    "raw_enabled": False,
    "report_level": 5,  # nothing is printed,
    "halt_level": 5,  # nothing is raised
    "doctitle_xform": False,  # sections stay sections, and fields stay text
    "docinfo_xform": False,
    "smart_quotes": False,
    "syntax_highlight": "none",
    "line_length_limit": 2**31,  # the default refuses a whole document over one long line
}


def parse_rst(text: str) -> Parsed:
    """Parse a decoded reStructuredText file.

    What docutils does not know (Sphinx's directives and roles) keeps its text. Other files are not included. The title
    is that of the first section.

    Raises:
        ParseError: there is no text beside comments and the like, or docutils cannot read it.
    """
    try:
        from docutils.core import publish_doctree
    except ImportError:
        raise MissingExtraError("docutils", "pipeline", "Reading reStructuredText") from None
    from rag_pipeline.parsing.rst_directives import register
    from rag_pipeline.parsing.rst_render import render

    builder = TextBuilder()
    with _LOCK:
        register(text)
        try:
            document = publish_doctree(text, settings_overrides={**_SETTINGS, "warning_stream": StringIO()})
            render(document, builder)
        except RecursionError:
            raise ParseError("nested too deeply to be read as reStructuredText") from None
        except Exception as error:
            # docutils fails in many ways on text that only looks like reStructuredText; one document must not stop all.
            reason = " ".join(str(error).split())[:200]
            raise ParseError(f"docutils cannot read it: {type(error).__name__}: {reason}") from error
    title = " ".join(str(document.get("title") or "").split())
    return builder.build(MEDIA_TYPE, title or builder.top_heading, {})
