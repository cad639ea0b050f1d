"""The server of Google's XML API as a process, for tests."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rag_pipeline_tests.storage import google_xml_api
from rag_pipeline_tests.storage.seaweed import free_ports

TOKEN = "a-token-of-google-that-no-log-may-show"
_READY_SECONDS = 30.0


class GoogleServer:
    """A server of one bucket, which knows one token."""

    scheme = "gs"
    secret = TOKEN

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which programs find the server."""
        return {"GOOGLE_BASE_URL": self.endpoint, "GOOGLE_BEARER_TOKEN": TOKEN}

    def start(self, bucket: str) -> None:
        command = [sys.executable, google_xml_api.__file__, str(self._port), TOKEN, bucket]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        end = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self.store(bucket).put("ready", b"ready")
                return
            except Exception as error:
                if time.monotonic() > end:
                    raise AssertionError(f"the server does not answer: {error}") from error
            time.sleep(0.1)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def store(self, bucket: str, prefix: str | None = None) -> Any:
        """obstore's view of a bucket, as another program would write to it."""
        from obstore.store import GCSStore

        return GCSStore(
            bucket,
            prefix=prefix,
            config={"base_url": self.endpoint, "bearer_token": TOKEN},
            client_options={"allow_http": True},
        )
