"""Single items put into a source and removed from it: what a refresh would pick up, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rag_pipeline.errors import ConfigError, SourceError
from rag_pipeline.sources import list_items, put_item, read_item, remove_item
from rag_pipeline_tests.conftest import Workspace

on_posix = pytest.mark.skipif(os.name != "posix", reason="links of POSIX file systems")

BYTES = b"\xef\xbb\xbf# Title\r\n\r\nText with \xff in it.\r\n"


def with_corpus(workspace: Workspace, source: str = "path: files") -> Workspace:
    workspace.corpus(yaml=f"source: {{{source}}}\n", files={"a.md": "# A\n", "sub/b.md": "# B\n"})
    return workspace


def test_an_item_is_written_byte_for_byte_and_listed(workspace: Workspace) -> None:
    corpus = with_corpus(workspace).config()
    written = put_item(corpus, "new folder/日本語 it's.md", BYTES)
    assert Path(written.address) == workspace.corpora / "docs/files/new folder/日本語 it's.md"
    assert written.size == len(BYTES)
    item = next(item for item in list_items(corpus) if item.path == "new folder/日本語 it's.md")
    assert read_item(corpus, item) == BYTES
    assert not list(workspace.corpora.rglob("*.tmp"))


def test_an_item_replaces_the_one_before_and_goes(workspace: Workspace) -> None:
    corpus = with_corpus(workspace).config()
    put_item(corpus, "a.md", b"# Other\n")
    assert read_item(corpus, list_items(corpus)[0]) == b"# Other\n"
    assert remove_item(corpus, "a.md").size == 8
    assert [item.path for item in list_items(corpus)] == ["sub/b.md"]
    with pytest.raises(SourceError, match=r"files: there is no item 'a\.md'"):
        remove_item(corpus, "a.md")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/x.md",
        "../x.md",
        "sub/../../x.md",
        "a//b.md",
        "./a.md",
        "sub/",
        "a\0.md",
        "a\nb.md",
        "sub\\..\\x.md",
        "\ud800.md",
    ],
)
def test_what_is_no_path_within_the_source_is_refused(workspace: Workspace, path: str) -> None:
    corpus = with_corpus(workspace).config()
    for action in (lambda: put_item(corpus, path, b"x"), lambda: remove_item(corpus, path)):
        with pytest.raises(ConfigError, match="expected a path within the source"):
            action()


@pytest.mark.parametrize(
    ("source", "path", "fault"),
    [
        ("path: files, include: ['**/*.md']", "a.txt", r"source\.include of .* does not pick it up: expected a match of"),
        ("path: files, exclude: ['drafts/']", "drafts/a.md", r"source\.exclude of .* leaves it out"),
        ("path: files", ".hidden.md", r"a dot are left out; set source\.hidden"),
        ("path: files", ".git/a.md", r"a dot are left out; set source\.hidden"),
        ("path: files, format: jsonl", "rows.jsonl", r"source\.format: a jsonl file holds many documents"),
        ("path: files/a.md", "b.md", r"the source is one file, 'a\.md'"),
    ],
)
def test_what_a_refresh_would_not_pick_up_is_refused(workspace: Workspace, source: str, path: str, fault: str) -> None:
    corpus = with_corpus(workspace, source).config()
    for action in (lambda: put_item(corpus, path, b"x"), lambda: remove_item(corpus, path)):
        with pytest.raises(ConfigError, match=fault):
            action()
    assert not (workspace.corpora / "docs/files" / path).exists() or path == "rows.jsonl"


def test_a_source_that_is_one_file_is_replaced(workspace: Workspace) -> None:
    corpus = with_corpus(workspace, "path: files/a.md").config()
    put_item(corpus, "a.md", b"new")
    assert (workspace.corpora / "docs/files/a.md").read_bytes() == b"new"


@on_posix
def test_links_do_not_lead_out(workspace: Workspace) -> None:
    corpus = with_corpus(workspace).config()
    files, outside = workspace.corpora / "docs/files", workspace.root / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("theirs")
    (files / "out").symlink_to(outside)
    (files / "x.md").symlink_to(outside / "x.md")
    for path in ("out/x.md", "out/new.md", "x.md"):
        with pytest.raises(ConfigError, match="leads out of the source's folder"):
            put_item(corpus, path, b"ours")
        with pytest.raises(ConfigError, match="leads out of the source's folder"):
            remove_item(corpus, path)
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [("x.md", "theirs")]


def test_a_folder_and_a_source_that_is_not_there_say_so(workspace: Workspace) -> None:
    corpus = with_corpus(workspace).config()
    with pytest.raises(SourceError, match="'sub' is a folder"):
        put_item(corpus, "sub", b"x")
    with pytest.raises(SourceError, match="cannot be written"):
        put_item(corpus, "a.md/b.md", b"x")
    workspace.corpus("gone", yaml="source: {path: nowhere}\n")
    with pytest.raises(SourceError, match="does not exist; make the folder first"):
        put_item(workspace.config("gone"), "a.md", b"x")


def test_a_name_that_the_file_system_refuses_is_told(workspace: Workspace) -> None:
    workspace.corpus(yaml="source: {path: files}\n")
    with pytest.raises(SourceError, match="File name too long"):
        put_item(workspace.config(), f"{'l' * 300}.md", BYTES)
