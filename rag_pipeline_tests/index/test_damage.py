"""A store that somebody has damaged: it is told, nothing wrong is served, and a refresh mends what it can."""

from __future__ import annotations

import os
import shutil
import stat

import pytest

from rag_pipeline.errors import StoreError
from rag_pipeline.index.doctor import examine
from rag_pipeline.index.snapshot import manifest_file
from rag_pipeline_tests.conftest import Workspace

YAML = "source: {path: files}\nembedding: {provider: hash}\n"


@pytest.fixture
def damaged(workspace: Workspace) -> Workspace:
    workspace.corpus(yaml=YAML, files={"a.txt": "The only page."})
    workspace.refresh()
    workspace.write("b.txt", "Another page.")
    workspace.refresh()
    return workspace


def errors(workspace: Workspace) -> list[str]:
    return [finding.message for finding in examine(workspace.context().store) if finding.severity == "error"]


def test_a_vector_table_that_was_deleted_is_built_anew_by_the_next_refresh(damaged: Workspace) -> None:
    shutil.rmtree(damaged.data / "docs" / "lancedb" / "vectors.lance")
    assert errors(damaged)
    with pytest.raises(StoreError, match="is not there"):
        damaged.index()
    assert damaged.refresh()["snapshot"].published
    assert damaged.index().search("another page")[0].source == "b.txt"
    with pytest.raises(StoreError, match="no such version any more"):
        damaged.index(snapshot=1)


def test_data_files_that_are_missing_are_noticed(damaged: Workspace) -> None:
    for file in (damaged.data / "docs" / "lancedb" / "vectors.lance" / "data").iterdir():
        file.unlink()
    assert any("missing or damaged" in message for message in errors(damaged))
    with pytest.raises(StoreError, match=r"delete the folder vectors\.lance and refresh"):
        damaged.index()
    shutil.rmtree(damaged.data / "docs" / "lancedb" / "vectors.lance")
    damaged.refresh()
    assert damaged.index().search("another page")[0].source == "b.txt"


def test_a_missing_manifest_of_the_served_snapshot_is_replaced_by_the_next_refresh(damaged: Workspace) -> None:
    manifest_file(damaged.context().store, 2).unlink()
    assert any("no snapshot 2" in message for message in errors(damaged))
    assert damaged.refresh()["snapshot"].snapshot == 3
    assert damaged.index().search("another page")[0].source == "b.txt"


def test_a_damaged_kept_manifest_stops_neither_refresh_nor_search(damaged: Workspace) -> None:
    manifest_file(damaged.context().store, 1).write_text("{}")
    assert errors(damaged)
    damaged.write("c.txt", "A third page.")
    assert damaged.refresh()["snapshot"].published
    assert damaged.index().search("third page")[0].source == "c.txt"


def test_a_damaged_list_of_segments_is_rebuilt_when_asked(damaged: Workspace) -> None:
    (damaged.data / "docs" / "bm25" / "working.json").write_text("{")
    with pytest.raises(StoreError, match=r"working\.json"):
        damaged.refresh()
    damaged.refresh(full=True)
    assert damaged.index().search("another page")[0].source == "b.txt"


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_other_accounts_can_read_a_store(damaged: Workspace) -> None:
    mask = os.umask(0)
    os.umask(mask)
    for file in [*(damaged.data / "docs" / "snapshots").iterdir(), *(damaged.data / "docs" / "bm25").iterdir()]:
        if file.suffix != ".lock":
            assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask, file
