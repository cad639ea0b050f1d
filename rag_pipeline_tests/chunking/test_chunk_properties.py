"""What holds for the chunks of any document, whatever its script, structure and configuration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.chunking import chunk_document
from rag_pipeline.config import ChunkingConfig, EmbeddingConfig
from rag_pipeline.contracts import Chunk, Parsed, Section, Span, Tokenizer
from rag_pipeline.embedding import embedder_for


class WithPrompt:
    """Counts as a model does that puts three tokens before every text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def count(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        return self._tokenizer.count(texts) + 3

    def pieces(self, text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return self._tokenizer.pieces(text)


EMBEDDER = embedder_for(EmbeddingConfig(provider="static"))
STATIC = EMBEDDER.tokenizer
TOKENIZERS: dict[str, Tokenizer] = {
    "static": STATIC,
    "hash": embedder_for(EmbeddingConfig(provider="hash")).tokenizer,
    "static with a prompt": WithPrompt(STATIC),
}

PHRASES = (
    "The kettle near the window. It holds a lantern! Does it? ",
    'fn main() {\n    println!("{}", 1);\n}\n',
    "- one item\n- another item\n\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "我们在这里写一些中文。没有空格，也没有别的东西！「是吗？」他说。",
    "東京は日本の首都です。人口は約一千四百万人、世界最大級の都市です。",
    "ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ",
    "اللغة العربية جميلة. هل تعرفها؟ نعم، أعرفها۔ ",
    "देवनागरी लिपि में लिखा हुआ। दूसरा वाक्य॥ ",
    "👨‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪🇫🇷❤️",
    "e\u0301a\u0300o\u0302" * 5,
    "z" + "\u0336\u0353" * 12,
    "한국어 문장입니다. 각 ",
    "x" * 90,
    "aGVsbG8gd29ybGQhIQ==" * 8,
    '{"key":[1,2,3],"other":{"a":"b"}}',
    "VERY LOUD HEADING\n",
    "<|endoftext|><s></s><unk> ",
    "\r\n\r\n",
    "\n\n\n   \t\n",
    " ",
    "\u3000\u00a0\u2028\x85\x0c",
    "\t\tindented by tabs\n",
    "\ud800\udc00\udfff",
    "▁ ▁▁",
)

texts = st.lists(st.one_of(st.sampled_from(PHRASES), st.text(max_size=12)), max_size=25).map("".join)


@st.composite
def documents(draw: st.DrawFn) -> Parsed:
    text = draw(texts)
    offset = st.integers(0, len(text))
    borders = sorted({0, len(text), *draw(st.lists(offset, max_size=3))})
    sections = tuple(
        Section(start=start, end=end, heading_path=(f"H{index}",), page=index)
        for index, (start, end) in enumerate(pairwise(borders))
    )
    spans = draw(st.lists(st.tuples(offset, offset), max_size=3))
    atoms = tuple(Span(start=min(span), end=max(span)) for span in spans)
    return Parsed(text=text, media_type="text/plain", title="T", sections=draw(st.sampled_from([sections, ()])), atoms=atoms)


@st.composite
def configurations(draw: st.DrawFn) -> ChunkingConfig:
    size = draw(st.one_of(st.integers(8, 40), st.integers(8, 300)))
    strategy = draw(st.sampled_from(["recursive", "semantic", "parent-child"]))
    if strategy == "semantic":
        return ChunkingConfig(strategy="semantic", size=size, percentile=draw(st.sampled_from([50.0, 95.0, 100.0])))
    if strategy == "parent-child":
        parent_size = draw(st.integers(size, 4 * size))
        return ChunkingConfig(strategy="parent-child", size=size, overlap=size // 5, parent_size=parent_size)
    return ChunkingConfig(size=size, overlap=draw(st.one_of(st.just(0), st.integers(0, size - 1))))


def section_of(parsed: Parsed, chunk: Chunk) -> Section:
    whole = Section(start=0, end=len(parsed.text))
    return next(s for s in parsed.sections or (whole,) if s.start <= chunk.start and chunk.end <= s.end)


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
@settings(max_examples=300)
@given(parsed=documents(), config=configurations())
def test_chunks_are_exact_bounded_ordered_and_lose_nothing(
    tokenizer: Tokenizer, parsed: Parsed, config: ChunkingConfig
) -> None:
    chunks = chunk_document(parsed, config, tokenizer, EMBEDDER)

    covered: set[int] = set()
    for chunk in chunks:
        assert parsed.text[chunk.start : chunk.end] == chunk.text
        assert tokenizer.count([chunk.text])[0] <= config.size
        assert chunk.text.rstrip() == chunk.text
        assert "\n" not in chunk.text[: len(chunk.text) - len(chunk.text.lstrip())]
        assert (chunk.heading_path, chunk.page) == (section_of(parsed, chunk).heading_path, section_of(parsed, chunk).page)
        covered.update(range(chunk.start, chunk.end))
    assert not [index for index, character in enumerate(parsed.text) if index not in covered and not character.isspace()]
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
    assert chunk_document(parsed, config, tokenizer, EMBEDDER) == chunks
    if config.strategy == "parent-child":
        check_parents(parsed, chunks, config, tokenizer)


def check_parents(parsed: Parsed, chunks: list[Chunk], config: ChunkingConfig, tokenizer: Tokenizer) -> None:
    """Parents are the chunks that the recursive strategy cuts without overlap, and each holds its children."""
    alone = ChunkingConfig(size=config.parent_size, overlap=0)
    expected = [(chunk.start, chunk.end) for chunk in chunk_document(parsed, alone, tokenizer)]
    parents = list(dict.fromkeys(chunk.parent for chunk in chunks if chunk.parent is not None))
    assert [(parent.start, parent.end) for parent in parents] == expected
    assert all(chunk.parent and chunk.parent.start <= chunk.start < chunk.end <= chunk.parent.end for chunk in chunks)


@settings(max_examples=200)
@given(parsed=documents(), config=configurations())
def test_an_atom_that_fits_into_a_chunk_is_in_one_piece(parsed: Parsed, config: ChunkingConfig) -> None:
    chunks = chunk_document(parsed, config, STATIC, EMBEDDER)
    for atom in parsed.atoms:
        text = parsed.text[atom.start : atom.end]
        start = atom.start + len(text) - len(text.lstrip())
        end = atom.start + len(text.rstrip())
        alone = [a for a in parsed.atoms if a is not atom and a.start < atom.end and atom.start < a.end] == []
        crosses = any(start < s.start < end for s in parsed.sections)
        word_border = all(i in (0, len(parsed.text)) or parsed.text[i - 1].isspace() for i in (start,)) and (
            end == len(parsed.text) or parsed.text[end].isspace()
        )
        if start < end and alone and not crosses and word_border and STATIC.count([text])[0] <= config.size:
            assert any(chunk.start <= start and end <= chunk.end for chunk in chunks)


@settings(max_examples=200)
@given(blank=st.text(alphabet=" \n\t\r\u3000\u00a0\u2028\x0c", max_size=40))
def test_a_text_of_white_space_has_no_chunks(blank: str) -> None:
    parsed = Parsed(text=blank, media_type="text/plain")
    assert chunk_document(parsed, ChunkingConfig(), STATIC) == []


@settings(max_examples=100)
@given(text=texts.filter(lambda text: bool(text.strip())))
def test_a_text_that_fits_is_one_chunk(text: str) -> None:
    size = max(int(STATIC.count([text])[0]), 8)
    chunks = chunk_document(Parsed(text=text, media_type="text/plain"), ChunkingConfig(size=size, overlap=0), STATIC)
    assert [chunk.text.strip() for chunk in chunks] == [text.strip()]
