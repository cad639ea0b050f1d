"""A source and a data root that overlap are told, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_pipeline.config import data_root
from rag_pipeline.errors import ConfigError
from rag_pipeline.refresh import RefreshContext, check_apart, refresh_documents
from rag_pipeline_tests.conftest import Workspace


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ENDPOINT_URL": "http://here"}.items():
        monkeypatch.setenv(name, value)


LIES_IN = "lies in the data root .*, where corpora have their stores; move one of the two"
HOLDS = "holds the data root .*, whose files would become documents"


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("source", "data", "message"),
    [
        ("path: s3://b/notes", "s3://b/notes/data", HOLDS + r"; leave it out with source.exclude: \['data/\*\*'\]"),
        ("path: s3://b", "s3://b/data", HOLDS),
        ("path: s3://b/data/", "s3://b/data", HOLDS),
        ("path: s3://b/data/docs", "s3://b/data", LIES_IN),
        ("path: s3://b/manuals", "s3://b", LIES_IN),
        ("path: s3://b/n, include: ['**/*.json']", "s3://b/n/data", HOLDS),
        ("path: s3://b/n, storage_options: {endpoint: 'http://here/'}", "s3://b/n/data", HOLDS),
    ],
)
def test_in_a_bucket(workspace: Workspace, source: str, data: str, message: str) -> None:
    workspace.corpus(yaml=f"source: {{{source}}}\n")
    with pytest.raises(ConfigError, match=message):
        check_apart(workspace.config(), data_root(data))


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("source", "data"),
    [
        ("path: s3://b/notes", "s3://b/notes-data"),
        ("path: s3://b/notes", "s3://c/notes"),
        ("path: s3://b/notes, exclude: ['data/**']", "s3://b/notes/data"),
        ("path: s3://b/notes, include: ['**/*.md']", "s3://b/notes/data"),
        ("path: s3://b/notes", "s3://b/notes/.data"),
        ("path: s3://b/notes, storage_options: {endpoint: 'http://there'}", "s3://b/notes/data"),
        ("path: s3://b/all.jsonl, format: jsonl", "s3://b"),
        ("path: files", "s3://b"),
        ("path: s3://b", "somewhere"),
    ],
)
def test_apart_in_buckets(workspace: Workspace, source: str, data: str) -> None:
    workspace.corpus(yaml=f"source: {{{source}}}\n")
    check_apart(workspace.config(), data_root(data))


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [("files", "corpora/docs/files/data", HOLDS), ("../../data/docs", "data", LIES_IN), ("../../link", "data", HOLDS)],
)
def test_on_a_disk_nothing_is_written(workspace: Workspace, path: str, data: str, message: str) -> None:
    workspace.corpus(yaml=f"source: {{path: {path}}}\n", files={"a.md": "text"})
    (workspace.root / "link").symlink_to(workspace.data)
    root = workspace.root / data
    with pytest.raises(ConfigError, match=message):
        refresh_documents(RefreshContext(workspace.config(), root))
    assert not Path(root).exists()
