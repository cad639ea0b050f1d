"""What every stage of one refresh works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rag_pipeline.chunking import CHUNKER_VERSION
from rag_pipeline.config import HOSTED_PROVIDERS, ChunkingConfig, CorpusConfig, EmbedderConfig
from rag_pipeline.contracts import EmbeddingSpend, Tokenizer
from rag_pipeline.embedding import Embedder, embedder_for
from rag_pipeline.embedding.cache import EmbeddingCache
from rag_pipeline.embedding.providers import resolved
from rag_pipeline.errors import (
    ConfigError,
    CredentialsError,
    EmbeddingError,
    MissingExtraError,
    ProviderError,
    RagPipelineError,
    TransientError,
)
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.refresh.embedding_record import read_embedding_record
from rag_pipeline.refresh.progress import Reporter, Silent
from rag_pipeline.refresh.reports import FailedDocument
from rag_pipeline.storage import StorePath

_CONTEXT_TOKENS = 64
"""Room for the context line above a chunk where the model's limit decides the size: 200 characters at the most."""
_WRITTEN_CONTEXT_TOKENS = 160
"""The same where a chat model's line of 300 characters follows."""
PROMPT_VERSION = "1"
"""Of the prompt for context lines: to be raised when it asks for other lines."""
SMALLEST_CHUNK = 8
"""Tokens; what the configuration allows at the least."""

Found = TypeVar("Found")


class _Chain(NamedTuple):
    configs: tuple[EmbedderConfig, ...]
    embedders: tuple[Embedder, ...]
    members: tuple[Embedder | RagPipelineError, ...]


def naming(corpus: str, error: RagPipelineError) -> RagPipelineError:
    """The same error, whose message says of which corpus it is."""
    if not str(error).startswith(f"{corpus}: "):
        error.args = (f"{corpus}: {error}",)
    return error


def chain_error(corpus: str, failures: Sequence[RagPipelineError]) -> RagPipelineError:
    """What to raise when no embedder of a chain can be had: the only failure, or an error with all reasons in order."""
    if len(failures) == 1:
        return naming(corpus, failures[0])
    reasons = "; ".join(f"{place}. {failure}" for place, failure in enumerate(failures, 1))
    kind: type[RagPipelineError] = EmbeddingError
    if any(isinstance(failure, TransientError) for failure in failures):
        kind = ProviderError
    elif all(isinstance(failure, (CredentialsError, MissingExtraError)) for failure in failures):
        kind = CredentialsError
    return kind(f"{corpus}: neither the embedder nor a fallback can be had: {reasons}")


@dataclass(frozen=True)
class RefreshContext:
    """One corpus, its store, and how it is to be refreshed.

    ``full`` reads and rebuilds everything, whatever looks unchanged. ``allow_deletes`` lifts the safety limit on what
    may vanish; ``removed`` are paths of items that vanished on purpose, and do not count. ``accept_drop`` publishes what
    the corpus's gates refuse. ``run_id`` is recorded in the manifest. ``dry_run`` writes nothing. ``figures`` collects the
    numbers of the stages that have run, by stage and name; ``unread`` the documents for whose number a refresh stops.
    """

    corpus: CorpusConfig
    data_root: StorePath
    full: bool = False
    allow_deletes: bool = False
    accept_drop: bool = False
    removed: frozenset[str] = frozenset()
    run_id: str | None = None
    reporter: Reporter = field(default_factory=Silent)
    dry_run: bool = False
    figures: dict[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    unread: list[FailedDocument] = field(default_factory=list, repr=False, compare=False)
    _spent_on_lines: list[tuple[int, float | None]] = field(default_factory=list, init=False, repr=False, compare=False)
    _spent_on_texts: list[EmbeddingSpend] = field(default_factory=list, init=False, repr=False, compare=False)
    _caches: dict[str, EmbeddingCache] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found: dict[str, tuple[list[tuple[str, int]], Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def store(self) -> CorpusStore:
        return CorpusStore(self.data_root, self.corpus.name)

    @cached_property
    def chunking(self) -> ChunkingConfig:
        """How documents are cut: as configured, and no longer than every embedder of the chain takes.

        Raises:
            ConfigError: a size was asked for that is more than an embedder takes.
        """
        configured = self.corpus.chunking
        limited = [embedder for embedder in self.embedders if embedder.max_tokens is not None]
        if not limited:
            return configured
        tightest = min(limited, key=lambda embedder: embedder.max_tokens or 0)
        most = tightest.max_tokens or 0
        if "size" in configured.model_fields_set:
            if configured.size > most:
                raise ConfigError(
                    f"{self.corpus.file}: chunking.size: {configured.size} is more than {tightest.identity} takes; expected "
                    f"at most {most}, context line included"
                )
            return configured
        room = _WRITTEN_CONTEXT_TOKENS if configured.context == "llm" else _CONTEXT_TOKENS
        size = max(min(configured.size, most - room), SMALLEST_CHUNK)
        return configured if size == configured.size else configured.limited_to(size)

    @property
    def chunking_settings(self) -> dict[str, Any]:
        """What decides how a document is cut, as the manifest records it; the tokenizer comes with the embedder."""
        settings = {**self.chunking.deciding, "chunker": CHUNKER_VERSION}
        if self.sentence_embedder is not None:
            settings["sentence_embedder"] = self.sentence_embedder.identity.model_dump(mode="json")
        if self.corpus.chunking.context == "llm":
            settings["context_prompt"] = PROMPT_VERSION
        return settings

    @cached_property
    def sentence_embedder(self) -> Embedder | None:
        """What compares sentences for strategy ``semantic``, None for the others: the first embedder where it runs on this
        machine, else the static one, since every sentence would be paid for."""
        if self.corpus.chunking.strategy != "semantic":
            return None
        first = self.embedders[0]
        hosted = first.identity.provider in HOSTED_PROVIDERS
        return embedder_for(EmbedderConfig(provider="static")) if hosted else first

    @cached_property
    def chunking_key(self) -> str:
        """The hash over the chunking settings and the tokenizer: with another one every document is cut again."""
        return value_hash({**self.chunking_settings, "tokenizer": self.tokenizer.key})

    @property
    def embedders(self) -> tuple[Embedder, ...]:
        """The embedders in the order in which a refresh tries them: of a chain those that can be had.

        Raises:
            ConfigError: the budget is in money, and the price of one of the chain is not known.
            EmbeddingError, MissingExtraError, ProviderError: there is none; the message has all reasons.
        """
        return self._chain.embedders

    @property
    def members(self) -> tuple[Embedder | RagPipelineError, ...]:
        """The whole chain in order: an embedder, or why it cannot even be loaded."""
        return self._chain.members

    def check_prices(self) -> None:
        """
        Raises:
            ConfigError: the budget is in money, and the price of an embedder of the chain is not known.
        """
        if self.corpus.budget.usd_per_refresh is None:
            return
        from rag_pipeline.embedding.hosted.build import model_name, usd_per_token

        for place, config in enumerate(map(resolved, self.corpus.embedding.chain)):
            if config.provider in HOSTED_PROVIDERS and usd_per_token(config) is None:
                key = f"embedding.fallback.{place - 1}" if place else "embedding"
                raise ConfigError(
                    f"{self.corpus.file}: budget.usd_per_refresh: the price of {model_name(config)} is not known; set "
                    f"{key}.usd_per_million_tokens, or budget.tokens_per_refresh instead"
                )

    @cached_property
    def _chain(self) -> _Chain:
        if not self.dry_run:
            self.check_prices()
        found: list[tuple[EmbedderConfig, Embedder]] = []
        members: list[Embedder | RagPipelineError] = []
        for config in map(self._with_model_folder, self.corpus.embedding.chain):
            try:
                embedder = embedder_for(config, self.store.embeddings, remember=not self.dry_run)
            except (EmbeddingError, MissingExtraError, ProviderError) as error:
                members.append(error)
            else:
                members.append(embedder)
                found.append((config, embedder))
        if not found:
            raise chain_error(self.corpus.name, [member for member in members if isinstance(member, RagPipelineError)])
        configs, embedders = zip(*found, strict=True)
        return _Chain(configs, embedders, tuple(members))

    @property
    def tokenizer(self) -> Tokenizer:
        """Counts what chunks are measured in: the first embedder's, whichever one a refresh ends with."""
        return self.embedders[0].tokenizer

    @property
    def embedder(self) -> Embedder:
        """The one that the whole snapshot is embedded with: of a chain the one that the `embeddings` stage ended with."""
        return self.embedders[self._chosen]

    @property
    def embedder_config(self) -> EmbedderConfig:
        """The configuration of ``embedder``; a folder as model is an absolute path."""
        return self._chain.configs[self._chosen]

    @property
    def _chosen(self) -> int:
        if len(self.embedders) == 1:
            return 0
        record = read_embedding_record(self.store)
        identities = [embedder.identity for embedder in self.embedders]
        return identities.index(record.identity) if record is not None and record.identity in identities else 0

    def _with_model_folder(self, config: EmbedderConfig) -> EmbedderConfig:
        if config.provider not in ("local", "sentence-transformers") or config.model is None:
            return config
        folder = (self.corpus.folder / Path(config.model).expanduser()).resolve()
        return config.model_copy(update={"model": str(folder)}) if folder.is_dir() else config

    def note_context_lines(self, tokens: int, cost_usd: float | None) -> None:
        """What the `chunks` stage has spent on context lines, which the budget for embedding is less by."""
        self._spent_on_lines.append((tokens, cost_usd))

    @property
    def spent_on_context_lines(self) -> tuple[int, float]:
        """Tokens and USD, as far as this process has spent them in this refresh."""
        return sum(tokens for tokens, _ in self._spent_on_lines), sum(cost or 0.0 for _, cost in self._spent_on_lines)

    def note_embedding(self, spent: EmbeddingSpend) -> None:
        """What the `embeddings` stage has spent, whether it came to its end or not."""
        self._spent_on_texts.append(spent)

    def paid(self) -> dict[str, Any]:
        """What this process has spent so far in this refresh: figures by their names in reports. Empty for nothing."""
        costs = [*(cost for _, cost in self._spent_on_lines), *(spent.cost_usd for spent in self._spent_on_texts)]
        figures = {
            "embedded": sum(spent.texts for spent in self._spent_on_texts),
            "tokens": sum(spent.tokens for spent in self._spent_on_texts),
            "context_tokens": sum(tokens for tokens, _ in self._spent_on_lines),
        }
        if not any(figures.values()):
            return {}
        return figures if None in costs else {**figures, "cost_usd": float(sum(one for one in costs if one is not None))}

    def told_at_failure(self) -> dict[str, Any]:
        """What is worth knowing of a refresh that fails: what was paid, and ``failures`` where there are too many."""
        return {**self.paid(), **({"failures": [one.model_dump() for one in self.unread]} if self.unread else {})}

    def embedding_cache(self, embedder: Embedder) -> EmbeddingCache:
        """The vectors of an embedder. Opened once a refresh: the hashes that it holds are read from disk."""
        if embedder.identity.key not in self._caches:
            self._caches[embedder.identity.key] = EmbeddingCache(self.store.embeddings, embedder.identity)
        return self._caches[embedder.identity.key]

    def found_in(self, name: str, tables: tuple[Any, ...], find: Callable[[], Found]) -> Found:
        """What ``find`` finds in these tables: found again only when one of them has another version than last time.

        A version of a table never changes, whoever writes: every commit makes another one.
        """
        versions = [(table.name, table.version) for table in tables]
        if name not in self._found or self._found[name][0] != versions:
            self._found[name] = (versions, find())
        found: Found = self._found[name][1]
        return found
