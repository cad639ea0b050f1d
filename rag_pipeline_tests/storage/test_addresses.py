"""Addresses of buckets, and the folder of copies; without a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.errors import ConfigError
from rag_pipeline.storage import (
    BucketAddress,
    ObjectPath,
    adopt_file,
    cache_folder,
    parse_address,
    resolve_access,
    writing_to_cache,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket", BucketAddress("s3", "bucket")),
        ("s3://bucket/", BucketAddress("s3", "bucket")),
        ("S3://bucket/a b/%20?x#y/", BucketAddress("s3", "bucket", "a b/%20?x#y")),
        ("s3a://bucket/x", BucketAddress("s3", "bucket", "x")),
        ("gs://bucket/x", BucketAddress("gs", "bucket", "x")),
        ("gcs://bucket/x", BucketAddress("gs", "bucket", "x")),
        ("az://container/x", BucketAddress("az", "container", "x")),
        ("abfs://container/x", BucketAddress("az", "container", "x")),
    ],
)
def test_an_address_names_scheme_bucket_and_key(text: str, expected: BucketAddress) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    "text",
    ["http://x/y", "s3:///x", "s3://b//x", "s3://b/x/../y", "s3://b/./x", "s3://k:pass@b/x", "s3://b:9000/x", "s3://a b/x"],
)
def test_what_is_no_address_is_refused_without_repeating_a_password(text: str) -> None:
    with pytest.raises(ValueError, match="expected s3://bucket/prefix") as raised:
        parse_address(text)
    assert "pass@" not in str(raised.value)


OF_AN_ACCOUNT = "write az://docs/a b/x.md, and name the account mine in AZURE_STORAGE_ACCOUNT_NAME or "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abfss://docs@mine.dfs.core.windows.net/a b/x.md", OF_AN_ACCOUNT),
        ("wasbs://docs@mine.blob.core.windows.net/a b/x.md", OF_AN_ACCOUNT),
        ("https://mine.blob.core.windows.net/docs/a b/x.md?sv=2024&sig=of-no-concern", OF_AN_ACCOUNT),
        ("https://mine.dfs.core.windows.net/docs/a b/x.md", OF_AN_ACCOUNT),
        ("az://mine.blob.core.windows.net/docs/a b/x.md", OF_AN_ACCOUNT),
        ("https://storage.googleapis.com/docs/x.md", "write gs://docs/x.md"),
        ("https://storage.cloud.google.com/docs/", "write gs://docs/"),
        ("https://docs.storage.googleapis.com/x.md", "write gs://docs/x.md"),
        ("https://s3.eu-central-1.amazonaws.com/docs/x.md", "write s3://docs/x.md"),
        ("https://docs.s3.amazonaws.com/x.md", "write s3://docs/x.md"),
    ],
)
def test_an_address_of_another_form_is_told_how_it_is_written(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match="expected s3://bucket/prefix") as raised:
        parse_address(text)
    assert expected in str(raised.value)
    assert "of-no-concern" not in str(raised.value)


PART = st.text(st.characters(exclude_characters="/", exclude_categories=("Cs", "Cc")), min_size=1).filter(
    lambda part: part not in (".", "..")
)


@given(st.lists(PART, min_size=1, max_size=4))
def test_a_path_of_an_object_goes_down_and_up_as_a_path_of_a_disk(parts: list[str]) -> None:
    address = parse_address("s3://bucket/root")
    path = ObjectPath(address, resolve_access(address, anonymous=True))
    for part in parts:
        path = path / part
    assert (path.name, str(path.parent)) == (parts[-1], "/".join(["s3://bucket/root", *parts[:-1]]))
    assert parse_address(str(path)) == path.address


def test_options_of_another_kind_of_store_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"storage_options\.account: expected with az:// only"):
        resolve_access(parse_address("s3://b/x"), account="mine", anonymous=True)
    for scheme, options in (("gs", {"account": "x"}), ("gs", {"profile": "x"}), ("az", {"region": "x"})):
        with pytest.raises(ConfigError, match=f"not expected with {scheme}://"):
            resolve_access(parse_address(f"{scheme}://b/x"), **options)  # type: ignore[arg-type]


@pytest.fixture
def no_clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_clouds")
def test_lancedb_gets_what_obstore_gets_under_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = resolve_access(parse_address("az://docs/x"), account="mine", endpoint="http://host/mine/", anonymous=True)
    assert dict(azure.config) == {"account_name": "mine", "endpoint": "http://host/mine", "skip_signature": "true"}
    assert azure.lance_options.items() >= {
        ("azure_storage_account_name", "mine"), ("azure_storage_endpoint", "http://host/mine"), ("skip_signature", "true"),
        ("allow_http", "true"),
    }  # fmt: skip
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_CLIENT_SECRET", "AZURE_API_KEY"):
        monkeypatch.setenv(name, f"of {name}")
    azure = resolve_access(parse_address("az://docs/x"))
    assert azure.lance_options["azure_storage_account_name"] == "of AZURE_STORAGE_ACCOUNT_NAME"
    assert azure.lance_options["azure_client_secret"] == "of AZURE_CLIENT_SECRET"
    assert "of AZURE_API_KEY" not in azure.lance_options.values(), "it is a language model's"
    assert dict(resolve_access(parse_address("az://docs/x"), account="mine").config) == {"account_name": "mine"}
    monkeypatch.setenv("GOOGLE_BASE_URL", "http://host")
    google = resolve_access(parse_address("gs://docs/a b"))
    assert google.lance_options.items() >= {("google_base_url", "http://host"), ("allow_http", "true")}
    assert (google.lance_uri, google.store.prefix) == ("gs://docs/a%20b", None)
    other = resolve_access(parse_address("gs://docs/x"), endpoint="https://restricted.googleapis.com")
    assert "allow_http" not in other.lance_options


@pytest.mark.usefixtures("no_clouds")
def test_azure_without_an_account_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=mine;AccountKey=a-key")
    with pytest.raises(ConfigError, match=r"set AZURE_STORAGE_ACCOUNT_NAME.*CONNECTION_STRING is not read") as raised:
        resolve_access(parse_address("az://docs/x"))
    assert "a-key" not in str(raised.value)


@pytest.mark.usefixtures("no_clouds")
@pytest.mark.parametrize(
    ("address", "variable", "expected"),
    [
        ("az://docs/x", "AZURE_STORAGE_ACCOUNT_KEY", "Invalid Access Key"),
        ("gs://docs/x", "GOOGLE_APPLICATION_CREDENTIALS", "Unable to decode service account file: invalid type: string …"),
        ("gs://docs/x", "GOOGLE_SERVICE_ACCOUNT", "Unable to open service account file from …"),
    ],
)
def test_credentials_that_cannot_be_read_are_not_repeated(
    address: str, variable: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key.json"
    file.write_text('"of-no-concern"')
    value = {"GOOGLE_APPLICATION_CREDENTIALS": str(file), "GOOGLE_SERVICE_ACCOUNT": '{"private_key": "of-no-concern"}'}
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    monkeypatch.setenv(variable, value.get(variable, "%of-no-concern"))
    with pytest.raises(ConfigError, match="what the environment says of this store does not fit") as raised:
        _ = resolve_access(parse_address(address)).store
    assert expected in str(raised.value)
    assert "of-no-concern" not in str(raised.value)


def test_the_cache_keeps_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PIPELINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAG_PIPELINE_CACHE_BYTES", "250")
    folder = cache_folder()
    for number, name in enumerate(("a", "b", "c")):
        file = folder / "new.tmp"
        file.write_bytes(b"x" * 100)
        copy = adopt_file(file, name)
        os.utime(copy, (number, number))
    assert sorted(file.stem for file in folder.iterdir()) == ["b", "c"]
    monkeypatch.setenv("RAG_PIPELINE_CACHE_BYTES", "much")
    (folder / "new.tmp").write_bytes(b"x")
    with pytest.raises(ConfigError, match="RAG_PIPELINE_CACHE_BYTES=much: expected a number of bytes"):
        adopt_file(folder / "new.tmp", "d")


def test_a_cache_without_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no limit on the size of files")
    monkeypatch.setenv("RAG_PIPELINE_CACHE", str(tmp_path / "cache"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def write() -> None:
        with writing_to_cache() as folder:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
            try:
                (folder / "new.tmp").write_bytes(b"x" * 100)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with pytest.raises(ConfigError, match=r"RAG_PIPELINE_CACHE: .*cache cannot be written: File too large; make room"):
        write()
