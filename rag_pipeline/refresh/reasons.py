"""Why a snapshot is another one than the one before although its documents may be the same, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rag_pipeline.contracts import WRITTEN_LINES, Manifest, SnapshotContent
from rag_pipeline.index.analyzer import ANALYZER_VERSION
from rag_pipeline.refresh.context import RefreshContext

_TOLD_OTHERWISE = frozenset({"language", WRITTEN_LINES})
"""Other languages are announced by the stage that finds them; lines of a chat model are no setting."""
_LONGEST_VALUE = 40


def lexical_settings(context: RefreshContext, language: str) -> dict[str, Any]:
    """What a manifest records under ``lexical``."""
    return {**context.corpus.lexical.model_dump(mode="json"), "language": language, "analyzer": ANALYZER_VERSION}


def retrieval_settings(context: RefreshContext) -> dict[str, Any]:
    """What a manifest records under ``retrieval``."""
    return context.corpus.retrieval.for_embedder(context.embedder.identity.provider).model_dump(mode="json")


def changed_settings(before: SnapshotContent, settings: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A line for each part of the configuration that is not as it was.

    Args:
        settings: by the names of a content's fields.
    """
    for part, new in settings.items():
        old: Mapping[str, Any] = getattr(before, part)
        names = [name for name in {**old, **new} if old.get(name) != new.get(name) and name not in _TOLD_OTHERWISE]
        if names:
            changes = ", ".join(f"{name}{_change(old.get(name), new.get(name))}" for name in names)
            yield f"{part.removesuffix('_columns')} has changed: {changes}"


def publishing_reasons(served: Manifest | None, manifest: Manifest) -> Iterator[str]:
    """What else than documents, embedder and language makes a manifest another one than that which was served."""
    if served is None:
        return
    parts = ("chunking", "lexical", "retrieval", "metadata_columns")
    yield from changed_settings(served.content, {part: getattr(manifest.content, part) for part in parts})
    if served.content.query_model != manifest.content.query_model:
        yield f"queries are embedded by another model:{_change(served.content.query_model, manifest.content.query_model)}"
    if served.model_access != manifest.model_access:
        yield "the model is reached elsewhere"
    old, new = fused_weight(served), fused_weight(manifest)
    tuned = served.fusion is not None or manifest.fusion is not None
    if tuned and old is not None and new is not None and old != new:
        yield f"BM25 has another weight in hybrid searches: {old:g} -> {new:g}"


def fused_weight(manifest: Manifest) -> float | None:
    """The share of BM25 in hybrid searches of a snapshot: as its query set has chosen, or as configured."""
    weight = manifest.fusion.bm25_weight if manifest.fusion is not None else manifest.content.retrieval.get("bm25_weight")
    return None if weight is None else float(weight)


def _change(old: Any, new: Any) -> str:
    shown = [("none" if value is None else str(value)) for value in (old, new)]
    return f" {shown[0]} -> {shown[1]}" if max(map(len, shown)) <= _LONGEST_VALUE else ""
