"""The lists that are measured are the lists that people are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_pipeline.query import Index
from rag_pipeline.query.index import DEFAULT_MEMORY_BUDGET, MODES
from rag_pipeline.query.rankings import ABSENT, Rankings, continued, folded
from rag_pipeline_tests.conftest import Workspace

WORDS = ("lighthouse", "mill", "bridge", "harbour", "granary", "tower", "canal")
QUERIES = (
    "lighthouse near the mill",
    "harbour",
    "the tower and the canal by the bridge",
    "granary number 7",
    "xylophone",
    "  ",
)


def built(root: Path, retrieval: str) -> Index:
    workspace = Workspace(root)
    files = {
        f"{n:03}.md": f"# The {WORDS[n % 7]} number {n % 90}\n\nNear the {WORDS[n % 5]} and {WORDS[n % 3]}.\n"
        for n in range(240)
    }
    # The same words under two headings are one text in two contexts.
    files |= {f"twin{number}.md": f"# {WORDS[number]}\n\nA tower near the granary.\n" for number in range(5)}
    workspace.corpus(yaml=f"source: {{path: files}}\nretrieval: {retrieval}\n", files=files)
    workspace.refresh()
    return workspace.index()


@pytest.fixture(scope="module", params=["{fusion: auto}", "{fusion: convex, bm25_weight: 0.4}", "{fusion: rrf}"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return built(tmp_path_factory.mktemp("rankings"), request.param)


@pytest.mark.parametrize("query", QUERIES)
def test_every_mode_has_the_hits_of_a_search_in_its_order(index: Index, query: str) -> None:
    rankings = index.rankings(query, MODES, 150)
    for mode in MODES:
        searched = index.hit_documents(query, 100, mode)
        assert [names[0] for names in searched] == [hit.document_id for hit in index.search(query, 100, mode)]
        assert rankings.hits(mode)[: len(searched)] == searched


@pytest.mark.parametrize("query", QUERIES)
def test_ranks_of_documents_are_their_places_in_the_list(index: Index, query: str) -> None:
    rankings = index.rankings(query, MODES, 100)
    twins = [f"twin{number}.md" for number in range(5)]
    for wanted in ([f"{number:03}.md" for number in range(0, 240, 7)] + ["absent.md"], twins[3:], ["twin1.md", "001.md"]):
        for mode in MODES:
            ordered = folded(rankings.hits(mode), wanted)
            expected = [ordered.index(name) + 1 if name in ordered else 0 for name in wanted]
            assert rankings.document_ranks(mode, wanted).tolist() == [expected]


@pytest.mark.parametrize("memory_budget", [DEFAULT_MEMORY_BUDGET, 0])
def test_a_hit_stands_for_all_documents_that_hold_its_text(tmp_path: Path, memory_budget: int) -> None:
    workspace = Workspace(tmp_path)
    pages = {f"{n}/{name}.txt": f"The {name} by the river.\n" for n in range(3) for name in WORDS}
    workspace.corpus(files=pages)
    workspace.refresh()
    index = workspace.index(memory_budget=memory_budget)
    mills = [f"{n}/mill.txt" for n in range(3)]
    rankings = index.rankings("mill", MODES, 100)
    for mode in MODES:
        assert set(index.hit_documents("mill", 1, mode)[0]) == set(mills)
        assert rankings.document_ranks(mode, mills).tolist() == [[1, 2, 3]]
        assert [rankings.document_ranks(mode, [name]).tolist() for name in mills] == [[[1]]] * 3
    second = index.search("mill", 2, "vector")[1].document_id
    assert rankings.document_ranks("vector", [second]).tolist() == [[2]]


def test_documents_are_listed_at_their_best_hits() -> None:
    hits = [("a", "x"), ("b",), ("a",), ("c", "y", "z"), ("c",), ("d",)]
    assert folded(hits, []) == ["a", "b", "c", "d"]
    assert folded(hits, ["z", "b"]) == ["a", "b", "z", "d"]
    assert folded(hits, ["y", "x", "z"]) == ["x", "b", "y", "z", "d"]


def test_the_weight_in_force_is_one_of_many(tmp_path: Path) -> None:
    index = built(tmp_path, "{fusion: auto}")
    weight = index.fusion.bm25_weight
    assert weight == 0.65
    for query in QUERIES:
        many = index.rankings(query, ("hybrid",), 100, np.array([0.0, weight, 1.0])).places["hybrid"]
        assert many[1].tolist() == index.rankings(query, ("hybrid",), 100).places["hybrid"][0].tolist()


def test_a_deeper_look_only_adds_to_the_end() -> None:
    first = np.array([[1, ABSENT, 0, ABSENT, ABSENT]])
    deeper = np.array([[2, 0, 3, 1, ABSENT]])
    codes = np.array([0, 1, 2, 0, 3])
    found = continued(first, deeper, codes)
    assert np.argsort(found[0])[:3].tolist() == [2, 0, 1]
    assert found[0][3] == found[0][4] == ABSENT


def test_the_shortest_list_tells_whether_to_look_deeper() -> None:
    rankings = Rankings(
        [("a",), ("a", "b"), ("b",)], {"bm25": np.array([[0, 1, ABSENT]]), "vector": np.array([[0, 2, 1]])}, cut=True
    )
    assert rankings.fewest_documents() == 1
