"""Recall, precision and IoU over character spans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.evaluation.spans import DocumentSpan, SpanFigures, mean_figures, span_figures

SPANS = st.lists(
    st.builds(
        lambda document, start, length: DocumentSpan(document, start, start + length),
        st.sampled_from(["a", "b"]),
        st.integers(0, 40),
        st.integers(0, 15),
    ),
    max_size=6,
)


def spans(*pairs: tuple[int, int], document: str = "a") -> list[DocumentSpan]:
    return [DocumentSpan(document, start, end) for start, end in pairs]


def characters(some: list[DocumentSpan]) -> set[tuple[str, int]]:
    return {(span.document_id, place) for span in some for place in range(span.start, span.end)}


def test_exactly_the_evidence_is_perfect() -> None:
    assert span_figures(spans((3, 9), (20, 30)), spans((20, 30), (3, 9))) == SpanFigures(1.0, 1.0, 1.0)


def test_half_the_evidence_in_a_chunk_twice_as_long() -> None:
    # 10 characters are wanted, 20 were retrieved, 5 are both: the union has 25.
    assert span_figures(spans((0, 10)), spans((5, 25))) == SpanFigures(0.5, 0.25, 0.2)


def test_text_that_is_retrieved_twice_is_paid_for_twice_and_found_once() -> None:
    assert span_figures(spans((0, 10)), spans((0, 10), (0, 10))) == SpanFigures(1.0, 0.5, 0.5)


def test_evidence_that_is_named_twice_counts_once() -> None:
    assert span_figures(spans((0, 10), (5, 10)), spans((0, 5))) == SpanFigures(0.5, 1.0, 0.5)


def test_the_same_place_of_another_document_is_no_evidence() -> None:
    assert span_figures(spans((0, 10)), spans((0, 10), document="b")) == SpanFigures(0.0, 0.0, 0.0)


def test_nothing_retrieved_and_no_evidence_are_zero() -> None:
    assert span_figures(spans((0, 10)), []) == SpanFigures(0.0, 0.0, 0.0)
    assert span_figures([], spans((0, 10))) == SpanFigures(0.0, 0.0, 0.0)
    assert span_figures([], []) == SpanFigures(0.0, 0.0, 0.0)


@given(SPANS, SPANS)
def test_the_figures_are_those_of_sets_of_characters(evidence: list[DocumentSpan], retrieved: list[DocumentSpan]) -> None:
    wanted, found = characters(evidence), characters(evidence) & characters(retrieved)
    length = sum(span.end - span.start for span in retrieved)
    figures = span_figures(evidence, retrieved)
    assert figures.recall == (pytest.approx(len(found) / len(wanted)) if wanted else 0.0)
    assert figures.precision == (pytest.approx(len(found) / length) if length else 0.0)
    union = len(wanted) + length - len(found)
    assert figures.iou == (pytest.approx(len(found) / union) if union else 0.0)


def test_means_are_taken_figure_by_figure() -> None:
    assert mean_figures([SpanFigures(1.0, 0.5, 0.5), SpanFigures(0.0, 0.0, 0.25)]) == SpanFigures(0.5, 0.25, 0.375)
    with pytest.raises(ValueError, match="at least one query"):
        mean_figures([])
