"""What crosses the boundary between two rooms. All of it is frozen, typed and validated."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from rag_pipeline.hashing import text_hash, value_hash

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

HEADING_SEPARATOR = " > "
"""Joins a heading path into the text that filters and context lines show."""


class Contract(BaseModel):
    """Base of the contracts: immutable, and no field that was not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceItem(Contract):
    """One file or object as a listing shows it, before it is read.

    ``path`` is relative to the source's root, with ``/`` between folders. ``etag`` is None where the store has none;
    ``etag_is_exact`` where an equal one means equal bytes, whatever the clocks say.
    """

    path: str
    size: int
    modified_at: datetime
    etag: str | None = None
    etag_is_exact: bool = False


class Section(Contract):
    """A span ``[start, end)`` of a document's text, in characters, under one heading path and on one page."""

    start: int
    end: int
    heading_path: tuple[str, ...] = ()
    page: int | None = None


class Span(Contract):
    """A span ``[start, end)`` of a document's text, in characters."""

    start: int
    end: int


class Parsed(Contract):
    """What a parser makes of bytes.

    ``sections`` are in order, do not overlap and cover every character that is not white space.
    ``atoms`` are spans that a chunk should not tear when they fit into one (code fences, table rows).
    ``title`` comes from the content, never from the file name: a renamed file must embed to the same vectors.
    ``metadata`` holds JSON values only (dates as ISO 8601 text).
    ``losses`` say, each in one line for people, what of the document could not be read although the rest was.
    """

    text: str
    media_type: str
    title: str | None = None
    sections: tuple[Section, ...] = ()
    atoms: tuple[Span, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    losses: tuple[str, ...] = ()


class Document(Contract):
    """One source item after parsing, or one row of a source that holds a document a row.

    ``document_id`` is unique in its corpus and stays the same from refresh to refresh: the path of a file, the mapped
    id of a row. ``source`` is what a hit shows; for a row it names the file too.
    """

    document_id: str
    source: str
    path: str
    modified_at: datetime | None
    parsed: Parsed

    @property
    def content_hash(self) -> str:
        """SHA-256 of the text."""
        return text_hash(self.parsed.text)


class Chunk(Contract):
    """A span of a document: ``document.text[start:end] == text``.

    ``context`` is the line under which the text is embedded and indexed (title and heading path); it may be empty.
    ``parent`` is the larger span that is shown for it, where the corpus has such.
    """

    start: int
    end: int
    text: str
    context: str
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    parent: Span | None = None

    @property
    def indexed_text(self) -> str:
        """What is embedded and put into the lexical index."""
        return f"{self.context}\n{self.text}" if self.context else self.text


class EmbedderIdentity(Contract):
    """Everything that makes two vectors comparable. Vectors of two identities are never compared."""

    provider: str
    model: str
    revision: str
    dimensions: int
    normalised: bool = True
    document_prompt: str = ""
    query_prompt: str = ""

    @property
    def key(self) -> str:
        """SHA-256 over all fields; names the identity's table in the embedding cache."""
        return value_hash(self.model_dump(mode="json"))

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}@{self.revision[:12]} ({self.dimensions} dimensions)"


class ModelAccess(Contract):
    """How the query module gets at the model that made a snapshot's vectors; none of it decides results.

    ``model`` is the folder of a model of one's own. ``dimensions`` is the width that a hosted model is asked for, None
    where it has one only.
    """

    model: str | None = None
    api_base: str | None = None
    dimensions: int | None = None


class EmbeddingSpend(Contract):
    """What embedding took since the snapshot before: ``cost_usd`` is None where no price is known."""

    texts: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0


class TableVersion(Contract):
    """One version of a LanceDB table, kept by a tag of that name.

    A candidate that is evaluated before it is published has no tag: only the refresh that works on it reads it.
    """

    name: str
    version: int
    tag: str | None


class BM25Segment(Contract):
    """One immutable file of postings, and the file that marks which of its chunks were deleted since."""

    file: str
    sha256: str
    chunks: int
    deletions_file: str | None = None
    deletions_sha256: str | None = None
    deleted: int = 0


class Counts(Contract):
    """How much a snapshot holds."""

    documents: int
    stale_documents: int
    failed_documents: int
    chunks: int


WRITTEN_LINES = "context_lines"
"""Key of a manifest's chunking: the hash over the lines that a chat model wrote, which is no configuration."""


class SnapshotContent(Contract):
    """The part of a manifest that decides results, and nothing else: equal contents give equal hashes.

    ``query_model`` embeds queries into the space of ``embedder`` where it is not the same model.
    ``documents`` maps document id to the SHA-256 over the document's text, structure and metadata.
    """

    embedder: EmbedderIdentity
    query_model: str | None = None
    chunking: dict[str, Any]
    lexical: dict[str, Any]
    retrieval: dict[str, Any]
    metadata_columns: dict[str, str]
    documents: dict[str, str]

    @property
    def hash(self) -> str:
        return f"sha256:{value_hash(self.model_dump(mode='json'))}"


class EvaluationRecord(Contract):
    """How well a snapshot answered when it was published.

    ``kind`` tells whether the corpus's own queries were asked or known items, which its titles and headings make.
    ``figures`` are means by mode and metric. ``accepted`` are the findings against which it was published on purpose.
    ``content`` is the hash of the content that was measured, where that is an earlier one which was taken for near enough;
    ``drift`` is the part of the documents that have changed since, counted each time they did.
    """

    kind: Literal["queries", "known_items"]
    query_set: str = Field(description="SHA-256 of the queries and their judgements")
    queries: int
    figures: dict[str, dict[str, float]]
    accepted: tuple[str, ...] = ()
    content: str | None = None
    drift: float = 0.0


class TunedFusion(Contract):
    """The weight of BM25 in hybrid searches that a corpus's own queries chose, and what it is worth.

    ``bm25_weight`` is what searches use, ``default_weight`` what they would use without it: the two are equal where the
    queries gave no reason to move. ``default_figure`` and ``tuned_figure`` are means of ``metric`` under either, over the
    ``reported_on`` queries that had no part in the choice.
    """

    bm25_weight: float
    default_weight: float
    metric: str
    query_set: str = Field(description="SHA-256 of the queries and their judgements")
    tuned_on: int
    reported_on: int
    default_figure: float
    tuned_figure: float


class Manifest(Contract):
    """One snapshot: everything that a reader opens, and where it came from.

    ``fusion`` is there where `retrieval.fusion: auto` was tuned. Like ``model_access`` it is not part of ``hash``, which is
    made before anything is asked.
    """

    format: int = 1
    corpus: str
    snapshot: int
    hash: str
    created_at: datetime
    run_id: str | None
    content: SnapshotContent
    vector_table: TableVersion
    bm25: tuple[BM25Segment, ...]
    counts: Counts
    model_access: ModelAccess = ModelAccess()
    fusion: TunedFusion | None = None
    embedding: EmbeddingSpend | None = None
    evaluation: EvaluationRecord | None = None


class Passage(Contract):
    """A span ``[start, end)`` of a document's text, in characters, and the chunk that it is, or is the beginning of."""

    chunk_id: str
    start: int
    end: int
    text: str


class Hit(Contract):
    """One result. ``sources`` lists every source that holds this very text; ``source`` is the best of them.

    ``text``, ``start`` and ``end`` are those of the chunk ``chunk_id``, or of its parent where the corpus has parents;
    ``matched`` is the chunk then, and None elsewhere. ``before`` and ``after`` are the neighbours that were asked for, in
    the order of the document.
    """

    rank: int
    score: float
    source: str
    document_id: str
    chunk_id: str
    text: str
    metadata: dict[str, Any]
    title: str | None = None
    heading_path: str = ""
    page: int | None = None
    start: int
    end: int
    sources: tuple[str, ...] = ()
    matched: Passage | None = None
    before: tuple[Passage, ...] = ()
    after: tuple[Passage, ...] = ()


class Tokenizer(Protocol):
    """Counts tokens as the corpus's embedder does. Chunk sizes are measured with it."""

    @property
    def key(self) -> str:
        """Names how it counts: tokenizers of one key count alike. With another key documents are cut again."""
        ...

    def count(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Tokens of each text standing alone, shape ``(len(texts),)``."""
        ...

    def pieces(self, text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Cut a text where token boundaries surely fall.

        Returns:
            The end offset of each piece in characters (ascending, the last is ``len(text)``) and the tokens of each
            piece in its place. A span of whole pieces has about the sum of their tokens; only its first piece may
            count otherwise when it stands at the start of a text.
        """
        ...


class SentenceEmbedder(Protocol):
    """Turns sentences into vectors that tell by their cosine how alike they are."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Everything that decides the vectors."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row a text, of length 1 or all zeros."""
        ...
