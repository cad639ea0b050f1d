"""BM25 as rank-bm25 defines it, over postings in memory-mapped Arrow files."""

from rag_pipeline.index.bm25.building import compact, merge_segments, plan_merges, write_segments
from rag_pipeline.index.bm25.scoring import PostingsBM25, TermMatch, open_bm25
from rag_pipeline.index.bm25.segments import live_chunk_ids, verify_segment, write_deletions

__all__ = [
    "PostingsBM25",
    "TermMatch",
    "compact",
    "live_chunk_ids",
    "merge_segments",
    "open_bm25",
    "plan_merges",
    "verify_segment",
    "write_deletions",
    "write_segments",
]
