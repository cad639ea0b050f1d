"""What is known of providers and models without asking them: limits, widths, prices, names of variables."""

from __future__ import annotations

import importlib.util
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_PRICE_LIST = "model_prices_and_context_window_backup.json"

Purposes = tuple[str, str]
"""What a provider calls documents and queries."""


class ProviderFacts(NamedTuple):
    """``prefix`` is LiteLLM's. Any one of ``key_variables`` holds the key; none are needed where there are none.

    ``texts`` and ``tokens`` are what a request holds unless the configuration says otherwise: within what the provider
    takes, and small enough that little is lost with a failed one.
    """

    prefix: str
    default_model: str | None
    key_variables: tuple[str, ...]
    texts: int
    tokens: int
    free: bool = False


PROVIDERS: dict[str, ProviderFacts] = {
    # Limits: docs.voyageai.com/docs/embeddings: 1,000 texts; 120,000 tokens for the large models, more for the others.
    "voyage": ProviderFacts("voyage/", "voyage-4", ("VOYAGE_API_KEY", "VOYAGE_AI_API_KEY", "VOYAGE_AI_TOKEN"), 128, 60_000),
    # Limits: platform.openai.com/docs/api-reference/embeddings: 2,048 texts, 300,000 tokens.
    "openai": ProviderFacts("openai/", "text-embedding-3-small", ("OPENAI_API_KEY",), 128, 100_000),
    # A model on one's own machine works on one batch at a time, so that small ones lose least.
    "ollama": ProviderFacts("ollama/", "nomic-embed-text", (), 32, 30_000, free=True),
    "litellm": ProviderFacts("", None, (), 96, 60_000),
}

_INPUT_TYPES: dict[str, Purposes] = {
    "voyage": ("document", "query"),  # docs.voyageai.com/reference/embeddings-api
    "cohere": ("search_document", "search_query"),  # docs.cohere.com/reference/embed
}

_WIDTHS: dict[str, int] = {
    # docs.voyageai.com/docs/embeddings, for models whose width LiteLLM's list leaves out.
    "voyage/voyage-3": 1024,
    "voyage/voyage-3-large": 1024,
    "voyage/voyage-3-lite": 512,
    "voyage/voyage-3.5": 1024,
    "voyage/voyage-3.5-lite": 1024,
    "voyage/voyage-code-3": 1024,
    "voyage/voyage-finance-2": 1024,
    "voyage/voyage-law-2": 1024,
    # ollama.com/library, and the models' cards.
    "ollama/nomic-embed-text": 768,
    "ollama/mxbai-embed-large": 1024,
    "ollama/bge-m3": 1024,
    "ollama/all-minilm": 384,
    "ollama/snowflake-arctic-embed2": 1024,
    "cohere/embed-english-v3.0": 1024,
    "cohere/embed-multilingual-v3.0": 1024,
}


class ModelFacts(NamedTuple):
    """``usd_per_token`` is None where no price is known, ``dimensions`` and ``max_tokens`` where nobody says."""

    usd_per_token: float | None
    max_tokens: int | None
    dimensions: int | None


def model_facts(model: str) -> ModelFacts:
    """What LiteLLM's list of prices says of a model, by LiteLLM's name for it, and what is known besides.

    The list is the file that lies in the installed package; reading it does not import LiteLLM, which takes seconds.
    """
    listed = _listed(model, "embedding")
    # Ollama marks variants behind a colon.
    width = listed.get("output_vector_size") or _WIDTHS.get(model) or _WIDTHS.get(model.split(":")[0])
    price = listed.get("input_cost_per_token")
    return ModelFacts(
        usd_per_token=float(price) if price is not None else None,
        max_tokens=listed.get("max_input_tokens"),
        dimensions=int(width) if width else None,
    )


class ChatPrice(NamedTuple):
    """What a token costs in USD, of what is asked and of what is answered."""

    prompt: float
    completion: float


def chat_price(model: str) -> ChatPrice | None:
    """What a chat model takes, by LiteLLM's name for it; None where its list of prices does not say."""
    if model.startswith(("ollama/", "ollama_chat/")):
        return ChatPrice(0.0, 0.0)
    entry = _listed(model, "chat")
    prices = (entry.get("input_cost_per_token"), entry.get("output_cost_per_token"))
    return None if None in prices else ChatPrice(*(float(price or 0.0) for price in prices))


def input_types(model: str) -> Purposes | None:
    """How the provider of a model (by LiteLLM's name) is told documents from queries; None where it is not told."""
    return _INPUT_TYPES.get(model.split("/")[0])


def _listed(model: str, mode: str) -> dict[str, Any]:
    entries = _price_list()
    for name in (model, model.split("/", 1)[-1]):
        entry = entries.get(name)
        if entry is not None and entry.get("mode") == mode:
            return entry
    return {}


@lru_cache(maxsize=1)
def _price_list() -> dict[str, dict[str, Any]]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    file = Path(next(iter(spec.submodule_search_locations))) / _PRICE_LIST
    if not file.is_file():
        return {}
    entries: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return entries
