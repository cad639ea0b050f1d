"""corpus.yaml -> CorpusConfig: strict, frozen, every fault of a file reported at once."""

from __future__ import annotations

import ipaddress
import os
import re
import unicodedata
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from typing_extensions import Self

from rag_pipeline.errors import ConfigError
from rag_pipeline.hashing import value_hash

CORPUS_FILE = "corpus.yaml"
CORPORA_VARIABLE = "RAG_PIPELINE_CORPORA"
DATA_VARIABLE = "RAG_PIPELINE_DATA"

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")
RESERVED_NAMES = frozenset({"embeddings"})  # the folder of the embedding cache beside the corpora's stores

FILTER_COLUMNS = ("document_id", "path", "source", "title", "heading_path", "media_type", "modified_at", "page")
"""Columns of the vector table that every corpus has and that a filter may name."""
_STORE_COLUMNS = frozenset(
    {
        "chunk_id",
        "text",
        "context",
        "metadata",
        "vector",
        "position",
        "start",
        "end",
        "text_hash",
        "content_hash",
        "row_key",
    }
)

MetadataType: TypeAlias = Literal["string", "int", "float", "bool", "timestamp"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def hash(self) -> str:
        """SHA-256 over all values: what depends on this configuration is redone when it changes."""
        return value_hash(self.model_dump(mode="json"))


def _check_glob(pattern: str) -> str:
    if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError("expected a pattern relative to the source's path, such as '**/*.md'")
    return pattern


Glob: TypeAlias = Annotated[str, AfterValidator(_check_glob)]


class FieldMapping(_Strict):
    """Which fields of a row are the document's id, title and text. All other fields become its metadata."""

    id: str = "id"
    title: str | None = None
    text: str = "text"


class SourceConfig(_Strict):
    """Where the documents are. ``path`` is relative to the folder of corpus.yaml.

    ``verify: stat`` takes an item for unchanged when size, time and etag are; ``hash`` reads everything each time.
    """

    path: str = Field(min_length=1)
    include: tuple[Glob, ...] = ("**/*",)
    exclude: tuple[Glob, ...] = ()
    hidden: bool = False
    format: Literal["files", "jsonl", "parquet"] = "files"
    verify: Literal["stat", "hash"] = "stat"
    fields: FieldMapping | None = None

    @field_validator("fields")
    @classmethod
    def _fields_belong_to_rows(cls, fields: FieldMapping | None, others: ValidationInfo) -> FieldMapping | None:
        if fields is not None and others.data.get("format") == "files":
            raise ValueError("they map the columns of rows: expected with format: jsonl or parquet only")
        return fields


DEFAULT_OVERLAP = 64
"""Tokens; a smaller ``size`` without an ``overlap`` beside it takes a seventh of its size."""


class ChunkingConfig(_Strict):
    """How documents are cut. Sizes are in tokens of the corpus's embedder."""

    strategy: Literal["recursive"] = "recursive"
    size: int = Field(default=480, ge=8, le=100_000)
    overlap: int = Field(default=DEFAULT_OVERLAP, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _overlap_follows_size(cls, values: Any) -> Any:
        """Whoever sets a small size alone gets an overlap that fits it."""
        if isinstance(values, dict) and isinstance(values.get("size"), int) and "overlap" not in values:
            return {**values, "overlap": max(0, min(DEFAULT_OVERLAP, values["size"] // 7))}
        return values

    @field_validator("overlap")
    @classmethod
    def _overlap_below_size(cls, overlap: int, others: ValidationInfo) -> int:
        size = others.data.get("size")
        if size is not None and overlap >= size:
            raise ValueError(f"expected less than size ({size}), got {overlap}")
        return overlap


Provider: TypeAlias = Literal[
    "static", "hash", "local", "sentence-transformers", "voyage", "openai", "ollama", "litellm", "auto"
]
HOSTED_PROVIDERS = frozenset({"voyage", "openai", "ollama", "litellm"})
"""Providers that are asked over a network, all through LiteLLM."""

_HOSTED_KEYS = (
    "api_base", "query_model", "batch_tokens", "concurrency", "requests_per_minute", "tokens_per_minute", "timeout_seconds",
    "retry_seconds", "usd_per_million_tokens",
)  # fmt: skip


def plain_address(address: str | None) -> str | None:
    """An address of a service as it was given, or None.

    Raises:
        ValueError: it is none, or holds a secret.
    """
    if address is None:
        return None
    expected = "expected an address such as 'http://127.0.0.1:8000/v1'"
    try:
        parts = urlsplit(address)
        port = parts.port
        if "[" in parts.netloc:
            ipaddress.IPv6Address((parts.hostname or "").partition("%")[0])
    except ValueError:
        raise ValueError(f"{expected}, or 'http://[::1]:8000/v1'; host or port cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or any(map(str.isspace, address)):
        raise ValueError(expected)
    if "@" in parts.netloc or parts.query:
        raise ValueError("expected an address without user, password or query: a key belongs into the environment")
    return address


class EmbedderConfig(_Strict):
    """One embedding model and how it is asked; see docs/providers/README.md.

    ``static`` and ``hash`` need no account, no network and no download. ``dimensions`` is asked of models that can give
    several widths. ``query_model`` embeds queries into the same space as ``model``. ``revision`` is for models that
    change behind their name: with another one everything is embedded anew. Prompts stand before each text; None takes
    those that the model's authors document.
    """

    provider: Provider = "static"
    model: str | None = Field(default=None, min_length=1)
    dimensions: int | None = Field(default=None, ge=1, le=8192)
    revision: str | None = Field(default=None, min_length=1)
    document_prompt: str | None = None
    query_prompt: str | None = None
    batch_size: int | None = Field(default=None, ge=1, le=4096)
    api_base: str | None = None
    query_model: str | None = Field(default=None, min_length=1)
    batch_tokens: int | None = Field(default=None, ge=1)
    concurrency: int = Field(default=4, ge=1, le=64)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    timeout_seconds: float = Field(default=60, gt=0)
    retry_seconds: float = Field(default=300, ge=0)
    usd_per_million_tokens: float | None = Field(default=None, ge=0)

    @field_validator("api_base")
    @classmethod
    def _api_base_is_a_plain_address(cls, address: str | None) -> str | None:
        return plain_address(address)

    @field_validator("model", "query_model", "revision", "api_base")
    @classmethod
    def _one_line_of_text(cls, value: str | None) -> str | None:
        if value is not None and any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in value):
            raise ValueError("expected one line of text without control characters")
        return value

    @field_validator("dimensions")
    @classmethod
    def _static_width_is_fixed(cls, dimensions: int | None, others: ValidationInfo) -> int | None:
        if others.data.get("provider") == "auto" and dimensions is not None:
            raise ValueError("expected with a provider that is named, since models differ in their widths")
        if others.data.get("provider") == "static" and dimensions not in (None, 256):
            raise ValueError(f"expected 256 or nothing for provider static, got {dimensions}")
        return dimensions

    @field_validator("model", "revision", "document_prompt", "query_prompt")
    @classmethod
    def _provider_has_models(cls, value: str | None, others: ValidationInfo) -> str | None:
        provider = others.data.get("provider")
        if value is not None and provider in ("static", "hash", "auto"):
            raise ValueError(f"expected with a provider that has models to choose from, not with provider {provider}")
        return value

    @field_validator(*_HOSTED_KEYS)
    @classmethod
    def _provider_is_hosted(cls, value: Any, others: ValidationInfo) -> Any:
        provider = others.data.get("provider")
        if value is not None and provider is not None and provider not in HOSTED_PROVIDERS:
            raise ValueError(f"expected only with one of {', '.join(sorted(HOSTED_PROVIDERS))}, not with {provider}")
        return value

    @model_validator(mode="after")
    def _litellm_needs_a_model(self) -> Self:
        if self.provider == "litellm" and self.model is None:
            raise ValueError("expected a model with provider litellm, such as 'cohere/embed-v4.0'")
        return self


class EmbeddingConfig(EmbedderConfig):
    """Which model turns text into vectors.

    ``fallback`` names, in order, what a refresh turns to when the one before cannot be had. A refresh ends with one of
    them for the whole corpus, which may mean that everything is embedded anew.
    """

    fallback: tuple[EmbedderConfig, ...] = ()

    @property
    def chain(self) -> tuple[EmbedderConfig, ...]:
        """What a refresh tries, in order: this one first."""
        return (self, *self.fallback)


class BudgetConfig(_Strict):
    """What one refresh may spend on embedding. It stops before it spends more, and keeps what it has."""

    usd_per_refresh: float | None = Field(default=None, ge=0)
    tokens_per_refresh: int | None = Field(default=None, ge=0)


class LexicalConfig(_Strict):
    """How text becomes terms, and which BM25 scores them. ``auto`` is resolved to another language by the corpus's text."""

    language: Literal[
        "auto", "none", "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "esperanto",
        "estonian", "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
        "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "serbian", "sesotho",
        "spanish", "swedish", "tamil", "turkish", "yiddish",
    ] = "auto"  # fmt: skip
    variant: Literal["lucene", "okapi", "l", "plus"] = "lucene"
    k1: float = Field(default=1.5, gt=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)


RerankerName: TypeAlias = Literal["none", "cross-encoder", "late-interaction", "litellm", "llm"]
HOSTED_RERANKERS = frozenset({"litellm", "llm"})
"""Rerankers that are asked over a network, through LiteLLM. They have no default model."""


class RetrievalConfig(_Strict):
    """How the two arms of a hybrid search become one list, and what ranks its best anew.

    ``convex`` sums normalised scores, ``bm25_weight`` for BM25 and the rest for vectors. ``rrf`` sums reciprocal ranks;
    ``rrf_k`` is the constant of Cormack et al., SIGIR 2009. ``rerank`` names the reranker of hybrid searches, which sees
    the best ``rerank_candidates``; ``rerank_weight`` is its share of the score that ranks them, the rest is fusion's.
    With ``rerank_on_failure: fused`` a reranker that fails leaves fusion's order, with a warning. See docs/reranking.md.
    """

    fusion: Literal["convex", "rrf"] = "convex"
    bm25_weight: float = Field(default=0.7, ge=0, le=1)
    rrf_k: int = Field(default=60, ge=1)
    rerank: RerankerName = "none"
    rerank_model: str | None = Field(default=None, min_length=1)
    rerank_provider: Literal["sentence-transformers", "local"] = "sentence-transformers"
    rerank_revision: str | None = Field(default=None, min_length=1)
    rerank_candidates: int = Field(default=50, ge=1, le=1000)
    rerank_weight: float | None = Field(default=None, gt=0, le=1)
    rerank_batch_size: int | None = Field(default=None, ge=1, le=1000)
    rerank_api_base: str | None = None
    rerank_timeout_seconds: float = Field(default=30, gt=0)
    rerank_on_failure: Literal["error", "fused"] = "error"

    @field_validator("rerank_model")
    @classmethod
    def _reranker_has_models(cls, model: str | None, others: ValidationInfo) -> str | None:
        name = others.data.get("rerank")
        if model is not None and name in ("none", "late-interaction"):
            raise ValueError(f"expected with rerank: cross-encoder, litellm or llm, not with {name}")
        return model

    @field_validator("rerank_provider", "rerank_revision")
    @classmethod
    def _reranker_is_local(cls, value: str | None, others: ValidationInfo) -> str | None:
        if value not in (None, "sentence-transformers") and others.data.get("rerank") not in (None, "cross-encoder"):
            raise ValueError("expected with rerank: cross-encoder only")
        return value

    @field_validator("rerank_api_base")
    @classmethod
    def _reranker_is_hosted(cls, address: str | None, others: ValidationInfo) -> str | None:
        if address is not None and others.data.get("rerank") not in (None, *HOSTED_RERANKERS):
            raise ValueError("expected with rerank: litellm or llm only")
        return plain_address(address)

    @model_validator(mode="after")
    def _hosted_reranker_needs_a_model(self) -> Self:
        if self.rerank in HOSTED_RERANKERS and self.rerank_model is None:
            example = "cohere/rerank-v3.5" if self.rerank == "litellm" else "openai/gpt-4o-mini"
            raise ValueError(f"expected rerank_model with rerank: {self.rerank}, such as '{example}'")
        return self

    @model_serializer(mode="wrap")
    def _without_unused_reranking(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What is said of reranking, and no default of it: manifests of corpora without it hold no word of it."""
        fields = type(self).model_fields
        values: dict[str, Any] = serialise(self)
        return {
            name: value
            for name, value in values.items()
            if not name.startswith("rerank") or getattr(self, name) != fields[name].default
        }


_CRON_RANGES = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))


def _check_cron(cron: str) -> str:
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(f"expected five fields such as '0 3 * * *', got {cron!r}")
    for field, (name, low, high) in zip(fields, _CRON_RANGES, strict=True):
        for part in field.split(","):
            match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?|[A-Za-z]{3}(?:-[A-Za-z]{3})?)(?:/(\d+))?", part)
            numbers = [int(n) for n in (match.group(1), match.group(2)) if n] if match else []
            step = match.group(3) if match else None
            if not match or any(not low <= n <= high for n in numbers) or numbers != sorted(numbers) or step == "0":
                raise ValueError(f"expected as {name} {low} to {high}, *, a range or a step, got {part!r}")
    return cron


def _check_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as 'Europe/Berlin' or 'UTC', got {name!r}") from None
    return name


class ScheduleConfig(_Strict):
    """When Dagster refreshes the corpus. A schedule that is written down runs unless ``enabled`` is false."""

    cron: Annotated[str, AfterValidator(_check_cron)] = "0 3 * * *"
    timezone: Annotated[str, AfterValidator(_check_timezone)] = "UTC"
    enabled: bool = True


class FreshnessConfig(_Strict):
    """After how many hours without a refresh the corpus counts as late in the Dagster UI."""

    max_age_hours: float = Field(gt=0)


METRICS = ("ndcg", "recall", "precision", "mrr", "map")
"""What a ranking is measured by; a metric's name is one of these, `@`, and how many documents it looks at."""
EVALUATED_DOCUMENTS = 100
"""How many documents of a ranking are looked at."""


def _check_metric(name: str) -> str:
    match = re.fullmatch(rf"({'|'.join(METRICS)})@([1-9][0-9]*)", name)
    if match is None or int(match.group(2)) > EVALUATED_DOCUMENTS:
        names = ", ".join(f"{metric}@K" for metric in METRICS)
        raise ValueError(f"{name!r}: expected one of {names} with K from 1 to {EVALUATED_DOCUMENTS}, such as ndcg@10")
    return name


MetricName: TypeAlias = Annotated[str, AfterValidator(_check_metric)]
GateValue: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class EvaluationConfig(_Strict):
    """How a candidate is measured before it is published, and when it is refused.

    ``queries`` and ``qrels`` are a query set in BEIR layout, relative to the folder of corpus.yaml; without them titles
    and headings are the queries. ``gates`` are the least means allowed. ``max_drop`` is how far the gated metrics
    (ndcg@10 without gates) may fall behind the snapshot that is served; None takes the default for the kind of queries.
    All of it holds for the search ``mode``.
    """

    queries: str | None = Field(default=None, min_length=1)
    qrels: str | None = Field(default=None, min_length=1)
    gates: dict[MetricName, GateValue] = Field(default_factory=dict)
    max_drop: float | None = Field(default=None, ge=0, le=1)
    mode: Literal["hybrid", "vector", "bm25"] = "hybrid"

    @model_validator(mode="after")
    def _one_file_needs_the_other(self) -> Self:
        if (self.queries is None) != (self.qrels is None):
            there, missing = ("queries", "qrels") if self.qrels is None else ("qrels", "queries")
            raise ValueError(f"expected {missing} beside {there}: both together are a query set")
        if self.gates and self.queries is None:
            raise ValueError("gates need a query set: expected queries and qrels beside them; max_drop works without")
        return self


class SafetyConfig(_Strict):
    """How much a refresh may lose before it stops instead of publishing."""

    max_delete_fraction: float = Field(default=0.3, ge=0, le=1)
    max_failed_fraction: float = Field(default=0.1, ge=0, le=1)


def _check_owner(owner: str) -> str:
    if not re.fullmatch(r"team:[A-Za-z0-9_\-. ]+|[^@\s]+@[^@\s]+\.[^@\s]+", owner):
        raise ValueError(f"expected 'team:name' or an e-mail address, got {owner!r}")
    return owner


def _check_metadata_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r}: expected a name of letters, digits and underscores")
    if name.lower() in {taken.lower() for taken in (*FILTER_COLUMNS, *_STORE_COLUMNS)}:
        raise ValueError(f"{name!r}: every corpus has this column already; expected another name")
    return name


def _check_metadata_names(columns: dict[str, MetadataType]) -> dict[str, MetadataType]:
    seen: set[str] = set()
    for name in columns:
        if name.lower() in seen:
            raise ValueError(f"{name!r}: another name differs only in capitals, which filters cannot tell apart")
        seen.add(name.lower())
    return columns


MetadataName: TypeAlias = Annotated[str, AfterValidator(_check_metadata_name)]


class CorpusConfig(_Strict):
    """One corpus. ``name`` and ``folder`` come from where the file lies, everything else from what it says."""

    name: str
    folder: Path
    description: str = ""
    owners: tuple[Annotated[str, AfterValidator(_check_owner)], ...] = ()
    source: SourceConfig
    metadata: Annotated[dict[MetadataName, MetadataType], AfterValidator(_check_metadata_names)] = Field(
        default_factory=dict
    )
    chunking: ChunkingConfig = ChunkingConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    budget: BudgetConfig = BudgetConfig()
    lexical: LexicalConfig = LexicalConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    schedule: ScheduleConfig = ScheduleConfig(enabled=False)
    freshness: FreshnessConfig | None = None
    evaluation: EvaluationConfig = EvaluationConfig()
    safety: SafetyConfig = SafetyConfig()
    keep_snapshots: int = Field(default=10, ge=1)
    keep_days: int | None = Field(default=None, ge=1)

    @property
    def file(self) -> Path:
        return self.folder / CORPUS_FILE

    @property
    def source_path(self) -> Path:
        """The source's root or file, absolute."""
        return (self.folder / self.source.path).resolve()


def corpora_root(override: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds one folder a corpus."""
    return Path(override or os.environ.get(CORPORA_VARIABLE) or "corpora").resolve()


def data_root(override: str | os.PathLike[str] | None = None) -> Path:
    """The folder under which every corpus has its store.

    Raises:
        ConfigError: the root is a URI; object stores as data roots are not there yet.
    """
    root = str(override or os.environ.get(DATA_VARIABLE) or "data")
    if "://" in root:
        raise ConfigError(f"{DATA_VARIABLE}={root}: expected a path of this machine; object stores are not supported yet")
    return Path(root).resolve()
