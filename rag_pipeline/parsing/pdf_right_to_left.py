"""Lines of a PDF page with Arabic or Hebrew on them, put together from where each glyph stands.

PDFium and pypdf take the order of such lines from the order in which a program wrote them. They lose spaces, turn words
round and break lines at vowel signs, each with other programs.
"""

from __future__ import annotations

import math
import statistics
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_pipeline.parsing.bidi import has_right_to_left, is_mark, ligature, logical_order, share_of_right_to_left
from rag_pipeline.parsing.pdf_segment import Segment, is_wide_gap
from rag_pipeline.parsing.pdf_turn import UprightText

_SPACE = 0.17
"""Width of the smallest space in sizes of its font; letters of a word stand closer."""
_BELOW = 0.25
"""How far letters reach below their base line, in sizes of their font."""
_NO_GLYPHS = ("Cc", "Cf", "Cs", "Cn")
_SAME_LINE = 0.5
_MOST_OVERLAP = 0.3
_MOSTLY = 0.5
_HARDLY = 0.2


class Glyph(NamedTuple):
    """One glyph: its letters as they are read, its sides, its base line and the size of its font, all in points."""

    text: str
    left: float
    right: float
    base: float
    size: float

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2

    @property
    def is_space(self) -> bool:
        return self.text.isspace()


def glyphs_between(textpage: UprightText, first: int, last: int) -> list[Glyph]:
    """The glyphs of PDFium's characters in a range, without spaces that PDFium made up."""
    from pypdfium2 import raw

    glyphs: list[Glyph] = []
    marks: list[Glyph] = []
    for index in range(first, last + 1):
        character = chr(raw.FPDFText_GetUnicode(textpage, index))
        if raw.FPDFText_IsGenerated(textpage, index) == 1 or unicodedata.category(character) in _NO_GLYPHS:
            continue
        if is_mark(character):
            marks.append(_glyph(textpage, index, character, tight=True))
            continue
        glyph = _glyph(textpage, index, character, tight=False)
        if glyph.is_space and glyph.left >= glyph.right:
            continue  # PDFium made it up, and does not say so
        if glyphs and glyphs[-1][1:] == glyph[1:] and not glyph.is_space:
            glyphs[-1] = glyphs[-1]._replace(text=glyphs[-1].text + character)
        else:
            glyphs.append(glyph)
    glyphs = [glyph._replace(text=ligature(glyph.text)) if len(glyph.text) > 1 else glyph for glyph in glyphs]
    return _with_marks(glyphs, marks)


def _glyph(textpage: UprightText, index: int, character: str, tight: bool) -> Glyph:
    """
    Args:
        tight: whether its sides are those of what is drawn, rather than those of the room that it takes.
    """
    from pypdfium2 import raw

    box = (None if tight else textpage.room(index)) or textpage.drawn(index)
    matrix = raw.FS_MATRIX()
    scale = math.hypot(matrix.c, matrix.d) if raw.FPDFText_GetMatrix(textpage, index, matrix) else 1.0
    size = scale * raw.FPDFText_GetFontSize(textpage, index)
    return Glyph(character, box.left, box.right, textpage.base_line(index), size)


def _with_marks(glyphs: list[Glyph], marks: Sequence[Glyph]) -> list[Glyph]:
    """Each mark behind the letter that it stands above or below."""
    letters = [place for place, glyph in enumerate(glyphs) if not glyph.is_space]
    for mark in marks:
        if letters:
            nearest = min(letters, key=lambda place: _distance(glyphs[place], mark))
            glyphs[nearest] = glyphs[nearest]._replace(text=glyphs[nearest].text + mark.text)
    return glyphs


def _distance(glyph: Glyph, mark: Glyph) -> tuple[float, float]:
    return max(glyph.left - mark.middle, mark.middle - glyph.right, 0), abs(glyph.middle - mark.middle)


def by_base_line(glyphs: Sequence[Glyph]) -> list[list[Glyph]]:
    """Glyphs that stand on one base line, the upper lines first. Those of a turned page stay together."""
    lines: list[list[Glyph]] = []
    for glyph in sorted(glyphs, key=lambda glyph: -glyph.base):
        if lines and lines[-1][0].base - glyph.base <= _SAME_LINE * max(glyph.size, lines[-1][0].size):
            lines[-1].append(glyph)
        else:
            lines.append([glyph])
    return [list(glyphs)] if len(lines) > 1 and 2 * len(lines) > len(glyphs) else lines


def is_beside(line: Sequence[Glyph], other: Sequence[Glyph]) -> bool:
    """Whether glyphs stand on the line of others: at its height, and not over them."""
    size = min(_size(line), _size(other))
    if size <= 0 or abs(_base(line) - _base(other)) > _SAME_LINE * size:
        return False
    seen = [glyph for glyph in other if not glyph.is_space]
    covered = sum(any(glyph.left < one.middle < glyph.right for glyph in line) for one in seen)
    return covered <= _MOST_OVERLAP * len(seen)


def _size(line: Sequence[Glyph]) -> float:
    return max(glyph.size for glyph in line)


def _base(line: Sequence[Glyph]) -> float:
    return statistics.median(glyph.base for glyph in line)


def is_read_by_glyphs(line: Sequence[Glyph]) -> bool:
    """Whether a line has right-to-left letters, and its glyphs stand side by side: on a turned page they do not."""
    shown = [glyph for glyph in line if not glyph.is_space]
    if not any(has_right_to_left(glyph.text) for glyph in shown):
        return False
    return max(one.base for one in shown) - min(one.base for one in shown) < _size(shown)


def read_line(line: Sequence[Glyph], page_share: float | None) -> list[Segment]:
    """The segments of a line, each as it is read.

    Args:
        page_share: which share of the page's letters belongs to right-to-left scripts; None where the page shows its
            letters in the order in which they are read.
    """
    share = share_of_right_to_left("".join(glyph.text for glyph in line))
    ordered = sorted(line, key=lambda glyph: glyph.middle)
    if (page_share or 0) > _MOSTLY:
        right_to_left = share > _HARDLY
    else:
        right_to_left = share > 1 - _HARDLY or (share > _MOSTLY and _is_between_right_to_left(ordered))
    segments: list[Segment] = []
    for glyphs in _parted(ordered):
        letters = [glyph.text for glyph in glyphs]
        text = "".join(letters) if page_share is None else logical_order(letters, right_to_left)
        segments.append(_segment(glyphs, " ".join(unicodedata.normalize("NFC", text).split())))
    return segments


def _is_between_right_to_left(line: Sequence[Glyph]) -> bool:
    """Whether both the leftmost and the rightmost letter of a line are read from right to left."""
    letters = [glyph.text for glyph in line if any(map(str.isalpha, glyph.text))]
    return bool(letters) and has_right_to_left(letters[0]) and has_right_to_left(letters[-1])


def _parted(line: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """A line cut at wide gaps, with a space in each gap that is one."""
    part: list[Glyph] = []
    end: Glyph | None = None
    for glyph in line:
        if glyph.is_space:
            if part:
                part.append(glyph._replace(text=" "))
            continue
        if end is not None and is_wide_gap(_segment([end]), _segment([glyph])):
            yield part
            part, end = [], None
        if end is not None and glyph.left - end.right > _SPACE * min(glyph.size, end.size):
            part.append(glyph._replace(text=" "))
        part.append(glyph)
        end = glyph if end is None or glyph.right > end.right else end
    if part:
        yield part


def _segment(glyphs: Sequence[Glyph], text: str = "") -> Segment:
    shown = [glyph for glyph in glyphs if not glyph.is_space]
    base, size = _base(shown), _size(shown)
    left, right = min(glyph.left for glyph in shown), max(glyph.right for glyph in shown)
    return Segment(text, left, right, base - _BELOW * size, base + (1 - _BELOW) * size)
