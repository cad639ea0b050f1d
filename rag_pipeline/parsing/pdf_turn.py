"""The text of a PDF page as it stands once the page is turned so that its letters stand upright."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

_CHARACTERS_SEEN = 100


class Box(NamedTuple):
    """A rectangle, in points from the lower left of the page as it is turned."""

    left: float
    right: float
    bottom: float
    top: float


class UprightText:
    """The text of a page whose letters stand upright, whatever the page's rotation says.

    PDFium reads a page in the order in which it is shown: where that is upside down or on its side, from the end. So the
    page is turned first. PDFium's places know nothing of turns; those given here do.

    PDFium's functions take it in place of the page of text that it wraps.
    """

    def __init__(self, page: Any) -> None:
        from pypdfium2 import raw

        self._raw = raw
        self._textpage = page.get_textpage()
        quarters = _turn_of_letters(self._textpage)
        if quarters is not None and 90 * quarters != page.get_rotation():
            self._textpage.close()
            page.set_rotation(90 * quarters)
            self._textpage = page.get_textpage()
        self._quarters = page.get_rotation() // 90
        self._as_parameter_ = self._textpage._as_parameter_

    def close(self) -> None:
        self._textpage.close()

    def text(self) -> str:
        """All of it. PDFium ends a line by CR and LF, or by U+FFFE where a hyphen divides a word."""
        return str(self._textpage.get_text_range())

    def room(self, index: int) -> Box | None:
        """The room that a character takes, as high as its line."""
        box = self._raw.FS_RECTF()
        if index < 0 or not self._raw.FPDFText_GetLooseCharBox(self, index, box):
            return None
        return self._turned_box(box.left, box.bottom, box.right, box.top)

    def drawn(self, index: int) -> Box:
        """What is drawn of a character."""
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        self._raw.FPDFText_GetCharBox(self, index, left, right, bottom, top)
        return self._turned_box(left.value, bottom.value, right.value, top.value)

    def base_line(self, index: int) -> float:
        """The height at which a character stands."""
        x, y = ctypes.c_double(), ctypes.c_double()
        self._raw.FPDFText_GetCharOrigin(self, index, x, y)
        return self._turned(x.value, y.value)[1]

    def _turned_box(self, left: float, bottom: float, right: float, top: float) -> Box:
        if not self._quarters:
            return Box(left, right, min(bottom, top), max(bottom, top))
        (one, low), (other, high) = self._turned(left, bottom), self._turned(right, top)
        return Box(min(one, other), max(one, other), min(low, high), max(low, high))

    def _turned(self, x: float, y: float) -> tuple[float, float]:
        return ((x, y), (y, -x), (-x, -y), (-y, x))[self._quarters]


def _turn_of_letters(textpage: Any) -> int | None:
    """By how many quarters, clockwise, a page has to be turned so that most of its letters stand upright."""
    turns = Counter(_turns(textpage))
    return turns.most_common(1)[0][0] if turns else None


def _turns(textpage: Any) -> Iterator[int]:
    from pypdfium2 import raw

    count = textpage.count_chars()
    matrix = raw.FS_MATRIX()
    for index in range(0, count, max(1, count // _CHARACTERS_SEEN)):
        if raw.FPDFText_IsGenerated(textpage, index) == 1 or not raw.FPDFText_GetMatrix(textpage, index, matrix):
            continue
        if matrix.a * matrix.d - matrix.b * matrix.c <= 0:
            yield 0  # mirrored, as some programs write what they turn round a second time
        elif abs(matrix.a) >= abs(matrix.b):
            yield 0 if matrix.a > 0 else 2
        else:
            yield 1 if matrix.b > 0 else 3
