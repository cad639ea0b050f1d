"""A dry run tells beforehand what the refresh then does, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag_pipeline.refresh.plan import plan_refresh
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.refresh.test_refresh import HASHED, LENIENT, PAGES, table_versions


def edit(workspace: Workspace) -> None:
    workspace.write("a.md", PAGES["a.md"] + "\nBoth are round.\n")
    workspace.write("new.md", "# New\n\nSomething new.\n")


def delete(workspace: Workspace) -> None:
    (workspace.corpora / "docs" / "files" / "b.md").unlink()


def rename(workspace: Workspace) -> None:
    files = workspace.corpora / "docs" / "files"
    (files / "b.md").rename(files / "bread.md")


def rechunk(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT + "chunking: {size: 8, overlap: 0}\n")


def other_embedder(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT.replace("provider: hash", "provider: static"))


def other_language(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT + "lexical: {language: german}\n")


def nothing(workspace: Workspace) -> None: ...


@pytest.mark.parametrize("change", [nothing, edit, delete, rename, rechunk, other_embedder, other_language])
def test_the_plan_is_what_the_refresh_does(workspace: Workspace, change: Callable[[Workspace], None]) -> None:
    workspace.corpus(yaml=LENIENT, files=PAGES)
    workspace.refresh()
    change(workspace)
    before = table_versions(workspace)
    plan = plan_refresh(workspace.context())
    assert table_versions(workspace) == before
    reports = workspace.refresh()
    assert plan.documents == reports["documents"]
    assert plan.documents_to_chunk == reports["chunks"].documents_chunked
    assert plan.texts_to_embed == reports["embeddings"].embedded
    assert plan.tokens_to_embed == reports["embeddings"].tokens
    assert plan.stops is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (rechunk, "chunking or the tokenizer has changed"),
        (other_embedder, "the embedder is now static/"),
        (other_language, "the lexical index is built anew"),
    ],
)
def test_the_plan_says_why(workspace: Workspace, change: Callable[[Workspace], None], reason: str) -> None:
    workspace.corpus(yaml=LENIENT, files=PAGES)
    workspace.refresh()
    change(workspace)
    assert any(reason in line for line in plan_refresh(workspace.context()).reasons)


def test_the_plan_of_a_first_refresh_makes_no_store(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files=PAGES)
    plan = plan_refresh(workspace.context())
    assert plan.documents is not None
    assert (plan.documents.added, plan.texts_to_embed) == (3, 4)
    assert not workspace.data.exists()


def test_the_plan_tells_that_the_refresh_would_stop(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    delete(workspace)
    plan = plan_refresh(workspace.context())
    assert plan.stops is not None
    assert "1 of 3 documents would be deleted" in plan.stops
    assert plan_refresh(workspace.context(allow_deletes=True)).stops is None
