"""From configuration, or from what a manifest says, to a hosted embedder."""

from __future__ import annotations

import json
import os
from functools import lru_cache

from rag_pipeline.config import EmbedderConfig
from rag_pipeline.contracts import EmbedderIdentity, ModelAccess
from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import Answer, CallError
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder
from rag_pipeline.embedding.hosted.gate import Gate
from rag_pipeline.embedding.hosted.litellm_client import LiteLLMClient
from rag_pipeline.embedding.hosted.model_facts import PROVIDERS, input_types, model_facts
from rag_pipeline.embedding.prompts import documented_prompts
from rag_pipeline.embedding.static import load_tokenizer
from rag_pipeline.errors import EmbeddingError
from rag_pipeline.files import write_atomically
from rag_pipeline.storage import StorePath

_UNVERSIONED = "as served"
"""Revision of a model that changes behind its name without telling, unless the configuration names one."""

_PROBE_RETRY_SECONDS = 20.0


def hosted_embedder(config: EmbedderConfig, widths: StorePath | None = None, remember: bool = True) -> HostedEmbedder:
    """The embedder that a configuration asks for.

    Args:
        widths: a JSON file that remembers the width of models that nobody has written down. Where it does not know one
            either, the model is asked with one short text.
        remember: whether its answer is written there.

    Raises:
        EmbeddingError: the width is not known and cannot be asked for.
    """
    model, name = _model(config), model_name(config)
    dimensions = config.dimensions or model_facts(name).dimensions or _width(config, model, widths, remember)
    documented = ("", "") if input_types(name) is not None else documented_prompts(model)
    identity = EmbedderIdentity(
        provider=config.provider,
        model=model,
        revision=config.revision or _UNVERSIONED,
        dimensions=dimensions,
        document_prompt=documented[0] if config.document_prompt is None else config.document_prompt,
        query_prompt=documented[1] if config.query_prompt is None else config.query_prompt,
    )
    return _embedder(identity, config)


def embedder_of_identity(identity: EmbedderIdentity, query_model: str | None, access: ModelAccess) -> HostedEmbedder:
    """The embedder for queries against vectors of this identity."""
    values = {"provider": identity.provider, "model": identity.model, "query_model": query_model}
    return _embedder(
        identity, EmbedderConfig.model_validate({**values, "api_base": access.api_base, "dimensions": access.dimensions})
    )


def model_name(config: EmbedderConfig) -> str:
    """LiteLLM's name of the model that a configuration of a hosted provider asks for."""
    return PROVIDERS[config.provider].prefix + _model(config)


def usd_per_token(config: EmbedderConfig) -> float | None:
    """What a hosted model takes: as configured, or else as LiteLLM's list says; None where nobody knows."""
    if config.usd_per_million_tokens is not None:
        return config.usd_per_million_tokens / 1e6
    return 0.0 if PROVIDERS[config.provider].free else model_facts(model_name(config)).usd_per_token


def _embedder(identity: EmbedderIdentity, config: EmbedderConfig) -> HostedEmbedder:
    provider = PROVIDERS[config.provider]
    facts = model_facts(provider.prefix + identity.model)
    tokenizer = load_tokenizer()
    prompts = [identity.document_prompt, identity.query_prompt]
    reserve = int(tokenizer.count(prompts).max()) if any(prompts) else 0
    client = _client(config, identity.model, identity.dimensions)
    gate = _gate(
        os.getpid(),
        client.name,
        config.api_base,
        config.concurrency,
        config.requests_per_minute,
        config.tokens_per_minute,
    )
    batch_tokens = config.batch_tokens or provider.tokens
    return HostedEmbedder(
        identity,
        client,
        _client(config, config.query_model, identity.dimensions) if config.query_model is not None else client,
        gate,
        tokenizer,
        max_tokens=facts.max_tokens - reserve if facts.max_tokens is not None else None,
        usd_per_token=usd_per_token(config),
        batch_size=config.batch_size or provider.texts,
        batch_tokens=min(batch_tokens, config.tokens_per_minute or batch_tokens),
        concurrency=config.concurrency,
        retry_seconds=config.retry_seconds,
    )


def _model(config: EmbedderConfig) -> str:
    model = config.model or PROVIDERS[config.provider].default_model
    if model is None:
        raise EmbeddingError(f"embedding.model: needed with provider {config.provider}")
    return model


def _client(config: EmbedderConfig, model: str, dimensions: int | None) -> LiteLLMClient:
    return LiteLLMClient(
        config.provider,
        model,
        dimensions=dimensions,
        # Models of one width refuse to be asked for it.
        ask_dimensions=config.dimensions is not None,
        api_base=config.api_base,
        timeout_seconds=config.timeout_seconds,
    )


@lru_cache(maxsize=64)
def _gate(process: int, name: str, address: str | None, concurrency: int, requests: int | None, tokens: int | None) -> Gate:
    """All corpora of a process that ask one model share its limits. A forked process has a loop of its own."""
    return Gate(name, concurrency, requests, tokens)


def _width(config: EmbedderConfig, model: str, widths: StorePath | None, remember: bool) -> int:
    client = _client(config, model, None)
    key = f"{client.name} {config.revision or _UNVERSIONED} {config.api_base or ''}".strip()
    known = _known_widths(widths) if widths is not None else {}
    if key in known:
        return known[key]
    client.check_credentials()
    gate = Gate(client.name, concurrency=1)

    async def probe() -> Answer:
        try:
            return await gate.call(lambda: client.request(["width"], "document"), 1, _PROBE_RETRY_SECONDS)
        except CallError as failure:
            error = failure.error
        raise error

    width = int(run(probe()).vectors.shape[1])
    if widths is not None and remember:
        write_atomically(widths, json.dumps({**known, key: width}, indent=1).encode(), "widths")
    return width


def _known_widths(file: StorePath) -> dict[str, int]:
    """What was remembered. The file is a memo only: where it cannot be read, models are asked again."""
    try:
        known = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {key: width for key, width in known.items() if type(width) is int and width > 0}
