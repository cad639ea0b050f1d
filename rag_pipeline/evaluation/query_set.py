"""Query sets: a corpus's own in BEIR layout (queries.jsonl and qrels.tsv), or known items."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError
from rag_pipeline.hashing import value_hash

Kind: TypeAlias = Literal["queries", "known_items"]
REFERENCE_FIELDS = ("answer", "reference")
"""What a query's ``metadata`` may call the answer that is right."""
_MISSING_SHOWN = 3


@dataclass(frozen=True)
class QuerySet:
    """``queries`` maps query id to text; ``qrels`` maps query id to its judged documents and their grades.

    Only queries with at least one document judged relevant are kept. ``kind`` tells whether a corpus's own queries are
    asked or known items. ``references`` maps query id to the answer that is right, for the queries that have one: retrieval
    is judged without it, and the hash leaves it out.
    """

    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    kind: Kind = "queries"
    references: dict[str, str] = field(default_factory=dict)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over queries and judgements, whatever order the files have them in."""
        return value_hash([self.kind, self.queries, self.qrels])

    def lost(self, documents: Collection[str]) -> str | None:
        """A line about the relevant documents that are not among some documents, or None where all of them are."""
        relevant = {name for grades in self.qrels.values() for name, grade in grades.items() if grade > 0}
        missing = sorted(relevant - set(documents))
        if not missing:
            return None
        shown = ", ".join(missing[:_MISSING_SHOWN]) + (", …" if len(missing) > _MISSING_SHOWN else "")
        return f"missing, so that nothing finds them: {len(missing)} of the {len(relevant)} relevant documents ({shown})"


def load_query_set(corpus: CorpusConfig) -> QuerySet:
    """Read the query set that a corpus.yaml names.

    Raises:
        ConfigError: it names none, or a file cannot be read; the message names file and line.
    """
    files = corpus.evaluation
    if files.queries is None or files.qrels is None:
        raise ConfigError(f"{corpus.file}: evaluation: no query set; expected {{queries: FILE.jsonl, qrels: FILE.tsv}}")
    queries, references = _read_queries(corpus.folder / files.queries)
    qrels = _read_qrels(corpus.folder / files.qrels)
    judged = {query: grades for query, grades in qrels.items() if query in queries and any(g > 0 for g in grades.values())}
    if not judged:
        raise ConfigError(f"{corpus.file}: evaluation: no query of queries has a relevant document in qrels")
    kept = {query: references[query] for query in judged if query in references}
    return QuerySet({query: queries[query] for query in judged}, judged, references=kept)


def configured_queries(corpus: CorpusConfig) -> QuerySet | None:
    """The query set of a corpus, or None where corpus.yaml names none."""
    return load_query_set(corpus) if corpus.evaluation.queries is not None else None


def _read_queries(file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Texts and reference answers by query id."""
    queries, references = {}, {}
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            queries[str(record["_id"])] = str(record["text"])
            reference = _reference(record.get("metadata"))
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f'{file}:{number}: expected {{"_id": "…", "text": "…"}}, got {line[:60]!r}') from None
        if reference is not None:
            references[str(record["_id"])] = reference
    return queries, references


def _reference(metadata: Any) -> str | None:
    """The reference answer of a query's metadata. Query sets of others keep all sorts of things there."""
    given = [metadata.get(name) for name in REFERENCE_FIELDS] if isinstance(metadata, dict) else []
    return next((text for text in given if isinstance(text, str) and text.strip()), None)


def _read_qrels(file: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_lines(file), 1):
        cells = line.rstrip("\r").split("\t")
        if not line.strip() or (number == 1 and cells[-1].strip() == "score"):
            continue
        try:
            query, document, grade = cells
            qrels.setdefault(query, {})[document] = int(grade)
        except ValueError:
            expected = "query-id, corpus-id and a whole number, separated by tabs"
            raise ConfigError(f"{file}:{number}: expected {expected}, got {line[:60]!r}") from None
    return qrels


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or error) if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{file}: cannot be read: {reason}; `evaluation` of corpus.yaml names it") from None
