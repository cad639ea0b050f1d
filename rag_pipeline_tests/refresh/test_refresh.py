"""A refresh reconciles: it costs what changed, loses nothing, and ends where a fresh build would."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_pipeline.embedding.hash import HashEmbedder
from rag_pipeline.errors import SourceError
from rag_pipeline.index.snapshot import read_manifest, read_pointer
from rag_pipeline.refresh import refresh_documents
from rag_pipeline_tests.conftest import Workspace

HASHED = "source: {path: files}\nembedding: {provider: hash}\n"
LENIENT = HASHED + "safety: {max_delete_fraction: 1.0, max_failed_fraction: 0.9}\n"
ROWS = (
    "source: {path: files/rows.jsonl, format: jsonl, fields: {id: _id, title: title, text: text}}\n"
    "embedding: {provider: hash}\nsafety: {max_delete_fraction: 1.0, max_failed_fraction: 0.9}\n"
)
PAGES = {
    "a.md": "# Apples\n\n## Red\n\nRed apples are sweet.\n\n## Green\n\nGreen apples are sour.\n",
    "b.md": "# Bread\n\nBread is baked from flour.\n",
    "sub/c.txt": "Cheese comes from milk.\n",
}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def write_rows(workspace: Workspace, *rows: dict[str, object]) -> None:
    workspace.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def sources(workspace: Workspace, query: str, **options: object) -> list[str]:
    return [hit.source for hit in workspace.index().search(query, mode="bm25", **options)]  # type: ignore[arg-type]


def test_the_first_refresh_publishes_everything(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files=PAGES)
    reports = workspace.refresh()
    assert (reports["documents"].added, reports["documents"].total) == (3, 3)
    assert reports["chunks"].total == reports["vector_table"].rows == reports["bm25_index"].chunks == 4
    assert reports["snapshot"].snapshot == 1
    assert sources(workspace, "cheese") == ["sub/c.txt"]


def test_nothing_changed_means_nothing_written(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    before = table_versions(workspace)
    reports = workspace.refresh()
    assert table_versions(workspace) == before
    assert (reports["documents"].items_read, reports["embeddings"].embedded, reports["embeddings"].cached) == (0, 0, 0)
    assert not reports["snapshot"].published


def test_a_touched_file_is_read_and_changes_nothing(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    os.utime(folder / "files" / "a.md", (1_700_000_000, 1_700_000_000))
    reports = workspace.refresh()
    assert (reports["documents"].items_read, reports["documents"].changed) == (1, 0)
    assert not reports["snapshot"].published
    assert workspace.refresh()["documents"].items_read == 0


def test_a_changed_file_embeds_only_the_text_that_is_new(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    workspace.write("a.md", PAGES["a.md"].replace("## Green", "## Blue\n\nNo fruit is blue.\n\n## Green"))
    reports = workspace.refresh()
    assert reports["documents"].changed == 1
    assert (reports["chunks"].added, reports["chunks"].removed) == (1, 0)
    assert reports["embeddings"].embedded == 1
    assert sources(workspace, "fruit") == ["a.md"]
    assert sources(workspace, "sour") == ["a.md"]


def test_a_deleted_file_is_gone_from_the_next_snapshot(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=LENIENT, files=PAGES)
    workspace.refresh()
    (folder / "files" / "b.md").unlink()
    reports = workspace.refresh()
    assert (reports["documents"].removed, reports["documents"].total) == (1, 2)
    assert sources(workspace, "bread") == []
    assert workspace.index(snapshot=1).search("bread", mode="bm25")[0].source == "b.md"


def test_deletions_that_were_allowed_and_not_published_need_to_be_allowed_again(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    (folder / "files" / "b.md").unlink()
    refresh_documents(workspace.context(allow_deletes=True))
    with pytest.raises(SourceError, match=r"1 of 3 documents would be deleted .*: b\.md\. What is served stays as it is"):
        workspace.refresh()
    assert sources(workspace, "bread") == ["b.md"]
    assert workspace.refresh(allow_deletes=True)["snapshot"].documents == 2
    assert workspace.refresh()["snapshot"].published is False


def test_an_unpublished_move_is_no_deletion(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    (folder / "files" / "b.md").rename(folder / "files" / "moved.md")
    refresh_documents(workspace.context())
    assert workspace.refresh()["snapshot"].documents == 3


def test_renaming_and_copying_costs_no_embedding(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    (folder / "files").joinpath("a.md").rename(folder / "files" / "renamed.md")
    workspace.write('it\'s a "copy".md', PAGES["b.md"])
    reports = workspace.refresh()
    assert reports["embeddings"].embedded == 0
    assert sources(workspace, "sour") == ["renamed.md"]
    (hit,) = workspace.index().search("flour", mode="bm25")
    assert set(hit.sources) == {"b.md", 'it\'s a "copy".md'}


def test_changed_metadata_reaches_filters_and_embeds_nothing(workspace: Workspace) -> None:
    yaml = HASHED + "metadata: {year: int}\n"
    workspace.corpus(yaml=yaml, files={"a.md": "---\nyear: 2020\n---\nThe ferry leaves at noon.\n"})
    workspace.refresh()
    workspace.write("a.md", "---\nyear: 2026\n---\nThe ferry leaves at noon.\n")
    reports = workspace.refresh()
    assert (reports["embeddings"].embedded, reports["chunks"].documents_chunked) == (0, 0)
    assert sources(workspace, "ferry", where="year = 2026") == ["a.md"]
    assert sources(workspace, "ferry", where="year = 2020") == []


def test_a_new_metadata_column_embeds_nothing(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files={"a.md": "---\nyear: 2020\n---\nThe ferry leaves at noon.\n"})
    workspace.refresh()
    workspace.corpus(yaml=HASHED + "metadata: {year: int}\n")
    reports = workspace.refresh()
    assert (reports["documents"].items_read, reports["embeddings"].embedded) == (0, 0)
    assert reports["vector_table"].rebuilt
    assert sources(workspace, "ferry", where="year < 2021") == ["a.md"]


@pytest.mark.parametrize(
    ("change", "chunked", "embedded", "bm25_rebuilt"),
    [
        ("chunking: {size: 8, overlap: 0}\n", 3, True, False),
        ("lexical: {language: german}\n", 0, False, True),
        ("lexical: {k1: 1.2, b: 0.5}\n", 0, False, False),
        ("retrieval: {fusion: rrf, rrf_k: 10}\n", 0, False, False),
    ],
)
def test_a_changed_configuration_redoes_what_depends_on_it(
    workspace: Workspace, change: str, chunked: int, embedded: bool, bm25_rebuilt: bool
) -> None:
    workspace.corpus(yaml=HASHED, files={**PAGES, "sub/c.txt": "Cheese comes from milk. " * 5})
    workspace.refresh()
    workspace.corpus(yaml=HASHED + change)
    reports = workspace.refresh()
    assert reports["documents"].items_read == 0
    assert reports["chunks"].documents_chunked == chunked
    assert (reports["embeddings"].embedded > 0) is embedded
    assert reports["bm25_index"].rebuilt is bm25_rebuilt
    assert reports["snapshot"].published
    assert reports["snapshot"].snapshot == 2


def test_another_embedder_embeds_all_and_the_way_back_costs_nothing(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files=PAGES)
    first = workspace.refresh()
    workspace.corpus(yaml="source: {path: files}\nembedding: {provider: static}\n")
    static = workspace.refresh()
    assert static["embeddings"].embedded == static["chunks"].total
    assert static["vector_table"].rebuilt
    workspace.corpus(yaml=HASHED)
    back = workspace.refresh()
    assert (back["embeddings"].embedded, back["embeddings"].cached) == (0, first["chunks"].total)
    assert back["snapshot"].hash == first["snapshot"].hash


def test_texts_go_to_the_model_in_batches_that_suit_it(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    embed = HashEmbedder.embed_documents

    def counted(self: HashEmbedder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        sizes.append(len(texts))
        return embed(self, texts)

    monkeypatch.setattr(HashEmbedder, "batch_size", 3)
    monkeypatch.setattr(HashEmbedder, "embed_documents", counted)
    workspace.corpus(yaml=HASHED, files={f"{n}.txt": f"Page number {n}." for n in range(8)})
    workspace.refresh()
    assert sizes == [3, 3, 2]
    assert sources(workspace, "7") == ["7.txt"]


def test_a_file_that_cannot_be_parsed_keeps_its_last_good_version(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT, files=PAGES)
    workspace.refresh()
    workspace.write("b.md", PNG)
    reports = workspace.refresh()["documents"]
    assert (reports.total, reports.stale, reports.failed) == (3, 1, 1)
    assert "b.md" in reports.failures[0].source
    assert reports.failures[0].kept
    assert sources(workspace, "bread") == ["b.md"]
    again = workspace.refresh()["documents"]
    assert (again.items_read, again.stale) == (0, 1)
    workspace.write("b.md", "# Bread\n\nBread is risen.\n")
    assert workspace.refresh()["documents"].stale == 0
    assert sources(workspace, "risen") == ["b.md"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_keeps_its_last_good_version_and_is_tried_again(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=LENIENT, files=PAGES)
    workspace.refresh()
    secret = folder / "files" / "b.md"
    workspace.write("b.md", "# Bread\n\nBread is risen.\n").chmod(0)
    assert workspace.refresh()["documents"].stale == 1
    assert sources(workspace, "bread") == ["b.md"]
    secret.chmod(0o644)
    workspace.refresh()
    assert sources(workspace, "risen") == ["b.md"]


def test_a_file_that_was_never_readable_is_listed_and_not_served(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT, files={**PAGES, "bad.md": PNG, "empty.txt": ""})
    reports = workspace.refresh()["documents"]
    assert (reports.total, reports.failed) == (3, 2)
    assert {failure.source for failure in reports.failures} == {"bad.md", "empty.txt"}
    assert all(failure.reason for failure in reports.failures)


def test_a_source_that_lists_nothing_stops_the_refresh(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    (folder / "files").rename(folder / "away")
    (folder / "files").mkdir()
    with pytest.raises(SourceError, match=r"lists no item.*3 documents stays"):
        workspace.refresh()
    assert sources(workspace, "bread") == ["b.md"]


def test_a_source_that_loses_much_stops_the_refresh_until_it_is_allowed(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    (folder / "files" / "a.md").unlink()
    with pytest.raises(SourceError, match=r"1 of 3 documents would be deleted.*--allow-deletes"):
        workspace.refresh()
    assert sources(workspace, "sour") == ["a.md"]
    assert workspace.refresh(allow_deletes=True)["documents"].removed == 1


def test_moving_a_whole_folder_is_no_loss(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files={f"old/{name}": text for name, text in PAGES.items()})
    workspace.refresh()
    (folder / "files" / "old").rename(folder / "files" / "new")
    reports = workspace.refresh()
    assert (reports["documents"].removed, reports["embeddings"].embedded) == (3, 0)


def test_files_that_were_always_empty_are_reported_and_stop_nothing(workspace: Workspace) -> None:
    empty = {"blank.md": " \n\n", "empty.md": "", "only-front-matter.md": "---\ndraft: true\n---\n"}
    workspace.corpus(yaml=HASHED, files={**PAGES, **empty})
    for _ in range(2):
        report = workspace.refresh()["documents"]
        assert (report.total, {failure.source for failure in report.failures}) == (len(PAGES), set(empty))
    for name in PAGES:
        workspace.write(name, "")
    with pytest.raises(SourceError, match="6 of 6 documents cannot be read"):
        workspace.refresh()


def test_a_source_that_mostly_fails_stops_the_refresh(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files={**PAGES, "bad.md": PNG})
    with pytest.raises(SourceError, match=r"(?s)1 of 4 documents cannot be read.*\n  bad\.md: image"):
        workspace.refresh()


def test_what_could_be_read_before_is_named_first_when_too_much_fails(workspace: Workspace) -> None:
    pages = {f"{number:02}.md": f"# Page {number}\n\nText of page {number}.\n" for number in range(30)}
    workspace.corpus(yaml=HASHED + "safety: {max_failed_fraction: 0.5}\n", files=pages)
    workspace.write("00.png", PNG)
    workspace.refresh()
    for number in range(9, 30):
        workspace.write(f"{number:02}.md", PNG)
    with pytest.raises(SourceError, match="22 of 31 documents cannot be read") as caught:
        workspace.refresh()
    named = [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]]
    assert named == [*(f"{number:02}.md" for number in range(9, 29)), "… and 2 more, which --json lists"]


def test_records_are_documents_under_their_own_ids(workspace: Workspace) -> None:
    workspace.corpus(yaml=ROWS)
    write_rows(
        workspace, {"_id": "001", "title": "Tea", "text": "Leaves."}, {"_id": "it's", "title": None, "text": "Water."}
    )
    workspace.refresh()
    (hit,) = workspace.index().search("leaves", mode="bm25")
    assert (hit.document_id, hit.source, hit.title) == ("001", "rows.jsonl#001", "Tea")
    assert sources(workspace, "water", where="document_id = 'it''s'") == ["rows.jsonl#it's"]


def test_one_changed_record_costs_one_record(workspace: Workspace) -> None:
    workspace.corpus(yaml=ROWS)
    rows: list[dict[str, object]] = [{"_id": str(n), "title": f"T{n}", "text": f"Text number {n}."} for n in range(20)]
    write_rows(workspace, *rows)
    workspace.refresh()
    rows[7]["text"] = "Something else."
    write_rows(workspace, *rows[:-1])
    reports = workspace.refresh()
    assert (reports["documents"].changed, reports["documents"].removed, reports["documents"].unchanged) == (1, 1, 18)
    assert reports["embeddings"].embedded == 1


def test_an_id_that_is_taken_twice_keeps_its_first_record(workspace: Workspace) -> None:
    workspace.corpus(yaml=ROWS)
    write_rows(
        workspace,
        {"_id": "x", "text": "First version."},
        {"_id": "x", "text": "Second version."},
        {"_id": "y", "text": "Other."},
    )
    reports = workspace.refresh()["documents"]
    assert (reports.total, reports.failed) == (2, 1)
    assert "'x' is taken already" in reports.failures[0].reason
    assert workspace.index().search("version", mode="bm25")[0].text == "First version."
    write_rows(workspace, {"_id": "x", "text": "Second version."}, {"_id": "y", "text": "Other."})
    assert workspace.refresh()["documents"].failed == 0
    assert workspace.index().search("version", mode="bm25")[0].text == "Second version."


def test_a_record_that_lost_its_text_keeps_its_last_good_version(workspace: Workspace) -> None:
    workspace.corpus(yaml=ROWS)
    write_rows(workspace, {"_id": "x", "text": "Here."}, {"_id": "y", "text": "There."})
    workspace.refresh()
    write_rows(workspace, {"_id": "x", "text": None}, {"_id": "y", "text": "There."})
    reports = workspace.refresh()["documents"]
    assert (reports.total, reports.stale) == (2, 1)
    assert sources(workspace, "here") == ["rows.jsonl#x"]


def test_an_incremental_history_ends_with_the_manifest_and_ranking_of_a_fresh_build(tmp_path: Path) -> None:
    grown, fresh = Workspace(tmp_path / "grown"), Workspace(tmp_path / "fresh")
    folder = grown.corpus(yaml=LENIENT, files={"x.md": "# Gone\n\nThis page goes.\n", "a.md": "# Apples\n\nOld text.\n"})
    grown.refresh()
    (folder / "files" / "x.md").unlink()
    for name, text in PAGES.items():
        grown.write(name, text)
        grown.refresh()
    fresh.corpus(yaml=LENIENT, files=PAGES)
    fresh.refresh()
    ours, theirs = grown.index(), fresh.index()
    assert ours.manifest.hash == theirs.manifest.hash
    for query in ("apples", "sweet red milk", "what is baked?"):
        left, right = ours.search(query), theirs.search(query)
        assert [(hit.chunk_id, hit.score) for hit in left] == [(hit.chunk_id, hit.score) for hit in right]


def test_a_full_refresh_reads_everything_and_publishes(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh()
    stat = (folder / "files" / "b.md").stat()
    (folder / "files" / "b.md").write_text(PAGES["b.md"].replace("flour", "dough"))
    os.utime(folder / "files" / "b.md", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    reports = workspace.refresh(full=True)
    assert reports["documents"].items_read == 3
    assert reports["embeddings"].embedded == 1
    assert sources(workspace, "dough") == ["b.md"]


def test_an_excluded_file_is_gone_after_the_next_refresh(workspace: Workspace) -> None:
    workspace.corpus(yaml=LENIENT, files=PAGES)
    workspace.refresh()
    workspace.corpus(yaml=LENIENT.replace("path: files", "path: files, exclude: ['sub/**']"))
    assert workspace.refresh()["documents"].removed == 1
    assert sources(workspace, "cheese") == []


def test_the_manifest_names_what_was_made(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files=PAGES)
    workspace.refresh(run_id="run-7")
    manifest = read_manifest(workspace.context().store)
    assert (manifest.corpus, manifest.snapshot, manifest.run_id) == ("docs", 1, "run-7")
    assert set(manifest.content.documents) == set(PAGES)
    assert manifest.hash == manifest.content.hash
    assert manifest.content.embedder.provider == "hash"


def table_versions(workspace: Workspace) -> dict[str, object]:
    store = workspace.context().store
    tables = {name: store.table(name) for name in ("items", "documents", "chunks", "vectors")}
    versions: dict[str, object] = {name: table.version for name, table in tables.items() if table is not None}
    return {**versions, "bm25": sorted(path.name for path in store.bm25.iterdir()), "current": read_pointer(store)}
