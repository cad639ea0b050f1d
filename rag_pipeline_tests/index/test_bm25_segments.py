"""Segments are immutable files: equal contents are equal files, and what is damaged is refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.config import LexicalConfig
from rag_pipeline.contracts import BM25Segment
from rag_pipeline.errors import StoreError
from rag_pipeline.index.analyzer import Analyzer
from rag_pipeline.index.bm25 import (
    building,
    compact,
    live_chunk_ids,
    merge_segments,
    open_bm25,
    plan_merges,
    verify_segment,
    write_deletions,
    write_segments,
)
from rag_pipeline.index.bm25.segments import SegmentReader

ENGLISH = Analyzer(LexicalConfig(language="english"))
WORDS = ["run", "running", "café", "日本", "node.js", "internationally", "international", "a"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=10)


def write(folder: Path, chunks: dict[str, str], size: int = 1000, analyzer: Analyzer = ENGLISH) -> list[BM25Segment]:
    ids, texts = list(chunks), list(chunks.values())
    batches = [
        (pa.array(ids[start : start + size], pa.string()), pa.array(texts[start : start + size], pa.large_string()))
        for start in range(0, len(ids), size)
    ]
    return write_segments(folder, batches, analyzer)


def one(folder: Path, chunks: dict[str, str]) -> BM25Segment:
    (segment,) = write(folder, chunks)
    return segment


def some(count: int, prefix: str = "c") -> dict[str, str]:
    return {f"{prefix}{number}": f"word{number} common {'text ' * (number % 4)}" for number in range(count)}


def segment_of(chunks: int, deleted: int = 0, name: str = "") -> BM25Segment:
    return BM25Segment(file=name or f"{chunks}-{deleted}", sha256="", chunks=chunks, deleted=deleted)


@settings(max_examples=60)
@given(TEXTS, st.integers(1, 4), st.integers(1, 12))
def test_equal_chunks_give_equal_files_however_they_are_cut(texts: list[str], first: int, second: int) -> None:
    chunks = {f"c{number}": text for number, text in enumerate(texts)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        assert write(folder, chunks, first) == write(folder, chunks, second)


@settings(max_examples=60)
@given(TEXTS, st.integers(0, 10), st.sets(st.integers(0, 9)))
def test_a_merged_segment_is_the_file_that_a_fresh_build_makes(texts: list[str], cut: int, dead: set[int]) -> None:
    chunks = {f"c{number}": text for number, text in enumerate(texts)}
    gone = {f"c{number}" for number in dead}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = (dict(list(chunks.items())[:cut]), dict(list(chunks.items())[cut:]))
        segments = [segment for part in parts for segment in write(folder, part)]
        ids = pa.array(sorted(gone), pa.string())
        segments = [write_deletions(folder, segment, ids) for segment in segments]
        live = {chunk_id: text for chunk_id, text in chunks.items() if chunk_id not in gone}
        assert live_chunk_ids(folder, segments).to_pylist() == list(live)
        merged = merge_segments(folder, segments)
        assert ([merged] if merged else []) == write(folder, live)


def test_nothing_is_written_without_chunks(tmp_path: Path) -> None:
    assert write(tmp_path / "bm25", {}) == []
    assert write_segments(tmp_path / "bm25", [(pa.array([], pa.string()), pa.array([], pa.string()))], ENGLISH) == []
    assert not (tmp_path / "bm25").exists()
    assert merge_segments(tmp_path, []) is None


def test_chunks_without_terms_are_counted(tmp_path: Path) -> None:
    segment = one(tmp_path, {"x": "", "y": "...", "z": "word"})
    assert segment.chunks == 3
    assert SegmentReader(tmp_path, segment).lengths.tolist() == [0, 0, 1]


def test_large_inputs_become_several_segments_cut_at_the_same_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = some(100)
    monkeypatch.setattr(building, "MAX_LENGTH", 70)
    by_length = write(tmp_path, chunks, 1000)
    assert len(by_length) > 3
    assert by_length == write(tmp_path, chunks, 7)
    assert all(int(SegmentReader(tmp_path, segment).lengths.sum()) <= 70 for segment in by_length)
    monkeypatch.setattr(building, "MAX_CHUNKS", 9)
    assert [segment.chunks for segment in write(tmp_path, chunks, 13)] == [9] * 11 + [1]
    assert live_chunk_ids(tmp_path, write(tmp_path, chunks)).to_pylist() == list(chunks)


def test_one_chunk_longer_than_a_segment_has_one_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAX_LENGTH", 5)
    chunks = {"a": "x", "b": "x " * 50, "c": "x"}
    assert [segment.chunks for segment in write(tmp_path, chunks)] == [1, 1, 1]


def test_merging_in_small_steps_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = write(tmp_path, some(40)) + write(tmp_path, some(30, "d"))
    segments = [write_deletions(tmp_path, segment, pa.array(["c3", "d4"])) for segment in segments]
    whole = merge_segments(tmp_path, segments)
    monkeypatch.setattr(building, "_POSTINGS_PER_STEP", 8)
    assert merge_segments(tmp_path, segments) == whole


def test_frequencies_beyond_a_byte_are_kept_and_narrowed_again(tmp_path: Path) -> None:
    chunks = {"many": "word " * 70_000, "some": "word " * 300, "one": "word"}
    segment = one(tmp_path, chunks)
    assert SegmentReader(tmp_path, segment).frequencies.tolist() == [70_000, 300, 1]
    smaller = merge_segments(tmp_path, [write_deletions(tmp_path, segment, pa.array(["many"]))])
    assert smaller is not None
    assert SegmentReader(tmp_path, smaller).frequencies.dtype == np.uint16


def test_deletions_add_up_and_leave_the_segment_as_it_was(tmp_path: Path) -> None:
    segment = one(tmp_path, some(10))
    before = (tmp_path / segment.file).read_bytes()
    first = write_deletions(tmp_path, segment, pa.array(["c1", "not here"]))
    second = write_deletions(tmp_path, first, pa.array(["c5", "c1"]))
    assert (first.deleted, second.deleted) == (1, 2)
    assert (first.file, first.sha256) == (segment.file, segment.sha256)
    assert first.deletions_file != second.deletions_file
    assert live_chunk_ids(tmp_path, [second]).to_pylist() == [f"c{n}" for n in range(10) if n not in (1, 5)]
    assert live_chunk_ids(tmp_path, [first]).to_pylist() == [f"c{n}" for n in range(10) if n != 1]
    assert (tmp_path / segment.file).read_bytes() == before


def test_deleting_nothing_new_writes_nothing(tmp_path: Path) -> None:
    segment = write_deletions(tmp_path, one(tmp_path, some(3)), pa.array(["c1"]))
    files = sorted(tmp_path.iterdir())
    assert write_deletions(tmp_path, segment, pa.array(["c1", "elsewhere"])) == segment
    assert write_deletions(tmp_path, segment, pa.array([], pa.string())) == segment
    assert sorted(tmp_path.iterdir()) == files


def test_a_chunk_id_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"'x'.*twice"):
        write_segments(tmp_path, [(pa.array(["x", "y", "x"]), pa.array(["a", "b", "c"]))], ENGLISH)
    segments = [one(tmp_path, {"x": "a"}), one(tmp_path, {"x": "b"})]
    with pytest.raises(StoreError, match=r"'x'.*twice"):
        merge_segments(tmp_path, segments)


def test_a_chunk_without_an_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="without an id"):
        write_segments(tmp_path, [(pa.array(["x", None]), pa.array(["a", "b"]))], ENGLISH)


def test_segments_of_different_languages_are_not_merged(tmp_path: Path) -> None:
    german = write(tmp_path, {"y": "b"}, analyzer=Analyzer(LexicalConfig(language="german")))
    with pytest.raises(StoreError, match="different analyzers"):
        merge_segments(tmp_path, [one(tmp_path, {"x": "a"}), *german])


def test_files_are_named_by_their_contents_and_verified_by_their_hash(tmp_path: Path) -> None:
    segment = write_deletions(tmp_path, one(tmp_path, some(5)), pa.array(["c2"]))
    assert segment.file == f"postings-{segment.sha256[:32]}.arrow"
    verify_segment(tmp_path, segment)
    assert segment.deletions_file is not None
    for file in (segment.file, segment.deletions_file):
        path = tmp_path / file
        whole = path.read_bytes()
        path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
        with pytest.raises(StoreError, match=f"{file}.*SHA-256"):
            verify_segment(tmp_path, segment)
        path.write_bytes(whole)
    verify_segment(tmp_path, segment)


@pytest.mark.parametrize("kept", [0, 7, 100, 1000])
def test_files_cut_short_are_refused_on_opening(tmp_path: Path, kept: int) -> None:
    segment = one(tmp_path, some(50))
    path = tmp_path / segment.file
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(StoreError, match=f"{segment.file}.*--full"):
        open_bm25(tmp_path, [segment], LexicalConfig(language="english"))
    with pytest.raises(StoreError, match="SHA-256"):
        verify_segment(tmp_path, segment)


def test_missing_and_exchanged_files_are_refused(tmp_path: Path) -> None:
    first, second = one(tmp_path, some(5)), one(tmp_path, some(6))
    with pytest.raises(StoreError, match="do not fit"):
        open_bm25(tmp_path, [first.model_copy(update={"file": second.file})], LexicalConfig(language="english"))
    marked = write_deletions(tmp_path, second, pa.array(["c2"]))
    deletions = {"deletions_file": marked.deletions_file, "deletions_sha256": marked.deletions_sha256, "deleted": 1}
    with pytest.raises(StoreError, match="does not belong"):
        open_bm25(tmp_path, [first.model_copy(update=deletions)], LexicalConfig(language="english"))
    (tmp_path / first.file).unlink()
    for attempt in (
        lambda: open_bm25(tmp_path, [first], LexicalConfig(language="english")),
        lambda: verify_segment(tmp_path, first),
    ):
        with pytest.raises(StoreError, match=f"{first.file}.*--full"):
            attempt()


def test_what_a_killed_run_left_half_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".postings-abc.tmp").write_bytes(b"half")
    segment = one(tmp_path, some(4))
    assert live_chunk_ids(tmp_path, [segment]).to_pylist() == ["c0", "c1", "c2", "c3"]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".arrow"] == [segment.file]


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        one(tmp_path, some(4))
    assert list(tmp_path.iterdir()) == []


def test_writing_what_is_there_already_mends_a_damaged_file(tmp_path: Path) -> None:
    segment = one(tmp_path, some(4))
    (tmp_path / segment.file).write_bytes(b"damaged")
    assert one(tmp_path, some(4)) == segment
    verify_segment(tmp_path, segment)


def test_four_small_segments_are_merged_and_large_ones_left_alone() -> None:
    small = [segment_of(10, name=f"s{number}") for number in range(5)]
    large = [segment_of(60_000, name="large"), segment_of(200_000, name="huge")]
    assert plan_merges([*large, *small]) == [small[:4]]
    assert plan_merges([*large, *small[:3]]) == []
    assert plan_merges([segment_of(building.MAX_CHUNKS, name=f"h{number}") for number in range(8)]) == []


def test_a_segment_with_much_deleted_is_written_anew() -> None:
    little, much = segment_of(100_000, 30_000, "little"), segment_of(100_000, 30_001, "much")
    assert plan_merges([little, much]) == [[much]]


@given(st.lists(st.integers(1, 300_000), max_size=60))
def test_no_plan_makes_a_segment_larger_than_the_largest(sizes: list[int]) -> None:
    segments = [segment_of(size, name=f"s{number}") for number, size in enumerate(sizes)]
    groups = plan_merges(segments)
    names = [segment.file for group in groups for segment in group]
    assert len(names) == len(set(names))
    for group in groups:
        assert sum(segment.chunks for segment in group) <= building.MAX_CHUNKS


def test_a_hundred_refreshes_leave_few_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_SMALLEST_TIER", 8)
    segments: list[BM25Segment] = []
    for number in range(100):
        gone = pa.array([f"r{number - 9}-{n}" for n in range(2)])
        segments = [write_deletions(tmp_path, segment, gone) for segment in segments]
        segments = compact(tmp_path, segments + write(tmp_path, some(4, f"r{number}-")))
        assert len(segments) <= 16
    live = set(live_chunk_ids(tmp_path, segments).to_pylist())
    assert live == {f"r{r}-{n}" for r in range(100) for n in range(4) if n > 1 or r > 90}


def test_a_segment_whose_chunks_are_all_deleted_disappears(tmp_path: Path) -> None:
    segment = write_deletions(tmp_path, one(tmp_path, some(3)), pa.array(["c0", "c1", "c2"]))
    assert compact(tmp_path, [segment]) == []
    assert open_bm25(tmp_path, [segment], LexicalConfig(language="english")).corpus_size == 0
