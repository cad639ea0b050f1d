"""Known items: queries that a corpus makes itself, so that one without a query set has a guard against regressions.

Titles and headings are the queries, and the documents that carry them the answers. As a task known-item search is that of
the TREC-5 confusion track (Kantor, Voorhees, Information Retrieval 2, 2000). People ask otherwise, so that the figures
tell when something broke from one snapshot to the next, and little about how good retrieval is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Any

from rag_pipeline.contracts import HEADING_SEPARATOR
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.hashing import text_hash, value_hash
from rag_pipeline.lance import scan, scan_keys

SAMPLE = 100
"""Queries of a corpus. They cost every refresh that changed something; see docs/adr/0015-gates-and-known-items.md."""

_MOST_DOCUMENTS = 3
"""A heading of more documents ("Examples", "See also") tells nobody which of them is meant."""
_FEWEST_LETTERS = 4


def known_items(vectors: Any, count: int = SAMPLE) -> QuerySet:
    """The known items of a vector table, at most ``count`` of them.

    They are those with the smallest hashes, so that another refresh takes the same ones, but for what was edited.

    Args:
        vectors: a handle on the vector table, at the version that is to be asked.
    """
    carriers: defaultdict[str, set[str]] = defaultdict(set)
    for batch in scan(vectors, ["document_id", "title", "heading_path"], batch_rows=2**16):
        distinct = set(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        for document, title, heading_path in distinct:
            for text in (title, (heading_path or "").split(HEADING_SEPARATOR)[-1]):
                carriers[" ".join((text or "").split())].add(document)
    ids = {text_hash(text): text for text, documents in carriers.items() if len(documents) <= _MOST_DOCUMENTS}
    sample = list(islice((ids[digest] for digest in sorted(ids) if _has_words(ids[digest])), count))
    # With other documents it is another query: its figures cannot be compared.
    names = {text: f"known-{value_hash([text, sorted(carriers[text])])[:16]}" for text in sample}
    return QuerySet(
        {name: text for text, name in names.items()},
        {name: dict.fromkeys(sorted(carriers[text]), 1) for text, name in names.items()},
        "known_items",
    )


def _has_words(text: str) -> bool:
    return sum(character.isalpha() for character in text) >= _FEWEST_LETTERS


def renamed(before: Any, after: Any, gone: Sequence[str], new: Sequence[str]) -> dict[str, list[str]]:
    """For each document that is gone, the new ones that hold the same texts: a document that was moved is still known.

    Args:
        before: a handle on the vector table that holds the documents ``gone``.
        after: one that holds the documents ``new``.
    """
    if not gone or not new:
        return {}
    holders: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for document, texts in sorted(_texts(after, new).items()):
        holders[texts].append(document)
    return {document: holders[texts] for document, texts in _texts(before, gone).items() if texts in holders}


def _texts(vectors: Any, documents: Sequence[str]) -> dict[str, frozenset[str]]:
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for batch in scan_keys(vectors, ["document_id", "text_hash"], "document_id", documents, 2**16):
        for document, digest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            texts[document].add(digest)
    return {document: frozenset(digests) for document, digests in texts.items()}
