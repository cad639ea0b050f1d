"""What a folder, or a file, gives as items."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.config import CorpusConfig, SourceConfig
from rag_pipeline.contracts import SourceItem
from rag_pipeline.errors import ConfigError, SourceError, SourceReadError
from rag_pipeline.sources import list_items, read_item

on_posix = pytest.mark.skipif(os.name != "posix", reason="names and links of POSIX file systems")
as_user = pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind this user")


def make_corpus(folder: Path, path: str = "files", **source: Any) -> CorpusConfig:
    return CorpusConfig(name="docs", folder=folder, source=SourceConfig(path=path, **source))


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        file = folder / "files" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"text of {path}", encoding="utf-8")


def without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that knows no account, and has nobody to ask for one."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)


def listed(corpus: CorpusConfig) -> list[str]:
    return [item.path for item in list_items(corpus)]


def test_items_come_sorted_with_size_time_and_etag(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "a/z.md", "a.md")
    os.utime(tmp_path / "files/b.md", (1_700_000_000, 1_700_000_000.25))
    items = list_items(make_corpus(tmp_path))
    assert [item.path for item in items] == ["a.md", "a/z.md", "b.md"]
    assert items[2].size == len("text of b.md")
    assert items[2].modified_at == datetime.fromtimestamp(1_700_000_000.25, timezone.utc)
    assert items[2].etag


def test_a_rewrite_with_the_old_size_and_the_old_time_changes_the_etag(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    file = tmp_path / "files/a.md"
    before, status = list_items(make_corpus(tmp_path))[0], file.stat()
    while list_items(make_corpus(tmp_path))[0].etag == before.etag:  # until the clock of the file system has moved on
        file.write_text("TEXT OF a.md", encoding="utf-8")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = list_items(make_corpus(tmp_path))[0]
    assert (after.size, after.modified_at) == (before.size, before.modified_at)


def test_include_and_exclude_choose(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "private/c.md", "sub/d.md", "sub/drafts/e.md")
    corpus = make_corpus(tmp_path, include=("**/*.md",), exclude=("private/**", "**/drafts/"))
    assert listed(corpus) == ["a.md", "sub/d.md"]


def test_hidden_names_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".b.md", ".git/c.md", "sub/.d/e.md")
    assert listed(make_corpus(tmp_path)) == ["a.md"]
    assert listed(make_corpus(tmp_path, hidden=True)) == [".b.md", ".git/c.md", "a.md", "sub/.d/e.md"]


def test_a_hidden_folder_may_be_the_source_itself(tmp_path: Path) -> None:
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".notes/a.md").write_text("a", encoding="utf-8")
    assert listed(make_corpus(tmp_path, ".notes")) == ["a.md"]


def test_an_empty_folder_lists_nothing(tmp_path: Path) -> None:
    (tmp_path / "files/empty").mkdir(parents=True)
    assert listed(make_corpus(tmp_path)) == []


@on_posix
@pytest.mark.parametrize(
    "name",
    [
        "it's a \"quote\".md", "line\nend.md", "tab\t.md", "bell\x07.md", "per%20cent%.md", "%2F.md", "ha#sh?.md", " .md",
        "back\\slash.md", "star*[x].md", "日本語.md", "مرحبا.md", "e\u0301.md", "\u00e9.md", "😀.md", "\u2028.md", "-", "~",
        "a..b", "...", "$(x).md", "\x7f.md",
    ],
)  # fmt: skip
def test_any_name_is_listed_as_it_is_and_can_be_read(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"sub {name}/{name}" if not name.startswith(".") else f"sub/x{name}")
    corpus = make_corpus(tmp_path)
    (item,) = list_items(corpus)
    assert item.path in (f"sub {name}/{name}", f"sub/x{name}")
    assert read_item(corpus, item).decode() == f"text of {item.path}"


@on_posix
@settings(max_examples=40)
@given(st.text(st.characters(exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_names_survive_listing_and_reading(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    write(folder, f"x{name}")
    corpus = make_corpus(folder)
    (item,) = list_items(corpus)
    assert item.path == f"x{name}"
    assert read_item(corpus, item).decode() == f"text of x{name}"


def test_very_long_paths_are_read(tmp_path: Path) -> None:
    path = "/".join(["d" * 200] * 8) + "/a.md"
    write(tmp_path, path)
    corpus = make_corpus(tmp_path)
    (item,) = list_items(corpus)
    assert item.path == path
    assert read_item(corpus, item)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse names that are not UTF-8")
def test_a_name_that_is_not_utf8_is_listed_in_an_escaped_form_and_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with open(os.fsencode(tmp_path / "files") + b"/gr\xfcn.md", "wb") as file:
        file.write(b"green")
    corpus = make_corpus(tmp_path)
    (item,) = list_items(corpus)
    assert item.path == "gr\\xfcn.md"
    assert read_item(corpus, item) == b"green"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse names that are not UTF-8")
def test_two_names_that_look_alike_once_escaped_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "gr\\xfcn.md")
    with open(os.fsencode(tmp_path / "files") + b"/gr\xfcn.md", "wb") as file:
        file.write(b"green")
    with pytest.raises(SourceError, match="rename one"):
        list_items(make_corpus(tmp_path))


@on_posix
class TestLinks:
    def test_a_loop_ends_and_lists_nothing_twice(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md", "sub/b.md")
        (tmp_path / "files/sub/up").symlink_to("..")
        (tmp_path / "files/self").symlink_to("self")
        (tmp_path / "files/root").symlink_to(tmp_path / "files")
        assert listed(make_corpus(tmp_path)) == ["a.md", "sub/b.md"]

    def test_folders_that_link_to_each_other_are_listed_once(self, tmp_path: Path) -> None:
        names = [f"d{number}" for number in range(12)]
        for name in names:
            write(tmp_path, f"{name}/a.md")
            for other in names:
                if other != name:
                    (tmp_path / "files" / name / f"to-{other}").symlink_to(f"../{other}")
        assert listed(make_corpus(tmp_path)) == sorted(f"{name}/a.md" for name in names)

    def test_a_link_to_a_file_of_the_source_is_an_item(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md")
        (tmp_path / "files/link.md").symlink_to("a.md")
        corpus = make_corpus(tmp_path)
        assert listed(corpus) == ["a.md", "link.md"]
        assert read_item(corpus, list_items(corpus)[1]) == b"text of a.md"

    def test_a_link_to_a_folder_that_is_not_listed_otherwise_is_followed(self, tmp_path: Path) -> None:
        write(tmp_path, ".versions/7/docs/a.md", ".versions/7/docs/sub/b.md")
        (tmp_path / "files/docs").symlink_to(".versions/7/docs")
        assert listed(make_corpus(tmp_path)) == ["docs/a.md", "docs/sub/b.md"]

    def test_broken_links_are_ignored(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md")
        (tmp_path / "files/b.md").symlink_to("nowhere")
        assert listed(make_corpus(tmp_path)) == ["a.md"]

    def test_links_out_of_the_source_are_left_out_with_a_warning(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        write(tmp_path, "a.md")
        (tmp_path / "files-of-others").mkdir()
        (tmp_path / "files-of-others/secret.md").write_text("secret", encoding="utf-8")
        (tmp_path / "files/file.md").symlink_to(tmp_path / "files-of-others/secret.md")
        (tmp_path / "files/folder").symlink_to(tmp_path / "files-of-others")
        assert listed(make_corpus(tmp_path)) == ["a.md"]
        assert "folder" in caplog.text
        assert "file.md" in caplog.text

    def test_the_source_itself_may_be_a_link(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md")
        (tmp_path / "linked").symlink_to("files")
        assert listed(make_corpus(tmp_path, "linked")) == ["a.md"]

    def test_a_pipe_is_no_item(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md")
        os.mkfifo(tmp_path / "files/pipe.md")
        assert listed(make_corpus(tmp_path)) == ["a.md"]


class TestOneFile:
    def test_its_path_is_its_name_whatever_the_patterns_say(self, tmp_path: Path) -> None:
        write(tmp_path, "sub/guide.md")
        corpus = make_corpus(tmp_path, "files/sub/guide.md", include=("*.txt",), exclude=("**/*",))
        assert listed(corpus) == ["guide.md"]
        assert read_item(corpus, list_items(corpus)[0]) == b"text of sub/guide.md"

    @pytest.mark.parametrize(
        ("row_format", "expected"), [("jsonl", ["a.jsonl", "sub/b.ndjson"]), ("parquet", ["sub/c.parquet"])]
    )
    def test_a_folder_of_rows_gives_the_files_of_the_format(
        self, tmp_path: Path, row_format: str, expected: list[str]
    ) -> None:
        write(tmp_path, "a.jsonl", "sub/b.ndjson", "sub/c.parquet", "README.md")
        assert listed(make_corpus(tmp_path, format=row_format)) == expected

    def test_a_folder_of_rows_with_patterns_gives_what_they_take(self, tmp_path: Path) -> None:
        write(tmp_path, "a.jsonl", "b.json")
        assert listed(make_corpus(tmp_path, format="jsonl", include=("*.json",))) == ["b.json"]


class TestErrors:
    def test_a_source_that_is_not_there_names_file_key_and_path(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError) as error:
            list_items(make_corpus(tmp_path, "nowhere"))
        for part in ("corpus.yaml", "source.path", str(tmp_path / "nowhere"), "does not exist"):
            assert part in str(error.value)

    def test_a_path_that_no_system_has_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"source\.path: .* cannot be reached: embedded null"):
            list_items(make_corpus(tmp_path, "a\x00b"))

    def test_a_bucket_without_credentials_says_where_they_go(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        without_credentials(monkeypatch)
        with pytest.raises(ConfigError, match=r"corpus\.yaml: source\.path: s3://bucket/x: .* AWS_ACCESS_KEY_ID"):
            list_items(make_corpus(tmp_path, "s3://bucket/x"))

    @on_posix
    def test_a_pipe_as_the_source_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(SourceError, match="neither a folder nor a file"):
            list_items(make_corpus(tmp_path, "pipe"))

    def test_an_item_that_vanished_says_so(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md", "b.md")
        corpus = make_corpus(tmp_path)
        item = list_items(corpus)[0]
        (tmp_path / "files/a.md").unlink()
        with pytest.raises(SourceReadError, match=r"a\.md: vanished"):
            read_item(corpus, item)

    def test_an_item_that_became_a_folder_cannot_be_read(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md", "b.md")
        corpus = make_corpus(tmp_path)
        item = list_items(corpus)[0]
        (tmp_path / "files/a.md").unlink()
        (tmp_path / "files/a.md").mkdir()
        with pytest.raises(SourceReadError, match=r"a\.md: cannot be read"):
            read_item(corpus, item)

    @pytest.mark.parametrize("path", ["../corpus.yaml", "x/../../corpus.yaml", "/etc/hostname"])
    def test_no_path_leads_out_of_the_source(self, tmp_path: Path, path: str) -> None:
        write(tmp_path, "a.md")
        (tmp_path / "corpus.yaml").write_text("secret", encoding="utf-8")
        item = SourceItem(path=path, size=1, modified_at=datetime.now(timezone.utc))
        with pytest.raises(SourceReadError, match="leads out"):
            read_item(make_corpus(tmp_path), item)

    @as_user
    def test_a_folder_that_cannot_be_listed_stops_the_listing(self, tmp_path: Path) -> None:
        write(tmp_path, "a.md", "sub/b.md")
        (tmp_path / "files/sub").chmod(0)
        try:
            with pytest.raises(SourceError, match="cannot be listed"):
                list_items(make_corpus(tmp_path))
        finally:
            (tmp_path / "files/sub").chmod(0o700)
