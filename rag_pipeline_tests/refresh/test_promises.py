"""Each check of a promise fails when the promise is broken, and says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.contracts import Manifest
from rag_pipeline.index.snapshot import manifest_file, open_vector_table
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.lance import delete_keys
from rag_pipeline.refresh import promises
from rag_pipeline.refresh.promises import (
    check_cost_of_change,
    check_every_text_embedded,
    check_nothing_lost,
    check_one_identity,
    check_snapshot_whole,
)
from rag_pipeline_tests.conftest import Workspace

PAGES = {"guide.md": "# Guide\n\nHow to roll back a snapshot.\n", "notes.txt": "Plain notes about schedules.\n"}


def test_a_served_file_that_is_missing_from_the_documents_is_lost(workspace: Workspace) -> None:
    workspace.corpus(files=PAGES)
    workspace.refresh()
    context = workspace.context()
    assert check_nothing_lost(context).passed
    documents = context.store.table("documents")
    assert documents is not None
    delete_keys(documents, "document_id", ["guide.md"])
    outcome = check_nothing_lost(workspace.context())
    assert not outcome.passed
    assert "guide.md" in outcome.description
    assert "--full" in outcome.description


def test_a_file_that_left_the_source_is_not_lost(workspace: Workspace) -> None:
    workspace.corpus(yaml="source: {path: files}\nsafety: {max_delete_fraction: 1}\n", files=PAGES)
    workspace.refresh()
    (workspace.corpora / "docs" / "files" / "notes.txt").unlink()
    from rag_pipeline.refresh import refresh_documents

    refresh_documents(workspace.context())
    outcome = check_nothing_lost(workspace.context())
    assert outcome.passed
    assert outcome.numbers["no_longer_in_the_source"] == 1


def test_a_stale_document_is_counted_as_kept(workspace: Workspace) -> None:
    workspace.corpus(yaml="source: {path: files}\nsafety: {max_failed_fraction: 0.9}\n", files=PAGES)
    workspace.refresh()
    workspace.write("guide.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    workspace.refresh()
    outcome = check_nothing_lost(workspace.context())
    assert outcome.passed
    assert outcome.numbers["kept_in_an_earlier_version"] == 1


def test_a_text_without_a_vector_is_found(workspace: Workspace) -> None:
    workspace.corpus(files=PAGES)
    workspace.refresh()
    assert check_every_text_embedded(workspace.context()).passed
    workspace.write("more.md", "# More\n\nAnother page.\n")
    from rag_pipeline.refresh import refresh_chunks, refresh_documents

    context = workspace.context()
    refresh_documents(context)
    refresh_chunks(context)
    outcome = check_every_text_embedded(context)
    assert (outcome.passed, outcome.numbers["missing"]) == (False, 1)


def test_vectors_of_another_embedder_are_found(workspace: Workspace) -> None:
    workspace.corpus(files=PAGES)
    workspace.refresh()
    assert check_one_identity(workspace.context()).passed
    workspace.corpus(yaml="source: {path: files}\nembedding: {provider: hash}\n")
    outcome = check_one_identity(workspace.context())
    assert not outcome.passed
    assert "static/" in outcome.description
    assert "hash/" in outcome.description


def figures(
    embedded: int = 0, published: bool = False, held: bool = False, changed: int = 0
) -> dict[str, dict[str, object]]:
    return {
        "documents": {"added": 0, "changed": changed, "removed": 0},
        "chunks": {"added": 0},
        "embeddings": {"embedded": embedded},
        "vector_table": {"rows_written": 0},
        "bm25_index": {"added": 0},
        "snapshot": {"published": published, "held": held},
    }


def test_work_without_a_change_is_found(workspace: Workspace) -> None:
    workspace.corpus(files=PAGES)
    context = workspace.context()
    context.figures.update(figures(embedded=3))
    outcome = check_cost_of_change(context)
    assert not outcome.passed
    assert "embeddings_embedded 3" in outcome.description


def test_work_for_a_change_is_as_it_should_be(workspace: Workspace) -> None:
    workspace.corpus(files=PAGES)
    for allowed in (
        figures(),
        figures(embedded=3, changed=1),
        figures(embedded=3, published=True),
        figures(embedded=3, held=True),
    ):
        context = workspace.context()
        context.figures.update(allowed)
        assert check_cost_of_change(context).passed
    assert check_cost_of_change(workspace.context()).passed, "nothing is known of stages that ran on their own"


def damaged(workspace: Workspace, find: str) -> str:
    outcome = check_snapshot_whole(workspace.context())
    assert not outcome.passed
    assert find in outcome.description
    return outcome.description


def test_a_whole_snapshot_is_told_from_every_kind_of_damaged_one(workspace: Workspace) -> None:
    workspace.corpus(files=PAGES)
    workspace.refresh()
    store = workspace.context().store
    assert check_snapshot_whole(workspace.context()).passed

    file = manifest_file(store, 1)
    manifest = file.read_text()
    other = '"chunks": 3' if '"chunks": 2' in manifest else '"chunks":3'
    file.write_text(manifest.replace('"chunks": 2', other).replace('"chunks":2', other))
    assert "--full" in damaged(workspace, "do not agree")
    file.write_text(manifest.replace('"guide.md"', '"other.md"'))
    damaged(workspace, "does not have the hash that it names")
    file.write_text(manifest)

    segment = next(path for path in Path(store.bm25).rglob("*.arrow"))
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    damaged(workspace, segment.parent.name)
    segment.write_bytes(content)
    assert check_snapshot_whole(workspace.context()).passed

    vectors = store.table("vectors")
    assert vectors is not None
    vectors.tags.delete("snapshot-000001")
    damaged(workspace, "has no such version any more")
    (store.snapshots / "CURRENT").write_text("{")
    damaged(workspace, "CURRENT")


def test_a_snapshot_that_is_dropped_while_it_is_looked_at_is_not_damaged(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.corpus(yaml="source: {path: files}\nkeep_snapshots: 1\n", files=PAGES)
    workspace.refresh()
    opened: list[int] = []

    def slowly(store: CorpusStore, manifest: Manifest) -> Any:
        opened.append(manifest.snapshot)
        if manifest.snapshot == 1:
            workspace.write("more.md", "# More\n\nAnother page.\n")
            workspace.refresh()
        return open_vector_table(store, manifest)

    monkeypatch.setattr(promises, "open_vector_table", slowly)
    assert check_snapshot_whole(workspace.context()).passed
    assert opened == [1, 2]


def test_a_corpus_that_was_never_refreshed_passes_no_check(workspace: Workspace) -> None:
    workspace.corpus(files=PAGES)
    context = workspace.context()
    for check in (check_nothing_lost, check_every_text_embedded, check_one_identity, check_snapshot_whole):
        outcome = check(context)
        assert not outcome.passed
        assert "refresh" in outcome.description
