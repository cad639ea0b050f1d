"""What is Google's and Azure's own: who is let in, what is said to who is not, and requests that only they answer so."""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rag_pipeline.cli import main
from rag_pipeline.errors import ConfigError, SourceError, StoreError, StoreUnreachableError
from rag_pipeline.lance import append, connect, create
from rag_pipeline.sources import list_items, put_item
from rag_pipeline.storage import ObjectChangedError, ObjectPath, access
from rag_pipeline_tests.storage.azurite import ACCOUNT, Azurite
from rag_pipeline_tests.storage.conftest import BucketWorkspace, workspace_at
from rag_pipeline_tests.storage.google_server import TOKEN, GoogleServer
from rag_pipeline_tests.storage.test_bucket_data_root import Bucket
from rag_pipeline_tests.storage.troubled_proxy import TroubledProxy

pytestmark = pytest.mark.stores

SECRET_VARIABLE = {"gs": "GOOGLE_BEARER_TOKEN", "az": "AZURE_STORAGE_ACCOUNT_KEY"}
WRONG = {"gs": "of-no-concern", "az": base64.b64encode(b"of-no-concern").decode()}
REFUSED = {"gs": "access was refused (401 AuthenticationRequired)", "az": "access was refused (403 AuthorizationFailure)"}


@pytest.fixture
def google(google_server: GoogleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketWorkspace:
    return workspace_at(google_server, tmp_path, monkeypatch)


@pytest.fixture
def azure(azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketWorkspace:
    return workspace_at(azurite, tmp_path, monkeypatch)


@pytest.fixture(params=["google", "azure"])
def cloud(request: pytest.FixtureRequest) -> BucketWorkspace:
    workspace = request.getfixturevalue(request.param)
    assert isinstance(workspace, BucketWorkspace)
    return workspace


def source_error(cloud: BucketWorkspace, path: str | None = None, options: str = "") -> str:
    cloud.corpus(yaml=f"source: {{path: '{path or cloud.source}'{options}}}\n")
    with pytest.raises((ConfigError, SourceError, StoreUnreachableError)) as raised:
        list_items(cloud.config())
    message = str(raised.value)
    assert "\n" not in message
    assert "corpus.yaml: source." in message
    assert cloud.server.secret not in message
    return message


def test_no_such_bucket(cloud: BucketWorkspace) -> None:
    scheme = cloud.server.scheme
    assert f"{scheme}://nowhere/x: there is no such bucket" in source_error(cloud, f"{scheme}://nowhere/x/")
    with pytest.raises(SourceError, match=f"{scheme}://nowhere/x: there is no such bucket"):
        put_item(cloud.config(), "a.md", b"text")
    with pytest.raises(StoreError, match=f"{scheme}://nowhere/x: there is no such bucket"):
        connect(ObjectPath.of(f"{scheme}://nowhere/x"))


def test_wrong_credentials(cloud: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = cloud.server.scheme
    monkeypatch.setenv(SECRET_VARIABLE[scheme], WRONG[scheme])
    assert f"{REFUSED[scheme]}: check the credentials" in source_error(cloud)
    with pytest.raises(StoreError, match=re.escape(f"{cloud.bucket_data}: {REFUSED[scheme]}")) as raised:
        connect(ObjectPath.of(cloud.bucket_data))
    assert WRONG[scheme] not in str(raised.value)


def test_a_private_bucket_is_no_public_one(cloud: BucketWorkspace) -> None:
    message = source_error(cloud, options=", storage_options: {anonymous: true}")
    assert "access was refused (403" in message or "there is no such bucket" in message, "Azure does not say which"


def test_commands_say_in_one_line_what_is_wrong_with_a_data_root(
    cloud: BucketWorkspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Bucket(cloud).refresh()
    scheme = cloud.server.scheme
    monkeypatch.setenv("RAG_PIPELINE_CORPORA", str(cloud.corpora))

    def error(*arguments: str) -> str:
        assert main(list(arguments)) == 1
        output, errors = capfd.readouterr()
        (line,) = errors.splitlines()
        assert cloud.server.secret not in output + line
        assert WRONG[scheme] not in output + line
        return line

    monkeypatch.setenv("RAG_PIPELINE_DATA", f"{scheme}://nowhere/data")
    for arguments in (("refresh", "docs"), ("search", "docs", "cheese", "--json")):
        assert "there is no such bucket" in error(*arguments)
    monkeypatch.setenv("RAG_PIPELINE_DATA", cloud.bucket_data)
    monkeypatch.setenv(SECRET_VARIABLE[scheme], WRONG[scheme])
    for arguments in (("refresh", "docs", "--json"), ("search", "docs", "cheese"), ("doctor", "--json")):
        assert REFUSED[scheme] in error(*arguments)


def test_another_process_with_an_empty_cache_searches(cloud: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Bucket(cloud)
    corpus.refresh()
    cache = cloud.root / "cache of another machine"
    monkeypatch.setattr(BucketWorkspace, "environment", {**cloud.environment, "RAG_PIPELINE_CACHE": str(cache)})
    process = corpus.command("search", "docs", "page number 7", "--json")
    output, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert json.loads(output)["hits"][0]["source"] == "p/7.md"
    assert len(list(cache.iterdir())) == 1
    assert cloud.server.secret not in output.decode() + errors.decode()


def test_what_is_large_goes_up_in_parts(cloud: BucketWorkspace, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(range(256)) * (48 << 10))
    path = ObjectPath.of(f"{cloud.bucket_data}/large")
    path.upload(file)
    assert path.read_bytes() == file.read_bytes()

    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    rows = pa.record_batch({"key": list(range(3000)), "text": [f"{n:06}" * 1000 for n in range(3000)]}, schema=schema)
    table = create(connect(path.parent / "lancedb"), "large", schema, [rows])
    append(table, schema, [rows])
    assert table.count_rows() == 6000
    assert table.search().where("key = 2999").to_list()[0]["text"] == "002999" * 1000


def test_a_version_is_replaced_once(cloud: BucketWorkspace) -> None:
    path = ObjectPath.of(f"{cloud.bucket_data}/pointer")
    path.create(b"1")
    _, version = path.read_version()
    path.replace(b"2", version)
    with pytest.raises(ObjectChangedError):
        path.replace(b"3", version)
    with pytest.raises(ObjectChangedError):
        path.create(b"4")
    assert path.read_bytes() == b"2"
    path.unlink()
    path.unlink()
    with pytest.raises(ObjectChangedError):
        path.replace(b"5", version)
    assert not path.exists()


@pytest.fixture
def throttled(cloud: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[TroubledProxy]:
    """A proxy that throttles some requests, as Google does who writes one object more than once a second."""
    monkeypatch.setattr(access, "_FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(access, "_LONGEST_BACKOFF_SECONDS", 0.05)
    proxy = TroubledProxy(cloud.server.endpoint, lambda number, method, path: "429" if number % 25 == 2 else None)
    path = f"/{ACCOUNT}" if cloud.server.scheme == "az" else ""
    variable = {"gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ENDPOINT"}[cloud.server.scheme]
    monkeypatch.setenv(variable, proxy.endpoint + path)
    yield proxy
    access._open_store.cache_clear()
    proxy.close()


def test_a_refresh_that_is_throttled_publishes(cloud: BucketWorkspace, throttled: TroubledProxy) -> None:
    corpus = Bucket(cloud)
    corpus.refresh()
    cloud.put("new.md", "# New\n\nCheese comes from milk.\n")
    assert corpus.refresh()["snapshot"].published
    assert corpus.index().search("cheese")[0].source == "new.md"
    assert sum(found is not None for _, _, found in throttled.requests) > 8


class TestAzure:
    def test_account_and_endpoint_of_the_source(self, azure: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
        azure.put("a.md", "text")
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
        monkeypatch.delenv("AZURE_STORAGE_ENDPOINT")
        assert "no storage account: set AZURE_STORAGE_ACCOUNT_NAME" in source_error(azure)
        options = f"{{account: {ACCOUNT}, endpoint: '{azure.server.endpoint}'}}"
        azure.corpus(yaml=f"source: {{path: '{azure.source}', storage_options: {options}}}\n")
        assert [item.path for item in list_items(azure.config())] == ["a.md"]


class TestGoogle:
    def send(self, google: BucketWorkspace, key: str) -> None:
        """An object of a key that obstore does not write."""
        request = urllib.request.Request(
            f"{google.server.endpoint}/tests/{google.prefix}/source/{key}",
            data=b"",
            method="PUT",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        with urllib.request.urlopen(request, timeout=5):
            pass

    def test_what_the_console_makes_as_folders_is_no_document(self, google: BucketWorkspace) -> None:
        google.put("sub/a.md", "text")
        google.put("empty.txt", "")
        for key in ("sub/", "nothing-in-it/"):
            self.send(google, key)
        google.corpus(yaml=f"source: {{path: '{google.source}'}}\n")
        assert [item.path for item in list_items(google.config())] == ["empty.txt", "sub/a.md"]

    def test_a_key_that_obstore_refuses_is_named(self, google: BucketWorkspace) -> None:
        self.send(google, "a//b.md")
        assert "a key that cannot be read" in source_error(google)

    def test_the_endpoint_of_the_source(self, google: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
        google.put("a.md", "text")
        monkeypatch.delenv("GOOGLE_BASE_URL")
        options = f"{{endpoint: '{google.server.endpoint}'}}"
        google.corpus(yaml=f"source: {{path: '{google.source}', storage_options: {options}}}\n")
        assert [item.path for item in list_items(google.config())] == ["a.md"]
