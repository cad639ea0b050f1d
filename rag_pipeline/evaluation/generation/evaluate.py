"""Each query is searched, answered by a chat model from what was found, and judged by RAGAS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from rag_pipeline.config import GenerationConfig
from rag_pipeline.embedding import embedder_of
from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.errors import ConfigError, CredentialsError, GenerationError, MissingExtraError, RagPipelineError
from rag_pipeline.evaluation.generation.answering import messages_for, passage
from rag_pipeline.evaluation.generation.counting_model import CountingModel
from rag_pipeline.evaluation.generation.ragas_judge import RagasMetrics
from rag_pipeline.evaluation.generation.results import GenerationEvaluation, QueryGeneration, metrics_for
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.hashing import value_hash
from rag_pipeline.query import Index

T = TypeVar("T")

_SAME_FOR_ALL = (ConfigError, CredentialsError, MissingExtraError)
"""What fails one query with these fails all of them."""


def chosen_settings(config: GenerationConfig, **given: Any) -> GenerationConfig:
    """The settings that hold: the corpus's, and over them those that are given and not None.

    An address holds for models of one provider only, so that no key goes to the address of another: an address of the
    corpus is left out for a model of another provider, and the judge has that of the model where it is of the same one.

    Raises:
        ConfigError: a value cannot be, or nobody names a model.
    """
    given = {name: value for name, value in given.items() if value is not None}
    values = {**config.model_dump(), **given}
    if values["model"] is None:
        raise ConfigError("evaluate --generation: --model or evaluation.generation.model: expected a chat model, such as "
                          "openai/gpt-4o-mini")  # fmt: skip
    if "api_base" not in given and _provider(values["model"]) != _provider(config.model):
        values["api_base"] = None
    judge = values["judge_model"] = values["judge_model"] or values["model"]
    if "judge_api_base" not in given and _provider(judge) != _provider(config.judge_model):
        values["judge_api_base"] = None
    if values["judge_api_base"] is None and _provider(judge) == _provider(values["model"]):
        values["judge_api_base"] = values["api_base"]
    try:
        return GenerationConfig.model_validate(values)
    except ValidationError as error:
        faults = (f"{fault['loc'][0]}: {str(fault['msg']).removeprefix('Value error, ')}" for fault in error.errors())
        raise ConfigError(f"evaluate --generation: {'; '.join(faults)}") from None


def evaluate_generation(
    index: Index,
    queries: QuerySet,
    settings: GenerationConfig,
    *,
    limit: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> GenerationEvaluation:
    """Answer queries and judge the answers.

    Searches are hybrid, with the corpus's reranker. A query that fails in any step keeps what it has got, with the reason.

    Args:
        queries: with `references` where answers are known. These are judged by context precision and recall against the
            reference, the others by context utilization.
        settings: name a model; see `chosen_settings`.
        limit: ask so many queries only, chosen by hash, so that another run asks the same ones.
        advance: hears of queries that are done.

    Raises:
        ConfigError, CredentialsError, MissingExtraError: something is missing; nothing was asked.
        GenerationError: a model refuses all it is asked, or nothing could be judged.
        ProviderError: nothing could be judged, because a provider fails.
    """
    if settings.model is None:
        raise ConfigError("evaluation.generation.model: expected a chat model, such as openai/gpt-4o-mini")
    answering = _model_of(settings.model, settings.api_base, "evaluation.generation.", settings)
    judge = answering
    if (settings.judge_model or settings.model, settings.judge_api_base) != (settings.model, settings.api_base):
        judge = _model_of(
            settings.judge_model or settings.model, settings.judge_api_base, "evaluation.generation.judge_", settings
        )
    for model in (answering, judge):
        model.check_credentials()
    content = index.manifest.content
    embedder = embedder_of(content.embedder, content.query_model, index.manifest.model_access)
    asker = _Asker(index, queries, answering, RagasMetrics(judge, embedder), settings.top_k)
    sample = _sample(list(queries.queries), limit)
    results = run(_all([asker.query(name) for name in sample], settings.concurrency, advance))
    if not any(result.scores for result in results):
        raise _nothing_judged(asker.errors, results)
    return GenerationEvaluation(
        corpus=index.corpus,
        snapshot=index.snapshot,
        model=answering.name,
        judge_model=judge.name,
        embedder=str(content.embedder),
        top_k=settings.top_k,
        queries_available=len(queries.queries),
        results=tuple(results),
        usage=tuple(model.usage() for model in dict.fromkeys((answering, judge))),
    )


class _Asker:
    """Takes queries through their steps. ``errors`` are those of queries, the first one first."""

    def __init__(self, index: Index, queries: QuerySet, model: CountingModel, metrics: RagasMetrics, top_k: int) -> None:
        self._index = index
        self._queries = queries
        self._model = model
        self._metrics = metrics
        self._top_k = top_k
        self.errors: list[RagPipelineError] = []

    async def query(self, name: str) -> QueryGeneration:
        text, reference = self._queries.queries[name], self._queries.references.get(name)
        known = QueryGeneration(query_id=name, text=text, reference=reference)
        hits, failure = await self._step(self._index.asearch(text, self._top_k))
        if not hits:
            return known.model_copy(update={"failures": {"search": failure or "nothing was found"}})
        passages = [passage(hit) for hit in hits]
        known = known.model_copy(update={"contexts": tuple(hit.chunk_id for hit in hits)})
        answer, failure = await self._step(self._model.ask(messages_for(text, passages)))
        if answer is None or not answer.strip():
            return known.model_copy(update={"failures": {"answer": failure or f"{self._model.name} answered nothing"}})
        names = metrics_for(reference is not None)
        judged = [
            self._step(self._metrics.score(metric, question=text, answer=answer, passages=passages, reference=reference))
            for metric in names
        ]
        scores, failures = {}, {}
        for metric, (score, failure) in zip(names, await _all(judged, len(judged)), strict=True):
            if score is not None:
                scores[metric] = score
            else:
                failures[metric] = failure or "not defined for this answer"
        return known.model_copy(update={"answer": answer, "scores": scores, "failures": failures})

    async def _step(self, step: Coroutine[Any, Any, T]) -> tuple[T | None, str | None]:
        """What a step gives, or why it failed for this query. What fails all queries is raised."""
        try:
            return await step, None
        except CallError as failure:
            error = failure.error
            terminal = failure.kind != "refused"
        except RagPipelineError as failed:
            error, terminal = failed, isinstance(failed, _SAME_FOR_ALL)
        if terminal:
            raise error
        self.errors.append(error)
        return None, str(error)


def _model_of(model: str, api_base: str | None, keys: str, settings: GenerationConfig) -> CountingModel:
    return CountingModel(model, api_base, keys, settings.concurrency, settings.timeout_seconds)


def _provider(model: str | None) -> str | None:
    return model.split("/")[0] if model is not None else None


def _sample(names: Sequence[str], limit: int | None) -> list[str]:
    """In the order of the query set. A query set may be sorted by subject, so that its beginning would not stand for it."""
    if limit is None or limit >= len(names):
        return list(names)
    kept = set(sorted(names, key=value_hash)[:limit])
    return [name for name in names if name in kept]


async def _all(
    steps: Sequence[Coroutine[Any, Any, T]], at_once: int, advance: Callable[[int], None] | None = None
) -> list[T]:
    """The results of all, so many at a time. Where one raises, the others are ended."""
    places = asyncio.Semaphore(at_once)

    async def one(step: Coroutine[Any, Any, T]) -> T:
        async with places:
            result = await step
        if advance is not None:
            advance(1)
        return result

    tasks = [asyncio.ensure_future(one(step)) for step in steps]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for step in steps:
            step.close()


def _nothing_judged(errors: Sequence[RagPipelineError], results: Sequence[QueryGeneration]) -> RagPipelineError:
    if errors:
        return type(errors[0])(f"none of {len(results)} queries could be judged: {errors[0]}")
    reason = next((reason for result in results for reason in result.failures.values()), "none was asked")
    return GenerationError(f"none of {len(results)} queries could be judged: {reason}")
