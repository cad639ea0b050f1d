"""Which reranker a search asks for."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.errors import QueryError, RerankingError
from rag_pipeline.hashing import value_hash
from rag_pipeline.reranking import chosen, reranker_for

COHERE = RetrievalConfig(rerank="litellm", rerank_model="cohere/rerank-v3.5", rerank_api_base="http://127.0.0.1:9/v1")


def test_without_an_argument_the_corpus_decides() -> None:
    assert chosen(COHERE, None) is COHERE
    assert chosen(RetrievalConfig(), None).rerank == "none"


def test_an_argument_that_names_the_corpus_reranker_keeps_its_model_and_address() -> None:
    assert chosen(COHERE, "litellm") == COHERE


def test_another_reranker_takes_neither_model_nor_address_of_the_corpus_one() -> None:
    settings = chosen(COHERE, "cross-encoder")
    assert (settings.rerank, settings.rerank_model, settings.rerank_api_base) == ("cross-encoder", None, None)


def test_an_address_is_kept_for_another_model_of_its_provider_and_for_no_other_provider() -> None:
    same = chosen(COHERE, "litellm:cohere/rerank-multilingual-v3.0")
    assert same.rerank_api_base == COHERE.rerank_api_base
    assert chosen(COHERE, "litellm:voyage/rerank-2.5").rerank_api_base is None
    assert chosen(COHERE, "litellm:cohere/rerank-v3.5") == COHERE


def test_limits_of_the_corpus_hold_for_every_reranker() -> None:
    retrieval = RetrievalConfig(rerank_candidates=7, rerank_on_failure="fused", bm25_weight=0.5)
    settings = chosen(retrieval, "late-interaction")
    assert (settings.rerank_candidates, settings.rerank_on_failure, settings.bm25_weight) == (7, "fused", 0.5)


def test_a_model_may_stand_behind_the_name() -> None:
    settings = chosen(RetrievalConfig(), "litellm:hosted_vllm/BAAI/bge-reranker:v2")
    assert (settings.rerank, settings.rerank_model) == ("litellm", "hosted_vllm/BAAI/bge-reranker:v2")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("magic", "expected one of none, cross-encoder"),
        ("", "expected one of none"),
        (7, "expected one of none"),
        ("litellm", "rerank_model .* such as 'cohere/rerank-v3.5'"),
        ("llm", "rerank_model .* such as 'openai/gpt-4o-mini'"),
        ("late-interaction:some-model", "not with late-interaction"),
    ],
)
def test_a_wrong_name_is_told_with_what_would_do(name: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        chosen(RetrievalConfig(), name)


@pytest.mark.parametrize(
    "values",
    [
        {"rerank": "litellm"},
        {"rerank": "late-interaction", "rerank_model": "x"},
        {"rerank": "none", "rerank_model": "x"},
        {"rerank": "litellm", "rerank_model": "x", "rerank_provider": "local"},
        {"rerank": "cross-encoder", "rerank_api_base": "http://127.0.0.1:9"},
        {"rerank": "litellm", "rerank_model": "x", "rerank_api_base": "http://user:word@127.0.0.1"},
        {"rerank_candidates": 0},
        {"rerank_weight": 0.0},
        {"rerank_on_failure": "ignore"},
    ],
)
def test_settings_that_do_not_fit_together_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RetrievalConfig.model_validate(values)


def test_what_a_manifest_records_is_silent_about_reranking_that_nobody_asked_for() -> None:
    plain = RetrievalConfig().model_dump(mode="json")
    assert not any(name.startswith("rerank") for name in plain)
    asked = RetrievalConfig(rerank="late-interaction", rerank_candidates=20)
    recorded = asked.model_dump(mode="json")
    assert recorded == {**plain, "rerank": "late-interaction", "rerank_candidates": 20}
    assert RetrievalConfig(**recorded) == asked
    assert value_hash(recorded) != value_hash(plain)


def test_a_model_is_loaded_once_whatever_the_number_of_candidates() -> None:
    few = reranker_for(RetrievalConfig(rerank="late-interaction", rerank_candidates=5))
    assert reranker_for(RetrievalConfig(rerank="late-interaction", rerank_candidates=500)) is few


@pytest.mark.models
def test_a_model_that_cannot_be_had_is_not_looked_for_at_every_search(tmp_path: object) -> None:
    settings = RetrievalConfig(rerank="cross-encoder", rerank_model=f"{tmp_path}/none")
    with pytest.raises(RerankingError, match="there is no such folder") as first:
        reranker_for(settings)
    with pytest.raises(RerankingError) as second:
        reranker_for(settings)
    assert second.value is first.value
