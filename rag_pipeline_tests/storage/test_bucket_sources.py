"""Documents in a bucket: what is listed, what is read, and what is said when it goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_pipeline.errors import ConfigError, SourceError, SourceReadError, StoreUnreachableError
from rag_pipeline.sources import ItemReader, buckets, list_items, put_item, read_item, reading, remove_item
from rag_pipeline.storage import access, parse_address, resolve_access
from rag_pipeline.storage.s3_requests import S3Requests
from rag_pipeline_tests.storage.conftest import BUCKET, BucketWorkspace
from rag_pipeline_tests.storage.seaweed import ACCESS_KEY, SECRET_KEY
from rag_pipeline_tests.storage.troubled_proxy import Trouble, TroubledProxy

pytestmark = pytest.mark.stores

PAGES = {
    "a.md": "# Apples\n\nGreen apples are sour.\n",
    "sub/b.md": "# Bread\n\nFlour, water and salt.\n",
    "sub/deep/c.txt": "Cheese comes from milk.\n",
}


def filled(bucket: BucketWorkspace, source: str = "", **pages: str) -> BucketWorkspace:
    for path, text in {**PAGES, **pages}.items():
        bucket.put(path, text)
    bucket.corpus(yaml=f"source: {{path: '{bucket.source}'{source}}}\nembedding: {{provider: hash}}\n")
    return bucket


def listed(bucket: BucketWorkspace) -> list[str]:
    return [item.path for item in list_items(bucket.config())]


def test_objects_are_listed_with_size_time_and_etag(anywhere: BucketWorkspace) -> None:
    items = list_items(filled(anywhere).config())
    assert [item.path for item in items] == ["a.md", "sub/b.md", "sub/deep/c.txt"]
    assert items[0].size == len(PAGES["a.md"])
    assert abs((datetime.now(timezone.utc) - items[0].modified_at).total_seconds()) < 60
    assert all(item.etag and item.etag_is_exact for item in items)


def test_patterns_and_dots_choose_as_on_a_disk(anywhere: BucketWorkspace) -> None:
    filled(anywhere, ", include: ['**/*.md'], exclude: ['sub/deep/']", **{".hidden.md": "x", "sub/.git/x.md": "x"})
    assert listed(anywhere) == ["a.md", "sub/b.md"]
    filled(anywhere, ", include: ['**/*.md'], hidden: true")
    assert listed(anywhere) == [".hidden.md", "a.md", "sub/.git/x.md", "sub/b.md"]


def test_a_prefix_is_a_folder_and_no_beginning_of_a_name(anywhere: BucketWorkspace) -> None:
    filled(anywhere)
    anywhere.server.store(BUCKET, anywhere.prefix).put("source-of-others/x.md", b"not ours")
    assert listed(anywhere) == sorted(PAGES)
    anywhere.corpus(yaml=f"source: {{path: '{anywhere.source}/sub/'}}\n")
    assert listed(anywhere) == ["b.md", "deep/c.txt"]


KEYS = (
    "with space.md", "100%.md", "%20.md", "%2F/%2e%2e.md", "ünïcödé/日本語.md", "q?a=1&b=2#c.md", "+plus&amp;.md",
    "'single' \"double\".md", "star*[1].md", "~tilde!().md", "semi;colon,comma=equals@at$.md", "emoji-😀.md",
    "trailing /x.md", "a" * 200 + ".md",
)  # fmt: skip


def test_keys_of_any_characters_are_listed_and_read(anywhere: BucketWorkspace) -> None:
    for key in KEYS:
        anywhere.put(key, f"text of {key}")
    anywhere.corpus(yaml=f"source: {{path: '{anywhere.source}'}}\n")
    items = list_items(anywhere.config())
    assert [item.path for item in items] == sorted(KEYS)
    with ItemReader(anywhere.config(), items) as reader:
        assert [reader.read(item).data.decode() for item in items] == [f"text of {key}" for key in sorted(KEYS)]


def test_what_consoles_make_as_folders_is_no_document(bucket: BucketWorkspace) -> None:
    filled(bucket, **{"empty.txt": ""})
    for folder in ("sub/", "sub/deep/", "nothing-in-it/"):
        make_folder(bucket, folder)
    assert listed(bucket) == ["a.md", "empty.txt", "sub/b.md", "sub/deep/c.txt"]


def make_folder(bucket: BucketWorkspace, key: str) -> None:
    """An empty object whose key ends with a slash, as the consoles of S3 make for a new folder; obstore cannot."""
    requests(bucket).request("PUT", f"{bucket.prefix}/source/{key}")


def requests(bucket: BucketWorkspace) -> S3Requests:
    return S3Requests(resolve_access(parse_address(bucket.source)))


def test_keys_that_obstore_refuses_are_listed_and_read_all_the_same(bucket: BucketWorkspace) -> None:
    keys = ("line\nbreak.md", "tab\there.md", "start\x01.md")
    filled(bucket)
    for key in keys:
        requests(bucket).request("PUT", f"{bucket.prefix}/source/{key}", body=f"text of {key}".encode())
    make_folder(bucket, "empty/")
    items = list_items(bucket.config())
    assert [item.path for item in items] == sorted([*PAGES, *keys])
    with ItemReader(bucket.config(), items) as reader:
        data = {item.path: reader.read(item).data.decode() for item in items}
    assert data == {**PAGES, **{key: f"text of {key}" for key in keys}}


def test_a_key_that_a_listing_cannot_show_is_read_where_obstore_reads_all_others(bucket: BucketWorkspace) -> None:
    """SeaweedFS lists it with U+FFFD in the place of what XML does not hold, unless it is asked to encode keys."""
    bucket.put("odd\uffff.md", "text")
    bucket.put("replaced\ufffd.md", "text")
    bucket.corpus(yaml=f"source: {{path: '{bucket.source}'}}\n")
    items = list_items(bucket.config())
    assert [item.path for item in items] == ["odd\uffff.md", "replaced\ufffd.md"]
    assert [read_item(bucket.config(), item) for item in items] == [b"text", b"text"]


def test_one_object_is_a_source_too(anywhere: BucketWorkspace) -> None:
    filled(anywhere)
    anywhere.corpus(yaml=f"source: {{path: '{anywhere.source}/sub/b.md', include: ['nothing']}}\n")
    (item,) = list_items(anywhere.config())
    assert item.path == "b.md"
    assert read_item(anywhere.config(), item).decode() == PAGES["sub/b.md"]


def test_rows_are_read_from_buckets(anywhere: BucketWorkspace) -> None:
    rows = [{"id": str(number), "text": f"row {number}"} for number in range(2000)]
    anywhere.put("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    table = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), table, row_group_size=100)
    anywhere.put("rows.parquet", table.getvalue())
    for kind in ("jsonl", "parquet"):
        anywhere.corpus(yaml=f"source: {{path: '{anywhere.source}', format: {kind}}}\n")
        (item,) = list_items(anywhere.config())
        with ItemReader(anywhere.config()) as reader:
            found = [row.document_id for row in reader.rows(item)[1]]
        assert (item.path, found) == (f"rows.{kind}", [row["id"] for row in rows])


def test_a_large_object_goes_through_a_file(anywhere: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_BYTES_IN_MEMORY", 1000)
    filled(anywhere, **{"large.txt": "line of text\n" * 200_000})
    items = list_items(anywhere.config())
    large = next(item for item in items if item.path == "large.txt")
    assert len(read_item(anywhere.config(), large)) == large.size == 2_600_000


def test_what_is_fetched_ahead_is_bounded(anywhere: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BYTES_AHEAD", 250)
    for number in range(40):
        anywhere.put(f"{number:02}.txt", "x" * 100)
    anywhere.corpus(yaml=f"source: {{path: '{anywhere.source}'}}\n")
    items = list_items(anywhere.config())
    with ItemReader(anywhere.config(), items) as reader:
        for item in items[::3]:  # what was announced and is not asked for is dropped
            assert reader.read(item).data == b"x" * 100
            assert sum(ahead.size for ahead, _ in reader._ahead) <= 250


def test_an_object_that_changed_after_the_listing_is_recorded_as_it_was_read(anywhere: BucketWorkspace) -> None:
    item = list_items(filled(anywhere).config())[0]
    anywhere.put("a.md", "# Apples\n\nRed apples are sweet.\n")
    with ItemReader(anywhere.config()) as reader:
        data, read = reader.read(item)
    assert b"sweet" in data
    assert read == list_items(anywhere.config())[0] != item


def test_an_object_that_vanished_says_so(anywhere: BucketWorkspace) -> None:
    item = list_items(filled(anywhere).config())[0]
    anywhere.objects.delete("a.md")
    with pytest.raises(SourceReadError, match=r"a\.md: vanished"):
        read_item(anywhere.config(), item)


@pytest.fixture
def proxy(bucket: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TroubledProxy]]:
    """Puts a proxy with the given troubles between the corpus and the server."""
    monkeypatch.setattr(access, "_FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(access, "_LONGEST_BACKOFF_SECONDS", 0.05)
    proxies = []

    def make(trouble: Callable[[int, str, str], Trouble | None]) -> TroubledProxy:
        access._open_store.cache_clear()
        proxies.append(TroubledProxy(bucket.server.endpoint, trouble))
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxies[-1].endpoint)
        return proxies[-1]

    yield make
    access._open_store.cache_clear()
    for one in proxies:
        one.close()


@pytest.mark.parametrize("trouble", ["503", "429", "cut"])
def test_throttled_and_cut_requests_are_made_again(
    bucket: BucketWorkspace, proxy: Callable[..., TroubledProxy], trouble: Trouble
) -> None:
    filled(bucket, **{f"{number}.txt": f"text {number} " * 50 for number in range(30)})
    made = proxy(lambda number, method, path: trouble if number % 3 == 1 else None)
    items = list_items(bucket.config())
    with ItemReader(bucket.config(), items) as reader:
        data = [reader.read(item).data for item in items]
    assert len(items) == 33
    assert [len(one) for one in data] == [item.size for item in items]
    assert sum(found is not None for _, _, found in made.requests) > 10


def test_a_listing_that_fails_midway_removes_nothing(bucket: BucketWorkspace, proxy: Callable[..., TroubledProxy]) -> None:
    filled(bucket, **{f"{number:04}.txt": "text" for number in range(1100)})
    made = proxy(lambda number, method, path: "503" if "continuation-token" in path else None)
    with pytest.raises(StoreUnreachableError, match=r"corpus\.yaml: source\.path: s3://.* 503 SlowDown"):
        list_items(bucket.config())
    assert len({path for _, path, found in made.requests if found}) == 1


def test_a_store_that_fails_stops_the_reading(bucket: BucketWorkspace, proxy: Callable[..., TroubledProxy]) -> None:
    filled(bucket)
    proxy(lambda number, method, path: "503" if path.endswith("a.md") else None)
    items = list_items(bucket.config())
    with pytest.raises(StoreUnreachableError, match=r"source\.path: s3://.*a\.md: the store answers 503"):
        read_item(bucket.config(), items[0])


def test_an_object_that_may_not_be_read_costs_itself(bucket: BucketWorkspace, proxy: Callable[..., TroubledProxy]) -> None:
    filled(bucket)
    proxy(lambda number, method, path: "403" if path.endswith("a.md") else None)
    items = list_items(bucket.config())
    with ItemReader(bucket.config(), items) as reader:
        with pytest.raises(SourceReadError, match=r"a\.md: cannot be read: access was refused \(403"):
            reader.read(items[0])
        assert reader.read(items[1]).data.decode() == PAGES["sub/b.md"]


class TestErrors:
    def error(self, bucket: BucketWorkspace, path: str | None = None, options: str = "") -> str:
        bucket.corpus(yaml=f"source: {{path: '{path or bucket.source}'{options}}}\n")
        with pytest.raises((ConfigError, SourceError, StoreUnreachableError)) as raised:
            list_items(bucket.config())
        message = str(raised.value)
        assert "\n" not in message
        assert "corpus.yaml: source." in message
        assert SECRET_KEY not in message
        return message

    def test_no_such_bucket(self, bucket: BucketWorkspace) -> None:
        assert "s3://nowhere/x: there is no such bucket" in self.error(bucket, "s3://nowhere/x/")
        assert "s3://nowhere: there is no such bucket" in self.error(bucket, "s3://nowhere")

    def test_a_wrong_key(self, bucket: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        assert "access was refused (403 SignatureDoesNotMatch): check the credentials" in self.error(bucket)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        assert "access was refused (403 InvalidAccessKeyId)" in self.error(bucket)

    def test_no_key(self, bucket: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        assert "no credentials found: set AWS_ACCESS_KEY_ID" in self.error(bucket)
        assert "access was refused (403 AccessDenied)" in self.error(bucket, options=", storage_options: {anonymous: true}")

    def test_nobody_there(self, bucket: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(access, "_FIRST_BACKOFF_SECONDS", 0.01)
        monkeypatch.setattr(access, "_LONGEST_BACKOFF_SECONDS", 0.05)
        options = ", storage_options: {endpoint: 'http://127.0.0.1:9'}"
        assert "http://127.0.0.1:9 cannot be reached" in self.error(bucket, options=options)

    def test_another_region(self, bucket: BucketWorkspace, proxy: Callable[..., TroubledProxy]) -> None:
        proxy(lambda number, method, path: "301")
        assert "the bucket lies in another region: set storage_options.region, or AWS_REGION" in self.error(bucket)

    def test_an_unknown_profile(self, bucket: BucketWorkspace) -> None:
        options = ", storage_options: {profile: nobody}"
        assert "storage_options.profile: there is no AWS profile 'nobody'" in self.error(bucket, options=options)


@pytest.fixture
def profile_files(bucket: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes the files of AWS profiles; nothing in the environment says how the server is reached."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name)
    config, credentials = bucket.root / "config", bucket.root / "credentials"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))

    def write(of_config: str, of_credentials: str) -> None:
        config.write_text(of_config)
        credentials.write_text(of_credentials)

    return write


KEYS_OF_A_PROFILE = f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"


class TestProfiles:
    def test_a_profile_of_the_source(self, bucket: BucketWorkspace, profile_files: Callable[[str, str], None]) -> None:
        profile_files(f"[profile team]\nendpoint_url = {bucket.server.endpoint}\n", f"[team]\n{KEYS_OF_A_PROFILE}")
        assert len(listed(filled(bucket, ", storage_options: {profile: team}"))) == 3

    def test_a_profile_of_the_environment(
        self, bucket: BucketWorkspace, profile_files: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        profile_files(f"[profile team]\nendpoint_url = {bucket.server.endpoint}\n", f"[team]\n{KEYS_OF_A_PROFILE}")
        monkeypatch.setenv("AWS_PROFILE", "team")
        assert len(listed(filled(bucket))) == 3

    def test_the_default_profile(self, bucket: BucketWorkspace, profile_files: Callable[[str, str], None]) -> None:
        profile_files(f"[default]\nendpoint_url = {bucket.server.endpoint}\n", f"[default]\n{KEYS_OF_A_PROFILE}")
        assert len(listed(filled(bucket))) == 3

    def test_a_program_that_gives_the_keys(self, bucket: BucketWorkspace, profile_files: Callable[[str, str], None]) -> None:
        answer = bucket.root / "answer.json"
        answer.write_text(json.dumps({"Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY}))
        profile_files(f"[default]\nendpoint_url={bucket.server.endpoint}\ncredential_process = cat '{answer}'\n", "")
        assert len(listed(filled(bucket))) == 3

    def test_a_token_of_the_environment_is_not_mixed_into_a_profile(
        self, bucket: BucketWorkspace, profile_files: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        profile_files("", f"[team]\n{KEYS_OF_A_PROFILE}endpoint_url = {bucket.server.endpoint}\n")
        filled(bucket, ", storage_options: {profile: team}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "else")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "of another account")
        assert len(listed(bucket)) == 3

    def test_a_profile_that_cannot_be_used_says_why(
        self, bucket: BucketWorkspace, profile_files: Callable[[str, str], None]
    ) -> None:
        filled(bucket)
        profile_files("", f"[default]\n{KEYS_OF_A_PROFILE}\nnonsense")
        with pytest.raises(ConfigError, match=r"credentials: this file of AWS profiles cannot be read \(ParsingError\)"):
            listed(bucket)
        profile_files("[default]\ncredential_process = false\n", "")
        with pytest.raises(ConfigError, match="credential_process gave no credentials"):
            listed(bucket)


def test_an_object_is_put_and_removed(anywhere: BucketWorkspace) -> None:
    corpus = filled(anywhere, ", include: ['**/*.md']").config()
    data = b"\xff raw \r\n bytes"
    written = put_item(corpus, "sub/new one.md", data)
    assert written.address == f"{anywhere.source}/sub/new one.md"
    item = next(item for item in list_items(corpus) if item.path == "sub/new one.md")
    assert read_item(corpus, item) == data
    assert remove_item(corpus, "sub/new one.md").size == len(data)
    assert listed(anywhere) == ["a.md", "sub/b.md"]
    with pytest.raises(SourceError, match=r"source: there is no item 'sub/new one\.md'"):
        remove_item(corpus, "sub/new one.md")
    for path in ("x.txt", "../x.md", ".x.md"):
        with pytest.raises(ConfigError):
            put_item(corpus, path, data)


def test_an_object_that_may_not_be_seen_does_not_pass_for_missing(
    bucket: BucketWorkspace, proxy: Callable[..., TroubledProxy]
) -> None:
    corpus = filled(bucket).config()
    proxy(lambda number, method, path: "403" if path.endswith("a.md") else None)
    with pytest.raises(SourceError, match="access was refused"):
        remove_item(corpus, "a.md")


def test_a_source_of_one_object_is_replaced(anywhere: BucketWorkspace) -> None:
    filled(anywhere)
    anywhere.corpus(yaml=f"source: {{path: '{anywhere.source}/sub/b.md'}}\n")
    put_item(anywhere.config(), "b.md", b"new")
    assert bytes(anywhere.objects.get("sub/b.md").bytes()) == b"new"
