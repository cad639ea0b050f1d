"""Why a document that was expected is not among the hits."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_pipeline.errors import QueryError
from rag_pipeline.query import Index
from rag_pipeline_tests.conftest import Workspace

COPY = "A paragraph about lanterns that stands in two files.\n"
PAGES: dict[str, str | bytes] = {
    "ops/rollback.md": "# Rollback\n\nMove the pointer back to an older snapshot.\n",
    "ops/o'brien; 50%.txt": "Quotes and semicolons in a name.\n",
    "copies/one.txt": COPY,
    "copies/two.txt": COPY,
    "bad.md": b"\xff\xfe\x00\xd8\x00\xd8",
    "empty.txt": "",
    **{f"filler/{n}.txt": f"Filler page number {n} about topic {n % 7} and a snapshot.\n" for n in range(150)},
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("missing"))
    made.corpus(files=PAGES)
    made.refresh()
    return made


@pytest.fixture(scope="module")
def index(workspace: Workspace) -> Index:
    return workspace.index()


@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
def test_places_are_those_of_a_search(index: Index, mode: str) -> None:
    query = "filler about topic 3"
    hits = index.search(query, k=100, mode=mode)  # type: ignore[arg-type]
    last = "fused" if mode == "hybrid" else mode
    for hit in hits[::17]:
        missing = index.explain_missing(query, hit.document_id, mode)  # type: ignore[arg-type]
        place = getattr(missing, last)
        assert (missing.verdict, missing.chunks, missing.chunks_allowed) == ("ranked", 1, 1)
        assert (place.rank, place.chunk_id) == (hit.rank, hit.chunk_id)
        assert place.score == pytest.approx(hit.score, abs=1e-6)
        asked = {name for name in ("vector", "bm25", "fused") if getattr(missing, name) is not None}
        assert asked == ({"vector", "bm25", "fused"} if mode == "hybrid" else {mode})


def test_a_document_beyond_the_candidates_has_a_rank_in_the_arm_that_found_it(index: Index) -> None:
    missing = index.explain_missing("filler page number about topic", "ops/rollback.md")
    assert missing.vector is not None
    assert missing.bm25 is not None
    assert missing.fused is not None
    assert missing.vector.rank is not None
    assert missing.vector.rank > 100
    assert missing.vector.looked_at == len(PAGES) - 3
    assert (missing.bm25.rank, missing.fused.rank) == (None, None)
    assert set(missing.terms_lacking) == {term.term for term in missing.terms}


def test_the_terms_that_it_lacks_are_named_with_how_many_chunks_hold_them(index: Index) -> None:
    missing = index.explain_missing("older snapshots xylophone", "ops/rollback.md")
    held = {term.term: (term.chunks_of_document, term.chunks_with_term) for term in missing.terms}
    assert held == {"older": (1, 1), "snapshot": (1, 151), "xylophon": (0, 0)}
    assert missing.terms_lacking == ("xylophon",)


def test_a_document_that_the_condition_leaves_out_shows_where_it_stood(index: Index) -> None:
    missing = index.explain_missing("older snapshot", "ops/rollback.md", where="path LIKE 'copies/%'")
    assert (missing.verdict, missing.chunks, missing.chunks_allowed) == ("filtered", 1, 0)
    assert missing.fused is not None
    assert missing.fused.rank == 1


def test_a_document_that_another_one_stands_for_is_told_so(index: Index) -> None:
    (shown,) = index.search("lanterns", k=1)
    (other,) = {"copies/one.txt", "copies/two.txt"} - {shown.document_id}
    place = index.explain_missing("lanterns", other).fused
    assert place is not None
    assert (place.rank, place.shown_as) == (1, shown.document_id)
    assert place.chunk_id != shown.chunk_id
    alone = index.explain_missing("lanterns", shown.document_id).fused
    assert alone is not None
    assert alone.shown_as is None


def test_an_unknown_document_is_told_with_ids_like_it(index: Index) -> None:
    assert index.explain_missing("x", "Rollback.md").similar == ("ops/rollback.md",)
    assert index.explain_missing("x", "ops/rolback.md").similar[0] == "ops/rollback.md"
    missing = index.explain_missing("x", "quite another thing")
    assert (missing.verdict, missing.similar, missing.fused) == ("unknown", (), None)


def test_any_name_is_only_a_name(index: Index) -> None:
    missing = index.explain_missing("quotes and semicolons", "ops/o'brien; 50%.txt")
    assert missing.fused is not None
    assert missing.fused.rank == 1
    for name in ("' OR 1=1 --", "", "\x00", "a" * 5000):
        assert index.explain_missing("x", name).verdict == "unknown"


def test_states_of_the_store_are_told_with_the_reason(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    pages = {"good.md": "# Good\n\nA good page.\n", **{f"{n}.md": f"Page {n}.\n" for n in range(20)}}
    workspace.corpus(files={**pages, "bad.md": b"\x00\x01\x02\x03" * 200})
    workspace.refresh()
    index = workspace.index()
    failed = index.explain_missing("good", "bad.md")
    assert failed.verdict == "failed"
    assert failed.stored_reason
    workspace.write("good.md", b"\x00\x01\x02\x03" * 200)
    workspace.write("late.md", "# Late\n\nA late page.\n")
    workspace.refresh()
    stale = index.explain_missing("good", "good.md")
    assert (stale.verdict, stale.stale) == ("ranked", True)
    assert stale.stored_reason
    assert index.explain_missing("late", "late.md").verdict == "unpublished"
    index.refresh()
    assert index.explain_missing("late", "late.md").verdict == "ranked"


def test_the_place_after_reranking_is_told_where_one_reranks(index: Index) -> None:
    query = "filler about a snapshot"
    hits = index.search(query, k=100, rerank="late-interaction")
    for hit in hits[::25]:
        place = index.explain_missing(query, hit.document_id, rerank="late-interaction").reranked
        assert place is not None
        assert place.rank == hit.rank
    assert index.explain_missing(query, hits[0].document_id).reranked is None


def test_a_query_without_words_and_one_on_disk_break_nothing(workspace: Workspace) -> None:
    small = workspace.index(memory_budget=0)
    for query in ("", " ", "!?", "xylophone"):
        missing = small.explain_missing(query, "ops/rollback.md")
        assert missing.bm25 is not None
        assert missing.bm25.rank is None


def test_a_wrong_argument_is_told_by_name(index: Index) -> None:
    with pytest.raises(QueryError, match=r"^document_id: expected"):
        index.explain_missing("x", None)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"^mode: expected"):
        index.explain_missing("x", "y", mode="magic")  # type: ignore[arg-type]
