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
    ("path", "fault"),
    [
        ("", "the path is empty; expected a path within the source, such as 'guide/setup.md'"),
        ("/etc/x.md", "begins with /; expected a path within the source, such as 'guide/setup.md'"),
        ("../x.md", "leads out of the source; expected a path within the source"),
        ("sub/../../x.md", "leads out of the source; expected a path within the source"),
        ("..", "leads out of the source; expected a path within the source"),
        (".", "names no item; expected a path within the source"),
        ("sub/../a.md", "expected a path within the source without '.', '..' and empty parts: 'a.md'"),
        ("a//b.md", "expected a path within the source without '.', '..' and empty parts: 'a/b.md'"),
        ("./a.md", "expected a path within the source without '.', '..' and empty parts: 'a.md'"),
        ("sub/", "ends with / as a folder does; expected a path within the source"),
        ("a\0.md", "holds a control character; expected a path within the source"),
        ("a\nb.md", "holds a control character; expected a path within the source"),
        ("sub\\..\\x.md", "holds a backslash; expected a path within the source, such as 'guide/setup.md', with / between"),
        ("\ud800.md", "holds what is not UTF-8; expected a path within the source"),
    ],
)
def test_what_is_no_path_within_the_source_is_refused_with_what_to_write(
    workspace: Workspace, path: str, fault: str
) -> None:
    corpus = with_corpus(workspace).config()
    for action in (lambda: put_item(corpus, path, b"x"), lambda: remove_item(corpus, path)):
        with pytest.raises(ConfigError) as raised:
            action()
        assert str(raised.value).startswith(f"{path!r}: {fault}")


def test_the_whole_path_of_an_item_is_told_as_the_source_knows_it(workspace: Workspace) -> None:
    corpus = with_corpus(workspace).config()
    with pytest.raises(ConfigError, match=r"begins with /; expected a path within the source: 'sub/b\.md'$"):
        remove_item(corpus, str(corpus.source_path / "sub" / "b.md"))


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
    for path in ("a.md/b.md", "a.md/deep/er/b.md"):
        with pytest.raises(SourceError, match=rf"^'{path}': 'a.md' is a file, nothing can lie under it; remove it first"):
            put_item(corpus, path, b"x")
    workspace.corpus("gone", yaml="source: {path: nowhere}\n")
    with pytest.raises(SourceError, match="does not exist; make the folder first"):
        put_item(workspace.config("gone"), "a.md", b"x")


def test_a_name_that_the_file_system_refuses_is_told(workspace: Workspace) -> None:
    workspace.corpus(yaml="source: {path: files}\n")
    with pytest.raises(SourceError, match="File name too long"):
        put_item(workspace.config(), f"{'l' * 300}.md", BYTES)
