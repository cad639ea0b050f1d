"""The stages of a corpus as people see them: what each makes, of what, and who reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import Contract
from rag_pipeline.orchestration import names
from rag_pipeline.refresh import STAGES, RefreshContext, evaluate_candidate


@dataclass(frozen=True)
class Stage:
    """``deps`` are the stages that it reads. ``run`` is the function of the room `refresh` that does the work."""

    name: str
    run: Callable[[RefreshContext], Contract]
    deps: tuple[str, ...]
    kinds: frozenset[str]
    description: str
    pool: str | None = None


def stages_of(corpus: CorpusConfig) -> tuple[Stage, ...]:
    """The stages of one corpus, in order. Their descriptions are what people read in the Dagster UI."""
    provider = corpus.embedding.provider
    return (
        _stage(
            names.DOCUMENTS,
            (names.SOURCE,),
            {"lancedb", "table"},
            "The text, structure and metadata of every document of the source, as it was last read successfully. "
            "Read by `chunks`. What could not be read is listed with the reason; its earlier version stays.",
        ),
        _stage(
            names.CHUNKS,
            (names.DOCUMENTS,),
            {"lancedb", "table"},
            "The spans into which documents are cut, each with the context line (title and headings) under which it "
            "is embedded and indexed. Read by `embeddings`, `vector_table` and `bm25_index`.",
        ),
        _stage(
            names.EMBEDDINGS,
            (names.CHUNKS,),
            {"lancedb", provider},
            "A vector for every distinct text of the chunks, in the cache that all corpora share. A text that was "
            "embedded once is never sent to the model again. Read by `vector_table`.",
            pool=names.pool_name(provider),
        ),
        _stage(
            names.VECTOR_TABLE,
            (names.DOCUMENTS, names.CHUNKS, names.EMBEDDINGS),
            {"lancedb", "table"},
            "One row a chunk: its text, the columns that filters may name, and its vector. Read by the query module "
            "at the version that a snapshot names.",
        ),
        _stage(
            names.BM25_INDEX,
            (names.CHUNKS,),
            {"arrow", "bm25"},
            "The lexical index: postings of every chunk in immutable Arrow segments. Read by the query module as a "
            "snapshot names them.",
        ),
        _stage(
            names.EVALUATION,
            (names.VECTOR_TABLE, names.BM25_INDEX),
            {"lancedb", "table"},
            "How well what was built answers the corpus's query set, or its own titles and headings where there is "
            "none, before it is published. Its checks refuse what answers worse. Read by `snapshot`, and by "
            "`rag-pipeline evaluate` and `diff`.",
        ),
        _stage(
            names.SNAPSHOT,
            (names.EVALUATION,),
            {"json"},
            _first_paragraph(corpus)
            + "What queries see: a manifest that names one version of the vector table and the BM25 segments that "
            "belong to it. Published only when the blocking checks before it hold. Its data version is the manifest's "
            f"hash, which stays when nothing changed. Read by every job that searches `{corpus.name}`:\n\n"
            f'```python\nfrom rag_pipeline.query import Index\n\nIndex.open("{corpus.name}").search("…")\n```',
        ),
    )


def _stage(name: str, deps: tuple[str, ...], kinds: set[str], description: str, pool: str | None = None) -> Stage:
    # Its gates are asset checks here, which refuse with their own words.
    run = evaluate_candidate if name == names.EVALUATION else STAGES[name]
    return Stage(name, run, deps, frozenset(kinds), description, pool)


def _first_paragraph(corpus: CorpusConfig) -> str:
    return f"{corpus.description}\n\n" if corpus.description else ""
