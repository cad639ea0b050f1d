"""Names of documents and queries are shown as they are, though the Dagster UI reads Markdown."""

from __future__ import annotations

import dagster as dg
import pytest
from markdown_it import MarkdownIt

from rag_pipeline.orchestration.markup import escaped, escaped_name, plain
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import metadata, refreshed

NAMES = [
    "pkg/__init__.py",
    "_drafts_/*old*.md",
    "<b>bold.pdf",
    "a|b.md",
    "[x](y).md",
    "R&amp;D.md",
    "C:\\notes\\~~gone~~.md",
    "tick`s`.md",
    "snake_case_name.md",
    "1 < 2 & 3 > 2",
    "Größe_Übersicht_é.md",
]


def shown(text: str) -> str:
    """A line as a reader of Markdown sees it."""
    (inline,) = [token for token in MarkdownIt("commonmark").enable("strikethrough").parse(text) if token.type == "inline"]
    return "".join(child.content for child in inline.children or () if child.type in ("text", "text_special", "code_inline"))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_as_it_is(name: str) -> None:
    assert shown(escaped_name(name)) == name
    assert plain(escaped_name(name)) == name


@pytest.mark.parametrize("name", NAMES)
def test_a_sentence_about_a_name_is_shown_as_it_is(name: str) -> None:
    sentence = f"1 document could not be read: {name}. Mend it; run refresh --full."
    assert shown(escaped(sentence)).replace("`", "") == sentence.replace("`", "")
    assert plain(escaped(sentence)) == sentence


def test_most_names_need_no_escapes() -> None:
    assert escaped_name("guides/how_to_roll-back (v2).md") == "guides/how_to_roll-back (v2).md"


def test_tables_of_documents_show_names_as_they_are(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(files={"__init__.md": "# One\n\nA page.\n", "<b>.md": "# *Two*\n\nAnother page.\n"})
    refreshed(workspace)
    rows = metadata(instance, "docs", "documents")["changes"]
    assert r"| \_\_init\_\_.md |" in rows
    assert r"| \<b>.md |" in rows
