"""Reranking within a search: candidates, filters, ties, weights, and what happens when it fails."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.errors import CredentialsError, QueryError
from rag_pipeline.query import Index
from rag_pipeline.query.rerank import combined
from rag_pipeline.reranking import reranker_for
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.rerank_server import Fault, RerankServer, score

COPY = "A red and blue paragraph that stands in two files.\n"
PAGES = {
    "a/best.txt": "red blue green\n",
    "a/half.txt": "red red red yellow\n",
    "b/other.txt": "blue\n",
    "b/none.txt": "something else altogether\n",
    "copies/one.txt": COPY,
    "copies/two.txt": COPY,
    **{f"filler/{n:02}.txt": f"red filler number {n}\n" for n in range(30)},
}
QUERY = "red blue green"


@pytest.fixture(autouse=True)
def key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", "test-4fZ81kQw-77Lp_secret")


def index_of(root: Path, server: RerankServer | None, **retrieval: Any) -> Index:
    """A corpus with a reranker that counts words, on a server when there is one."""
    values = {"rerank": "late-interaction", **retrieval}
    if server is not None:
        hosted = {"rerank": "litellm", "rerank_model": "hosted_vllm/m", "rerank_api_base": f"{server.address}/v1"}
        values = {**hosted, **retrieval}
    workspace = Workspace(root)
    inside = ", ".join(f"{name}: {value}" for name, value in values.items())
    workspace.corpus(yaml=f"source: {{path: files}}\nretrieval: {{{inside}}}\n", files=PAGES)
    workspace.refresh()
    if server is not None:
        reranker: Any = reranker_for(RetrievalConfig.model_validate(values))
        reranker.model.gate.first_wait = 0.01
    return workspace.index()


def ids(hits: list[Any]) -> list[str]:
    return [hit.document_id for hit in hits]


def test_hits_stand_in_the_order_of_the_reranker_and_ties_in_that_of_fusion(tmp_path: Path) -> None:
    with RerankServer() as server:
        index = index_of(tmp_path, server)
        fused = index.search(QUERY, k=50, rerank="none")
        assert not server.requests
        hits = index.search(QUERY, k=50)
        (request,) = server.requests
        assert request.texts == [hit.text for hit in fused]
    scores = np.array([score(QUERY, hit.text) for hit in fused])
    assert ids(hits) == [fused[place].document_id for place in np.argsort(-scores, kind="stable")]
    assert [hit.score for hit in hits] == sorted(scores.tolist(), reverse=True)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


def test_only_the_candidates_are_asked_about_and_the_others_follow_in_fused_order(tmp_path: Path) -> None:
    with RerankServer() as server:
        index = index_of(tmp_path, server, rerank_candidates=5)
        fused = index.search(QUERY, k=20, rerank="none")
        hits = index.search(QUERY, k=20)
        assert [len(request.texts) for request in server.requests] == [5]
        assert set(ids(hits[:5])) == set(ids(fused[:5]))
        assert [(hit.document_id, hit.score) for hit in hits[5:]] == [(hit.document_id, hit.score) for hit in fused[5:]]
        assert ids(index.search(QUERY, k=2)) == ids(hits[:2])
        assert [len(request.texts) for request in server.requests] == [5, 5]


def test_a_filter_holds_and_identical_text_is_judged_and_shown_once(tmp_path: Path) -> None:
    with RerankServer() as server:
        index = index_of(tmp_path, server)
        hits = index.search(QUERY, where="path LIKE 'copies/%' OR path LIKE 'b/%'")
        assert sorted(server.requests[0].texts) == sorted({COPY.strip(), "blue", "something else altogether"})
        (copy,) = (hit for hit in hits if hit.text == COPY.strip())
        assert set(copy.sources) == {"copies/one.txt", "copies/two.txt"}
        (only,) = index.search(QUERY, where="path = 'copies/two.txt'")
        assert only.sources == ("copies/two.txt",)
        assert index.search(QUERY, where="path = 'nosuch'") == []
        assert len(server.requests) == 2


def test_the_corpus_reranker_is_for_hybrid_searches_and_a_named_one_for_any(tmp_path: Path) -> None:
    with RerankServer() as server:
        index = index_of(tmp_path, server)
        index.search(QUERY, mode="bm25")
        index.search(QUERY, mode="vector")
        index.search("  ")
        assert not server.requests
        hits = index.search(QUERY, mode="bm25", rerank="litellm")
        assert hits[0].document_id == "a/best.txt"
        assert len(server.requests) == 1
        assert ids(asyncio.run(index.asearch(QUERY, mode="bm25", rerank="litellm"))) == ids(hits)


def test_the_reranker_sees_the_context_line_that_was_indexed(tmp_path: Path) -> None:
    with RerankServer() as server:
        workspace = Workspace(tmp_path)
        workspace.corpus(files={"a.md": "# Restart\n\nTurn it off and on.\n"})
        workspace.refresh()
        name = "litellm:hosted_vllm/m"
        settings = f"retrieval: {{rerank: litellm, rerank_model: hosted_vllm/m, rerank_api_base: '{server.address}/v1'}}\n"
        workspace.corpus(yaml=f"source: {{path: files}}\n{settings}")
        workspace.refresh()
        workspace.index().search("restart", rerank=name)
        assert server.requests[0].texts == ["Restart\n# Restart\n\nTurn it off and on."]


def test_explain_shows_score_and_change_of_rank(tmp_path: Path) -> None:
    with RerankServer() as server:
        index = index_of(tmp_path, server, rerank_candidates=5)
        fused = index.search(QUERY, k=8, rerank="none")
        explanations = index.explain(QUERY, k=8)
        assert [one.hit for one in explanations] == index.search(QUERY, k=8)
    for one in explanations:
        assert one.rerank is not None
        assert one.rerank.reranker == "litellm/hosted_vllm/m"
        before = fused[one.rerank.rank_before - 1]
        assert (before.document_id, before.score) == (one.hit.document_id, one.fused_score)
        assert one.fused_score == pytest.approx(one.vector.contribution + one.bm25.contribution)
        expected = score(QUERY, one.hit.text) if one.rerank.rank_before <= 5 else None
        assert one.rerank.score == (pytest.approx(expected) if expected is not None else None)
        for term in one.terms:
            assert term.contribution == pytest.approx(term.idf * term.weight)
    assert index.explain(QUERY, rerank="none")[0].rerank is None


def test_a_reranker_that_fails_is_an_error_by_default(tmp_path: Path) -> None:
    with RerankServer([Fault(401, "no")]) as server, pytest.raises(CredentialsError, match="refused the key"):
        index_of(tmp_path, server).search(QUERY)


def test_where_it_may_fail_fused_order_is_given_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RerankServer([Fault(401, "no"), Fault(401, "no")]) as server:
        index = index_of(tmp_path, server, rerank_on_failure="fused")
        with caplog.at_level(logging.WARNING, logger="rag_pipeline"):
            hits = index.search(QUERY, k=7)
        assert "reranker litellm failed, the hits stand in fused order: hosted_vllm/m refused the key" in caplog.text
        assert hits == index.search(QUERY, k=7, rerank="none")
        effects = [one.rerank for one in index.explain(QUERY, k=7)]
        assert all(one is not None and one.score is None and "refused the key" in str(one.failure) for one in effects)
        caplog.clear()
        assert index.search(QUERY, k=7)[0].document_id == "a/best.txt"
        assert not caplog.records


def test_a_wrong_name_is_an_error_wherever_rerankers_may_fail(tmp_path: Path) -> None:
    index = index_of(tmp_path, None, rerank_on_failure="fused")
    for name in ("nosuch", "litellm", 7):
        with pytest.raises(QueryError, match=r"^rerank"):
            index.search(QUERY, rerank=name)  # type: ignore[arg-type]


def test_late_interaction_needs_nothing_and_weighs_with_fusion(tmp_path: Path) -> None:
    index = index_of(tmp_path, None)
    hits = index.search(QUERY, k=50)
    assert hits[0].document_id == "a/best.txt"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    first = index.explain(QUERY, k=1)[0].rerank
    assert first is not None
    assert (first.reranker, first.weight) == ("late-interaction/static", 0.3)


def test_the_manifest_records_the_reranker(tmp_path: Path) -> None:
    with_one = index_of(tmp_path / "one", None)
    without = index_of(tmp_path / "two", None, rerank="none")
    assert with_one.manifest.content.retrieval["rerank"] == "late-interaction"
    assert "rerank" not in without.manifest.content.retrieval
    assert with_one.manifest.hash != without.manifest.hash


def test_a_store_beyond_the_memory_budget_ranks_alike(tmp_path: Path) -> None:
    index = index_of(tmp_path, None)
    small = Index.open("docs", data=tmp_path / "data", memory_budget=0)
    assert small.search(QUERY, k=30) == index.search(QUERY, k=30)


def test_a_search_with_late_interaction_loads_no_model_service(tmp_path: Path) -> None:
    index_of(tmp_path, None)
    code = (
        "import sys; from rag_pipeline.query import Index; "
        f"assert Index.open('docs', data={str(tmp_path / 'data')!r}).search('red blue'); "
        "print([m for m in ('dagster', 'litellm', 'torch', 'sentence_transformers', 'fastembed') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "[]"


numbers = st.lists(st.floats(-50, 50), min_size=1, max_size=8)


@given(given_scores=numbers, seed=st.integers(0, 99), weight=st.floats(0.05, 1))
def test_weights_mix_what_was_brought_to_one_scale(given_scores: list[float], seed: int, weight: float) -> None:
    given_array = np.array(given_scores)
    fused = np.random.default_rng(seed).uniform(0, 1, len(given_array))
    mixed = combined(given_array, fused, weight)
    if weight == 1.0:
        assert mixed.tolist() == given_scores
    else:
        assert ((mixed >= -1e-9) & (mixed <= 1 + 1e-9)).all()
    np.testing.assert_array_equal(combined(given_array, fused, 1.0), given_array)
