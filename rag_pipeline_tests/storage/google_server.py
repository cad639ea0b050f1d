"""The server of Google's XML API as a process, for tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rag_pipeline_tests.free_ports import free_port
from rag_pipeline_tests.storage import google_xml_api
from rag_pipeline_tests.storage.bucket_server import BucketServer

TOKEN = "a-token-of-google-that-no-log-may-show"


class GoogleServer(BucketServer):
    """A server of one bucket, which knows one token."""

    scheme = "gs"
    secret = TOKEN

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        return {"GOOGLE_BASE_URL": self.endpoint, "GOOGLE_BEARER_TOKEN": TOKEN}

    def _command(self, bucket: str) -> list[str]:
        return [sys.executable, google_xml_api.__file__, str(self._port), TOKEN, bucket]

    def store(self, bucket: str, prefix: str | None = None) -> Any:
        from obstore.store import GCSStore

        return GCSStore(
            bucket,
            prefix=prefix,
            config={"base_url": self.endpoint, "bearer_token": TOKEN},
            client_options={"allow_http": True},
        )
