"""One page of a PDF through PDFium: its lines with their places, whether it is a picture, and that picture."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rag_pipeline.parsing.bidi import has_right_to_left, is_turned_round, share_of_right_to_left
from rag_pipeline.parsing.pdf_right_to_left import (
    Glyph,
    by_base_line,
    glyphs_between,
    is_beside,
    is_read_by_glyphs,
    read_line,
)
from rag_pipeline.parsing.pdf_segment import Segment, is_gap
from rag_pipeline.parsing.pdf_turn import Box, UprightText

_LINE = re.compile("[^\n\ufffe]*[\n\ufffe]|[^\n\ufffe]+")
_WORD = re.compile(r"\S+")
_PICTURE_SHARE = 0.3
_DOTS_PER_POINT = 300 / 72
_MOST_DOTS = 25_000_000
_DEEPEST_FORM = 4
_LINES_BACK = 8


def page_lines(page: Any) -> list[list[Segment]]:
    """The lines of a page in the order of its content, each as the segments that wide gaps part.

    The page is turned so that its letters stand upright. A line that PDFium ends at a hyphen gets its hyphen back.
    """
    textpage = UprightText(page)
    try:
        text = textpage.text()
        if has_right_to_left(text):
            return _lines_of_glyphs(textpage, text)
        return [line for _, found in _lines_of_words(textpage, text) for line in _levels(found)]
    finally:
        textpage.close()


def _lines_of_words(textpage: UprightText, text: str) -> Iterator[tuple[tuple[int, int], list[Segment]]]:
    """Each line with the range of its text."""
    position = 0  # in UTF-16 units, as PDFium counts
    for line in _LINE.findall(text):
        segments = _segments(textpage, line.rstrip("\n\ufffe"), position)
        if segments and line.endswith("\ufffe"):
            segments[-1] = segments[-1]._replace(text=f"{segments[-1].text}-")
        length = _units(line)
        yield (position, position + length - 1), segments
        position += length


def _lines_of_glyphs(textpage: UprightText, text: str) -> list[list[Segment]]:
    """The lines of a page with right-to-left letters; what was written in several pieces is put together first."""
    share = share_of_right_to_left(text)
    lines: list[_Line] = []
    for (first, last), segments in _lines_of_words(textpage, text):
        if not segments:
            continue
        found = by_base_line(glyphs_between(textpage, _index(textpage, first), _index(textpage, last)))
        if len(found) < 2:
            _add(_Line(found[0] if found else [], [segments]), lines, lines[-1:])
            continue
        # PDFium takes rows for one line where each glyph was written for itself; parts of them may stand before it.
        earlier = lines[-_LINES_BACK:]
        for glyphs in found:
            _add(_Line(glyphs, None), lines, earlier)
    read = [
        read_line(line.glyphs, share) if line.pieces is None or is_read_by_glyphs(line.glyphs) else None for line in lines
    ]
    if is_turned_round("\n".join(segment.text for line in read for segment in line or ())):
        read = [segments and read_line(line.glyphs, None) for segments, line in zip(read, lines, strict=True)]
    return [
        each for segments, line in zip(read, lines, strict=True) for each in ([segments] if segments else line.pieces or ())
    ]


@dataclass
class _Line:
    """A line by its glyphs, and by the lines of PDFium that are all of it, None where PDFium divides it otherwise."""

    glyphs: list[Glyph]
    pieces: list[list[Segment]] | None


def _add(line: _Line, lines: list[_Line], earlier: Sequence[_Line]) -> None:
    """Add glyphs to the one of the earlier lines that they continue, or as a line of their own."""
    for other in reversed(earlier):
        if line.glyphs and other.glyphs and is_beside(other.glyphs, line.glyphs):
            other.glyphs += line.glyphs
            other.pieces = None if other.pieces is None or line.pieces is None else other.pieces + line.pieces
            return
    lines.append(line)


def _index(textpage: UprightText, text_index: int) -> int:
    from pypdfium2 import raw

    return int(raw.FPDFText_GetCharIndexFromTextIndex(textpage, text_index))


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _segments(textpage: UprightText, line: str, position: int) -> list[Segment]:
    segments: list[Segment] = []
    end = place = 0
    for word in _WORD.finditer(line):
        place += _units(line[end : word.end()])
        end = word.end()
        first, last = _room(textpage, position + place - _units(word[0])), _room(textpage, position + place - 1)
        if first is None or last is None or min(first.top, last.top) <= max(first.bottom, last.bottom):
            found = Segment(word[0], 0, 0, 0, 0)
        else:
            left, right = min(first.left, last.left), max(first.right, last.right)
            found = Segment(word[0], left, right, min(first.bottom, last.bottom), max(first.top, last.top))
        if segments and not is_gap(segments[-1], found) and _are_level(segments[-1], found):
            segments[-1] = segments[-1].joined(found)
        else:
            segments.append(found)
    return segments


def _levels(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """A line of PDFium, cut where it goes on above or below itself: cells of two rows that were written one by one."""
    line: list[Segment] = []
    for segment in segments:
        if line and not _are_level(line[-1], segment):
            yield line
            line = []
        line.append(segment)
    if line:
        yield line


def _are_level(first: Segment, second: Segment) -> bool:
    if first.height <= 0 or second.height <= 0:
        return True
    return min(first.top, second.top) > max(first.bottom, second.bottom)


def _room(textpage: UprightText, text_index: int) -> Box | None:
    return textpage.room(_index(textpage, text_index))


def has_picture(page: Any) -> bool:
    """Whether a picture covers a good part of the page."""
    from pypdfium2 import raw

    width, height = page.get_size()
    for picture in page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=_DEEPEST_FORM):
        left, bottom, right, top = picture.get_bounds()
        if (right - left) * (top - bottom) > _PICTURE_SHARE * width * height:
            return True
    return False


def is_empty(page: Any) -> bool:
    """Whether nothing at all was found on the page: it is blank, or its content could not be read."""
    return next(iter(page.get_objects(max_depth=1)), None) is None


def page_picture(page: Any) -> bytes:
    """The page drawn in 300 dots an inch, or fewer where it is large, as PNG."""
    width, height = page.get_size()
    scale = min(_DOTS_PER_POINT, (_MOST_DOTS / max(width * height, 1)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    try:
        return _png(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride)
    finally:
        bitmap.close()


def _png(grey: bytes, width: int, height: int, stride: int) -> bytes:
    """Eight-bit grey samples as a PNG file (RFC 2083)."""
    rows = b"".join(b"\0" + grey[line * stride : line * stride + width] for line in range(height))

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(rows, 1)) + part(b"IEND", b"")
