"""What is known of models without asking anybody."""

from __future__ import annotations

import pytest

from rag_pipeline.embedding.hosted.model_facts import ModelFacts, input_types, model_facts
from rag_pipeline_tests.embedding.hosted.support import in_another_process


@pytest.mark.parametrize(
    ("model", "price_per_million", "max_tokens", "dimensions"),
    [
        ("voyage/voyage-4", 0.06, 32_000, 1024),
        ("voyage/voyage-4-large", 0.12, 32_000, 1024),
        ("voyage/voyage-4-lite", 0.02, 32_000, 1024),
        ("openai/text-embedding-3-small", 0.02, 8_191, 1536),
        ("openai/text-embedding-3-large", 0.13, 8_191, 3072),
        ("cohere/embed-v4.0", 0.12, 128_000, 1536),
    ],
)
def test_price_limit_and_width_of_well_known_models(
    model: str, price_per_million: float, max_tokens: int, dimensions: int
) -> None:
    facts = model_facts(model)
    assert facts.usd_per_token == pytest.approx(price_per_million / 1e6)
    assert facts.max_tokens == max_tokens
    assert facts.dimensions == dimensions


@pytest.mark.parametrize(
    "model", ["ollama/nomic-embed-text", "ollama/nomic-embed-text:latest", "ollama/nomic-embed-text:v1.5"]
)
def test_a_variant_behind_a_colon_is_as_wide_as_its_model(model: str) -> None:
    assert model_facts(model).dimensions == 768


@pytest.mark.parametrize("model", ["hosted_vllm/our-model", "ollama/unheard-of", "openai/gpt-4o", "", "/"])
def test_of_an_unknown_model_nothing_is_claimed(model: str) -> None:
    assert model_facts(model) == ModelFacts(None, None, None)


def test_who_tells_documents_from_queries() -> None:
    assert input_types("voyage/voyage-4") == ("document", "query")
    assert input_types("cohere/embed-v4.0") == ("search_document", "search_query")
    assert input_types("openai/text-embedding-3-small") is None
    assert input_types("hosted_vllm/voyage") is None


def test_prices_are_read_without_importing_litellm() -> None:
    program = (
        "import sys\n"
        "from rag_pipeline.embedding.hosted.model_facts import model_facts\n"
        "assert model_facts('voyage/voyage-4').usd_per_token\n"
        "import rag_pipeline.embedding.hosted.build, rag_pipeline.embedding.hosted.stream\n"
        "sys.exit('imported' if 'litellm' in sys.modules or 'openai' in sys.modules else 0)"
    )
    ended = in_another_process(program)
    assert ended.returncode == 0, ended.stderr
