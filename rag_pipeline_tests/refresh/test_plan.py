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


def other_scores(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT + "lexical: {k1: 1.2}\nretrieval: {bm25_weight: 0.5}\n")


def other_columns(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT + "metadata: {team: string}\n")


def nothing(workspace: Workspace) -> None: ...


@pytest.mark.parametrize("change", [nothing, edit, delete, rename, rechunk, other_embedder, other_language, other_scores])
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
        (other_scores, "lexical has changed: k1 1.5 -> 1.2: a snapshot that says so is published"),
        (other_scores, "retrieval has changed: bm25_weight 0.85 -> 0.5: a snapshot that says so is published"),
        (other_columns, "the metadata columns have changed"),
    ],
)
def test_the_plan_says_why(workspace: Workspace, change: Callable[[Workspace], None], reason: str) -> None:
    workspace.corpus(yaml=LENIENT, files=PAGES)
    workspace.refresh()
    change(workspace)
    assert any(reason in line for line in plan_refresh(workspace.context()).reasons)
    workspace.refresh(accept_drop=True)
    assert plan_refresh(workspace.context()).reasons == ()


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (rechunk, ("chunking has changed: size 480 -> 8, overlap 64 -> 0",)),
        (other_embedder, ("retrieval has changed: bm25_weight 0.85 -> 0.65",)),
        (other_language, ()),
        (other_scores, ("lexical has changed: k1 1.5 -> 1.2", "retrieval has changed: bm25_weight 0.85 -> 0.5")),
        (other_columns, ("metadata has changed: team none -> string",)),
        (edit, ()),
    ],
)
def test_a_refresh_says_which_settings_made_for_a_new_snapshot(
    workspace: Workspace, change: Callable[[Workspace], None], reasons: tuple[str, ...]
) -> None:
    """Documents, embedder and language, which have reports of their own, aside."""
    workspace.corpus(yaml=LENIENT, files=PAGES)
    assert workspace.refresh()["snapshot"].reasons == ()
    change(workspace)
    report = workspace.refresh(accept_drop=True)["snapshot"]
    assert (report.published, report.reasons) == (True, reasons)
    again = workspace.refresh()["snapshot"]
    assert (again.published, again.reasons) == (False, ())


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
