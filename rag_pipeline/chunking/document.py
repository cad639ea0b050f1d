"""A document to its chunks, by the strategy of its corpus.

A chunk never crosses a section, whatever the strategy.

- ``recursive``: whole paragraphs where they fit, else lines, sentences, words, characters. A chunk takes as many units as
  fit and ends at the strongest boundary in its second half: a paragraph before a line, a line before a sentence, a
  sentence before a word. The next one repeats the last sentences, lines or words, up to ``overlap`` tokens of them.
- ``semantic``: cut where the subject shifts, see `semantic`.
- ``parent-child``: recursive chunks of ``parent_size`` tokens, each cut again into chunks of ``size`` tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rag_pipeline.chunking.context import context_of
from rag_pipeline.chunking.packing import Packing
from rag_pipeline.chunking.semantic import subjects
from rag_pipeline.chunking.units import TokenSums
from rag_pipeline.config import ChunkingConfig
from rag_pipeline.contracts import Chunk, Parsed, Section, SentenceEmbedder, Span, Tokenizer

CHUNKER_VERSION = "1"
"""To be raised when the same document, configuration and tokenizer give other chunks."""


def chunk_document(
    parsed: Parsed, config: ChunkingConfig, tokenizer: Tokenizer, sentence_embedder: SentenceEmbedder | None = None
) -> list[Chunk]:
    """Cut a document into chunks.

    Every character that is not white space lies in a chunk, and ``tokenizer.count`` finds at most ``config.size``
    tokens in each chunk's text, unless a single character has more. Chunks come in the order of their starts; none
    lies within the one before it. Neither begins nor ends with white space, except that the first line of code keeps
    its indentation. Atoms that fit into a chunk stay whole.

    Args:
        sentence_embedder: compares sentences for strategy ``semantic``, which needs one.
    """
    text = parsed.text
    sections = parsed.sections or (Section(start=0, end=len(text)),)
    if not text or text.isspace():
        return []
    chunks: list[Chunk] = []
    cut = _cut(parsed, sections, config, tokenizer, sentence_embedder)
    for section, spans in zip(sections, cut, strict=True):
        context = context_of(config.context, parsed.title, section.heading_path)
        chunks += [
            Chunk(
                start=start,
                end=end,
                text=text[start:end],
                context=context,
                heading_path=section.heading_path,
                page=section.page,
                parent=parent,
            )
            for (start, end), parent in spans
        ]
    return chunks


def _cut(
    parsed: Parsed,
    sections: Sequence[Section],
    config: ChunkingConfig,
    tokenizer: Tokenizer,
    sentence_embedder: SentenceEmbedder | None,
) -> Iterator[list[tuple[tuple[int, int], Span | None]]]:
    """Each section's chunks as spans, with the span of the parent where there are parents."""
    sums = TokenSums(parsed.text, tokenizer)
    packing = Packing(parsed, sums, config.size, config.overlap, tokenizer)
    regions = [packing.visible(section.start, section.end) for section in sections]
    if config.strategy == "parent-child":
        parents = Packing(parsed, sums, config.parent_size, 0, tokenizer).chunks(regions)
        for spans in parents:
            children = zip(spans, packing.chunks(spans), strict=True)
            yield [(child, Span(start=start, end=end)) for (start, end), cut in children for child in cut]
        return
    if config.strategy == "semantic":
        if sentence_embedder is None:
            raise ValueError("strategy semantic needs a sentence_embedder")
        for parts in subjects(packing, regions, config.percentile, sentence_embedder):
            yield [(span, None) for spans in packing.chunks(parts) for span in spans]
        return
    for spans in packing.chunks(regions):
        yield [(span, None) for span in spans]
