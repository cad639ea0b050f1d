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
    for scheme, options in (("gs", {"endpoint": "http://h"}), ("gs", {"profile": "x"}), ("az", {"region": "x"})):
        with pytest.raises(ConfigError, match=f"not expected with {scheme}://"):
            resolve_access(parse_address(f"{scheme}://b/x"), **options)  # type: ignore[arg-type]


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
