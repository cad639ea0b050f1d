"""Parents are shown for the children that were found, and neighbours come on request."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.errors import QueryError
from rag_pipeline.query import Index
from rag_pipeline_tests.conftest import Workspace

ANIMALS = ("otter", "badger", "heron", "lynx", "marten", "stoat", "beaver", "hare", "ibex", "vole")


def story(animal: str, sentences: int) -> str:
    return " ".join(f"The {animal} of day {number} walks {number} miles along the river." for number in range(sentences))


TEXTS = {f"{animal}.txt": story(animal, 40) + "\n" for animal in ANIMALS}
COPY = {"copy/otter.txt": TEXTS["otter.txt"]}
PAGE = "# Zoo\n\n## Birds\n\nA crane stands on one leg.\n\n## Cats\n\nA caracal jumps high.\n"
FILES = {**TEXTS, **COPY, "zoo.md": PAGE}
PARENTS = "source: {path: files}\nchunking: {strategy: parent-child, size: 40, parent_size: 120}\n"
PLAIN = "source: {path: files}\nchunking: {size: 60, overlap: 20}\n"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("passages"))
    for name, yaml in (("parents", PARENTS), ("plain", PLAIN)):
        made.corpus(name, yaml=yaml)
        for path, text in FILES.items():
            made.write(path, text, name)
        made.refresh(name)
    return made


@pytest.fixture(scope="module", params=["in memory", "from the table"])
def memory(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param == "in memory" else {"memory_budget": 1}


@pytest.fixture(scope="module")
def parents(workspace: Workspace, memory: dict[str, Any]) -> Index:
    return workspace.index("parents", **memory)


@pytest.fixture(scope="module")
def plain(workspace: Workspace, memory: dict[str, Any]) -> Index:
    return workspace.index("plain", **memory)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
def test_a_hit_shows_the_parent_of_the_chunk_that_was_found(parents: Index, mode: Any) -> None:
    hit = parents.search("heron of day 17", k=1, mode=mode)[0]
    assert hit.source == "heron.txt"
    assert hit.text == TEXTS["heron.txt"][hit.start : hit.end]
    assert hit.matched is not None
    assert hit.matched.text == TEXTS["heron.txt"][hit.matched.start : hit.matched.end]
    assert hit.matched.chunk_id == hit.chunk_id
    assert hit.start <= hit.matched.start < hit.matched.end <= hit.end
    assert "day 17 " in hit.matched.text or mode == "vector"
    assert len(hit.text) > 2 * len(hit.matched.text)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
def test_each_parent_is_shown_once_and_there_are_as_many_as_were_asked_for(parents: Index, mode: Any) -> None:
    hits = parents.search("the badger walks along the river", k=30, mode=mode)
    assert len(hits) == 30
    assert len({(hit.document_id, hit.start) for hit in hits}) == 30
    assert len({hit.text for hit in hits}) == 30


def test_parents_with_the_same_text_are_one_hit_with_all_sources(parents: Index) -> None:
    hits = parents.search("otter of day 3", k=3, mode="bm25")
    assert set(hits[0].sources) == {"otter.txt", "copy/otter.txt"}
    (only,) = parents.search("otter of day 3", k=1, mode="bm25", where="path LIKE 'copy/%'")
    assert only.sources == ("copy/otter.txt",)


def test_a_section_that_is_shorter_than_a_child_is_its_own_parent(parents: Index) -> None:
    hit = parents.search("caracal", k=1, mode="bm25")[0]
    assert hit.matched is not None
    assert (hit.text, hit.heading_path) == (hit.matched.text, "Zoo > Cats")


def test_explanations_and_rerankers_are_about_the_chunk_that_was_found(parents: Index) -> None:
    best = parents.explain("lynx of day 23", k=1)[0]
    assert best.hit.matched is not None
    assert {term.term: term.frequency for term in best.terms}["23"] == best.hit.matched.text.count("23")
    reranked = parents.search("lynx of day 23", k=5, rerank="late-interaction")
    assert [hit.source for hit in reranked[:1]] == ["lynx.txt"]
    assert len({(hit.document_id, hit.start) for hit in reranked}) == 5


def test_what_was_not_found_is_explained_by_its_best_child(parents: Index) -> None:
    missing = parents.explain_missing("lynx of day 23", "vole.txt")
    assert missing.verdict == "ranked"
    assert missing.fused is not None
    assert missing.fused.rank is not None


def test_no_parent_means_no_matched_chunk(plain: Index) -> None:
    hit = plain.search("heron of day 17", k=1)[0]
    assert (hit.matched, hit.before, hit.after) == (None, (), ())


@pytest.mark.parametrize("count", [1, 2])
def test_neighbours_are_the_passages_before_and_after_without_what_overlaps(plain: Index, count: int) -> None:
    text = TEXTS["heron.txt"]
    hit = plain.search("heron of day 17", k=1, mode="bm25", neighbours=count)[0]
    passages = [*hit.before, hit, *hit.after]
    assert len(passages) == 2 * count + 1
    assert all(text[one.start : one.end] == one.text for one in passages)
    for one, other in pairwise(passages):
        assert one.end <= other.start
        assert not text[one.end : other.start].strip()
    assert len({one.chunk_id for one in passages}) == 2 * count + 1


def test_a_neighbour_of_a_parent_is_a_parent(parents: Index) -> None:
    text = TEXTS["heron.txt"]
    hit = parents.search("heron of day 17", k=1, mode="bm25", neighbours=1)[0]
    (before,), (after,) = hit.before, hit.after
    assert (text[before.start : before.end], text[after.start : after.end]) == (before.text, after.text)
    assert not text[before.end : hit.start].strip()
    assert not text[hit.end : after.start].strip()
    assert len(before.text) > len(hit.text) / 3


def test_at_the_ends_of_a_document_there_are_fewer(plain: Index, parents: Index) -> None:
    for index in (plain, parents):
        first = index.search("heron of day 0", k=1, mode="bm25", where="path = 'heron.txt'", neighbours=3)[0]
        assert (first.start, first.before, len(first.after)) == (0, (), 3)
        everything = index.search("heron", k=1, mode="bm25", neighbours=1000)[0]
        whole = [*everything.before, everything, *everything.after]
        assert whole[0].start == 0
        assert whole[-1].end == len(TEXTS["heron.txt"].rstrip())


def test_neighbours_cross_headings_and_not_documents(plain: Index) -> None:
    hit = plain.search("crane", k=1, mode="bm25", neighbours=5)[0]
    assert hit.before == ()
    assert [passage.text for passage in hit.after] == ["## Cats\n\nA caracal jumps high."]


def test_neighbours_can_be_asked_for_afterwards(plain: Index) -> None:
    hits = plain.search("heron of day 17", k=5)
    assert plain.context(hits, 2) == plain.search("heron of day 17", k=5, neighbours=2)
    assert plain.context([]) == []


def test_a_hit_of_another_snapshot_is_refused(plain: Index, parents: Index) -> None:
    with pytest.raises(QueryError, match="has no chunk"):
        plain.context(parents.search("heron", k=1))


@pytest.mark.parametrize("count", [-1, 1.5, True, "1"])
def test_a_number_of_neighbours_that_is_none_is_refused(plain: Index, count: Any) -> None:
    with pytest.raises(QueryError, match="neighbours: expected a whole number"):
        plain.search("heron", neighbours=count)


def test_a_corpus_gets_parents_and_loses_them_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(yaml=PLAIN, files=FILES)
    workspace.refresh()
    pinned = workspace.index(snapshot=1)
    workspace.corpus(yaml=PARENTS)
    assert workspace.refresh()["vector_table"].rebuilt
    found = workspace.index().search("heron of day 17", k=1)[0]
    assert found.matched is not None
    workspace.corpus(yaml=PLAIN)
    reports = workspace.refresh()
    assert reports["embeddings"].embedded == 0
    assert workspace.index().search("heron of day 17", k=1)[0].matched is None
    assert workspace.index(snapshot=2).search("heron of day 17", k=1)[0] == found
    assert pinned.manifest.hash == workspace.index().manifest.hash


def test_an_edit_leaves_the_children_of_other_documents_and_moves_those_behind_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(yaml=PARENTS, files=FILES)
    workspace.refresh()
    edited = "A sentence that is new stands at the very beginning now.\n\n" + TEXTS["heron.txt"]
    workspace.write("heron.txt", edited)
    reports = workspace.refresh()
    assert reports["chunks"].documents_chunked == 1
    assert reports["bm25_index"].added < reports["bm25_index"].chunks / 10
    for hit in workspace.index().search("heron of day 17", k=5, where="path = 'heron.txt'"):
        assert edited[hit.start : hit.end] == hit.text
        assert hit.matched is not None
        assert edited[hit.matched.start : hit.matched.end] == hit.matched.text
    fresh = Workspace(tmp_path / "fresh")
    fresh.corpus(yaml=PARENTS, files={**FILES, "heron.txt": edited})
    fresh.refresh()
    assert fresh.index().manifest.hash == workspace.index().manifest.hash
    assert fresh.index().search("heron river", k=20) == workspace.index().search("heron river", k=20)
