"""The asset graph of one corpus. Each body calls its stage and reports what the stage returned."""

# Dagster reads the annotations of asset functions as objects, so that they cannot be postponed here.
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import Contract
from rag_pipeline.errors import RagPipelineError, TransientError
from rag_pipeline.hashing import value_hash
from rag_pipeline.lance import bucket_errors
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.metadata import report_metadata, table_metadata
from rag_pipeline.orchestration.resources import RefreshSettings
from rag_pipeline.refresh import (
    RefreshContext,
    evaluate_candidate,
    refresh_bm25_index,
    refresh_chunks,
    refresh_documents,
    refresh_embeddings,
    refresh_snapshot,
    refresh_vector_table,
)

Stage = Callable[[RefreshContext], Contract]


def build_assets(corpus: CorpusConfig) -> list[dg.AssetsDefinition]:
    """The assets from documents to snapshot. Their docstrings are what people read in the Dagster UI."""
    return [
        _asset(
            corpus,
            names.DOCUMENTS,
            refresh_documents,
            deps=(),
            kinds={"lancedb", "table"},
            configuration=corpus.source.model_dump(mode="json"),
            description=(
                "The text, structure and metadata of every document of the source, as it was last read successfully. "
                "Read by `chunks`. What could not be read is listed with the reason; its earlier version stays."
            ),
        ),
        _asset(
            corpus,
            names.CHUNKS,
            refresh_chunks,
            deps=(names.DOCUMENTS,),
            kinds={"lancedb", "table"},
            configuration=corpus.chunking.deciding,
            description=(
                "The spans into which documents are cut, each with the context line (title and headings) under which it "
                "is embedded and indexed. Read by `embeddings`, `vector_table` and `bm25_index`."
            ),
        ),
        _asset(
            corpus,
            names.EMBEDDINGS,
            refresh_embeddings,
            deps=(names.CHUNKS,),
            kinds={"lancedb", corpus.embedding.provider},
            configuration=corpus.embedding.model_dump(mode="json"),
            description=(
                "A vector for every distinct text of the chunks, in the cache that all corpora share. A text that was "
                "embedded once is never sent to the model again. Read by `vector_table`."
            ),
            pool=names.pool_name(corpus.embedding.provider),
        ),
        _asset(
            corpus,
            names.VECTOR_TABLE,
            refresh_vector_table,
            deps=(names.DOCUMENTS, names.CHUNKS, names.EMBEDDINGS),
            kinds={"lancedb", "table"},
            configuration={"metadata": dict(corpus.metadata), "embedding": corpus.embedding.model_dump(mode="json")},
            description=(
                "One row a chunk: its text, the columns that filters may name, and its vector. Read by the query module "
                "at the version that a snapshot names."
            ),
        ),
        _asset(
            corpus,
            names.BM25_INDEX,
            refresh_bm25_index,
            deps=(names.CHUNKS,),
            kinds={"arrow", "bm25"},
            configuration=corpus.lexical.model_dump(mode="json"),
            description=(
                "The lexical index: postings of every chunk in immutable Arrow segments. Read by the query module as a "
                "snapshot names them."
            ),
        ),
        _asset(
            corpus,
            names.EVALUATION,
            evaluate_candidate,
            deps=(names.VECTOR_TABLE, names.BM25_INDEX),
            kinds={"lancedb", "table"},
            configuration=corpus.evaluation.model_dump(mode="json"),
            description=(
                "How well what was built answers the corpus's query set, or its own titles and headings where there is "
                "none, before it is published. Its checks refuse what answers worse. Read by `snapshot`, and by "
                "`rag-pipeline evaluate` and `diff`."
            ),
        ),
        _asset(
            corpus,
            names.SNAPSHOT,
            refresh_snapshot,
            deps=(names.EVALUATION,),
            kinds={"json"},
            configuration=corpus.retrieval.model_dump(mode="json"),
            description=(
                "What queries see: a manifest that names one version of the vector table and the BM25 segments that "
                "belong to it. Published only when the blocking checks before it hold. Read by every job that searches "
                f"`{corpus.name}`."
            ),
        ),
    ]


def _asset(
    corpus: CorpusConfig,
    stage: str,
    run_stage: Stage,
    *,
    deps: tuple[str, ...],
    kinds: set[str],
    configuration: dict[str, Any],
    description: str,
    pool: str | None = None,
) -> dg.AssetsDefinition:
    policy = None
    if stage == names.SNAPSHOT and corpus.freshness is not None:
        policy = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=corpus.freshness.max_age_hours))

    @dg.asset(
        key=[corpus.name, stage],
        deps=[dg.AssetKey([corpus.name, dep]) for dep in deps],
        group_name=corpus.name,
        description=f"{corpus.description}\n\n{description}"
        if corpus.description and stage == names.SNAPSHOT
        else description,
        kinds=kinds,
        owners=list(corpus.owners),
        tags={names.CORPUS_TAG: corpus.name},
        code_version=value_hash(configuration)[:16],
        freshness_policy=policy,
        pool=pool,
        required_resource_keys={names.SETTINGS_RESOURCE},
    )
    def body(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        settings: RefreshSettings = getattr(context.resources, names.SETTINGS_RESOURCE)
        with failures_for_people():
            refresh = settings.context(corpus, context.run.run_id, context.log)
            report = run_stage(refresh)
        refresh.reporter.record(corpus.name, stage, report)
        return dg.MaterializeResult(
            metadata={**report_metadata(report), **table_metadata(refresh.store, stage, report)},
            data_version=data_version(report),
        )

    return body


@contextmanager
def failures_for_people() -> Iterator[None]:
    """Turn errors of ours into Dagster failures: the message without a trace, retried only when that may help."""
    try:
        with bucket_errors("the data root"):
            yield
    except RagPipelineError as error:
        raise dg.Failure(description=str(error), allow_retries=isinstance(error, TransientError)) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise dg.Failure(description=f"{error.strerror or error}{where}", allow_retries=False) from error


def data_version(report: Contract) -> dg.DataVersion | None:
    """The snapshot's version is its manifest hash: it changes when results may change."""
    digest = getattr(report, "hash", None)
    return dg.DataVersion(digest) if digest else None
