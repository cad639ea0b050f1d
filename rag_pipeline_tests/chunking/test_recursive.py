"""Where the recursive chunker cuts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import pytest

from rag_pipeline.chunking import chunk_document
from rag_pipeline.config import ChunkingConfig, EmbeddingConfig
from rag_pipeline.contracts import Chunk, Parsed, Section, Span
from rag_pipeline.embedding import embedder_for

TOKENIZER = embedder_for(EmbeddingConfig(provider="static")).tokenizer


def chunks_of(
    text: str,
    size: int,
    overlap: int = 0,
    *,
    sections: Sequence[Section] = (),
    atoms: Sequence[str] = (),
) -> list[Chunk]:
    spans = tuple(Span(start=text.index(atom), end=text.index(atom) + len(atom)) for atom in atoms)
    parsed = Parsed(text=text, media_type="text/plain", sections=tuple(sections), atoms=spans)
    return chunk_document(parsed, ChunkingConfig(size=size, overlap=overlap), TOKENIZER)


def texts_of(text: str, size: int, overlap: int = 0, *, atoms: Sequence[str] = ()) -> list[str]:
    return [chunk.text for chunk in chunks_of(text, size, overlap, atoms=atoms)]


def count(text: str) -> int:
    return int(TOKENIZER.count([text])[0])


PARAGRAPHS = [
    "The kettle stands near the window. It holds water from the well.",
    "The lantern hangs over the door. It burns the whole night.",
    "The meadow lies behind the house. Nobody walks there in winter.",
]


def test_a_short_section_is_one_chunk_without_the_white_space_around_it() -> None:
    assert texts_of("\n\n  A short text.\n\n \t\n", 64) == ["A short text."]


def test_paragraphs_stay_whole_where_they_fit() -> None:
    size = max(map(count, PARAGRAPHS)) + 2
    assert texts_of("\n\n".join(PARAGRAPHS), size) == PARAGRAPHS


def test_neighbouring_paragraphs_share_a_chunk_up_to_its_size() -> None:
    text = "\n\n".join(PARAGRAPHS)
    assert texts_of(text, count("\n\n".join(PARAGRAPHS[:2])) + 2) == ["\n\n".join(PARAGRAPHS[:2]), PARAGRAPHS[2]]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\u2028"], ids=["LF", "CRLF", "CR", "LS"])
def test_a_paragraph_is_a_better_place_to_cut_than_a_line(line_end: str) -> None:
    verse = line_end.join(["The kettle,", "The lantern,", "The meadow,", "The well."])
    chunks = texts_of((2 * line_end).join([verse] * 9), count(verse) * 2 - 2)
    assert chunks == [verse] * 9


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [sentence for paragraph in PARAGRAPHS for sentence in paragraph.replace(". It", ".\0It").split("\0")]
    chunks = texts_of(" ".join(sentences), 24)
    assert len(chunks) > 2
    assert all(chunk.endswith(".") and chunk[0].isupper() for chunk in chunks)


@pytest.mark.parametrize(
    "sentences",
    [
        ["我们在这里写一些中文。", "没有空格，也没有别的东西！", "「这是真的吗？」", "他这样说了。"] * 3,
        ["東京は日本の首都です。", "人口は約一千四百万人です。"] * 4,
        ["देवनागरी लिपि में लिखा हुआ। ", "दूसरा वाक्य यहाँ है। "] * 4,
        ["هل تعرف هذه المدينة؟ ", "نعم، أعرفها جيدا۔ "] * 6,
        ["Did he ask? ", "“He did!” ", "Then (as ever) nothing happened… "] * 6,
        ["「他昨天是不是在那里？」", "『是的，他在那里。』"] * 6,
    ],
    ids=["chinese", "japanese", "hindi", "arabic", "quotes", "chinese quotes"],
)
def test_sentences_end_in_the_manner_of_their_script(sentences: list[str]) -> None:
    borders = {0}
    for sentence in sentences:
        borders.add(max(borders) + len(sentence))
    for size in (max(map(count, sentences)) + 1, max(map(count, sentences)) * 2):
        chunks = chunks_of("".join(sentences), size)
        assert len(chunks) > 2
        assert {chunk.start for chunk in chunks} <= borders


def test_an_abbreviation_ends_no_sentence() -> None:
    text = "Take some fruit, e.g. an apple or a pear, a plum or a cherry. " * 12
    for size in range(40, 80):
        chunks = texts_of(text, size)
        assert len(chunks) > 3
        assert all(chunk.startswith("Take ") for chunk in chunks)


def test_a_short_paragraph_does_not_stay_alone_before_a_long_one() -> None:
    text = "A short one.\n\n" + " ".join(PARAGRAPHS * 4)
    assert texts_of(text, 60)[0].startswith("A short one.\n\nThe kettle")


def test_hard_wrapped_lines_are_cut_between_sentences_not_lines() -> None:
    text = (
        "The kettle near the window holds a lantern, and every garden by the\n"
        "village keeps its meadow. The orchard near the market holds a ladder, and every\n"
        "corner by the river keeps its copper. The harbour near the island holds a pencil, and\n"
        "every summer by the station keeps its music.\n"
    )
    assert all(chunk.startswith("The ") and chunk.endswith(".") for chunk in texts_of(text, 44))


def test_lines_of_a_list_stay_whole() -> None:
    lines = [f"- item number {number} of the list with some words" for number in range(12)]
    for chunk in texts_of("\n".join(lines), 40):
        assert set(chunk.split("\n")) <= set(lines)


def test_a_chunk_never_crosses_a_section() -> None:
    text = "".join(PARAGRAPHS)
    border = len(PARAGRAPHS[0])
    sections = [
        Section(start=0, end=border, heading_path=("Kitchen",), page=1),
        Section(start=border, end=len(text), heading_path=("House", "Door"), page=2),
    ]
    chunks = chunks_of(text, 500, 100, sections=sections)
    assert [(chunk.text, chunk.heading_path, chunk.page) for chunk in chunks] == [
        (text[:border], ("Kitchen",), 1),
        (text[border:], ("House", "Door"), 2),
    ]
    assert [chunk.context for chunk in chunks] == ["Kitchen", "House > Door"]


def test_empty_sections_have_no_chunk() -> None:
    text = "# A\n\n\n \n# B\n"
    sections = [Section(start=0, end=4), Section(start=4, end=8), Section(start=8, end=len(text))]
    assert [chunk.text for chunk in chunks_of(text, 64, sections=sections)] == ["# A", "# B"]


def test_the_next_chunk_repeats_whole_sentences_up_to_the_overlap() -> None:
    sentences = [f"Sentence number {number} is about a kettle." for number in range(20)]
    text = " ".join(sentences)
    one = count(sentences[0])
    chunks = chunks_of(text, one * 5, one + one // 2)
    for before, after in pairwise(chunks):
        repeated = text[after.start : before.end]
        assert repeated in sentences
    assert not any(text[after.start : before.end].strip() for before, after in pairwise(chunks_of(text, one * 5)))


def test_an_overlap_just_below_the_size_still_moves_on() -> None:
    text = "kettle lantern window meadow " * 40
    chunks = chunks_of(text, 16, 15)
    assert chunks[-1].end == len(text.rstrip())
    assert len(chunks) <= 160


def test_no_tiny_chunk_is_left_at_the_end() -> None:
    words = ["kettle", "lantern", "window", "meadow", "garden", "village", "copper", "ladder"]
    for length in range(30, 80):
        text = " ".join(words[index % len(words)] for index in range(length))
        sizes = TOKENIZER.count(texts_of(text, 48)).tolist()
        assert min(sizes) >= 11


CODE = "```python\ndef kettle(water):\n    if water:\n        return boil(water)\n    return None\n```"


def test_a_code_fence_that_fits_is_not_torn() -> None:
    text = f"{PARAGRAPHS[0]}\n\n{CODE}\n\n{PARAGRAPHS[1]}"
    for size in range(count(CODE), 120):
        for overlap in (0, size // 3, size - 1):
            assert any(CODE in chunk for chunk in texts_of(text, size, overlap, atoms=[CODE]))


def test_a_code_fence_that_does_not_fit_is_cut_between_lines() -> None:
    body = [f"    value_{number} = kettle({number}) + lantern[{number}].  Next = 1" for number in range(30)]
    fence = "\n".join(["```", "def f():", *body, "```"])
    lines = {"Before.", "After.", "", "```", "def f():", *body}
    for overlap in (0, 10, 40):
        chunks = texts_of(f"Before.\n\n{fence}\n\nAfter.", 100, overlap, atoms=[fence])
        assert len(chunks) > 5
        assert {line for chunk in chunks for line in chunk.split("\n")} <= lines


def test_the_first_line_of_code_keeps_its_indentation() -> None:
    code = "    four_columns()\n        eight_columns()"
    assert texts_of(f"\n\n{code}\n", 64) == [code]
    assert texts_of("\n  prose\n", 64) == ["prose"]
    assert texts_of("  in an atom\n", 64, atoms=["  in an atom"]) == ["  in an atom"]
    assert texts_of("\tindented by a tab", 64) == ["\tindented by a tab"]
    lines = [f"  value_{number} = kettle({number})" for number in range(40)]
    fence = "\n".join(lines)
    assert all(chunk.startswith("  value") for chunk in texts_of(fence, 64, atoms=[fence]))
    assert all(chunk.startswith("value") for chunk in texts_of(fence, 64))


def test_a_word_longer_than_a_chunk_is_cut_into_parts_of_about_one_length() -> None:
    blob = "q" * 5000
    chunks = texts_of(f"before {blob} after", 64)
    parts = [chunk for chunk in chunks if set(chunk) == {"q"}]
    assert "".join(parts) == blob
    assert max(map(len, parts)) < 2 * min(map(len, parts))


def test_a_long_line_of_data_is_cut_beside_punctuation() -> None:
    data = ",".join(f'{{"name":"kettle{number}","size":{number}}}' for number in range(200))
    for chunk in texts_of(data, 64)[1:]:
        assert not (chunk[0].isalnum() and data[data.index(chunk) - 1].isalnum())


@pytest.mark.parametrize(
    "character",
    ["👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "e\u0301\u0327", "각", "ที่"],
    ids=["family", "rainbow", "skin tone", "flag", "accents", "jamo", "thai"],
)
def test_what_a_reader_sees_as_one_character_is_not_torn(character: str) -> None:
    chunks = texts_of(character * 60, max(count(character) + 4, 8))
    assert len(chunks) > 5
    assert all(chunk == character * (len(chunk) // len(character)) for chunk in chunks)


def test_a_character_longer_than_a_chunk_is_torn_rather_than_lost() -> None:
    text = "z" + "\u0336\u0353" * 40
    chunks = texts_of(text, 8)
    assert "".join(chunks) == text
    assert TOKENIZER.count(chunks).max() <= 8


def test_every_line_is_found_in_some_chunk_also_short_and_repeated_ones() -> None:
    lines = ["Title", ""]
    for number in range(120):
        lines.append(f"Lamp mark{number:03} stays lit.")
        lines.extend(["Same line again.", ""] * (number % 5 == 0))
        lines.extend(["ok"] * (number % 7 == 0))
    text = "\n".join([*lines, "", "x", ""])
    chunks = chunks_of(text, 32, 8)
    assert all(any(line in chunk.text for chunk in chunks) for line in lines)
    assert chunks[-1].text.endswith("x")


def test_what_looks_like_a_control_token_is_kept() -> None:
    text = "The string <|endoftext|> ends a text; <|im_start|>, <s>, </s>, [MASK] and <pad> are others. " * 4
    assert "<|endoftext|>" in texts_of(text, 64)[0]


def test_a_large_document_takes_time_in_proportion() -> None:
    text = "".join(f"Line {number} of a long document, about kettles and lanterns.\n" for number in range(30_000))
    started = time.process_time()
    chunks = chunks_of(text, 480, 64)
    assert time.process_time() - started < 5
    assert len(chunks) > 500


def test_a_huge_line_without_a_space_takes_time_in_proportion() -> None:
    started = time.process_time()
    chunks = chunks_of("0123456789abcdef" * 60_000, 480, 64)
    assert time.process_time() - started < 10
    assert len(chunks) > 500
