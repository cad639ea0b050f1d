"""Where the semantic strategy cuts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from rag_pipeline.chunking import chunk_document, semantic
from rag_pipeline.config import ChunkingConfig, EmbeddingConfig
from rag_pipeline.contracts import Chunk, EmbedderIdentity, Parsed, Section, Span
from rag_pipeline.embedding import embedder_for

EMBEDDER = embedder_for(EmbeddingConfig(provider="static"))
TOKENIZER = EMBEDDER.tokenizer

BREAD = [
    "Knead the dough until it is smooth.",
    "Let the bread dough rise in a warm bowl.",
    "Bake the loaf in a hot oven.",
    "A good crust needs steam in the oven.",
    "Flour with more protein makes a stronger dough.",
    "Cool the baked loaf before you slice the bread.",
]
STARS = [
    "The telescope gathers light of distant galaxies.",
    "Astronomers measure how far a star is by parallax.",
    "A supernova outshines its whole galaxy.",
    "Planets orbit their star on ellipses.",
    "The telescope stands on a mountain above the clouds.",
    "Galaxies move away from each other as space expands.",
]


def chunks_of(
    text: str, config: ChunkingConfig, *, sections: Sequence[Section] = (), atoms: Sequence[Span] = ()
) -> list[Chunk]:
    parsed = Parsed(text=text, media_type="text/plain", sections=tuple(sections), atoms=tuple(atoms))
    return chunk_document(parsed, config, TOKENIZER, EMBEDDER)


def count(text: str) -> int:
    return int(TOKENIZER.count([text])[0])


def configuration(size: int, percentile: float = 95) -> ChunkingConfig:
    return ChunkingConfig(strategy="semantic", size=size, percentile=percentile)


def test_a_text_is_cut_where_its_subject_changes() -> None:
    text = " ".join([*BREAD, *STARS])
    assert [chunk.text for chunk in chunks_of(text, configuration(size=200))] == [" ".join(BREAD), " ".join(STARS)]


def test_a_text_longer_than_a_chunk_is_cut_at_its_greatest_shift_whatever_the_percentile() -> None:
    text = " ".join([*BREAD, *STARS])
    size = count(text) - 1
    assert [chunk.text for chunk in chunks_of(text, configuration(size, 100))] == [" ".join(BREAD), " ".join(STARS)]


def test_with_percentile_100_a_text_that_fits_stays_whole() -> None:
    text = " ".join([*BREAD, *STARS])
    assert [chunk.text for chunk in chunks_of(text, configuration(count(text), 100))] == [text]


def test_no_cut_leaves_less_than_a_quarter_of_a_chunk() -> None:
    text = " ".join([*BREAD, STARS[0]])  # the last sentence alone is about something else
    size = count(text)
    chunks = chunks_of(text, configuration(size, 50))
    assert all(count(chunk.text) >= size // 4 for chunk in chunks)


def test_a_chunk_never_crosses_a_heading() -> None:
    first, second = " ".join(BREAD[:3]) + "\n", " ".join(BREAD[3:])
    sections = [
        Section(start=0, end=len(first), heading_path=("Dough",)),
        Section(start=len(first), end=len(first) + len(second), heading_path=("Oven",)),
    ]
    chunks = chunks_of(first + second, configuration(size=400), sections=sections)
    assert [(chunk.text, chunk.heading_path) for chunk in chunks] == [(first.strip(), ("Dough",)), (second, ("Oven",))]


def test_a_sentence_longer_than_a_chunk_is_cut_as_the_recursive_strategy_does() -> None:
    text = "word " * 300
    assert [chunk.text for chunk in chunks_of(text, configuration(size=64))] == [
        chunk.text for chunk in chunks_of(text, ChunkingConfig(size=64, overlap=0))
    ]


def test_an_atom_that_fits_is_in_one_chunk() -> None:
    code = "step_one(). Then step_two(). Then galaxies(). Then bread()."
    text = " ".join([*BREAD, code, *STARS])
    at = text.index(code)
    chunks = chunks_of(text, configuration(size=60, percentile=50), atoms=[Span(start=at, end=at + len(code))])
    assert sum(code in chunk.text for chunk in chunks) == 1


def test_a_long_text_is_compared_some_sentences_at_a_time_with_the_same_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join((BREAD + STARS) * 8)
    whole = chunks_of(text, configuration(size=120, percentile=80))
    monkeypatch.setattr(semantic, "_GAPS_AT_A_TIME", 7)
    assert chunks_of(text, configuration(size=120, percentile=80)) == whole
    assert len(whole) > 8


class Wordless:
    """An embedder that knows no word of any text."""

    identity = EmbedderIdentity(provider="test", model="wordless", revision="1", dimensions=4)

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.zeros((len(texts), 4), dtype=np.float32)


def test_sentences_without_a_vector_are_cut_by_size_alone() -> None:
    text = " ".join([*BREAD, *STARS])
    parsed = Parsed(text=text, media_type="text/plain")
    chunks = chunk_document(parsed, configuration(size=40), TOKENIZER, Wordless())
    assert " ".join(chunk.text for chunk in chunks) == text
    assert all(count(chunk.text) <= 40 for chunk in chunks)


def test_the_strategy_asks_for_an_embedder() -> None:
    with pytest.raises(ValueError, match="sentence_embedder"):
        chunk_document(Parsed(text="Text.", media_type="text/plain"), configuration(size=40), TOKENIZER)
