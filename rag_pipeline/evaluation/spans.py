"""Figures of what was retrieved against character spans: how much of the evidence came, and how much else came with it.

Smith, Troynikov: Evaluating Chunking Strategies for Retrieval, Chroma Technical Report, 2024. They name the figures after
tokens and count characters, as is done here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class DocumentSpan(NamedTuple):
    """Characters ``[start, end)`` of a document."""

    document_id: str
    start: int
    end: int


class SpanFigures(NamedTuple):
    """``recall``: which part of the evidence was retrieved. ``precision``: which part of what was retrieved is evidence.

    ``iou``: evidence that was retrieved over evidence and retrieved text together. Evidence counts once, retrieved text as
    often as it came, so that chunks that overlap pay for it. All are between 0 and 1.
    """

    recall: float
    precision: float
    iou: float


def span_figures(evidence: Iterable[DocumentSpan], retrieved: Iterable[DocumentSpan]) -> SpanFigures:
    """The figures of one query. Spans may overlap and come in any order; without evidence or without hits all are 0."""
    wanted, given = list(evidence), list(retrieved)
    wanted_length = _length(_united(wanted))
    given_length = _length(given)
    found = _length(_common(_united(wanted), _united(given)))
    union = wanted_length + given_length - found
    return SpanFigures(
        recall=found / wanted_length if wanted_length else 0.0,
        precision=found / given_length if given_length else 0.0,
        iou=found / union if union else 0.0,
    )


def mean_figures(figures: Sequence[SpanFigures]) -> SpanFigures:
    """Means over queries.

    Raises:
        ValueError: there is none.
    """
    if not figures:
        raise ValueError("expected the figures of at least one query")
    return SpanFigures(*(sum(column) / len(figures) for column in zip(*figures, strict=True)))


def _length(spans: Iterable[DocumentSpan]) -> int:
    return sum(max(span.end - span.start, 0) for span in spans)


def _united(spans: Iterable[DocumentSpan]) -> list[DocumentSpan]:
    """The same characters as spans in order that neither overlap nor touch."""
    united: list[DocumentSpan] = []
    for span in sorted(span for span in spans if span.start < span.end):
        last = united[-1] if united else None
        if last is not None and last.document_id == span.document_id and span.start <= last.end:
            united[-1] = last._replace(end=max(last.end, span.end))
        else:
            united.append(span)
    return united


def _common(some: Sequence[DocumentSpan], others: Sequence[DocumentSpan]) -> list[DocumentSpan]:
    """What two lists of united spans share."""
    by_document: defaultdict[str, list[DocumentSpan]] = defaultdict(list)
    for span in others:
        by_document[span.document_id].append(span)
    pairs = ((one, other) for one in some for other in by_document[one.document_id])
    shared = (DocumentSpan(one.document_id, max(one.start, other.start), min(one.end, other.end)) for one, other in pairs)
    return [span for span in shared if span.start < span.end]
