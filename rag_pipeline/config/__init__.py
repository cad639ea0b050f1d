"""corpus.yaml -> CorpusConfig, one module a section: strict, frozen, every fault of a file reported at once."""

from rag_pipeline.config.addresses import plain_address
from rag_pipeline.config.chunking import DEFAULT_OVERLAP, ChunkingConfig, ContextLine
from rag_pipeline.config.corpus import CorpusConfig, SafetyConfig
from rag_pipeline.config.deployment import DEPLOYMENT_VARIABLES, Deployment
from rag_pipeline.config.embedding import HOSTED_PROVIDERS, BudgetConfig, EmbedderConfig, EmbeddingConfig, Provider
from rag_pipeline.config.evaluation import (
    EVALUATED_DOCUMENTS,
    METRICS,
    EvaluationConfig,
    GateValue,
    GenerationConfig,
    MetricName,
)
from rag_pipeline.config.metadata import FILTER_COLUMNS, MetadataName, MetadataType
from rag_pipeline.config.parsing import ParsingConfig
from rag_pipeline.config.retrieval import HOSTED_RERANKERS, LexicalConfig, RerankerName, RetrievalConfig
from rag_pipeline.config.roots import (
    CORPORA_VARIABLE,
    CORPUS_FILE,
    DATA_VARIABLE,
    NAME_PATTERN,
    RESERVED_NAMES,
    STRICT_VARIABLE,
    corpora_root,
    data_root,
)
from rag_pipeline.config.schedule import ExecutionConfig, FreshnessConfig, ScheduleConfig
from rag_pipeline.config.source import FieldMapping, Glob, SourceConfig, StorageOptions

__all__ = [
    "CORPORA_VARIABLE",
    "CORPUS_FILE",
    "DATA_VARIABLE",
    "DEFAULT_OVERLAP",
    "DEPLOYMENT_VARIABLES",
    "EVALUATED_DOCUMENTS",
    "FILTER_COLUMNS",
    "HOSTED_PROVIDERS",
    "HOSTED_RERANKERS",
    "METRICS",
    "NAME_PATTERN",
    "RESERVED_NAMES",
    "STRICT_VARIABLE",
    "BudgetConfig",
    "ChunkingConfig",
    "ContextLine",
    "CorpusConfig",
    "Deployment",
    "EmbedderConfig",
    "EmbeddingConfig",
    "EvaluationConfig",
    "ExecutionConfig",
    "FieldMapping",
    "FreshnessConfig",
    "GateValue",
    "GenerationConfig",
    "Glob",
    "LexicalConfig",
    "MetadataName",
    "MetadataType",
    "MetricName",
    "ParsingConfig",
    "Provider",
    "RerankerName",
    "RetrievalConfig",
    "SafetyConfig",
    "ScheduleConfig",
    "SourceConfig",
    "StorageOptions",
    "corpora_root",
    "data_root",
    "plain_address",
]
