"""A piece of a line of a PDF page."""

from __future__ import annotations

from typing import NamedTuple

_LEAST_GAP, _CELL_GAP = 0.8, 1.1
"""In heights of a line, what parts cells where two rows near by agree, and where one does. Justified prose mostly has gaps
of up to half of one."""


class Segment(NamedTuple):
    """A piece of a line without a wide gap in it. Coordinates are points; all are 0 where its place is not known."""

    text: str
    left: float
    right: float
    bottom: float
    top: float

    @property
    def height(self) -> float:
        return self.top - self.bottom

    def joined(self, other: Segment) -> Segment:
        """This segment with one more word."""
        text = f"{self.text} {other.text}"
        if self.height <= 0 or other.height <= 0:
            return Segment(text, 0, 0, 0, 0)
        left, right = min(self.left, other.left), max(self.right, other.right)
        return Segment(text, left, right, min(self.bottom, other.bottom), max(self.top, other.top))


def is_gap(first: Segment, second: Segment) -> bool:
    """Whether two neighbours of a line stand further apart than words mostly do."""
    return _gap(first, second) > _LEAST_GAP


def is_wide_gap(first: Segment, second: Segment) -> bool:
    """Whether two neighbours of a line stand further apart than words do."""
    return _gap(first, second) > _CELL_GAP


def _gap(first: Segment, second: Segment) -> float:
    """How far two neighbours stand apart, in heights of the line; 0 where that is not known."""
    if first.height <= 0 or second.height <= 0:
        return 0
    return max(second.left - first.right, first.left - second.right) / max(first.height, second.height)
