"""The prompts that model cards document, found by whatever a configuration calls the model."""

from __future__ import annotations

import pytest

from rag_pipeline.embedding.prompts import documented_prompts

BGE = "Represent this sentence for searching relevant passages: "
BGE_CHINESE = "为这个句子生成表示以用于检索相关文章："
WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query"


@pytest.mark.parametrize(
    ("model", "document_prompt", "query_prompt"),
    [
        ("BAAI/bge-small-en-v1.5", "", BGE),
        ("BAAI/bge-large-en", "", BGE),
        ("BAAI/bge-large-zh-v1.5", "", BGE_CHINESE),
        ("BAAI/bge-multilingual-gemma2", "", f"<instruct>{WEB_SEARCH[len('Instruct: ') :]}.\n<query>"),
        ("intfloat/e5-base-v2", "passage: ", "query: "),
        ("intfloat/e5-small-unsupervised", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large-instruct", "", f"{WEB_SEARCH}\nQuery: "),
        ("intfloat/e5-mistral-7b-instruct", "", f"{WEB_SEARCH}\nQuery: "),
        ("nomic-ai/nomic-embed-text-v1.5", "search_document: ", "search_query: "),
        ("nomic-ai/nomic-embed-text-v1.5-Q", "search_document: ", "search_query: "),
        ("nomic-ai/nomic-embed-text-v2-moe", "search_document: ", "search_query: "),
        ("nomic-ai/modernbert-embed-base", "search_document: ", "search_query: "),
        ("mixedbread-ai/mxbai-embed-large-v1", "", BGE),
        ("Snowflake/snowflake-arctic-embed-m-long", "", BGE),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", "", BGE),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "", "query: "),
        ("google/embeddinggemma-300m", "title: none | text: ", "task: search result | query: "),
        ("Qwen/Qwen3-Embedding-0.6B", "", f"{WEB_SEARCH}\nQuery:"),
        ("Qwen/Qwen3-Embedding-8B-GGUF", "", f"{WEB_SEARCH}\nQuery:"),
        ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", "", f"{WEB_SEARCH}\nQuery: "),
        ("WhereIsAI/UAE-Large-V1", "", BGE),
        ("NovaSearch/stella_en_400M_v5", "", f"{WEB_SEARCH}.\nQuery: "),
        ("Qdrant/stella-en-400M-v5-doc-onnx", "", f"{WEB_SEARCH}.\nQuery: "),
    ],
)
def test_a_model_gets_the_prompts_of_its_card(model: str, document_prompt: str, query_prompt: str) -> None:
    assert documented_prompts(model) == (document_prompt, query_prompt)


@pytest.mark.parametrize(
    "model",
    [
        "BAAI/bge-m3", "bge-m3", "bge-m3:567m", "BAAI/bge-reranker-v2-m3", "sentence-transformers/all-MiniLM-L6-v2",
        "all-minilm", "thenlper/gte-base", "jinaai/jina-embeddings-v2-base-en",
        "ibm-granite/granite-embedding-small-english-r2",
        "text-embedding-3-small", "voyage-3.5", "cohere/embed-v4.0", "", "/",
    ],
)  # fmt: skip
def test_a_model_whose_card_asks_for_nothing_gets_none(model: str) -> None:
    assert documented_prompts(model) == ("", "")


@pytest.mark.parametrize(
    "model", ["my-bge-small-en-v1.5-finetuned-on-tickets", "e5-base-sts-en-de", "mxbai-embed-xsmall-v1"]
)
def test_a_model_that_was_trained_further_is_not_taken_for_the_one_before(model: str) -> None:
    assert documented_prompts(model) == ("", "")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("nomic-embed-text", "nomic-ai/nomic-embed-text-v1.5"),
        ("nomic-embed-text:latest", "nomic-ai/nomic-embed-text-v1.5"),
        ("nomic-embed-text:137m-v1.5-fp16", "nomic-ai/nomic-embed-text-v1.5"),
        ("nomic-embed-text-v2-moe", "nomic-ai/nomic-embed-text-v2-moe"),
        ("mxbai-embed-large", "mixedbread-ai/mxbai-embed-large-v1"),
        ("mxbai-embed-large:335m", "mixedbread-ai/mxbai-embed-large-v1"),
        ("bge-large", "BAAI/bge-large-en-v1.5"),
        ("snowflake-arctic-embed:22m", "Snowflake/snowflake-arctic-embed-xs"),
        ("snowflake-arctic-embed2:568m", "Snowflake/snowflake-arctic-embed-l-v2.0"),
        ("embeddinggemma:300m", "google/embeddinggemma-300m"),
        ("qwen3-embedding:0.6b", "Qwen/Qwen3-Embedding-0.6B"),
        ("jeffh/intfloat-multilingual-e5-large-instruct:q8_0", "intfloat/multilingual-e5-large-instruct"),
        ("hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0", "Qwen/Qwen3-Embedding-0.6B"),
    ],
)  # fmt: skip
def test_ollamas_names_and_tags_mean_the_same_model(name: str, model: str) -> None:
    assert documented_prompts(name) == documented_prompts(model) != ("", "")


@pytest.mark.parametrize("prefix", ["", "ollama/", "huggingface/BAAI/", "models--BAAI--", "models/", "C:\\models\\"])
def test_a_provider_an_organisation_and_a_folder_before_the_name_change_nothing(prefix: str) -> None:
    for name in ("bge-small-en-v1.5", "BGE-Small-EN-v1.5"):
        assert documented_prompts(prefix + name) == ("", BGE)
