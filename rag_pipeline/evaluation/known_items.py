"""Known items: queries that a corpus makes itself, so that one without a query set has a guard against regressions.

Titles and headings are the queries, and the documents that carry them the answers. As a task known-item search is that of
the TREC-5 confusion track (Kantor, Voorhees, Information Retrieval 2, 2000). People ask otherwise, so that the figures
tell when something broke from one snapshot to the next, and little about how good retrieval is.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rag_pipeline.contracts import HEADING_SEPARATOR
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.hashing import text_hash, value_hash
from rag_pipeline.lance import scan

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
                words = " ".join((text or "").split())
                if sum(character.isalpha() for character in words) >= _FEWEST_LETTERS:
                    carriers[words].add(document)
    ids = {text_hash(text): text for text, documents in carriers.items() if len(documents) <= _MOST_DOCUMENTS}
    sample = [ids[digest] for digest in sorted(ids)[:count]]
    # With other documents it is another query: its figures cannot be compared.
    names = {text: f"known-{value_hash([text, sorted(carriers[text])])[:16]}" for text in sample}
    return QuerySet(
        {name: text for text, name in names.items()},
        {name: dict.fromkeys(sorted(carriers[text]), 1) for text, name in names.items()},
        "known_items",
    )
